"""Table 5: seconds and passes through the model per example, for short and long texts (appendix A.3).

Every text is explained alone, as in the paper, after one that is not counted; besides, all texts are explained
together, which is what the methods here are written for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from rationales.evaluation.scores.attribution import predict, score_rows
from rationales.evaluation.tables.statistics import welch
from rationales.evaluation.tables.table import Cell, TableRow, short
from rationales.experiments.aml.row_specs import FAML, PAML, RANDOM, ROWS, SIG, SOLVEX, MethodRow
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder
from rationales.experiments.aml.scenarios import CORPORA, Corpus, Scenario, check_names
from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown
from rationales.experiments.registry import ExperimentReport, Request
from rationales.methods import Method
from rationales.models.batch.execution import counted_passes
from rationales.models.text.model import TextModel

TITLE = "AML, Table 5: time and passes per example (RoBERTa shape)"
ENCODER = "roberta"
COUNTS = {"sst2": 50, "imdb": 15}
WORDS = {"sst2": None, "imdb": 350}  # IMDB reviews up to this length: 226 words on average in the paper
BEAMS = (10, 50, 100)
MASKER_METRIC = "comprehensiveness"
MIN_TIMED = 5  # texts alone, whatever they cost
LENGTH_RATIO = 2.0  # "nearly unaffected by text length": at most so many times the seconds
PASSES = ("forward", "backward", "network forward", "network backward")
COLUMNS = tuple(f"{corpus} {measure}" for corpus in COUNTS for measure in ("s alone", "s together", *PASSES))


def row_specs() -> list[MethodRow]:
    """All rows of Table 1 that are not selected by a metric, with three sizes of Solvex's beam."""
    rows = [row for row in ROWS.values() if not row.selected and row.key != SOLVEX]
    beams = [
        replace(
            ROWS[SOLVEX], key=f"solvex-{beam}", title=f"SLVX (Solvex), {beam} beams", options={"preset": f"beam-{beam}"}
        )
        for beam in BEAMS
    ]
    return [*rows, *beams]


def names() -> list[str]:
    """The names that `--rows` accepts."""
    return [row.key for row in row_specs()]


@dataclass(frozen=True)
class Timing:
    """Seconds of every text alone, the mean of all together, and the mean number of passes.

    Those through the explained model, and those through the network that a method has trained for it.
    """

    alone: tuple[float, ...]
    together: float
    forward: float
    backward: float
    network_forward: float = 0.0
    network_backward: float = 0.0


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """The table, with every second and pass."""
    settings = settings or StudySettings()
    requested = tuple(request.rows or ())
    check_names(requested, names())
    specs = [spec for spec in row_specs() if spec.key in requested or spec.key == RANDOM or not requested]
    timings: dict[str, dict[str, Timing]] = {spec.title: {} for spec in specs}
    with masker_folder(request.out) as folder:
        for number, (key, count) in enumerate(COUNTS.items()):
            corpus = replace(CORPORA[key], max_words=WORDS[key])
            plan = replace(settings.plan, metrics=(MASKER_METRIC,))
            run = ScenarioRun.open(Scenario(corpus, ENCODER), request, replace(settings, plan=plan), folder)
            texts = [example.text for example in _texts(corpus, request, count)]
            for spec in specs:
                if (key == "imdb" and spec.method == "solvex") or not run.applies(replace(spec, long_texts=True)):
                    continue  # hours per text; or no masker for this model
                timings[spec.title][key] = measure(run.model, texts, _method(run, spec), settings.timed_seconds)
                if request.log is not None:
                    mean = float(np.mean(timings[spec.title][key].alone))
                    request.log(f"{key}: {spec.title} {mean:.3g} s a text alone")
            if request.progress is not None:
                request.progress((number + 1) / len(COUNTS))
        table = replace(run.table(table_rows(timings)), metrics=COLUMNS, protocol=None, recipe=_recipe())
    table = replace(table, inputs=tuple(f"text {number}" for number in range(max(COUNTS.values()))))
    sections = (("The paper's claims", claims_markdown(claims(timings))),)
    return ExperimentReport(table, None, COLUMNS, sections, TITLE)


def _texts(corpus: Corpus, request: Request, count: int) -> Sequence[Any]:
    return corpus.examples(request.data, min(count, request.limit or count))


def _method(run: ScenarioRun, spec: MethodRow) -> Method:
    return run.methods(spec)[MASKER_METRIC]


