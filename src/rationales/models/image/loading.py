"""Loads image classifiers: by a name of the catalogue, a Hugging Face id or folder, or a module with preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.catalogue import IMAGE_MODEL, IMAGE_MODEL_NAMES
from rationales.models.classes import Head, class_names
from rationales.models.image.baselines import blur_radius
from rationales.models.image.model import AUTOMATIC, ImageModel
from rationales.models.image.reading import Fit, ImageInput, fit_image, read_image
from rationales.models.pretrained import device_of, load_pretrained


def load_image(
    source: Any,
    processor: Any = None,
    *,
    device: str | torch.device | None = None,
    baseline: Any = None,
    labels: Sequence[str] | None = None,
    fit: str | None = None,
    trust_remote_code: bool = False,
) -> ImageModel:
    """Make an image classifier explainable; the options are those of `rationales.load`."""
    if isinstance(source, str) and source in IMAGE_MODEL_NAMES:
        from rationales.models.image.named_models import IMAGE_MODELS

        model = IMAGE_MODELS[source].open()
        if device is not None and device_of(device).type == "cuda":
            _use_contiguous_format(model.module)
    elif isinstance(source, nn.Module):
        name = getattr(source, "name_or_path", "") or type(source).__name__
        if is_processor(processor):
            model = from_processor(source, processor, name)
        else:
            model = from_module(source, processor, class_names(source, labels), name)
    else:
        module, loaded_processor = load_pretrained("Image", "ImageProcessor", str(source), processor, trust_remote_code)
        model = from_processor(module, loaded_processor, str(source))
    if fit is not None:
        model = _refitted(model, fit)
    model.baselines, model.custom_baselines = named_baselines(model, baseline)
    if device is not None:
        model.module.to(device_of(device))
    return model


def _use_contiguous_format(module: nn.Module) -> None:
    """Store the weights of a network with depthwise convolutions in PyTorch's contiguous format.

    Channels last is faster on a CPU. On a GPU these networks took six times as long as ResNet-50 with it.
    """
    if any(isinstance(submodule, nn.Conv2d) and submodule.groups > 1 for submodule in module.modules()):
        cast("Any", module).to(memory_format=torch.contiguous_format)  # torch's type stubs lack it


def _refitted(model: ImageModel, kind: str) -> ImageModel:
    """Copy of the model that fits images into its input in another way; colours are normalised as before."""
    if kind not in ("crop", "pad", "squash"):
        raise OptionError(f"there is no fit {kind!r}; there is: crop, pad, squash")
    fit = Fit(kind, model.fit.height, model.fit.width, fill=model.mean_colour, resample=model.fit.resample)  # type: ignore[arg-type]  # one of the three
    shift, scale = model.normalisation(3)

    def preprocess(image: ImageInput) -> Tensor:
        return (fit_image(image, fit)[0] - shift) / scale

    return replace(model, preprocess=preprocess, fit=fit, parallel_preprocess=True)


def named_baselines(model: ImageModel, requested: Any) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """The names of the baselines, and the preprocessed images of those that the user brings."""
    candidates: list[Any] = [] if requested is None else [requested]
    if isinstance(requested, str):
        candidates = [name.strip() for name in requested.split(",")]
    elif isinstance(requested, (list, tuple)):
        candidates = list(requested)
    names: list[str] = []
    custom_baselines: dict[str, Tensor] = {}
    for candidate in candidates:
        if isinstance(candidate, Tensor):
            raise OptionError("a baseline for images is a name, a path, a PIL image or an array; not a tensor")
        if isinstance(candidate, str) and not Path(candidate).is_file():
            names += _checked([candidate])
            continue
        title = None if isinstance(candidate, (str, Path)) else f"own image {len(custom_baselines) + 1}"
        image = read_image(candidate, title)
        names.append(image.name)
        custom_baselines[image.name] = model.preprocess(image)
    return tuple(names) or AUTOMATIC, custom_baselines


def efficientnet_lite(baselines: Sequence[str] | None = None) -> ImageModel:
    """EfficientNet-Lite0 with ImageNet weights, the default image model."""
    from rationales.models.image.efficientnet import load_lite

    module, labels, settings = load_lite(0)
    side = settings["size"]
    fit = Fit("crop", side, side, resize=settings["crop"], resample=settings["resample"])
    mean, std = (settings["mean"],) * 3, (settings["std"],) * 3
    return from_pixels(module, fit, mean, std, labels, IMAGE_MODEL, _checked(baselines))


def from_pixels(
    module: nn.Module,
    fit: Fit,
    mean: Sequence[float],
    std: Sequence[float],
    labels: Sequence[str],
    name: str,
    baselines: Sequence[str] | None = None,
) -> ImageModel:
    """A module that reads (x - mean) / std, where x in [0, 1] is an image fitted into its input by `fit`."""
    shift, scale = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]

    def preprocess(image: ImageInput) -> Tensor:
        return (fit_image(image, fit)[0] - shift) / scale

    model = ImageModel(module, preprocess, fit, Head.SOFTMAX, tuple(labels), name, _checked(baselines))
    return replace(model, parallel_preprocess=True)


def from_processor(module: nn.Module, processor: Any, name: str, baselines: Sequence[str] | None = None) -> ImageModel:
    """A Hugging Face image classifier with its own processor."""
    preprocess, fit = processor_reading(processor)
    config: Any = module.config
    labels = tuple(class_names(module, None))
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    head = Head.MULTI_LABEL if several else Head.SOFTMAX
    mean = getattr(processor, "image_mean", None) or (0.485, 0.456, 0.406)
    colour = (float(mean[0]), float(mean[1]), float(mean[2]))
    return ImageModel(module, preprocess, fit, head, labels, name, _checked(baselines), mean_colour=colour)


def processor_reading(processor: Any) -> tuple[Callable[[ImageInput], Tensor], Fit]:
    """The preprocessing of a Hugging Face processor, and how it fits an image into the model's input."""
    fit = _fit_of(processor)

    def preprocess(image: ImageInput) -> Tensor:
        features = processor(images=np.asarray(image.pixels), return_tensors="pt", input_data_format="channels_last")
        pixels: Tensor = features["pixel_values"][0]
        if pixels.shape[1:] != (fit.height, fit.width):
            raise ModelError(
                f"the processor returns {tuple(pixels.shape[1:])} pixels where {(fit.height, fit.width)} were expected"
            )
        return pixels

    return preprocess, fit


