"""Damage that is found while a store is open: named by table and tablet, logged once, and left to what needs the file.

    reader of a page ── CorruptionError: file, place, cause ──► `DamageNotes` ── the same, and whose file it is,
                                                                    │            and what to do about it
                                                                    └──► one line of the log for each file

The tablet is not put into quarantine. Each page and each delta block has a checksum of its own, so nothing wrong is
read, and all else of the tablet is as good as before: what needs the damaged place fails, everything else works. Where
the file is read once more and is whole (a bit that turned over in memory), nothing has happened.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from ...errors import CorruptionError
from ..maintenance.status import QuarantinedTablet
from .table_store import TableStore

_log = logging.getLogger("nyala.storage")


class DamageNotes:
    """Names damage; see the module's page. Safe for several threads.

    Parameters
    ----------
    stores : mapping of str to TableStore
        The open tables by id, as they are at any time.
    """

    def __init__(self, stores: Mapping[str, TableStore]):
        self._stores = stores
        self._lock = threading.Lock()
        self._logged: set[str] = set()

    def __call__(self, error: CorruptionError) -> CorruptionError:
        """The error with table, tablet and advice; the same where the file is none of an open table."""
        table_id, tablet_id, _, name = ("", "", "", *error.path.split("/"))[-4:]
        store = self._stores.get(table_id)
        if store is None:
            return error
        table = store.table.name
        cause = str(error).removeprefix(f"{error.path}: {error.place}: ")
        with self._lock:
            is_new = error.path not in self._logged
            self._logged.add(error.path)
        if is_new:
            message = "table %s: tablet %s: %s is damaged; what needs it fails, all else works: %s: %s"
            _log.error(message, table, tablet_id, name, error.place, cause)
        return CorruptionError(
            f"{cause}; the file belongs to tablet {tablet_id} of table {table}, and all that does not need it works: "
            "close the store and restore the file, save the rows that can be read with nyala fs salvage, or drop the "
            "table",
            error.path,
            error.place,
        )


def quarantined(stores: Sequence[TableStore]) -> tuple[QuarantinedTablet, ...]:
    """The tablets in quarantine."""
    return tuple(
        QuarantinedTablet(tablet.table.name, tablet.id, str(tablet.damage))
        for store in stores
        for tablet in store.tablets
        if tablet.damage is not None
    )
