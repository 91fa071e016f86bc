"""MaRC in one pass: a masker trained for the model predicts w and sigma; a few steps can refine them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.instant.masker_file import SHIPPED_MASKER, TRAIN_COMMAND, Masker, load_masker
from rationales.masks.instant.pictures import masker as pictures
from rationales.masks.instant.pictures.masker import SHIPPED_PICTURE_MASKER, PictureMasker, load_picture_masker
from rationales.masks.instant.refine import refine
from rationales.masks.objective import mask_rows
from rationales.masks.optimize import fast_precision
from rationales.masks.optimizer import field_of
from rationales.masks.postprocess import final_scores
from rationales.masks.sizes import mask_size
from rationales.methods.marc import EMPTY_MASK, FULL_MASK, Marc
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.image.batch import ImageBatch
from rationales.models.image.fingerprint import image_fingerprint
from rationales.models.text.batch import TextBatch
from rationales.models.text.fingerprint import fingerprint
from rationales.options import check_settings, option
from rationales.rationale import Note, Rule


@dataclass(frozen=True)
class MarcInstant(Method):
    """The amortised form of MaRC (Eq. 5, 6 with w and sigma from one pass; after Barkan et al. 2024, section 3)."""

    name: ClassVar[str] = "marc-instant"
    summary: ClassVar[str] = "predicts MaRC's mask in one pass, by a masker trained once for the model (texts, images)"
    needs: ClassVar[tuple[str, ...]] = ("a masker",)
    baselines_option: ClassVar[str] = "refine"
    rules: ClassVar[tuple[Rule, ...]] = Marc.rules

    masker: str = option("", "file of a masker that was trained for the model; by default the shipped one")
    refine: int = option(0, "steps of MaRC's optimisation from the predicted mask")
    learning_rate: float = option(0.1, "learning rate of these steps; it falls to 0")

    def __post_init__(self) -> None:
        check_settings(self, ("learning_rate",), ("refine",))

    @property
    def training_operation(self) -> str:
        """The model's baseline: the masker learned MaRC's objective, which replaces units by it."""
        return "baseline"

    def trained_part_fingerprint(self) -> str:
        """Fingerprint of the masker's file, so that another file of the same name is another method."""
        files = [Path(self.masker).expanduser()] if self.masker else [SHIPPED_MASKER, SHIPPED_PICTURE_MASKER]
        contents = [path.read_bytes() for path in files if path.is_file()]
        return hashlib.blake2b(b"".join(contents), digest_size=16).hexdigest() if contents else ""

    def full_logits(self, batch: Batch) -> Tensor:
        """(S, classes): logits of the inputs as they are; of texts, in the pass that the masker reads."""
        if not isinstance(batch, TextBatch) or not (self.masker or _shipped_masker(batch)):
            return batch.full_logits()
        return cast("Masker", self._masker(batch)).full_logits(batch)

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, (TextBatch, ImageBatch)):
            raise OptionError("marc-instant has maskers for models of texts and of images only; use marc")
        if self.refine or isinstance(batch, ImageBatch):
            batch.check_gradients()
        masker = self._masker(batch.uncontrasted())
        settings = replace(masker.card.objective, learning_rate=self.learning_rate, schedule="cosine")
        settings = settings.on(batch.grid) if batch.grid is not None else settings
        (w, sigma), real = _predict(masker, batch, target), mask_rows(batch.rows.real, batch)
        z, size = field_of(batch, settings, w, sigma), None
        steps, stop = [0] * batch.inputs, list[str]()
        if self.refine:
            result = refine(batch, target, replace(settings, steps=self.refine), (w, sigma), progress)
            z, steps, stop = result.bounded_field, result.steps, result.stop
        if batch.rows.contrast is None and (settings.mask_weight or not self.refine):  # else `best_size` selects it
            size = mask_size(z.sigmoid(), batch)
        scoring_batch = batch if size is not None else fast_precision(batch, settings)[0]
        scores = final_scores(z, scoring_batch, target, settings, size) * real
        if progress is not None:
            progress(1.0)
        notes = self._notes(batch, scores if size is None else z.sigmoid() * real)
        return Attribution(scores[batch.rows.mask], steps, stop, notes)

    def _masker(self, batch: TextBatch | ImageBatch) -> Masker | PictureMasker:
        """Masker of the option `masker`, or the shipped one if it was trained for the model."""
        on_pictures = isinstance(batch, ImageBatch)
        if self.masker:
            return (load_picture_masker if on_pictures else load_masker)(self.masker, batch.device)
        shipped = _shipped_masker(batch)
        if shipped is not None:
            return shipped
        command = pictures.TRAIN_COMMAND if on_pictures else TRAIN_COMMAND
        raise OptionError(
            f"marc-instant needs a masker that was trained for this model, and none is shipped with it; train one with "
            f"'{command}', then set the option masker to its file (--set masker=F)"
        )

    def _notes(self, batch: Batch, keep: Tensor) -> list[list[Note]]:
        """Notes per input about masks that do not distinguish units."""
        mask_input, real = mask_rows(batch.rows.input, batch), mask_rows(batch.rows.real, batch)
        advice = f"raise refine (now {self.refine}), or use marc"
        zeros = torch.zeros(batch.inputs, device=keep.device, dtype=torch.float32)
        units = zeros.index_add(0, mask_input, real.sum(1).float())
        totals = zeros.index_add(0, mask_input, torch.where(real, keep, 0.0).sum(1).float())
        maxima = zeros.scatter_reduce(0, mask_input, torch.where(real, keep, 0.0).amax(1).float(), "amax")
        notes: list[list[Note]] = []
        for count, mean, largest in torch.stack([units, totals / units, maxima], 1).tolist():
            input_notes: list[Note] = []
            if mean > FULL_MASK and count > 1:
                message = f"the predicted mask keeps nearly everything (mean keep {mean:.2f}); {advice}"
                input_notes.append(Note("keeps-everything", message))
            if largest < EMPTY_MASK:
                message = f"the predicted mask keeps nearly nothing (largest keep {largest:.2f}); {advice}"
                input_notes.append(Note("keeps-nothing", message))
            notes.append(input_notes)
        return notes


def _shipped_masker(batch: TextBatch | ImageBatch) -> Masker | PictureMasker | None:
    """The masker of the package that was trained for the model of a batch; None if there is none."""
    if isinstance(batch, ImageBatch):
        if not SHIPPED_PICTURE_MASKER.is_file():
            return None
        for_pictures = load_picture_masker(SHIPPED_PICTURE_MASKER, batch.device)
        return for_pictures if for_pictures.card.fingerprint == image_fingerprint(batch) else None
    if not SHIPPED_MASKER.is_file():
        return None
    for_texts = load_masker(SHIPPED_MASKER, batch.device)
    return for_texts if for_texts.card.fingerprint == fingerprint(batch) else None


def _predict(masker: Masker | PictureMasker, batch: TextBatch | ImageBatch, target: Tensor) -> tuple[Tensor, Tensor]:
    """w and sigma, (M, s) each; for one class against another, the difference of their w."""
    contrast, run = batch.rows.contrast, cast("Callable[[Batch, Tensor], tuple[Tensor, Tensor]]", masker)
    if contrast is None:
        return run(batch, target)
    plain = batch.uncontrasted()
    chosen, rejected = contrast.of_inputs(batch.rows.input, batch.inputs)
    (w, sigma), (w_rejected, _) = run(plain, chosen), run(plain, rejected)
    return w - w_rejected, sigma
