"""Binds FOR SYSTEM_TIME: the rows of a table as of a time, or the changes of its rows.

    FOR SYSTEM_TIME AS OF t           the rows at t
    FOR SYSTEM_TIME BETWEEN a AND b   every change after a and up to b, by `ChangeRange(a, history=True)`
    FOR SYSTEM_TIME FROM a TO b       the rows whose state differs between a and b, by `ChangeRange(a)`

A time is a constant: a hybrid timestamp as a whole number, which is exact; or a TIMESTAMP (a DATE, a text), which means
the end of its microsecond, so that all writes within it are visible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import DataError, StatementError, TypeMismatch
from ....model.change_columns import change_columns
from ....model.clock import format_timestamp, make_timestamp, split_timestamp
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.schema import Schema, Table
from ....model.store import ChangeRange, Timestamp
from ....model.types import DATE, STRING, TIMESTAMP
from ...bound import TimeTravel
from ...coercion import convert
from ...expressions import Literal
from ..context import Context, Frame
from ..scope import Scope

_LAST_LOGICAL = 4095
_CLAUSE = "FOR SYSTEM_TIME"


def bind_time(node: exp.Version, table: Table, context: Context) -> tuple[Table, TimeTravel]:
    """The time of a table's use, and the table with the columns of this use.

    Raises `TypeMismatch` if a time is not a constant point in time, `DataError` if it is in the future.
    """
    if table.namespace == TEMPORARY_NAMESPACE:
        with context.at(node):
            raise StatementError(
                f"{table.local_name} is a temporary table, whose past is not kept; leave {_CLAUSE} out"
            )
    times = node.expression.expressions if isinstance(node.expression, exp.Tuple) else [node.expression]
    moments = [_moment(time, context) for time in times]
    excerpt = str(context.located(StatementError(""), node.expression))
    if len(moments) == 1:
        return table, TimeTravel(table, moments[0], None, excerpt)
    since, until = moments
    with context.at(node.expression):
        if since > until:
            raise DataError(f"{_shown(since)} comes after {_shown(until)}")
    changes = ChangeRange(since, history=node.text("kind") == "BETWEEN")
    return _with_changes(table, until, changes.history), TimeTravel(table, until, changes, excerpt)


def _moment(node: Any, context: Context) -> Timestamp:
    with context.at(node):
        time = Frame(context, Scope(), _CLAUSE).bind(node)
        if isinstance(time, Literal) and time.type in (STRING, DATE):
            time = convert(time, TIMESTAMP)
        if isinstance(time, Literal) and time.value is None:
            raise TypeMismatch(
                f"{_CLAUSE} needs a point in time, and this is NULL; the last_timestamp of a connection is None until "
                "it writes: connection.now() is the store's time now"
            )
        if not isinstance(time, Literal):
            raise TypeMismatch(f"{_CLAUSE} needs a constant: a TIMESTAMP, or a BIGINT of hybrid time")
        if time.type == TIMESTAMP:
            return _end_of_microsecond(time.value, context)
        if not time.type.is_integer and not (time.type.is_decimal and not time.type.scale):
            raise TypeMismatch(f"{_CLAUSE} needs a TIMESTAMP, or a BIGINT of hybrid time, not {time.type}")
        return _passed(Timestamp(time.value), context)


def _end_of_microsecond(microseconds: int, context: Context) -> Timestamp:
    now = context.now()
    if microseconds == split_timestamp(now)[0]:
        return now  # the microsecond has not ended yet: use the latest timestamp
    return _passed(make_timestamp(microseconds, _LAST_LOGICAL), context)


def _passed(time: Timestamp, context: Context) -> Timestamp:
    if time > context.now():
        raise DataError(f"{_shown(time)} is in the future: it is only {format_timestamp(context.now())}")
    return Timestamp(max(0, time))  # before 1970 tables are empty, as at 0


def _shown(time: Timestamp) -> str:
    microseconds, logical = split_timestamp(time)
    return format_timestamp(make_timestamp(microseconds, logical if logical != _LAST_LOGICAL else 0))


def _with_changes(table: Table, until: Timestamp, history: bool) -> Table:
    """The table with the columns of a diff scan.

    In the full history a row is identified by its key, the time and the kind of the change; the key alone is not
    unique.
    """
    schema, added = table.schema, change_columns(until)
    for column in added:
        if column.name in schema:
            raise StatementError(f"table {table.name} itself has a column {column.name}; rename it to read changes")
    if not history:
        return replace(table, schema=Schema((*schema.columns, *added), schema.key_columns))
    place = schema.key_columns - (schema.auto_increment is not None)  # the auto-increment column is the last of a key
    columns = (*schema.columns[:place], *added, *schema.columns[place:])
    return replace(table, schema=Schema(columns, schema.key_columns + len(added)))
