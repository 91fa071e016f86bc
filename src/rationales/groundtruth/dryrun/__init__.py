"""A dry run: does a method find a cause that is known to be there, in data and a model like yours?"""

from rationales.groundtruth.dryrun.plan import METHODS, PLANT
from rationales.groundtruth.dryrun.result import DryRun, Explained, Outcome, Row
from rationales.groundtruth.dryrun.run import dry_run
from rationales.groundtruth.dryrun.subject import NETWORKS, load_factory
from rationales.groundtruth.dryrun.verdict import VERDICTS, Verdict, judge

__all__ = [
    "METHODS",
    "NETWORKS",
    "PLANT",
    "VERDICTS",
    "DryRun",
    "Explained",
    "Outcome",
    "Row",
    "Verdict",
    "dry_run",
    "judge",
    "load_factory",
]
