"""Conflict checks: rows that another write has changed since a time.

    statement        read at S ──────────── new values ──────────── write, unchanged since S
    others                        write ──┘                          refused: `RowChanged`, read again

    transaction      BEGIN at S ── reads, writes of its own ─────── COMMIT
    others                        write ──┘                          refused: `SerializationFailure`

Both look at the same thing: the timestamps of the located rows. Of a key that exists those of its row suffice, since it
was alive nowhere else while the row was: the insertion into a MemRowSet, mutations, DeltaMemStores, delta files. A key
that does not exist may have been deleted since: its deleted rows stay where they are until their history is collected.
Writes in flight count; as a rule they will have happened.

For a transaction each such key is a conflict. For a statement a row counts as changed if its values differ from those
at S, because the new values would be the same otherwise; deleted rows are not checked, the op decides about them.

The tablet has the timestamp of its newest write. If that is not above S, as without other writers, the check is one
comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import HistoryGone, SerializationFailure
from ...model.clock import format_timestamp
from ...model.keys.key_codec import KeyCodec
from ...model.schema import Table
from ...model.store import Timestamp
from ...model.vectors.vector import Array
from ..rowsets.change_sources import latest_changes
from ..tablet.row_locator import Locations, RowHome, RowLocator, dead_rows
from ..tablet.tablet import Tablet
from .incoming_rows import describe_key


def touched_keys(tablet: Tablet, locator: RowLocator, locations: Locations, since: int) -> Array:
    """Which keys were inserted, updated or deleted after a time, which is not below the ancient history mark: ndarray
    of bool, shape (n_keys,). Needs the tablet's `write_lock`, held since `locations` was made."""
    touched = np.zeros(len(locations.home), np.bool_)
    if tablet.newest <= since:
        return touched
    for number, home in enumerate(locations.homes):
        mine = np.flatnonzero(locations.home == number)
        if len(mine):
            touched[mine] = home.touched(locations.row[mine], since)
    for home, mine, rows in locator.dead_rows(tablet.state, locations):
        touched[mine] |= home.touched(rows, since)
    return touched


def changed_rows(tablet: Tablet, table: Table, locator: RowLocator, locations: Locations, since: int) -> Array:
    """Which keys exist with other values than at a time: ndarray of bool, shape (n_keys,). Below the ancient history
    mark that is unknown, and all that exist are among them. Needs the lock as `touched_keys`."""
    if tablet.newest <= since:
        return np.zeros(len(locations.home), np.bool_)
    if since < tablet.metadata.ancient_history_mark:
        return locations.present
    changed = touched_keys(tablet, locator, locations, since) & locations.present
    for number, home in enumerate(locations.homes):
        mine = np.flatnonzero(changed & (locations.home == number))
        if len(mine):
            source = latest_changes(home, table.schema, since)
            changed[mine] = source.differ(table.schema, locations.row[mine])
    return changed


def refuse_changed_keys(tablet: Tablet, table: Table, locator: RowLocator, locations: Locations, since: int) -> None:
    """Raise `SerializationFailure` where a key was inserted, updated or deleted after a transaction began,
    `HistoryGone` where that is not known any more. Needs the lock as `touched_keys`."""
    if tablet.newest <= since:
        return
    check_age(tablet, since)
    touched = touched_keys(tablet, locator, locations, since)
    if touched.any():
        raise conflict(table, locator.keys.values_at(int(np.argmax(touched))))


def refuse_changed_key(
    tablet: Tablet,
    table: Table,
    codec: KeyCodec,
    key: Sequence[Any],
    index: int | bytes,
    place: tuple[RowHome | None, int, int],
    since: int,
) -> None:
    """`refuse_changed_keys` for one key, where the tablet has been written after `since`, and `check_age` has passed.

    Parameters
    ----------
    key, index
        Physical values, and `codec.index_key` of them.
    place : tuple
        As `locate_row` returns it, under the same lock.
    """
    home, row, ghost = place
    if home is not None:
        is_touched = home.row_touched(row, since)
    else:
        is_touched = any(
            dead.row_touched(row, since) for dead, row in dead_rows(tablet.state, codec, key, index, ghost)
        )
    if is_touched:
        raise conflict(table, tuple(key))


def check_age(tablet: Tablet, since: int) -> None:
    """Raise `HistoryGone` where it is not known any more what was changed after a transaction began."""
    mark = tablet.metadata.ancient_history_mark
    if since < mark:
        raise HistoryGone(
            f"the transaction began at {format_timestamp(Timestamp(since))}, but what was changed in table "
            f"{tablet.table.name} is known only since {format_timestamp(Timestamp(mark))}; retry the transaction"
        )


def conflict(table: Table, key: tuple[Any, ...]) -> SerializationFailure:
    """The error of a transaction, of which another one has changed a row."""
    return SerializationFailure(
        f"row with key {describe_key(table, key)} of table {table.name} was changed by another transaction after this "
        "one began; retry the transaction"
    )
