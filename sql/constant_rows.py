"""Rows of constants that are kept column by column: the relations of the system catalogs.

`bound.Values` and the planner's `Values` take them in place of a tuple of rows. As rows they are literals, made when
they are read; planner and executor read the columns instead, because a literal for each of 50,000 values would cost
more than the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from ..model.types import DataType
from .expressions import Expr, Literal


class ConstantRows(Sequence[tuple[Expr, ...]]):
    """Rows of constants.

    Parameters
    ----------
    types : sequence of DataType
        The type of each column.
    columns : sequence of sequences
        The physical values of each column, None for NULL; all of one length.
    size : int
        The number of rows, which rows of no columns need.
    """

    __slots__ = ("columns", "size", "types")

    def __init__(self, types: Sequence[DataType], columns: Sequence[Sequence[Any]], size: int):
        self.types, self.columns, self.size = tuple(types), tuple(columns), size

    def pick(self, places: Sequence[int]) -> ConstantRows:
        """The same rows with some of the columns."""
        return ConstantRows([self.types[i] for i in places], [self.columns[i] for i in places], self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[tuple[Expr, ...]]:
        return map(self._row, range(self.size))

    @overload
    def __getitem__(self, place: int) -> tuple[Expr, ...]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[Expr, ...]]: ...

    def __getitem__(self, place: int | slice) -> tuple[Expr, ...] | Sequence[tuple[Expr, ...]]:
        if isinstance(place, slice):
            return [self._row(i) for i in range(*place.indices(self.size))]
        return self._row(range(self.size)[place])

    def _row(self, place: int) -> tuple[Expr, ...]:
        values = (column[place] for column in self.columns)
        return tuple(Literal(type_, value is None, value) for type_, value in zip(self.types, values, strict=True))
