"""From texts to rows of a prompt: tokens in context, the shared prefix, the units of the text or of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from rationales.errors import InputError, ModelError
from rationales.models.prompt.template import RenderedTemplate
from rationales.models.text.tokens import (
    EncodedText,
    SpecialTokens,
    TextInput,
    TokenRow,
    assemble,
    longest_unit,
    text_part,
    verified_extents,
)
from rationales.models.text.units import Extent, UnitKind, assign_tokens, sentences, words
from rationales.rationale_parts import Unit

# Texts that begin in different ways: what their prompts share does not depend on the text.
_PROBES = ("a", "The end", "I", "1", ".", "“é", "\n", " x", "")
MIN_ROOM = 8  # tokens of a text that a prompt must have room for


@dataclass(frozen=True, eq=False)
class PromptTokens:
    """The tokens of a prompt behind the shared prefix, and their extents in the whole prompt."""

    ids: list[int]
    extents: list[Extent]


@dataclass(frozen=True, eq=False)
class PromptEncoder:
    """Tokenises prompts in context and divides them into a shared prefix, units and fixed tokens."""

    tokenizer: Any
    template: RenderedTemplate
    leading_ids: tuple[int, ...]  # special tokens at the beginning of every prompt
    prefix_ids: tuple[int, ...]  # the tokens that all prompts begin with, the leading ones included
    prefix_end: int  # characters of the prompt that they cover

    @classmethod
    def of(cls, tokenizer: Any, template: RenderedTemplate, *, shared: bool = True) -> PromptEncoder:
        """The encoder of a template; `shared`: whether the tokens before the text are a prefix of their own."""
        leading = _leading_ids(tokenizer) if template.special_tokens else ()
        plain = cls(tokenizer, template, leading, leading, 0)
        if not shared or not template.pieces[0]:
            return plain
        prompts = [template.fill(probe)[0] for probe in _PROBES]
        rows = [plain.tokens([prompt])[0] for prompt in prompts]
        shortest = min(len(row.ids) for row in rows)
        common = len(list(takewhile(lambda position: len({row.ids[position] for row in rows}) == 1, range(shortest))))
        # the label words follow the row's last token, so that a row has at least one
        common = min(common, shortest - 1)
        before_text = [number for number in range(common) if rows[0].extents[number][1] <= len(template.pieces[0])]
        common = len(before_text)
        end = max((rows[0].extents[number][1] for number in range(common)), default=0)
        return cls(tokenizer, template, leading, (*leading, *rows[0].ids[:common]), end)

    def tokens(self, prompts: Sequence[str]) -> list[PromptTokens]:
        """The tokens of these prompts behind the prefix; offsets are verified against the prompt."""
        inner_prefix = list(self.prefix_ids[len(self.leading_ids) :])
        encodings = _tokenize(self.tokenizer, prompts)
        rows: list[PromptTokens] = []
        for number, prompt in enumerate(prompts):
            ids = list(encodings["input_ids"][number])
            reported = encodings["offset_mapping"][number] if "offset_mapping" in encodings else None
            if ids[: len(inner_prefix)] == inner_prefix:
                ids = ids[len(inner_prefix) :]
                reported = None if reported is None else reported[len(inner_prefix) :]
                shift = self.prefix_end
            else:  # the tokenizer joined the end of the prefix with this text; they are tokenised apart
                alone = _tokenize(self.tokenizer, [prompt[self.prefix_end :]])
                ids, shift = list(alone["input_ids"][0]), 0
                reported = alone["offset_mapping"][0] if "offset_mapping" in alone else None
            behind = prompt[self.prefix_end :]
            if reported is not None:
                reported = [(max(start - shift, 0), max(end - shift, 0)) for start, end in reported]
            extents = verified_extents(behind, ids, self.tokenizer, reported) if ids else []
            rows.append(PromptTokens(ids, [(start + self.prefix_end, end + self.prefix_end) for start, end in extents]))
        return rows

    def label_ids(self, label: str, separator: int = 0) -> list[int]:
        """The tokens of a label behind a prompt with this separator, as the tokenizer writes both together."""
        written = self.template.separators[separator]
        # where the end of the prompt decides, a line end is followed by no space
        example = "a\n" if len(self.template.separators) > 1 and not written else "a"
        prompt = self.template.fill(example, example)[0]
        continuation = label if label[:1].isspace() else written + label
        before, joined = (_tokenize(self.tokenizer, [text])["input_ids"][0] for text in (prompt, prompt + continuation))
        if list(joined[: len(before)]) == list(before):
            return list(joined[len(before) :])
        return list(_tokenize(self.tokenizer, [continuation])["input_ids"][0])

    def encode_text(
        self, source: TextInput, prompt: str, extents: Sequence[Extent], tokens: PromptTokens, settings: RowSettings
    ) -> EncodedText:
        """Rows whose units are those of the text; all other tokens are fixed."""
        texts = [source.text] if source.pair is None else [source.text, source.pair]
        for text in texts:
            if not text.strip():
                raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
        ranges: list[tuple[int, int]] = []
        for start, end in extents:
            inside = [
                number
                for number, (first, last) in enumerate(tokens.extents)
                if first < end and last > start and number >= (ranges[-1][1] if ranges else 0)
            ]
            if not inside:
                raise InputError(f"the tokenizer returns no tokens for {source.title}; there is nothing to explain")
            ranges.append((inside[0], inside[-1] + 1))
        cuts = [0, *(cut for token_range in ranges for cut in token_range), len(tokens.ids)]
        frame = SpecialTokens(
            [tokens.ids[cuts[i] : cuts[i + 1]] for i in range(0, len(cuts), 2)], None, [0] * len(ranges)
        )
        fixed = sum(len(ids) for ids in frame.ids)
        settings.check_room(fixed, len(texts), self)
        parts = []
        for text, (start, _), (first, last) in zip(texts, extents, ranges, strict=True):
            local = [_clipped(extent, start, len(text)) for extent in tokens.extents[first:last]]
            longest = longest_unit(settings.limit - fixed, len(texts))
            parts.append(text_part(text, tokens.ids[first:last], local, settings.unit, longest))
        encoded = assemble(source, parts, frame, settings.limit, settings.overlap)
        if len(encoded.rows) > 1 and not settings.segments:
            raise settings.too_long(source, len(tokens.ids))
        return encoded

    def encode_prompt(self, source: TextInput, tokens: PromptTokens, settings: RowSettings) -> EncodedText:
        """One row whose units are those of the whole prompt, the text of `source`; special tokens are fixed."""
        if len(tokens.ids) > settings.limit:
            raise settings.too_long(source, len(tokens.ids))
        # an unknown character has a token of this kind, too, but is a word of the prompt
        special = {*self.tokenizer.all_special_ids} - {getattr(self.tokenizer, "unk_token_id", None)}
        text, owner = source.text, [-1] * len(tokens.ids)
        units: list[Extent] = []
        number = 0
        while number < len(tokens.ids):
            if tokens.ids[number] in special:
                number += 1
                continue
            last = number
            while last < len(tokens.ids) and tokens.ids[last] not in special:
                last += 1
            begin, end = tokens.extents[number][0], tokens.extents[last - 1][1]
            extents = [_clipped(extent, begin, end - begin) for extent in tokens.extents[number:last]]
            raw = _units(text[begin:end], settings.unit, extents)
            if raw:
                merged, owners = assign_tokens(raw, extents)
                owner[number:last] = [len(units) + unit for unit in owners]
                units += [(begin + start, begin + stop) for start, stop in merged]
            number = last
        if not units:
            raise InputError(f"{source.name or 'the prompt'} is empty; there is nothing to explain")
        row = TokenRow(
            tokens.ids, None, owner, list(range(len(units))), [1.0] * len(units), [float(i) for i in range(len(units))]
        )
        return EncodedText(source, tuple(Unit(text[start:end], start, end, 0) for start, end in units), (row,))


@dataclass(frozen=True)
class RowSettings:
    """How prompts become rows."""

    unit: UnitKind
    limit: int  # tokens of a row, without the prefix
    overlap: int
    context: int  # tokens that the model takes
    label_tokens: int  # positions that the labels take behind a row
    segments: bool  # whether long texts are divided

    def check_room(self, fixed: int, texts: int, encoder: PromptEncoder) -> None:
        """Raise a ModelError if the template leaves no room for the text."""
        text_tokens = self.limit - fixed
        if text_tokens < MIN_ROOM * texts:
            template = len(encoder.prefix_ids) + fixed
            advice = "shorten the template, for instance by an example"
            if self.label_tokens > template:
                advice = "shorten the labels"
            raise ModelError(
                f"the template takes {template} tokens and the labels {self.label_tokens} of the {self.context} that "
                f"the model takes, which leaves {max(text_tokens, 0)} for the text, and {MIN_ROOM * texts} are needed; "
                f"{advice}"
            )

    def too_long(self, source: TextInput, tokens: int) -> InputError:
        """The error for a prompt that cannot be divided into segments."""
        return InputError(
            f"{source.title} has {tokens} tokens, and the model takes {self.limit} of a prompt ({self.context} with "
            "the labels and all fixed tokens); a prompt whose words are all explained is never cut, so shorten it"
        )


def _units(text: str, unit: UnitKind, extents: Sequence[Extent]) -> list[Extent]:
    if unit == "token":
        return [extent for extent in dict.fromkeys(extents) if extent[0] < extent[1] and text[slice(*extent)].strip()]
    return sentences(text) if unit == "sentence" else words(text)


def _clipped(extent: Extent, begin: int, size: int) -> Extent:
    """The extent relative to `begin`, within `size` characters."""
    start, end = (min(max(position - begin, 0), size) for position in extent)
    return start, end


def _tokenize(tokenizer: Any, prompts: Sequence[str]) -> dict[str, list[Any]]:
    """Token ids of each prompt without special tokens of the tokenizer's, and their offsets if it reports them."""
    fast = {"return_offsets_mapping": True} if getattr(tokenizer, "is_fast", False) else {}
    encodings = tokenizer(list(prompts), add_special_tokens=False, verbose=False, **fast)
    return {name: encodings[name] for name in ("input_ids", "offset_mapping") if name in encodings}


def _leading_ids(tokenizer: Any) -> tuple[int, ...]:
    """The special tokens that the tokenizer puts before a text."""
    plain, complete = tokenizer("a", add_special_tokens=False)["input_ids"], tokenizer("a")["input_ids"]
    for start in range(len(complete) - len(plain) + 1):
        if complete[start : start + len(plain)] == plain:
            return tuple(complete[:start])
    return ()
