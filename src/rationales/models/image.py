"""Image classifiers as a Batch: pixels are kept or replaced where the model reads them, after its own preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.errors import ModelError
from rationales.models.baseline_choice import Choice, choose
from rationales.models.batch import Rows
from rationales.models.heads import Head, class_logits, probabilities
from rationales.models.image_batch import PATCH, ImageBatch, call
from rationales.models.labels import label_number
from rationales.models.memory import available_bytes, stored_bytes
from rationales.models.picture_baselines import baseline
from rationales.models.pictures import Fit, Picture, back, place, read
from rationales.models.randomness import content_key
from rationales.models.shown import Shown, label_list
from rationales.models.state import frozen
from rationales.models.threads import limited_threads, weight_count
from rationales.rationale import Grid, Note

AUTOMATIC = ("auto",)
Preprocess = Callable[[Picture], Tensor]  # -> (channels, H, W), as the model reads it


@dataclass(frozen=True)
class EncodedPicture:
    """A picture ready to be explained."""

    source: Picture
    pixels: Tensor  # (channels, H, W) as the model reads it
    real: Tensor  # (H, W) bool: not padding
    chosen: Choice | None = None  # where the baselines are chosen for each picture


@dataclass(eq=False, repr=False)
class ImageModel(Shown):
    """An image classifier that can be explained."""

    module: nn.Module
    preprocess: Preprocess
    fit: Fit
    head: Head
    labels: tuple[str, ...]
    name: str
    baselines: tuple[str, ...] = AUTOMATIC  # names, or those that tell the model least, for each picture
    own_baselines: Mapping[str, Tensor] = field(default_factory=dict)  # pictures of the user's, as the model reads them
    mean_colour: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of natural photographs, in [0, 1]
    kind: str = field(default="image", init=False)
    unit: str = field(default="pixel", init=False)
    _row_bytes: int = field(default=0, init=False, repr=False)

    @property
    def baseline(self) -> str:
        """The names of the baselines."""
        return ", ".join(self.baselines)

    def facts(self) -> dict[str, str]:
        """What to show of it."""
        return {
            "reads": f"pictures of {self.fit.width} × {self.fit.height}",
            "labels": label_list(self.labels),
            "fit": self.fit.kind,
            "baseline": self.baseline,
            "device": str(_home(self.module)[0]),
        }

    def read(self, given: Any, name: str | None) -> Picture:
        """A picture from a path, a PIL image or an array."""
        return read(given, name)

    def encode(self, pictures: Sequence[Picture]) -> list[EncodedPicture]:
        """What the model reads of each picture, and the baselines for it."""
        encoded = [EncodedPicture(one, self.preprocess(one), place(one, self.fit)[1]) for one in pictures]
        if self.baselines != AUTOMATIC:
            return encoded
        return [replace(one, chosen=choice) for one, choice in zip(encoded, self._choices(encoded), strict=True)]

    def title(self, source: Picture) -> str:
        """What to call a picture in a message."""
        return source.name

    def describe(self, encoded: EncodedPicture, scores: Tensor) -> dict[str, Any]:
        """What a result says of the picture, its scores taken back to its own size."""
        at_size = back(scores.view(self.fit.height, self.fit.width), self.fit, encoded.source)
        seen = back(encoded.real.float(), self.fit, encoded.source)
        choice = encoded.chosen if self.baselines == AUTOMATIC else None
        return {
            "text": "",
            "baseline": ", ".join(dict.fromkeys(choice.names)) if choice else self.baseline,
            "notes": _notes(encoded.source, choice),
            "name": encoded.source.name,
            "image": encoded.source.pixels,
            "units": Grid(*encoded.source.size),
            "scores": at_size.flatten().numpy(),
            "read": seen.flatten().numpy() > 0,
        }

    def batch(self, encoded: Sequence[EncodedPicture], seed: int = 0) -> ImageBatch:
        """The rows of all these pictures, on every baseline."""
        device, dtype = _home(self.module)
        named = self._named(encoded)
        views, count = len(named[0]), len(encoded)
        keys = [_key(seed, one) for one in encoded]
        pixels = torch.stack([one.pixels for one in encoded]).to(device=device, dtype=dtype)
        height, width = pixels.shape[2:]
        units = height * width
        empty = [
            self._empty(names[view], one, key + names[:view].count(names[view]))  # noise taken twice is drawn twice
            for view in range(views)
            for one, names, key in zip(encoded, named, keys, strict=True)
        ]
        rows = Rows(
            input=torch.arange(count, device=device).repeat(views),
            mask=torch.arange(count, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(count),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=torch.arange(units, device=device).expand(views * count, units),
            real=torch.stack([one.real.flatten() for one in encoded]).to(device).repeat(views, 1),
            position=_places(height, width, device, dtype).expand(views * count, units, 2),
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
            pixels=pixels,
            empty=torch.stack(empty).to(device=device, dtype=dtype),
        )

    def _named(self, encoded: Sequence[EncodedPicture]) -> list[tuple[str, ...]]:
        """The baselines of every picture, the same number for all."""
        if self.baselines != AUTOMATIC:
            return [self.baselines] * len(encoded)
        if any(one.chosen is None for one in encoded):
            return [choice.names for choice in self._choices(encoded)]
        return [one.chosen.names for one in encoded if one.chosen is not None]

    def _choices(self, encoded: Sequence[EncodedPicture]) -> list[Choice]:
        device, dtype = _home(self.module)

        def said(pixels: Tensor) -> Tensor:
            logits = call(self.module, pixels.to(device=device, dtype=dtype)).float()
            return probabilities(self.head, class_logits(self.head, logits)).cpu()

        patches = sum(one.real.numel() // PATCH for one in encoded)
        with self.borrowed(), limited_threads(weight_count(self.module) * patches), torch.no_grad():
            # noise is judged by one sample of it, the same whatever the seed
            return choose(
                [one.pixels for one in encoded],
                lambda number, name: self._empty(name, encoded[number], _key(0, encoded[number])),
                said,
            )

    def _empty(self, name: str, one: EncodedPicture, key: int) -> Tensor:
        """(channels, H, W): a baseline of this picture, as the model reads it."""
        if name in self.own_baselines:
            return self.own_baselines[name]
        shift, scale = self.normalisation(len(one.pixels))
        plain = one.pixels * scale + shift  # back in [0, 1]
        return (baseline(name, plain, self.mean_colour, key, one.real) - shift) / scale

    def normalisation(self, channels: int) -> tuple[Tensor, Tensor]:
        """(channels, 1, 1) each: shift and scale that take what the model reads back to [0, 1].

        Read off what the preprocessing makes of a black and of a white picture, so that any preprocessing will do.
        """
        flat = (np.full((self.fit.height, self.fit.width, 3), value, dtype=np.uint8) for value in (0, 255))
        black, white = (self.preprocess(Picture(pixels, "one colour")) for pixels in flat)
        low, high = black.flatten(1).amin(1), white.flatten(1).amax(1)
        if len(low) != channels or bool((high <= low).any()):
            raise ModelError("the preprocessing does not tell a white picture from a black one")
        scale = 1 / (high - low)
        return (-low * scale)[:, None, None], scale[:, None, None]

    def target(self, wanted: str | int | None) -> int | None:
        """The number of a class given by label or number."""
        return label_number(self.labels, wanted)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """A frozen module inside the block, given back as it was."""
        with frozen(self.module):
            yield

    def _bytes_per_row(self, pixels: Tensor) -> int:
        """What one row stores for the backward pass, measured once."""
        if not self._row_bytes:
            read = pixels.detach().requires_grad_()
            # a copy: the module may overwrite what it reads
            stored = stored_bytes([self.module], lambda: call(self.module, read.clone()))
            self._row_bytes = max(stored, pixels.nbytes)
        return self._row_bytes


def _notes(source: Picture, choice: Choice | None) -> list[Note]:
    notes = [] if choice is None else [Note("baselines", choice.message)]
    if source.reduced_from is not None:
        before, after = ("{1} × {0}".format(*size) for size in (source.reduced_from, source.size))
        notes.append(Note("reduced", f"a picture of {before} pixels was reduced to {after}; scores are for that size"))
    return notes


def _key(seed: int, one: EncodedPicture) -> int:
    return content_key(seed, one.source.pixels.tobytes())


def _home(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    weight = next(module.parameters(), None)
    if weight is None:
        return torch.device("cpu"), torch.float32
    return weight.device, weight.dtype


def _places(height: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(H * W, 2): row and column of every pixel."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows.flatten(), columns.flatten()], -1).to(device=device, dtype=dtype)
