"""Batches made from rows: the Python values of a short scan, in the form of other scans' batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..arrow_arrays import arrow_array
from ..types import DataType
from .vector import Array, Batch, LazyColumn, Vector, vector_from_arrow


class RowBatch(Batch):
    """A batch of rows of Python values; a column is made of them at first access.

    Parameters
    ----------
    rows : list of tuple
        Values as Arrow's `to_pylist` gives them.
    types : sequence of DataType
        Of the columns.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: list[tuple[Any, ...]], types: Sequence[DataType]):
        columns = [LazyColumn(partial(_column_of_rows, rows, place, type_)) for place, type_ in enumerate(types)]
        super().__init__(columns, len(rows))
        self._rows = rows

    def rows(self) -> list[tuple[Any, ...]]:
        return self._rows


def _column_of_rows(rows: Sequence[tuple[Any, ...]], place: int, type_: DataType, chosen: Array | None) -> Vector:
    vector = vector_from_arrow(type_, arrow_array([row[place] for row in rows], type_.arrow))
    return vector if chosen is None else vector.take(chosen)
