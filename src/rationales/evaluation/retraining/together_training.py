"""Several classifiers trained in one batched pass: their weights are stacked, and each reads batches of its own.

They may differ in their seeds and in their texts. A step of all of them costs one forward and backward pass over a
batch that is as many times larger, which a GPU hardly notices if the model is small. Without dropout the weights are
those of training one after the other, up to rounding; with dropout each classifier drops other units than it would
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from rationales.errors import ModelError, OptionError
from rationales.evaluation.retraining.labelled_tokens import LabelledTokens, TokenRectangle
from rationales.evaluation.retraining.stacked_bert import WORDS, StackedBert, can_stack
from rationales.models.classes import Head, output_logits

CHECK_EVERY = 50  # steps between two looks at whether losses are finite: each look waits for the device


def check_together(module: nn.Module, tokenizer: Any) -> None:
    """Raise an OptionError for a module whose forward pass cannot be batched over weights.

    Encoders of transformers take a complete attention mask; decoders would need another one. Other modules are tried.
    """
    of_transformers = needs_complete_mask(module)
    if of_transformers and getattr(tokenizer, "mask_token_id", None) is not None:
        return
    if of_transformers or type(module).__module__.startswith("rationales."):
        raise OptionError(
            f"{type(module).__name__} cannot be trained for several seeds together; leave the setting together out"
        )


def needs_complete_mask(module: nn.Module) -> bool:
    """Whether the module is one of transformers: these look at the values of a mask unless it has four dimensions."""
    from transformers import PreTrainedModel

    return isinstance(module, PreTrainedModel)


def train_together(
    modules: Sequence[nn.Module],
    head: Head,
    batches: StackedBatches,
    learning_rate: float,
    clip: float,
    progress: Callable[[float], None] | None = None,
    half: bool = False,
) -> None:
    """Train the modules in place with Adam; the learning rate falls linearly, gradients are clipped for each alone.

    `half`: products in bfloat16, weights and sums in single precision (autocast).
    """
    for module in modules:
        module.train()
    stack: _BertStack | _ModuleStack
    stack = _BertStack(modules, batches) if can_stack(modules[0]) else _ModuleStack(modules)
    weights = list(stack.weights.values())
    device = weights[0].device
    optimizer = torch.optim.Adam(weights, lr=learning_rate, fused=device.type in ("cuda", "cpu"))
    broken = torch.zeros((), dtype=torch.bool, device=device)
    for number, arguments in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - number / len(batches))
        labels = arguments.pop("labels")  # (M, R)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = stack.logits(arguments)
        losses = _mean_losses(head, logits.float(), labels)
        broken |= ~torch.isfinite(losses.detach()).all()
        if (number % CHECK_EVERY == 0 or number == len(batches) - 1) and bool(broken):
            raise ModelError(f"the loss of a retrained classifier is not finite by step {number}; lower learning_rate")
        if progress is not None and number % CHECK_EVERY == 0:
            progress(number / len(batches))
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(losses.sum())
        _clip_each([weight.grad for weight in weights if weight.grad is not None], clip)
        optimizer.step()
    stack.write_back()


def _mean_losses(head: Head, logits: Tensor, labels: Tensor) -> Tensor:
    """(M, R, outputs), (M, R) -> (M,): the mean loss of each classifier."""
    if head is Head.SIGMOID:
        losses = binary_cross_entropy_with_logits(logits[..., 0], labels.to(logits.dtype), reduction="none")
    else:
        losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    return losses.mean(1)


class _ModuleStack:
    """Stacked weights of any modules, whose forward pass is batched by torch.func.vmap."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = modules
        self.weights, self.buffers = stack_module_state(list(modules))
        self.skeleton = cast("Any", modules[0])
        self.complete = needs_complete_mask(self.skeleton)
        if self.complete:
            self.skeleton.set_attn_implementation("eager")  # fused attention is not batched over weights

    def logits(self, arguments: dict[str, Tensor]) -> Tensor:
        """(M, R, outputs) for arguments (M, R, T)."""
        if self.complete:
            attention = arguments["attention_mask"]
            mask = complete_mask(attention.flatten(0, 1))
            arguments = arguments | {"attention_mask": mask.view(*attention.shape[:2], *mask.shape[1:])}
        batched: Any = vmap(self._single_logits, randomness="different")  # untyped
        logits: Tensor = batched(self.weights, self.buffers, arguments)
        return logits

    def _single_logits(self, weights: Any, buffers: Any, arguments: dict[str, Tensor]) -> Tensor:
        output = functional_call(self.skeleton, (weights, buffers), kwargs=arguments)
        return output_logits(output, "text", len(arguments["input_ids"]))

    def write_back(self) -> None:
        """Copy the weights into the modules."""
        with torch.no_grad():
            for position, module in enumerate(self.modules):
                for name, weight in module.named_parameters():
                    weight.copy_(self.weights[name][position])


