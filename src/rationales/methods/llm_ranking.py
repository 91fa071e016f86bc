"""A language model is asked to rank the words itself (Barkan et al. 2024, the row LLM of Table 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rationales.errors import NotApplicableError, OptionError
from rationales.methods.method import Attribution, Method, Progress
from rationales.models.batch import Batch
from rationales.models.prompt.generation import chat_prompt, generate_replies
from rationales.models.prompt.network import PromptNetwork
from rationales.models.prompt.ranking import WordRanking, ranking_question, read_ranking
from rationales.models.text.batch import TextBatch
from rationales.models.text.model import token_limit
from rationales.options import option
from rationales.rationale import Note

TEXTS_AT_ONCE = 64


@dataclass(frozen=True)
class LlmRanking(Method):
    """1 for the word that the explained language model names first, falling linearly; 0 for words it does not name.

    The model is asked for the words that were most important for the target. Words that it invents are counted in a
    note; with `against` it is asked about the target alone.
    """

    name: ClassVar[str] = "llm-ranking"
    summary: ClassVar[str] = "the language model is asked to rank the words itself"
    needs: ClassVar[tuple[str, ...]] = ("texts", "a language model")
    uses_baselines: ClassVar[bool] = False
    contrasts: ClassVar[bool] = False
    scores_are_ranks: ClassVar[bool] = True

    max_tokens: int = option(96, "longest reply, in tokens")

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise OptionError("llm-ranking needs a reply of at least one token")

    def scores(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> Attribution:
        rankings = self.rankings(batch, target, progress)
        texts, _ = self._open(batch)
        values = [
            torch.tensor(ranking.scores(len(encoded.units)), dtype=texts.dtype, device=texts.device)
            for ranking, encoded in zip(rankings, texts.text_sources().encoded, strict=True)
        ]
        return Attribution(texts.spread(values), notes=[[_note(ranking)] for ranking in rankings])

    def rankings(self, batch: Batch, target: Tensor, progress: Progress | None = None) -> list[WordRanking]:
        """What the language model's reply says of each input's words; `target` is (inputs,)."""
        texts, network = self._open(batch)
        sources = texts.text_sources()
        tokenizer, labels = sources.tokenizer, [network.config.id2label[index] for index in range(texts.classes)]
        is_chat = bool(getattr(tokenizer, "chat_template", None))
        questions = [
            ranking_question(_full_text(encoded.source), labels[label], chat=is_chat, continues=network.continues)
            for encoded, label in zip(sources.encoded, target.tolist(), strict=True)
        ]
        prompts = [chat_prompt(tokenizer, question) for question in questions]
        limit = token_limit(network.language_model, tokenizer)
        rankings: list[WordRanking] = []
        for begin in range(0, len(prompts), TEXTS_AT_ONCE):
            chunk = slice(begin, begin + TEXTS_AT_ONCE)
            replies = generate_replies(network.language_model, tokenizer, prompts[chunk], self.max_tokens, limit)
            for encoded, reply in zip(sources.encoded[chunk], replies, strict=True):
                rankings.append(read_ranking(reply, [unit.text for unit in encoded.units]))
            if progress is not None:
                progress(len(rankings) / len(prompts))
        return rankings

    def _open(self, batch: Batch) -> tuple[TextBatch, PromptNetwork]:
        """The batch and the network of its language model, which must be able to write."""
        if not isinstance(batch, TextBatch):
            raise OptionError(f"{self.name} asks a language model about words and is for text models only; use marc")
        network = batch.modules[0]
        if not isinstance(network, PromptNetwork):
            raise NotApplicableError(
                f"{self.name} asks a language model, and this model is none (load one with labels and a template); "
                "use marc"
            )
        if batch.unit != "word":
            raise OptionError(f"{self.name} ranks words, not {batch.unit}s; load the model with unit='word'")
        if not hasattr(network.language_model, "generate"):
            name = type(network.language_model).__name__
            raise NotApplicableError(f"{name} cannot write a reply: it has no generate(); use a model of transformers")
        return batch, network


def _full_text(source: object) -> str:
    """The text, and the second text of a pair below it."""
    pair = getattr(source, "pair", None)
    return str(getattr(source, "text", "")) + (f"\n{pair}" if pair is not None else "")


def _note(ranking: WordRanking) -> Note:
    if not ranking.order:
        message = "the language model named no word of the text, so all scores are 0"
        return Note("no-ranking", f"{message}; {ranking.invented} words of its reply are not in the text")
    message = f"the language model named {ranking.named} words, of which {ranking.invented} are not in the text"
    return Note("words-named", message)
