"""Train a ViT of DeiT-tiny shape (12 layers of width 192, 3 heads) on the birds, distilled from a ResNet-34.

python -m zoo.vit.pack --data birds-112.tar.gz --out zoo/carry/birds.safetensors
python -m zoo.vit.train --data zoo/carry/birds.safetensors --out zoo/vit-birds --teacher-minutes 2 --student-minutes 5
python -m zoo.vit.train --data zoo/carry/birds.safetensors --out zoo/out/vit --tiny --teacher-steps 2 --student-steps 2

The second command is for one GPU; the third is a dry run on a CPU. Pictures are 112 pixels wide and patches 8, so that
there are 14 x 14 patches, as in DeiT-tiny at 224. Written: config.json, model.safetensors (half precision, 11 MB),
metrics.json and README.md; with these files in zoo/vit-birds, `rationales.load("vit-birds")` opens the model.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, one_hot

from rationales.files import write_bytes, write_text
from rationales.groundtruth.networks.resnet import ResNet
from zoo.vit.augmentation import augment, mixed, normalise
from zoo.vit.pack import SIDE, label_names, unpack

TEMPERATURE = 2.0  # of both distributions in distillation
DISTILLED = 0.7  # weight of the teacher's answer; the rest is the label's
LABEL_SMOOTHING = 0.1
WARMUP = 0.05  # share of the training in which the learning rate rises
AVERAGE = 0.999  # of the weights that are stored: their exponential mean
REPORT_SECONDS = 20.0
MAX_BYTES = 12_000_000


@dataclass(frozen=True)
class Plan:
    """Sizes and budgets; a phase ends at its steps or its minutes, whichever come first."""

    width: int = 192
    layers: int = 12
    heads: int = 3
    patch: int = 8
    side: int = SIDE
    teacher_blocks: tuple[int, ...] = (3, 4, 6, 3)
    teacher_width: int = 64
    batch: int = 256
    teacher_rate: float = 1e-3
    student_rate: float = 7e-4
    weight_decay: float = 0.05
    teacher_minutes: float = 2.0
    student_minutes: float = 5.0
    teacher_steps: int = 100_000
    student_steps: int = 100_000


TINY = {"width": 32, "layers": 2, "heads": 2, "side": 32, "teacher_blocks": (1, 1), "teacher_width": 8, "batch": 16}


def student_of(plan: Plan, labels: list[str]) -> transformers.ViTForImageClassification:
    """The ViT with random weights."""
    config = transformers.ViTConfig(
        hidden_size=plan.width,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.heads,
        intermediate_size=4 * plan.width,
        image_size=plan.side,
        patch_size=plan.patch,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    return transformers.ViTForImageClassification(config)


def logits_of(module: nn.Module, pictures: Tensor) -> Tensor:
    """(S, classes), of a ViT of transformers or a plain module."""
    output: Any = module(pictures)
    return output if isinstance(output, Tensor) else output.logits


def fit(
    module: nn.Module,
    data: tuple[Tensor, Tensor],
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],  # pictures, logits, target distribution
    rate: float,
    minutes: float,
    steps: int,
    plan: Plan,
    tell: Callable[[str], None],
) -> nn.Module:
    """Train by AdamW with a cosine schedule over the budget, and return the mean of the weights."""
    pictures, labels = data
    device, classes = pictures.device, int(labels.max()) + 1
    generator = torch.Generator(device).manual_seed(0)
    decayed = [weight for weight in module.parameters() if weight.dim() > 1]
    plain = [weight for weight in module.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=plan.weight_decay)
    average = copy.deepcopy(module).eval()
    began = reported = time.monotonic()
    module.train()
    for step in range(steps):
        share = max((time.monotonic() - began) / (60 * minutes), step / steps)
        if share >= 1:
            break
        factor = min(1.0, share / WARMUP) if share < WARMUP else (1 + math.cos(math.pi * share)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate * max(factor, 1e-3)
        chosen = torch.randint(len(pictures), (plan.batch,), generator=generator, device=device)
        targets = one_hot(labels[chosen], classes).float()
        views, targets = mixed(augment(pictures[chosen], generator), targets, generator)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = logits_of(module, views)
        value = loss(views, logits.float(), targets)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        _follow(average, module, min(AVERAGE, (step + 1) / (step + 10)))
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            tell(f"step {step + 1}, {100 * share:.0f} %, loss {value.item():.3f}")
    tell(f"{step + 1} steps in {time.monotonic() - began:.0f} s")
    return average


def _follow(average: nn.Module, module: nn.Module, share: float) -> None:
    """Move the mean of the weights towards the module's; buffers are copied."""
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), module.parameters(), strict=True):
            mean.lerp_(weight, 1 - share)
        for mean, buffer in zip(average.buffers(), module.buffers(), strict=True):
            mean.copy_(buffer)


def accuracy(module: nn.Module, data: tuple[Tensor, Tensor], batch: int) -> float:
    """Share of the pictures that are classified correctly."""
    pictures, labels = data
    with torch.no_grad():
        predicted_labels = [logits_of(module, normalise(chunk)).argmax(1) for chunk in torch.split(pictures, batch)]
    return float((torch.cat(predicted_labels) == labels).float().mean())


