"""The probabilities as HTML: one sentence, bars for the target, and a table of all classes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rationales.rationale import Rationale
from rationales.report.html.document import scrollable
from rationales.report.html.marked_text import display_text, escape
from rationales.report.wording import listed_labels, percent, predicted_label, probability_rows, runner_up, unit_name

STALE = "These probabilities belong to the method’s selection, not to the one that the slider shows."


def prediction(rationale: Rationale) -> str:
    """What the model predicts and what is explained, without a full stop; labels keep their writing direction."""
    target, best = f"<em>{display_text(rationale.target)}</em>", predicted_label(rationale)
    full = rationale.probabilities.get("full", {})
    if best is None or rationale.target not in full:
        return f"Explained is {target}"
    number = _strong(full[rationale.target])
    if best == rationale.target:
        return f"The model predicts {target} ({number})"
    highest = _strong(full[best])
    return f"The model predicts <em>{display_text(best)}</em> ({highest}); explained here is {target} ({number})"


def sentence(rationale: Rationale) -> str:
    """The result as a sentence; the script updates its numbers when another selection is shown."""
    target, words = f"<em>{display_text(rationale.target)}</em>", f"{prediction(rationale)}."
    by_key = {key: by[rationale.target] for key, by in rationale.probabilities.items() if rationale.target in by}
    if "rationale" not in by_key:
        return words
    unit, selected = escape(unit_name(rationale)), bool(rationale.selected().any())
    without = (
        f', given everything but them <strong class="complement">{escape(percent(by_key["complement"]))}</strong>'
        if "complement" in by_key
        else ""
    )
    return (
        f'{words} <span class="some"{"" if selected else " hidden"}>Given only the marked {unit}s {target} gets '
        f'<strong class="rationale">{escape(percent(by_key["rationale"]))}</strong>{without}.</span>'
        f'<span class="nothing"{" hidden" if selected else ""}>No {unit} reached the threshold, so nothing is marked.'
        "</span>"
    )


def _strong(probability: float) -> str:
    return f"<strong>{escape(percent(probability))}</strong>"


def target_table(rationale: Rationale) -> str:
    """The target's probability for the full input, the rationale, its complement and the baseline, with bars."""
    rival = runner_up(rationale)
    body = []
    for key, name, hint, by_label in probability_rows(rationale):
        value = by_label.get(rationale.target)
        if value is None:
            continue
        width = f"{100 * min(max(value, 0.0), 1.0):.1f}" if math.isfinite(value) else "0"
        rect = f'<rect width="{width}" height="8"/>'
        bar = f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{rect}</svg>'
        second = f'<td class="rival">{_cell(by_label, rival)}</td>' if rival is not None else ""
        body.append(
            f'<tr class="{key}"><th scope="row">{escape(name)}<small>{display_text(hint)}</small></th>'
            f'<td class="bar">{bar}</td><td class="value">{escape(percent(value))}</td>{second}</tr>'
        )
    if not body:
        return ""
    rival_head = f'<th scope="col">{display_text(rival)}</th>' if rival is not None else ""
    return (
        '<table class="probabilities of"><thead><tr><th scope="col">The model is given</th>'
        f'<th scope="col" colspan="2">{display_text(rationale.target)}</th>{rival_head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def class_table(rationale: Rationale, *, live: bool) -> str:
    """All classes where there are more than two; of many the likeliest and, on a page, a button for all classes."""
    labels, measured = listed_labels(rationale), probability_rows(rationale)
    if len(rationale.labels) <= 2 or not measured:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for _, name, _, _ in measured)
    body = "".join(
        f'<tr{_marked(label == rationale.target)}><th scope="row">{display_text(label)}</th>'
        + "".join(f'<td class="{key}">{_cell(by_label, label)}</td>' for key, _, _, by_label in measured)
        + "</tr>"
        for label in labels
    )
    total = len(rationale.labels)
    title = f"Likeliest of {total:,} classes" if len(labels) < total else "All classes"
    button = (
        f'<p class="all"><button type="button">Show all {total:,} classes</button></p>'
        if live and len(labels) < total
        else ""
    )
    table = (
        f'<table class="probabilities classes"><thead><tr><th scope="col">{title}</th>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table>"
    )
    return scrollable(table, "Probabilities of the classes") + button


def _marked(is_target: bool) -> str:
    return ' class="target"' if is_target else ""


def _cell(by_label: Mapping[str, float], label: str | None) -> str:
    return escape(percent(by_label[label])) if label is not None and label in by_label else ""
