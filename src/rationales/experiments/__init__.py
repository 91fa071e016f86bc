"""Published tables, made again: all of them stand in `EXPERIMENTS`."""

from rationales.experiments.registry import EXPERIMENTS, Experiment, Outcome, Request

__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "Request"]
