"""The experiments by name."""

from __future__ import annotations

from rationales.experiments.ground_truth.experiment import Study
from rationales.experiments.ground_truth.figures import fig5, fig6, fig7, fig8, fig12, table1

STUDIES: dict[str, Study] = {
    one.name: one for one in (fig5.STUDY, fig6.STUDY, fig7.STUDY, fig8.STUDY, table1.STUDY, fig12.FIG12, fig12.FIG13)
}


def find(name: str) -> Study:
    """The experiment of this name."""
    return STUDIES[name]
