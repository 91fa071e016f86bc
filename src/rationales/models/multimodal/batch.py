"""Rows of an image and a text as a Batch: pixels are replaced after preprocessing, words at their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from rationales.models.batch import Batch, Noise, Piece
from rationales.models.batch.execution import weight_count
from rationales.models.batch.rows import Part, fold, normal
from rationales.models.multimodal.network import ImageTextNetwork

WORD_PURPOSE = 4  # key of the noise on words, so that no random number is used twice


@dataclass(eq=False)
class ImageTextBatch(Batch):
    """Each row is one image on one baseline with its text; units are the pixels, row by row, and then the words.

    The differentiable input of a row is one vector: its pixels (channels, H, W) and after them the word embeddings
    (T, hidden) of its tokens, both flattened.
    """

    network: ImageTextNetwork
    pixels: Tensor  # (M, channels, H, W)
    baseline_pixels: Tensor  # (S, channels, H, W)
    ids: Tensor  # (M, T)
    attention: Tensor  # (M, T)
    types: Tensor | None  # (M, T)
    owner: Tensor  # (M, T) the word of each token; the number of words of a row for special tokens and padding
    lengths: list[int]  # tokens of each mask
    patches: int  # cost of an image, in tokens

    views_are_networks: ClassVar[bool] = False
    input_axes: ClassVar[int] = 1
    sufficient_cost: ClassVar[dict[str, int]] = {"cuda": 2**15, "cpu": 2**10}

    @property
    def parts(self) -> tuple[Part, ...]:
        height, width = self.pixels.shape[2:]
        return Part(0, height * width, (height, width)), Part(height * width, self.size[1], None)

    @property
    def modules(self) -> Sequence[nn.Module]:
        return [self.network.module]

    @property
    def distinct(self) -> int:
        return self.masks

    def cost(self) -> list[int]:
        """Tokens and patches of each row."""
        return [self.patches + length for length in self.lengths] * self.views

    def weights(self) -> int:
        return weight_count(self.network.module) - weight_count(self.network.embedding)

    def forward(self, piece: Piece, keep: Tensor, noise: Noise | None) -> Tensor:
        mask, kept = self.rows.mask[piece.row], torch.where(self.rows.real[piece.row], keep, torch.ones_like(keep))
        pixel_part, word_part = self.parts
        pixels, baseline = self.pixels[mask], self.baseline_pixels[piece.row]
        share = kept[:, pixel_part.units].reshape(-1, 1, *pixels.shape[2:]).to(pixels.dtype)
        mixed = share * pixels + (1 - share) * baseline  # Eq. 1; Eq. 3 when keep is 1 - keep
        if noise is not None:
            size = pixels.square().mean((1, 2, 3), keepdim=True).sqrt()
            mixed = mixed + noise.scale * size * normal(noise.key, pixels.shape[1:], pixels.dtype)
        owner = self.owner[mask, : piece.size - self.patches]
        word_keep = torch.cat([kept[:, word_part.units], kept.new_ones(len(kept), 1)], 1).gather(1, owner)[..., None]

        def blend(words: Tensor) -> Tensor:
            word_share = word_keep.to(words.dtype)
            blended = word_share * words + (1 - word_share) * self.network.baseline.to(words.dtype)
            if noise is None:
                return blended
            is_word = (owner < word_part.count)[..., None]
            size = (words.square() * is_word).sum((1, 2)) / (is_word.sum((1, 2)) * words.shape[-1])
            word_noise = normal(fold(noise.key, WORD_PURPOSE), words.shape[1:], words.dtype)
            return blended + noise.scale * size.sqrt()[:, None, None] * is_word * word_noise

        return self._logits(piece, mixed, blend)

    def _logits(self, piece: Piece, pixels: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        mask, tokens = self.rows.mask[piece.row], piece.size - self.patches
        types = None if self.types is None else self.types[mask, :tokens]
        ids, attention = self.ids[mask, :tokens], self.attention[mask, :tokens]
        return self.class_logits(piece, self.network.logits(pixels, ids, attention, types, change))

    def input_embeddings(self, rows: Tensor | None = None) -> Tensor:
        """(R, values): the pixels and the word embeddings of these rows, in single precision at least."""
        mask = self._masks_of(rows)
        longest = self._longest(mask)
        with torch.no_grad():
            words: Tensor = self.network.embedding(self.ids[mask, :longest])
        pixels = self.pixels[mask]
        single = torch.promote_types(pixels.dtype, torch.float32)
        return torch.cat([pixels.flatten(1).to(single), words.flatten(1).to(single)], 1)

    def all_replaced(self, rows: Tensor | None = None) -> Tensor:
        """(R, values): baseline pixels, and the baseline embedding for every word; all else is unchanged."""
        values = self.input_embeddings(rows)
        pixels, words = self._split(values)
        row = torch.arange(self.size[0], device=self.device) if rows is None else rows
        pixel_region, word_region = self._split(self.unit_region(rows))
        pixels = torch.where(pixel_region, self.baseline_pixels[row].to(pixels), pixels)
        words = torch.where(word_region, self.network.baseline.to(words), words)
        return torch.cat([pixels.flatten(1), words.flatten(1)], 1)

    def unit_region(self, rows: Tensor | None = None) -> Tensor:
        """(R, values) bool: values of pixels that are no padding, and of tokens of words."""
        mask = self._masks_of(rows)
        pixel_part, word_part = self.parts
        channels, height, width = self.pixels.shape[1:]
        real = self.rows.real[: self.masks][mask][:, pixel_part.units]
        pixels = real.reshape(-1, 1, height, width).expand(-1, channels, -1, -1)
        of_word = self.owner[mask, : self._longest(mask)] < word_part.count
        words = of_word[..., None].expand(-1, -1, len(self.network.baseline))
        return torch.cat([pixels.flatten(1), words.flatten(1)], 1)

    def input_strength(self, values: Tensor, unit_region: Tensor) -> Tensor:
        """(R, values): the root mean square of a row's pixels at pixels, and of its words at words."""
        strengths = []
        for part_values, region in zip(self._split(values), self._split(unit_region), strict=True):
            flat, inside = part_values.flatten(1), region.flatten(1)
            mean_square = (flat.square() * inside).sum(1, keepdim=True) / inside.sum(1, keepdim=True).clamp(min=1)
            strengths.append(mean_square.sqrt().expand_as(flat))
        return torch.cat(strengths, 1)

    def forward_from(self, piece: Piece, values: Tensor) -> Tensor:
        # copies: a model may modify either in place, and both are views of one tensor
        pixels, embeddings = (values_of_part.clone() for values_of_part in self._split(values))
        tokens = piece.size - self.patches
        return self._logits(piece, pixels, lambda words: embeddings[:, :tokens].to(words))

    def to_units(self, values: Tensor, reduce: str, rows: Tensor | None = None) -> Tensor:
        """(R, values) -> (R, n): summed over the channels of a pixel; over the embedding and the tokens of a word."""
        mask = self._masks_of(rows)
        region = self.unit_region(rows)
        pixels, words = self._split((values.abs() if reduce == "norm" else values) * region)
        tokens = words.sum(-1)
        wide = tokens if self.device.type == "mps" else tokens.double()  # as in TextBatch.to_units
        totals = wide.new_zeros(len(tokens), self.parts[1].count + 1)
        by_word = totals.scatter_add_(1, self.owner[mask, : tokens.shape[1]], wide)[:, :-1]
        return torch.cat([pixels.sum(1).flatten(1), by_word.to(values.dtype)], 1)

    def in_dtype(self, dtype: torch.dtype, without_masks: bool = False) -> ImageTextBatch:
        return replace(self, network=self.network.in_dtype(dtype), budget=self.budget_in(dtype))

    def on_baseline(self, view: Tensor) -> ImageTextBatch:
        row = view[self.rows.input[: self.masks]] * self.masks + torch.arange(self.masks, device=self.device)
        single_view = self.rows.on_one_view(row, self.views)
        return replace(self, rows=single_view, views=1, baseline_pixels=self.baseline_pixels[row])

    def take(self, inputs: Sequence[int]) -> ImageTextBatch:
        row = self.rows_of(inputs)
        mask = torch.unique(self.rows.mask[row])
        return replace(
            self,
            rows=self.rows.take(row, self.size[1]),
            inputs=len(inputs),
            pixels=self.pixels[mask],
            baseline_pixels=self.baseline_pixels[row],
            ids=self.ids[mask],
            attention=self.attention[mask],
            types=None if self.types is None else self.types[mask],
            owner=self.owner[mask],
            lengths=[self.lengths[index] for index in mask.tolist()],
        )

    def _masks_of(self, rows: Tensor | None) -> Tensor:
        return self.rows.mask if rows is None else self.rows.mask[rows]

    def _longest(self, mask: Tensor) -> int:
        return max(self.lengths[int(index)] for index in mask.tolist())

    def _split(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """(R, values) -> (R, channels, H, W) and (R, T, hidden)."""
        count = self.pixels[0].numel()
        pixels = values[:, :count].reshape(-1, *self.pixels.shape[1:])
        return pixels, values[:, count:].reshape(len(values), -1, len(self.network.baseline))
