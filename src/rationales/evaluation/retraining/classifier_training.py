"""Train classifiers on texts and measure their accuracy on other texts: one after the other, or several together.

`train_and_test` is the only entrance: how the seeds are trained is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from rationales.errors import ModelError
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.starting_points import StartingPoint
from rationales.evaluation.retraining.together_training import complete_mask, needs_complete_mask, train_together
from rationales.models.classes import Head, output_logits
from rationales.models.text.tokens import TextInput

TEST_BATCH = 128  # texts in a forward pass of the test


@dataclass(frozen=True, eq=False)
class LabelledTokens:
    """N labelled texts as tokens, not padded."""

    ids: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None
    labels: Tensor  # (N,) long

    def __len__(self) -> int:
        return len(self.ids)


def tokenize_texts(start: StartingPoint, texts: Sequence[TextInput], labels: Sequence[int]) -> LabelledTokens:
    """The texts as the classifier reads them, cut off at its limit; an empty text has its special tokens only."""
    pairs = [source.pair or "" for source in texts] if texts[0].pair is not None else None
    arguments = [[source.text for source in texts], *([pairs] if pairs is not None else [])]
    tokens = start.tokenizer(*arguments, truncation=True, max_length=start.limit, verbose=False)
    ids = [list(line) or [start.padding] for line in tokens["input_ids"]]
    types = tokens["token_type_ids"] if start.takes_types and "token_type_ids" in tokens else None
    return LabelledTokens(ids, types, torch.tensor(list(labels), dtype=torch.long))


def train_and_test(
    start: StartingPoint,
    train: LabelledTokens,
    test: LabelledTokens,
    seeds: Sequence[int],
    settings: RetrainingSettings,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, float]]:
    """(seed, accuracy on the test texts) of each classifier, as soon as it is known.

    A seed decides the fresh weights, the order of the texts and dropout; with `together` the seeds share the random
    numbers of dropout.
    """
    if settings.together and len(seeds) > 1:
        modules = [start.copy(seed) for seed in seeds]
        orders = [batch_order(len(train), seed, settings) for seed in seeds]
        steps = _steps_of_all(modules[0], start, train, orders)
        with _seeded(modules[0], seeds[0]):
            train_together(modules, start.head, steps, len(orders[0]), settings.learning_rate, settings.clip)
        yield from ((seed, accuracy(module, start, test)) for seed, module in zip(seeds, modules, strict=True))
        return
    for number, seed in enumerate(seeds):
        module = start.copy(seed)
        with _seeded(module, seed):
            _train(module, start, train, seed, settings)
        yield seed, accuracy(module, start, test)
        if progress is not None:
            progress((number + 1) / len(seeds))


def batch_order(count: int, seed: int, settings: RetrainingSettings) -> list[Tensor]:
    """Numbers of the texts in every step of all epochs; each epoch has an order of its own."""
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(count, generator=generator) for _ in range(settings.epochs)]
    return [step for order in orders for step in torch.split(order, settings.batch_size)]


def _steps_of_all(
    module: nn.Module, start: StartingPoint, data: LabelledTokens, orders: Sequence[Sequence[Tensor]]
) -> Iterator[list[dict[str, Tensor]]]:
    """The batches of every step, one for each seed, padded to the same length."""
    device = next(module.parameters()).device
    complete = needs_complete_mask(module)
    for step in zip(*orders, strict=True):
        width = max(len(data.ids[number]) for numbers in step for number in numbers.tolist())
        batches = []
        for numbers in step:
            batch = model_inputs(module, start, data, numbers, width)
            if complete:
                batch["attention_mask"] = complete_mask(batch["attention_mask"])
            batches.append(batch | {"labels": data.labels[numbers].to(device)})
        yield batches


def _train(
    module: nn.Module, start: StartingPoint, data: LabelledTokens, seed: int, settings: RetrainingSettings
) -> None:
    module.train()
    steps = batch_order(len(data), seed, settings)
    optimizer = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
    for number, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / len(steps))
        loss = classification_loss(start.head, _logits(module, start, data, step), data.labels[step])
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
    correct = 0
    with torch.no_grad():
        for step in torch.split(torch.arange(len(data)), TEST_BATCH):
            correct += int((predicted(start.head, _logits(module, start, data, step)).cpu() == data.labels[step]).sum())
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


def _logits(module: nn.Module, start: StartingPoint, data: LabelledTokens, step: Tensor) -> Tensor:
    """(R, outputs): logits of the texts of these numbers."""
    return output_logits(module(**model_inputs(module, start, data, step)), "text", len(step))


def model_inputs(
    module: nn.Module, start: StartingPoint, data: LabelledTokens, step: Tensor, min_width: int = 0
) -> dict[str, Any]:
    """Arguments of the module for the texts of these numbers, padded to the longest of them or to `min_width`."""
    device = next(module.parameters()).device
    lines = [data.ids[number] for number in step.tolist()]
    width = max(min_width, *map(len, lines))
    ids = torch.full((len(lines), width), start.padding)
    attention, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, (line, number) in enumerate(zip(lines, step.tolist(), strict=True)):
        ids[row, : len(line)] = torch.tensor(line)
        attention[row, : len(line)] = 1
        if data.types is not None:
            types[row, : len(line)] = torch.tensor(list(data.types[number])[: len(line)])
    arguments = {"input_ids": ids.to(device), "attention_mask": attention.to(device)}
    return arguments | ({} if data.types is None else {"token_type_ids": types.to(device)})


@contextmanager
def _seeded(module: nn.Module, seed: int) -> Iterator[None]:
    """Random numbers of torch from a seed inside the block; the global state is restored afterwards."""
    devices = sorted({weight.device.index or 0 for weight in module.parameters() if weight.device.type == "cuda"})
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield
