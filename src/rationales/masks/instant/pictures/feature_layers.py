"""The feature maps of an image classifier that a masker reads, and the gradients of the explained class at them.

One forward pass gives the maps. The gradients are taken at the coarsest maps only, so that the backward pass runs
through the last layers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.batch.rows import normal
from rationales.models.classes import class_logits, explained_output
from rationales.models.image.batch import ImageBatch, image_logits
from rationales.models.image.feature_maps import NO_FEATURE_MAPS, FeatureLayout, layout_of

MAX_LAYERS = 3  # resolutions that are read, the coarsest ones
GRADIENT_LAYERS = 2  # of these, the coarsest ones, have gradients


@dataclass(frozen=True)
class FeatureLayer:
    """A sub-module whose output is a feature map; a module that is called several times has several outputs."""

    name: str
    call: int  # 0: its first output in a forward pass
    channels: int
    height: int
    width: int
    form: str  # see FeatureLayout
    extra: int
    gradient: bool  # whether the gradient of the explained class at this map is read

    @property
    def layout(self) -> FeatureLayout:
        """How the output is read as maps."""
        return FeatureLayout(self.height, self.width, self.form, self.extra)


@dataclass(frozen=True, eq=False)
class PictureFeatures:
    """Maps (R, C, h, w) of every layer, gradients at those that have them, and the class logits (R, classes)."""

    maps: list[Tensor]
    gradients: list[Tensor | None]
    logits: Tensor


def find_layers(batch: ImageBatch) -> tuple[FeatureLayer, ...]:
    """The last feature map of each of the coarsest resolutions that the logits depend on, from fine to coarse.

    The choice is made on an image of noise, so that it depends on the model and not on an input.
    """
    values = batch.values[:1]
    noise = normal(torch.zeros(1, dtype=torch.int64, device=values.device), values.shape[1:], values.dtype)
    grid = (values.shape[2], values.shape[3])
    outputs: list[tuple[str, int, Tensor, FeatureLayout]] = []
    with torch.enable_grad():
        pixels = noise.requires_grad_()

        def note(name: str, call: int, output: Tensor) -> None:
            layout = layout_of(output.shape, grid)
            if layout is not None and len(output) == 1 and output.requires_grad:
                outputs.append((name, call, output, layout))

        with _watched(batch.module, note):
            logits = image_logits(batch.module, pixels.clone())
        weights = normal(torch.ones(1, dtype=torch.int64, device=logits.device), logits.shape[1:], logits.dtype)
        tensors = [output for _, _, output, _ in outputs]
        gradients: Sequence[Tensor | None] = (
            torch.autograd.grad((logits * weights).sum(), tensors, allow_unused=True)
            if logits.requires_grad and tensors
            else []
        )
    by_resolution: dict[tuple[int, int], tuple[str, int, Tensor, FeatureLayout]] = {}
    for entry, gradient in zip(outputs, gradients, strict=True):
        if gradient is not None and bool(entry[3].maps(gradient).any()):
            by_resolution[entry[3].height, entry[3].width] = entry
    if not by_resolution:
        raise ModelError(
            f"{NO_FEATURE_MAPS} that its logits depend on, so that no masker can be trained for it; use marc"
        )
    coarsest = sorted(by_resolution.items(), key=lambda item: item[0][0] * item[0][1], reverse=True)[-MAX_LAYERS:]
    layers = []
    for number, (_, (name, call, output, layout)) in enumerate(coarsest):
        gradient_read = number >= len(coarsest) - GRADIENT_LAYERS
        channels = layout.maps(output).shape[1]
        layers.append(
            FeatureLayer(name, call, channels, layout.height, layout.width, layout.form, layout.extra, gradient_read)
        )
    return tuple(layers)


def picture_features(
    batch: ImageBatch, layers: Sequence[FeatureLayer], inputs: Tensor, target: Callable[[Tensor], Tensor]
) -> PictureFeatures:
    """Features of these images (R,); `target`: (R, classes) logits -> (R,) the explained classes.

    The explained output is the log-odds of the class.
    """
    layer_outputs: dict[tuple[str, int], Tensor] = {}
    layer_calls = {(layer.name, layer.call): layer for layer in layers}

    def replace_output(name: str, call: int, output: Tensor) -> Tensor | None:
        layer = layer_calls.get((name, call))
        if layer is None:
            return None
        if not layer.gradient:
            layer_outputs[name, call] = output.detach().clone()  # a later module may overwrite it in place
            return None
        leaf = output if output.requires_grad else output.detach().requires_grad_()
        layer_outputs[name, call] = leaf
        return leaf.clone()

    names = {layer.name for layer in layers}
    with torch.enable_grad(), _watched(batch.module, replace_output, names):
        logits = class_logits(batch.head, image_logits(batch.module, batch.values[inputs])).to(batch.dtype)
        missing = [
            f"{layer.name} (call {layer.call + 1})" for layer in layers if (layer.name, layer.call) not in layer_outputs
        ]
        if missing:
            raise ModelError(
                f"the model has no feature maps of {', '.join(missing)}, which its masker reads; train a masker for "
                "the model as it is now"
            )
        outputs = [layer_outputs[layer.name, layer.call] for layer in layers]
        explained = explained_output(batch.head, logits, target(logits.detach()), "log-odds").sum()
        leaves = [output for output, layer in zip(outputs, layers, strict=True) if layer.gradient]
        layer_gradients = iter(torch.autograd.grad(explained, leaves))
    gradients = [
        layer.layout.maps(next(layer_gradients)).to(batch.dtype) if layer.gradient else None for layer in layers
    ]
    maps = [layer.layout.maps(output.detach()).to(batch.dtype) for layer, output in zip(layers, outputs, strict=True)]
    return PictureFeatures(maps, gradients, logits.detach())


@contextmanager
def _watched(
    module: nn.Module, see: Callable[[str, int, Tensor], Tensor | None], names: set[str] | None = None
) -> Iterator[None]:
    """Inside the block, `see(name, call, output)` is called for sub-modules; what it returns replaces the output.

    Passes that another thread makes through the same module are left alone.
    """
    calls: dict[str, int] = {}
    handles = []
    watching_thread = threading.get_ident()

    def hook_of(name: str) -> Callable[[nn.Module, Any, Any], Any]:
        def hook(_module: nn.Module, _arguments: Any, output: Any) -> Any:
            if threading.get_ident() != watching_thread:
                return None
            call = calls.get(name, 0)
            calls[name] = call + 1
            if isinstance(output, Tensor):
                return see(name, call, output)
            if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
                replaced = see(name, call, output[0])
                return None if replaced is None else (replaced, *output[1:])
            return None

        return hook

    try:
        for name, submodule in module.named_modules():
            if name and not isinstance(submodule, (nn.Dropout, nn.Softmax)) and (names is None or name in names):
                handles.append(submodule.register_forward_hook(hook_of(name)))
        yield
    finally:
        for handle in handles:
            handle.remove()
