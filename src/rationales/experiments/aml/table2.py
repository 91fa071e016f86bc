"""Table 2: faithfulness of explanations of decoder language models that classify by a prompt."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.table import Table
from rationales.experiments.aml.decoders import PROMPTS, SETTINGS, DecoderScenario, decoder_plan, decoder_scenarios
from rationales.experiments.aml.row_specs import COLUMNS, FAML, LLM, ROWS, MethodRow, row_names, select_rows
from rationales.experiments.aml.scenario_run import ScenarioRun, StudySettings, masker_folder, pooled
from rationales.experiments.aml.scenarios import CORPORA, check_names
from rationales.experiments.aml.table1 import NORMALISERS, SELECTED_ROWS, scenario_markdown
from rationales.experiments.aml.table2_claims import claims
from rationales.experiments.claims import claims_markdown
from rationales.experiments.registry import ExperimentReport, Request
from rationales.methods.llm_ranking import LlmRanking
from rationales.models.text.model import TextModel

TITLE = "AML, Table 2: faithfulness of explanations of language models"
DEFAULT_LIMIT = 200  # inputs of a scenario
REPLIES = 50  # inputs on which the words that a model invents are counted


@dataclass(frozen=True)
class Replies:
    """What a language model named when it was asked to rank the words of some texts."""

    texts: int
    named: int  # words, each counted once per text
    invented: int  # of these, words that the text does not have
    empty: int  # replies without a word of the text


def names() -> list[str]:
    """The names that `--rows` accepts: rows, groups, data sets, few-shot and tuned."""
    return [*row_names(), *CORPORA, *SETTINGS]


def reproduce(request: Request, settings: StudySettings | None = None) -> ExperimentReport:
    """The pooled table, the tables of all data sets, invented words, and the claims; `request.model`: another model."""
    started = time.perf_counter()
    requested = tuple(request.rows or ())
    check_names(requested, names())
    corpora = [corpus for name, corpus in CORPORA.items() if name in requested] or list(CORPORA.values())
    model_settings = [name for name in SETTINGS if name in requested] or list(SETTINGS)
    specs = select_rows([name for name in requested if name not in (*CORPORA, *SETTINGS)])
    settings = settings or StudySettings()
    settings = replace(settings, plan=decoder_plan(settings.plan))
    request = replace(request, limit=request.limit or DEFAULT_LIMIT)
    scenarios = decoder_scenarios(corpora, model_settings, request.model is not None)
    tables, replies = compute(scenarios, specs, request, settings)
    return report(tables, replies, time.perf_counter() - started)


def compute(
    scenarios: Sequence[DecoderScenario], specs: Sequence[MethodRow], request: Request, settings: StudySettings
) -> tuple[dict[DecoderScenario, Table], dict[DecoderScenario, Replies]]:
    """The table of each scenario, and what the models' own rankings consist of."""
    tables: dict[DecoderScenario, Table] = {}
    replies: dict[DecoderScenario, Replies] = {}
    with masker_folder(request.out) as folder:
        for number, scenario in enumerate(scenarios):
            run = ScenarioRun.open(scenario, request, settings, folder)
            tables[scenario] = run.compute(specs)
            if any(spec.key == LLM for spec in specs):
                texts = [example.text for example in run.prepared.examples[:REPLIES]]
                replies[scenario] = count_replies(run.model, texts)
            if request.progress is not None:
                request.progress((number + 1) / len(scenarios))
    return tables, replies


def report(
    tables: Mapping[DecoderScenario, Table], replies: Mapping[DecoderScenario, Replies], seconds: float
) -> ExperimentReport:
    """Everything that is read off the tables of the scenarios."""
    table = pooled({scenario.model_name: table for scenario, table in tables.items()})
    table = replace(table, remarks=(*table.remarks, NORMALISERS, SELECTED_ROWS))
    reference = ROWS[FAML].title if any(row.title == ROWS[FAML].title for row in table.rows) else None
    sections = [
        ("The paper's claims", claims_markdown(claims(tables))),
        *((scenario.title, scenario_markdown(table)) for scenario, table in tables.items()),
        ("Words that the models name", replies_markdown(replies)),
        ("Prompts", _prompts({scenario.corpus.key for scenario in tables})),
        ("Time", f"{seconds:.0f} s in all; seconds per input are in the tables."),
    ]
    return ExperimentReport(table, reference, COLUMNS, tuple(sections), TITLE)


def count_replies(model: TextModel, texts: Sequence[str]) -> Replies:
    """Ask the model to rank the words of these texts, for the predicted labels."""
    with torch.no_grad(), model.frozen():
        batch = model.batch(model.encode([model.read(text, None) for text in texts]))
        rankings = LlmRanking().rankings(batch, batch.predict().argmax(-1))
    return Replies(
        len(rankings),
        sum(ranking.named for ranking in rankings),
        sum(ranking.invented for ranking in rankings),
        sum(not ranking.order for ranking in rankings),
    )


def replies_markdown(replies: Mapping[DecoderScenario, Replies]) -> str:
    """A line for each scenario."""
    if not replies:
        return f"The row {ROWS[LLM].title} was not asked for."
    headings = ["scenario", "texts", "words named per text", "of these not in the text", "replies without any"]
    lines = [
        [
            scenario.title,
            str(counts.texts),
            f"{counts.named / counts.texts:.1f}",
            f"{counts.invented / max(counts.named, 1):.0%}",
            str(counts.empty),
        ]
        for scenario, counts in replies.items()
    ]
    return markdown.table(headings, lines)


def _prompts(corpora: Collection[str]) -> str:
    """The few-shot prompts of these data sets; adapters hold their own."""
    distinct = {PROMPTS[name].template: None for name in PROMPTS if name in corpora}
    return "\n\n".join(f"```text\n{template.worked_prompt()}\n```" for template in distinct)
