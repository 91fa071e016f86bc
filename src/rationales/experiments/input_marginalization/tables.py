"""The tables by name, and the entrance that the list of experiments uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rationales.experiments.input_marginalization import appendix, sanity, table1, table2, table3, table4
from rationales.experiments.input_marginalization.rows import DELETION_ROWS, PAIR_ROWS
from rationales.experiments.input_marginalization.workspace import Workspace
from rationales.experiments.registry import ExperimentReport, Request

TABLES: dict[str, Callable[[Workspace], ExperimentReport]] = {
    "im-table1a": table1.table1a,
    "im-table1b": table1.table1b,
    "im-table2": table2.table2,
    "im-table3": table3.table3,
    "im-table4": table4.table4,
    "im-sanity": sanity.sanity,
    "im-appendix": appendix.appendix,
}


def row_names(name: str) -> Sequence[str]:
    """The names that `Request.rows` accepts."""
    if name in ("im-table1a", "im-table1b"):
        return DELETION_ROWS
    if name == "im-table3":
        return table3.ROWS_ON_SST
    return tuple(appendix.PARTS) if name == "im-appendix" else PAIR_ROWS


def reproduce(name: str, request: Request) -> ExperimentReport:
    """One table."""
    with matrix_precision(request.tf32):
        return TABLES[name](Workspace(request))


@contextmanager
def matrix_precision(tf32: bool) -> Iterator[None]:
    """TF32 matrix products inside the block, if `tf32`."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