def measure(model: TextModel, texts: Sequence[str], method: Method, limit: float = math.inf) -> Timing:
    """Time and passes of a method; the predicted label is explained.

    `limit`: after so many seconds no further text is timed alone, if there are at least MIN_TIMED.
    """
    encoded = model.encode([model.read(text, None) for text in texts])
    targets = predict(model, encoded).argmax(-1).tolist()

    def seconds(action: Callable[[], object]) -> float:
        _synchronise()
        started = time.perf_counter()
        action()
        _synchronise()
        return time.perf_counter() - started

    def explain(numbers: Sequence[int]) -> object:
        return score_rows(model, [encoded[n] for n in numbers], method, [targets[n] for n in numbers])

    explain([0])  # loads kernels and maskers
    alone: list[float] = []
    for number in range(len(texts)):
        if len(alone) < MIN_TIMED or sum(alone) < limit:
            alone.append(seconds(partial(explain, [number])))
    with counted_passes() as passes:
        together = seconds(lambda: explain(range(len(texts))))
    means = {name: rows / len(texts) for name, rows in asdict(passes).items()}
    return Timing(tuple(alone), together / len(texts), **means)


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def table_rows(timings: dict[str, dict[str, Timing]]) -> list[TableRow]:
    """A row for each method; seconds alone have a value for every text, the rival_titles one."""
    rows, size = [], max(COUNTS.values())
    for title, by_corpus in timings.items():
        cells = {}
        for key, timing in by_corpus.items():
            cells[f"{key} s alone"] = Cell((*timing.alone, *(float("nan"),) * (size - len(timing.alone))))
            means = {
                "s together": timing.together,
                **{name: getattr(timing, name.replace(" ", "_")) for name in PASSES},
            }
            for measure, value in means.items():
                cells[f"{key} {measure}"] = Cell((value, *(float("nan"),) * (size - 1)))
        rows.append(TableRow(title, cells))
    return rows


def _recipe() -> str:
    return (
        f"Seconds per text, each alone, and all together; forward and backward passes of rows through the explained "
        f"model per text ({COUNTS['sst2']} of SST-2 and {COUNTS['imdb']} of IMDB with at most {WORDS['imdb']} words), "
        "and beside them those through the network of a masker (AML's attribution network, MaRC instant's)."
    )


def claims(timings: dict[str, dict[str, Timing]]) -> list[PaperClaim]:
    """What the appendix says about time; tests are Welch's, over texts."""
    rival_titles = [title for title in timings if title not in (ROWS[PAML].title, ROWS[RANDOM].title)]
    paml, faml, sig = (timings.get(ROWS[key].title, {}) for key in (PAML, FAML, SIG))
    judged = [
        PaperClaim("A.3", f"pAML is the fastest on {key}", (_fastest(paml, timings, rival_titles, key),))
        for key in COUNTS
    ]
    judged.append(PaperClaim("A.3", "fAML is nearly unaffected by text length", (_length_ratio(faml, True),)))
    judged.append(PaperClaim("A.3", "Sequential IG takes much longer for long texts", (_length_ratio(sig, False),)))
    return judged


def _fastest(
    paml: dict[str, Timing], timings: dict[str, dict[str, Timing]], rival_titles: Sequence[str], key: str
) -> ClaimVerdict:
    rivals = {title: timings[title][key] for title in rival_titles if key in timings[title]}
    if key not in paml or not rivals:
        return ClaimVerdict(None, "not all of the rows are there")
    best = min(rivals, key=lambda title: float(np.mean(rivals[title].alone)))
    first, second = float(np.mean(paml[key].alone)), float(np.mean(rivals[best].alone))
    p = max(welch(paml[key].alone, timing.alone)[1] for timing in rivals.values())
    return ClaimVerdict(first < second, f"pAML {short(first)} s, {best} {short(second)} s a text alone", p=p)


def _length_ratio(timing: dict[str, Timing], small: bool) -> ClaimVerdict:
    if set(COUNTS) - set(timing):
        return ClaimVerdict(None, "not all of the rows are there")
    short_texts, long_texts = (np.array(timing[key].alone) for key in ("sst2", "imdb"))
    ratio = float(long_texts.mean() / short_texts.mean())
    p = welch(long_texts.tolist(), (LENGTH_RATIO * short_texts).tolist())[1]
    holds = ratio < LENGTH_RATIO if small else ratio > LENGTH_RATIO
    return ClaimVerdict(holds, f"{ratio:.1f} times the seconds of a short text (limit {LENGTH_RATIO:g})", p=p)
