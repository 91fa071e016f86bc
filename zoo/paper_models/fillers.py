"""Masked language models on the MiniLM encoder: a head tied to the word embeddings, and a low-rank change.

`minilm-filler` and `minilm-filler-small` (the first three layers) are trained with the low-rank change from the start;
`minilm-filler-sst2` is the former fine-tuned on SST-2 (Pham and others 2022, appendix C), its change then cut.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer, BertForMaskedLM

from rationales.models.delta import load_delta
from zoo.fit import half_precision, optimiser, update
from zoo.lowrank import delta_of, open_for_training
from zoo.pace import Pace
from zoo.paper_models.classifiers import adam
from zoo.paper_models.cloze import Special, cloze_figures
from zoo.paper_models.delta_files import low_rank_change, restore, save_delta, state_of
from zoo.paper_models.storage import DeviceRows, TokenRows, join_rows, load_rows, to_device

RANK, EMBEDDING_RANK, TUNED_RANK = 32, 8, 12
RATE = 7e-4
MASKED_SHARE = 0.2  # of the tokens of a row, all of them shown as [MASK]: the model is only ever asked about [MASK]
WINDOW = 256  # tokens of a review or passage
WINDOWS, SHORT_ROWS = 128, 256  # of a step
SHORTEST = 7  # tokens of a sentence, [CLS] and [SEP] included: in shorter ones there is little to guess from
TUNED_RATE, TUNED_BATCH, TUNED_SHARE, TUNED_EPOCHS = 5e-5, 8, 0.15, 3  # appendix C; epochs of Hugging Face's script
TUNED_SHORTEST = 12  # tokens: the tuned filler is tested on, and used for, sentences
CHECKS = 4  # of the tuned filler on SST's dev sentences; the best stays
TRAINING_SHARE = 0.85  # of an item's minutes
UNSEEN = ("sst-dev", "sst-test", "imdb-unseen", "movies-test", "esnli-unseen", "passages-unseen")
TESTED_TOKENS = {"sst-test": 40_000, "sst-dev": 20_000}  # all of them
OTHER_TOKENS = 6000
REVIEW_TOKENS = 128  # of a review's first segment that are tested


class LowRankEmbedding(nn.Module):
    """Word embeddings frozen up to a term of rank `rank`; input and output share it, as they share the weights."""

    def __init__(self, base: nn.Embedding, rank: int) -> None:
        super().__init__()
        self.weight = base.weight
        self.down = nn.Parameter(torch.randn(rank, base.embedding_dim) / base.embedding_dim**0.5)
        self.up = nn.Parameter(torch.zeros(base.num_embeddings, rank))

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.weight) + nn.functional.embedding(ids, self.up) @ self.down

    def logits(self, features: Tensor, bias: Tensor) -> Tensor:
        return nn.functional.linear(features, self.weight + self.up @ self.down, bias)


def fresh_filler(encoder: Path, layers: int) -> BertForMaskedLM:
    config = AutoConfig.from_pretrained(encoder)
    config.num_hidden_layers = layers
    model = BertForMaskedLM.from_pretrained(encoder, config=config, dtype=torch.float32)
    model.config.architectures = ["BertForMaskedLM"]
    return model


def open_filler(model: BertForMaskedLM) -> None:
    """Freeze all but the low-rank terms, biases, layer norms and the head."""
    open_for_training(model, RANK)
    for parameter in model.cls.parameters():
        parameter.requires_grad_(True)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)  # the decoder's weight too: they are tied
    model.bert.embeddings.word_embeddings = LowRankEmbedding(model.bert.embeddings.word_embeddings, EMBEDDING_RANK)


@dataclass(frozen=True)
class Masked:
    """A batch to fill in. ids: (B, L) with words hidden; position, target: (B, K); weight: (B, K), 0 for filling up."""

    ids: Tensor
    position: Tensor
    target: Tensor
    weight: Tensor


def mask_tokens(ids: Tensor, special: Special, share: float) -> Masked:
    """Hide `share` of each row's tokens, one at least."""
    maskable = special.maskable(ids)
    count = (share * maskable.sum(1)).round().clamp(min=1).long()
    slots = max(1, round(share * ids.shape[1]))
    score = torch.rand(ids.shape, device=ids.device).masked_fill(~maskable, -1.0)
    position = score.topk(slots, 1).indices
    weight = (torch.arange(slots, device=ids.device) < count[:, None]) & maskable.gather(1, position)
    target = ids.gather(1, position)
    hidden = ids.scatter(1, position, torch.where(weight, torch.full_like(target, special.mask), target))
    return Masked(hidden, position, target, weight.float())


