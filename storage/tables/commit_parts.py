"""The rows and reads of a COMMIT with changes of the catalog, by tablet."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.altered_table import check_same_columns
from ...model.store import TransactionChanges
from ..log.decision import Decision
from ..tablet.tablet import Tablet
from ..writing.joined_batches import joined_batch
from ..writing.read_validation import TabletRead
from ..writing.tablet_part import TabletPart
from .atomic_write import TableBatch
from .table_layout import TableLayout
from .table_store import TableStore
from .transaction_commit import tablet_reads


class CommitParts:
    """Writes routed to tablets, and reads; all steps but the first need the write locks of `tablets`.

    Parameters
    ----------
    stores : mapping of str to TableStore
        The tables with writes or reads, by id.
    layouts : mapping of str to TableLayout
        Of tables that are altered: the layouts by which rows are routed.
    changes : TransactionChanges

    Attributes
    ----------
    parts : list of TabletPart
    tablets : list of Tablet
        To be locked, in order: those of altered tables, and all of the others that are written to or read from.
    """

    def __init__(
        self, stores: Mapping[str, TableStore], layouts: Mapping[str, TableLayout], changes: TransactionChanges
    ):
        self._batches: list[TableBatch] = []
        self._reads: list[TabletRead] = []
        self.tablets: list[Tablet] = []
        for table_id in sorted(stores):
            self._add(stores[table_id], layouts.get(table_id), changes)

    @property
    def parts(self) -> list[TabletPart]:
        return [part for batch in self._batches for part in batch.parts]

    def _add(self, store: TableStore, altered: TableLayout | None, changes: TransactionChanges) -> None:
        before = store.layout
        after = before if altered is None else altered
        writes = [write for write in changes.writes if write.table.id == before.table.id]
        for write in writes:
            check_same_columns(write.table, after.table, write.batch.rows.schema.names)
        reads = tablet_reads(store, before, changes)
        if writes:
            batch = store.routed(after, joined_batch([write.batch for write in writes]), changes.snapshot)
            self._batches.append(batch)
        self._reads += reads
        concerned = {read.tablet.id for read in reads}
        if writes:
            concerned |= {part.tablet.id for part in batch.parts}
        is_all = altered is not None
        self.tablets += [tablet for tablet in before.tablets if is_all or tablet.id in concerned]

    def check_decided(self) -> None:
        """Validate the reads against decided writes; without locks."""
        for read in self._reads:
            read.check_decided()

    def blocker(self) -> Decision | None:
        """The decision to wait for where a write over several tablets has the same keys."""
        return next((found for part in self.parts if (found := part.blocker()) is not None), None)

    def has_repairs(self) -> bool:
        """True if a table needs repairs before it is written."""
        return any(batch.repairs for batch in self._batches)

    def check(self) -> list[TabletPart]:
        """Validate the reads, resolve all rows, and encode the changes: the parts with changes. Raises
        `SerializationFailure`, or the error of the first row that is refused."""
        for read in self._reads:
            read.check_latest()
        for part in self.parts:
            part.tablet.decide_all()
            part.check()
        for batch in self._batches:
            for error in batch.all_errors():
                raise error.error
        parts = [part for part in self.parts if part.has_changes]
        for part in parts:
            part.encode(is_joint=True)
        return parts
