"""Train classifiers on texts and measure their accuracy on other texts: one after the other, or several together.

`train_tasks` is the only entrance: how classifiers are trained is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from rationales.errors import ModelError
from rationales.evaluation.collecting import progress_of_step
from rationales.evaluation.retraining.labelled_tokens import LabelledTokens, batch_order
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.stacked_bert import can_stack
from rationales.evaluation.retraining.starting_points import StartingPoint
from rationales.evaluation.retraining.together_training import StackedBatches, train_together
from rationales.models.batch.execution import available_bytes, weight_count
from rationales.models.classes import Head, output_logits
from rationales.models.fast.precision import forward_dtype

TEST_BATCH = 1024  # texts in a forward pass of the test
# of a classifier in training: weights, gradients, Adam's moments, stacked and not, activations
BYTES_PER_WEIGHT, BYTES_PER_STACKED_WEIGHT = 48, 32
MEMORY_SHARE = 0.8  # of what is available (on a GPU 0.6 of the free memory), for classifiers trained together
MAX_TOGETHER = 160


@dataclass(frozen=True, eq=False)
class RetrainingTask:
    """One classifier: what it is trained and tested on, and the seed of its fresh weights, order and dropout."""

    train: LabelledTokens
    test: LabelledTokens
    seed: int


def train_and_test(
    start: StartingPoint,
    train: LabelledTokens,
    test: LabelledTokens,
    seeds: Sequence[int],
    settings: RetrainingSettings,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, float]]:
    """(seed, accuracy on the test texts) of classifiers that differ in their seeds alone."""
    tasks = [RetrainingTask(train, test, seed) for seed in seeds]
    yield from ((seeds[number], value) for number, value in train_tasks(start, tasks, settings, progress))


def train_tasks(
    start: StartingPoint,
    tasks: Sequence[RetrainingTask],
    settings: RetrainingSettings,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, float]]:
    """(number of the task, accuracy on its test texts) of each classifier, as soon as it is known.

    With `together`, classifiers of any seeds and texts share passes, as many as fit into memory; those that do share
    the random numbers of dropout.
    """
    size = models_at_once(start) if settings.together else 1
    size = -(-len(tasks) // max(1, -(-len(tasks) // size)))  # groups of about the same size
    half = settings.half and forward_dtype(next(start.module.parameters()).device) is not None
    done = 0
    while done < len(tasks):
        group = [task for task in tasks[done : done + size] if len(task.train) == len(tasks[done].train)]
        modules = [start.copy(task.seed) for task in group]
        try:
            with _seeded(modules[0], group[0].seed):
                if len(group) > 1:
                    orders = [batch_order(len(task.train), task.seed, settings, task.train.lengths) for task in group]
                    device = next(modules[0].parameters()).device
                    batches = StackedBatches(device, start.padding, [task.train for task in group], orders)
                    report = progress_of_step(progress, done, len(tasks), len(group))
                    train_together(modules, start.head, batches, settings.learning_rate, settings.clip, report, half)
                else:
                    _train(modules[0], start, group[0].train, group[0].seed, settings, half)
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise
            size = len(group) // 2
            del modules
            torch.cuda.empty_cache()
            continue
        for number, (task, module) in enumerate(zip(group, modules, strict=True), done):
            yield number, accuracy(module, start, task.test)
        done += len(group)
        if progress is not None:
            progress(done / len(tasks))


def models_at_once(start: StartingPoint) -> int:
    """Classifiers that are trained in one batched pass on the device of this starting point."""
    device = next(start.module.parameters()).device
    bytes_per_weight = BYTES_PER_STACKED_WEIGHT if can_stack(start.module) else BYTES_PER_WEIGHT
    fitting = int(MEMORY_SHARE * available_bytes(device) / (bytes_per_weight * weight_count(start.module)))
    return max(1, min(MAX_TOGETHER, fitting))


def _train(
    module: nn.Module,
    start: StartingPoint,
    data: LabelledTokens,
    seed: int,
    settings: RetrainingSettings,
    half: bool = False,
) -> None:
    module.train()
    steps = batch_order(len(data), seed, settings, data.lengths)
    rectangle = data.rectangle(start.padding, next(module.parameters()).device)
    optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
    for number, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / len(steps))
        arguments = rectangle.arguments(step.to(rectangle.ids.device), int(data.lengths[step.numpy()].max()))
        with torch.autocast(rectangle.ids.device.type, torch.bfloat16, enabled=half):
            logits = output_logits(module(**arguments), "text", len(step))
        loss = classification_loss(start.head, logits.float(), data.labels[step])
        if not bool(torch.isfinite(loss)):
            raise ModelError(
                f"the loss of a retrained classifier is {float(loss)} at step {number}; try a smaller learning_rate"
            )
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(module.parameters(), settings.clip)
        optimizer.step()


def accuracy(module: nn.Module, start: StartingPoint, data: LabelledTokens) -> float:
    """Share of the texts whose class the module predicts."""
    module.eval()
    rectangle = data.rectangle(start.padding, next(module.parameters()).device)
    correct = 0
    with torch.no_grad():
        for begin in range(0, len(data), TEST_BATCH):
            rows = slice(begin, begin + TEST_BATCH)
            arguments = rectangle.arguments(rows, int(data.lengths[rows].max()))
            logits = output_logits(module(**arguments), "text", len(data.lengths[rows]))
            correct += int((predicted(start.head, logits).cpu() == data.labels[rows]).sum())
    return correct / len(data)


def classification_loss(head: Head, logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy; of the single logit of a sigmoid head the binary one."""
    labels = labels.to(logits.device)
    if head is Head.SIGMOID:
        return binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype))
    return cross_entropy(logits, labels)


def predicted(head: Head, logits: Tensor) -> Tensor:
    """(R,): the predicted classes."""
    return (logits[:, 0] > 0).long() if head is Head.SIGMOID else logits.argmax(-1)


@contextmanager
def _seeded(module: nn.Module, seed: int) -> Iterator[None]:
    """Random numbers of torch from a seed inside the block; the global state is restored afterwards."""
    devices = sorted({weight.device.index or 0 for weight in module.parameters() if weight.device.type == "cuda"})
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
