"""A remark on which output of the model the methods of a table explain."""

from __future__ import annotations

from collections.abc import Mapping


def explained_outputs_remark(outputs: Mapping[str, str]) -> str:
    """'Explained output: logit (Gradient; SHAP), probability (LIME).' from title -> output."""
    titles: dict[str, list[str]] = {}
    for title, output in outputs.items():
        titles.setdefault(output, []).append(title)
    parts = [f"{output} ({'; '.join(names)})" for output, names in titles.items()]
    return f"Explained output: {', '.join(parts)}."
