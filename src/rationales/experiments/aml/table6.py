"""Table 6: the best three words of a few texts by each method, and how often two methods agree on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rationales.evaluation.scores.attribution import predict, score_rows
from rationales.evaluation.tables.table import Cell, TableRow, short
from rationales.experiments.aml.row_specs import DECOMPX, FAML, PAML, RANDOM, ROWS, SIG, SOLVEX
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder
from rationales.experiments.aml.scenarios import CORPORA, ENCODERS, Scenario, check_names, choose_encoder
from rationales.experiments.claims import ClaimVerdict, PaperClaim, claims_markdown
from rationales.experiments.registry import ExperimentReport, Request

TITLE = "AML, Table 6: the best three words"
KEYS = (FAML, PAML, SIG, DECOMPX, SOLVEX, "marc", "words", RANDOM)
DATA_SETS, DEFAULT_ENCODER = ("sst2", "emotion"), "roberta"  # the paper's
SHOWN = 4  # texts of each scenario that are printed
WORDS = 3
METRIC = "aopc-comprehensiveness"  # that maskers are trained for
SHARED = "share of fAML's three words"


def names() -> list[str]:
    """The names that `--rows` accepts: rows, and one of the encoders."""
    return [*KEYS, *ENCODERS]


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """Texts with the best three words in bold; the table says how many of fAML's three words the others have."""
    settings = settings or StudySettings()
    requested = tuple(request.rows or ())
    check_names(requested, names())
    encoder = choose_encoder(requested, DEFAULT_ENCODER)
    keys = [key for key in KEYS if key in requested or key in (FAML, RANDOM) or not set(requested) & set(KEYS)]
    shared: dict[str, list[float]] = {ROWS[key].title: [] for key in keys}
    same_order: list[float] = []
    sections, inputs = [], []
    with masker_folder(request.out) as folder:
        for number, data_set in enumerate(DATA_SETS):
            scenario = Scenario(CORPORA[data_set], encoder)
            plan = replace(settings.plan, metrics=(METRIC,))
            run = ScenarioRun.open(scenario, request, replace(settings, plan=plan), folder)
            best = best_words(run, keys)
            for title, tops in best.items():
                shared[title] += _overlap(tops, best[ROWS[FAML].title])
            if ROWS[PAML].title in best:
                pairs = zip(best[ROWS[FAML].title], best[ROWS[PAML].title], strict=True)
                same_order += [float(first == second) for first, second in pairs]
            inputs += [f"{scenario.model_name}: {name}" for name in run.prepared.names]
            sections.append((scenario.title, _markdown(run, best)))
            if request.progress is not None:
                request.progress((number + 1) / len(DATA_SETS))
        complete = {title: values for title, values in shared.items() if len(values) == len(inputs)}
        rows = [TableRow(title, {SHARED: Cell(tuple(values))}) for title, values in complete.items()]
        recipe = f"Mean share of the best {WORDS} words of fAML that are among the best {WORDS} of the row."
        table = replace(run.table(rows), metrics=(SHARED,), inputs=tuple(inputs), protocol=None, recipe=recipe)
    judged = [PaperClaim("A.4", "pAML and fAML rank the best three words alike", (_alike(same_order),))]
    sections = [("The paper's claims", claims_markdown(judged)), *sections]
    return ExperimentReport(table, ROWS[RANDOM].title, (SHARED,), tuple(sections), TITLE)


def best_words(run: ScenarioRun, keys: Sequence[str]) -> dict[str, list[list[int]]]:
    """Title -> of each text the positions of its best three words, the best first."""
    model = run.model
    encoded = model.encode([model.read(example.text, None) for example in run.prepared.examples])
    targets = predict(model, encoded).argmax(-1).tolist()
    best = {}
    for key in keys:
        if not run.applies(ROWS[key]):
            continue
        raw = score_rows(model, encoded, run.methods(ROWS[key])[METRIC], targets, seed=run.request.seed)
        best[ROWS[key].title] = [
            [] if item.scores is None else np.argsort(-item.scores, kind="stable")[:WORDS].tolist() for item in raw
        ]
    return best


def _overlap(tops: Sequence[Sequence[int]], reference: Sequence[Sequence[int]]) -> list[float]:
    return [len(set(top) & set(goal)) / max(1, len(goal)) for top, goal in zip(tops, reference, strict=True)]


def _alike(same_order: Sequence[float]) -> ClaimVerdict:
    """Whether the same three words come in the same order for nearly all texts; an interval, not a test."""
    if not same_order:
        return ClaimVerdict(None, "no row pAML")
    value = Cell(tuple(same_order)).estimate
    figures = (
        f"the same words in the same order for {value.mean:.0%} of the texts [{short(value.low)} {short(value.high)}]"
    )
    return ClaimVerdict(value.mean > 0.9, figures)


def _markdown(run: ScenarioRun, best: Mapping[str, Sequence[Sequence[int]]]) -> str:
    """The first texts, with a line for each method."""
    lines = []
    encoded = run.model.encode([run.model.read(e.text, None) for e in run.prepared.examples[:SHOWN]])
    for number, text in enumerate(encoded):
        lines.append(f"{number + 1}. predicted {_label(run, text)}")
        lines += [f"   - {title}: {_in_bold(text, tops[number])}" for title, tops in best.items()]
    return "\n".join(lines)


def _label(run: ScenarioRun, encoded: object) -> str:
    return str(run.model.labels[int(predict(run.model, [encoded]).argmax())])


def _in_bold(encoded: object, positions: Sequence[int]) -> str:
    units = getattr(encoded, "units", ())
    words = [f"**{unit.text}**" if number in positions else unit.text for number, unit in enumerate(units)]
    return " ".join(words).replace("|", "\\|")
