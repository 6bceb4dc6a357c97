"""Rows of a table under a transaction's own ones: those of the store, of no table yet, or of a table before its ALTER.

the store                 tables that the transaction has not changed
NewTable                  a table that it has created: no rows
altered_source            a table that it has altered: the store's rows in the new schema
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from ...errors import InternalError
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.store import (
    ColumnStorage,
    Replica,
    ScanBatches,
    ScanCounters,
    ScanSpec,
    ScanToken,
    TableStatistics,
    TableStorage,
    TabletDescription,
    Timestamp,
)
from ..tables.catalog import CatalogEntry


class TableSource(Protocol):
    """The part of a `Store` that reads one table."""

    def statistics(self, table: Table) -> TableStatistics:
        """As `Store.statistics`; so all methods."""

    def table_storage(self, table: Table) -> TableStorage: ...

    def tablet_count(self, table: Table) -> int: ...

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]: ...

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]: ...

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]: ...

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> Sequence[ScanBatches]: ...

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None: ...

    def take_numbers(self, table: Table, partition: int, count: int) -> int: ...


class Numbers:
    """Numbers of AUTO_INCREMENT columns of tablets that do not exist yet, from 1. Safe for several threads."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, tablet_id: str, count: int) -> int:
        """The first of `count` numbers."""
        with self._lock:
            first = self._next.get(tablet_id, 1)
            self._next[tablet_id] = first + count
            return first


def new_tablets(entry: CatalogEntry, replica: Replica) -> list[TabletDescription]:
    """Descriptions of a table's tablets that do not exist yet."""
    partitions = Partitioner(entry.table.schema, entry.table.partitions).partitions
    return [
        TabletDescription(tablet_id, partition.describe(), 0, 0, (replica,))
        for tablet_id, partition in zip(entry.tablet_ids, partitions, strict=True)
    ]


class NewTable:
    """A table that a transaction has created: the store has no rows of it. `TableSource`.

    Parameters
    ----------
    entry : CatalogEntry
    replica : Replica
        Place of the tablets to be made.
    numbers : Numbers, optional
        Those of an earlier version of the table.
    """

    def __init__(self, entry: CatalogEntry, replica: Replica, numbers: Numbers | None = None):
        self.entry = entry
        self.replica = replica
        self.numbers = numbers or Numbers()

    def statistics(self, table: Table) -> TableStatistics:
        """No rows."""
        return TableStatistics()

    def table_storage(self, table: Table) -> TableStorage:
        """Nothing on disk."""
        columns = {column.name: ColumnStorage() for column in self.entry.table.schema.columns}
        return TableStorage(tablets=len(self.entry.tablet_ids), columns=columns)

    def tablet_count(self, table: Table) -> int:
        """Number of tablets that the table will have."""
        return len(self.entry.tablet_ids)

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The tablets that the table will have."""
        return new_tablets(self.entry, self.replica)

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """None."""
        return ()

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """None."""
        return []

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[ScanBatches]:
        """None: there are no tokens."""
        return [self._no_token(token) for token in tokens]

    def _no_token(self, token: ScanToken) -> NoReturn:
        raise InternalError(f"table {token.table.name} has no rows before COMMIT")

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """No row."""
        return None

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Numbers that only the transaction has."""
        return self.numbers.take(self.entry.tablet_ids[partition], count)
