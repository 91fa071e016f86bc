"""MaRC beside a literal version of itself: tests/reference/marc.py, the paper's formulas one word at a time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from subjects import of_length
from timing import interleaved, ratio, seconds

import rationales
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.methods import build
from rationales.methods.marc import Marc
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference.marc import LiteralSettings, explain  # found there only


def settings(method: Marc) -> LiteralSettings:
    """The same by the paper's names."""
    return LiteralSettings(
        steps=method.steps,
        learning_rate=method.learning_rate,
        cosine=method.schedule == "cosine",
        weight_decay=method.weight_decay,
        alpha_lambda=method.sparsity,
        alpha_sigma=method.sigma_weight,
        w=method.initial_w,
        sigma=method.initial_sigma,
        complement_floor=method.complement_floor,
        max_sigma_share=method.max_sigma_share,
    )


def reference(model: TextModel, texts: list[str], steps: int | None, clock: str) -> list[dict[str, Any]]:
    """Seconds of `explain` and of the literal version on every text, and how good both are.

    `explain` as it is by default, and with the paper's settings to the paper's own stop; the literal version with the
    paper's settings and as many steps as those took.
    """
    rationales.explain(model, of_length(model, "12w"), options={"steps": 2})  # warm-up
    few = {} if steps is None else {"steps": steps}
    return [_compared(model, text, few, clock) for text in texts]


def _compared(model: TextModel, text: str, few: dict[str, Any], clock: str) -> dict[str, Any]:
    paper = {"preset": "paper", **few}
    device, module = torch.device("cpu"), model.networks[0].module
    encoded = model.encode([TextInput(text)])
    target = int(model.batch(encoded).predict().argmax())
    scores: dict[str, Any] = {}
    steps: list[int] = []

    def ours() -> None:
        scores["ours"] = rationales.explain(model, text, options=few).scores

    def ours_as_paper() -> None:
        rationale = rationales.explain(model, text, options=paper)
        scores["paper"] = rationale.scores
        steps.append(rationale.steps)

    def theirs(how: LiteralSettings) -> torch.Tensor:
        return torch.cat(explain(module, encoded[0], target, model.tokenizer.pad_token_id, "softmax", how))

    def frozen() -> None:
        with model.frozen():
            scores["literal"] = theirs(_as_long(steps[-1])).float().numpy()

    times = interleaved({"ours": ours, "paper": ours_as_paper, "literal": frozen}, 1, device, clock)
    unfrozen = seconds(lambda: theirs(_as_long(2)), device, clock) / 2
    module.zero_grad(set_to_none=True)
    row: dict[str, Any] = {
        "text": text,
        "words": len(encoded[0].units),
        "steps": steps[-1],
        "ratio": ratio(times["literal"], times["ours"]),
        "same_ratio": ratio(times["literal"], times["paper"]),
        "all_weights": unfrozen * steps[-1] / times["literal"][0],
    }
    for name, values in scores.items():
        judged = measure_faithfulness(model, encoded, [values], [target], "marc")
        row |= {f"{name}_seconds": times[name][0], f"{name}_sufficiency": float(judged.sufficiency()[0])}
        row |= {f"{name}_comprehensiveness": float(judged.comprehensiveness()[0])}
    return row


def _as_long(steps: int) -> LiteralSettings:
    """The paper's settings, so many steps."""
    method = build("marc", {"preset": "paper", "steps": steps})
    assert isinstance(method, Marc)
    return settings(method)
