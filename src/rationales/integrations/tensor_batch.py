"""Tensors and a forward function as a Batch, so that methods explain what captum and Quantus pass around.

The tensors of an input are flattened and laid side by side, (inputs, elements); a table says which unit every element
belongs to. Pixels of one image are a grid; positions of a sequence, features and several tensors are a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.batch import Noise, Piece, Rows
from rationales.models.batch.execution import available_bytes, stored_bytes
from rationales.models.batch.rows import content_key, normal
from rationales.models.batch.value_batch import ValueBatch
from rationales.models.classes import Head

LAYOUTS = ("auto", "pixels", "sequence", "features")
OUTPUTS = ("logits", "probabilities")  # what a forward function returns
CELLS = 14  # along the longer side of an image that is explained together with other tensors
SMALLEST_PROBABILITY = 1e-12


class ForwardModule(nn.Module):
    """A forward function as a module; a module stays a submodule, so that it can be frozen and restored."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        """The function's output."""
        return self.function(*arguments)


@dataclass(frozen=True, eq=False)
class UnitLayout:
    """The unit of every element of an input's tensors."""

    unit: Tensor  # (elements,) from 0 to units - 1
    units: int
    grid: tuple[int, int] | None


@dataclass(eq=False)
class TensorBatch(ValueBatch):
    """Each row is one input. values: (inputs, elements); baseline_values: (inputs, elements)."""

    shapes: tuple[tuple[int, ...], ...]  # of the tensors of one input
    layout: UnitLayout
    leading: Tensor  # (inputs, axes): indices into the axes of the output between the first and the last
    arguments: tuple[Any, ...]  # further arguments of the forward function
    output: str  # logits or probabilities

    input_axes: ClassVar[int] = 1

    def cost(self) -> list[int]:
        return [1] * self.size[0]

    def spread_units(self, units: Tensor) -> Tensor:
        """(R, n) -> (R, elements)."""
        return units[:, self.layout.unit]

    def scaled_noise(self, values: Tensor, row: Tensor, noise: Noise) -> Tensor:
        size = values.square().mean(1, keepdim=True).sqrt()
        return noise.scale * size * normal(noise.key, values.shape[1:], values.dtype)

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = torch.split(values.to(self.values.dtype), sizes, dim=1)
        tensors = [flat.reshape(len(flat), *shape) for flat, shape in zip(parts, self.shapes, strict=True)]
        number = self.rows.input[piece.row]
        further = [argument[number] if self._per_input(argument) else argument for argument in self.arguments]
        return self.class_logits(piece, self._logits(self.module(*tensors, *further), number))

    def _per_input(self, argument: Any) -> bool:
        return isinstance(argument, Tensor) and argument.dim() > 0 and len(argument) == self.inputs

    def _logits(self, returned: Any, number: Tensor) -> Tensor:
        """(R, outputs): the logits over the last axis of the output."""
        output = class_axis(returned, len(number))
        if self.leading.shape[1] != output.dim() - 2:
            raise ModelError(
                f"the forward function returns {tuple(output.shape)} for {len(number)} inputs, in which a target has "
                f"{output.dim() - 1} indices and not {self.leading.shape[1] + 1}"
            )
        index = (torch.arange(len(number), device=output.device), *self.leading[number].to(output.device).unbind(1))
        values = output[index]
        if self.output == "logits":
            return values
        inside = values.clamp(SMALLEST_PROBABILITY, 1.0)
        return inside.log() if values.shape[1] > 1 else torch.logit(inside, eps=1e-7)

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, elements) -> (R, n): the sum over each unit."""
        totals = values.new_zeros(len(values), self.size[1])
        return totals.index_add(1, self.layout.unit, values.abs() if reduce == "norm" else values)

    def take(self, inputs: Sequence[int]) -> TensorBatch:
        index = torch.tensor(list(inputs), device=self.device)
        further = tuple(argument[index] if self._per_input(argument) else argument for argument in self.arguments)
        return replace(super().take(inputs), leading=self.leading[index], arguments=further)

    def spread_scores(self, scores: Tensor) -> tuple[Tensor, ...]:
        """(inputs, n) -> one tensor of the shape of each input tensor: every element gets the score of its unit."""
        elements = self.spread_units(scores)
        parts = torch.split(elements, [math.prod(shape) for shape in self.shapes], dim=1)
        return tuple(flat.reshape(len(flat), *shape) for flat, shape in zip(parts, self.shapes, strict=True))


def class_axis(returned: Any, count: int) -> Tensor:
    """(R, ..., C): the output of a forward function, unwrapped; (R,) becomes (R, 1)."""
    output = getattr(returned, "logits", returned[0] if isinstance(returned, tuple) else returned)
    if not isinstance(output, Tensor) or output.dim() == 0 or len(output) != count:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ModelError(f"the forward function returns {shape} for {count} inputs; it must return a row for each")
    return output[:, None] if output.dim() == 1 else output


def tensor_batch(
    forward: Callable[..., Any],
    inputs: Sequence[Tensor],
    baselines: Sequence[Tensor | float],
    target: Any = None,
    *,
    arguments: Sequence[Any] = (),
    feature_mask: Sequence[Tensor] | None = None,
    layout: str = "auto",
    output: str = "logits",
    rows_at_once: int | None = None,
    seed: int = 0,
) -> tuple[TensorBatch, Tensor]:
    """The batch of these tensors (inputs, ...), one row for each input, and the class (inputs,) to explain.

    `target`: forms of captum, see `target_indices`; None is the class that the function predicts.
    """
    if layout not in LAYOUTS or output not in OUTPUTS:
        raise OptionError(f"layout is one of {', '.join(LAYOUTS)}, and output one of {', '.join(OUTPUTS)}")
    count = _check_inputs(inputs)
    device, dtype = inputs[0].device, inputs[0].dtype
    values = torch.cat([tensor.detach().reshape(count, -1) for tensor in inputs], 1)
    filled = [_baseline(baseline, tensor) for baseline, tensor in zip(baselines, inputs, strict=True)]
    shapes = tuple(tuple(tensor.shape[1:]) for tensor in inputs)
    unit_layout = layout_of_mask(feature_mask, shapes) if feature_mask is not None else unit_layout_of(shapes, layout)
    unit_layout = replace(unit_layout, unit=unit_layout.unit.to(device))
    units, row = unit_layout.units, torch.arange(count, device=device)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    keys = [content_key(seed, line.numpy().tobytes()) for line in values.detach().to("cpu", torch.float64)]
    all_kept = torch.ones(count, units, device=device, dtype=wide)
    rows = Rows(
        input=row,
        mask=row,
        view=torch.zeros_like(row),
        key=torch.tensor(keys, device=device),
        unit=torch.arange(units, device=device).expand(count, -1),
        real=all_kept.bool(),
        position=torch.arange(units, device=device, dtype=wide).expand(count, -1),
        blend=all_kept,
    )
    module = ForwardModule(forward)
    with torch.no_grad():
        probed = class_axis(module(*inputs, *arguments), count)
    leading, chosen = target_indices(target, probed)
    head, classes = (Head.SIGMOID, 2) if probed.shape[-1] == 1 else (Head.SOFTMAX, probed.shape[-1])
    batch = TensorBatch(
        rows=rows,
        inputs=count,
        views=1,
        classes=classes,
        head=head,
        grid=unit_layout.grid,
        budget=rows_at_once or 1,
        module=module,
        values=values,
        baseline_values=torch.cat(filled, 1),
        shapes=shapes,
        layout=unit_layout,
        leading=leading,
        arguments=tuple(arguments),
        output=output,
    )
    if rows_at_once is None:
        batch.budget = _measured_budget(batch)
    return batch, torch.ones_like(chosen) if head is Head.SIGMOID else chosen


def target_indices(target: Any, output: Tensor) -> tuple[Tensor, Tensor]:
    """(inputs, axes - 2) and (inputs,): indices into the middle axes of `output` (inputs, ..., C), and the class.

    `target`: a number, or a tuple of numbers for an output of several axes, for all inputs; a tensor or list with one
    for each; None for the class of the highest output.
    """
    count, axes = len(output), output.dim() - 1
    if isinstance(target, Tensor):
        target = int(target) if target.numel() == 1 and count != 1 else target.reshape(count, -1).tolist()
    if target is None:
        if axes > 1:
            raise OptionError(f"the output has {axes} axes behind that of the inputs; give a target of {axes} indices")
        return torch.zeros(count, 0, dtype=torch.long), output.flatten(1).argmax(1)
    listed = list(target) if isinstance(target, list) else [target] * count
    if len(listed) != count:
        raise OptionError(f"{len(listed)} targets for {count} inputs")
    indices = [tuple(entry) if isinstance(entry, (tuple, list)) else (entry,) for entry in listed]
    for entry in indices:
        sizes = output.shape[1:]
        known = len(entry) == axes and all(type(number) is int for number in entry)
        if not known or not all(-size <= number < size for number, size in zip(entry, sizes, strict=True)):
            raise OptionError(
                f"the target {entry if len(entry) > 1 else entry[0]} selects no output of shape {tuple(sizes)}; give "
                f"{'a number' if axes == 1 else f'a tuple of {axes} numbers'}, or one for each input"
            )
    table = torch.tensor(indices, device=output.device) % torch.tensor(output.shape[1:], device=output.device)
    return table[:, :-1], table[:, -1]


def unit_layout_of(shapes: Sequence[tuple[int, ...]], layout: str) -> UnitLayout:
    """The units of tensors of these shapes, without the axis of the inputs."""
    kinds = [layout if layout != "auto" else _kind(shape) for shape in shapes]
    for kind, shape in zip(kinds, shapes, strict=True):
        if kind == "pixels" and len(shape) < 2:
            raise OptionError(f"inputs of shape {shape} have no pixels; use layout='sequence' or 'features'")
    if len(shapes) == 1 and kinds[0] == "pixels":
        height, width = shapes[0][-2:]
        pixels = torch.arange(height * width).view(height, width).expand(shapes[0])
        return UnitLayout(pixels.flatten(), height * width, (height, width))
    numbers, first = [], 0
    for kind, shape in zip(kinds, shapes, strict=True):
        unit = _units_on_a_line(kind, shape).flatten() + first
        numbers.append(unit)
        first = int(unit.max()) + 1
    return UnitLayout(torch.cat(numbers), first, None)


def layout_of_mask(masks: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> UnitLayout:
    """The units that captum's feature masks number; each (1, ...) can be expanded to its tensor's shape."""
    expanded = []
    for mask, shape in zip(masks, shapes, strict=True):
        single = mask[0] if mask.dim() == len(shape) + 1 and len(mask) == 1 else mask
        try:
            expanded.append(single.expand(shape).reshape(-1))
        except RuntimeError:
            raise OptionError(
                f"a feature mask of shape {tuple(mask.shape)} does not fit inputs of shape {shape}; it is the same "
                "for all inputs, (1, ...) or (...)"
            ) from None
    _, unit = torch.unique(torch.cat(expanded), return_inverse=True)
    return UnitLayout(unit, int(unit.max()) + 1, None)


def _kind(shape: tuple[int, ...]) -> str:
    return {3: "pixels", 2: "sequence"}.get(len(shape), "features")


def _units_on_a_line(kind: str, shape: tuple[int, ...]) -> Tensor:
    """`shape`: cells of pixels, positions of the first axis, or every element."""
    if kind == "pixels":
        height, width = shape[-2:]
        side = -(-max(height, width) // CELLS)
        cells = (torch.arange(height) // side)[:, None] * -(-width // side) + torch.arange(width) // side
        return cells.expand(shape)
    if kind == "sequence" and shape:
        return torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1)).expand(shape)
    return torch.arange(math.prod(shape)).view(shape)


def _check_inputs(inputs: Sequence[Tensor]) -> int:
    """The number of inputs."""
    for tensor in inputs:
        if tensor.dim() == 0 or not len(tensor):
            raise OptionError("inputs are tensors whose first axis counts the inputs; there must be at least one")
        if not tensor.is_floating_point():
            raise OptionError(
                f"inputs of type {tensor.dtype} cannot be blended with a baseline; give embeddings in place of token "
                "ids, or load the classifier with rationales.load(module, tokenizer)"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise OptionError("the inputs hold NaN or infinity")
    if len({len(tensor) for tensor in inputs}) > 1:
        raise OptionError(
            f"the tensors have {', '.join(str(len(tensor)) for tensor in inputs)} inputs; they must agree"
        )
    return len(inputs[0])


def _baseline(baseline: Tensor | float, tensor: Tensor) -> Tensor:
    """(inputs, elements): a number, a tensor for all inputs (1, ...), or one of each."""
    values = torch.as_tensor(baseline, device=tensor.device).to(tensor.dtype)
    try:
        return values.expand_as(tensor).reshape(len(tensor), -1)
    except RuntimeError:
        raise OptionError(
            f"a baseline of shape {tuple(values.shape)} does not fit inputs of shape {tuple(tensor.shape)}"
        ) from None


def _measured_budget(batch: TensorBatch) -> int:
    """Rows that fit memory, from what one row stores for a backward pass."""
    where = torch.zeros(1, dtype=torch.long, device=batch.device)
    keep = batch.ones()[:1].requires_grad_()
    piece = Piece(where, where, 0, 1, full=True)
    try:
        stored = stored_bytes([batch.module], lambda: batch.forward(piece, keep, None))
    except RuntimeError:  # no gradients, which methods that need them report
        stored = batch.values[0].nbytes
    return int(max(1, available_bytes(batch.device) // max(stored, 1)))
