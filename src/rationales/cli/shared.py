"""What several commands take, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Text = Annotated[str | None, typer.Argument(help="The text; '-' or nothing reads standard input.", show_default=False)]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a UTF-8 file.")]
Threshold = Annotated[
    float | None, typer.Option(help="Select the units that score above this, instead of by the method's rule.")
]
Share = Annotated[float | None, typer.Option(help="Select this share of the units, from 0 to 1.")]
Top = Annotated[int | None, typer.Option(help="Select so many units, the best ones.")]
Folder = Annotated[Path | None, typer.Option(help="Where a named set lies: its folder or its archive.")]
ModelName = Annotated[
    str | None, typer.Option("--model", "-m", help="A Hugging Face id, a folder, or a name from 'rationales models'.")
]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="The label to explain, by name or number; else the predicted.")
]
Against = Annotated[
    str | None, typer.Option("--against", help="Explain why the target rather than this label, by name or number.")
]
Snap = Annotated[
    bool,
    typer.Option(
        "--snap/--no-snap", help="Move spans that cut a phrase by a word or two, where the model does not mind."
    ),
]
Unit = Annotated[Literal["word", "token", "sentence"], typer.Option(help="What is kept or replaced as one.")]
UnitOfText = Annotated[
    Literal["word", "token", "sentence"] | None,
    typer.Option("--unit", help="What of a text is kept or replaced as one.", show_default="word"),
]
Baseline = Annotated[
    str | None, typer.Option(help="What a replaced unit becomes: pad, mask, unk, zero, mean, or a word.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")]
Trust = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that a model brings along; only if you trust it.")
]
Cache = Annotated[Path | None, typer.Option("--cache", help="Where scores are kept, so that a stopped table goes on.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")]


def methods_option(otherwise: str | None = None) -> Any:
    """--methods; `otherwise` tells what is taken where none are given, if that can be."""
    return typer.Option(
        "--methods",
        help="Names from 'rationales methods', separated by commas; options behind colons.",
        metavar="A,B:NAME=VALUE",
        show_default=otherwise or True,
    )
