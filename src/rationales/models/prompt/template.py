"""Templates of prompts: where the text goes, worked examples before it, and the turns of a chat."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rationales.errors import OptionError
from rationales.files import read_text

TEXT, PAIR = "{text}", "{pair}"  # the places of the two texts; other braces are plain characters
SPACED_ENDS = ":;,.?!=>)-"  # behind these, and behind letters and digits, a space precedes the label
BETWEEN_EXAMPLES = "\n\n"
LONGEST_EXCERPT = 60  # characters of a template in a message
SEPARATORS = (" ", "")  # between a prompt that ends in the text, and a label
_SENTINELS = {TEXT: "\ue000text\ue001", PAIR: "\ue000pair\ue001"}  # stand for the texts while a chat is rendered


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with a place for the text, `{text}`, and for models of text pairs another, `{pair}`.

    `examples`: worked examples before the text (few-shot), each a tuple (text, label) or ((text, pair), label).
    `instruction`: what stands once at the beginning, before the worked examples; in a chat, of the first user's turn.
    `chat`: the prompt is the user's turn of a chat, rendered by the tokenizer's chat template; examples are earlier
    turns, and `system` is the system message. `separator`: what stands between the prompt and a label; None: the spaces
    that the prompt ends in, a space behind a letter, a digit or one of `:;,.?!=>)-`, else nothing.
    """

    text: str
    chat: bool = False
    system: str | None = None
    examples: tuple[Any, ...] = ()  # of tuples (text, label)
    separator: str | None = None
    instruction: str = ""

    def __post_init__(self) -> None:
        for placeholder in (TEXT, PAIR):
            count = self.text.count(placeholder)
            if count > 1:
                raise OptionError(
                    f"the template has {count} places {placeholder}; a text is read once, so leave one of them"
                )
        if TEXT not in self.text:
            raise OptionError(f"the template has no place {TEXT}; write {TEXT} where the text goes")
        if self.has_pair and self.text.index(PAIR) < self.text.index(TEXT):
            raise OptionError(f"{PAIR}, the second text, comes before {TEXT} in the template; write {TEXT} first")
        if self.system is not None and not self.chat:
            raise OptionError("a system message belongs to a chat; set chat=True, or write it into the template")
        object.__setattr__(self, "examples", tuple(map(_as_tuple, self.examples)))
        for example in self.examples:
            if not isinstance(example, tuple) or len(example) != 2 or not isinstance(example[1], str):
                raise OptionError(f"an example is a tuple (text, label), not {example!r}")
            if isinstance(example[0], str) == self.has_pair:
                raise OptionError(f"an example of a template with{'' if self.has_pair else 'out'} {PAIR}: {example!r}")

    @property
    def has_pair(self) -> bool:
        """Whether the template takes two texts."""
        return PAIR in self.text

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PromptTemplate:
        """The template in a UTF-8 text file, without line ends at its end, or in a JSON file, see `from_dict`."""
        content = read_text(Path(path))
        if Path(path).suffix.lower() != ".json":
            return cls(content.rstrip("\r\n"))
        try:
            return cls.from_dict(json.loads(content))
        except ValueError as error:
            raise OptionError(f"{path} is not JSON: {error}") from error
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, data: Any) -> PromptTemplate:
        """The inverse of `to_dict`; only `template` has to be there, and `labels` may be."""
        if not isinstance(data, Mapping) or not isinstance(data.get("template"), str):
            raise OptionError(f"a template as JSON is an object with the text {TEXT!r} under the name 'template'")
        names = {field.name for field in fields(cls)} - {"text"}
        if unknown := sorted(set(data) - names - {"template", "labels"}):
            raise OptionError(f"a template has no {unknown[0]!r}; there are: template, {', '.join(sorted(names))}")
        return cls(data["template"], **{name: data[name] for name in names & set(data)})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the text as `template`, and the fields that differ from their defaults."""
        changed = [field.name for field in fields(self)[1:] if getattr(self, field.name) != field.default]
        values = {name: getattr(self, name) for name in changed}
        if "examples" in values:
            values["examples"] = [
                [text if isinstance(text, str) else list(text), label] for text, label in self.examples
            ]
        return {"template": self.text, **values}

    def with_examples(self, examples: Sequence[tuple[Any, str]]) -> PromptTemplate:
        """The same template with these worked examples before the text."""
        return replace(self, examples=tuple(examples))

    def worked_prompt(self) -> str:
        """The prompt as plain text, with its instruction and worked examples and the place of the text."""
        worked = [
            _filled(self.text, text) + self.separator_before(_filled(self.text, text)) + label
            for text, label in self.examples
        ]
        return self.instruction + BETWEEN_EXAMPLES.join([*worked, self.text])

    def render(self, tokenizer: Any) -> RenderedTemplate:
        """The fixed parts of the prompt, as this tokenizer's chat template or plain text has them."""
        if self.chat:
            return self._render_chat(tokenizer)
        question = self.text.replace(TEXT, _SENTINELS[TEXT]).replace(PAIR, _SENTINELS[PAIR])
        prompt = self.worked_prompt().removesuffix(self.text) + question
        return self._cut(prompt, special_tokens=True)

    def _render_chat(self, tokenizer: Any) -> RenderedTemplate:
        if not getattr(tokenizer, "chat_template", None):
            raise OptionError("the tokenizer has no chat template, so the model is no chat model; leave chat out")
        messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        for text, label in self.examples:
            messages += [
                {"role": "user", "content": _filled(self.text, text)},
                {"role": "assistant", "content": label},
            ]
        question = self.text.replace(TEXT, _SENTINELS[TEXT]).replace(PAIR, _SENTINELS[PAIR])
        messages.append({"role": "user", "content": question})
        first_turn = next(message for message in messages if message["role"] == "user")
        first_turn["content"] = self.instruction + first_turn["content"]
        try:
            prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # templates raise what they like, for instance for a system message
            raise OptionError(f"the tokenizer's chat template refuses this prompt: {error}") from error
        return self._cut(prompt, special_tokens=False)

    def _cut(self, prompt: str, *, special_tokens: bool) -> RenderedTemplate:
        """The prompt cut at its places, without spaces at its end."""
        counts = {placeholder: prompt.count(_SENTINELS[placeholder]) for placeholder in (TEXT, PAIR)}
        if not counts[TEXT]:
            raise OptionError("the chat template leaves the user's text out; check the template of the tokenizer")
        if max(counts.values()) > 1:
            raise OptionError(
                f"the tokenizer's chat template writes the user's text {max(counts.values())} times, and a text is "
                "read once; leave chat out"
            )
        placeholders = [placeholder for placeholder, count in counts.items() if count]
        pieces: list[str] = []
        remaining = prompt
        for placeholder in placeholders:
            before, _, remaining = remaining.partition(_SENTINELS[placeholder])
            pieces.append(before)
        end = remaining.rstrip(" ")
        separators: tuple[str, ...]
        if self.separator is not None:
            separators = (self.separator,)
        elif len(end) < len(remaining):
            separators = (remaining[len(end) :],)  # tokenizers join a space with the word behind it
        else:
            separators = (self.separator_before(end),) if end else SEPARATORS
        return RenderedTemplate((*pieces, end), separators, special_tokens)

    def separator_before(self, prompt: str) -> str:
        """What stands between this prompt and a label."""
        if self.separator is not None:
            return self.separator
        return _separator_behind(prompt)


