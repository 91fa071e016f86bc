"""Run time of MaRC against captum's methods, plain forward and backward passes, and a literal version of MaRC.

python bench/rivals.py                               # minilm-reviews where it is installed, else the embedded model
python bench/rivals.py --device cuda --model bert-base --parts rivals bare

rivals: the whole of `rationales.explain` against captum's `attribute` alone, on one text. captum blends word
embeddings, as we do, with one feature per word (occlusion: a window of 5 tokens), and evaluates 32 perturbations per
forward pass where the method has that option.
bare: one step of MaRC (the time of the whole method divided by its steps) against a forward pass of as many rows of as
many tokens and a backward pass to the word embeddings, with frozen weights: the least that a step can cost.
reference: `explain` against tests/reference/marc.py, which computes the paper's formulas one word at a time, with the
same settings, as many steps and frozen weights; `unfrozen` is how many times longer a step of the literal version
takes with gradients for all weights, as published. Sufficiency and comprehensiveness (protocol `marc`, predicted
label) say whether both rationales are equally good.

What is compared is run in turns, after a warm-up; a ratio is the median of the ratios of all rounds.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from typing import Any

import torch
from captum_words import AT_ONCE, attributions
from flops import rows_per_step
from literally import reference
from subjects import SIZES, of_length, text_model
from timing import Work, arguments, headline, interleaved, ratio, ready, run, save, setting, table

import rationales
from rationales.errors import ModelError
from rationales.methods import build
from rationales.methods.marc import Marc
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

QUICK = {"lengths": ["40w"], "length": "12w", "texts": 1, "steps": 3, "samples": 20, "permutations": 2, "repeat": 1}
MARC = "marc, explain()"


def rivals(model: TextModel, args: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Seconds of every method on one text, and their ratio to the seconds of MaRC."""
    text = of_length(model, args.length)

    def calls(steps: int | None, samples: int, permutations: int) -> dict[str, Work]:
        our_options: dict[str, dict[str, Any]] = {"integrated-gradients": {"steps": 50}, "occlusion": {"window": 5}}
        our_options |= {"lime": {"samples": samples}, "shapley-sampling": {"orders": permutations}}
        call_of = {MARC: explain_call("marc", {} if steps is None else {"steps": steps})}
        for name, call in attributions(model, text, samples, permutations).items():
            call_of[f"captum {name}"] = call
        return call_of | {f"{name}, explain()": explain_call(name, options) for name, options in our_options.items()}

    def explain_call(method: str, options: dict[str, Any]) -> Work:
        return lambda: rationales.explain(model, text, method=method, options=options)

    for call in calls(2, 2 * AT_ONCE, 1).values():
        call()  # warm-up
    durations = interleaved(calls(args.steps, args.samples, args.permutations), args.repeat, device, args.clock)
    return [
        {"method": name, "seconds": statistics.median(times), "ratio": ratio(times, durations[MARC]), "runs": times}
        for name, times in durations.items()
    ]


