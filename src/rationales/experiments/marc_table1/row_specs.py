"""The rows of the table: the paper's rows, MaRC's presets, chance; each rival also smoothed, and shaped by clauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rationales.errors import OptionError

MAIN = ("average-precision", "token-f1", "iou-f1", "f1-gold-length", "sufficiency", "comprehensiveness")
RULES = ("fitted", "gold-length", "sufficient", "keep-sum", "otsu", "gap", "threshold=0.5")  # for calibrated rationales
RULE_METRICS = ("token-f1", "iou-f1", "selected-share")  # of each rule
METRICS = (*MAIN, "selected-share", *(f"{metric}@{rule}" for rule in RULES[1:] for metric in RULE_METRICS))
WIDTHS = (2.0, 4.0, 6.0, 8.0, 10.0, 15.0)  # of the Gaussian over neighbouring words
MARC, DEFAULT, RANDOM, SHAPLEY = "marc", "marc-default", "random", "shapley"
SALIENCY_SUM = "saliency-sum"
SMOOTHED, SHAPED = "-smoothed", "-shaped"  # endings of the keys of control rows
PUBLISHED_COLUMNS = ("token-f1", "average-precision", "iou-f1", "sufficiency", "comprehensiveness")  # in their order


@dataclass(frozen=True)
class RowSpec:
    """One row: a method with its settings."""

    key: str
    title: str
    group: str  # one of GROUPS
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 0.0  # approximate forward passes per segment, for the order of the rows and the time left
    published: tuple[float, ...] = ()  # PUBLISHED_COLUMNS, with BERT-base
    reduction: str = ""  # options below the paper's, in a run with a budget

    @property
    def plain_key(self) -> str:
        """The key of the same row without smoothing and shape."""
        return self.key.removesuffix(SMOOTHED).removesuffix(SHAPED)

    @property
    def shape(self) -> str | None:
        """The shape of the rationale, as `evaluate` takes it; None: as the method does it."""
        return "clauses" if self.key.endswith(SHAPED) else None

    @property
    def widths(self) -> tuple[float | None, ...]:
        """The widths of smoothing that one is selected from; None: without smoothing."""
        if self.key.endswith(SHAPED):
            return (None, *WIDTHS)
        return WIDTHS if self.key.endswith(SMOOTHED) else (None,)

    def figures(self) -> dict[str, float]:
        """Metric -> the published value."""
        return dict(zip(PUBLISHED_COLUMNS, self.published, strict=False))


_PAPER = {"preset": "paper"}
# The rows of gradient methods explain the label's logit. The paper does not name the output; for label 0 it negates
# sums (appendix A.1), as one does for a single logit, of which the logit and the log-odds are the same number.
_LOGIT: dict[str, Any] = {"output": "logit"}
MARC_STEP_PASSES = 6  # forward and backward passes of two rows
SEGMENT_WORDS = 400  # approximate words of a segment of 512 tokens

_MARC = (
    RowSpec(MARC, "MaRC", "presets", "marc", _PAPER, 300 * MARC_STEP_PASSES, (0.473, 0.469, 0.163, 0.028, 0.518)),
    RowSpec(DEFAULT, "MaRC, default settings", "presets", "marc", {}, 50 * MARC_STEP_PASSES),
    RowSpec("marc-words", "MaRC, preset words", "presets", "marc", {"preset": "words"}, 50 * MARC_STEP_PASSES),
    RowSpec("marc-clauses", "MaRC, preset clauses", "presets", "marc", {"preset": "clauses"}, 50 * MARC_STEP_PASSES),
)
_RIVALS = (
    RowSpec("occlusion", "Occlusion", "rivals", "occlusion", _PAPER, SEGMENT_WORDS,
            (0.432, 0.448, 0.125, 0.022, 0.415)),
    RowSpec("saliency-norm", "Saliency, norm", "rivals", "saliency", {**_LOGIT, "reduce": "norm"}, 3,
            (0.435, 0.392, 0.04, 0.132, 0.287)),
    RowSpec(SALIENCY_SUM, "Saliency, sum", "rivals", "saliency", {**_LOGIT, "reduce": "sum"}, 3,
            (0.425, 0.340, 0.076, 0.260, 0.246)),
    RowSpec("input-x-gradient-norm", "Input x gradient, norm", "rivals", "input-x-gradient",
            {**_LOGIT, "reduce": "norm"}, 3, (0.436, 0.396, 0.040, 0.136, 0.292)),
    RowSpec("input-x-gradient-sum", "Input x gradient, sum", "rivals", "input-x-gradient",
            {**_LOGIT, "reduce": "sum"}, 3, (0.425, 0.340, 0.084, 0.239, 0.248)),
    RowSpec("integrated-gradients-norm", "Integrated gradients, norm", "rivals", "integrated-gradients",
            {**_PAPER, "reduce": "norm"}, 150, (0.428, 0.369, 0.036, 0.122, 0.274)),
    RowSpec("integrated-gradients-sum", "Integrated gradients, sum", "rivals", "integrated-gradients",
            {**_PAPER, "reduce": "sum"}, 150, (0.431, 0.381, 0.071, 0.048, 0.528)),
    RowSpec("lime", "LIME", "rivals", "lime", _PAPER, 50, (0.436, 0.380, 0.076, 0.047, 0.496)),
    RowSpec(SHAPLEY, "Shapley sampling", "rivals", "shapley-sampling", _PAPER, 25 * SEGMENT_WORDS,
            (0.428, 0.439, 0.079, -0.015, 0.728)),
)  # fmt: skip
# Not in the paper: the paper's rows explain a logit, which for one of two classes may be constant.
_FURTHER_RIVALS = (
    RowSpec("integrated-gradients-log-odds", "Integrated gradients, sum, of log-odds", "rivals", "integrated-gradients",
            {**_PAPER, "reduce": "sum", "output": "log-odds"}, 150),
)  # fmt: skip
# What each removes: noise on the input and on the keeps (section 3.2), the sparsity and the width term (Eq. 2, 7), the
# complement's score (Eq. 4). Without the sparsity term nothing stops the mask before the last of 900 steps.
_ABLATIONS = (
    RowSpec("without-noise", "MaRC without noise", "ablations", "marc", {**_PAPER, "noise": 0.0, "flip_share": 0.0},
            300 * MARC_STEP_PASSES, (0.454, 0.450, 0.139, 0.034, 0.487)),
    RowSpec("without-sparsity", "MaRC without Ω_λ (sparsity)", "ablations", "marc", {**_PAPER, "sparsity": 0.0},
            900 * MARC_STEP_PASSES, (0.349, 0.350, 0.046, 0.120, 0.266)),
    RowSpec("without-width", "MaRC without Ω_σ (width)", "ablations", "marc", {**_PAPER, "sigma_weight": 0.0},
            300 * MARC_STEP_PASSES, (0.447, 0.425, 0.091, 0.036, 0.535)),
    RowSpec("without-complement", "MaRC without L(x̃ᶜ, c) (complement)", "ablations", "marc",
            {**_PAPER, "complement": 0.0}, 300 * MARC_STEP_PASSES, (0.396, 0.436, 0.123, 0.052, 0.304)),
)  # fmt: skip
_CHANCE = (RowSpec(RANDOM, "Random", "chance", "random"),)


def _smoothed(spec: RowSpec) -> RowSpec:
    group = "chance" if spec.key == RANDOM else "smoothed"
    return replace(spec, key=spec.key + SMOOTHED, title=f"{spec.title}, smoothed", group=group, published=())


def _shaped(spec: RowSpec) -> RowSpec:
    group = "chance" if spec.key == RANDOM else "shaped"
    return replace(spec, key=spec.key + SHAPED, title=f"{spec.title}, shaped by clauses", group=group, published=())


# In the order of the table.
_PLAIN = (*_RIVALS, *_FURTHER_RIVALS)
_CONTROLS = (*map(_smoothed, _PLAIN), *map(_shaped, _PLAIN))
ROWS: dict[str, RowSpec] = {
    spec.key: spec
    for spec in (
        *(*_MARC, *_PLAIN, *_CONTROLS, *_ABLATIONS),
        *(*_CHANCE, *map(_smoothed, _CHANCE), *map(_shaped, _CHANCE)),
    )
}
RIVALS = tuple(spec.key for spec in _RIVALS)
ABLATIONS = tuple(spec.key for spec in _ABLATIONS)
MARC_WITH_SPANS = (DEFAULT, "marc-words")  # rows of MaRC whose rationale is selected by scores of its own
GROUPS = ("presets", "rivals", "smoothed", "shaped", "ablations", "chance")


def row_title(spec: RowSpec, width: float | None) -> str:
    """The title of a row in the table, with what a budget reduced and the width of smoothing."""
    title = f"{spec.title} [{spec.reduction}]" if spec.reduction else spec.title
    return title if width is None else f"{title} (s = {width:g})"


def key_of(title: str) -> str | None:
    """The key of the row with this title; None if there is none."""
    return next(
        (
            key
            for key, spec in ROWS.items()
            if title == spec.title or title.startswith((f"{spec.title} (s = ", f"{spec.title} ["))
        ),
        None,
    )


def is_reduced(title: str) -> bool:
    """Whether the row with this title has fewer passes than the paper's settings."""
    return (key := key_of(title)) is not None and title.startswith(f"{ROWS[key].title} [")


def names() -> list[str]:
    """The names that `select_rows` takes: groups, then rows."""
    return [*GROUPS, *ROWS]


def select_rows(requested: Sequence[str] | None) -> list[RowSpec]:
    """The rows with these names or groups (None: all), cheap ones first, and always the random row."""
    selected = set(ROWS) if requested is None else {RANDOM}
    for name in requested or ():
        keys = [key for key, spec in ROWS.items() if name in (key, spec.group)]
        if not keys:
            raise OptionError(f"there is no row {name!r}; there are: {', '.join(names())}")
        selected.update(keys)
    return sorted((ROWS[key] for key in selected), key=lambda spec: (spec.cost, spec.key))
