"""Every metric by name: one line, which way is better, what it needs, and its function. `METRICS` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rationales.errors import OptionError
from rationales.evaluation import complexity
from rationales.evaluation.agreement import highlights, overlap
from rationales.evaluation.faithfulness.curves import FaithfulnessCurves
from rationales.options import suggestion

# Arguments of a metric's function, by the metric's kind; gold, selected and scores are (n,) over one input's words.
KINDS = {
    "curves": "(Faithfulness) -> (inputs,)",
    "scores": "(gold, scores) -> number",
    "order": "(gold, scores with their ties broken as the protocol says) -> number",
    "choice": "(gold, selected) -> number",
    "corpus": "(all gold, all scores) -> (inputs,)",
    "image": "(gold, scores), both (h, w) at the image's size -> number",
    "shape": "(selected) -> number",
    "raw": "(scores of the model's units) -> number",
    "study": "none: the model is randomised or retrained, which makes a table of its own (`studies.py`)",
}


@dataclass(frozen=True)
class Metric:
    """A metric as a table needs it."""

    name: str
    summary: str
    higher: bool | None  # is better; None: neither is
    kind: str  # one of KINDS
    function: Callable[..., Any]
    default: bool = False  # measured by default where what it needs is available
    fitted_to: str = "token-f1"  # choice: the metric that a fitted selection is fitted to
    weight: Callable[[np.ndarray, np.ndarray], float] | None = None  # choice: of an input in the pooled value
    recalls: Callable[..., np.ndarray] | None = None  # corpus: `function` gives precisions; the metric is F1 of means
    labels: bool = False  # study: whether examples need labels
    selection: str = ""  # choice, shape: the selection after an @ in the name; none: the table's

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be available: model (more forward passes), marks (people's, in texts), boxes (in images), text."""
        needs = {"curves": ("model",), "image": ("boxes",), "shape": ("text",), "raw": (), "study": ("model",)}
        return (*needs.get(self.kind, ("marks",)), *(("labels",) if self.labels else ()))


def _top_mean_f1(golds: Sequence[np.ndarray], scores: Sequence[np.ndarray]) -> np.ndarray:
    """F1 of the best k words of each input, k = how many people marked on average, rounded."""
    marked = [int(gold.sum()) for gold in golds if gold.any()]
    k = int(np.floor(np.mean(marked) + 0.5)) if marked else 0
    return np.array([overlap.top_k_f1(gold, input_scores, k) for gold, input_scores in zip(golds, scores, strict=True)])


def _table_of_its_own(*_: Any) -> None:
    raise OptionError("this metric makes a table of its own; call evaluate with nothing else among its metrics")


_ALL = (
    Metric("sufficiency", "how far the probability falls when only the rationale is kept",
           False, "curves", FaithfulnessCurves.sufficiency, default=True),
    Metric("comprehensiveness", "how far the probability falls when the rationale is removed",
           True, "curves", FaithfulnessCurves.comprehensiveness, default=True),
    Metric("aopc-sufficiency", "sufficiency over all levels, where the plain name means one of them",
           False, "curves", FaithfulnessCurves.aopc_sufficiency),
    Metric("aopc-comprehensiveness", "comprehensiveness over all levels, where the plain name means one of them",
           True, "curves", FaithfulnessCurves.aopc_comprehensiveness),
    Metric("log-odds", "how far the log probability moves without the rationale",
           False, "curves", FaithfulnessCurves.log_odds),
    Metric("deletion", "the probability while the best units are removed",
           False, "curves", FaithfulnessCurves.deletion),
    Metric("insertion", "the probability while the best units are put in",
           True, "curves", FaithfulnessCurves.insertion),
    Metric("average-precision", "area under precision over recall by steps; its mean over inputs is mAP",
           True, "scores", overlap.average_precision, default=True),
    Metric("auprc", "area under precision over recall by trapezoids", True, "scores", overlap.auprc),
    Metric("f1-gold-length", "F1 with as many words as people marked",
           True, "order", overlap.f1_at_gold_length, default=True),
    Metric("top-k-f1", "F1 with as many words as people marked on average", True, "corpus", _top_mean_f1),
    Metric("precision-at-1", "whether people marked the best word", True, "order", overlap.precision_at),
    Metric("token-precision", "share of the selected words that people marked", True, "choice", overlap.precision),
    Metric("token-recall", "share of the marked words that are selected", True, "choice", overlap.recall),
    Metric("token-f1", "F1 of the selected words, mean over inputs", True, "choice", overlap.token_f1, default=True),
    Metric("token-f1-micro", "F1 of the selected words of all inputs together",
           True, "choice", overlap.token_f1, weight=lambda gold, chosen: float(gold.sum() + chosen.sum())),
    Metric("token-iou", "selected and marked words over selected or marked ones", True, "choice", overlap.token_iou),
    Metric("iou-f1", "F1 of the selected spans; a span counts from an IoU of 0.5",
           True, "choice", overlap.iou_f1, default=True, fitted_to="iou-f1"),
    Metric("best-threshold-iou", "IoU at the one threshold that is best for all inputs",
           True, "corpus", lambda golds, scores: overlap.best_threshold_iou(golds, scores)[1]),
    Metric("highlight-precision", "mean precision at that threshold",
           True, "corpus", lambda golds, scores: highlights.best_highlights(golds, scores).precision),
    Metric("highlight-recall", "mean recall at that threshold",
           True, "corpus", lambda golds, scores: highlights.best_highlights(golds, scores).recall),
    Metric("highlight-f1", "harmonic mean of the mean precision and the mean recall at that threshold",
           True, "corpus", lambda golds, scores: highlights.best_highlights(golds, scores).precision,
           recalls=lambda golds, scores: highlights.best_highlights(golds, scores).recall),
    Metric("highlight-coverage", "share of the words highlighted at that threshold",
           None, "corpus", lambda golds, scores: highlights.best_highlights(golds, scores).coverage),
    Metric("pointing", "whether the best pixel lies in a box", True, "image", overlap.pointing, default=True),
    Metric("inside-energy", "share of the positive scores inside the boxes", True, "image", overlap.inside_energy),
    Metric("inside-top", "share of the best 15 % of the pixels inside the boxes",
           True, "image", overlap.inside_top, default=True),
    Metric("spans", "number of selected spans", None, "shape", complexity.spans),
    Metric("span-length", "mean number of words in a selected span", None, "shape", complexity.span_length),
    Metric("selected-share", "share of the words that is selected", None, "shape", complexity.share),
    Metric("magnitude", "mean absolute score, the input's largest being 1", None, "raw", highlights.magnitude),
    Metric("keep-entropy", "how undecided the keeps are, 0 to 1 bit", None, "raw", complexity.keep_entropy),
    Metric("score-entropy", "how evenly the scores are spread, 0 to 1", None, "raw", complexity.score_entropy),
    Metric("roar", "accuracy of classifiers retrained without the best words",
           False, "study", _table_of_its_own, labels=True),
    Metric("roar-bert", "accuracy of classifiers retrained with the best words filled in anew",
           False, "study", _table_of_its_own, labels=True),
    Metric("sanity", "how far the scores change when the classification head is random",
           None, "study", _table_of_its_own),
    Metric("sanity-cascade", "how far the scores change when all weights are random, layer after layer",
           None, "study", _table_of_its_own),
)  # fmt: skip
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
STUDY_COLUMNS = {  # columns of tables that are no metrics by name -> whether higher is better
    "sanity-sign-changes": True,
    "sanity-score-change": True,
    "sanity-rank-correlation": False,
    "deletion-bert": False,
    "roar-bert-sst2": False,
}


