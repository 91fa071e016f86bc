"""Classifiers trained on texts as they are: no word is ever masked, padded or left out.

All weights but the embeddings are fine-tuned (the paper's Adam, dropout 0.1, linear decay), then the change is stored
by its largest components. Settings, epochs and ranks are chosen on validation data, never on the test files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertForSequenceClassification, DistilBertForSequenceClassification

from rationales.evaluation.tables.statistics import compare
from rationales.models.delta import DELTA_FILE, DELTA_FOLDER, load_delta
from zoo.fit import half_precision, update
from zoo.pace import Pace
from zoo.paper_models.delta_files import cut, low_rank_change, restore, save_delta, state_of
from zoo.paper_models.excerpts import excerpt_files
from zoo.paper_models.storage import Array, TokenRows, load_rows, to_device

RANKS = (16, 32, 56)  # the first that is good enough is stored
AGREEMENT = 0.99  # share of validation texts on which the stored model must predict the label of the trained one
VALIDATION_SHARE = 0.1  # of the groups of a training file without a validation file of its own
FEW_GROUPS_SHARE = 0.16  # the same where the groups are few and large
SIGNIFICANT = 0.05
CHECKED_TEXTS = 2000  # on which ranks are compared where nothing was held out: training texts, labels unread
TRAINING_SHARE = 0.8  # of an item's minutes; the remainder is for validation, compression and tests
EVALUATION_ROWS = 128
TINY_ROWS = 6  # of each file, in a dry run
SINGLE_PRECISION_TOKENS = 128  # short rows are limited by the number of kernels; casts would only add to them


@dataclass(frozen=True)
class Setting:
    """One way to train: learning rate, epochs, rows of a batch, the weights to start from and the seed."""

    rate: float
    epochs: int
    batch: int
    start: str = ""  # stored classifier whose encoder training starts from; "": the pretrained encoder
    seed: int = 0  # added to the seed of the run
    excerpts: tuple[str, ...] = ()  # files of shorter texts, an epoch of each before the epochs on complete texts


@dataclass(frozen=True)
class Task:
    """A classifier: its labels, its files and the settings to choose from, that of the paper first."""

    name: str
    labels: tuple[str, ...]
    train: str
    tests: tuple[str, ...]
    settings: tuple[Setting, ...]
    validation: str | None = None  # a file; None: a share of the training file, if there is anything to choose
    ranks: tuple[int, ...] = RANKS
    confirmed: bool = False  # whether it is stored only if it beats the most frequent label on the test files


TASKS = (
    Task("minilm-sst2", ("negative", "positive"), "sst2-train", ("sst2-dev", "sst-dev", "sst-test"),
         (Setting(2e-5, 3, 32),)),
    Task("minilm-movies", ("negative", "positive"), "movies-train", ("movies-test",),
         (Setting(8e-5, 10, 16),), "movies-val"),
    Task("minilm-esnli", ("entailment", "neutral", "contradiction"), "esnli-train", ("esnli-test",),
         (Setting(2e-5, 3, 32), Setting(1e-4, 6, 32))),
    Task("minilm-multirc", ("false", "true"), "multirc-train", ("multirc-test",),
         (Setting(2e-5, 3, 8),
          Setting(5e-5, 1, 16, "minilm-esnli", excerpts=excerpt_files())),
         confirmed=True),
)  # fmt: skip


def fresh_classifier(encoder: Path, labels: tuple[str, ...]) -> BertForSequenceClassification:
    names = dict(enumerate(labels))
    model = BertForSequenceClassification.from_pretrained(
        encoder, id2label=names, label2id={name: i for i, name in names.items()}, dtype=torch.float32
    )
    model.config.architectures = ["BertForSequenceClassification"]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("_embeddings." not in name)  # those of words, positions and types are too large
    return model


def start_from(model: nn.Module, source: Path, encoder: Path) -> None:
    """Give the model the encoder of a stored classifier; its own head stays."""
    stored = load_delta(source, encoder, "AutoModelForSequenceClassification")[0]
    weights = dict(stored.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("classifier."):
                parameter.copy_(weights[name])


def adam(model: nn.Module, rate: float) -> torch.optim.Adam:
    """The optimiser of the papers: betas 0.9 and 0.999, no weight decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.Adam(trained, lr=rate, betas=(0.9, 0.999), eps=1e-8, fused=True)


def split_groups(rows: TokenRows, share: float, rng: np.random.Generator) -> tuple[TokenRows, TokenRows]:
    """Training and validation rows; a group is in one of the two only."""
    groups = np.unique(rows.group)
    chosen = rng.choice(groups, max(1, round(share * len(groups))), replace=False)
    held_out = np.isin(rows.group, chosen)
    return rows.select(np.flatnonzero(~held_out)), rows.select(np.flatnonzero(held_out))


