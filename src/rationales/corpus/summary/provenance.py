"""Where the results of a corpus run come from, as the page says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rationales.corpus.results import CorpusResults
from rationales.corpus.summary.lists import MethodLists

FILTERS = ("where", "sample", "limit", "min_words", "max_words")


def provenance_facts(results: CorpusResults, lists: Mapping[str, MethodLists]) -> dict[str, str]:
    """What the results were computed from and with: model, methods and options, seed, input, filters, versions."""
    settings = results.provenance
    model, selection = settings["model"], settings["input"]
    ends = [entry.statistics.ends for entry in lists.values() if entry.statistics.ends]
    facts = {
        "model": f"{model['name']}, fingerprint {model['fingerprint']}",
        "unit and baseline": f"{model['unit']}, {model['baseline']}",
        **{f"method {method['title']}": _options_text(method) for method in settings["methods"]},
        "seed": settings["seed"],
        "target": settings["target"] or "the predicted label",
        "records": f"from {ends[0][0]} to {ends[0][1]}" if ends else "",
        "input": _named({name: value for name, value in selection.items() if name not in FILTERS}),
        "filters": _named({name: selection.get(name) for name in FILTERS}) or "none",
        "device and threads": f"{', '.join(settings['device'])}, {settings['threads']}",
        "versions": _named(settings["versions"]),
    }
    return {name: str(value) for name, value in facts.items()}


def _options_text(method: Mapping[str, Any]) -> str:
    return f"{method['name']}: {_named(method['options']) or 'no options'}"


def _named(values: Mapping[str, Any]) -> str:
    """name=value, …, without those that are not set."""
    return ", ".join(f"{name}={value}" for name, value in values.items() if value not in (None, [], ""))
