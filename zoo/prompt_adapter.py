"""Tune a language model to classify a data set by a prompt, with a low-rank adapter (the EMR setting of the AML paper).

    python -m zoo.prompt_adapter emotion --data DATA --out zoo/smollm2-emotion --device cuda

DATA is the folder of the data sets. OUT gets the adapter (half precision), `prompt.json` with labels and template, and
`metrics.json` with the accuracy before and after. `rationales.load("zoo/smollm2-emotion")` loads it, and so does its
name where OUT is in zoo/. --base takes the folder, id or GGUF file of another language model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import rationales
from rationales.data import Example, read_data
from rationales.evaluation.sampling import evenly
from rationales.files import write_text
from rationales.models.prompt.loading import PROMPT_FILE, prompt_model
from rationales.models.prompt.lora import with_lora
from rationales.models.prompt.model import PromptModel
from rationales.models.prompt.template import PromptTemplate

TASKS = {  # name -> data set, splits to train on, to validate with and to test on, labels, template
    "emotion": (
        "emotion",
        ("train", "val", "test"),
        ("sadness", "joy", "love", "anger", "fear", "surprise"),
        "Message: {text}\nEmotion:",
    ),
    "sst2": ("sst-2", ("train", "dev", "dev"), ("positive", "negative"), "Review: {text}\nSentiment:"),
}
TEST_TEXTS = 500


def label_loss(model: PromptModel, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy of the labels, and whether each is predicted (bool), for texts of one row each."""
    ids = [rows[0].ids for rows in model.plain_rows([model.read(example.text, None) for example in examples])]
    device = model.networks[0].module.device  # type: ignore[union-attr]
    longest = max(len(row) for row in ids)
    padded = torch.tensor([row + [model.filler] * (longest - len(row)) for row in ids], device=device)
    attended = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids], device=device)
    logits = model.networks[0].module(padded, attended)
    labels = torch.tensor([model.labels.index(str(example.label)) for example in examples], device=device)
    return cross_entropy(logits, labels), logits.argmax(-1) == labels


def accuracy(model: PromptModel, examples: Sequence[Example], size: int) -> float:
    """Share of these examples whose label is predicted."""
    with torch.no_grad():
        correct = [label_loss(model, examples[begin : begin + size])[1] for begin in range(0, len(examples), size)]
    return float(torch.cat(correct).float().mean())


def tune(model: PromptModel, examples: Sequence[Example], settings: argparse.Namespace) -> list[float]:
    """Train the adapter; the loss of every step."""
    generator = torch.Generator().manual_seed(settings.seed)
    module = model.language_model.train()
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, settings.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / settings.steps))
    losses: list[float] = []
    started = time.monotonic()
    while len(losses) < settings.steps:
        for index in torch.randperm(len(examples), generator=generator).split(settings.batch):
            loss, _ = label_loss(model, [examples[number] for number in index.tolist()])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            if len(losses) % 20 == 0 or len(losses) == settings.steps:
                mean, spent = sum(losses[-20:]) / len(losses[-20:]), time.monotonic() - started
                remaining = spent / len(losses) * (settings.steps - len(losses))
                print(f"step {len(losses)}: loss {mean:.3f}, {remaining:.0f} s left", flush=True)
            if len(losses) == settings.steps:
                break
    module.eval()
    return losses


def save(model: PromptModel, out: Path, base: str, metrics: dict[str, Any]) -> None:
    """Write the adapter in half precision, its prompt and its figures."""
    out.mkdir(parents=True, exist_ok=True)
    for weight in model.language_model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.half()
    for config in model.language_model.peft_config.values():
        config.base_model_name_or_path = base
    model.language_model.save_pretrained(out, safe_serialization=True)
    (out / "README.md").unlink(missing_ok=True)  # a form that nobody filled in
    prompt = {"labels": list(model.labels), **model.template.to_dict()}
    write_text(out / PROMPT_FILE, json.dumps(prompt, indent=1) + "\n")
    write_text(out / "metrics.json", json.dumps(metrics, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--base", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--texts", type=int, default=8000, help="training texts, evenly spread")
    parser.add_argument("--test-texts", type=int, default=TEST_TEXTS)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    data, (train, _, test), labels, text = TASKS[settings.task]
    torch.manual_seed(settings.seed)
    template = PromptTemplate(text)
    plain = rationales.load(settings.base, labels=labels, template=template, device=settings.device)
    model = prompt_model(
        with_lora(plain.language_model, settings.rank),  # type: ignore[union-attr]
        plain.tokenizer,  # type: ignore[union-attr]
        name=settings.out.name,
        labels=labels,
        template=template,
        baseline=plain.baseline,  # type: ignore[union-attr]  # of no consequence for the training
    )
    examples = evenly(read_data(data, train, settings.data), settings.texts)
    test_examples = evenly(read_data(data, test, settings.data), settings.test_texts)
    before = accuracy(model, test_examples, settings.batch)
    print(f"accuracy before: {before:.3f}", flush=True)
    losses = tune(model, examples, settings)
    metrics = {
        "data": data,
        "test split": test,
        "test texts": len(test_examples),
        "accuracy before": before,
        "accuracy": accuracy(model, test_examples, settings.batch),
        "steps": len(losses),
        "last loss": sum(losses[-20:]) / len(losses[-20:]),
        **{name: getattr(settings, name) for name in ("rank", "batch", "texts", "learning_rate", "seed")},
    }
    save(model, settings.out, settings.base, metrics)
    print(json.dumps(metrics))


if __name__ == "__main__":
    main()
