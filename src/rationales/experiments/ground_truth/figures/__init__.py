"""The figures and tables of the paper, one file each; `EXPERIMENTS` lists them by name."""

from __future__ import annotations

from rationales.experiments.ground_truth.experiment import GroundTruthExperiment
from rationales.experiments.ground_truth.figures import border, fig5, fig5_confirm, fig6, fig7, fig8, fig12, table1

EXPERIMENTS: dict[str, GroundTruthExperiment] = {
    experiment.name: experiment
    for experiment in (
        fig5.EXPERIMENT,
        fig5_confirm.EXPERIMENT,
        fig6.EXPERIMENT,
        fig7.EXPERIMENT,
        fig8.EXPERIMENT,
        border.EXPERIMENT,
        table1.EXPERIMENT,
        fig12.FIG12,
        fig12.FIG13,
    )
}