def accepted_arguments(model: nn.Module, arguments: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arguments without token types for DistilBERT, which has none."""
    if not isinstance(model, DistilBertForSequenceClassification):
        return arguments
    return {name: value for name, value in arguments.items() if name != "token_type_ids"}


@torch.no_grad()
def probabilities(model: nn.Module, rows: TokenRows, pad: int) -> tuple[Tensor, Array]:
    """(rows, classes) on the host, and the labels of the rows."""
    model.eval()
    device = next(model.parameters()).device
    on_device = to_device(rows, device, pad)
    order = np.argsort(rows.lengths, kind="stable")
    out = torch.empty(len(rows), model.config.num_labels, device=device)
    for first in range(0, len(rows), EVALUATION_ROWS):
        indices = order[first : first + EVALUATION_ROWS]
        arguments, _ = on_device.batch(indices)
        logits = model(**accepted_arguments(model, arguments)).logits
        out[torch.from_numpy(indices).to(device)] = logits.float().softmax(1)
    return out.cpu(), rows.label


def text_probabilities(model: nn.Module, rows: TokenRows, pad: int, segmented: bool) -> tuple[Tensor, Array]:
    """(texts, classes) and the labels; `segmented`: rows of one group are one text, whose probability is their mean."""
    by_row, label = probabilities(model, rows, pad)
    if not segmented:
        return by_row, label
    _, first, owner = np.unique(rows.group, return_index=True, return_inverse=True)
    count = torch.from_numpy(np.bincount(owner)).float()
    total = torch.zeros(len(first), by_row.shape[1]).index_add_(0, torch.from_numpy(owner), by_row)
    return total / count[:, None], label[first]


def accuracy(model: nn.Module, rows: TokenRows, pad: int, segmented: bool) -> float:
    probability, label = text_probabilities(model, rows, pad, segmented)
    return float((probability.argmax(1).numpy() == label).mean())


def fit(
    model: nn.Module, epochs: Sequence[TokenRows], validation: TokenRows | None, setting: Setting, pace: Pace, pad: int,
    segmented: bool, rng: np.random.Generator,
) -> list[float]:  # fmt: skip
    """Fine-tune in place on the rows of each epoch; with validation rows the best epoch's weights stay.

    Returns the accuracy after each epoch.
    """
    device = next(model.parameters()).device
    optimiser = adam(model, setting.rate)
    history: list[float] = []
    best = None
    pace.begin()
    for rows in epochs:
        on_device = to_device(rows, device, pad)
        short = device.type == "cuda" and on_device.ids.shape[1] <= SINGLE_PRECISION_TOKENS
        order = rng.permutation(len(rows))
        model.train()
        for first in range(0, len(rows), setting.batch):
            if pace.progress >= 1:
                break
            arguments, label = on_device.batch(order[first : first + setting.batch])
            with nullcontext() if short else half_precision(device):
                logits = model(**arguments).logits
            loss = nn.functional.cross_entropy(logits.float(), label)
            update(optimiser, loss, setting.rate * (1 - pace.progress))
            pace.advance(arguments["input_ids"].numel(), loss=loss.detach())
        if validation is not None:
            history.append(accuracy(model, validation, pad, segmented))
            if history[-1] == max(history):
                best = state_of(model)
        if pace.progress >= 1:
            break
    if best is not None:
        restore(model, best)
    return history


def rows_of_epochs(setting: Setting, rows: TokenRows, tokens: Path, limit: int | None) -> list[TokenRows]:
    """The rows of every epoch: those of the excerpts, of the same groups as `rows`, then `rows`."""
    excerpts = [load_rows(tokens, name, limit) for name in setting.excerpts]
    of_groups = [excerpt.select(np.flatnonzero(np.isin(excerpt.group, rows.group))) for excerpt in excerpts]
    return [*of_groups, *[rows] * setting.epochs]


def steps_of(epochs: Sequence[TokenRows], setting: Setting) -> int:
    return sum(-(-len(rows) // setting.batch) for rows in epochs)


def train_classifier(
    task: Task,
    data: Path,
    encoder: Path,
    out: Path,
    device: torch.device,
    minutes: float,
    seed: int,
    tiny: bool = False,
) -> dict[str, Any]:
    """Train with every setting, keep the best on validation data, store it under `out` and test what was stored."""
    rng = np.random.default_rng(seed)
    limit = TINY_ROWS if tiny else None
    settings = [replace(setting, batch=2) for setting in task.settings] if tiny else list(task.settings)
    pad = AutoTokenizer.from_pretrained(encoder).pad_token_id
    segmented = task.name == "minilm-movies"
    rows, validation = load_rows(data / "tokens", task.train, limit), None
    if task.validation is not None:
        validation = load_rows(data / "tokens", task.validation, limit)
    elif len(settings) > 1 or task.confirmed:
        rows, validation = split_groups(rows, FEW_GROUPS_SHARE if task.confirmed else VALIDATION_SHARE, rng)
    epochs_of = [rows_of_epochs(setting, rows, data / "tokens", limit) for setting in settings]
    all_steps = sum(steps_of(epochs, setting) for epochs, setting in zip(epochs_of, settings, strict=True))
    initial: dict[str, Tensor] = {}
    best: dict[str, Any] = {"validation": -1.0}
    tried = []
    model = None
    for setting, epochs in zip(settings, epochs_of, strict=True):
        torch.manual_seed(seed + setting.seed)
        model = fresh_classifier(encoder, task.labels).to(device)
        if device.type == "cpu":
            model.set_attn_implementation("eager")  # SDPA with dropout is slower there
        fresh = state_of(model)  # what the change is of: the encoder's weights are those of every setting
        if setting.start:
            start_from(model, start_folder(setting.start, out), encoder)
        steps = 3 if tiny else steps_of(epochs, setting)
        pace = Pace(task.name, steps, TRAINING_SHARE * minutes * steps_of(epochs, setting) / all_steps)
        torch.set_float32_matmul_precision("high")
        history = fit(model, epochs, validation, setting, pace, pad, segmented, rng)
        torch.set_float32_matmul_precision("highest")
        figure = max(history, default=0.0)
        tried.append({**asdict(setting), "steps": pace.step, "of": steps, "validation by epoch": history})
        if figure > best["validation"]:
            initial, best = fresh, {"validation": figure, "state": state_of(model), "setting": tried[-1]}
    assert model is not None
    restore(model, best["state"])
    figures: dict[str, Any] = {
        "model": task.name,
        "trained on": {"file": task.train, "rows": len(rows)},
        "setting": best["setting"],
        "settings tried": tried,
        "validation rows": None if validation is None else len(validation),
        "seed": seed,
    }
    tests = {name: load_rows(data / "tokens", name, limit) for name in task.tests}
    if task.confirmed:
        frequent = np.bincount(rows.label).argmax()
        figures["confirmation"] = {name: confirmation(model, test, frequent, pad) for name, test in tests.items()}
        if not (tiny or all(test["significant"] for test in figures["confirmation"].values())):
            return figures
    checked = validation if validation is not None else rows.select(rng.permutation(len(rows))[:CHECKED_TEXTS])
    trained = {name: accuracy(model, test, pad, segmented) for name, test in tests.items()}
    change = low_rank_change(initial, best["state"], max(task.ranks)) | head_of(model)
    stored, ranks, size = store_smallest(
        model, change, out / task.name, encoder, checked, pad, segmented, ranks=task.ranks
    )
    figures |= {
        "test accuracy before compression": trained,
        "test accuracy": {name: accuracy(stored, test, pad, segmented) for name, test in tests.items()},
        "test texts": {name: len(np.unique(t.group)) if segmented else len(t) for name, t in tests.items()},
        "majority share": {name: float(np.bincount(t.label).max() / len(t)) for name, t in tests.items()},
        "agreement with the trained model by rank": ranks,
        "delta bytes": size,
    }
    (out / task.name / "metrics.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def start_folder(name: str, out: Path) -> Path:
    """The folder of a classifier to start from: that of this run, if it was trained in it, else the stored one."""
    return out / name if (out / name / DELTA_FILE).is_file() else DELTA_FOLDER / name


def confirmation(model: nn.Module, rows: TokenRows, frequent_label: int, pad: int) -> dict[str, Any]:
    """Accuracy beside that of the most frequent training label, compared group by group (paired sign flips)."""
    probability, label = probabilities(model, rows, pad)
    correct = probability.argmax(1).numpy() == label
    groups = [rows.group == group for group in np.unique(rows.group)]
    by_group = np.array([correct[members].mean() for members in groups])
    frequent_by_group = np.array([(label[members] == frequent_label).mean() for members in groups])
    test = compare(by_group, frequent_by_group)
    return {
        "rows": len(rows),
        "groups": len(groups),
        "accuracy": float(correct.mean()),
        "most frequent label": float((label == frequent_label).mean()),
        "p": test.p,
        "significant": bool(test.difference > 0 and test.p < SIGNIFICANT),
    }


def store_smallest(
    model: nn.Module, change: dict[str, Tensor], folder: Path, encoder: Path | None, checked: TokenRows, pad: int,
    segmented: bool, ranks: tuple[int, ...] = RANKS, base: str | None = None,
) -> tuple[nn.Module, dict[int, float], int]:  # fmt: skip
    """Store the change at the first rank that keeps the predicted labels of `checked`, the last one else.

    `base`: the delta beside `folder` that this one changes; None: the change is of the encoder itself.

    Returns the model as stored, the share of labels kept at each rank tried, and the bytes.
    """
    predicted = text_probabilities(model, checked, pad, segmented)[0].argmax(1)
    agreement: dict[int, float] = {}
    for rank in ranks:
        size = save_delta(folder, cut(change, rank), model.config, base)
        stored = load_delta(folder, encoder, "AutoModelForSequenceClassification")[0]
        stored = stored.to(next(model.parameters()).device)
        labels = text_probabilities(stored, checked, pad, segmented)[0].argmax(1)
        agreement[rank] = float((labels == predicted).float().mean())
        if agreement[rank] >= AGREEMENT:
            break
    return stored, agreement, size


def head_of(model: nn.Module) -> dict[str, Tensor]:
    """The classification layers, which an encoder does not have: stored even where training left them."""
    heads = ("classifier.", "pre_classifier.")
    return {name: value.detach() for name, value in model.named_parameters() if name.startswith(heads)}
