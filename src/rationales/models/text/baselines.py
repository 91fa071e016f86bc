"""Baselines of text models: the embedding that replaces a word."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import OptionError

NAMED = ("pad", "mask", "unk", "eos", "zero", "mean")


def choose(baseline: str | Tensor | None, tokenizer: Any) -> str:
    """The name of `baseline`, or by default the first of pad, mask, unk that the tokenizer has, else mean."""
    if isinstance(baseline, Tensor):
        return "given"
    if baseline is not None:
        if not isinstance(baseline, str):
            raise OptionError(f"a baseline is one of {', '.join(NAMED)}, a word or a tensor, not {baseline!r}")
        return baseline
    return next((name for name in ("pad", "mask", "unk") if _token_id(tokenizer, name) is not None), "mean")


def vector(baseline: str | Tensor, tokenizer: Any, embedding: nn.Module) -> Tensor:
    """(hidden,): the embedding layer's output for the baseline, its scaling included."""
    if isinstance(baseline, Tensor):
        example = _embed(embedding, [0])[0]
        if baseline.shape != example.shape:
            raise OptionError(
                f"a baseline given as a tensor must have the shape {tuple(example.shape)}, not {tuple(baseline.shape)}"
            )
        if not torch.isfinite(baseline).all():
            raise OptionError("a baseline given as a tensor must be finite; this one holds NaN or infinity")
        return baseline.detach().clone().to(example)
    if baseline == "zero":
        return torch.zeros_like(_embed(embedding, [0])[0])
    if baseline == "mean":
        count = next(weight.shape[0] for weight in embedding.parameters() if weight.dim() == 2)
        chunks = torch.split(torch.arange(count), 4096)
        return torch.stack([_embed(embedding, chunk.tolist()).sum(0) for chunk in chunks]).sum(0) / count
    token = _token_id(tokenizer, baseline) if baseline in NAMED else _word_id(tokenizer, baseline)
    if token is None:
        raise OptionError(
            f"this tokenizer has no {baseline} token; choose another baseline: "
            + ", ".join(name for name in NAMED if name in ("zero", "mean") or _token_id(tokenizer, name) is not None)
        )
    return _embed(embedding, [token])[0]


def _embed(embedding: nn.Module, ids: list[int]) -> Tensor:
    device = next(embedding.parameters()).device
    with torch.no_grad():
        output: Tensor = embedding(torch.tensor(ids, device=device))
    return output.detach()


def _token_id(tokenizer: Any, name: str) -> int | None:
    token = getattr(tokenizer, f"{name}_token_id", None)
    return token if isinstance(token, int) else None


def _word_id(tokenizer: Any, word: str) -> int:
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    advice = f"give one of {', '.join(NAMED)}, or a word of one token"
    if len(ids) != 1:
        raise OptionError(f"the baseline {word!r} is {len(ids)} tokens; {advice}")
    if ids[0] == _token_id(tokenizer, "unk") and word != tokenizer.unk_token:
        raise OptionError(f"the tokenizer does not know the baseline {word!r}; {advice}")
    return int(ids[0])
