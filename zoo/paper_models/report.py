"""Print the figures of the stored models (metrics.json beside each) as the Markdown tables of zoo/README.md."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def classifier_table(models: list[dict[str, Any]]) -> str:
    """One row for each model and test file; accuracy as trained and as stored."""
    columns = ("model", "trained on", "learning rate, epochs, batch", "steps", "test file (texts)")
    columns += ("most frequent label", "accuracy as trained", "as stored", "size")
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for figures in models:
        setting, source = figures["setting"], figures["trained on"]
        for test, accuracy in figures["test accuracy"].items():
            cells = (
                f"`{figures['model']}`",
                f"{source['file']}, {source['rows']:,} rows",
                f"{setting['rate']:g}, {setting['epochs']}, {setting['batch']}",
                f"{setting['steps']:,} of {setting['of']:,}",
                f"{test} ({figures['test texts'][test]:,})",
                f"{figures['majority share'][test]:.1%}",
                f"{figures['test accuracy before compression'][test]:.1%}",
                f"{accuracy:.1%}",
                f"{figures['delta bytes'] / 1e6:.1f} MB",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def filler_table(models: list[dict[str, Any]]) -> str:
    """One row for each model and unseen text; the tuned filler with the cross-entropy before it was tuned."""
    lines = [
        "| filler | stored | unseen text (tokens) | top-1 | top-10 | cross-entropy ± deviation | before tuning |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for figures in models:
        for text, values in figures["unseen"].items():
            before = figures.get("unseen before", {}).get(text)
            entropy = f"{values['cross-entropy']:.2f} ± {values['deviation']:.2f}"
            earlier = "" if before is None else f"{before['cross-entropy']:.2f} ± {before['deviation']:.2f}"
            lines.append(
                f"| `{figures['model']}` | {figures['delta bytes'] / 1e6:.1f} MB | {text} ({values['tokens']:,}) "
                f"| {values['top-1']:.1%} | {values['top-10']:.1%} | {entropy} | {earlier} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("zoo"), help="folder with one folder a model")
    args = parser.parse_args()
    stored = [json.loads(path.read_text()) for path in sorted(args.models.glob("minilm-*/metrics.json"))]
    classifiers = [figures for figures in stored if "test accuracy" in figures]
    fillers = [figures for figures in stored if "unseen" in figures]
    print(classifier_table(classifiers), filler_table(fillers), sep="\n\n")


if __name__ == "__main__":
    main()
