"""Why did my model decide that? The few connected words that made it so.

    model = rationales.load()                      # the embedded sentiment model, or an id, a folder, a module
    rationale = rationales.explain(model, "a text")
    print(rationale); rationale.spans(); rationale.to_html("rationale.html")
    rationales.page(rationales.explain(model, ["many", "texts"]), "all.html")    # one page with an index

Everything heavy loads when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rationales.version import __version__

if TYPE_CHECKING:
    from rationales.errors import RationalesError
    from rationales.evaluation.evaluate import evaluate
    from rationales.evaluation.metrics import metrics
    from rationales.methods import methods
    from rationales.models.default import models_available
    from rationales.models.front import load
    from rationales.pipeline import explain
    from rationales.rationale import Rationale
    from rationales.report.html import page

_HOME = {
    "load": "rationales.models.front",
    "explain": "rationales.pipeline",
    "evaluate": "rationales.evaluation.evaluate",
    "metrics": "rationales.evaluation.metrics",
    "methods": "rationales.methods",
    "models_available": "rationales.models.default",
    "page": "rationales.report.html",
    "Rationale": "rationales.rationale",
    "RationalesError": "rationales.errors",
}

__all__ = [
    "Rationale",
    "RationalesError",
    "__version__",
    "evaluate",
    "explain",
    "load",
    "methods",
    "metrics",
    "models_available",
    "page",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rationales' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
