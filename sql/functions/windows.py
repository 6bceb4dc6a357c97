"""Window functions, which need OVER: functions of a row's position in its partition, and of other rows of its window.

A builder returns a `Window` without its window definition, which the binder adds.
"""

from __future__ import annotations

from typing import Any

from ...errors import DataError
from ...model.types import BIGINT, DOUBLE, INT, STRING, DataType, Interval, Kind
from ..coercion import convert, unify
from ..expressions import Expr, Literal, Window
from .arguments import whole
from .function import Args, Builder, Function


def check_offset(value: Any) -> None:
    """Raises `DataError` for the offset of a frame that is NULL, NaN or negative."""
    if value is None:
        raise DataError("the offset of a frame must not be NULL")
    if isinstance(value, Interval):
        value = (value.months * 30 + value.days) * 86_400_000_000 + value.microseconds
    if not isinstance(value, str) and not value >= 0:
        raise DataError("the offset of a frame must not be negative")


def _place(type_: DataType) -> Builder:
    """A function of the row's position alone."""
    return lambda function, args: Window(type_, False, function.name)


def _ntile(function: Function, args: Args) -> Expr:
    count = whole(function, args[0])
    return Window(INT, count.nullable, "ntile", (count,))


def _neighbour(function: Function, args: Args) -> Expr:
    """lag and lead: the value, the distance in rows, and the default for a row beyond the partition."""
    distance = whole(function, args[1], 1) if len(args) > 1 else Literal(BIGINT, False, 1)
    values = [args[0], args[2]] if len(args) > 2 else [args[0]]
    type_, found = unify(values, f"the value and the default of {function.name} are of types")
    if type_.kind is Kind.NULL:
        type_, found = STRING, tuple(convert(value, STRING) for value in found)
    return Window(type_, True, function.name, (found[0], distance, *found[1:]))


def _edge(function: Function, args: Args) -> Expr:
    """first_value and last_value."""
    value = convert(args[0], STRING) if args[0].type.kind is Kind.NULL else args[0]
    return Window(value.type, True, function.name, (value,))


def _nth(function: Function, args: Args) -> Expr:
    value = convert(args[0], STRING) if args[0].type.kind is Kind.NULL else args[0]
    return Window(value.type, True, "nth_value", (value, whole(function, args[1], 1)))


def _over(call: str, window: str, values: str) -> str:
    return f"SELECT {call} OVER ({window}) FROM (VALUES {values}) AS t (x) ORDER BY x"


_TIES = "(1), (2), (2), (3)"

WINDOW: tuple[Function, ...] = (
    Function(
        "row_number", "row_number()", 0, 0, _place(BIGINT), kind="window",
        description="The number of the row in its partition, from 1; rows that are peers are numbered in any order",
        example=_over("row_number()", "ORDER BY x DESC", "(10), (20)"), result="2; 1",
    ),
    Function(
        "rank", "rank()", 0, 0, _place(BIGINT), kind="window",
        description="The row's rank with gaps, the row number of its first peer: 1, 2, 2, 4",
        example=_over("rank()", "ORDER BY x", _TIES), result="1; 2; 2; 4",
    ),
    Function(
        "dense_rank", "dense_rank()", 0, 0, _place(BIGINT), kind="window",
        description="The row's rank without gaps, the number of its group of peers: 1, 2, 2, 3",
        example=_over("dense_rank()", "ORDER BY x", _TIES), result="1; 2; 2; 3",
    ),
    Function(
        "percent_rank", "percent_rank()", 0, 0, _place(DOUBLE), kind="window",
        description="(rank - 1) / (rows of the partition - 1), and 0 for a single row",
        example=_over("percent_rank()", "ORDER BY x", "(1), (2), (3)"), result="0; 0.5; 1",
    ),
    Function(
        "cume_dist", "cume_dist()", 0, 0, _place(DOUBLE), kind="window",
        description="The share of the partition's rows that come before the row or are its peers",
        example=_over("cume_dist()", "ORDER BY x", _TIES), result="0.25; 0.75; 0.75; 1",
    ),
    Function(
        "ntile", "ntile(buckets)", 1, 1, _ntile, kind="window",
        description="The number of the row's bucket, from 1, of n equal buckets of the partition; if the rows "
            "do not divide evenly, the first buckets have one row more",
        example=_over("ntile(2)", "ORDER BY x", "(1), (2), (3)"), result="1; 1; 2",
    ),
    Function(
        "lag", "lag(value [, rows [, default]])", 1, 3, _neighbour, kind="window",
        takes_ignore_nulls=True,
        description="The value in the row n rows (by default 1) before, or the default (NULL) if there is none",
        example=_over("lag(x, 1, 0)", "ORDER BY x", "(10), (20), (30)"), result="0; 10; 20",
    ),
    Function(
        "lead", "lead(value [, rows [, default]])", 1, 3, _neighbour, kind="window",
        takes_ignore_nulls=True,
        description="The value in the row n rows (by default 1) after, or the default (NULL) if there is none",
        example=_over("lead(x)", "ORDER BY x", "(10), (20), (30)"), result="20; 30; NULL",
    ),
    Function(
        "first_value", "first_value(value)", 1, 1, _edge, kind="window",
        reads_frame=True, takes_ignore_nulls=True,
        description="The value in the first row of the frame",
        example=_over("first_value(x)", "ORDER BY x", "(10), (20)"), result="10; 10",
    ),
    Function(
        "last_value", "last_value(value)", 1, 1, _edge, kind="window",
        reads_frame=True, takes_ignore_nulls=True,
        description="The value in the last row of the frame, which without a frame clause ends with the row's peers",
        example=_over("last_value(x)", "ORDER BY x", "(10), (20)"), result="10; 20",
    ),
    Function(
        "nth_value", "nth_value(value, n)", 2, 2, _nth, kind="window",
        reads_frame=True, takes_ignore_nulls=True,
        description="The value in the nth row of the frame, from 1; NULL if the frame has fewer rows",
        example=_over("nth_value(x, 2)", "ORDER BY x", "(10), (20), (30)"), result="NULL; 20; 20",
    ),
)  # fmt: skip
