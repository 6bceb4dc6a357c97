"""The tablets of an embedded store, each as a replica that always leads.

tablet id ──► table, by the catalog ──► `TableStore` ──► the current tablet

The store's own threads work concurrently. So a reader that holds a tablet's rows checks that the table still exists:
from then on its files stay until the reader releases them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...errors import ProtocolError, ReplicaUnavailable, UnknownTable
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import AnalyzeResult, CompactionResult, Op, Timestamp, WriteBatch, WriteResult
from ...storage.database import Database
from ...storage.maintenance.table_compaction import compact_tablets
from ...storage.maintenance.tablet_flush import flush
from ...storage.single_rows.row_read import find_row
from ...storage.statistics.analysis import Analysis
from ...storage.statistics.table_statistics import StatisticsCache
from ...storage.tables.catalog import Catalog
from ...storage.tables.table_store import TableStore
from ...storage.tables.tablet_descriptions import sampled_keys
from ...storage.tablet.tablet import Tablet, TabletView
from ..tablets.layout import check_version
from ..tablets.reads import follow
from ..tablets.statistics import data_bytes, tablet_statistics
from ..wire.messages.methods import Call, TabletFacts
from .call_results import Calls


class EmbeddedTablets:
    """All tablets of a store by id. Thread-safe."""

    def __init__(self, store: Database, calls: Calls):
        self.store = store
        self.calls = calls
        self._places: tuple[Catalog, dict[str, Table], dict[str, Table]] | None = None
        self._statistics: dict[str, StatisticsCache] = {}
        self._statistics_lock = threading.Lock()

    def get(self, tablet_id: str) -> EmbeddedTablet:
        """Returns the current tablet of an id; raises `ReplicaUnavailable` if there is none (any more)."""
        table = self._tables()[1].get(tablet_id)
        if table is not None:
            with suppress(UnknownTable):
                table_store = self.store.open_table(table)
                for tablet in table_store.tablets:
                    if tablet.id == tablet_id:
                        return EmbeddedTablet(self, table_store, tablet)
        raise ReplicaUnavailable(f"the store has no tablet {tablet_id}")

    def table(self, table_id: str) -> Table | None:
        """Returns a table of the catalog by its id."""
        return self._tables()[2].get(table_id)

    def _tables(self) -> tuple[Catalog, dict[str, Table], dict[str, Table]]:
        """Returns the catalog, and its tables by the ids of their tablets and by their own."""
        catalog, known = self.store.catalog, self._places
        if known is None or known[0] is not catalog:
            by_tablet = {id: entry.table for entry in catalog.entries.values() for id in entry.tablet_ids}
            by_id = {entry.table.id: entry.table for entry in catalog.entries.values()}
            known = self._places = catalog, by_tablet, by_id
        return known

    def is_there(self, known: EmbeddedTablet) -> bool:
        """True if the tablet still belongs to its table, and the table to the store."""
        try:
            table_store = self.store.open_table(known.table)
        except UnknownTable:
            return False
        return table_store is known.table_store and known.tablet in table_store.tablets

    def statistics(self, tablet_id: str, table: Table, analysis: Analysis) -> StatisticsCache:
        """Returns the statistics cache of one tablet, for this version of the table and of its analysis."""
        with self._statistics_lock:
            cached = self._statistics.get(tablet_id)
            if cached is None or cached.table is not table or cached.analysis is not analysis:
                cached = self._statistics[tablet_id] = StatisticsCache(table, analysis)
            return cached


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedTablet:
    """A tablet for the duration of one request. Implements `tablets.served_tablet.ServedTablet`."""

    tablets: EmbeddedTablets
    table_store: TableStore
    tablet: Tablet

    @property
    def table(self) -> Table:
        """The latest version of the table."""
        return self.table_store.table

    @property
    def leader_address(self) -> str:
        """See `ServedTablet`: there is one replica."""
        return ""

    def met(self, error: Exception) -> Exception:
        """See `ServedTablet`: there is no other replica to read."""
        return error

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(
        self,
        batch: WriteBatch,
        call: Call | None,
        *,
        deadline: float,
        schema_version: int | None = None,
        check_only: bool = False,
        is_transaction: bool = False,
    ) -> WriteResult:
        """See `ServedTablet`. The store routes each row itself; the tablet is the one that the client chose by the same
        version of the table."""
        if is_transaction:
            raise ProtocolError("a transaction on a served directory is committed as a whole, not tablet by tablet")
        if check_only:
            table = check_version(self.table, schema_version)
            return self.table_store.write(batch, check_only=True, table=table)
        store = self.tablets.store
        return self.tablets.calls.write_once(
            call, deadline, lambda: store.write(check_version(self.table, schema_version), batch)
        )

    def write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, *, deadline: float, schema_version: int | None = None
    ) -> WriteResult:
        """See `ServedTablet`."""
        store = self.tablets.store
        return self.tablets.calls.write_once(
            call,
            deadline,
            lambda: store.write_row(check_version(self.table, schema_version), op, row, physical=True),
        )

    def take_numbers(self, count: int) -> int:
        """See `ServedTablet`."""
        return self.tablet.take_numbers(count)

    # ---- reading -------------------------------------------------------------------------------------------------

    def view(self, snapshot: Timestamp | None, *, deadline: float, schema_version: int | None = None) -> TabletView:
        """Returns the rows as of a timestamp, once all writes up to it are decided; None: the latest. Raises
        `HistoryGone`, `StaleSchema`, `DataError` for a timestamp too far ahead, `ReplicaUnavailable` while the tablet
        is being dropped."""
        if snapshot is None:
            snapshot = self.tablet.mvcc.clean_now(deadline)
        else:
            self._wait(snapshot, deadline)
        view = self.tablet.view(snapshot)
        self._check_there()
        check_version(view.table, schema_version)
        return view

    def read_row(
        self,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        *,
        deadline: float,
        schema_version: int | None = None,
    ) -> tuple[tuple[Any, ...] | None, Timestamp]:
        """Returns the row with a primary key, and the timestamp as of which it was read (None: the latest); physical
        values in and out. Raises as `view`."""
        while True:
            table = check_version(self.table, schema_version)
            codec = self.table_store.rows.writer.codec
            names = tuple(columns)
            chosen = codec.projection(names)
            values = codec.physical_key(key)
            if snapshot is None:
                timestamp = self.tablet.mvcc.newest_clean(deadline)
            else:
                timestamp = snapshot
                self._wait(snapshot, deadline)
            pin = self.tablet.shared_pin()
            if pin.table is not table or codec.table is not table:
                continue  # altered meanwhile: the caller gets the error
            self._check_there()
            if snapshot is not None:
                self.tablet.check_history(snapshot)
            row = find_row(pin.state, codec.key, values, chosen, timestamp)
            return None if row is None else codec.physical(names, row), timestamp

    def _wait(self, snapshot: Timestamp, deadline: float) -> None:
        follow(self.tablets.store.clock, snapshot, self.table.name)
        self.tablet.mvcc.wait_until_clean(snapshot, deadline)

    def _check_there(self) -> None:
        if not self.tablets.is_there(self):
            raise ReplicaUnavailable(f"tablet {self.tablet.id} is being dropped")

    # ---- statistics and maintenance ----------------------------------------------------------------------------------

    @property
    def data_bytes(self) -> int:
        """Bytes of the rowsets on disk."""
        return data_bytes(self.tablet)

    def facts(self) -> TabletFacts:
        """Returns statistics for a planner."""
        tablet, kept = self.tablet, self.table_store.statistics_cache
        cache = self.tablets.statistics(tablet.id, kept.table, kept.analysis)
        return tablet_statistics(tablet, kept.table, cache)

    def key_samples(self) -> Sequence[tuple[Any, ...]]:
        """Returns the keys of every 4,096th row of each DiskRowSet, ascending, as physical values."""
        pin = self.tablet.pin()
        self._check_there()
        return sampled_keys(pin)

    def flush(self) -> int:
        """Writes the rows in memory to DiskRowSets; returns their number."""
        return flush(self.tablet)

    def compact(self, check: Callable[[], None]) -> CompactionResult:
        """Implements `Store.compact_table` for this tablet."""
        return compact_tablets([self.tablet], check)

    def analyze(self, check: Callable[[], None]) -> AnalyzeResult:
        """Implements `Store.analyze_table` for this tablet."""
        return self.table_store.analyze(check, [self.tablet])
