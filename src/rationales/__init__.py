"""Why did my model decide that? The few connected words that led to the decision.

    model = rationales.load()                      # the embedded sentiment model, or an id, a folder, a module
    rationale = rationales.explain(model, "a text")
    print(rationale); rationale.spans(); rationale.to_html("rationale.html")
    rationales.page(rationales.explain(model, ["many", "texts"]), "all.html")    # one page with an index

Every name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rationales.rendering import RENDERERS
from rationales.version import __version__

if TYPE_CHECKING:
    from rationales.data.example import Example
    from rationales.data.reading import read_data
    from rationales.errors import RationalesError
    from rationales.evaluation.bias.protocol_comparison import compare_protocols
    from rationales.evaluation.evaluate import evaluate
    from rationales.evaluation.method_comparison import compare
    from rationales.evaluation.metrics import list_metrics
    from rationales.evaluation.stability.runs import stability
    from rationales.evaluation.tables.table import Table
    from rationales.groundtruth.dryrun import dry_run
    from rationales.methods import list_methods
    from rationales.methods.method import Attribution, Method
    from rationales.models.batch import Batch
    from rationales.models.catalogue import list_models
    from rationales.models.load import load
    from rationales.pipeline.explain import explain
    from rationales.rationale import Rationale
    from rationales.report.html.page import page
    from rationales.report.picture_grid import picture_grid

_MODULES = {  # public name -> the module that defines it
    "load": "rationales.models.load",
    "explain": "rationales.pipeline.explain",
    "evaluate": "rationales.evaluation.evaluate",
    "compare": "rationales.evaluation.method_comparison",
    "compare_protocols": "rationales.evaluation.bias.protocol_comparison",
    "dry_run": "rationales.groundtruth.dryrun",
    "read_data": "rationales.data.reading",
    "list_methods": "rationales.methods",
    "list_metrics": "rationales.evaluation.metrics",
    "list_models": "rationales.models.catalogue",
    "stability": "rationales.evaluation.stability.runs",
    "page": "rationales.report.html.page",
    "picture_grid": "rationales.report.picture_grid",
    "Attribution": "rationales.methods.method",
    "Batch": "rationales.models.batch",
    "Example": "rationales.data.example",
    "Method": "rationales.methods.method",
    "Rationale": "rationales.rationale",
    "RationalesError": "rationales.errors",
    "Table": "rationales.evaluation.tables.table",
}
_RENDERERS = {  # output of a result -> the function that renders it; see rationales/rendering.py
    "html": ("rationales.report.html.page", "page"),
    "html-fragment": ("rationales.report.html.page", "fragment"),
    "text": ("rationales.report.terminal.show", "plain"),
    "image-png": ("rationales.report.png.image", "to_png"),
    "sound-png": ("rationales.report.png.sound", "to_png"),
    "text-figure": ("rationales.report.figures.text_figure", "text_figure"),
    "text-latex": ("rationales.report.figures.latex", "to_latex"),
    "dry-run-html": ("rationales.report.dry_run", "page"),
    "comparison-html": ("rationales.report.html.comparison", "comparison_page"),
    "comparison-png": ("rationales.report.png.picture_grid", "picture_grid_png"),
    "comparison-text": ("rationales.report.terminal.comparison", "plain_comparison"),
    "stability-html": ("rationales.report.html.stability", "stability_page"),
    "stability-text": ("rationales.report.stability", "markdown"),
}

__all__ = ["Attribution", "Batch", "Example", "Method", "Rationale", "RationalesError", "Table", "__version__"]
__all__ += ["compare", "dry_run", "evaluate", "explain", "list_methods", "list_metrics", "list_models", "load", "page"]
__all__ += ["compare_protocols", "picture_grid", "read_data", "stability"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rationales' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value  # from now on the name is found without this function
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _lazy_renderer(module: str, function: str) -> Callable[..., Any]:
    return lambda *arguments, **options: getattr(importlib.import_module(module), function)(*arguments, **options)


RENDERERS.update({output: _lazy_renderer(*renderer) for output, renderer in _RENDERERS.items()})
