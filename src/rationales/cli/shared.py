"""What several commands take, declared once."""

from __future__ import annotations

from typing import Any

import typer


def methods_option(otherwise: str | None = None) -> Any:
    """--methods; `otherwise` tells what is taken where none are given, if that can be."""
    return typer.Option(
        "--methods",
        help="Names from 'rationales methods', separated by commas; options behind colons.",
        metavar="A,B:NAME=VALUE",
        show_default=otherwise or True,
    )
