"""Image classifiers from a name of ours, a Hugging Face id or folder, or a module with its preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.default import IMAGE_MODEL
from rationales.models.heads import Head
from rationales.models.image import AUTOMATIC, ImageModel
from rationales.models.labels import class_names
from rationales.models.loading import device_of
from rationales.models.picture_baselines import blur_radius
from rationales.models.pictures import Fit, Picture, place, read
from rationales.models.pretrained import load_pretrained

LITE = IMAGE_MODEL


def load_image(
    source: Any,
    processor: Any,
    device: str | torch.device | None,
    baselines: Any,
    labels: Sequence[str] | None,
    remote: bool,
    fit: str | None = None,
) -> ImageModel:
    """Make an image classifier explainable; the options are those of `rationales.load`."""
    if source == LITE:
        model = efficientnet_lite()
    elif isinstance(source, nn.Module):
        name = getattr(source, "name_or_path", "") or type(source).__name__
        if is_processor(processor):
            model = from_processor(source, processor, name)
        else:
            model = from_module(source, processor, class_names(source, labels), name)
    else:
        module, own = load_pretrained("Image", "ImageProcessor", str(source), processor, remote)
        model = from_processor(module, own, str(source))
    if fit is not None:
        model = _refitted(model, fit)
    model.baselines, model.own_baselines = _baselines(model, baselines)
    if device is not None:
        model.module.to(device_of(device))
    return model


def _refitted(model: ImageModel, kind: str) -> ImageModel:
    """The same model, pictures put into it in another way; its colours are prepared as before."""
    if kind not in ("crop", "pad", "squash"):
        raise OptionError(f"there is no fit {kind!r}; there is: crop, pad, squash")
    fit = Fit(kind, model.fit.height, model.fit.width, fill=model.mean_colour, resample=model.fit.resample)  # type: ignore[arg-type]  # one of the three
    shift, scale = model.normalisation(3)

    def preprocess(picture: Picture) -> Tensor:
        return (place(picture, fit)[0] - shift) / scale

    return replace(model, preprocess=preprocess, fit=fit)


def _baselines(model: ImageModel, given: Any) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """The names of the baselines, and for the user's own pictures what the model reads of them."""
    if isinstance(given, str):
        wanted: list[Any] = [name.strip() for name in given.split(",")]
    else:
        wanted = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    names: list[str] = []
    pictures: dict[str, Tensor] = {}
    for one in wanted:
        if isinstance(one, Tensor):
            raise OptionError("a baseline for pictures is a name, a path, a PIL image or an array; not a tensor")
        if isinstance(one, str) and not Path(one).is_file():
            names += _checked([one])
            continue
        picture = read(one, None if isinstance(one, (str, Path)) else f"own picture {len(pictures) + 1}")
        names.append(picture.name)
        pictures[picture.name] = model.preprocess(picture)
    return tuple(names) or AUTOMATIC, pictures


def efficientnet_lite(baselines: Sequence[str] | None = None) -> ImageModel:
    """EfficientNet-Lite0 with ImageNet weights, the default image model."""
    from rationales.models.efficientnet import load_lite

    module, labels, how = load_lite(0)
    fit = Fit("crop", how["size"], how["size"], resize=how["crop"], resample=how["resample"])
    mean, std = (how["mean"],) * 3, (how["std"],) * 3
    return from_pixels(module, fit, mean, std, labels, LITE, _checked(baselines))


def from_pixels(
    module: nn.Module,
    fit: Fit,
    mean: Sequence[float],
    std: Sequence[float],
    labels: Sequence[str],
    name: str,
    baselines: Sequence[str] | None = None,
) -> ImageModel:
    """A module that reads (x - mean) / std, x in [0, 1], of a picture put in its place by `fit`."""
    shift, scale = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]

    def preprocess(picture: Picture) -> Tensor:
        return (place(picture, fit)[0] - shift) / scale

    return ImageModel(module, preprocess, fit, Head.SOFTMAX, tuple(labels), name, _checked(baselines))


def from_processor(module: nn.Module, processor: Any, name: str, baselines: Sequence[str] | None = None) -> ImageModel:
    """A Hugging Face image classifier with its own processor."""
    fit = _fit_of(processor)

    def preprocess(picture: Picture) -> Tensor:
        made = processor(images=np.asarray(picture.pixels), return_tensors="pt", input_data_format="channels_last")
        pixels: Tensor = made["pixel_values"][0]
        if pixels.shape[1:] != (fit.height, fit.width):
            raise ModelError(
                f"the processor makes {tuple(pixels.shape[1:])} pixels where {(fit.height, fit.width)} were expected"
            )
        return pixels

    config: Any = module.config
    labels = tuple(str(config.id2label[index]) for index in sorted(config.id2label, key=int))
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    head = Head.MULTI_LABEL if several else Head.SOFTMAX
    mean = getattr(processor, "image_mean", None) or (0.485, 0.456, 0.406)
    colour = (float(mean[0]), float(mean[1]), float(mean[2]))
    return ImageModel(module, preprocess, fit, head, labels, name, _checked(baselines), mean_colour=colour)


def from_module(
    module: nn.Module,
    preprocess: Callable[[Any], Any],  # a tensor, if all is well
    labels: Sequence[str],
    name: str,
    baselines: Sequence[str] | None = None,
) -> ImageModel:
    """Any module with a callable that turns a PIL image into a (channels, H, W) tensor; scores cover what it reads.

    The callable is taken to resize the whole picture; one that crops should be given as a Hugging Face processor, which
    says so.
    """
    from PIL import Image

    def prepared(picture: Picture) -> Tensor:
        made = preprocess(Image.fromarray(picture.pixels))
        if not isinstance(made, Tensor) or made.dim() not in (3, 4):
            raise ModelError("the preprocessing must give a tensor (channels, height, width)")
        return made if made.dim() == 3 else made[0]

    grey = Picture(np.full((64, 64, 3), 128, dtype=np.uint8), "grey")
    height, width = prepared(grey).shape[1:]
    fit = Fit("squash", int(height), int(width))
    return ImageModel(module, prepared, fit, Head.SOFTMAX, tuple(labels), name, _checked(baselines))


def is_processor(given: Any) -> bool:
    """Whether this is an image processor of Hugging Face."""
    return "pixel_values" in getattr(given, "model_input_names", ())


def _fit_of(processor: Any) -> Fit:
    """Where the processor puts a picture, read off its settings."""
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
    given = dict(size) if not isinstance(size, int) else {"height": size, "width": size}
    if given.get("shortest_edge"):
        return (int(given["shortest_edge"]),)
    if given.get("height") and given.get("width"):
        return int(given["height"]), int(given["width"])
    return None


def _checked(baselines: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(baselines.split(",") if isinstance(baselines, str) else baselines or AUTOMATIC)
    if chosen == AUTOMATIC:
        return chosen
    for name in chosen:
        if name not in ("black", "white", "mean", "noise"):
            blur_radius(name)  # says what there is
    return chosen
