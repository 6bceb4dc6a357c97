"""Which rows of a batch another write has changed since its caller read them: what keeps two UPDATEs of one row, at the
same time, from losing one of the changes.

    statement        read at S ──────────── new values ──────────── write, unchanged since S
    others                        write ──┘                          refused: `RowChanged`, read again

A row counts as changed if it has other values now than it had at S. One that came back to them meanwhile does not: what
the caller has made of them would be the same. A row that is gone is no business of this check: the op says what
becomes of that.

The tablet knows the time of its newest write. As long as that is not above S, as where nobody else writes, the check is
one comparison. Otherwise the rows are looked up one by one, by the short way of `single_rows.row_read`, with the
tablet's `write_lock` held. So of more than `CHECKED_ROWS` none is looked at: a statement that changes so many rows of a
tablet is no short one, and would hold up everybody for longer than it should.
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
"""A time above all others: what is logged and not decided yet counts, too."""


def changed_rows(tablet: Tablet, table: Table, keys: Keys, rows: Sequence[int], since: int) -> list[int]:
    """Those of some rows (places in `keys`) that have other values now than they had at a time, ascending as they come.
    Needs the tablet's `write_lock`."""
    if tablet.newest <= since or len(rows) > CHECKED_ROWS:
        return []
    if since < tablet.metadata.ancient_history_mark:
        return list(rows)  # nobody can say any more: it is to be read again
    codec = KeyCodec(tuple(column.type for column in table.schema.key))
    columns = table.schema.columns[table.schema.key_columns :]
    state = tablet.state
    found = []
    for row in rows:
        key = keys.values_at(row)
        now = find_row(state, codec, key, columns, _LAST)
        if now is not None and now != find_row(state, codec, key, columns, since):
            found.append(row)
    return found
