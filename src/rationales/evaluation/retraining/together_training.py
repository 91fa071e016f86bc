"""Several classifiers trained in one batched pass: their weights are stacked, and each reads batches of its own.

They may differ in their seeds and in their texts. A step of all of them costs one forward and backward pass over a
batch that is as many times larger, which a GPU hardly notices if the model is small. Without dropout the weights are
those of training one after the other, up to rounding; with dropout each classifier drops other units than it would
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from rationales.errors import ModelError, OptionError
from rationales.evaluation.retraining.labelled_tokens import LabelledTokens, TokenRectangle
from rationales.models.classes import Head, output_logits

Steps = Iterable[dict[str, Tensor]]  # of each step: arguments of the module, and "labels", all (classifiers, ...)
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
    steps: Steps,
    step_count: int,
    learning_rate: float,
    clip: float,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Train the modules in place with Adam; the learning rate falls linearly, gradients are clipped for each alone."""
    for module in modules:
        module.train()
    parameters, buffers = stack_module_state(list(modules))
    skeleton: Any = modules[0]
    if needs_complete_mask(skeleton):
        skeleton.set_attn_implementation("eager")  # fused attention is not batched over weights, but runs in a loop

    def loss(weights: Any, state: Any, arguments: dict[str, Tensor], labels: Tensor) -> Tensor:
        output = functional_call(skeleton, (weights, state), kwargs=arguments)
        logits = output_logits(output, "text", len(labels))
        if head is Head.SIGMOID:
            return nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype))
        return nn.functional.cross_entropy(logits, labels)

    losses = vmap(loss, randomness="different")
    on_gpu = next(iter(parameters.values())).device.type == "cuda"
    optimizer = torch.optim.Adam(parameters.values(), lr=learning_rate, fused=on_gpu)
    broken = torch.zeros((), dtype=torch.bool, device=next(iter(parameters.values())).device)
    for number, stacked in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - number / step_count)
        labels = stacked.pop("labels")
        values = losses(parameters, buffers, stacked, labels)
        broken |= ~torch.isfinite(values.detach()).all()
        if (number % CHECK_EVERY == 0 or number == step_count - 1) and bool(broken):
            raise ModelError(f"the loss of a retrained classifier is not finite by step {number}; lower learning_rate")
        if progress is not None and number % CHECK_EVERY == 0:
            progress(number / step_count)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(values.sum())
        _clip_each([weight.grad for weight in parameters.values() if weight.grad is not None], clip)
        optimizer.step()
    with torch.no_grad():
        for position, module in enumerate(modules):
            for name, weight in module.named_parameters():
                weight.copy_(parameters[name][position])


def stacked_steps(
    module: nn.Module, padding: int, data: Sequence[LabelledTokens], orders: Sequence[Sequence[Tensor]]
) -> Iterator[dict[str, Tensor]]:
    """The batches of every step, those of all classifiers stacked and padded to the same length.

    data: the texts of each classifier, of which there are equally many; several may share them.
    """
    device = next(module.parameters()).device
    distinct = list({id(texts): texts for texts in data}.values())
    width = max(int(texts.lengths.max()) for texts in distinct)
    rectangles = _joined([texts.rectangle(padding, device, width) for texts in distinct])
    numbers_of_texts = {id(texts): number for number, texts in enumerate(distinct)}
    first = torch.tensor([numbers_of_texts[id(texts)] * len(texts) for texts in data], device=device)
    complete = needs_complete_mask(module)
    for step in zip(*orders, strict=True):
        longest = max(int(texts.lengths[rows.numpy()].max()) for texts, rows in zip(data, step, strict=True))
        chosen = torch.from_numpy(np.stack([rows.numpy() for rows in step])).to(device) + first[:, None]  # (M, R)
        arguments = rectangles.arguments(chosen.flatten(), longest)
        labels = rectangles.labels[chosen]
        stacked = {name: values.view(*chosen.shape, longest) for name, values in arguments.items()}
        if complete:
            mask = complete_mask(arguments["attention_mask"])
            stacked["attention_mask"] = mask.view(*chosen.shape, *mask.shape[1:])
        yield stacked | {"labels": labels}


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
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)  # (seeds,)
    factors = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))