def filling_loss(model: BertForMaskedLM, masked: Masked, attended: Tensor | None, device: torch.device) -> Tensor:
    """Mean cross-entropy of the hidden words."""
    with half_precision(device):
        states = model.bert(input_ids=masked.ids, attention_mask=attended).last_hidden_state
        chosen = states.gather(1, masked.position[..., None].expand(-1, -1, states.shape[-1])).flatten(0, 1)
        words = model.bert.embeddings.word_embeddings
        head = model.cls.predictions
        features = head.transform(chosen)
        logits = words.logits(features, head.bias) if isinstance(words, LowRankEmbedding) else head.decoder(features)
    loss = nn.functional.cross_entropy(logits.float(), masked.target.flatten(), reduction="none")
    weight = masked.weight.flatten()
    return (loss * weight).sum() / weight.sum().clamp(min=1)


@dataclass(frozen=True)
class FillerText:
    """Training text on the device: one stream of reviews and passages with [SEP] between them, and short rows."""

    stream: Tensor
    short: DeviceRows

    def windows(self, count: int, special: Special) -> Tensor:
        """(count, WINDOW) token ids from random places of the stream."""
        length = min(WINDOW, len(self.stream)) - 2
        start = torch.randint(len(self.stream) - length + 1, (count, 1), device=self.stream.device)
        middle = self.stream[start + torch.arange(length, device=self.stream.device)]
        return nn.functional.pad(nn.functional.pad(middle, (1, 0), value=special.cls), (0, 1), value=special.sep)


def training_text(data: Path, special: Special, device: torch.device, limit: int | None) -> FillerText:
    pieces = []
    for name in ("imdb-text", "movies-train", "passages-text"):
        rows = load_rows(data / "tokens", name, limit)
        ids = np.insert(rows.ids, rows.bounds[1:-1], special.sep)
        pieces.append(np.append(ids[ids != special.cls], special.sep))
    short = join_rows([load_rows(data / "tokens", name, limit) for name in ("sst2-train", "short-text")])
    short = short.select(np.flatnonzero(short.lengths >= SHORTEST))
    return FillerText(
        torch.from_numpy(np.concatenate(pieces).astype(np.int64)).to(device), to_device(short, device, special.pad)
    )


def unseen_texts(data: Path, limit: int | None) -> dict[str, TokenRows]:
    """The texts to test on; of the reviews the beginning of each first segment."""
    texts = {name: load_rows(data / "tokens", name, limit) for name in UNSEEN}
    reviews = texts["movies-test"]
    first = np.unique(reviews.group, return_index=True)[1]
    lengths = np.minimum(reviews.lengths[first], REVIEW_TOKENS)
    ids = np.concatenate([reviews.row(i)[:n] for i, n in zip(first, lengths, strict=True)])
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    texts["movies-test"] = TokenRows(ids, bounds, lengths, reviews.label[first], reviews.group[first])
    return texts


def figures_of(
    model: nn.Module, texts: dict[str, TokenRows], special: Special, tiny: bool, share: float = 1.0
) -> dict[str, Any]:
    """Figures on each of the texts; `share`: of the tokens that are tested otherwise."""
    return {name: cloze_figures(model, rows, special, tested_tokens(name, tiny, share)) for name, rows in texts.items()}


def tested_tokens(name: str, tiny: bool, share: float) -> int:
    return 12 if tiny else round(share * TESTED_TOKENS.get(name, OTHER_TOKENS))