def from_module(
    module: nn.Module,
    preprocess: Callable[[Any], Any],  # a tensor, if all is well
    labels: Sequence[str],
    name: str,
    baselines: Sequence[str] | None = None,
) -> ImageModel:
    """Any module with a callable that turns a PIL image into a (channels, H, W) tensor.

    The callable is assumed to resize the whole image; pass one that crops as a Hugging Face processor instead, whose
    settings tell which part of the image the scores belong to.
    """
    checked_preprocess, fit = callable_reading(preprocess)
    return ImageModel(module, checked_preprocess, fit, Head.SOFTMAX, tuple(labels), name, _checked(baselines))


def callable_reading(preprocess: Callable[[Any], Any]) -> tuple[Callable[[ImageInput], Tensor], Fit]:
    """The checked preprocessing by a callable from a PIL image to a tensor, and its fit: the whole image is resized."""
    from PIL import Image

    def checked_preprocess(image: ImageInput) -> Tensor:
        pixels = preprocess(Image.fromarray(image.pixels))
        if not isinstance(pixels, Tensor) or pixels.dim() not in (3, 4):
            raise ModelError("the preprocessing must give a tensor (channels, height, width)")
        return pixels if pixels.dim() == 3 else pixels[0]

    grey = ImageInput(np.full((64, 64, 3), 128, dtype=np.uint8), "grey")
    height, width = checked_preprocess(grey).shape[1:]
    return checked_preprocess, Fit("squash", int(height), int(width))


def is_processor(preprocessor: Any) -> bool:
    """Whether this is an image processor of Hugging Face."""
    return "pixel_values" in getattr(preprocessor, "model_input_names", ())


def _fit_of(processor: Any) -> Fit:
    """How the processor resizes and crops an image, by its settings."""
    size, crop = _sides(getattr(processor, "size", None)), _sides(getattr(processor, "crop_size", None))
    cropped = bool(getattr(processor, "do_center_crop", False)) and crop is not None
    if not cropped and (size is None or len(size) == 1):
        raise ModelError("the image processor does not resize to a fixed height and width; give one that does")
    if not cropped or crop is None:
        height, width = size or (0, 0)
        return Fit("squash", height, width)
    height, width = crop if len(crop) == 2 else (crop[0], crop[0])
    resize: int | tuple[int, int] | None = None
    if size is not None and getattr(processor, "do_resize", True):
        resize = size[0] if len(size) == 1 else (size[0], size[1])
    return Fit("crop", height, width, resize=resize)


def _sides(size: Any) -> tuple[int, ...] | None:
    """(side,) for the shortest edge, (height, width), or None."""
    if size is None:
        return None
    sides = dict(size) if not isinstance(size, int) else {"height": size, "width": size}
    if sides.get("shortest_edge"):
        return (int(sides["shortest_edge"]),)
    if sides.get("height") and sides.get("width"):
        return int(sides["height"]), int(sides["width"])
    return None


def _checked(baselines: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(baselines.split(",") if isinstance(baselines, str) else baselines or AUTOMATIC)
    for name in names if names != AUTOMATIC else ():
        if name not in ("black", "white", "mean", "noise"):
            blur_radius(name)  # raises an error that lists the baselines
    return names
