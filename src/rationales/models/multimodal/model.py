"""Image-text classifiers: tuples of an image and a text in, a Batch of rows out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.errors import InputError
from rationales.models.batch import Rows
from rationales.models.batch.execution import attribute_set, available_bytes, frozen, limited_threads, stored_bytes
from rationales.models.classes import Head, label_index
from rationales.models.display import ModelDisplay, label_list
from rationales.models.image.batch import PATCH
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import read_pixels, real_pixels, scores_at_image_size
from rationales.models.model import InputDescription
from rationales.models.multimodal.batch import ImageTextBatch
from rationales.models.multimodal.network import ImageTextNetwork
from rationales.models.multimodal.reading import EncodedImageText, ImageTextInput, pair_key, read_pair
from rationales.models.text.tokens import encode as encode_text
from rationales.models.text.tokens import tokenize
from rationales.rationale import Grid, Note, TextAndImage


@dataclass(eq=False, repr=False)
class ImageTextModel(ModelDisplay):
    """An image-text classifier that can be explained."""

    network: ImageTextNetwork
    pictures: ImageModel  # preprocessing, fit and baselines of the images; its module is never called
    tokenizer: Any
    head: Head
    labels: tuple[str, ...]
    name: str
    word_baseline: str
    limit: int  # tokens of a text
    filler: int  # token id of padding
    kind: str = field(default="image-text", init=False)
    unit: str = field(default="unit", init=False)  # words and pixels
    _row_bytes: int = field(default=0, init=False, repr=False)

    def facts(self) -> dict[str, str]:
        """Facts for `repr` and notebooks."""
        fit = self.pictures.fit
        return {
            "reads": f"images of {fit.width} × {fit.height} with a text of up to {self.limit} tokens",
            "labels": label_list(self.labels),
            "baseline": self.baseline,
            "device": str(self.device),
        }

    @property
    def baseline(self) -> str:
        """The baseline of words, and those of pixels."""
        return f"{self.word_baseline}; {self.pictures.baseline}"

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self.network.baseline.device

    def read(self, raw_input: Any, name: str | None) -> ImageTextInput:
        """A checked input made from a tuple of an image and a text."""
        return read_pair(raw_input, name)

    def title(self, source: ImageTextInput) -> str:
        """The name of an input in messages."""
        return source.name

    def target(self, label: str | int | None) -> int | None:
        """Index of a class given by its label or index; None for None."""
        return label_index(self.labels, label)

    def encode(self, inputs: Sequence[ImageTextInput]) -> list[EncodedImageText]:
        """The preprocessed images, and the words and tokens of their texts."""
        captions = [source.caption for source in inputs]
        with limited_threads(0):
            tokenizations = tokenize(captions, self.tokenizer)
            return [
                self._encoded(source, tokenization) for source, tokenization in zip(inputs, tokenizations, strict=True)
            ]

    def _encoded(self, source: ImageTextInput, tokenization: Any) -> EncodedImageText:
        words = encode_text(source.caption, self.tokenizer, "word", self.limit, 0, tokenization)
        if len(words.rows) > 1:
            raise InputError(
                f"the text of {source.name} is longer than the {self.limit} tokens that {self.name} reads; shorten it"
            )
        fit = self.pictures.fit
        return EncodedImageText(
            source, self.pictures.preprocess(source.image), real_pixels(source.image.size, fit), words
        )

    def describe(self, encoded: EncodedImageText, scores: Tensor) -> InputDescription:
        """What a result says of the pair: scores of the words, then those of the pixels at the size of the image."""
        fit, image = self.pictures.fit, encoded.source.image
        pixels = scores[: fit.height * fit.width].view(fit.height, fit.width)
        words = scores[fit.height * fit.width :].cpu().numpy()
        pixel_scores = scores_at_image_size(pixels, fit, image).flatten().cpu().numpy()
        read_mask = read_pixels(image.size, fit).flatten()
        notes: tuple[Note, ...] = ()
        if image.reduced_from is not None:
            before, after = ("{1} × {0}".format(*size) for size in (image.reduced_from, image.size))
            message = f"an image of {before} pixels was reduced to {after}; scores are for that size"
            notes = (Note("reduced", message),)
        return InputDescription(
            text=encoded.source.text,
            units=TextAndImage(encoded.words.units, Grid(*image.size)),
            scores=np.concatenate([words, pixel_scores]),
            image=image.pixels,
            name=encoded.source.name,
            baseline=self.baseline,
            notes=notes,
            read_mask=np.concatenate([np.ones(len(words), dtype=bool), read_mask]),
        )

    def batch(self, encoded: Sequence[EncodedImageText], seed: int = 0) -> ImageTextBatch:
        """The rows of all these pairs on every baseline of pixels."""
        device, network = self.device, self.network
        dtype = torch.float64 if network.baseline.dtype == torch.float64 else torch.float32
        views, count = len(self.pictures.baselines), len(encoded)
        keys = [pair_key(seed, pair.source) for pair in encoded]
        stacked = torch.stack([pair.pixels for pair in encoded]).to(device)
        real_pixel = torch.stack([pair.real for pair in encoded]).to(device)
        height, width = stacked.shape[2:]
        lines = [pair.tokens for pair in encoded]
        words, longest = max(len(row.units) for row in lines), max(len(row.ids) for row in lines)

        def table(values: Sequence[Sequence[Any]], fill: Any, size: int, kind: torch.dtype) -> Tensor:
            padded = np.full((count, size), fill)
            for index, line in enumerate(values):
                padded[index, : len(line)] = line
            return torch.from_numpy(padded).to(kind).to(device)

        real_word = table([[True] * len(row.units) for row in lines], False, words, torch.bool)
        position = table([row.position for row in lines], 0.0, words, dtype)
        real = torch.cat([real_pixel.flatten(1), real_word], 1).repeat(views, 1)
        units = real.shape[1]
        rows = Rows(
            input=torch.arange(count, device=device).repeat(views),
            mask=torch.arange(count, device=device).repeat(views),
            view=torch.arange(views, device=device).repeat_interleave(count),
            key=torch.tensor(keys, device=device).repeat(views),
            unit=torch.arange(units, device=device).expand(views * count, units),
            real=real,
            position=torch.cat([position.new_zeros(count, height * width), position], 1).repeat(views, 1),
            blend=torch.full((1, 1), 1 / views, device=device, dtype=dtype).expand(views * count, units),
        )
        owner = [[unit if unit >= 0 else words for unit in row.owner] for row in lines]
        types = [row.types for row in lines if row.types is not None]
        names = [self.pictures.baselines] * count
        batch = ImageTextBatch(
            rows=rows,
            inputs=count,
            views=views,
            classes=len(self.labels),
            head=self.head,
            grid=None,
            budget=1,
            network=network,
            pixels=stacked.to(dtype),
            baseline_pixels=self.pictures.baseline_rows(stacked, real_pixel, names, keys).to(dtype),
            ids=table([row.ids for row in lines], self.filler, longest, torch.long),
            attention=table([[1] * len(row.ids) for row in lines], 0, longest, torch.long),
            types=table(types, 0, longest, torch.long) if len(types) == count else None,
            owner=table(owner, words, longest, torch.long),
            lengths=[len(row.ids) for row in lines],
            patches=max(1, height * width // PATCH),
        )
        batch.budget = max(1, available_bytes(device) // self._bytes_per_token(batch))
        return batch

    def _bytes_per_token(self, batch: ImageTextBatch) -> int:
        """Memory that a token or patch of a row needs for the backward pass, measured once."""
        if not self._row_bytes:
            length = batch.lengths[0]
            leaf = batch.pixels[:1].detach().requires_grad_()
            ids, attention = batch.ids[:1, :length], batch.attention[:1, :length]
            types = None if batch.types is None else batch.types[:1, :length]

            def run() -> object:
                return self.network.logits(leaf.clone(), ids, attention, types, lambda embeddings: embeddings)

            with self.frozen():
                stored = max(stored_bytes([self.network.module], run), leaf.nbytes)
            self._row_bytes = -(-stored // (batch.patches + length))
        return self._row_bytes

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Context in which the network is frozen; on exit all its flags are restored.

        ViLT drops patches at random above its `max_image_length`; inside the context it keeps them all.
        """
        config = getattr(self.network.module, "config", None)
        with ExitStack() as stack:
            stack.enter_context(frozen(self.network.module))
            if getattr(config, "max_image_length", None) is not None:
                stack.enter_context(attribute_set(config, "max_image_length", -1))
            yield