@dataclass(frozen=True)
class RenderedTemplate:
    """The fixed parts of a prompt: before, between and after its texts."""

    pieces: tuple[str, ...]  # one more than there are places
    separators: tuple[str, ...]  # between the prompt and a label; of several, the end of the prompt decides
    special_tokens: bool  # whether the tokenizer adds its special tokens: a chat template brings its own

    def fill(self, text: str, pair: str | None = None) -> tuple[str, list[tuple[int, int]]]:
        """The prompt of a text, and the extent in characters of the text and its pair in it, in this order."""
        prompt, extents = self._joined(text, pair)
        if not self.pieces[-1]:
            prompt = prompt.rstrip(" ")  # a space goes with the label behind it
        return prompt, extents

    def separator_number(self, text: str, pair: str | None = None) -> int:
        """Which of the separators stands between the prompt of a text and a label."""
        if len(self.separators) == 1:
            return 0
        prompt, _ = self._joined(text, pair)
        return self.separators.index(" " if prompt.endswith(" ") else _separator_behind(prompt))

    def _joined(self, text: str, pair: str | None) -> tuple[str, list[tuple[int, int]]]:
        texts = [text] if len(self.pieces) == 2 else [text, pair or ""]
        prompt, extents = self.pieces[0], []
        for value, piece in zip(texts, self.pieces[1:], strict=True):
            extents.append((len(prompt), len(prompt) + len(value)))
            prompt += value + piece
        return prompt, extents

    @property
    def has_pair(self) -> bool:
        """Whether there are two places."""
        return len(self.pieces) == 3


def as_template(template: Any, chat: bool = False, separator: str | None = None) -> PromptTemplate:
    """A template from an object, a text with `{text}` in it, or a file that holds such a text or JSON.

    `chat` and `separator` replace those of the template where they are set.
    """
    read = _read_template(template)
    return replace(read, chat=chat or read.chat, separator=read.separator if separator is None else separator)


def _read_template(template: Any) -> PromptTemplate:
    if isinstance(template, PromptTemplate):
        return template
    if isinstance(template, Mapping):
        return PromptTemplate.from_dict(template)
    if isinstance(template, str) and (TEXT in template or "\n" in template):
        return PromptTemplate(template)
    if not isinstance(template, (str, os.PathLike)):
        raise OptionError(
            f"a template is a text with {TEXT} in it, a file or a PromptTemplate, not {type(template).__name__}"
        )
    if not _is_file(template):
        excerpt = str(template) if len(str(template)) <= LONGEST_EXCERPT else f"{str(template)[:LONGEST_EXCERPT]}..."
        raise OptionError(
            f"the template {excerpt!r} has no place {TEXT}, and there is no file of this name; "
            f"write {TEXT} where the text goes"
        )
    return PromptTemplate.from_file(template)


def _is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file of this name, which may be too long for one."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def _separator_behind(prompt: str) -> str:
    """A space behind a letter, a digit or a mark of `SPACED_ENDS`, else nothing."""
    last = prompt[-1:]
    return " " if last.isascii() and (last.isalnum() or last in SPACED_ENDS) else ""


def _as_tuple(value: Any) -> Any:
    """Lists, as JSON has them, as tuples."""
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value


def _filled(template: str, text: Any) -> str:
    """The template with the texts of a worked example in their places."""
    first, second = (text, "") if isinstance(text, str) else text
    before, _, after = template.partition(TEXT)
    return before.replace(PAIR, second) + first + after.replace(PAIR, second)
