"""Reproductions of published tables and figures; `EXPERIMENTS` lists them."""

from rationales.experiments.registry import EXPERIMENTS, Experiment, ExperimentReport, Request

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentReport", "Request"]
