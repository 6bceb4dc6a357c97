"""Changes of a table's rows between two timestamps, as Arrow: FOR SYSTEM_TIME BETWEEN (or FROM ... TO) without SQL.

    changes = table.changes(since)      (since, until]
    ... work on them, keep changes.until ...
    changes = table.changes(until)      continues there: each change exactly once

The table's columns come first, then `_change` ("insert", "update" or "delete") and `_changed_at` (a hybrid timestamp).
An insert or update shows the row after it, a delete the row before it. All changes of a key come one after the other in
the order of time; keys of several tablets are not in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import DataError, ProgrammingError
from ...model.change_columns import change_columns
from ...model.clock import format_timestamp
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Table
from ...model.store import (
    ChangeRange,
    ScanSpec,
    ScanToken,
    Store,
    Timestamp,
)
from .table_scans import Scan


class Changes(Scan):
    """The changes after `since` and up to `until`, both in hybrid time; `until` is the next `since`."""

    def __init__(
        self,
        store: Callable[[], Store],
        columns: Sequence[ColumnSchema],
        tokens: Sequence[ScanToken],
        since: Timestamp,
        until: Timestamp,
        batch_rows: int | None,
    ):
        super().__init__(store, columns, tokens, until, batch_rows=batch_rows)
        self.since = since
        self.until = until


def changes_of(
    store: Callable[[], Store],
    table: Table,
    columns: Sequence[str],
    predicates: Sequence[ColumnPredicate],
    since: Timestamp,
    until: Timestamp,
    *,
    net: bool = False,
    batch_rows: int | None = None,
) -> Changes:
    """Returns every change, or (`net`) the net changes, one row for each key whose state differs.

    Predicates apply to the values shown. Raises `DataError` if `since` is after `until`, `HistoryGone` if the history
    from `since` on has been removed.
    """
    if since > until:
        raise DataError(f"{format_timestamp(since)} comes after {format_timestamp(until)}")
    added = change_columns(until)
    for column in added:
        if column.name in table.schema:
            raise ProgrammingError(f"table {table.name} itself has a column {column.name}; rename it to read changes")
    shown = [*(table.schema.column(name) for name in columns), *added]
    names = tuple(column.name for column in shown)
    spec = ScanSpec(names, tuple(predicates), until, changes=ChangeRange(since, history=not net))
    return Changes(store, shown, store().scan_tokens(table, spec), since, until, batch_rows)
