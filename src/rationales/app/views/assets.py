"""Style sheets and scripts of the web page."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def app_asset(name: str) -> str:
    """The content of a file in the folder assets."""
    return files("rationales.app").joinpath("assets", name).read_text(encoding="utf-8")
