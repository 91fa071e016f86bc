"""Style sheets and scripts of the web page."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def app_asset(name: str) -> str:
    """The content of a file in the folder assets."""
    return files("rationales.app").joinpath("assets", name).read_text(encoding="utf-8")


def component_script(name: str) -> str:
    """A script for `element`; Gradio may run it again when the element is shown again, and it must not listen twice."""
    return f"if (!element.started) {{ element.started = true; (() => {{\n{app_asset(name)}\n}})(); }}"
