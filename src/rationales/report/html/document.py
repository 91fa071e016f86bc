"""Parts of every page: the head, whose policy allows only the page's own style and script, and the footer."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files

from rationales.report.html.marked_text import escape
from rationales.version import __version__


@functools.cache
def asset(name: str) -> str:
    """The content of a style sheet or script in the folder assets."""
    return files("rationales.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def head(title: str, style: str, script: str = "", *, connects: bool = False) -> str:
    """From the doctype to the end of the head; `script`: the script of the body, which the policy has to allow.

    `connects`: whether the script may send something to the server that the page came from.
    """
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            *((f"script-src '{_hash(script)}'",) if script else ()),
            "img-src data:",
            *(("connect-src 'self'",) if connects else ()),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f'<meta name="generator" content="rationales {escape(__version__)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
        )
    )


def scrollable(content: str, label: str) -> str:
    """HTML that scrolls sideways where it is too wide, also by keyboard; `label`: what it is, for screen readers."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="{escape(label)}">{content}</div>'


def footer() -> str:
    """The footer with the version of the package."""
    return f"<footer>Made with rationales {escape(__version__)}</footer>"


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