class _BertStack:
    """Stacked weights of BERT classifiers; of the word embeddings the rows of the tokens that training reads.

    The other rows have no gradient, so that Adam leaves them as they are.
    """

    def __init__(self, modules: Sequence[nn.Module], batches: StackedBatches) -> None:
        self.modules, self.bert = modules, StackedBert(modules[0])
        self.tokens, numbers = torch.unique(batches.rectangle.ids, return_inverse=True)
        batches.rectangle = replace(batches.rectangle, ids=numbers)
        self.weights = {
            name: torch.stack([self._rows(name, module.get_parameter(name).detach()) for module in modules])
            for name, _ in modules[0].named_parameters()
        }
        for weight in self.weights.values():
            weight.requires_grad_()

    def _rows(self, name: str, weight: Tensor) -> Tensor:
        return weight[self.tokens] if name == WORDS else weight

    def logits(self, arguments: dict[str, Tensor]) -> Tensor:
        """(M, R, outputs) for arguments (M, R, T)."""
        return self.bert.logits(self.weights, arguments)

    def write_back(self) -> None:
        """Copy the weights into the modules."""
        with torch.no_grad():
            for position, module in enumerate(self.modules):
                for name, weight in module.named_parameters():
                    values = self.weights[name][position]
                    if name == WORDS:
                        weight[self.tokens] = values
                    else:
                        weight.copy_(values)


class StackedBatches:
    """The batches of every step, those of all classifiers stacked and padded to the same length.

    data: the texts of each classifier, of which there are equally many; several may share them. Iterating gives, for
    each step, the arguments of the module and "labels", all (classifiers, texts, ...).
    """

    def __init__(
        self,
        device: torch.device,
        padding: int,
        data: Sequence[LabelledTokens],
        orders: Sequence[Sequence[Tensor]],
    ) -> None:
        distinct = list({id(texts): texts for texts in data}.values())
        width = max(int(texts.lengths.max()) for texts in distinct)
        self.rectangle = _joined([texts.rectangle(padding, device, width) for texts in distinct])
        positions = {id(texts): number for number, texts in enumerate(distinct)}
        order = np.stack([torch.cat(list(steps)).numpy() for steps in orders])  # (M, texts of all steps)
        lengths = np.stack([texts.lengths[numbers] for texts, numbers in zip(data, order, strict=True)])
        first = np.array([positions[id(texts)] * len(texts) for texts in data])
        self.rows = torch.from_numpy(order + first[:, None]).to(device)  # on the device at once, not step by step
        self.ends = np.cumsum([len(step) for step in orders[0]]).tolist()
        begins = [0, *self.ends[:-1]]
        self.longest = np.maximum.reduceat(lengths.max(0), begins).tolist()  # tokens, of each step

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        for begin, end, longest in zip([0, *self.ends[:-1]], self.ends, self.longest, strict=True):
            chosen = self.rows[:, begin:end]  # (M, R)
            arguments = self.rectangle.arguments(chosen.flatten(), longest)
            stacked = {name: values.view(*chosen.shape, longest) for name, values in arguments.items()}
            yield stacked | {"labels": self.rectangle.labels[chosen]}


def _joined(rectangles: Sequence[TokenRectangle]) -> TokenRectangle:
    """The rows of several rectangles of the same width, one after the other."""
    types = [rectangle.types for rectangle in rectangles if rectangle.types is not None]
    return TokenRectangle(
        torch.cat([rectangle.ids for rectangle in rectangles]),
        torch.cat(types) if types else None,
        torch.cat([rectangle.attended for rectangle in rectangles]),
        torch.cat([rectangle.labels for rectangle in rectangles]),
    )


def complete_mask(attention: Tensor) -> Tensor:
    """(R, T) of 0 and 1 -> (R, 1, T, T): what is added to attention logits, the lowest number for padding."""
    width = attention.shape[1]
    blocked = (1.0 - attention.float()) * torch.finfo(torch.float32).min
    return blocked[:, None, None, :].repeat(1, 1, width, 1)


def _clip_each(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale the gradients of each seed (first axis) to a norm of at most `largest`, as clip_grad_norm_ does."""
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    factors = (largest / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)  # (seeds,)
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))
