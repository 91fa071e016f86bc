"""The renderers of results. They are registered from above, so that results do not import the reports.

`rationales/__init__.py`, which every import of the package runs first, fills `RENDERERS`: this is the one list of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RENDERERS: dict[str, Callable[..., Any]] = {}  # name of the output -> function of the result and, for files, a path


def render(output: str, *arguments: Any, **options: Any) -> Any:
    """The result of the renderer for `output`."""
    return RENDERERS[output](*arguments, **options)
