"""Rationales beside the texts of a table: a pandas DataFrame, or a data set of Hugging Face `datasets`.

frame = explain_frame(model, frame, column="review", method="occlusion")
dataset = dataset.map(dataset_columns(model, column="review"), batched=True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rationales.errors import OptionError
from rationales.models.load import as_model
from rationales.pipeline.explain import explain
from rationales.rationale import Rationale

if TYPE_CHECKING:
    import pandas as pd


def rationale_columns(rationales: Sequence[Rationale], prefix: str = "rationale") -> dict[str, list[Any]]:
    """Columns of plain values, one for each rationale of a text.

    `PREFIX`: the texts of the spans, joined by " … "; `PREFIX_target`; `PREFIX_probability` of the target in the full
    text, `PREFIX_alone` given the rationale alone and `PREFIX_without` given everything else; `PREFIX_spans`: lists of
    [start, end] in characters; `PREFIX_words` and `PREFIX_scores`.
    """
    spans = [rationale.spans() for rationale in rationales]

    def probability(name: str) -> list[float]:
        return [float(rationale.probabilities[name][rationale.target]) for rationale in rationales]

    return {
        prefix: [" … ".join(span.text for span in text_spans) for text_spans in spans],
        f"{prefix}_target": [rationale.target for rationale in rationales],
        f"{prefix}_probability": probability("full"),
        f"{prefix}_alone": probability("rationale"),
        f"{prefix}_without": probability("complement"),
        f"{prefix}_spans": [[[span.start, span.end] for span in text_spans] for text_spans in spans],
        f"{prefix}_words": [[unit.text for unit in rationale.words] for rationale in rationales],
        f"{prefix}_scores": [[float(score) for score in rationale.scores] for rationale in rationales],
    }


def explain_frame(
    model: Any, frame: pd.DataFrame, column: str = "text", *, prefix: str = "rationale", **options: Any
) -> pd.DataFrame:
    """A copy of a DataFrame with the columns of `rationale_columns` for the texts in `column`.

    `options`: those of `rationales.explain`, such as method="occlusion" or target=frame["label"].
    """
    _check_columns(list(frame.columns), column, prefix)
    rationales = explain(model, frame[column].tolist(), **options)
    return frame.assign(**rationale_columns(rationales, prefix))


@dataclass(frozen=True)
class DatasetColumns:
    """A function for `Dataset.map(..., batched=True)`: columns of a batch -> the columns of `rationale_columns`."""

    model: Any
    column: str = "text"
    prefix: str = "rationale"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        _check_columns(list(batch), self.column, self.prefix)
        texts = batch[self.column]
        if isinstance(texts, str):
            raise OptionError("call map with batched=True, so that texts are explained together")
        return rationale_columns(explain(self.model, list(texts), **self.options), self.prefix)


def dataset_columns(model: Any, column: str = "text", *, prefix: str = "rationale", **options: Any) -> DatasetColumns:
    """The function that `Dataset.map` of Hugging Face `datasets` calls; `options`: those of `rationales.explain`."""
    return DatasetColumns(as_model(model), column, prefix, options)


def _check_columns(columns: Sequence[str], column: str, prefix: str) -> None:
    if column not in columns:
        raise OptionError(f"there is no column {column!r}; the columns are: {', '.join(map(str, columns))}")
    if prefix in columns:
        raise OptionError(f"the table has a column {prefix!r} already; choose another prefix")
