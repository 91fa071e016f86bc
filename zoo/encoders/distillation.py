"""A small encoder that learns four tasks at once from MiniLM classifiers, then a low-rank change for each task.

All texts are shown as they are: no word is ever masked, padded or left out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rationales.models.delta import DELTA_FILE, read_delta
from zoo.encoders.families import Family, first_model, label_names, save_encoder, save_family_tokenizer
from zoo.encoders.texts import encode_texts
from zoo.fit import half_precision, optimiser, update
from zoo.pace import Pace
from zoo.paper_models.classifiers import (
    CHECKED_TEXTS,
    accepted_arguments,
    accuracy,
    head_of,
    probabilities,
    store_smallest,
)
from zoo.paper_models.delta_files import low_rank_change, state_of
from zoo.paper_models.storage import DeviceRows, TokenRows, to_device

RATE = 1e-3  # of the common encoder
TASK_RATE = 3e-4  # of the change for one task
TEMPERATURE = 2.0
GOLD_WEIGHT = 0.5
NO_LABEL = -1
BATCH_TOKENS = 16_384  # rows of a step hold about so many tokens
LARGEST_BATCH = 512
RANKS = (4, 8, 16)
COMMON_SHARE = 0.6  # of a family's minutes; the remainder is for the four tasks
TRAINING_SHARE = 0.75  # of a task's minutes; the remainder is for compression and tests
STEPS, TASK_STEPS = 12_000, 600
TINY_STEPS = 3


@dataclass(frozen=True)
class Lesson:
    """Texts of one task with their labels, NO_LABEL where there is none, and the teacher's logits (texts, classes)."""

    task: str
    texts: list[str]
    label: list[int]
    logits: Tensor


@dataclass(frozen=True)
class TaskTexts:
    """A task to learn: the names of its classes, its lesson, and labelled texts to test on by name."""

    name: str
    labels: tuple[str, ...]
    lesson: Lesson
    tests: dict[str, tuple[list[str], list[int]]]


