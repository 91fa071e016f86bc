"""How long marc-instant takes beside MaRC's own optimisation, on the same model and text, in one run.

python bench/instant.py                         # the embedded model, a text of 160 tokens, one core
python bench/instant.py --device cuda --model minilm-reviews --masker masker.safetensors --many 199 --tokens 800
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import rationales
from rationales.errors import OptionError
from rationales.masks.instant.training import TrainSettings, train
from rationales.methods import build
from rationales.models.batch import Batch
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

Work = Callable[[list[str]], Callable[[], None]]  # texts -> what is timed
WORDS = (
    "the acting is fine , but the plot is a mess and nobody in the room could say why anything happened ; still , a "
    "few scenes are warm , funny and oddly moving , and the music never gets in their way ."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None)
    parser.add_argument("--masker", help="a masker of the model; else the one that ships, else one that is not trained")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--many", type=int, default=16, help="texts in the batch of the last column")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = rationales.load(args.model, device=args.device)
    assert isinstance(model, TextModel)
    text, size = _text(model, args.tokens)
    with tempfile.TemporaryDirectory() as folder:
        options, kind = _masker(model, text, args.masker, Path(folder))
        many = [f"{number} {text}" for number in range(args.many)]  # no two alike
        print(f"{model.name} on {args.device}, {args.threads} thread(s), {size} tokens, {kind}")
        print(f"{'':<30} {'one text':>12} {f'of {args.many} together':>16}")

        def make_batch(texts: list[str]) -> Batch:
            return model.batch(model.encode([TextInput(text) for text in texts]))

        def scored(name: str, options: dict[str, object], texts: list[str]) -> Callable[[], None]:
            method, batch = build(name, options), make_batch(texts)

            def work() -> None:
                with model.frozen():
                    method.scores(batch, torch.zeros(len(texts), dtype=torch.long, device=batch.device))

            return work

        def plain(texts: list[str]) -> Callable[[], None]:
            batch = make_batch(texts)

            def work() -> None:
                with model.frozen(), torch.no_grad():
                    batch.logits(batch.ones())

            return work

        def explain_all(texts: list[str]) -> Callable[[], None]:
            return lambda: rationales.explain(model, texts, method="marc-instant", options=options) and None

        def steps(name: str, options: dict[str, object], short: dict[str, object]) -> Work:
            """A slow method: warmed up with the options `short`, so that it can be timed once."""

            def work(texts: list[str]) -> Callable[[], None]:
                scored(name, options | short, texts)()
                return scored(name, options, texts)

            return work

        rows: list[tuple[str, Work, int]] = [
            ("reading", lambda texts: lambda: make_batch(texts) and None, args.repeat),
            ("the model's answer", plain, args.repeat),
            ("marc-instant, scores", lambda texts: scored("marc-instant", options, texts), args.repeat),
            ("marc-instant, all of explain()", explain_all, args.repeat),
            ("marc-instant, refine=15", steps("marc-instant", options | {"refine": 15}, {"refine": 2}), 1),
            ("marc", steps("marc", {}, {"steps": 2}), 1),
        ]
        for name, work, repeat in rows:
            alone = _milliseconds(work([text]), repeat, model)
            together = _milliseconds(work(many), repeat, model) / args.many
            print(f"{name:<30} {alone:>9.1f} ms {together:>13.1f} ms", flush=True)


def _text(model: TextModel, tokens: int) -> tuple[str, int]:
    """A text of at least `tokens` tokens that repeats `WORDS`, and its number of tokens."""
    words, count = WORDS.split(), 1
    while True:
        text = " ".join(words[i % len(words)] for i in range(count))
        size = sum(len(row.ids) for row in model.encode([TextInput(text)])[0].rows)
        if size >= tokens:
            return text, size
        count += 1


def _masker(model: TextModel, text: str, path: str | None, folder: Path) -> tuple[dict[str, object], str]:
    """Options with a masker, and its description; run time does not depend on its training."""
    if path:
        return {"masker": path}, f"masker {path}"
    try:
        rationales.explain(model, "a text", method="marc-instant")
        return {}, "the masker that ships"
    except OptionError:
        masker = train(model, [text], TrainSettings(steps=1, validations=1))
        return {"masker": str(masker.save(folder / "masker.safetensors"))}, "a masker of the default size, not trained"


def _milliseconds(work: Callable[[], None], repeat: int, model: TextModel) -> float:
    """The median of the repeats, after a warm-up if there are several."""
    times = []
    for number in range(repeat + (repeat > 1)):
        began = time.perf_counter()
        work()
        if model.networks[0].baseline.is_cuda:
            torch.cuda.synchronize()
        if number or repeat == 1:
            times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    main()
