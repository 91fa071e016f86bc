"""What a person writes on the command line, turned into what the library takes; and told early where it cannot be."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rationales.errors import InputError, OptionError
from rationales.files import decode, read_text

_UNITS = {
    "image": "an image are its pixels",
    "image-text": "an image with a text are pixels and words",
    "audio": "a sound are its frames",
}


def check_outputs(sources: Path | Sequence[Path] | None, *outputs: Path | None) -> None:
    """Fail before the work, not after it."""
    paths = [sources] if isinstance(sources, Path) else list(sources or ())
    taken_paths = {path.resolve(): "the text would be overwritten" for path in paths}
    for path in filter(None, outputs):
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; give a file name")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: the folder {path.parent} does not exist")
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"cannot write {path}: no permission to write in {path.parent}")
        if path.resolve() in taken_paths:
            raise InputError(f"cannot write {path}: {taken_paths[path.resolve()]}; give another name")
        taken_paths[path.resolve()] = "the other output goes there too"


def check_rule(threshold: float | None, share: float | None, top: int | None) -> None:
    """Say what is wrong with --threshold, --share and --top before anything is loaded."""
    if threshold is None and share is None and top is None:
        return
    if share is not None and not 0 <= share <= 1:
        advice = f"; for {share:g} units use --top {share:g}" if share > 1 and share.is_integer() else ""
        raise OptionError(f"share is a fraction from 0 to 1, not {share:g}{advice}")
    from rationales.rationale import Rule

    Rule(threshold, share, top)


def load_model(name: str | None, kind: str, **options: Any) -> Any:
    """The model of this name, else the default model for this kind of input."""
    import rationales
    from rationales.models.kinds import kind_named

    name = name or kind_named(kind).default_model
    if not name:
        raise OptionError("give an image or a text, not both; a model that reads both is given with --model")
    return rationales.load(name, **options)


PROMPT_SWITCHES: dict[str, dict[str, Any]] = {  # of --prompt: options of `rationales.load`
    "chat": {"chat": True},
    "calibrated": {"calibrated": True},
    "length-normalised": {"length_normalised": True},
    "explain-prompt": {"explain_prompt": True},
    "no-space": {"separator": ""},
}


def prompt_options(
    labels: str | None, template: str | None, continuations: str | None, switches: list[str] | None
) -> dict[str, Any]:
    """The options of `rationales.load` for a language model that --labels, --template, ... name; else none."""
    requested: dict[str, Any] = {}
    for name, words in (("labels", labels), ("continuations", continuations)):
        if words is not None:
            requested[name] = [word.strip() for word in words.split(",")]
    if template is not None:
        from rationales.models.prompt.template import as_template

        requested["template"] = as_template(template)
    for switch in listed(switches):
        if switch not in PROMPT_SWITCHES:
            raise OptionError(f"--prompt takes {', '.join(PROMPT_SWITCHES)}, not {switch!r}")
        requested |= PROMPT_SWITCHES[switch]
    return requested


def check_kind(model: Any, input_kind: str) -> None:
    """A model must be given what it reads."""
    from rationales.models.kinds import kind_named

    expected, noun = kind_named(model.kind).noun, kind_named(input_kind).noun
    if expected == noun:
        return
    if model.kind == "image-text":
        raise OptionError(f"{model.name} reads an image with a text; give both, as in: 'a red bus' --image photo.jpg")
    if input_kind == "image-text":
        raise OptionError(f"{model.name} is a model of {expected}s; give a text or --image, not both")
    if input_kind == "text":
        flag = "--image" if model.kind == "image" else "--audio"
        raise OptionError(f"{model.name} is a model of {expected}s, so give {flag}")
    raise OptionError(f"{model.name} is a model of {expected}s, not {noun}s; give another --model")


def source(
    text: str | None,
    file: Path | None,
    image: Path | None,
    audio: Path | None,
    pair: str | None,
    command: str = "explain",
) -> str | tuple[str, str]:
    """What to explain: the path of an image or a sound, a text, or two texts."""
    path = image or audio
    if path is not None:
        if text is not None or file is not None or pair is not None or (image and audio):
            raise OptionError(
                "give an image or a text, not both"
                if image and not audio
                else "give one input: a sound, an image or a text"
            )
        if path.is_dir():
            raise InputError(f"{path} is a folder; give a file")
        if not path.exists():
            raise InputError(f"there is no file {path}")
        return str(path)
    if pair is not None and not pair.strip():
        raise InputError("--pair is empty; give the second text, or leave --pair out for a model of single texts")
    content = _text(text, file, command)
    return content if pair is None else (content, _utf8(pair, "--pair"))


def text_unit(unit: str | None, kind: str) -> str:
    """The unit of a text, a word where none is named; images and sounds have units of their own."""
    if unit is not None and kind != "text":
        raise OptionError(f"--unit is for texts; the units of {_UNITS[kind]}")
    return unit or "word"


def _text(text: str | None, file: Path | None, command: str) -> str:
    """The text from where it was asked for: the argument, a file, or standard input."""
    if text is not None and file is not None:
        raise OptionError("give a text or --file, not both")
    if file is not None:
        return read_text(file)
    if text is not None and text != "-":
        _check_no_file(text)
        return _utf8(text, "the text")
    if text is None and sys.stdin.isatty():
        raise OptionError(f"no text given: write it after '{command}', give --file, or pipe it in")
    return decode(sys.stdin.buffer.read(), "standard input")


def _check_no_file(text: str) -> None:
    """Raise an OptionError where a text is the path of a file."""
    if not os.path.isfile(text):  # noqa: PTH113 - a text may be too long for a path, and os.path says False then
        return
    from rationales.data.image_folders import SUFFIXES

    ending = Path(text).suffix.lower()
    flag = "--image" if ending in SUFFIXES else "--audio" if ending == ".wav" else "--file"
    raise OptionError(f"{text} is a file; to explain what it holds: {flag} {text}")


def _utf8(argument: str, name: str) -> str:
    """An argument as it is, unless the shell handed over bytes that are not UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in argument):
        raise InputError(f"{name} is not UTF-8; check the terminal's encoding")
    return argument


