"""Contrastive explanations: a batch's logits reduced to the log-odds of two classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from rationales.models.classes import Head, class_logits

REJECTED, CHOSEN = 0, 1  # the two classes of a contrasted batch


@dataclass(frozen=True, eq=False)
class Contrast:
    """The two classes of every row, and the head and classes of the batch without the contrast."""

    pair: Tensor  # (S, 2): the explained class and its rival
    head: Head
    classes: int

    def logits(self, row: Tensor, outputs: Tensor) -> Tensor:
        """(R,), (R, outputs) -> (R, 2): d = logit_A - logit_B of the rows as the pair (-d, d) of a sigmoid head.

        A's logit, its log-odds and log(p_A / p_B) are all d, and its probability is p_A / (p_A + p_B). For classes that
        are predicted independently, the odds take the place of the probabilities.
        """
        chosen, rejected = class_logits(self.head, outputs).gather(-1, self.pair[row]).unbind(-1)
        difference = chosen - rejected
        if self.head is Head.SIGMOID:  # the pair (-z, z) holds the log-odds z of the same two classes twice
            difference = difference / 2
        return class_logits(Head.SIGMOID, difference[..., None])

    def of_inputs(self, row_input: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
        """(inputs,) twice: the explained class and its rival, from the input (S,) of every row."""
        table = self.pair.new_zeros(inputs, 2).index_copy(0, row_input, self.pair)
        return table[:, 0], table[:, 1]

    def take(self, index: Tensor) -> Contrast:
        """The contrast of the rows `index` alone."""
        return replace(self, pair=self.pair[index])
