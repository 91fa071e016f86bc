"""Image classifiers: images in, a Batch of rows out; pixels are kept or replaced after the model's preprocessing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.batch import Rows
from rationales.models.batch.execution import available_bytes, limited_threads, stored_bytes, weight_count
from rationales.models.classes import Head, class_logits, probabilities
from rationales.models.display import label_list
from rationales.models.fast.precision import in_half_precision, weights_fingerprint
from rationales.models.image.baseline_choice import (
    PLAIN_COLOURS,
    BaselineChoice,
    PlainPredictions,
    choose_baselines,
    choose_plain,
)
from rationales.models.image.baselines import baseline_images
from rationales.models.image.batch import PATCH, ImageBatch, image_logits
from rationales.models.image.encoded import EncodedImage, KnownPredictions, image_key
from rationales.models.image.reading import (
    Fit,
    ImageInput,
    read_image,
    read_images,
    read_pixels,
    real_pixels,
    scores_at_image_size,
)
from rationales.models.model import InputDescription
from rationales.models.module_model import ModuleModel
from rationales.rationale import Grid, Note

AUTOMATIC = ("auto",)
PREPARING_THREADS = 8  # that read and preprocess images while a GPU waits for them
IMAGES_AT_ONCE = {"cuda": 32}  # images whose baselines are chosen together, by device; 4 elsewhere
Preprocess = Callable[[ImageInput], Tensor]  # -> (channels, H, W), as the model reads it


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
    parallel_preprocess: bool = False  # whether `preprocess` may run in several threads at once
    batch_dtype: torch.dtype | None = None  # precision in which batches run a copy of the module; None: its own
    kind: str = field(default="image", init=False)
    unit: str = field(default="pixel", init=False)
    _row_bytes: int = field(default=0, init=False, repr=False)
    _normalisation: tuple[Any, Tensor, Tensor] | None = field(default=None, init=False, repr=False)
    _plain: tuple[Any, PlainPredictions] | None = field(default=None, init=False, repr=False)

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

    def read_all(self, raw_inputs: Sequence[Any], names: Sequence[str | None]) -> list[ImageInput]:
        """`read` for several images; several at once where the cores have no other work."""
        on_cpu = self.device_and_dtype[0].type == "cpu"
        return read_images(raw_inputs, names, 1 if on_cpu else PREPARING_THREADS)

    def encode(self, images: Sequence[ImageInput], plain_baseline: bool = False) -> list[EncodedImage]:
        """The preprocessed images, each with the choice of its baselines.

        `plain_baseline`: where baselines are chosen for each image, only a plain colour is, by predictions that are
        known but for that of the image: enough to check the rationale of a method that uses no baselines itself.
        """
        return self.choose(self.prepare(images), plain_baseline)

    def prepare(self, images: Sequence[ImageInput]) -> list[EncodedImage]:
        """The preprocessed images; the model is not asked anything."""

        def prepared(image: ImageInput) -> EncodedImage:
            return EncodedImage(image, self.preprocess(image), real_pixels(image.size, self.fit))

        on_cpu = self.device_and_dtype[0].type == "cpu"  # then the cores have other work
        workers = 1 if on_cpu or not self.parallel_preprocess else min(PREPARING_THREADS, len(images))
        with limited_threads(0):
            if workers <= 1:
                return [prepared(image) for image in images]
            with ThreadPoolExecutor(workers) as pool:
                encoded = list(pool.map(prepared, images))
                # keys are remembered: to hash an image takes as long as to resize it
                list(pool.map(functools.partial(image_key, 0), encoded))
                return encoded

    def choose(self, encoded: list[EncodedImage], plain_baseline: bool = False) -> list[EncodedImage]:
        """The images of `prepare`, each with the choice of its baselines; see `encode`."""
        if self.baselines != AUTOMATIC or not encoded:
            return encoded
        if plain_baseline:
            return self._with_plain_colour(encoded)
        choices = self._choices(encoded)
        return [replace(image, baseline_choice=choice) for image, choice in zip(encoded, choices, strict=True)]

    def describe(self, encoded: EncodedImage, scores: Tensor) -> InputDescription:
        """What a result says about the image; scores are resized to the size of the original."""
        original_scores = scores_at_image_size(scores.view(self.fit.height, self.fit.width), self.fit, encoded.source)
        choice = encoded.baseline_choice if self.baselines == AUTOMATIC else None
        return InputDescription(
            text="",
            units=Grid(*encoded.source.size),
            scores=original_scores.flatten().cpu().numpy(),
            image=encoded.source.pixels,
            name=encoded.source.name,
            baseline=", ".join(dict.fromkeys(choice.names)) if choice else self.baseline,
            notes=_notes(encoded.source, choice),
            read_mask=read_pixels(encoded.source.size, self.fit),
        )

    def batch(self, encoded: Sequence[EncodedImage], seed: int = 0) -> ImageBatch:
        """The rows of all these images on every baseline."""
        device, dtype = self.device_and_dtype
        baseline_names = self._baseline_names(encoded)
        views, count = len(baseline_names[0]), len(encoded)
        keys = [image_key(seed, image) for image in encoded]
        stacked = torch.stack([image.pixels for image in encoded]).to(device)
        pixels = stacked.to(dtype)
        height, width = pixels.shape[2:]
        units, sides = height * width, [torch.arange(side, device=device) for side in (height, width)]
        real = torch.stack([image.real for image in encoded]).to(device)
        rows = Rows(
            input=torch.arange(count, device=device).repeat(views),
            mask=torch.arange(count, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(count),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=torch.arange(units, device=device).expand(views * count, units),
            real=real.flatten(1).repeat(views, 1),
            position=torch.cartesian_prod(*sides).to(dtype).expand(views * count, units, 2),
            blend=torch.full((1, 1), 1 / views, device=device, dtype=dtype).expand(views * count, units),
        )
        batch = ImageBatch(
            rows=rows,
            inputs=count,
            views=views,
            classes=len(self.labels),
            head=self.head,
            budget=self._budget(pixels[:1]),
            grid=(height, width),
            module=self.module,
            values=pixels,
            baseline_values=self.baseline_rows(stacked, real, baseline_names, keys).to(dtype),
        )
        known = [image.known for image in encoded]
        if all(prediction is not None for prediction in known):
            batch.known_logits = torch.stack([prediction.logits for prediction in known if prediction is not None])
            if bool(real.all()):  # padding is not replaced, and was when the colour was shown alone
                batch.known_baseline = torch.stack([values.baseline for values in known if values is not None])
        return batch if self.batch_dtype is None else batch.in_dtype(self.batch_dtype)

    def coarse(self, dtype: torch.dtype = torch.float16) -> ImageModel:
        """This model with batches that run a half-precision copy on a GPU; itself elsewhere or if they disagree."""
        if self.device_and_dtype[0].type != "cuda":
            return self
        generator = np.random.default_rng(0)
        samples = [
            self.read(generator.integers(0, 256, (side, side, 3), dtype=np.uint8), None)
            for side in (8, min(self.fit.height, self.fit.width))  # large patches of colours, and noise
        ]
        with self.frozen():
            half = in_half_precision(self.batch(self.encode(samples)), dtype, gradients=False)
        return self if half is None else replace(self, batch_dtype=dtype)

    def _baseline_names(self, encoded: Sequence[EncodedImage]) -> list[tuple[str, ...]]:
        """The baselines of every image, the same number for all."""
        if self.baselines != AUTOMATIC:
            return [self.baselines] * len(encoded)
        if any(image.baseline_choice is None for image in encoded):
            return [choice.names for choice in self._choices(encoded)]
        return [image.baseline_choice.names for image in encoded if image.baseline_choice is not None]

    def _choices(self, encoded: Sequence[EncodedImage]) -> list[BaselineChoice]:
        device, _ = self.device_and_dtype
        choices = []
        with self._asking(encoded) as predict:
            plain = self._plain_predictions(encoded[0].pixels, predict)
            at_once = IMAGES_AT_ONCE.get(device.type, 4)
            for begin in range(0, len(encoded), at_once):
                chunk = encoded[begin : begin + at_once]
                pixels = torch.stack([image.pixels for image in chunk]).to(device)
                real = torch.stack([image.real for image in chunk]).to(device)
                keys = [image_key(0, image) for image in chunk]  # noise is judged by one sample, whatever the seed
                choices += choose_baselines(pixels, self._candidates(pixels, real, keys), predict, plain)
        return choices

    def _with_plain_colour(self, encoded: Sequence[EncodedImage]) -> list[EncodedImage]:
        """The images, each with the plain colour that tells the model least, and the predictions that this took."""
        with self._asking(encoded):
            logits = self._logits(torch.stack([image.pixels for image in encoded]))
            plain = self._plain_predictions(encoded[0].pixels, self._probabilities)
            choices = choose_plain(probabilities(self.head, logits), plain)
        known = [
            KnownPredictions(image_logits, plain.alone[PLAIN_COLOURS.index(choice.names[0])])
            for image_logits, choice in zip(logits, choices, strict=True)
        ]
        table = zip(encoded, choices, known, strict=True)
        return [replace(image, baseline_choice=choice, known=values) for image, choice, values in table]

    @contextmanager
    def _asking(self, encoded: Sequence[EncodedImage]) -> Iterator[Callable[[Tensor], Tensor]]:
        """The function that predicts probabilities; inside the block the model is frozen."""
        patches = sum(image.real.numel() // PATCH for image in encoded)
        with self.frozen(), limited_threads(weight_count(self.module) * patches), torch.no_grad():
            yield self._probabilities

    def _logits(self, pixels: Tensor) -> Tensor:
        """(R, classes) logits of preprocessed images (R, channels, H, W), in single precision."""
        device, dtype = self.device_and_dtype
        pixels = pixels.to(device=device, dtype=dtype)
        pieces = torch.split(pixels, self._budget(pixels[:1]))
        outputs = [image_logits(self.module, piece).float() for piece in pieces]
        return class_logits(self.head, torch.cat(outputs))

    def _probabilities(self, pixels: Tensor) -> Tensor:
        return probabilities(self.head, self._logits(pixels))

    def _plain_predictions(self, like: Tensor, predict: Callable[[Tensor], Tensor]) -> PlainPredictions:
        """The predictions for plain colours as large as `like` (channels, H, W); asked once while weights stay."""
        state = (weights_fingerprint(self.module), like.shape, self.preprocess, self.mean_colour, self.head)
        if self._plain is None or self._plain[0] != state:
            blank = torch.zeros_like(like, device=self.device_and_dtype[0])[None]
            candidate = self._candidates(blank, torch.ones_like(blank[:, 0], dtype=torch.bool), [0])
            colours = torch.cat([candidate(name) for name in PLAIN_COLOURS])
            self._plain = (state, PlainPredictions.ask(colours, predict))
        return self._plain[1]

    def _candidates(self, pixels: Tensor, real: Tensor, keys: Sequence[int]) -> Callable[[str], Tensor]:
        """Function from a name to that baseline of preprocessed images (P, channels, H, W), as the model reads it."""
        shift, scale = (value.to(pixels.device) for value in self.normalisation(pixels.shape[1]))
        unnormalised = pixels * scale + shift  # back in [0, 1]
        key = torch.tensor(keys, device=pixels.device)
        return lambda name: (baseline_images(name, unnormalised, self.mean_colour, key, real) - shift) / scale

    def baseline_rows(
        self, pixels: Tensor, real: Tensor, names: Sequence[Sequence[str]], keys: Sequence[int]
    ) -> Tensor:
        """(views * P, channels, H, W): the baselines `names` of every image (P, channels, H, W), by view."""
        rows = pixels.repeat(len(names[0]), 1, 1, 1)
        uses: dict[str, list[tuple[int, int, int]]] = {}  # name -> row, number and key of the images that use it
        for number, (image_names, key) in enumerate(zip(names, keys, strict=True)):
            for view, name in enumerate(image_names):
                repeated = image_names[:view].count(name)  # the same baseline twice: another key, so that noise differs
                uses.setdefault(name, []).append((view * len(pixels) + number, number, key + repeated))
        for name, table in uses.items():
            row, number_of_row, key_of_row = (list(column) for column in zip(*table, strict=True))
            if name in self.custom_baselines:
                rows[row] = self.custom_baselines[name].to(rows)
            else:
                rows[row] = self._candidates(pixels[number_of_row], real[number_of_row], key_of_row)(name)
        return rows

    def normalisation(self, channels: int) -> tuple[Tensor, Tensor]:
        """(channels, 1, 1) each: shift and scale that take preprocessed pixels back to [0, 1].

        Measured with a black and a white image, so that any preprocessing will do.
        """
        state = (self.preprocess, self.fit, channels)
        if self._normalisation is not None and self._normalisation[0] == state:
            return self._normalisation[1:]
        uniform = (np.full((self.fit.height, self.fit.width, 3), value, dtype=np.uint8) for value in (0, 255))
        black, white = (self.preprocess(ImageInput(pixels, "one colour")) for pixels in uniform)
        low, high = black.flatten(1).amin(1), white.flatten(1).amax(1)
        if len(low) != channels or bool((high <= low).any()):
            raise ModelError("the preprocessing gives the same pixels for a white and a black image")
        scale = 1 / (high - low)
        self._normalisation = (state, (-low * scale)[:, None, None], scale[:, None, None])
        return self._normalisation[1:]

    def _budget(self, pixels: Tensor) -> int:
        """Rows like `pixels` (1, channels, H, W) that fit into the device's memory."""
        return max(1, available_bytes(pixels.device) // self._bytes_per_row(pixels))

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
