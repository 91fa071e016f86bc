"""LIME-BERT: random words are filled in by a masked language model (Pham et al. 2022, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.methods.method import Attribution, Progress
from rationales.methods.perturbation.filler_method import FillerMethod
from rationales.methods.support.linear_model import Kept, check_fit, fit_random_keeps
from rationales.models.batch import Batch
from rationales.models.batch.rows import distinct_rows
from rationales.models.classes import OUTPUTS, explained_output
from rationales.models.text.batch import TextBatch
from rationales.models.text.filling.filler import Filler
from rationales.models.text.filling.filler_rows import FillerRows
from rationales.models.text.filling.insertion import word_insertions
from rationales.options import option

KEEPS_AT_ONCE = 2**22  # entries of the keeps of all samples for some rows


@dataclass(frozen=True)
class LimeBert(FillerMethod):
    """The samples of `lime-text`, with a filler's likeliest words in the place of those that are taken out.

    All words that a sample takes out are masked together. A word that the filler cannot mask is deleted.
    """

    name: ClassVar[str] = "lime-bert"
    summary: ClassVar[str] = "coefficients of a linear model fitted to texts with random words filled in anew"
    removes_by: ClassVar[str] = "fill"

    samples: int = option(1000, "number of perturbed texts, the text itself included")
    one_by_one: bool = option(False, "fill in the masked words from left to right, each given those before")
    kernel: float = option(0.25, "width of the kernel over cosine distances; 0: equal weights")
    ridge: float = option(1.0, "weight of the squared coefficients; 0: plain least squares, the smallest solution")
    output: str = option("probability", "output of the model that is explained, for the target", *OUTPUTS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fit(self.name, self.samples, self.kernel, self.ridge)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        texts, filler = self.open(batch)
        rows = filler.read(texts.text_sources().encoded)

        def outputs(kept: Kept) -> Tensor:
            values = torch.zeros(self.samples, texts.size[0], device=texts.device, dtype=texts.dtype)
            samples = torch.arange(self.samples, device=texts.device)
            rows_at_once = max(1, KEEPS_AT_ONCE // (self.samples * texts.size[1]))
            for row in torch.split(torch.arange(texts.size[0], device=texts.device), rows_at_once):
                keep = (kept(row, samples) | ~texts.rows.real[row]).flatten(0, 1)  # (K * R, n)
                values[:, row] = self._filled(texts, filler, rows, target, row.repeat(self.samples), keep).view(
                    self.samples, len(row)
                )
                if progress is not None:
                    progress((int(row[-1]) + 1) / texts.size[0])
            return values

        return fit_random_keeps(texts, outputs, self.kernel, self.ridge)

    def _filled(
        self, batch: TextBatch, filler: Filler, rows: FillerRows, target: Tensor, row: Tensor, keep: Tensor
    ) -> Tensor:
        """(E,): the explained output of the rows (E,) with the words that are not kept, (E, n), filled in.

        What is kept of a text is filled in once, however many samples and segments keep the same.
        """
        edit, column = torch.nonzero(~keep, as_tuple=True)
        removed = torch.zeros(len(row), rows.table.units + 1, dtype=torch.long, device=batch.device)
        removed[:, -1] = batch.rows.input[row]
        removed[edit, batch.rows.unit[row[edit], column]] = 1
        first_of_equal, inverse = distinct_rows(removed)
        distinct = removed[first_of_equal].to(filler.device)
        tokens = filler.likeliest(rows, distinct[:, -1], distinct[:, :-1] > 0, self.one_by_one).to(batch.device)
        token = tokens[inverse[edit], batch.rows.unit[row[edit], column]]
        new = token >= 0
        insertions = word_insertions(batch, row, edit[new], column[new], token[new], filler.vocabulary.words)
        logits = batch.logits_of_edits(row, keep, insertions)
        return explained_output(batch.head, logits, target[batch.rows.input[row]], self.output)
