"""Checks answers: against the TPC's answer sets at scale factor 1, against DuckDB at any other.

Both check the same properties of a result: the number of rows; the ORDER BY columns, row by row; and within each run of
rows that the ORDER BY leaves tied, the same rows in any order. (Rows cut by a LIMIT within a tie are exempt: any of
them is right.) They differ in the comparison of numbers: see `OFFICIAL` and `PEER`.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa

from ..model.lazy_dataclass import dataclass
from .queries import Query

Row: TypeAlias = tuple[Any, ...]
Same: TypeAlias = Callable[[Any, Any], bool]
"""True if `ours` is an acceptable value for `theirs`."""

HALF_A_CENT = decimal.Decimal("0.005")
Q17_TOLERANCE = decimal.Decimal("0.035")
"""The answer set has 348406.02 where exact arithmetic gives 348406.05 (see answers/README.md)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a result, in one sentence."""

    query: int
    text: str

    def __str__(self) -> str:
        return f"Q{self.query}: {self.text}"


def official(query: Query, ours: pa.Table) -> Difference | None:
    """Compares with the TPC's answer at scale factor 1; None if it agrees.

    Counts and keys must be equal. Decimal numbers are printed there with two digits: nyala's may differ by half a cent.
    """
    theirs = read_answer(query.answer)
    tolerance = Q17_TOLERANCE if query.number == 17 else HALF_A_CENT
    return _difference(query, _rows(ours), theirs, lambda a, b: _same_as_printed(a, b, tolerance))


def read_answer(text: str) -> list[Row]:
    """The rows of an answer file: cells separated by `|` and padded with blanks, below one header line."""
    lines = text.splitlines()[1:]
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines if line.strip()]


def _same_as_printed(ours: Any, printed: str, tolerance: decimal.Decimal) -> bool:
    if isinstance(ours, float | decimal.Decimal):
        # A float's own rounding error at the size of these sums is far below a millionth.
        slack = tolerance + (decimal.Decimal("0.000001") if isinstance(ours, float) else 0)
        return abs(decimal.Decimal(ours) - decimal.Decimal(printed)) <= slack
    if isinstance(ours, int):
        return decimal.Decimal(printed) == ours
    return str(ours).strip() == printed


def compare(query: Query, ours: pa.Table, theirs: pa.Table, *, cut: bool = False) -> Difference | None:
    """Compares with another engine's result on the same data; None if it agrees.

    Numbers may differ by a relative 1e-9, because floats are added in another order. They may differ by half a unit in
    the last decimal place if one side rounds to it. With `cut`, they may differ by a whole unit, for engines that
    truncate averages.
    """
    if ours.num_columns != theirs.num_columns:
        return Difference(query.number, f"{ours.num_columns} columns instead of {theirs.num_columns}")
    same = (lambda a, b: same_value(a, b, unit=1.0)) if cut else same_value
    return _difference(query, _rows(ours), _rows(theirs), same)


def same_value(ours: Any, theirs: Any, unit: float = 0.5) -> bool:
    """Equal, or numbers that differ by rounding only: by `unit` of the last decimal place of the side that has fewer.

    >>> same_value(decimal.Decimal("0.33"), 1 / 3), same_value(1.0, 1.0 + 1e-12), same_value(2, 3)
    (True, True, False)
    """
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float | decimal.Decimal) or isinstance(theirs, float | decimal.Decimal):
        if not isinstance(ours, int | float | decimal.Decimal) or not isinstance(theirs, int | float | decimal.Decimal):
            return False
        return _close(ours, theirs, unit)
    return bool(ours == theirs)


def _close(ours: float | decimal.Decimal, theirs: float | decimal.Decimal, unit: float) -> bool:
    if isinstance(ours, decimal.Decimal) and isinstance(theirs, decimal.Decimal) and _scale(ours) == _scale(theirs):
        return ours == theirs
    scales = [_scale(v) for v in (ours, theirs) if isinstance(v, decimal.Decimal)]
    rounding = unit * 10.0 ** -min(scales) * (1 + 1e-9) if scales else 0.0
    return math.isclose(float(ours), float(theirs), rel_tol=1e-9, abs_tol=rounding)


def _scale(value: decimal.Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


# ---- rows ----------------------------------------------------------------------------------------------------------


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns)))


def _difference(query: Query, ours: list[Row], theirs: list[Row], same: Same) -> Difference | None:
    """The first difference between two results; None if there is none."""
    if len(ours) != len(theirs):
        return Difference(query.number, f"{len(ours)} rows instead of {len(theirs)}")
    for number, (a, b) in enumerate(zip(ours, theirs), 1):
        if len(a) != len(b):
            return Difference(query.number, f"{len(a)} columns instead of {len(b)}")
        for column in query.order:
            if not same(a[column], b[column]):
                return _at(query, number, column, a[column], b[column])
    start = 0
    for _, tied in groupby(theirs, key=lambda row: tuple(row[column] for column in query.order)):
        stop = start + len(list(tied))
        if stop < len(theirs) or query.limit is None or len(theirs) < query.limit:
            wrong = _unmatched(ours[start:stop], theirs[start:stop], same)
            if wrong is not None:
                return _explain(query, start, ours[start:stop], *wrong, same)
        start = stop
    return None


def _unmatched(ours: Sequence[Row], theirs: Sequence[Row], same: Same) -> tuple[int, Row] | None:
    """The first of `theirs`, with its position, that no row of `ours` equals; each of ours is matched once."""
    left = list(range(len(ours)))
    for place, row in enumerate(theirs):
        # Ties are short, and most rows are at the same position on both sides: this is linear in practice.
        for candidate in left:
            if all(map(same, ours[candidate], row)):
                left.remove(candidate)
                break
        else:
            return place, row
    return None


def _explain(query: Query, start: int, ours: Sequence[Row], place: int, row: Row, same: Same) -> Difference:
    if len(ours) > 1:
        return Difference(query.number, f"no row equals {row!r} (row {start + place + 1} or one tied with it)")
    for column, (a, b) in enumerate(zip(ours[0], row)):
        if not same(a, b):
            return _at(query, start + 1, column, a, b)
    raise AssertionError("a row that is not unmatched")


def _at(query: Query, row: int, column: int, ours: Any, theirs: Any) -> Difference:
    return Difference(query.number, f"row {row}, column {column + 1}: {ours!s} instead of {theirs!s}")
