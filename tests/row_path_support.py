"""The choice between rows and batches in writes of few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nyala.storage.writing import tablet_part


@contextmanager
def few_rows(limit: int) -> Iterator[None]:
    """Write up to `limit` rows one by one; -1: all as batches."""
    before, tablet_part.FEW_ROWS = tablet_part.FEW_ROWS, limit
    try:
        yield
    finally:
        tablet_part.FEW_ROWS = before


def batches_only() -> Iterator[None]:
    """A fixture: all writes are made as batches."""
    with few_rows(-1):
        yield


def both_paths(request) -> Iterator[None]:
    """A fixture with params: few rows one by one, or as batches."""
    with few_rows({"rows": tablet_part.FEW_ROWS, "batches": -1}[request.param]):
        yield
