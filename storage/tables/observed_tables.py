"""Rows of `nyala_catalog` that an embedded store has: tablets, rowsets and operations (`model.observations`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...model.observations import Describing, tablet_rows
from ..maintenance.observed import kind_rows, operation_rows, rowset_rows
from ..maintenance.status import MaintenanceStatus
from .table_store import TableStore


class Maintained(Describing, Protocol):
    """A `Database`."""

    def maintenance_status(self) -> MaintenanceStatus: ...


def observations(kind: str, database: Maintained, stores: Mapping[str, TableStore]) -> Iterable[Mapping[str, Any]]:
    """The rows of one relation.

    Parameters
    ----------
    kind : {"tablets", "rowsets", "operations", "operation_kinds"}
    database : Database
    stores : mapping of str to TableStore
        Its open tables by id.
    """
    if kind == "tablets":
        return tablet_rows(database)
    if kind == "operations":
        return operation_rows(database.maintenance_status())
    if kind == "operation_kinds":
        return kind_rows(database.maintenance_status())
    if kind != "rowsets":
        return ()
    tables = sorted(stores.values(), key=lambda store: store.table.name)
    return rowset_rows(tablet for store in tables for tablet in store.whole_tablets)
