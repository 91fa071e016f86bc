"""The rows of the tables: the paper's twelve methods, ours, the control, and rows that are selected by the metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rationales.errors import OptionError

METRICS = ("sufficiency", "log-odds", "comprehensiveness", "aopc-sufficiency", "aopc-comprehensiveness")
PAPER_NAMES = dict(zip(METRICS, ("Suff", "LO", "Comp", "A-S", "A-C"), strict=True))
CORRECTED = {name: f"{name}@mean" for name in METRICS if name.startswith("aopc")}  # sum / 5 instead of sum / 6
CORRECTION = 6 / 5
COLUMNS = (*METRICS, *CORRECTED.values())
KIN = {  # metric -> the metrics whose maskers are used where it has none of its own, the best first
    "sufficiency": ("aopc-sufficiency",),
    "aopc-sufficiency": ("sufficiency",),
    "comprehensiveness": ("aopc-comprehensiveness", "log-odds"),
    "aopc-comprehensiveness": ("comprehensiveness", "log-odds"),
    "log-odds": ("comprehensiveness", "aopc-comprehensiveness"),
}
PAPER, OURS, ATTENTION, CONTROL, SELECTED = "paper", "ours", "attention", "control", "selected"
DECODERS = "decoders"  # rows that only language models can have
FAML, PAML, RANDOM, DECOMPX, SIG, SOLVEX = "faml", "paml", "random", "decompx", "sequential-ig", "solvex"
LLM = "llm-ranking"
MARC_INSTANT = "marc-instant"


REFERENCE = "reference"  # value of an option `baseline`: the token that protocol `aml` takes log-odds with
_ALONE = {"metric": "sufficiency", "removal": "delete"}
_REMOVED = {"metric": "comprehensiveness", "removal": "delete"}
SEARCHED_METRICS: Mapping[str, Mapping[str, Any]] = {  # options of Solvex, which searches for what it is measured by
    "sufficiency": _ALONE,
    "aopc-sufficiency": _ALONE,
    "comprehensiveness": _REMOVED,
    "aopc-comprehensiveness": _REMOVED,
    "log-odds": {"metric": "comprehensiveness", "output": "log-probability", "baseline": REFERENCE},
}


@dataclass(frozen=True)
class MethodRow:
    """A row: a method with its options, which can differ by metric, as can its masker or the selected candidate."""

    key: str
    title: str
    method: str
    group: str
    options: Mapping[str, Any] = field(default_factory=dict)
    metric_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # further ones, by metric
    has_masker: bool = False  # trained for the model, by AML, one for each metric
    long_texts: bool = True  # whether it is feasible on reviews

    @property
    def selected(self) -> bool:
        """Whether the scores are those of the best of several candidates by the metric, on the input itself."""
        return self.group == SELECTED

    @property
    def needs_training(self) -> bool:
        """Whether a network is trained for the model before the row can be computed."""
        return self.has_masker or self.method == MARC_INSTANT


ROWS: dict[str, MethodRow] = {
    row.key: row
    for row in (
        MethodRow(FAML, "fAML, last of 10 steps", "aml-finetuned", PAPER, has_masker=True),
        MethodRow(PAML, "pAML", "aml-pretrained", PAPER, has_masker=True),
        MethodRow(SIG, "SIG (sequential IG)", "sequential-ig", PAPER),
        MethodRow("alti", "ALTI", "alti", PAPER),
        MethodRow(DECOMPX, "DCMP (DecompX)", "decompx", PAPER),
        MethodRow(
            SOLVEX, "SLVX (Solvex), 10 beams", "solvex", PAPER, metric_options=SEARCHED_METRICS, long_texts=False
        ),
        MethodRow("deep-lift", "LIFT (DeepLift)", "deep-lift", PAPER),
        MethodRow("globenc", "GLOB (GlobEnc)", "globenc", PAPER),
        MethodRow("gradient-shap", "SHAP (GradientShap)", "gradient-shap", PAPER),
        MethodRow("input-x-gradient", "GXI (input x gradient)", "input-x-gradient", PAPER),
        MethodRow("integrated-gradients", "IG (integrated gradients)", "integrated-gradients", PAPER),
        MethodRow("lime", "LIME", "lime", PAPER),
        MethodRow("marc", "MaRC, default", "marc", OURS),
        MethodRow("words", "MaRC, preset words", "marc", OURS, {"preset": "words"}),
        MethodRow(MARC_INSTANT, "MaRC instant", MARC_INSTANT, OURS),
        MethodRow("raw-attention", "raw attention", "raw-attention", ATTENTION),
        MethodRow("attention-rollout", "attention rollout", "attention-rollout", ATTENTION),
        MethodRow("chefer", "Chefer's attribution", "chefer", ATTENTION),
        MethodRow(LLM, "LLM (asked to rank the words)", "llm-ranking", DECODERS),
        MethodRow(RANDOM, "random", "random", CONTROL),
        MethodRow("faml-selected", "fAML, best of 11 by the metric", "aml-finetuned", SELECTED, has_masker=True),
        MethodRow("marc-selected", "MaRC, best of 11 by the metric", "marc", SELECTED),
        MethodRow("gradients-selected", "GXI, best of its variants by the metric", "input-x-gradient", SELECTED),
        MethodRow("random-selected", "random, best of 11 by the metric", "random", SELECTED),
    )
}
GROUPS = tuple(dict.fromkeys(row.group for row in ROWS.values()))
RIVALS = tuple(row.key for row in ROWS.values() if row.group == PAPER and not row.has_masker)


def row_names() -> list[str]:
    """The names that `--rows` accepts for methods: keys and groups."""
    return [*ROWS, *GROUPS]


def select_rows(names: Sequence[str]) -> list[MethodRow]:
    """The rows of these keys or groups, in the order of the table; none: all. The random row is always there."""
    if unknown := [name for name in names if name not in row_names()]:
        raise OptionError(f"there is no row {unknown[0]!r}; there are: {', '.join(row_names())}")
    return [row for row in ROWS.values() if not names or row.key in names or row.group in names or row.key == RANDOM]


def masker_metric(metric: str, available: Sequence[str]) -> str | None:
    """The metric whose masker is used for `metric`: its own, else that of a kin, else any."""
    candidates = [name for name in (metric, *KIN[metric]) if name in available]
    return candidates[0] if candidates else next(iter(available), None)
