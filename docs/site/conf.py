"""Settings of Sphinx; the pages come from build.py beside this file."""

from __future__ import annotations

import re
from typing import Any

from rationales.version import __version__

project = "rationales"
author = "the authors of rationales"
release = __version__
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["doctrees"]
html_theme = "furo"
html_title = f"rationales {__version__}"
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#9a5b00", "color-brand-content": "#9a5b00"},
    "dark_css_variables": {"color-brand-primary": "#f0b757", "color-brand-content": "#f0b757"},
}
myst_heading_anchors = 4  # as GitHub names them
myst_links_external_new_tab = False
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # smaller headings first; blocks of csv
default_role = "code"  # docstrings have Markdown's single backticks
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
_CODE = re.compile(r"(`[^`]*`)")


def _plain_markup(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Outside of code, the characters that reStructuredText would read as markup stand for themselves."""
    text = "\n".join(lines)
    parts = _CODE.split(text)
    parts[::2] = [re.sub(r"([*|]|\w_(?=\W|$))", lambda match: _escaped(match[0]), part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def _escaped(markup: str) -> str:
    return f"\\{markup}" if len(markup) == 1 else f"{markup[0]}\\{markup[1]}"


def setup(app: Any) -> None:
    """Register the hook."""
    app.connect("autodoc-process-docstring", _plain_markup)