def options(settings: Sequence[str], flag: str = "--set") -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be read as such, else a string."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"{flag} takes name=value, not {setting!r}")
        try:
            values[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            values[name.strip()] = value
    return values


def written(value: object) -> str:
    """A value as --set takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def listed(arguments: Sequence[str] | None) -> list[str]:
    """a,b and c from 'a,b' 'c'."""
    return [name.strip() for argument in arguments or () for name in argument.split(",") if name.strip()]


def method_rows(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a table from 'marc', 'occlusion:window=1', 'lime:samples=25:smooth=6:shape=clauses:title=LIME'."""
    rows: list[dict[str, Any]] = []
    for argument in listed(arguments):
        name, *settings = argument.split(":")
        if len(name.split()) > 1:
            raise OptionError(f"no method {name.strip()!r}; separate methods by commas: {','.join(name.split())}")
        chosen = options(settings, f"--methods {name}:")
        row: dict[str, Any] = {"name": name.strip()}
        row |= {key: chosen.pop(key) for key in ("smooth", "shape", "oracle", "title") if key in chosen}
        rows.append(row | {"options": chosen})
    if not rows:
        raise OptionError("no method to compare; give --methods a,b with names from 'rationales methods'")
    return rows


def target(label: str | None, labels: tuple[str, ...]) -> str | int | None:
    """A label's name, or its number when no label is called so."""
    if label is None or label in labels:
        return label
    return int(label) if label.isascii() and label.isdigit() else label


def made_folder(folder: Path | None) -> None:
    """Make the folder for results before the work, so that nothing is lost after it."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write into {folder}: no permission")
