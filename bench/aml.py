"""How long AML takes: fine-tuning many texts together beside one after the other, and the pretraining of a masker.

python bench/aml.py                                                   # the embedded model, 8 texts, a brief pretraining
python bench/aml.py --device cuda --model minilm-shape --texts 64 --pretrain 1000 --networks 25 --out bench/out

`minilm-shape` is a classifier of MiniLM's shape (6 layers of width 384, 22.7 M weights) with random weights: its
speed is that of a trained one. The last line says whether both results are the same.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

import rationales
from rationales.files import write_text
from rationales.masks.instant.aml.finetuning import FinetuneSettings, finetune
from rationales.masks.instant.aml.input_deltas import TUNED
from rationales.masks.instant.aml.masker import AmlMasker
from rationales.masks.instant.aml.pretraining import pretrain
from rationales.masks.instant.aml.settings import AmlLosses, AmlTraining
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

PASSAGE = (
    "the acting is fine but the plot is a mess and nobody in the room could say why anything happened still a few "
    "scenes are warm funny and oddly moving while the music never gets in their way"
)
SENTENCE = 20  # words, about SST-2's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="a model, or minilm-shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, help="texts that are fine-tuned; by default 64 on a GPU, else 8")
    parser.add_argument("--steps", type=int, default=10, help="of fine-tuning")
    parser.add_argument("--pretrain", type=int, default=40, help="texts of the timed pretraining; 0: none")
    parser.add_argument("--trials", type=int, help="of the search for weights; by default 30 for 1000 texts or more")
    parser.add_argument("--networks", type=int, default=1, help="attribution networks trained at once")
    parser.add_argument("--tune", nargs="+", choices=TUNED, default=list(TUNED), help="what fine-tuning changes")
    parser.add_argument("--out", type=Path, help="folder for aml.json")
    args = parser.parse_args()
    if args.device == "cpu":
        torch.set_num_threads(1)
    model = load(args.model, args.device)
    count = args.texts or (64 if args.device != "cpu" else 8)
    figures: dict[str, Any] = {"model": model.name, "device": args.device, "texts": count, "steps": args.steps}
    masker = time_pretraining(model, args, figures)
    print(f"{'fine-tuning of ' + str(count) + ' texts':<28} {'together':>10} {'in turn':>10} {'times':>7}  largest")
    print(f"{'':<28} {'seconds':>10} {'seconds':>10} {'faster':>7}  difference of losses")
    for tune in args.tune:
        figures[tune] = time_finetuning(model, masker, texts_of(count), FinetuneSettings(steps=args.steps, tune=tune))
        print(row_of(tune, figures[tune]))
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            write_text(args.out / "aml.json", json.dumps(figures, indent=1))


def row_of(tune: str, row: dict[str, float]) -> str:
    times = f"{row['together']:>10.2f} {row['in_turn']:>10.2f} {row['ratio']:>7.1f}"
    return f"{tune:<28} {times}  {row['difference']:.1e}"


def load(name: str, device: str) -> TextModel:
    if name != "minilm-shape":
        model = rationales.load(name, device=device)
        assert isinstance(model, TextModel)
        return model
    tokenizer = rationales.load("embedded").tokenizer
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
        num_labels=2,
    )  # fmt: skip
    torch.manual_seed(0)
    module = transformers.BertForSequenceClassification(config).eval().to(device)
    model = rationales.load(module, tokenizer)
    assert isinstance(model, TextModel)
    return model


def texts_of(count: int, seed: int = 0) -> list[str]:
    """Sentences of random words, no two alike."""
    generator, words = torch.Generator().manual_seed(seed), PASSAGE.split()
    numbers = torch.randint(len(words), (count, SENTENCE), generator=generator).tolist()
    return [f"{number} " + " ".join(words[word] for word in line) for number, line in enumerate(numbers)]


def time_pretraining(model: TextModel, args: argparse.Namespace, figures: dict[str, Any]) -> AmlMasker:
    timed = args.pretrain or 20
    trials = args.trials if args.trials is not None else (30 if timed >= 1000 else 1)
    settings = AmlTraining(trials=trials, networks=args.networks)
    settings = settings if timed >= 1000 else replace(settings, epochs=1, trial_epochs=1)
    started = time.perf_counter()
    masker = pretrain(model, texts_of(timed + timed // 5), settings, AmlLosses())
    seconds = time.perf_counter() - started
    training = masker.card.training
    print(
        f"pretraining: {seconds:.1f} s for {training['texts']} texts, {training['trials']} trials "
        f"({training['search']} search) and {[ended['epochs'] for ended in training['trainings']]} epochs, "
        f"{args.networks} at once, on {model.name}, {args.device}"
    )
    figures["pretraining"] = {
        "seconds": seconds,
        "texts": training["texts"],
        "trials": training["trials"],
        "search": training["search"],
        "epochs": [ended["epochs"] for ended in training["trainings"]],
        "networks": args.networks,
    }
    return masker


def time_finetuning(
    model: TextModel, masker: AmlMasker, texts: list[str], settings: FinetuneSettings
) -> dict[str, float]:
    encoded = model.encode([TextInput(text) for text in texts])
    with model.frozen():
        batch = model.batch(encoded)
        target = batch.predict().argmax(-1)
        single = [model.batch(encoded[number : number + 1]) for number in range(len(texts))]
        finetune(masker, single[0], target[:1], settings)  # warm
        finetune(masker, batch, target, settings)
        together, results = _timed(lambda: [finetune(masker, batch, target, settings)], batch.device)
        in_turn, singles = _timed(
            lambda: [finetune(masker, text_batch, target[n : n + 1], settings) for n, text_batch in enumerate(single)],
            batch.device,
        )
    losses = torch.cat([result.losses for result in singles], 1)
    difference = float((results[0].losses - losses).abs().max())
    return {"together": together, "in_turn": in_turn, "ratio": in_turn / together, "difference": difference}


def _timed(work: Callable[[], list], device: torch.device) -> tuple[float, list]:
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    results = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, results


if __name__ == "__main__":
    main()
