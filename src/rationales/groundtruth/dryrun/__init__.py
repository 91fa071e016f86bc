"""A dry run: which methods find a known cause, in the user's data and in a network like the user's?"""

from rationales.groundtruth.dryrun.execution import dry_run
from rationales.groundtruth.dryrun.network_under_test import NETWORKS, load_factory
from rationales.groundtruth.dryrun.results import DryRun, ExplainedInput, MethodResult, PlantResult
from rationales.groundtruth.dryrun.settings import DEFAULT_METHODS, DEFAULT_PLANT
from rationales.groundtruth.dryrun.verdict import VERDICTS, MethodVerdict, judge

__all__ = [
    "DEFAULT_METHODS",
    "DEFAULT_PLANT",
    "NETWORKS",
    "VERDICTS",
    "DryRun",
    "ExplainedInput",
    "MethodResult",
    "MethodVerdict",
    "PlantResult",
    "dry_run",
    "judge",
    "load_factory",
]
