"""MaRC beside a literal version of itself: tests/reference/marc.py, the paper's formulas one word at a time."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from subjects import of_length
from timing import interleaved, ratio, seconds

import rationales
from rationales.evaluation.faithfulness import faithfulness
from rationales.methods import build
from rationales.methods.marc import Marc
from rationales.models.text import TextModel
from rationales.models.tokens import TextInput

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference.marc import Literal, explain  # found there only


def settings(method: Marc) -> Literal:
    """The same by the paper's names."""
    return Literal(
        steps=method.steps,
        rate=method.rate,
        cosine=method.schedule == "cosine",
        decay=method.decay,
        alpha_lambda=method.sparsity,
        alpha_sigma=method.width,
        w=method.start_w,
        sigma=method.start_sigma,
        floor=method.floor,
        reach=method.reach,
    )


def reference(model: TextModel, texts: list[str], steps: int | None, clock: str) -> list[dict[str, Any]]:
    """Seconds of `explain` and of the literal version on every text, and how good both are."""
    rationales.explain(model, of_length(model, "12w"), options={"steps": 2})  # warm-up
    options = {} if steps is None else {"steps": steps}
    return [_compared(model, text, options, clock) for text in texts]


def _compared(model: TextModel, text: str, options: dict[str, Any], clock: str) -> dict[str, Any]:
    method = build("marc", options)
    assert isinstance(method, Marc)
    literal, device, module = settings(method), torch.device("cpu"), model.networks[0].module
    encoded = model.encode([TextInput(text)])
    target = int(model.batch(encoded).predict().argmax())
    scores: dict[str, Any] = {}

    def ours() -> None:
        scores["ours"] = rationales.explain(model, text, options=options).scores

    def theirs(how: Literal) -> torch.Tensor:
        return torch.cat(explain(module, encoded[0], target, model.tokenizer.pad_token_id, "softmax", how))

    def frozen() -> None:
        with model.borrowed():
            scores["literal"] = theirs(literal).float().numpy()

    times = interleaved({"ours": ours, "literal": frozen}, 1, device, clock)
    few = replace(literal, steps=2)
    unfrozen = seconds(lambda: theirs(few), device, clock) / few.steps
    module.zero_grad(set_to_none=True)
    row: dict[str, Any] = {
        "text": text,
        "words": len(encoded[0].units),
        "ratio": ratio(times["literal"], times["ours"]),
        "all_weights": unfrozen * literal.steps / times["literal"][0],
    }
    for name, values in scores.items():
        judged = faithfulness(model, encoded, [values], [target], "marc")
        row |= {f"{name}_seconds": times[name][0], f"{name}_sufficiency": float(judged.sufficiency()[0])}
        row |= {f"{name}_comprehensiveness": float(judged.comprehensiveness()[0])}
    return row
