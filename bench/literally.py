"""MaRC against its literal version, tests/reference/marc.py: the paper's formulas, one word at a time."""

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
    """The settings of a method under the names of the paper."""
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
    """Seconds, sufficiency and comprehensiveness of `explain` and of the literal version for every text.

    `explain` runs with its default settings, and with the paper's settings until the paper's stopping rule ends it; the
    literal version runs with the paper's settings for the same number of steps.
    """
    rationales.explain(model, of_length(model, "12w"), options={"steps": 2})  # warm-up
    options = {} if steps is None else {"steps": steps}
    return [_compared(model, text, options, clock) for text in texts]


def _compared(model: TextModel, text: str, options: dict[str, Any], clock: str) -> dict[str, Any]:
    paper_options = {"preset": "paper", **options}
    device, module = torch.device("cpu"), model.networks[0].module
    encoded = model.encode([TextInput(text)])
    target = int(model.batch(encoded).predict().argmax())
    scores: dict[str, Any] = {}
    steps: list[int] = []

    def run_default() -> None:
        scores["ours"] = rationales.explain(model, text, options=options).scores

    def run_paper_settings() -> None:
        rationale = rationales.explain(model, text, options=paper_options)
        scores["paper"] = rationale.scores
        steps.append(rationale.steps)

    def literal_scores(n_steps: int) -> torch.Tensor:
        literal_settings = _paper_settings(n_steps)
        return torch.cat(explain(module, encoded[0], target, model.tokenizer.pad_token_id, "softmax", literal_settings))

    def run_literal() -> None:
        with model.frozen():
            scores["literal"] = literal_scores(steps[-1]).float().numpy()

    times = interleaved({"ours": run_default, "paper": run_paper_settings, "literal": run_literal}, 1, device, clock)
    unfrozen_step = seconds(lambda: literal_scores(2), device, clock) / 2
    module.zero_grad(set_to_none=True)
    row: dict[str, Any] = {
        "text": text,
        "words": len(encoded[0].units),
        "steps": steps[-1],
        "ratio": ratio(times["literal"], times["ours"]),
        "same_ratio": ratio(times["literal"], times["paper"]),
        "all_weights": unfrozen_step * steps[-1] / times["literal"][0],
    }
    for name, values in scores.items():
        faithfulness = measure_faithfulness(model, encoded, [values], [target], "marc")
        row |= {f"{name}_seconds": times[name][0], f"{name}_sufficiency": float(faithfulness.sufficiency()[0])}
        row |= {f"{name}_comprehensiveness": float(faithfulness.comprehensiveness()[0])}
    return row


def _paper_settings(steps: int) -> LiteralSettings:
    """The paper's settings with `steps` steps."""
    method = build("marc", {"preset": "paper", "steps": steps})
    assert isinstance(method, Marc)
    return settings(method)
