"""A budget of forward passes: rows that need more get fewer orders, samples, windows or steps, and say so.

With the paper's settings a segment of a review costs up to 10,000 forward passes in one row, and measuring faithfulness
40 in every row: hours on a CPU, even for two reviews. A run with a budget shows that everything works and what it
looks like. It does not reproduce the paper's figures, so no claim is judged on its reduced rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rationales.evaluation.protocols import PRESETS, Protocol
from rationales.experiments.marc_table1.row_specs import MARC_STEP_PASSES, SEGMENT_WORDS, RowSpec
from rationales.methods import build

SMALL_LIMIT = 5  # reviews up to which a run on a CPU has a budget by default
DEFAULT_PASSES = 40  # the default budget, per segment and row
MEASURING_SHARE = 0.25  # of the budget, for faithfulness
GRADIENT_STEP_PASSES = 3  # one forward and one backward pass
LEVEL_COUNTS = (19, 9, 4, 3, 1)  # numbers of levels that are a part of the protocol's 5, 10, ..., 95 % and even


def budget(requested: int | None, limit: int | None, device: str) -> int | None:
    """Forward passes per segment and row; None: as many as the paper's settings need.

    `requested` 0 asks for the paper's settings; None for the default, by the number of reviews and the device.
    """
    if requested is not None:
        return requested or None
    return DEFAULT_PASSES if device == "cpu" and limit is not None and limit <= SMALL_LIMIT else None


def reduce_row(spec: RowSpec, passes: int | None) -> RowSpec:
    """The row with options that need about `passes` forward passes per segment, and what was reduced; or as it is."""
    if passes is None or spec.method not in _REDUCTIONS:
        return spec
    method = build(spec.method, dict(spec.options), "text")
    changes = _REDUCTIONS[spec.method](method, passes)
    changes = {name: value for name, value in changes.items() if value != getattr(method, name)}
    if not changes:
        return spec
    texts = [_CHANGE_TEXTS[name].format(value=value, full=getattr(method, name)) for name, value in changes.items()]
    return replace(
        spec,
        options={**spec.options, **changes},
        cost=min(spec.cost, _reduced_cost(spec.method, changes)),
        reduction=", ".join(texts),
    )


def reduced_protocol(passes: int | None) -> Protocol:
    """The protocol of the paper, with as many of its levels as fit the budget."""
    protocol = PRESETS["marc"]
    if passes is None:
        return protocol
    fitting = (count for count in LEVEL_COUNTS if measuring_passes(count) <= MEASURING_SHARE * passes)
    count = next(fitting, LEVEL_COUNTS[-1])
    if count == len(protocol.levels):
        return protocol
    distance = (len(protocol.levels) + 1) // (count + 1)
    levels = protocol.levels[distance - 1 :: distance]
    return replace(protocol, name=f"marc with {count} of {len(protocol.levels)} levels", levels=levels)


def measuring_passes(levels: int) -> int:
    """Forward passes per segment for faithfulness: each level kept and removed, everything, nothing."""
    return 2 * levels + 2


def remark(passes: int, requested: bool) -> str:
    """The sentences below a table that was made with a budget."""
    default = "" if requested else f" (the default for up to {SMALL_LIMIT} reviews on a CPU)"
    return (
        f"A trial run with a budget of about {passes} forward passes per segment and row{default}: "
        "what is reduced stands in brackets in the row's name, the levels of faithfulness in the protocol. These are "
        "not the paper's settings, and no claim is judged on reduced rows; --passes 0 computes them in full."
    )


def _fewer_orders(method: Any, passes: int) -> dict[str, int]:
    orders = min(method.orders, max(1, passes // SEGMENT_WORDS))
    return {"orders": orders, "units_per_step": -(-SEGMENT_WORDS // passes) if passes < SEGMENT_WORDS else 1}


_REDUCTIONS: Mapping[str, Callable[[Any, int], dict[str, int]]] = {
    "lime": lambda method, passes: {"samples": min(method.samples, passes)},
    "integrated-gradients": lambda method, passes: {
        "steps": min(method.steps, max(1, passes // GRADIENT_STEP_PASSES)),
    },
    "occlusion": lambda method, passes: {
        "stride": min(method.window, max(method.stride, -(-SEGMENT_WORDS // passes))),
    },
    "shapley-sampling": _fewer_orders,
    "marc": lambda method, passes: {"steps": min(method.steps, max(1, passes // MARC_STEP_PASSES))},
}
_CHANGE_TEXTS = {
    "samples": "{value} of {full} samples",
    "steps": "{value} of {full} steps",
    "stride": "stride {value}, not {full}",
    "orders": "{value} of {full} orders",
    "units_per_step": "{value} words per step",
}


def _reduced_cost(method: str, changes: Mapping[str, int]) -> float:
    """Approximate forward passes per segment with these options, in the unit of RowSpec.cost."""
    if method in ("occlusion", "shapley-sampling"):
        words_per_pass = changes.get("stride", changes.get("units_per_step", 1))
        return changes.get("orders", 1) * SEGMENT_WORDS / words_per_pass
    passes_per_step = {"integrated-gradients": GRADIENT_STEP_PASSES, "marc": MARC_STEP_PASSES}.get(method, 1)
    return float(passes_per_step * changes.get("steps", changes.get("samples", 1)))
