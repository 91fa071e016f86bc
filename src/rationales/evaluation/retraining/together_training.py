"""Several classifiers trained in one batched pass: their weights are stacked, and each reads batches of its own.

One step of all seeds costs one forward and backward pass over a batch that is as many times larger, which a GPU hardly
notices if the model is small. Without dropout the weights are those of training one after the other, up to rounding;
with dropout each classifier drops other units than it would alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from rationales.errors import ModelError, OptionError
from rationales.models.classes import Head, output_logits

Steps = Iterable[Sequence[dict[str, Tensor]]]  # of each step, for each seed: arguments of the module, and "labels"


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
    modules: Sequence[nn.Module], head: Head, steps: Steps, step_count: int, learning_rate: float, clip: float
) -> None:
    """Train the modules in place with Adam; the learning rate falls linearly, gradients are clipped for each alone.

    The batches of one step have the same shape for all seeds.
    """
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
    optimizer = torch.optim.Adam(parameters.values(), lr=learning_rate)
    for number, batches in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - number / step_count)
        stacked = {name: torch.stack([batch[name] for batch in batches]) for name in batches[0]}
        labels = stacked.pop("labels")
        values = losses(parameters, buffers, stacked, labels)
        if not bool(torch.isfinite(values).all()):
            raise ModelError(f"the loss of a retrained classifier is not finite at step {number}; lower learning_rate")
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(values.sum())
        _clip_each([weight.grad for weight in parameters.values() if weight.grad is not None], clip)
        optimizer.step()
    with torch.no_grad():
        for position, module in enumerate(modules):
            for name, weight in module.named_parameters():
                weight.copy_(parameters[name][position])


def complete_mask(attention: Tensor) -> Tensor:
    """(R, T) of 0 and 1 -> (R, 1, T, T): what is added to attention logits, the lowest number for padding."""
    width = attention.shape[1]
    blocked = (1.0 - attention.float()) * torch.finfo(torch.float32).min
    return blocked[:, None, None, :].expand(-1, 1, width, width)


def _clip_each(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale the gradients of each seed (first axis) to a norm of at most `largest`, as clip_grad_norm_ does."""
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)  # (seeds,)
    factors = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))
