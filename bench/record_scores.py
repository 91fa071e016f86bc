"""Record the scores of every method on fixed inputs, or compare two records.

python bench/record_scores.py before.json                        # on the commit before a change
python bench/record_scores.py after.json --against before.json   # on the commit after it: equal to the bit, or listed

Twelve texts, three pairs, three images and a sound are explained with every method (seed 0, CPU, one thread), and one
table of `evaluate` is made. Models are the embedded one and two small networks with fixed weights, so that no download
is needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rationales
from rationales.demo import REVIEW

TEXTS = [
    "This movie was not good.",
    "The acting is fine, but the plot is a mess and I left early.",
    "A warm, funny film that my children asked to see again.",
    "I could not care any more about any of these people.",
    "Two hours long and set in a harbour town.",
    "Nobody in the room laughed once.",
    "The second half simply falls apart.",
    "What a delight: sharp, tender and beautifully played.",
    "It is well-made and it pays off, although the first act drags.",
    "Not bad, not great; I have forgotten most of it already.",
    "The music is lovely. The script is dreadful.",
    REVIEW[: REVIEW.index("Then the plot")].strip(),
]
PAIRS = [
    ("A man sleeps on a bench.", "The man is awake."),
    ("The film was shot in winter.", "It was a dull, careless film."),
    ("Two girls read a book.", "Children are reading."),
]
METRICS = ["sufficiency", "comprehensiveness", "average-precision", "token-f1"]
RATE = 4000  # samples per second


class ImageNetwork(nn.Module):
    """(R, 3, 32, 32) -> (R, 3): two convolutions with fixed weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 3),
        )
        fix_weights(self, 0.4)

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.layers(pixels)
        return logits


class SoundNetwork(nn.Module):
    """(R, samples) -> (R, 2): energy in eight filters with fixed weights."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv1d(1, 8, 64, stride=32)
        self.classifier = nn.Linear(8, 2)
        fix_weights(self, 0.5)

    def forward(self, samples: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.classifier(self.filters(samples[:, None]).square().mean(-1))
        return logits


def fix_weights(module: nn.Module, scale: float) -> None:
    """Weights from a generator of their own, the same on every machine."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)


def image_tensor(image: Any) -> Tensor:
    """A PIL image as (3, 32, 32) in [0, 1]."""
    return torch.from_numpy(np.asarray(image.resize((32, 32)), dtype=np.float32) / 255).permute(2, 0, 1)


def images() -> list[np.ndarray]:
    """Three images of noise with a bright square."""
    result = []
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 90, (32, 32, 3), dtype=np.uint8)
        pixels[6 + 4 * number : 16 + 4 * number, 8:18, number] = 230
        result.append(pixels)
    return result


def sound() -> tuple[np.ndarray, int]:
    """Half a second of noise with a tone in the middle."""
    time = np.arange(RATE // 2) / RATE
    samples = np.random.default_rng(0).normal(size=len(time)) * 0.05
    samples += 0.4 * np.sin(2 * np.pi * 700 * time) * ((time > 0.15) & (time < 0.3))
    return samples.astype(np.float32), RATE


def method_names() -> list[str]:
    """Every method of this version."""
    listing = getattr(rationales, "list_methods", None) or rationales.methods
    return [method.name for method in listing()]


def record() -> dict[str, Any]:
    """name of the case -> scores, selection and probabilities."""
    text_model = rationales.load()
    image_model = rationales.load(ImageNetwork().eval(), image_tensor, labels=["a", "b", "c"])
    sound_model = rationales.load(SoundNetwork().eval(), labels=["other", "tone"], **sound_options())
    cases = [("text", text_model, TEXTS), ("pair", text_model, PAIRS), ("image", image_model, images())]
    cases.append(("sound", sound_model, [sound()]))
    results: dict[str, Any] = {}
    for kind, model, inputs in cases:
        for method in method_names():
            key = f"{kind}/{method}"
            try:
                explained = rationales.explain(model, inputs, method=method)
            except rationales.RationalesError as error:
                results[key] = {"error": type(error).__name__}
                continue
            results[key] = [
                {
                    "scores": [float(score).hex() for score in rationale.scores],
                    "selected": np.flatnonzero(rationale.selected()).tolist(),
                    "probabilities": {name: dict(by) for name, by in rationale.probabilities.items()},
                    "notes": sorted(note.kind for note in rationale.notes),
                }
                for rationale in explained
            ]
            print(f"{key}: {len(explained)}", file=sys.stderr, flush=True)
    results["evaluate"] = evaluation(text_model)
    return results


def sound_options() -> dict[str, Any]:
    """The name of the sample rate's option in this version."""
    import inspect

    parameters = inspect.signature(rationales.load).parameters
    return {"sample_rate" if "sample_rate" in parameters else "rate": RATE}


def evaluation(model: Any) -> dict[str, Any]:
    """The means of one table."""
    make_example = getattr(rationales, "Example", None)
    if make_example is None:
        from rationales.data.example import Example

        make_example = Example
    marks = {1: "mess", 2: "funny", 6: "falls apart", 7: "delight"}
    examples = [
        make_example(
            name=str(number),
            text=TEXTS[number],
            label="positive" if number in (2, 7) else "negative",
            spans=((TEXTS[number].index(mark), TEXTS[number].index(mark) + len(mark)),),
        )
        for number, mark in marks.items()
    ]
    table = rationales.evaluate(model, examples, methods=["marc", "occlusion", "lime"], metrics=METRICS)
    return dict.fromkeys(table.to_csv().splitlines(), True)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each case that is not equal."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        left, right = before.get(key), after.get(key)
        if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
            lines.append(f"{key}: {str(left)[:200]} | {str(right)[:200]}")
            continue
        for number, (old, new) in enumerate(zip(left, right, strict=True)):
            if old == new:
                continue
            scores = [np.array([float.fromhex(value) for value in item["scores"]]) for item in (old, new)]
            gap = float(np.abs(scores[0] - scores[1]).max()) if len(scores[0]) == len(scores[1]) else float("nan")
            fields = ", ".join(name for name in old if old[name] != new.get(name))
            lines.append(f"{key}[{number}]: {fields} differ; largest difference of a score {gap:.2e}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="where to write the record; without it nothing is run")
    parser.add_argument("--against", type=Path, help="an earlier record to compare with")
    arguments = parser.parse_args()
    if arguments.out is None:
        print("record_scores: give a file to write; skipped")
        return
    torch.set_num_threads(1)
    results = record()
    arguments.out.write_text(json.dumps(results), encoding="utf-8")
    print(f"{len(results)} cases recorded")
    if arguments.against is not None:
        lines = differences(json.loads(arguments.against.read_text(encoding="utf-8")), results)
        print("\n".join(lines) or "all cases are equal to the bit")
        sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