def train(data: Path, out: Path, plan: Plan, device: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Teacher, student, files; returns the metrics."""
    torch.manual_seed(0)
    labels = list(label_names(data))
    splits = {
        name: tuple(tensor.to(device) for tensor in unpack(data, name, plan.side)) for name in ("train", "val", "test")
    }
    teacher = ResNet(len(labels), plan.teacher_blocks, plan.teacher_width).to(device)

    def label_loss(_views: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(logits, targets, label_smoothing=LABEL_SMOOTHING)

    tell("teacher")
    teacher = fit(
        teacher, splits["train"], label_loss, plan.teacher_rate, plan.teacher_minutes, plan.teacher_steps, plan, tell
    )
    teacher_accuracy = accuracy(teacher, splits["test"], plan.batch)
    tell(f"teacher: {100 * teacher_accuracy:.1f} % of the test pictures")

    def distillation_loss(views: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast(views.device.type, torch.bfloat16, enabled=views.device.type == "cuda"):
            answer = logits_of(teacher, views).float()
        soft = kl_div((logits / TEMPERATURE).log_softmax(1), (answer / TEMPERATURE).softmax(1), reduction="batchmean")
        return DISTILLED * TEMPERATURE**2 * soft + (1 - DISTILLED) * label_loss(views, logits, targets)

    tell("student")
    student = student_of(plan, labels).to(device)
    student = fit(
        student, splits["train"], distillation_loss, plan.student_rate, plan.student_minutes, plan.student_steps, plan,
        tell,
    )  # fmt: skip
    metrics = {
        "teacher": {"test": teacher_accuracy},
        **{name: accuracy(student, splits[name], plan.batch) for name in ("val", "test")},
        "pictures": {name: len(split[0]) for name, split in splits.items()},
        "chance": 1 / len(labels),
        "plan": asdict(plan),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
    }
    write_model(student, out, metrics)
    tell(f"student: {100 * metrics['test']:.1f} % of the test pictures, {100 * metrics['val']:.1f} % of val")
    return metrics


def write_model(student: nn.Module, out: Path, metrics: dict[str, Any]) -> None:
    """Write configuration, weights in half precision, figures and the model card."""
    from safetensors.torch import save

    out.mkdir(parents=True, exist_ok=True)
    weights = save({name: value.detach().half().cpu().contiguous() for name, value in student.state_dict().items()})
    if len(weights) > MAX_BYTES:
        raise ValueError(f"the weights take {len(weights)} bytes, more than {MAX_BYTES}")
    write_bytes(out / "model.safetensors", weights)
    configuration: Any = student.config
    configuration.architectures = [type(student).__name__]
    write_text(out / "config.json", configuration.to_json_string())
    write_text(out / "metrics.json", json.dumps(metrics, indent=1) + "\n")
    write_text(out / "README.md", model_card(metrics))


def model_card(metrics: dict[str, Any]) -> str:
    """What the model is, what it was trained on, and how well it does."""
    plan, pictures = metrics["plan"], metrics["pictures"]
    return (
        "# vit-birds\n\n"
        f"A vision transformer with {plan['layers']} layers of width {plan['width']} and {plan['heads']} heads on "
        f"patches of {plan['patch']} x {plan['patch']} pixels of {plan['side']}, for eight kinds of birds. Trained "
        f"from scratch on {pictures['train']} photographs of birds-112 (MIT), distilled from a ResNet trained on "
        "the same photographs (`zoo/vit/train.py`). Pixels are (x - 0.5) / 0.5.\n\n"
        f"| split | pictures | accuracy |\n| --- | --- | --- |\n"
        f"| val | {pictures['val']} | {100 * metrics['val']:.1f} % |\n"
        f"| test | {pictures['test']} | {100 * metrics['test']:.1f} % |\n"
        f"| test, the teacher | {pictures['test']} | {100 * metrics['teacher']['test']:.1f} % |\n"
        f"| chance | | {100 * metrics['chance']:.1f} % |\n\n"
        "Command: see `zoo/README.md`. For comparing explanations; it knows eight species from one collection of "
        "photographs and nothing else.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="what zoo.vit.pack wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--teacher-minutes", type=float, default=Plan.teacher_minutes)
    parser.add_argument("--student-minutes", type=float, default=Plan.student_minutes)
    parser.add_argument("--teacher-steps", type=int, default=Plan.teacher_steps)
    parser.add_argument("--student-steps", type=int, default=Plan.student_steps)
    parser.add_argument("--tiny", action="store_true", help="a dry run: two layers, pictures of 32 pixels")
    args = parser.parse_args()
    budgets = {name: getattr(args, name) for name in ("teacher_minutes", "student_minutes")}
    budgets |= {name: getattr(args, name) for name in ("teacher_steps", "student_steps")}
    plan = Plan(**{**(TINY if args.tiny else {}), **budgets})
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train(
        args.data, args.out, plan, device, lambda line: print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)
    )


if __name__ == "__main__":
    main()
