"""Batches of a stream with a row limit: computes the end of the next batch.

    changes     by time: a batch ends where a write ended, as the rows of one write have one time
    earliest    the existing rows as of one time, by key: {"ts": -1, "snapshot": t, "after": [literal, ...]}

The offset of a page of `earliest` has the last key that was read, as SQL literals. When all rows of the snapshot have
been read, the offset is {"ts": t}, and changes follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...driver.connection import Connection
from ...model.schema import ColumnSchema, Table
from ...model.store import CHANGED_AT_COLUMN, Timestamp
from ...planner.explaining.expression_text import literal_text
from ...sql.binding.tables.show_create import quoted_name
from . import changes
from .naming import condition, table_name
from .options import SourceOptions

TIME: Final = "ts"
SNAPSHOT: Final = "snapshot"
AFTER: Final = "after"
Offset = Mapping[str, Any]


def end_of_changes(
    connection: Connection, given: SourceOptions, since: Timestamp, until: Timestamp, most: int
) -> dict[str, Any]:
    """The offset with at most `most` changes after `since`, or with a single larger write."""
    text = changes.text(connection, given, since, until, [CHANGED_AT_COLUMN])
    name = quoted_name(CHANGED_AT_COLUMN)
    found = connection.execute(f"SELECT {name} FROM ({text}\n) AS changes ORDER BY 1 LIMIT {most + 1}").arrow()
    times = found.column(0).to_numpy()
    if len(times) <= most:
        return {TIME: until}
    whole = times[times < times[-1]]
    last = whole[-1] if len(whole) else times[-1]
    return {TIME: int(np.int64(last))}


def end_of_page(
    connection: Connection, given: SourceOptions, start: Offset, until: Timestamp, most: int
) -> dict[str, Any]:
    """The offset after the next `most` rows of a snapshot; that of the whole snapshot, if fewer remain."""
    snapshot = Timestamp(start.get(SNAPSHOT, until))
    key = _key(connection, given)
    if not key:
        return {TIME: snapshot}
    paged = narrowed(connection, given, start, {TIME: snapshot})
    names = [column.name for column in key]
    listed = ", ".join(map(quoted_name, names))
    text = changes.text(connection, paged, changes.BEFORE_ALL, snapshot, names)
    order = f"ORDER BY {listed} LIMIT 2 OFFSET {most - 1}"
    last = connection.execute(f"SELECT {listed} FROM ({text}\n) AS rows {order}").fetchall()
    if len(last) < 2:
        return {TIME: snapshot}
    literals = [literal_text(c.type.to_physical(value), c.type) for c, value in zip(key, last[0], strict=True)]
    return {TIME: int(changes.BEFORE_ALL), SNAPSHOT: int(snapshot), AFTER: literals}


def snapshot_of(start: Offset, end: Offset) -> Timestamp:
    """The snapshot timestamp of the rows between two offsets of `earliest`."""
    return Timestamp(end[SNAPSHOT] if end[TIME] == changes.BEFORE_ALL else end[TIME])


def narrowed(connection: Connection, given: SourceOptions, start: Offset, end: Offset) -> SourceOptions:
    """The options restricted to the rows of a snapshot whose keys are after one offset and not after the other."""
    names = [column.name for column in _key(connection, given)]
    conditions = [condition(given["where"])] if "where" in given else []
    if AFTER in start:
        conditions.append(_behind(names, start[AFTER]))
    if AFTER in end:
        conditions.append(f"NOT ({_behind(names, end[AFTER])})")
    if not conditions:
        return given
    return given.replaced(where=" AND ".join(f"({one}\n)" for one in conditions))


def _behind(names: Sequence[str], literals: Sequence[str]) -> str:
    """The condition that a key follows another, in the order of its columns."""
    quoted = [quoted_name(name) for name in names]
    alternatives = []
    for place, name in enumerate(quoted):
        same = [f"{one} = {literal}" for one, literal in zip(quoted[:place], literals)]
        alternatives.append(" AND ".join([*same, f"{name} > {literals[place]}"]))
    return f"{quoted[0]} >= {literals[0]} AND ({' OR '.join(f'({one})' for one in alternatives)})"


def _key(connection: Connection, given: SourceOptions) -> tuple[ColumnSchema, ...]:
    """The key's columns; none if the store numbers the rows itself, as no condition can name that column."""
    table: Table = connection.store.table(table_name(connection, given["dbtable"]))
    visible = {column.name for column in table.schema.visible_columns}
    key = tuple(table.schema.key)
    return key if all(column.name in visible for column in key) else ()
