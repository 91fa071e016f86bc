"""A visitor's CSV table: its texts, read within the limits and explained together."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rationales.app.jobs import Job
from rationales.app.limits import Limits, check_text
from rationales.app.model_choices import ServedModel
from rationales.app.uploads import decode_upload
from rationales.corpus.reading.tables import BadRow, csv_rows
from rationales.errors import InputError, OptionError
from rationales.pipeline.explain import explain

DEFAULT_COLUMN = "text"


def read_table(upload: str, column: str, limits: Limits) -> tuple[list[str], list[str]]:
    """The texts in a column of a CSV table, and their names ("row 1", …)."""
    file = decode_upload(upload, limits.table_bytes, "the table")
    texts: list[str] = []
    names: list[str] = []
    for row in csv_rows(io.BytesIO(file.content), file.name, delimiter=","):
        if isinstance(row, BadRow):
            raise InputError(f"{row.location}: {row.message}")
        header = list(row.values)
        chosen = chosen_column(header, column, file.name)
        if len(texts) == limits.table_rows:
            raise InputError(f"{file.name} has more than {limits.table_rows:,} rows, the limit of this server; cut it")
        text = check_text(str(row.values[chosen]), limits, f"the text of {row.location}")
        if not text.strip():
            raise InputError(f"{row.location}: the column {chosen!r} is empty; fill it or remove the row")
        texts.append(text)
        names.append(f"row {len(texts)}")
    if not texts:
        raise InputError(f"{file.name} has no rows below its header")
    return texts, names


def chosen_column(header: Sequence[str], column: str, name: str) -> str:
    """The column of the texts: the one that was asked for, else `text`, else the only one."""
    requested = column.strip()
    if requested in header:
        return requested
    if requested:
        raise OptionError(f"{name} has no column {requested!r}; its columns are: {', '.join(header)}")
    if DEFAULT_COLUMN in header:
        return DEFAULT_COLUMN
    if len(header) == 1:
        return header[0]
    raise OptionError(f"which column of {name} holds the texts? Its columns are: {', '.join(header)}")


def check_table_model(served: ServedModel, method: str) -> None:
    """Raise an OptionError for a model that reads no texts, or a method that cannot explain it."""
    if served.noun != "text":
        raise OptionError(f"tables hold texts, and {served.title} reads {served.noun}s; choose a model of texts")
    if method not in served.methods:
        raise OptionError(f"{method!r} cannot explain {served.title}; there is: {', '.join(served.methods)}")


def explain_table(served: ServedModel, texts: Sequence[str], names: Sequence[str], method: str, job: Job) -> None:
    """Explain all texts; the rationales become the results of the job."""
    job.message = method
    with served.lock.long():
        job.report(0.0)
        job.results += explain(
            served.model, list(texts), method=method, curve=True, names=list(names), progress=job.report
        )
