"""Conflict check: rows of a batch that another write has changed since its caller read them. It prevents two concurrent
UPDATEs of one row from losing one of the changes.

    statement        read at S ──────────── new values ──────────── write, unchanged since S
    others                        write ──┘                          refused: `RowChanged`, read again

A row counts as changed if its values differ from those at S. A row that has its old values again does not, because the
caller's new values would be the same. Deleted rows are not checked here: the op decides about them.

The tablet has the timestamp of its newest write. If that is not above S, as without other writers, the check is one
comparison. Otherwise the rows are looked up one by one, by the row path of `single_rows.row_read`, with the tablet's
`write_lock` held. So a batch of more than `CHECKED_ROWS` rows of a tablet is not checked: this would block other
writers for too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...model.keys.key_codec import KeyCodec
from ...model.keys.keys import Keys
from ...model.schema import Table
from ..single_rows.row_read import find_row
from ..tablet.tablet import Tablet

CHECKED_ROWS: Final = 10_000
"""Rows of one tablet; of a larger batch none is checked."""
_LAST: Final = (1 << 63) - 1
"""A timestamp above all others: logged and undecided writes count, too."""


def changed_rows(tablet: Tablet, table: Table, keys: Keys, rows: Sequence[int], since: int) -> list[int]:
    """Those of some rows (places in `keys`) that have other values now than they had at a time, ascending as they come.
    Needs the tablet's `write_lock`."""
    if tablet.newest <= since or len(rows) > CHECKED_ROWS:
        return []
    if since < tablet.metadata.ancient_history_mark:
        return list(rows)  # unknown: the statement must read again
    codec = KeyCodec(tuple(column.type for column in table.schema.key))
    columns = table.schema.columns[table.schema.key_columns :]
    state = tablet.state
    changed = []
    for row in rows:
        key = keys.values_at(row)
        now = find_row(state, codec, key, columns, _LAST)
        if now is not None and now != find_row(state, codec, key, columns, since):
            changed.append(row)
    return changed