class LessonFeed:
    """Random batches of one lesson, all rows on the device."""

    def __init__(self, rows: TokenRows, logits: Tensor, pad: int, device: torch.device, rng: np.random.Generator):
        self.rows: DeviceRows = to_device(replace(rows, label=rows.label), device, pad)
        self.logits = logits.to(device)
        mean = max(1.0, float(rows.lengths.mean()))
        self.size = int(min(len(rows), LARGEST_BATCH, max(8, BATCH_TOKENS // mean)))
        self.batches = self._forever(len(rows), rng)

    def _forever(self, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        while True:
            order = rng.permutation(count)
            for first in range(0, count - self.size + 1, self.size):
                yield order[first : first + self.size]

    def loss(self, model: nn.Module) -> tuple[Tensor, int]:
        """Distance to the teacher's softened probabilities and to the labels, and how many tokens were read."""
        indices = next(self.batches)
        arguments, label = self.rows.batch(indices)
        device = label.device
        with half_precision(device):
            logits = model(**accepted_arguments(model, arguments)).logits.float()
        teacher = self.logits[torch.from_numpy(indices).to(device)]
        distance = TEMPERATURE**2 * nn.functional.kl_div(
            (logits / TEMPERATURE).log_softmax(1), (teacher / TEMPERATURE).softmax(1), reduction="batchmean"
        )
        known = (label != NO_LABEL).float()
        gold = nn.functional.cross_entropy(logits, label.clamp(min=0), reduction="none")
        gold = (gold * known).sum() / known.sum().clamp(min=1)
        return distance + GOLD_WEIGHT * gold, arguments["input_ids"].numel()


def with_common_encoder(first: nn.Module, tasks: Sequence[TaskTexts]) -> dict[str, nn.Module]:
    """One classifier a task, all with the encoder of `first`."""
    models = {}
    for task in tasks:
        config = copy.deepcopy(first.config)
        for name, value in label_names(task.labels).items():
            setattr(config, name, value)
        config.architectures = [type(first).__name__]
        model = type(first)(config)
        setattr(model, first.base_model_prefix, first.base_model)
        models[task.name] = model
    return models


def train_common(models: Mapping[str, nn.Module], feeds: Mapping[str, LessonFeed], pace: Pace) -> None:
    """Every step reads a batch of the first task and one of another, in turn."""
    names = list(models)
    parameters = {id(p): p for model in models.values() for p in model.parameters()}
    optim = optimiser(parameters.values(), RATE, decay=0.01)
    for model in models.values():
        model.train()
    pace.begin()
    while pace.progress < 1:
        second = names[1 + pace.step % (len(names) - 1)]
        (first_loss, first_size), (second_loss, second_size) = (
            feeds[name].loss(models[name]) for name in (names[0], second)
        )
        update(optim, first_loss + second_loss, RATE * pace.rate())
        pace.advance(first_size + second_size, **{names[0]: first_loss.detach(), second: second_loss.detach()})


def train_task(model: nn.Module, feed: LessonFeed, pace: Pace) -> None:
    """Train the layers and the head, not the embeddings."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("_embeddings." not in name)
    optim = optimiser(model.parameters(), TASK_RATE, decay=0.0)
    model.train()
    pace.begin()
    while pace.progress < 1:
        loss, size = feed.loss(model)
        update(optim, loss, TASK_RATE * pace.rate())
        pace.advance(size, loss=loss.detach())


def train_family(
    family: Family,
    tasks: Sequence[TaskTexts],
    encoder: Path,
    out: Path,
    device: torch.device,
    minutes: float,
    seed: int,
    tiny: bool = False,
) -> dict[str, dict[str, Any]]:
    """Train the encoder and its tasks, store them under `out`, and test what was stored: figures by model name."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    folder = out / family.name
    folder.mkdir(parents=True)
    texts = [text for task in tasks for text in task.lesson.texts]
    backend = family.tokenizer(texts, family.vocabulary)
    tokenizer = save_family_tokenizer(family, backend, folder)
    pad = tokenizer.pad_token_id
    first = first_model(family, backend, encoder, tasks[0].labels).to(device)
    models = {name: model.to(device) for name, model in with_common_encoder(first, tasks).items()}
    rows = {task.name: encode_texts(tokenizer, task.lesson.texts, task.lesson.label) for task in tasks}
    feeds = {task.name: LessonFeed(rows[task.name], task.lesson.logits, pad, device, rng) for task in tasks}
    pace = Pace(family.name, TINY_STEPS if tiny else STEPS, COMMON_SHARE * minutes)
    train_common(models, feeds, pace)
    size = save_encoder(first, folder)
    restore_stored(first, folder)
    figures: dict[str, dict[str, Any]] = {
        family.name: {
            "model": family.name,
            "parameters": sum(p.numel() for p in first.base_model.parameters()),
            "trained on": {task.name: len(task.lesson.texts) for task in tasks},
            "steps": pace.step,
            "delta bytes": size,
            "seed": seed,
        }
    }
    (folder / "metrics.json").write_text(json.dumps(figures[family.name], indent=1) + "\n")
    for task in tasks:
        task_minutes = (1 - COMMON_SHARE) * minutes / len(tasks)
        model = copy.deepcopy(models[task.name])
        before = state_of(model)
        task_pace = Pace(
            f"{family.name}-{task.name}", TINY_STEPS if tiny else TASK_STEPS, TRAINING_SHARE * task_minutes
        )
        train_task(model, feeds[task.name], task_pace)
        name = task_pace.name
        change = low_rank_change(before, state_of(model), max(RANKS)) | head_of(model)
        checked = rows[task.name].select(rng.permutation(len(rows[task.name]))[:CHECKED_TEXTS])
        stored, ranks, size = store_smallest(
            model, change, out / name, None, checked, pad, segmented=False, ranks=RANKS, base=family.name
        )
        tests = {test: encode_texts(tokenizer, *items) for test, items in task.tests.items()}
        figures[name] = {
            "model": name,
            "teacher": task.lesson.task,
            "trained on": {"texts": len(task.lesson.texts), "labelled": sum(x != NO_LABEL for x in task.lesson.label)},
            "steps": task_pace.step,
            "test accuracy before compression": {test: accuracy(model, r, pad, False) for test, r in tests.items()},
            "test accuracy": {test: accuracy(stored, r, pad, False) for test, r in tests.items()},
            "test texts": {test: len(r) for test, r in tests.items()},
            "majority share": {test: float(np.bincount(r.label).max() / len(r)) for test, r in tests.items()},
            "agreement with the trained model by rank": ranks,
            "delta bytes": size,
            "seed": seed,
        }
        (out / name / "metrics.json").write_text(json.dumps(figures[name], indent=1) + "\n")
    return figures


@torch.no_grad()
def restore_stored(model: nn.Module, folder: Path) -> None:
    """Give the encoder the weights as they were stored, in 8 bits, so that changes are of these."""
    weights = dict(model.named_parameters())
    for name, value in read_delta(folder / DELTA_FILE).items():
        weights[name].copy_(value)


def teacher_logits(teacher: nn.Module, rows: TokenRows, pad: int) -> Tensor:
    """(rows, classes): logarithms of the teacher's probabilities, which are its logits up to a constant a row."""
    return probabilities(teacher, rows, pad)[0].clamp(min=1e-7).log()
