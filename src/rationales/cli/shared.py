"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

Text = Annotated[str | None, Argument(help="The text; '-' or nothing reads standard input.", show_default=False)]
File = Annotated[Path | None, Option("--file", "-f", help="Read the text from a UTF-8 file.")]
Threshold = Annotated[
    float | None, Option(help="Select the units whose scores exceed this value, instead of by the method's rule.")
]
Share = Annotated[float | None, Option(help="Select this share of the units, from 0 to 1.")]
Top = Annotated[int | None, Option(help="Select the N units with the highest scores.")]
Folder = Annotated[Path | None, Option(help="Folder or archive of a named data set.")]
ModelName = Annotated[
    str | None, Option("--model", "-m", help="A Hugging Face id, a folder, or a name from 'rationales models'.")
]
Target = Annotated[
    str | None, Option("--target", "-t", help="The label to explain, by name or number; default: the predicted label.")
]
Against = Annotated[
    str | None, Option("--against", help="Explain why the target rather than this label, by name or number.")
]
Snap = Annotated[
    bool,
    Option(
        "--snap/--no-snap",
        help="Move the ends of spans that cut a phrase by a word or two, if the model's output hardly changes.",
    ),
]
Shape = Annotated[
    Literal["clauses", "none"] | None,
    Option(
        help="clauses: select the rationale in connected spans; none: by the scores of single units; default: the "
        "method's own way."
    ),
]
Unit = Annotated[Literal["word", "token", "sentence"], Option(help="The unit that is kept or replaced.")]
UnitOfText = Annotated[
    Literal["word", "token", "sentence"] | None,
    Option("--unit", help="The unit of a text that is kept or replaced.", show_default="word"),
]
Baseline = Annotated[str | None, Option(help="What a replaced unit becomes: pad, mask, unk, zero, mean, or a word.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str | None, Option(help="cpu, cuda, cuda:1, mps.")]
Trust = Annotated[
    bool,
    Option("--trust-remote-code", help="Run Python code shipped with the model. Use only if you trust its author."),
]
Labels = Annotated[
    str | None,
    Option(help="For a language model: the words that it chooses from, separated by commas.", metavar="A,B"),
]
Template = Annotated[
    str | None,
    Option(
        help="For a language model: the prompt, with {text} where the text goes, or a file with it (.json: with worked "
        "examples and more)."
    ),
]
Continuations = Annotated[
    str | None,
    Option(help="Explain why a prompt (the text) continues with one of these words and not another.", metavar="A,B"),
]
Prompt = Annotated[
    list[str] | None,
    Option(
        help="For a language model, any of: chat, calibrated, length-normalised, explain-prompt, no-space.",
        metavar="A,B",
    ),
]
Cache = Annotated[
    Path | None, Option("--cache", help="Folder in which scores are cached, so that an interrupted table resumes.")
]
NoCache = Annotated[bool, Option("--no-cache", help="Do not cache scores.")]


def methods_option(otherwise: str | None = None) -> Any:
    """The option --methods; `otherwise`: the methods shown as its default."""
    return Option(
        "--methods",
        help="Names from 'rationales methods', separated by commas; options after colons.",
        metavar="A,B:NAME=VALUE",
        show_default=otherwise or True,
    )
