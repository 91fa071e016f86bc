"""MaRC beside captum's methods, beside a bare pass of the same rows, and beside a literal version of itself.

python bench/rivals.py                               # minilm-reviews where it is installed, else the embedded model
python bench/rivals.py --device cuda --model bert-base --parts rivals bare

rivals: all of `rationales.explain` against captum's `attribute` alone, on one text. captum blends word embeddings, as
we do, one feature a word (occlusion: a window of 5 tokens), and is given 32 variants at once where it takes any number.
bare: a step of MaRC (all of the method, divided by its steps) against forward and back to the embeddings of as many
rows of as many tokens, weights frozen: what no step can do without.
reference: `explain` against tests/reference/marc.py, the paper's formulas word by word, with the same settings and
steps, weights frozen; `unfrozen` is how many times longer its step takes with gradients for all weights, as published.
Sufficiency and comprehensiveness (protocol `marc`, predicted label) say whether both found as much.

What is compared is run in turns, after a warm-up; ratios are medians of the rounds' own.
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


def rivals(model: TextModel, given: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Seconds of every method on one text, and how many times MaRC's that is."""
    text = of_length(model, given.length)

    def works(steps: int | None, samples: int, permutations: int) -> dict[str, Work]:
        own: dict[str, dict[str, Any]] = {"integrated-gradients": {"steps": 50}, "occlusion": {"window": 5}}
        own |= {"lime": {"samples": samples}, "shapley-sampling": {"orders": permutations}}
        made = {MARC: explained("marc", {} if steps is None else {"steps": steps})}
        for name, work in attributions(model, text, samples, permutations).items():
            made[f"captum {name}"] = work
        return made | {f"{name}, explain()": explained(name, options) for name, options in own.items()}

    def explained(method: str, options: dict[str, Any]) -> Work:
        return lambda: rationales.explain(model, text, method=method, options=options)

    for work in works(2, 2 * AT_ONCE, 1).values():
        work()  # warm-up
    found = interleaved(works(given.steps, given.samples, given.permutations), given.repeat, device, given.clock)
    return [
        {"method": name, "seconds": statistics.median(times), "ratio": ratio(times, found[MARC]), "runs": times}
        for name, times in found.items()
    ]


def bare(model: TextModel, given: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Milliseconds of a step and of a bare pass of its rows, at several lengths, for one text and for eight."""
    rows = []
    for length in given.lengths:
        for count in (1, 8) if length == given.lengths[0] else (1,):
            texts = [of_length(model, length, seed) for seed in range(count)]
            rows.append({"length": length, "texts": count} | _against_bare(model, texts, given, device))
    return rows


def _against_bare(
    model: TextModel, texts: list[str], given: argparse.Namespace, device: torch.device
) -> dict[str, Any]:
    method = build("marc", {"stop": "steps"} | ({} if given.steps is None else {"steps": given.steps}))
    assert isinstance(method, Marc)
    with model.frozen():
        batch = model.batch(model.encode([TextInput(text) for text in texts]))
        target = torch.zeros(batch.inputs, dtype=torch.long, device=device)
        masks = int(rows_per_step(method, batch))
        module: Any = model.networks[0].module
        ids, attention = (value.repeat(masks, 1) for value in (batch.ids, batch.attention))
        types = None if batch.types is None else batch.types.repeat(masks, 1)
        words = model.networks[0].embedding(ids).detach().requires_grad_()
        half = device.type == "cuda" and method.precision != "full" and torch.cuda.get_device_capability(device)[0] >= 8
        taken: list[int] = []

        def once() -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
                said = module(inputs_embeds=words, attention_mask=attention, token_type_ids=types).logits
            torch.autograd.grad(said.float().sum(), words)

        def passes() -> None:
            for _ in range(method.steps):
                once()

        def steps() -> None:
            taken[:] = method.scores(batch, target).steps

        once()
        build("marc", {"stop": "steps", "steps": 2}).scores(batch, target)
        found = interleaved({"steps": steps, "bare": passes}, given.repeat, device, given.clock)
    assert set(taken) == {method.steps}
    per = {name: 1e3 * statistics.median(times) / method.steps for name, times in found.items()}
    return {
        "rows": len(ids),
        "tokens": ids.shape[1],
        "ms_per_step": per["steps"],
        "ms_bare": per["bare"],
        "ratio": ratio(found["steps"], found["bare"]),
        "runs": found,
    }


def literal(model: TextModel, given: argparse.Namespace, _: torch.device) -> list[dict[str, Any]]:
    """MaRC and its literal version on some texts."""
    texts = [of_length(model, given.length, seed) for seed in range(given.texts)]
    return reference(model, texts, given.steps, given.clock)


def shown(found: dict[str, list[dict[str, Any]]]) -> str:
    """All parts as tables."""
    parts = []
    if "rivals" in found:
        rows = [[one["method"], f"{one['seconds']:.3f}", f"{one['ratio']:.2f}"] for one in found["rivals"]]
        parts.append(table(("one text", "s", "times MaRC"), rows))
    if "bare" in found:
        rows = [
            [f"{one['texts']} x {one['length']}", str(one["rows"]), str(one["tokens"]), f"{one['ms_per_step']:.2f}",
             f"{one['ms_bare']:.2f}", f"{one['ratio']:.2f}"]
            for one in found["bare"]
        ]  # fmt: skip
        parts.append(table(("a step", "rows", "tokens", "ms", "bare ms", "ratio"), rows))
    if "reference" in found:
        keys = ["ours_seconds", "paper_seconds", "literal_seconds", "steps", "ratio", "same_ratio", "all_weights"]
        keys += [f"{whose}_{what}" for what in ("sufficiency", "comprehensiveness") for whose in ("ours", "literal")]
        lines = [[f"{one['words']} words"] + [f"{one[key]:.3f}" for key in keys] for one in found["reference"]]
        means = [statistics.mean(one[key] for one in found["reference"]) for key in keys]
        lines.append(["mean", *(f"{mean:.3f}" for mean in means)])
        heads = ("the literal version", "default s", "paper s", "literal s", "its steps", "literal / default",
                 "literal / paper", "unfrozen", "suff", "literal", "comp", "literal")  # fmt: skip
        parts.append(table(heads, lines))
    return "\n\n".join(parts)


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
    given = parser.parse_args()
    if given.quick:
        parser.set_defaults(**QUICK)
        given = parser.parse_args()
    device = ready(given)
    model = text_model(given.model or "minilm-reviews", device)
    if model is None and given.model is None:
        model = text_model("embedded", device)
    if model is None:
        raise ModelError(f"{given.model} is not installed (make experiments)")
    parts = {"rivals": rivals, "bare": bare, "reference": literal}
    found: dict[str, list[dict[str, Any]]] = {}
    print(f"{model.name} on {headline(device)}", flush=True)
    for name in given.parts:
        if name == "reference" and device.type != "cpu":
            print("reference is left out: it runs on a CPU only")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum's, of hooks and of what it will change one day
            found[name] = parts[name](model, given, device)
        save(given.out, {"setting": setting(device, given.clock), "model": model.name, **found})
    print(shown(found))


if __name__ == "__main__":
    run(main)
