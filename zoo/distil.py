"""Distillation: the student learns the teacher's opinion, and its inner states, on the same partly hidden texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoTokenizer

from zoo.batches import Batch, Feed
from zoo.collection import Collection
from zoo.data import piece_offsets, word_pieces
from zoo.evaluate import best_temperature, fold_temperature
from zoo.fit import classify, cross_entropy, gold_target, half_precision, optimiser, update
from zoo.pace import Pace
from zoo.spans import Spans, join, review_windows, sentence_groups, sentence_spans, whole_texts
from zoo.student import VOCABULARY, fresh_student, save_student, save_tokenizer, train_tokenizer
from zoo.text import UNKNOWN

RATE = 1e-3
TEMPERATURE = 2.0
GOLD_WEIGHT = 0.3
STATES_UNTIL = 0.7  # of the phase the inner states are matched, with falling weight
STATE_PAIRS = ((2, 3), (4, 6))  # student layer, teacher layer
REVIEW_TOKENS = 65_536  # a step's review windows
SHORT_ROWS = 1536  # a step's short texts
ERASER_REPEATS = 4
NAME = "embedded"


@dataclass(frozen=True)
class Losses:
    opinion: Tensor  # to the teacher's softened output
    gold: Tensor  # to the labels of whole texts
    states: Tensor  # to the teacher's hidden states


def state_loss(student_states: Any, teacher_states: Any, bridges: nn.ModuleList, batch: Batch) -> Tensor:
    """Mean squared distance of the hidden states at every word's first piece, the teacher's at unit scale."""
    total = torch.zeros((), device=batch.label.device)
    valid = batch.valid[..., None].float()
    for bridge, (student_layer, teacher_layer) in zip(bridges, STATE_PAIRS, strict=True):
        student_words, teacher_words = (
            states.gather(1, tokens.first.clamp(max=states.shape[1] - 1)[..., None].expand(-1, -1, states.shape[2]))
            for states, tokens in zip(
                (student_states[student_layer], teacher_states[teacher_layer]), batch.tokens, strict=True
            )
        )
        goal = nn.functional.layer_norm(teacher_words.float(), teacher_words.shape[-1:])
        total = total + ((bridge(student_words).float() - goal).square() * valid).sum() / (valid.sum() * goal.shape[-1])
    return total / len(STATE_PAIRS)


def distil_losses(student: nn.Module, teacher: nn.Module, bridges: nn.ModuleList, batch: Batch, states: bool) -> Losses:
    with torch.no_grad():
        teacher_output = classify(teacher, batch.tokens[1], hidden=states)
    student_output = classify(student, batch.tokens[0], hidden=states)
    teacher_scores = teacher_output.logits.float().masked_fill(batch.empty[:, None], 0)  # uniform for an empty text
    scores = student_output.logits.float()
    opinion = TEMPERATURE**2 * nn.functional.kl_div(
        (scores / TEMPERATURE).log_softmax(1), (teacher_scores / TEMPERATURE).softmax(1), reduction="batchmean"
    )
    known = (batch.unmasked & (batch.label != UNKNOWN)).float()
    gold = cross_entropy(scores, gold_target(batch.label, batch.empty, smoothing=0.03), known)
    if not states:
        return Losses(opinion, gold, torch.zeros_like(gold))
    return Losses(opinion, gold, state_loss(student_output.hidden_states, teacher_output.hidden_states, bridges, batch))


def short_texts(collection: Collection, offsets: list[Any], rng: np.random.Generator) -> Callable[[], Spans]:
    """Epochs of about 45 % review sentences, 15 % sentence groups, 30 % phrases, 10 % synthetic texts."""
    corpus, groups = collection.corpus, collection.groups
    sentences, owner = sentence_spans(corpus, np.concatenate([groups["imdb"], groups["eraser"]]))
    bundles = sentence_groups(sentences, owner, offsets, rng)
    phrases = whole_texts(corpus, groups["sst2"], offsets)
    fixed = whole_texts(corpus, groups["synthetic"], offsets, fixed=True)
    free = whole_texts(corpus, groups["synthetic"], offsets)
    free.label[:] = UNKNOWN  # once masked, only the teacher can tell
    print(f"{len(sentences)} sentences, {len(bundles)} groups, {len(phrases)} phrases, {len(fixed)} synthetic")

    def sample(spans: Spans, count: int) -> Spans:
        return spans.take(rng.integers(0, len(spans), count))

    def epoch() -> Spans:
        n = len(phrases)
        review_parts = [sample(sentences, 3 * n // 2), sample(bundles, n // 2)]
        return join([phrases, *review_parts, sample(fixed, n // 6), sample(free, n // 6)])

    return epoch


def train_student(
    collection: Collection,
    teacher_model: Any,
    encoder: Path,
    out: Path,
    device: torch.device,
    pace: Pace,
    tokens: int,
    seed: int,
) -> None:
    """Train on about `tokens` tokens of reviews a step and save to `out`, the temperature folded in."""
    rng = np.random.default_rng(seed)
    corpus, groups = collection.corpus, collection.groups
    tokenizer = train_tokenizer([text.text for text in collection.texts], VOCABULARY)
    save_tokenizer(tokenizer, out)
    teacher_tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    student = fresh_student(tokenizer, teacher_tokenizer, teacher_model).to(device).train()
    pieces = [word_pieces(each, corpus.vocabulary) for each in (tokenizer, teacher_tokenizer)]
    offsets = [piece_offsets(corpus, each) for each in pieces]
    feed = Feed(torch.from_numpy(corpus.words).to(device), [each.to(device) for each in pieces], offsets)
    teacher = teacher_model.to(device, torch.bfloat16 if device.type == "cuda" else torch.float32).eval()
    width, wide = student.config.hidden_size, teacher.config.hidden_size
    bridges = nn.ModuleList(nn.Linear(width, wide) for _ in STATE_PAIRS).to(device)

    optim = optimiser([*student.parameters(), *bridges.parameters()], RATE, decay=0.01)
    reviews = np.concatenate([groups["imdb"], *[groups["eraser"]] * ERASER_REPEATS])
    long = feed.forever(lambda: review_windows(corpus, reviews, offsets, rng), 512, tokens, rng)
    short = feed.forever(short_texts(collection, offsets, rng), SHORT_ROWS, tokens, rng)
    pace.begin()
    while pace.progress < 1:
        weight = max(0.0, 1 - pace.progress / STATES_UNTIL)
        parts, size = [], 0
        for batch in (next(long), next(short)):
            with half_precision(device):
                parts.append(distil_losses(student, teacher, bridges, batch, states=weight > 0))
            size += batch.size
        total = torch.stack([p.opinion + GOLD_WEIGHT * p.gold + weight * p.states for p in parts]).sum()
        update(optim, total, RATE * pace.rate())
        pace.advance(
            size, long=parts[0].opinion.detach(), short=parts[1].opinion.detach(),
            gold=parts[1].gold.detach(), states=parts[1].states.detach(),
        )  # fmt: skip

    save_student(student, out)
    student.to(device)
    temperature = best_temperature(student, AutoTokenizer.from_pretrained(out), list(collection.held_out.values()))
    print(f"student temperature {temperature:.3f}", flush=True)
    fold_temperature(student.classifier, temperature)
    save_student(student, out)
