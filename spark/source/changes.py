"""The changes of a table's rows between two times, as a relation.

    since = a time      SELECT ..., _change, _changed_at FROM t FOR SYSTEM_TIME BETWEEN since AND until WHERE ...
    since = BEFORE_ALL  SELECT ..., 'insert', until      FROM t FOR SYSTEM_TIME AS OF until WHERE ...

The second form starts a stream that includes the whole table: the existing rows, as if they had just been inserted. So
it needs none of the table's history; changes after `until` follow by the first form. A condition applies to the values
that a change shows: those after it or, for a delete, before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...driver.connection import Connection
from ...driver.tables.timestamps import hybrid_time
from ...errors import HistoryGone, InterfaceError
from ...model.change_columns import changed_at_type
from ...model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, Timestamp
from ...sql.binding.tables.show_create import quoted_name
from . import partitions, scanning
from .naming import table_name
from .options import SourceOptions
from .relation import Relation, planned, select

BEFORE_ALL: Final = Timestamp(-1)
"""A time before any row existed."""
CHANGE_COLUMNS: Final = (CHANGE_COLUMN, CHANGED_AT_COLUMN)


def plan_changes(
    connection: Connection,
    given: SourceOptions,
    since: Timestamp,
    until: Timestamp,
    columns: Sequence[str] | None = None,
) -> Relation:
    """The changes after `since` and up to `until`.

    `columns`, which may name those of a change, replace the options' columns, which all columns of a change follow.
    """
    return planned(connection, text(connection, given, since, until, columns))


def text(
    connection: Connection,
    given: SourceOptions,
    since: Timestamp,
    until: Timestamp,
    columns: Sequence[str] | None = None,
) -> str:
    """The SELECT for `plan_changes`."""
    if "dbtable" in given and connection.store.view(table_name(connection, given["dbtable"])) is not None:
        raise InterfaceError(f"{given['dbtable']} is a view; changes are read of tables")
    statement = select(connection, given, _of_table(columns, given), _time(since, until), _shown(since, until))
    # In an outer SELECT, so that the columns may be in any order.
    wanted = None if columns is None else ", ".join(map(quoted_name, columns))
    return statement if wanted is None else f"SELECT {wanted} FROM ({statement}\n) AS changes"


def _of_table(columns: Sequence[str] | None, given: SourceOptions) -> Sequence[str] | None:
    if columns is None:
        columns = given["columns"]
    return None if columns is None else [name for name in columns if name not in CHANGE_COLUMNS]


def _time(since: Timestamp, until: Timestamp) -> str:
    if since == BEFORE_ALL:
        return f"FOR SYSTEM_TIME AS OF {until}"
    return f"FOR SYSTEM_TIME BETWEEN {since} AND {until}"


def _shown(since: Timestamp, until: Timestamp) -> list[str]:
    names = [quoted_name(name) for name in CHANGE_COLUMNS]
    if since != BEFORE_ALL:
        return names
    values = ("'insert'", f"CAST({until} AS {changed_at_type(until)})")
    return [f"{value} AS {name}" for value, name in zip(values, names)]


def starting_time(connection: Connection, given: SourceOptions) -> Timestamp:
    """The time for `startingTimestamp`; for 0, the earliest from which the store still has all changes."""
    now = connection.store.now()
    start = given["startingTimestamp"]
    if isinstance(start, str) and start.lower() in ("earliest", "latest"):
        return BEFORE_ALL if start.lower() == "earliest" else now
    time = hybrid_time(start, now)
    return _first_remembered(connection, given, now) if time == 0 else time


def _first_remembered(connection: Connection, given: SourceOptions, now: Timestamp) -> Timestamp:
    """The earliest time since which a table's changes are kept, by bisection: at most 63 queries."""
    if _remembers(connection, given, Timestamp(0), now):
        return Timestamp(0)
    forgotten, known = 0, int(now)
    while known - forgotten > 1:
        middle = (forgotten + known) // 2
        if _remembers(connection, given, Timestamp(middle), now):
            known = middle
        else:
            forgotten = middle
    return Timestamp(known)


def _remembers(connection: Connection, given: SourceOptions, since: Timestamp, until: Timestamp) -> bool:
    try:
        # Every tablet is queried: each has its own ancient history mark.
        for part in _parts(connection, given, since, until):
            scanning.has_rows(connection, part)
    except HistoryGone:
        return False
    return True


def has_changes(
    connection: Connection,
    given: SourceOptions,
    since: Timestamp,
    until: Timestamp,
    columns: Sequence[str] | None = None,
) -> bool:
    """True if a row has changed after `since` and up to `until`; stops reading at the first change."""
    return any(scanning.has_rows(connection, part) for part in _parts(connection, given, since, until, columns))


def _parts(
    connection: Connection,
    given: SourceOptions,
    since: Timestamp,
    until: Timestamp,
    columns: Sequence[str] | None = None,
) -> Sequence[partitions.Part]:
    found = plan_changes(connection, given, since, until, columns)
    assert found.scan is not None
    bare = replace(found.scan, names=(CHANGE_COLUMNS[0],), predicates=(), fragment=b"")
    return partitions.make_parts(connection, replace(found, scan=bare), until)