def bare(model: TextModel, args: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds of a step and of plain forward and backward passes, for several lengths, and one text or eight."""
    rows = []
    for length in args.lengths:
        for count in (1, 8) if length == args.lengths[0] else (1,):
            texts = [of_length(model, length, seed) for seed in range(count)]
            rows.append({"length": length, "texts": count} | _against_bare(model, texts, args, device))
    return rows


def _against_bare(model: TextModel, texts: list[str], args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """The same for one batch of texts; a plain pass runs as many rows of as many tokens as a step."""
    method = build("marc", {"stop": "steps"} | ({} if args.steps is None else {"steps": args.steps}))
    assert isinstance(method, Marc)
    with model.frozen():
        batch = model.batch(model.encode([TextInput(text) for text in texts]))
        target = torch.zeros(batch.inputs, dtype=torch.long, device=device)
        repeats = int(rows_per_step(method, batch))
        module: Any = model.networks[0].module
        ids, attention = (value.repeat(repeats, 1) for value in (batch.ids, batch.attention))
        types = None if batch.types is None else batch.types.repeat(repeats, 1)
        embeddings = model.networks[0].embedding(ids).detach().requires_grad_()
        has_bfloat16 = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8
        use_bfloat16 = has_bfloat16 and method.precision != "full"
        steps_of_inputs: list[int] = []

        def forward_and_backward() -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_bfloat16):
                logits = module(inputs_embeds=embeddings, attention_mask=attention, token_type_ids=types).logits
            torch.autograd.grad(logits.float().sum(), embeddings)

        def run_plain_passes() -> None:
            for _ in range(method.steps):
                forward_and_backward()

        def run_marc() -> None:
            steps_of_inputs[:] = method.scores(batch, target).steps

        forward_and_backward()  # warm-up of both
        build("marc", {"stop": "steps", "steps": 2}).scores(batch, target)
        durations = interleaved({"steps": run_marc, "bare": run_plain_passes}, args.repeat, device, args.clock)
    assert set(steps_of_inputs) == {method.steps}
    ms_per_step = {name: 1e3 * statistics.median(times) / method.steps for name, times in durations.items()}
    return {
        "rows": len(ids),
        "tokens": ids.shape[1],
        "ms_per_step": ms_per_step["steps"],
        "ms_bare": ms_per_step["bare"],
        "ratio": ratio(durations["steps"], durations["bare"]),
        "runs": durations,
    }


def literal(model: TextModel, args: argparse.Namespace, _: torch.device) -> list[dict[str, Any]]:
    """MaRC and its literal version on `--texts` texts: seconds, and how good both rationales are."""
    texts = [of_length(model, args.length, seed) for seed in range(args.texts)]
    return reference(model, texts, args.steps, args.clock)


def formatted(results: dict[str, list[dict[str, Any]]]) -> str:
    """One table of text for each measurement in `results`."""
    tables = []
    if "rivals" in results:
        rows = [[row["method"], f"{row['seconds']:.3f}", f"{row['ratio']:.2f}"] for row in results["rivals"]]
        tables.append(table(("one text", "s", "times MaRC"), rows))
    if "bare" in results:
        rows = [
            [f"{row['texts']} x {row['length']}", str(row["rows"]), str(row["tokens"]), f"{row['ms_per_step']:.2f}",
             f"{row['ms_bare']:.2f}", f"{row['ratio']:.2f}"]
            for row in results["bare"]
        ]  # fmt: skip
        tables.append(table(("a step", "rows", "tokens", "ms", "bare ms", "ratio"), rows))
    if "reference" in results:
        keys = ["ours_seconds", "paper_seconds", "literal_seconds", "steps", "ratio", "same_ratio", "all_weights"]
        keys += [f"{name}_{metric}" for metric in ("sufficiency", "comprehensiveness") for name in ("ours", "literal")]
        rows = [[f"{row['words']} words"] + [f"{row[key]:.3f}" for key in keys] for row in results["reference"]]
        means = [statistics.mean(row[key] for row in results["reference"]) for key in keys]
        rows.append(["mean", *(f"{mean:.3f}" for mean in means)])
        heads = ("the literal version", "default s", "paper s", "literal s", "its steps", "literal / default",
                 "literal / paper", "unfrozen", "suff", "literal", "comp", "literal")  # fmt: skip
        tables.append(table(heads, rows))
    return "\n\n".join(tables)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default=None, help=f"a model of ours or a random one: {', '.join(SIZES)}")
    parser.add_argument("--parts", nargs="+", default=["rivals", "bare", "reference"])
    parser.add_argument(
        "--length", default="40w", help="of the text for rivals and reference: tokens, or 40w for words"
    )
    parser.add_argument("--lengths", nargs="+", default=["40w", "160", "400"], help="for bare")
    parser.add_argument("--texts", type=int, default=3, help="for reference")
    parser.add_argument("--steps", type=int, default=None, help="of MaRC; else the preset's")
    parser.add_argument("--samples", type=int, default=1000, help="of LIME")
    parser.add_argument("--permutations", type=int, default=25, help="of Shapley sampling")
    args = parser.parse_args()
    if args.quick:
        parser.set_defaults(**QUICK)
        args = parser.parse_args()
    device = ready(args)
    model = text_model(args.model or "minilm-reviews", device)
    if model is None and args.model is None:
        model = text_model("embedded", device)
    if model is None:
        raise ModelError(f"{args.model} is not installed (make experiments)")
    measurements = {"rivals": rivals, "bare": bare, "reference": literal}
    results: dict[str, list[dict[str, Any]]] = {}
    print(f"{model.name} on {headline(device)}", flush=True)
    for name in args.parts:
        if name == "reference" and device.type != "cpu":
            print("reference is left out: it runs on a CPU only")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum warns about its hooks and about future changes
            results[name] = measurements[name](model, args, device)
        save(args.out, {"setting": setting(device, args.clock), "model": model.name, **results})
    print(formatted(results))


if __name__ == "__main__":
    run(main)
