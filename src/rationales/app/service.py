"""What the page and the HTTP API can do, without Gradio: explain, edit, explain a table, download, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rationales.app.downloads import Download, result_file, table_file
from rationales.app.editing import EditableInput, editable_input, edited_probabilities
from rationales.app.explaining import PreparedRequest, VisitorRequest, prepare, read_input, run_methods
from rationales.app.jobs import Job, VisitorJobs
from rationales.app.limits import Limits
from rationales.app.model_choices import ModelChoices
from rationales.app.sessions import VisitorResults, VisitorStore
from rationales.app.tables import check_table_model, explain_table, read_table
from rationales.errors import InputError, OptionError
from rationales.evaluation.method_comparison import MethodComparison
from rationales.rationale import Rationale


@dataclass(frozen=True, eq=False)
class ExplainService:
    """The models, the limits, and what is running and remembered for each visitor."""

    choices: ModelChoices
    limits: Limits
    jobs: VisitorJobs = field(default_factory=VisitorJobs)
    visitors: VisitorStore = field(init=False)

    def __post_init__(self) -> None:
        store = VisitorStore(self.limits.sessions, self.limits.session_seconds)
        object.__setattr__(self, "visitors", store)

    def prepare(self, request: VisitorRequest) -> PreparedRequest:
        """The request with its model and input; a RationalesError for what is wrong with it."""
        return prepare(request, self.choices, self.limits)

    def start(self, visitor: str, prepared: PreparedRequest) -> Job:
        """Explain in the background; an earlier job of this visitor is stopped."""
        return self.jobs.start(visitor, Job(lambda job: run_methods(prepared, job), self.limits.seconds))

    def keep_results(self, visitor: str, prepared: PreparedRequest, rationales: Sequence[Rationale]) -> EditableInput:
        """Remember the results of this visitor; the input that can be edited."""
        editable = editable_input(prepared.served, prepared.raw_input, prepared.name)
        earlier = self.visitors.get(visitor)
        self.visitors.put(visitor, replace(earlier, rationales=tuple(rationales), editable=editable))
        return editable

    def edit(self, visitor: str, removed: Sequence[int]) -> tuple[VisitorResults, dict[str, float]]:
        """The visitor's results, and the probabilities of the last input without the parts `removed`."""
        results = self.visitors.get(visitor)
        if results.editable is None:
            raise OptionError("there is nothing to edit any more; explain the input again")
        return results, edited_probabilities(results.editable, removed)

    def start_table(self, visitor: str, model: str, upload: str, column: str, method: str) -> Job:
        """Explain the texts of a table in the background."""
        if not upload:
            raise InputError("there is no table; choose a CSV file")
        served = self.choices.get(model)
        check_table_model(served, method)
        texts, names = read_table(upload, column, self.limits)
        work = Job(lambda job: explain_table(served, texts, names, method, job), self.limits.seconds)
        return self.jobs.start(visitor, work)

    def keep_table(self, visitor: str, rationales: Sequence[Rationale]) -> None:
        """Remember the results of a table."""
        self.visitors.put(visitor, replace(self.visitors.get(visitor), table=tuple(rationales)))

    def download(self, visitor: str, kind: str) -> Download:
        """The last results of this visitor as a file: html, json or picture."""
        return result_file(self.visitors.get(visitor).rationales, kind)

    def download_table(self, visitor: str, kind: str) -> Download:
        """The last table of this visitor as a file: html, csv or jsonl."""
        return table_file(self.visitors.get(visitor).table, kind)

    def forget(self, visitor: str) -> None:
        """Stop the job of a visitor who has left, and forget the results."""
        self.jobs.cancel(visitor)
        self.visitors.forget(visitor)

    def probabilities(self, request: VisitorRequest, removed: Sequence[int]) -> dict[str, Any]:
        """The probabilities of an input as it is and without the parts `removed`; nothing is explained."""
        served = self.choices.get(request.model)
        raw_input, name = read_input(request, served, self.limits)
        editable = editable_input(served, raw_input, name)
        return {
            "parts": editable.parts,
            "cells": None if editable.cells is None else list(editable.cells),
            "units": [unit.text for unit in editable.units] if editable.cells is None else None,
            "full": edited_probabilities(editable, ()),
            "edited": edited_probabilities(editable, removed),
        }


def result_data(rationales: Sequence[Rationale]) -> dict[str, Any]:
    """Rationales of one input as plain data for JSON."""
    return MethodComparison(tuple(item.method for item in rationales), tuple(rationales)).to_dict()