def list_metrics() -> list[Metric]:
    """All metrics, each with a summary, its better direction and what it needs."""
    return list(METRICS.values())


def select_metrics(names: Sequence[str] | None, available: set[str], subject: str = "these examples") -> list[Metric]:
    """The metrics of these names, or the default ones that the `available` data allow.

    A name may say how words are selected, instead of by the table's rule: token-f1@sufficient, spans@top=5.
    """
    if names is None:
        return [metric for metric in METRICS.values() if metric.default and set(metric.needs) <= available]
    check_metric_names(names)
    selected = []
    for full_name in names:
        name, _, selection = full_name.partition("@")
        if METRICS[name].kind == "study":
            raise OptionError(f"{name} makes a table of its own; request it apart from the other metrics")
        if missing := [need for need in METRICS[name].needs if need not in available]:
            descriptions = {"marks": "people's marks (spans)", "boxes": "boxes", "text": "texts", "model": "a model"}
            raise OptionError(f"the metric {name} needs {descriptions[missing[0]]}, and {subject} have none")
        selected.append(replace(METRICS[name], name=full_name, selection=selection))
    return selected


def check_metric_names(names: Sequence[str]) -> None:
    """Raise an OptionError where a name is not that of a metric, or has a selection after an @ that it cannot take."""
    if not names:
        raise OptionError("no metric requested; leave metrics out for the default ones")
    for full_name in names:
        name, _, selection = full_name.partition("@")
        if name not in METRICS:
            known = ", ".join(METRICS)
            raise OptionError(f"there is no metric {name!r}{suggestion(name, METRICS)}; there are: {known}")
        if selection and METRICS[name].kind not in ("choice", "shape"):
            raise OptionError(f"the metric {name} selects no words, so it takes no @{selection}")


def explain_missing(available: set[str], kind: str) -> tuple[str, ...]:
    """Why default metrics are missing from a table of this kind of input: nothing was marked."""
    needed = {"text": ("marks", "what people marked (spans)"), "image": ("boxes", "boxes")}
    if kind not in needed or needed[kind][0] in available:
        return ()
    need, description = needed[kind]
    names = ", ".join(metric.name for metric in METRICS.values() if metric.default and need in metric.needs)
    return (f"No agreement with people ({names}): it needs {description}, and these examples have none.",)


def uses_selection(name: str) -> bool:
    """Whether a metric looks at the words that the table's own rule selects."""
    return name in METRICS and METRICS[name].kind in ("choice", "shape")


def direction(name: str) -> str:
    """An arrow that says which way is better, for headings."""
    plain_name = name.partition("@")[0]
    known = METRICS.get(plain_name)
    higher = STUDY_COLUMNS.get(plain_name) if known is None else known.higher
    return "" if higher is None else " ↑" if higher else " ↓"
