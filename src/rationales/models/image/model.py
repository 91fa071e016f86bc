"""Image classifiers: images in, a Batch of rows out; pixels are kept or replaced after the model's preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.batch import Rows
from rationales.models.batch.execution import available_bytes, limited_threads, stored_bytes, weight_count
from rationales.models.batch.rows import content_key
from rationales.models.classes import Head, class_logits, probabilities
from rationales.models.display import label_list
from rationales.models.image.baseline_choice import BaselineChoice, choose_baselines
from rationales.models.image.baselines import baseline
from rationales.models.image.batch import PATCH, ImageBatch, image_logits
from rationales.models.image.reading import Fit, ImageInput, fit_image, read_image, scores_at_image_size
from rationales.models.model import InputDescription
from rationales.models.module_model import ModuleModel
from rationales.rationale import Grid, Note

AUTOMATIC = ("auto",)
Preprocess = Callable[[ImageInput], Tensor]  # -> (channels, H, W), as the model reads it


@dataclass(frozen=True)
class EncodedImage:
    """An image as the model reads it, ready to be explained."""

    source: ImageInput
    pixels: Tensor  # (channels, H, W) as the model reads it
    real: Tensor  # (H, W) bool: not padding
    baseline_choice: BaselineChoice | None = None  # where the baselines are chosen for each image


@dataclass(eq=False, repr=False)
class ImageModel(ModuleModel):
    """An image classifier that can be explained."""

    module: nn.Module
    preprocess: Preprocess
    fit: Fit
    head: Head
    labels: tuple[str, ...]
    name: str
    baselines: tuple[str, ...] = AUTOMATIC  # names, or for each image those that tell the model least
    custom_baselines: Mapping[str, Tensor] = field(default_factory=dict)  # images of the user's, preprocessed
    mean_colour: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of natural photographs, in [0, 1]
    kind: str = field(default="image", init=False)
    unit: str = field(default="pixel", init=False)
    _row_bytes: int = field(default=0, init=False, repr=False)

    def facts(self) -> dict[str, str]:
        """Facts for `repr` and notebooks."""
        return {
            "reads": f"images of {self.fit.width} × {self.fit.height}",
            "labels": label_list(self.labels),
            "fit": self.fit.kind,
            "baseline": self.baseline,
            "device": str(self.device_and_dtype[0]),
        }

    def read(self, raw_input: Any, name: str | None) -> ImageInput:
        """An image from a path, a PIL image or an array."""
        return read_image(raw_input, name)

    def encode(self, images: Sequence[ImageInput]) -> list[EncodedImage]:
        """The preprocessed images, each with the choice of its baselines."""
        encoded = [EncodedImage(image, self.preprocess(image), fit_image(image, self.fit)[1]) for image in images]
        if self.baselines != AUTOMATIC:
            return encoded
        choices = self._choices(encoded)
        return [replace(image, baseline_choice=choice) for image, choice in zip(encoded, choices, strict=True)]

    def describe(self, encoded: EncodedImage, scores: Tensor) -> InputDescription:
        """What a result says about the image; scores are resized to the size of the original."""
        original_scores = scores_at_image_size(scores.view(self.fit.height, self.fit.width), self.fit, encoded.source)
        read_share = scores_at_image_size(encoded.real.float(), self.fit, encoded.source)
        choice = encoded.baseline_choice if self.baselines == AUTOMATIC else None
        return InputDescription(
            text="",
            units=Grid(*encoded.source.size),
            scores=original_scores.flatten().numpy(),
            image=encoded.source.pixels,
            name=encoded.source.name,
            baseline=", ".join(dict.fromkeys(choice.names)) if choice else self.baseline,
            notes=_notes(encoded.source, choice),
            read_mask=read_share.flatten().numpy() > 0,
        )

    def batch(self, encoded: Sequence[EncodedImage], seed: int = 0) -> ImageBatch:
        """The rows of all these images on every baseline."""
        device, dtype = self.device_and_dtype
        baseline_names = self._baseline_names(encoded)
        views, count = len(baseline_names[0]), len(encoded)
        keys = [_key(seed, image) for image in encoded]
        pixels = torch.stack([image.pixels for image in encoded]).to(device=device, dtype=dtype)
        height, width = pixels.shape[2:]
        units, position = height * width, torch.cartesian_prod(torch.arange(height), torch.arange(width))
        baseline_pixels = [
            # the same baseline twice: another key, so that noise differs
            self._baseline_pixels(names[view], image, key + names[:view].count(names[view]))
            for view in range(views)
            for image, names, key in zip(encoded, baseline_names, keys, strict=True)
        ]
        rows = Rows(
            input=torch.arange(count, device=device).repeat(views),
            mask=torch.arange(count, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(count),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=torch.arange(units, device=device).expand(views * count, units),
            real=torch.stack([image.real.flatten() for image in encoded]).to(device).repeat(views, 1),
            position=position.to(device=device, dtype=dtype).expand(views * count, units, 2),
            blend=torch.full((1, 1), 1 / views, device=device, dtype=dtype).expand(views * count, units),
        )
        return ImageBatch(
            rows=rows,
            inputs=count,
            views=views,
            classes=len(self.labels),
            head=self.head,
            budget=max(1, available_bytes(device) // self._bytes_per_row(pixels[:1])),
            grid=(height, width),
            module=self.module,
            values=pixels,
            baseline_values=torch.stack(baseline_pixels).to(device=device, dtype=dtype),
        )

    def _baseline_names(self, encoded: Sequence[EncodedImage]) -> list[tuple[str, ...]]:
        """The baselines of every image, the same number for all."""
        if self.baselines != AUTOMATIC:
            return [self.baselines] * len(encoded)
        if any(image.baseline_choice is None for image in encoded):
            return [choice.names for choice in self._choices(encoded)]
        return [image.baseline_choice.names for image in encoded if image.baseline_choice is not None]

    def _choices(self, encoded: Sequence[EncodedImage]) -> list[BaselineChoice]:
        device, dtype = self.device_and_dtype

        def predict(pixels: Tensor) -> Tensor:
            logits = image_logits(self.module, pixels.to(device=device, dtype=dtype)).float()
            return probabilities(self.head, class_logits(self.head, logits)).cpu()

        patches = sum(image.real.numel() // PATCH for image in encoded)
        with self.frozen(), limited_threads(weight_count(self.module) * patches), torch.no_grad():
            # noise is judged by one sample, the same for every seed
            return choose_baselines(
                [image.pixels for image in encoded],
                lambda i, name: self._baseline_pixels(name, encoded[i], _key(0, encoded[i])),
                predict,
            )

    def _baseline_pixels(self, name: str, image: EncodedImage, key: int) -> Tensor:
        """(channels, H, W): a baseline of this image, as the model reads it."""
        if name in self.custom_baselines:
            return self.custom_baselines[name]
        shift, scale = self.normalisation(len(image.pixels))
        unnormalised = image.pixels * scale + shift  # back in [0, 1]
        return (baseline(name, unnormalised, self.mean_colour, key, image.real) - shift) / scale

    def normalisation(self, channels: int) -> tuple[Tensor, Tensor]:
        """(channels, 1, 1) each: shift and scale that take preprocessed pixels back to [0, 1].

        Measured with a black and a white image, so that any preprocessing will do.
        """
        uniform = (np.full((self.fit.height, self.fit.width, 3), value, dtype=np.uint8) for value in (0, 255))
        black, white = (self.preprocess(ImageInput(pixels, "one colour")) for pixels in uniform)
        low, high = black.flatten(1).amin(1), white.flatten(1).amax(1)
        if len(low) != channels or bool((high <= low).any()):
            raise ModelError("the preprocessing gives the same pixels for a white and a black image")
        scale = 1 / (high - low)
        return (-low * scale)[:, None, None], scale[:, None, None]

    def _bytes_per_row(self, pixels: Tensor) -> int:
        """Memory that one row needs for the backward pass, measured once."""
        if not self._row_bytes:
            leaf = pixels.detach().requires_grad_()
            # a clone: the module may overwrite its input in place
            stored = stored_bytes([self.module], lambda: image_logits(self.module, leaf.clone()))
            self._row_bytes = max(stored, pixels.nbytes)
        return self._row_bytes


def _notes(source: ImageInput, choice: BaselineChoice | None) -> tuple[Note, ...]:
    notes = [] if choice is None else [Note("baselines", choice.message)]
    if source.reduced_from is not None:
        before, after = ("{1} × {0}".format(*size) for size in (source.reduced_from, source.size))
        notes.append(Note("reduced", f"an image of {before} pixels was reduced to {after}; scores are for that size"))
    return tuple(notes)


def _key(seed: int, image: EncodedImage) -> int:
    return content_key(seed, image.source.pixels.tobytes())
