"""MaRC in one pass: a masker trained for the model predicts w and sigma; a few steps can refine them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.masks.descent import field_of
from rationales.masks.finish import finished, own_size
from rationales.masks.masker_file import SHIPPED, TRAIN, Masker, load_masker
from rationales.masks.objective import mask_rows
from rationales.masks.optimize import quick
from rationales.masks.refine import refine
from rationales.methods.marc import EMPTY, FULL, Marc
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.fingerprint import fingerprint
from rationales.models.probing import check_gradients
from rationales.models.text_batch import TextBatch
from rationales.options import check_option, option
from rationales.rationale import Note, Rule


@dataclass(frozen=True)
class MarcInstant(Method):
    """The amortised form of MaRC (Eq. 5, 6 with w and sigma from one pass; after Barkan et al. 2024, section 3)."""

    name: ClassVar[str] = "marc-instant"
    summary: ClassVar[str] = "predicts MaRC's mask in one pass, by a masker trained once for the model (texts only)"
    needs: ClassVar[tuple[str, ...]] = ("a masker",)
    rules: ClassVar[tuple[Rule, ...]] = Marc.rules

    masker: str = option("", "file of a masker that was trained for the model; by default the one that ships with it")
    refine: int = option(0, "steps of MaRC's own optimisation, started from what the masker predicts")
    rate: float = option(0.1, "learning rate of these steps; it falls to 0")

    def __post_init__(self) -> None:
        for name, kind in (("masker", "str"), ("refine", "int"), ("rate", "float")):
            check_option(name, getattr(self, name), kind, ())
        if self.refine < 0:
            raise OptionError(f"refine must not be negative, but is {self.refine}")
        if self.rate <= 0:
            raise OptionError(f"rate must be greater than 0, not {self.rate}")

    def brings(self) -> str:
        """The masker's content: the same options with another file under the same name are another method."""
        path = Path(self.masker).expanduser() if self.masker else SHIPPED
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else ""

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        if not isinstance(batch, TextBatch):
            raise OptionError("marc-instant has maskers for models of texts only; use marc")
        if self.refine:
            check_gradients(batch)
        masker = self._masker(batch.uncontrasted())
        settings = replace(masker.card.objective, rate=self.rate, schedule="cosine")
        (w, sigma), real = _predicted(masker, batch, target), mask_rows(batch.rows.real, batch)
        z, size = field_of(batch, settings, w, sigma), None
        steps, stop = [0] * batch.inputs, list[str]()
        if self.refine:
            found = refine(batch, target, replace(settings, steps=self.refine), (w, sigma), progress)
            steps, stop = found.steps, found.stop
            z = torch.logit(found.keep, eps=1e-7)
        if batch.rows.contrast is None and (settings.own or not self.refine):  # else the model is asked what suffices
            size = own_size(z.sigmoid(), batch)
        asked = batch if size is not None else quick(batch, settings)[0]
        shown = finished(z, asked, target, settings, size) * real
        if progress is not None:
            progress(1.0)
        notes = self._notes(batch, shown if size is None else z.sigmoid() * real)
        return Attribution(shown[batch.rows.mask], steps, stop, notes)

    def _masker(self, batch: TextBatch) -> Masker:
        """The one that was named, or the one inside the package where it fits."""
        if self.masker:
            return load_masker(self.masker, batch.device)
        if SHIPPED.is_file() and (found := load_masker(SHIPPED, batch.device)).card.fingerprint == fingerprint(batch):
            return found
        raise OptionError(
            f"marc-instant needs a masker that was trained for this model, and none comes with it; train one once with "
            f"'{TRAIN}', then give it as the option masker (--set masker=F)"
        )

    def _notes(self, batch: TextBatch, keep: Tensor) -> list[list[Note]]:
        """What shows that the masker did not do its work, and what to do."""
        owner, real = mask_rows(batch.rows.input, batch), mask_rows(batch.rows.real, batch)
        advice = f"raise refine (now {self.refine}), or use marc"
        notes: list[list[Note]] = []
        for number in range(batch.inputs):
            own = keep[owner == number][real[owner == number]]
            mean, most = float(own.mean()), float(own.max())
            found: list[Note] = []
            if mean > FULL and len(own) > 1:
                message = f"the predicted mask keeps nearly everything (mean keep {mean:.2f}); {advice}"
                found.append(Note("keeps-everything", message))
            if most < EMPTY:
                message = f"the predicted mask keeps nearly nothing (largest keep {most:.2f}); {advice}"
                found.append(Note("keeps-nothing", message))
            notes.append(found)
        return notes


def _predicted(masker: Masker, batch: TextBatch, target: Tensor) -> tuple[Tensor, Tensor]:
    """w and sigma, (M, n) each; of one class against another, how much more w each unit has for the first."""
    contrast = batch.rows.contrast
    if contrast is None:
        return masker(batch, target)
    plain = batch.uncontrasted()
    chosen, rejected = contrast.of_inputs(batch.rows.input, batch.inputs)
    (w, sigma), (w_rejected, _) = masker(plain, chosen), masker(plain, rejected)
    return w - w_rejected, sigma
