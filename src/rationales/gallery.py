"""`make gallery`: real results of the embedded model as figures, and the page that shows them.

python -m rationales.gallery docs          # writes docs/gallery.md and docs/images/gallery/
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from rationales.demo import REVIEW
from rationales.errors import RationalesError
from rationales.files import write_text
from rationales.rationale import Rationale

EXAMPLES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (  # name, heading, text, methods
    ("review", "A mixed review", REVIEW, ("marc",)),
    (
        "negation",
        "A negation",
        "I did not laugh once, and I never cared who won.",
        ("marc", "integrated-gradients"),
    ),
    (
        "contrast",
        "Two sides of a sentence",
        "The acting is fine and the songs are lovely, but the plot is a mess and the ending is worse.",
        ("marc", "shapley-sampling"),
    ),
)
INTRODUCTION = """# Gallery

Real results of the embedded model, written by `make gallery`. Orange speaks for the predicted label, blue against it,
and the underlined words are the rationale. What the methods are: [methods.md](methods.md).
"""


def write_gallery(folder: Path) -> Path:
    """Explain every example, and write the figures and the page into `folder`."""
    import rationales

    images = folder / "images" / "gallery"
    images.mkdir(parents=True, exist_ok=True)
    model = rationales.load()
    sections = [INTRODUCTION]
    for name, heading, text, methods in EXAMPLES:
        results = [rationales.explain(model, text, method=method) for method in methods]
        for rationale in results:
            rationale.to_svg(images / f"{name}-{rationale.method}.svg")
        sections.append(_section(name, heading, results))
    return write_text(folder / "gallery.md", "\n".join(sections))


def _section(name: str, heading: str, rationales: Sequence[Rationale]) -> str:
    """A heading, and a figure with its figures for each method."""
    lines = [f"## {heading}\n"]
    for rationale in rationales:
        spans = "; ".join(span.text for span in rationale.spans()[:4])
        full, alone, without = (
            f"{100 * rationale.probabilities[key][rationale.target]:.1f} %"
            for key in ("full", "rationale", "complement")
        )
        lines.append(f"![{rationale.method}: {spans}](images/gallery/{name}-{rationale.method}.svg)\n")
        figures = f"{rationale.target} {full}; given the rationale alone {alone}, without it {without}"
        lines.append(f"`{rationale.method}`: {figures}.\n")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        typer.echo(f"wrote {write_gallery(Path(sys.argv[1] if len(sys.argv) > 1 else 'docs'))}")
    except RationalesError as error:
        sys.exit(f"error: {error}")
