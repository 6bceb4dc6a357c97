"""COMMIT of a transaction: all of its changes at one timestamp, or nothing.

1. Its batches are joined table by table, and routed to tablets; so are the reads to validate.
2. What was read is validated against the decided writes since the snapshot, without locks.
3. `atomic_write` takes the locks of all tablets that are written to or read from, and checks again: the reads against
   later writes, the keys of the writes against all writes since the snapshot (`changed_since`). Then it applies.
4. One tablet: one log entry, as for a statement. Several tablets, of whatever tables: a COMMIT (`commit_log`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ...errors import SerializationFailure
from ...model.altered_table import check_same_columns
from ...model.keys.keys import Keys
from ...model.store import TableWrite, Timestamp, TransactionChanges
from ...model.transactions import TableRead
from ..log.decision import Decision
from ..single_rows.row_changes import RowChanges, rows_of
from ..single_rows.row_rules import BatchPathNeeded
from ..tablet.tablet import Tablet
from ..writing.joined_batches import joined_batch
from ..writing.read_validation import KeyRead, PredicateRead, TabletRead
from ..writing.tablet_part import are_few
from .atomic_write import AppliedWrite, AtomicWriter, TableBatch
from .table_layout import TableLayout
from .table_store import TableStore


def commit_changes(
    stores: Mapping[str, TableStore],
    changes: TransactionChanges,
    writer: AtomicWriter,
    check_catalog: Callable[[TransactionChanges], None] = lambda changes: None,
) -> Timestamp:
    """`Store.commit_transaction` without changes of the catalog.

    Parameters
    ----------
    stores : mapping of str to TableStore
        The tables concerned, by id.
    changes : TransactionChanges
    writer : AtomicWriter
    check_catalog : callable
        Validates what was read of the catalog; called with the locks of all tablets concerned.
    """
    if not changes.writes and not changes.reads:
        return changes.snapshot
    for write in changes.writes:
        if stores[write.table.id].table.quota_bytes is not None:
            stores[write.table.id].check_quota(write.batch.ops)
    by_rows = _are_few(changes.writes)
    while True:
        try:
            outcome = _Attempt(stores, changes, by_rows, check_catalog).apply(writer)
        except BatchPathNeeded:
            by_rows = False
            continue
        if isinstance(outcome, Decision):
            outcome.wait()
        elif outcome is not None:
            break
    errors = [error for batch in outcome.batches for error in batch.all_errors()]
    writer.finish(outcome)
    if errors:
        raise errors[0].error
    return outcome.timestamp if changes.writes else changes.snapshot


def _are_few(writes: Sequence[TableWrite]) -> bool:
    rows = sum(write.row_count for write in writes if isinstance(write, RowChanges))
    return are_few(rows, sum(write.row_count for write in writes) - rows)


class _Attempt:
    """The changes by table and tablet, in the layouts that the tables have now."""

    def __init__(
        self,
        stores: Mapping[str, TableStore],
        changes: TransactionChanges,
        by_rows: bool,
        check_catalog: Callable[[TransactionChanges], None],
    ):
        self._by_rows = by_rows
        self._check_catalog = partial(check_catalog, changes)
        self._reads: list[TabletRead] = []
        self._batches: list[TableBatch] = []
        self._tablets: list[Tablet] = []
        """To be locked, in order."""
        for table_id in sorted(stores):
            self._add(stores[table_id], changes)

    def _add(self, store: TableStore, changes: TransactionChanges) -> None:
        layout = store.layout
        writes = [write for write in changes.writes if write.table.id == layout.table.id]
        reads = tablet_reads(store, layout, changes)
        if writes:
            batch = self._routed(store, layout, writes, changes.snapshot)
        else:
            batch = TableBatch([], [], True, [], lambda: store.layout is layout)
        self._batches.append(batch)
        self._reads += reads
        concerned = {*(part.tablet.id for part in batch.parts), *(read.tablet.id for read in reads)}
        if not concerned:  # one lock keeps the table from being altered
            concerned = {tablet.id for tablet in layout.tablets[:1]}
        self._tablets += [tablet for tablet in layout.tablets if tablet.id in concerned]

    def _routed(
        self, store: TableStore, layout: TableLayout, writes: Sequence[TableWrite], snapshot: Timestamp
    ) -> TableBatch:
        """The writes of one table by tablet."""
        (first, *more) = writes
        if self._by_rows and not more and isinstance(first, RowChanges) and first.table is layout.table:
            return store.routed_rows(layout, first.rows, snapshot)
        for write in writes:
            check_same_columns(write.table, layout.table, write.batch.rows.schema.names)
        batch = joined_batch([write.batch for write in writes])
        if self._by_rows:
            return store.routed_rows(layout, rows_of(store.rows.writer.codec, batch), snapshot)
        return store.routed(layout, batch, snapshot)

    def apply(self, writer: AtomicWriter) -> AppliedWrite | Decision | None:
        """`AtomicWriter.apply`."""
        for read in self._reads:
            read.check_decided()
        return writer.apply(self._batches, self._tablets, validate=self._validate)

    def _validate(self) -> None:
        self._check_catalog()
        for read in self._reads:
            read.check_latest()


def tablet_reads(store: TableStore, layout: TableLayout, changes: TransactionChanges) -> list[TabletRead]:
    """The reads of one table in this layout, by tablet. Raises `SerializationFailure` where rows were dropped with
    their range partition since the snapshot."""
    reads = [
        part
        for read in changes.reads
        if read.table.id == layout.table.id
        for part in _tablet_reads(layout, read, changes.snapshot)
    ]
    if changes.snapshot < store.ranges_dropped_at:
        raise SerializationFailure(
            f"a range partition of table {layout.table.name} was dropped after this transaction began; retry the "
            "transaction"
        )
    return reads


def _tablet_reads(layout: TableLayout, read: TableRead, snapshot: int) -> list[TabletRead]:
    table = layout.table
    if read.keys is not None:
        return _key_reads(layout, read, snapshot)
    check_same_columns(read.table, table, [predicate.column for predicate in read.predicates])
    places = layout.partitioner.prune(read.predicates)
    return [PredicateRead(_whole(layout.tablets[place]), read.predicates, snapshot) for place in places]


def _key_reads(layout: TableLayout, read: TableRead, snapshot: int) -> list[TabletRead]:
    rows, table = read.keys, layout.table
    assert rows is not None
    check_same_columns(read.table, table, rows.schema.names)
    keys = Keys.from_rows(table.schema, rows)
    places = layout.partitioner.route(rows)
    reads: list[TabletRead] = []
    for place in np.unique(places[places >= 0]).tolist():
        mine = keys.take(np.flatnonzero(places == place))
        reads.append(KeyRead(_whole(layout.tablets[place]), table, mine, snapshot))
    return reads


def _whole(tablet: Tablet) -> Tablet:
    """The tablet; raises `CorruptionError` where it is in quarantine."""
    if tablet.damage is not None:
        tablet.refuse()
    return tablet
