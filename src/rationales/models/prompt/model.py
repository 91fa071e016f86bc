"""Language models that classify by a prompt: from texts to rows behind the prompt's prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import Tensor

from rationales.errors import InputError
from rationales.models.batch.execution import garbage_collection_paused, token_budget
from rationales.models.display import label_list
from rationales.models.model import InputDescription
from rationales.models.prompt.baselines import EmbeddingChoice
from rationales.models.prompt.batch import PromptBatch
from rationales.models.prompt.encoding import PromptEncoder, RowSettings
from rationales.models.prompt.network import PromptNetwork
from rationales.models.prompt.template import PromptTemplate
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import EncodedText, TextInput, TokenRow
from rationales.rationale import Note

TEXTS_AT_ONCE = 256  # prompts that are tokenised together


@dataclass(eq=False, repr=False)
class PromptModel(TextModel):
    """A causal language model with a template and labels, as a classifier of texts.

    `limit` is the number of tokens of a row, without the prefix that all rows share.
    """

    template: PromptTemplate = field(kw_only=True)
    encoder: PromptEncoder = field(kw_only=True)
    settings: RowSettings = field(kw_only=True)
    explain_prompt: bool = field(kw_only=True, default=False)  # units are the words of the whole prompt
    choice: EmbeddingChoice | None = field(kw_only=True, default=None)  # of the baseline; None: the user's

    @property
    def prefix_length(self) -> int:
        """Tokens that all rows share."""
        return len(self.encoder.prefix_ids)

    @property
    def language_model(self) -> Any:
        """The causal language model itself."""
        network: Any = self.networks[0].module
        return network.language_model

    @property
    def default_target(self) -> int | None:
        """The class that is explained where none is named: a single label, not what it is set against."""
        return 0 if prompt_network(self).single else None

    def facts(self) -> dict[str, str]:
        """The properties shown in a shell or notebook."""
        template_text = self.template.text if len(self.template.text) <= 60 else self.template.text[:57] + "..."
        prompt = {"prompt": repr(template_text), "labels": label_list(self.labels)}
        of = "the whole prompt" if self.explain_prompt else "the text"
        return super().facts() | prompt | {"unit": f"{self.unit} of {of}"}

    def read(self, raw_input: Any, name: str | None) -> TextInput:
        """A checked input; if the whole prompt is explained, its text is the prompt."""
        source = super().read(raw_input, name)
        if (source.pair is not None) != self.template.has_pair:
            raise InputError(
                "the template has a place {pair}, so an input is a tuple of two texts"
                if self.template.has_pair
                else "an input has two texts, and the template has no place {pair} for the second"
            )
        if not self.explain_prompt:
            return source
        if not source.text.strip():
            raise InputError(f"{source.name or 'the text'} is empty; there is nothing to explain")
        return TextInput(self.encoder.template.fill(source.text, source.pair)[0], None, source.name)

    def prompt(self, text: str, pair: str | None = None) -> str:
        """The prompt of a text, as the model reads it."""
        return self.encoder.template.fill(text, pair)[0]

    def encode(self, inputs: Sequence[TextInput]) -> list[EncodedText]:
        """The units and rows of each input."""
        encoded: list[EncodedText] = []
        with garbage_collection_paused():
            for begin in range(0, len(inputs), TEXTS_AT_ONCE):
                sources = inputs[begin : begin + TEXTS_AT_ONCE]
                prompts = [self._filled(source) for source in sources]
                token_rows = self.encoder.tokens([prompt for prompt, _ in prompts])
                for source, (prompt, extents), tokens in zip(sources, prompts, token_rows, strict=True):
                    if self.explain_prompt:
                        text = self.encoder.encode_prompt(source, tokens, self.settings)
                    else:
                        text = self.encoder.encode_text(source, prompt, extents, tokens, self.settings)
                    encoded.append(replace(text, rows=self._with_separator(source, text.rows)))
        return encoded

    def plain_rows(self, texts: Sequence[TextInput]) -> list[tuple[TokenRow, ...]]:
        """The rows that the model reads for each text, without units; a text may be empty."""
        rows: list[tuple[TokenRow, ...]] = []
        tokens = self.encoder.tokens([self._filled(source)[0] for source in texts])
        for source, row in zip(texts, tokens, strict=True):
            if len(row.ids) <= self.limit:
                segments = [row.ids or [self.filler]]
            else:
                segments = [segment.ids for segment in self.encode([source])[0].rows]
            rows.append(self._with_separator(source, list(map(_without_units, segments))))
        return rows

    def batch(self, encoded: Sequence[EncodedText], seed: int = 0) -> PromptBatch:
        """One batch of the rows of these inputs; the prefix is computed before it."""
        text_batch = super().batch(encoded, seed)
        values = {item.name: getattr(text_batch, item.name) for item in fields(text_batch) if item.init}
        batch = PromptBatch(**values)
        network, longest = prompt_network(self), max(batch.lengths)
        network.prepare()
        budget = token_budget(network.config.get_text_config(), longest + self.prefix_length, batch.device)
        # the tokens of a row that are read: behind a shared prefix, or with it once for each label
        read_tokens = network.tokens_read(longest)
        batch.budget = max(1, min(batch.budget, budget) * longest // read_tokens)
        return batch

    def coarse(self, dtype: Any = None) -> PromptModel:
        """This model itself: a copy in half precision would hold the language model twice."""
        del dtype
        return self

    def describe(self, encoded: EncodedText, scores: Tensor) -> InputDescription:
        """What a result says of the text and of the prompt, and how the baseline was chosen."""
        description = replace(super().describe(encoded, scores), prompt=self.prompt_settings())
        if self.choice is None:
            return description
        return replace(description, notes=(*description.notes, Note("baselines", self.choice.message)))

    def prompt_settings(self) -> dict[str, Any]:
        """What the model is asked, as plain data: the template, and the switches that are on."""
        network = prompt_network(self)
        switches = {
            "continuations": network.continues,
            "calibrated": network.empty_ids is not None,
            "length_normalised": network.length_normalised,
            "explain_prompt": self.explain_prompt,
        }
        return {**self.template.to_dict(), **{name: True for name, is_on in switches.items() if is_on}}

    def _with_separator(self, source: TextInput, rows: Sequence[TokenRow]) -> tuple[TokenRow, ...]:
        """The rows with the number of the separator as type of their tokens, where the prompt's end decides on it."""
        template = self.encoder.template
        if len(template.separators) == 1:
            return tuple(rows)
        number = template.separator_number(source.text, source.pair)
        return tuple(replace(row, types=[number] * len(row.ids)) for row in rows)

    def _filled(self, source: TextInput) -> tuple[str, list[tuple[int, int]]]:
        if self.explain_prompt:
            return source.text, [(0, len(source.text))]
        return self.encoder.template.fill(source.text, source.pair)


def _without_units(ids: list[int]) -> TokenRow:
    """A row whose tokens belong to no unit: all of them are read as they are."""
    return TokenRow(ids, None, [-1] * len(ids), [0], [1.0], [0.0])


def prompt_network(model: PromptModel) -> PromptNetwork:
    """The network of a prompt model."""
    network = model.networks[0].module
    if not isinstance(network, PromptNetwork):
        raise TypeError("the network of a prompt model is a PromptNetwork")
    return network
