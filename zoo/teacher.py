"""The teacher: MiniLM with a low-rank change, trained on gold labels of whole and of partly hidden texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertForSequenceClassification

from zoo.batches import Feed
from zoo.collection import Collection
from zoo.data import piece_offsets, word_pieces
from zoo.evaluate import best_temperature, fold_temperature
from zoo.fit import classify, cross_entropy, gold_target, half_precision, optimiser, update
from zoo.lowrank import apply_delta, delta_of, open_for_training
from zoo.pace import Pace
from zoo.spans import Spans, join, review_windows, whole_texts
from zoo.text import LABELS

RANK = 32
RATE = 6e-4
SMOOTHING = 0.03
REVIEW_TOKENS = 32_768  # a step's review windows
SHORT_ROWS = 128  # a step's phrases
ERASER_REPEATS = 4  # of 1,500 reviews beside 45,000
NAME = "minilm-reviews"


def fresh_teacher(encoder: Path) -> BertForSequenceClassification:
    names = dict(enumerate(LABELS))
    return BertForSequenceClassification.from_pretrained(
        encoder, id2label=names, label2id={name: i for i, name in names.items()}, dtype=torch.float32
    )


def load_teacher(encoder: Path, folder: Path) -> tuple[BertForSequenceClassification, Any]:
    """The teacher as stored: MiniLM from `encoder`, changed by the delta in `folder`, and its tokenizer."""
    model = fresh_teacher(encoder)
    apply_delta(model, load_file(folder / "delta.safetensors"))
    return model.eval(), AutoTokenizer.from_pretrained(encoder)


def save_teacher(model: BertForSequenceClassification, encoder: Path, folder: Path) -> None:
    """Write the delta in half precision and the configuration that goes with it."""
    folder.mkdir(parents=True, exist_ok=True)
    delta = {name: value.to(torch.float16).contiguous().cpu() for name, value in delta_of(model).items()}
    save_file(delta, folder / "delta.safetensors")
    config = {**model.config.to_diff_dict(), **json.loads((encoder / "config.json").read_text())}
    config |= {"architectures": ["BertForSequenceClassification"], "dtype": "float32", "problem_type": None}
    for name in ("_name_or_path", "transformers_version", "gradient_checkpointing"):
        config.pop(name, None)
    config |= {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def train_teacher(
    collection: Collection, encoder: Path, out: Path, device: torch.device, pace: Pace, tokens: int, seed: int
) -> None:
    """Train on about `tokens` tokens of reviews a step and save to `out`, the temperature folded in."""
    rng = np.random.default_rng(seed)
    corpus, groups = collection.corpus, collection.groups
    pieces = word_pieces(Tokenizer.from_file(str(encoder / "tokenizer.json")), corpus.vocabulary)
    offsets = [piece_offsets(corpus, pieces)]
    feed = Feed(torch.from_numpy(corpus.words).to(device), [pieces.to(device)], offsets)
    reviews = np.concatenate([groups["imdb"], *[groups["eraser"]] * ERASER_REPEATS])

    def short_epoch() -> Spans:
        # masked synthetic texts would teach that "good" says nothing: half of them hide a "not"
        synthetic = rng.permutation(groups["synthetic"])[: len(groups["sst2"]) // 10]
        return join([whole_texts(corpus, groups["sst2"], offsets), whole_texts(corpus, synthetic, offsets, fixed=True)])

    model = fresh_teacher(encoder)
    open_for_training(model, RANK)
    model.to(device).train()
    optim = optimiser(model.parameters(), RATE, decay=0.01)
    long = feed.forever(lambda: review_windows(corpus, reviews, offsets, rng), 512, tokens, rng)
    short = feed.forever(short_epoch, SHORT_ROWS, tokens, rng)
    pace.begin()
    while pace.progress < 1:
        losses, size = [], 0
        for batch in (next(long), next(short)):
            with half_precision(device):
                logits = classify(model, batch.tokens[0]).logits
            losses.append(cross_entropy(logits, gold_target(batch.label, batch.empty, SMOOTHING)))
            size += batch.size
        update(optim, losses[0] + losses[1], RATE * pace.rate())
        pace.advance(size, reviews=losses[0].detach(), phrases=losses[1].detach())

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    temperature = best_temperature(model, tokenizer, list(collection.held_out.values()))
    print(f"teacher temperature {temperature:.3f}", flush=True)
    fold_temperature(model.classifier, temperature)
    save_teacher(model, encoder, out)