def without_dropout(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def train_filler(
    name: str, layers: int, data: Path, encoder: Path, out: Path, device: torch.device, minutes: float, seed: int,
    tiny: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Train a filler of this many layers until the minutes are over, store it under `out` and test what was stored."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    special = Special.of(AutoTokenizer.from_pretrained(encoder))
    text = training_text(data, special, device, 8 if tiny else None)
    model = fresh_filler(encoder, layers)
    open_filler(model)
    without_dropout(model).to(device).train()  # few passes over much text: dropout would only slow it down
    optim = optimiser(model.parameters(), RATE, decay=0.01)
    pace = Pace(name, 3 if tiny else 1_000_000, TRAINING_SHARE * minutes)
    rows, short_rows = (2, 4) if tiny else (WINDOWS, SHORT_ROWS)
    pace.begin()
    while pace.progress < 1:
        long_loss = filling_loss(
            model, mask_tokens(text.windows(rows, special), special, MASKED_SHARE), attended=None, device=device
        )
        arguments, _ = text.short.batch(rng.integers(len(text.short.lengths), size=short_rows))
        masked = mask_tokens(arguments["input_ids"], special, MASKED_SHARE)
        short_loss = filling_loss(model, masked, arguments["attention_mask"], device)
        update(optim, long_loss + short_loss, RATE * pace.rate())
        size = rows * WINDOW + arguments["input_ids"].numel()
        pace.advance(size, reviews=long_loss.detach(), sentences=short_loss.detach())
    size = save_delta(out / name, delta_of(model), model.config)
    stored = load_delta(out / name, encoder, "BertForMaskedLM")[0].to(device)
    figures = {
        "model": name,
        "layers": layers,
        "rank": RANK,
        "steps": pace.step,
        "tokens": pace.tokens,
        "seconds": round(pace.seconds, 1),
        "loss at the end": {"reviews": float(long_loss.detach()), "sentences": float(short_loss.detach())},
        "text": {"stream tokens": len(text.stream), "short rows": len(text.short.lengths)},
        "unseen": figures_of(stored, unseen_texts(data, 6 if tiny else None), special, tiny),
        "delta bytes": size,
        "seed": seed,
    }
    (out / name / "metrics.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def tune_filler(
    name: str, base: str, data: Path, encoder: Path, out: Path, device: torch.device, minutes: float, seed: int,
    tiny: bool = False, tested_share: float = 1.0,
) -> dict[str, Any]:  # fmt: skip
    """Fine-tune the stored filler `base` on the text of SST-2 as appendix C says; store the change on top of it.

    As `base` was trained: without dropout, every hidden token shown as [MASK]. The learning rate rises for the first
    steps and then falls to 0: Adam's first steps of full size undo more than they teach. The best check on SST's dev
    sentences stays; held-out text of SST-2 train would not do, since `base` has seen all of it.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    special = Special.of(AutoTokenizer.from_pretrained(encoder))
    texts = unseen_texts(data, 6 if tiny else None)
    rows = load_rows(data / "tokens", "sst2-train", 8 if tiny else None)
    rows = rows if tiny else rows.select(np.flatnonzero(rows.lengths >= TUNED_SHORTEST))
    on_device = to_device(rows, device, special.pad)
    model = load_delta(out / base, encoder, "BertForMaskedLM")[0].to(device)
    model.config.architectures = ["BertForMaskedLM"]
    initial = state_of(model)
    before = figures_of(model, texts, special, tiny, tested_share)
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_("_embeddings." not in parameter_name)
    without_dropout(model)
    optim = adam(model, TUNED_RATE)
    steps = 2 if tiny else -(-TUNED_EPOCHS * len(rows) // TUNED_BATCH)
    pace = Pace(name, steps, TRAINING_SHARE * minutes)
    checks: list[tuple[int, float]] = []
    best, dev_loss = initial, np.inf
    indices = np.concatenate([rng.permutation(len(rows)) for _ in range(TUNED_EPOCHS)])
    dev_tokens = tested_tokens("sst-dev", tiny, tested_share)
    torch.set_float32_matmul_precision("high")
    pace.begin()
    while pace.progress < 1:
        model.train()
        arguments, _ = on_device.batch(indices[pace.step * TUNED_BATCH : (pace.step + 1) * TUNED_BATCH])
        masked = mask_tokens(arguments["input_ids"], special, TUNED_SHARE)
        loss = filling_loss(model, masked, arguments["attention_mask"], torch.device("cpu"))
        rise = min(1.0, (pace.progress + 1e-3) / pace.warm_up)
        update(optim, loss, TUNED_RATE * rise * max(0.0, 1 - pace.progress))
        pace.advance(arguments["input_ids"].numel(), loss=loss.detach())
        if pace.progress * CHECKS >= len(checks) + 1:
            figures = cloze_figures(model, texts["sst-dev"], special, dev_tokens)
            checks.append((pace.step, figures["cross-entropy"]))
            if checks[-1][1] < dev_loss:
                best, dev_loss = state_of(model), checks[-1][1]
    torch.set_float32_matmul_precision("highest")
    restore(model, best)
    tested = {"sst-test": texts["sst-test"]}
    size = save_delta(out / name, low_rank_change(initial, best, TUNED_RANK), model.config, base=base)
    stored = load_delta(out / name, encoder, "BertForMaskedLM")[0].to(device)
    figures = {
        "model": name,
        "base": base,
        "rank": TUNED_RANK,
        "steps": pace.step,
        "of": steps,
        "seconds": round(pace.seconds, 1),
        "cross-entropy on SST dev by step": checks,
        "unseen before": before,
        "unseen before compression": figures_of(model, tested, special, tiny, tested_share),
        "unseen": figures_of(stored, texts, special, tiny, tested_share),
        "delta bytes": size,
        "seed": seed,
    }
    (out / name / "metrics.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures
