"""Metrics that randomise or retrain the model: each makes a table of its own. `STUDIES` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.entries import resolve_entries
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import DELETE, FILL
from rationales.evaluation.retraining.roar import roar
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.sanity.check import SanitySettings, check_no_maskers, sanity_check
from rationales.evaluation.tables.table import Table
from rationales.options import suggestion


@dataclass(frozen=True)
class Study:
    """How a study runs, and its settings."""

    run: Callable[..., Table]
    settings: type[Any]
    arguments: Mapping[str, Any]
    takes_training_data: bool = False


STUDIES: dict[str, Study] = {
    "roar": Study(roar, RetrainingSettings, {"removal": DELETE}, takes_training_data=True),
    "roar-bert": Study(roar, RetrainingSettings, {"removal": FILL}, takes_training_data=True),
    "sanity": Study(sanity_check, SanitySettings, {"cascade": False}),
    "sanity-cascade": Study(sanity_check, SanitySettings, {"cascade": True}),
}


def split_studies(metrics: Sequence[str] | None) -> tuple[list[str], list[str] | None]:
    """Names of studies, and the other names; None for the latter if metrics are the default ones."""
    if metrics is None:
        return [], None
    studies = [name for name in metrics if name in METRICS and METRICS[name].kind == "study"]
    return studies, [name for name in metrics if name not in studies]


def check_study_settings(names: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise an OptionError where a setting is none of these studies', or has no such value."""
    known = {spec.name: spec for name in names for spec in fields(STUDIES[name].settings)}
    for name in settings:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise OptionError(f"there is no setting {name!r}{suggestion(name, known)}; the settings are: {listed}")
    for name in names:
        study_settings(name, settings)


def check_training_data(names: Sequence[str]) -> None:
    """Raise an OptionError where training examples are given and none of these studies trains."""
    if not any(STUDIES[name].takes_training_data for name in names):
        trained = " or ".join(name for name, study in STUDIES.items() if study.takes_training_data)
        raise OptionError(
            f"training examples (train=..., --train) are for {trained}; request one of them, or leave them out"
        )


def check_study_methods(names: Sequence[str], methods: Sequence[Any], kind: str) -> None:
    """Raise an OptionError for a method that one of these studies cannot measure; no model has to be loaded."""
    if any(STUDIES[name].run is sanity_check for name in names):
        check_no_maskers([entry.method for entry in resolve_entries(methods, None, kind)])


def setting_names(name: str) -> list[str]:
    """Names of the settings of a study."""
    return [spec.name for spec in fields(STUDIES[name].settings)]


def study_settings(name: str, settings: Mapping[str, Any]) -> Any:
    """The settings object of a study; settings of other studies are left out."""
    kind = STUDIES[name].settings
    return kind(**{spec.name: settings[spec.name] for spec in fields(kind) if spec.name in settings})


def run_study(
    name: str,
    model: Any,
    examples: Sequence[Any],
    methods: Sequence[Any],
    *,
    study: Mapping[str, Any] | None = None,
    train: Sequence[Any] | None = None,
    filler: Any = None,
    **options: Any,
) -> Table:
    """Run one study; the arguments are those of `evaluate`."""
    entry = STUDIES[name]
    if entry.takes_training_data:
        options |= {"train": train, "filler": filler}
    return entry.run(model, examples, methods, settings=study_settings(name, study or {}), **entry.arguments, **options)
