"""Input Marginalization: a word's effect averaged over what could stand in its place (Kim et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.methods.method import Attribution, Progress
from rationales.methods.perturbation.filler_method import FillerMethod
from rationales.methods.support.odds import ODDS_OUTPUTS, on_scale
from rationales.methods.support.sliding_windows import Windows
from rationales.models.batch import Batch
from rationales.models.batch.rows import distinct_rows
from rationales.models.classes import explained_output
from rationales.models.text.batch import TextBatch
from rationales.models.text.filling.filler import Candidates, Filler
from rationales.models.text.filling.filler_rows import FillerRows
from rationales.models.text.filling.insertion import word_insertions
from rationales.options import option

EDITS_AT_ONCE = 2**24  # entries of the keeps of all proposals for some rows


@dataclass(frozen=True)
class InputMarginalization(FillerMethod):
    """log-odds(f(x)) - log-odds(E f(x with other words)) (Eq. 3, 4), by Pham et al.'s (2022) ten likeliest words.

    f is the target's probability. The likelihoods of the proposals are divided by their sum. A proposal that is the
    word itself leaves the text as it is. A word without any proposal has the score 0.
    """

    name: ClassVar[str] = "input-marginalization"
    summary: ClassVar[str] = "change of the log-odds when a word is replaced by what a language model expects there"
    removes_by: ClassVar[str] = "fill"

    candidates: int = option(10, "likeliest words that take the place of a word")
    threshold: float = option(0.0, "all words of at least this likelihood instead (Kim et al.: 1e-5); 0: off")
    without_original: bool = option(False, "leave the word itself out of the proposals for its place")
    phrase: int = option(1, "neighbouring words that are replaced together; a word has the mean of its phrases")
    output: str = option("log2-odds", "scale on which the difference is taken, for the target", *ODDS_OUTPUTS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates < 1 or self.phrase < 1:
            raise OptionError("input-marginalization needs at least one candidate and phrases of at least one word")
        if not 0 <= self.threshold < 1:
            raise OptionError(f"the threshold is a likelihood from 0 to 1, not {self.threshold}")
        if self.threshold and self.phrase > 1:
            raise OptionError("a threshold is for single words; with phrases set the number of candidates instead")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        texts, filler = self.open(batch)
        rows = filler.read(texts.text_sources().encoded)
        windows = Windows(texts, self.phrase, 1)
        total, covered = texts.zeros().double(), texts.zeros().double()
        done = 0
        for row in self._row_groups(texts, windows):
            window_row, window = _pairs(windows.counts[row])
            hidden = windows.hidden(row, torch.arange(int(windows.counts[row].max()), device=row.device))
            hidden = hidden[window, window_row]  # (W, n)
            proposals = self._proposals(texts, filler, rows, row[window_row], hidden)
            drop = self._drops(texts, filler, target, row, window_row, hidden, proposals)  # (W,)
            total.index_add_(0, row[window_row], drop[:, None] * hidden)
            covered.index_add_(0, row[window_row], hidden.double())
            done += len(row)
            if progress is not None:
                progress(done / texts.size[0])
        return Attribution((total / covered.clamp(min=1)).to(texts.dtype))

    def _row_groups(self, batch: TextBatch, windows: Windows) -> Iterator[Tensor]:
        """The numbers of all rows, in groups whose proposals fit into memory; equal texts stay neighbours."""
        entries = int(windows.counts.max()) * batch.size[1] * (self.candidates if not self.threshold else 1000)
        yield from torch.split(torch.arange(batch.size[0], device=batch.device), max(1, EDITS_AT_ONCE // entries))

    def _proposals(self, batch: TextBatch, filler: Filler, rows: FillerRows, row: Tensor, hidden: Tensor) -> Candidates:
        """Proposals for W windows of these rows (W,); hidden: (W, n). The same words of a text are masked once."""
        width = min(self.phrase, batch.size[1])
        first = hidden.long().argmax(1)
        column = first[:, None] + torch.arange(width, device=row.device)
        inside = (column < batch.size[1]) & hidden.gather(1, column.clamp(max=batch.size[1] - 1))
        units = torch.where(inside, batch.rows.unit[row[:, None], column.clamp(max=batch.size[1] - 1)], -1)
        phrases = torch.cat([batch.rows.input[row][:, None], units], 1)
        first_of_equal, inverse = distinct_rows(phrases)
        distinct, inverse = phrases[first_of_equal].to(filler.device), inverse.to(filler.device)
        proposals = filler.candidates(
            rows,
            distinct[:, 0],
            distinct[:, 1:],
            count=self.candidates,
            threshold=self.threshold,
            without_original=self.without_original,
        )
        ids, likelihood = (values[inverse].to(batch.device) for values in (proposals.ids, proposals.likelihood))
        return Candidates(ids, likelihood)

    def _drops(
        self,
        batch: TextBatch,
        filler: Filler,
        target: Tensor,
        row: Tensor,
        window_row: Tensor,
        hidden: Tensor,
        proposals: Candidates,
    ) -> Tensor:
        """(W,): the change for each window of the rows `row` (R,); window_row: (W,) indices into them."""
        window, number = torch.nonzero(proposals.likelihood > 0, as_tuple=True)  # (P,) proposals of all windows
        edit_row = torch.cat([row, row[window_row[window]]])  # the rows as they are, then with each proposal
        keep = torch.cat([hidden.new_ones(len(row), hidden.shape[1]), ~hidden[window]])
        position = torch.arange(proposals.ids.shape[2], device=row.device)
        column = (hidden.long().argmax(1)[window][:, None] + position).clamp(max=hidden.shape[1] - 1)
        token = proposals.ids[window, number]  # (P, w)
        edit = torch.arange(len(row), len(keep), device=row.device)[:, None].expand_as(column)
        same = (token < 0) & hidden[window].gather(1, column)
        keep[edit[same], column[same]] = True
        new = token >= 0
        insertions = word_insertions(batch, edit_row, edit[new], column[new], token[new], filler.vocabulary.words)
        logits = batch.logits_of_edits(edit_row, keep, insertions).double()  # single precision rounds 1 - p near p = 1
        probability = explained_output(batch.head, logits, target[batch.rows.input[edit_row]], "probability")
        full, changed = probability[: len(row)][window_row], probability[len(row) :]
        expected = torch.zeros(len(hidden), dtype=torch.float64, device=row.device)
        expected.index_add_(0, window, proposals.weights[window, number] * changed)
        expected = torch.where((proposals.likelihood > 0).any(1), expected, full)
        return on_scale(full, self.output) - on_scale(expected, self.output)


def _pairs(counts: Tensor) -> tuple[Tensor, Tensor]:
    """(R,) -> two (W,): every row with every number below its count."""
    row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    return row, torch.arange(len(row), device=counts.device) - (counts.cumsum(0) - counts)[row]
