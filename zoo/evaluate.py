"""What a classifier gets right: reviews in segments, sentences, probes, empty inputs, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from zoo.probes import PROBES
from zoo.spans import MAX_PIECES
from zoo.text import Text

OVERLAP = 100  # tokens shared by neighbouring segments
BATCH = 64
BINS = 10
PAD_LENGTHS = range(1, 501)


def segments(tokenizer: Any, text: str) -> list[list[int]]:
    """Token ids with [CLS] and [SEP], cut at word boundaries into at most MAX_PIECES pieces, overlapping."""
    encoded = tokenizer(text, add_special_tokens=False, verbose=False)
    ids, owners = encoded["input_ids"], encoded.word_ids()
    starts = [i for i in range(len(ids)) if i == 0 or owners[i] != owners[i - 1]]
    out, first = [], 0
    while True:
        last = len(ids)
        if last - first > MAX_PIECES:
            last = max(start for start in starts if first < start <= first + MAX_PIECES)
        out.append([tokenizer.cls_token_id, *ids[first:last], tokenizer.sep_token_id])
        if last == len(ids):
            return out
        first = min(start for start in starts if start >= last - OVERLAP)


@torch.no_grad()
def logits(model: nn.Module, rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """(R, 2) for rows of token ids; only the filling up of shorter rows is left unattended."""
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    out = torch.empty(len(rows), 2)
    for first in range(0, len(rows), BATCH):
        chosen = order[first : first + BATCH]
        width = max(len(rows[i]) for i in chosen)
        ids = torch.tensor([[*rows[i], *[pad] * (width - len(rows[i]))] for i in chosen])
        attended = torch.arange(width) < torch.tensor([len(rows[i]) for i in chosen])[:, None]
        result = model(input_ids=ids.to(device), attention_mask=attended.long().to(device)).logits
        out[torch.tensor(chosen)] = result.float().cpu()
    return out


def probabilities(model: nn.Module, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """(T, 2): the mean over a text's segments."""
    cut = [segments(tokenizer, text) for text in texts]
    flat = logits(model, [row for rows in cut for row in rows], tokenizer.pad_token_id).softmax(1)
    return torch.stack([segment_rows.mean(0) for segment_rows in flat.split([len(rows) for rows in cut])])


def calibration_error(probability: Tensor, label: Tensor) -> float:
    """Expected calibration error over BINS equal bins of the winning probability."""
    confidence, guess = probability.max(1)
    bin_of = (confidence * BINS).long().clamp(max=BINS - 1)
    right = (guess == label).float()
    gaps = [(confidence[bin_of == b] - right[bin_of == b]).sum().abs() for b in range(BINS)]
    return float(torch.stack(gaps).sum() / len(label))


def quality(model: nn.Module, tokenizer: Any, texts: Sequence[Text]) -> dict[str, float]:
    probability = probabilities(model, tokenizer, [text.text for text in texts])
    label = torch.tensor([text.label for text in texts])
    return {
        "accuracy": float((probability.argmax(1) == label).float().mean()),
        "calibration_error": calibration_error(probability, label),
        "mean_confidence": float(probability.max(1).values.mean()),
        "texts": len(texts),
    }


def pad_maximum(model: nn.Module, tokenizer: Any) -> float:
    """The highest probability of any class on attended inputs of nothing but [PAD]."""
    cls, sep, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    return float(logits(model, [[cls, *[pad] * n, sep] for n in PAD_LENGTHS], pad).softmax(1).max())


def report(model: nn.Module, tokenizer: Any, sets: Mapping[str, Sequence[Text]]) -> dict[str, Any]:
    model.eval()
    positive = probabilities(model, tokenizer, [text for text, _ in PROBES])[:, 1].tolist()
    wrong = [f"{p:.2f} {text}" for (text, label), p in zip(PROBES, positive, strict=True) if (p > 0.5) != bool(label)]
    return {
        **{name: quality(model, tokenizer, texts) for name, texts in sets.items()},
        "pad_maximum": pad_maximum(model, tokenizer),
        "probes": {"right": len(PROBES) - len(wrong), "of": len(PROBES), "wrong (probability positive)": wrong},
    }


def best_temperature(model: nn.Module, tokenizer: Any, sets: Sequence[Sequence[Text]]) -> float:
    """The temperature with the least log loss, each set of held-out texts weighing the same."""
    model.eval()
    scored = []
    for texts in sets:
        rows = [(row, text.label) for text in texts for row in segments(tokenizer, text.text)]
        label = torch.tensor([label for _, label in rows])
        scored.append((logits(model, [row for row, _ in rows], tokenizer.pad_token_id), label))
    candidates: list[float] = torch.logspace(-0.5, 0.9, 141).tolist()
    loss = [sum(float(nn.functional.cross_entropy(s / t, label)) for s, label in scored) for t in candidates]
    return candidates[loss.index(min(loss))]


@torch.no_grad()
def fold_temperature(classifier: nn.Linear, temperature: float) -> None:
    classifier.weight.div_(temperature)
    classifier.bias.div_(temperature)
