"""What several commands take, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

Text = Annotated[str | None, Argument(help="The text; '-' or nothing reads standard input.", show_default=False)]
File = Annotated[Path | None, Option("--file", "-f", help="Read the text from a UTF-8 file.")]
Threshold = Annotated[
    float | None, Option(help="Select the units that score above this, instead of by the method's rule.")
]
Share = Annotated[float | None, Option(help="Select this share of the units, from 0 to 1.")]
Top = Annotated[int | None, Option(help="Select so many units, the best ones.")]
Folder = Annotated[Path | None, Option(help="Where a named set lies: its folder or its archive.")]
ModelName = Annotated[
    str | None, Option("--model", "-m", help="A Hugging Face id, a folder, or a name from 'rationales models'.")
]
Target = Annotated[
    str | None, Option("--target", "-t", help="The label to explain, by name or number; else the predicted.")
]
Against = Annotated[
    str | None, Option("--against", help="Explain why the target rather than this label, by name or number.")
]
Snap = Annotated[
    bool,
    Option("--snap/--no-snap", help="Move spans that cut a phrase by a word or two, where the model does not mind."),
]
Shape = Annotated[
    Literal["clauses", "none"] | None,
    Option(help="The rationale in spans, as people mark clauses, or by single scores; else as the method does it."),
]
Unit = Annotated[Literal["word", "token", "sentence"], Option(help="What is kept or replaced as one.")]
UnitOfText = Annotated[
    Literal["word", "token", "sentence"] | None,
    Option("--unit", help="What of a text is kept or replaced as one.", show_default="word"),
]
Baseline = Annotated[str | None, Option(help="What a replaced unit becomes: pad, mask, unk, zero, mean, or a word.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str | None, Option(help="cpu, cuda, cuda:1, mps.")]
Trust = Annotated[bool, Option("--trust-remote-code", help="Run code that a model brings along; only if you trust it.")]
Labels = Annotated[
    str | None,
    Option(help="Of a language model: the words that it chooses from, separated by commas.", metavar="A,B"),
]
Template = Annotated[
    str | None,
    Option(help="Of a language model: the prompt, with {text} where the text goes, or a file that holds it."),
]
Continuations = Annotated[
    str | None,
    Option(help="Explain why a prompt, the text, goes on by one of these words and not another.", metavar="A,B"),
]
Prompt = Annotated[
    list[str] | None,
    Option(help="Of a language model, any of: chat, calibrated, length-normalised, explain-prompt.", metavar="A,B"),
]
Cache = Annotated[Path | None, Option("--cache", help="Where scores are kept, so that a stopped table goes on.")]
NoCache = Annotated[bool, Option("--no-cache", help="Keep no scores.")]


def methods_option(otherwise: str | None = None) -> Any:
    """--methods; `otherwise` tells what is taken where none are given, if that can be."""
    return Option(
        "--methods",
        help="Names from 'rationales methods', separated by commas; options behind colons.",
        metavar="A,B:NAME=VALUE",
        show_default=otherwise or True,
    )
