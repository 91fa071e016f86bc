"""The rows of the tables: the paper's methods, and MaRC, integrated gradients and random scores in every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import OptionError

FILLER, SMALL_FILLER, TUNED_FILLER = "minilm-filler", "minilm-filler-small", "minilm-filler-sst2"
KIM_THRESHOLD = 1e-5  # likelihood from which on Kim et al. (2020) marginalize over a word
IM, LOO, LIME, LIME_BERT, LIME_BERT_SST2 = "im", "loo-empty", "lime", "lime-bert", "lime-bert-sst2"
MARC, GRADIENTS, RANDOM = "marc", "integrated-gradients", "random"


@dataclass(frozen=True)
class IMRow:
    """One row: a method with its options; `filler` names the masked language model, "": that of the table."""

    key: str
    title: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    fills: bool = False
    filler: str = ""
    samples: bool = False  # whether the number of samples is an argument of the experiment


ROWS: dict[str, IMRow] = {
    row.key: row
    for row in (
        IMRow(IM, "IM", "input-marginalization", fills=True),
        IMRow("im-threshold", "IM, likelihood ≥ 1e-5", "input-marginalization", {"threshold": KIM_THRESHOLD}, True),
        IMRow("loo-pad", "LOO-zero (PAD)", "loo-pad"),
        IMRow("loo-unk", "LOO-unk", "loo-unk"),
        IMRow(LOO, "LOO-empty", "loo-empty"),
        IMRow(LIME, "LIME", "lime-text", samples=True),
        IMRow(LIME_BERT, "LIME-BERT", "lime-bert", fills=True, samples=True),
        IMRow(LIME_BERT_SST2, "LIME-BERT-SST2", "lime-bert", fills=True, filler=TUNED_FILLER, samples=True),
        IMRow(MARC, "MaRC", "marc"),
        IMRow(GRADIENTS, "Integrated gradients", "integrated-gradients"),
        IMRow(RANDOM, "Random", "random"),
    )
}
CONTROLS = (MARC, GRADIENTS, RANDOM)
DELETION_ROWS = (IM, "loo-pad", "loo-unk", LOO, *CONTROLS)
PAIR_ROWS = (LOO, IM, *CONTROLS)  # where the paper compares leave-one-out with Input Marginalization
LIME_ROWS = (LIME, LIME_BERT, LIME_BERT_SST2, *CONTROLS)
ROAR, ROAR_BERT, ROAR_TUNED = REMOVALS = ("roar", "roar-bert", "roar-bert-sst2")  # words deleted, or filled in anew


def select_rows(requested: Sequence[str] | None, rows: Sequence[str]) -> tuple[str, ...]:
    """The requested rows of a table in its order (None: all); the random row is always among them."""
    if unknown := [name for name in requested or () if name not in rows]:
        raise OptionError(f"there is no row {unknown[0]!r} in this table; there are: {', '.join(rows)}")
    return tuple(key for key in rows if requested is None or key in requested or key == RANDOM)
