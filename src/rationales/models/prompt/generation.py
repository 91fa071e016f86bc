"""Greedy answers of a causal language model to prompts, in batches that are padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import InputError
from rationales.models.batch.execution import record_passes

PROMPTS_AT_ONCE = 16


def chat_prompt(tokenizer: Any, question: str) -> str:
    """The question as a user's turn where the tokenizer has a chat template, else as it is."""
    if not getattr(tokenizer, "chat_template", None):
        return question
    turns = [{"role": "user", "content": question}]
    prompt: str = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return prompt


def generate_replies(
    language_model: nn.Module, tokenizer: Any, prompts: Sequence[str], max_tokens: int, limit: int
) -> list[str]:
    """The likeliest continuation of each prompt, token by token, at most `max_tokens` long.

    Prompts of similar length go together. `limit`: most tokens of a prompt with its reply; a longer prompt is an error.
    """
    is_chat = bool(getattr(tokenizer, "chat_template", None))
    rows = tokenizer(list(prompts), add_special_tokens=not is_chat, verbose=False)["input_ids"]
    for number, row in enumerate(rows):
        if len(row) + max_tokens > limit:
            raise InputError(
                f"the question about text {number} has {len(row)} tokens; with a reply of {max_tokens} that exceeds "
                f"the {limit} tokens that the language model reads; explain shorter texts"
            )
    replies = [""] * len(rows)
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    for begin in range(0, len(order), PROMPTS_AT_ONCE):
        numbers = order[begin : begin + PROMPTS_AT_ONCE]
        generated = _generate(language_model, tokenizer, [rows[number] for number in numbers], max_tokens)
        for number, ids in zip(numbers, generated, strict=True):
            replies[number] = tokenizer.decode(ids, skip_special_tokens=True)
    return replies


def _generate(language_model: Any, tokenizer: Any, rows: Sequence[Sequence[int]], max_tokens: int) -> list[list[int]]:
    """The ids that follow each row."""
    device = language_model.get_input_embeddings().weight.device
    longest = max(len(row) for row in rows)
    padding = padding_id(tokenizer)
    ids = torch.tensor([[padding] * (longest - len(row)) + list(row) for row in rows], device=device)
    attended = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    with torch.no_grad():
        output: Tensor = language_model.generate(
            input_ids=ids,
            attention_mask=attended,
            max_new_tokens=max_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=padding,
        )
    record_passes(output[:, longest:].numel(), output)  # a pass of a row for each new token
    generated: list[list[int]] = output[:, longest:].tolist()
    return generated


def padding_id(tokenizer: Any) -> int:
    """The id of the token that fills rows: the padding token, else the end or the unknown token."""
    ids = (getattr(tokenizer, name, None) for name in ("pad_token_id", "eos_token_id", "unk_token_id"))
    return next((token for token in ids if isinstance(token, int)), 0)
