"""COMMIT of a transaction that has changed the catalog: tables, views and rows, all at one moment, or nothing.

1. The changes of the catalog are applied to the catalog of now (`changed_catalog`): a conflict where another one has
   changed the same. The files of new tables and tablets are made and opened. No catalog names them: a crash leaves
   folders that recovery removes.
2. The rows are routed, and the reads validated, as without changes of the catalog (`transaction_commit`). A table that
   is dropped, or loses columns or partitions, counts as read: no other write may have changed its rows.
3. With the write locks of all tablets concerned, keys and reads are checked again, the logs of altered tables begin
   segments for the new schemas, and the rows are appended to the logs as PART entries, which are synced.
4. The catalog is replaced. This decides: the new catalog names the COMMIT's timestamp and parts (`Catalog.decided`), so
   that recovery counts the parts. Before, replay passes over them.
5. The commit log gets its record, by which the catalog's note becomes superfluous. A failure here changes nothing: the
   note stays until the record can be made.
6. Memory is changed: altered tables go over to their new schemas, and the rows are inserted. Nothing in this step can
   fail, as nothing was changed in memory before.

The locks are held from 3 to 6, through the syncs: readers of the tablets wait for the COMMIT, as for an ALTER.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace

from ...errors import DiskError, OperationalError, OutcomeUnknown, SerializationFailure
from ...model.catalog_changes import CatalogChanges
from ...model.clock import HybridClock
from ...model.lazy_dataclass import dataclass
from ...model.store import Timestamp, TransactionChanges
from ...model.transactions import TableRead
from ..log.commit_log import CommitLog
from ..log.decision import Decision
from ..tablet.mvcc import commit_together, start_together
from ..writing.tablet_part import TabletPart
from .catalog import Catalog, CatalogEntry
from .changed_catalog import changed_catalog
from .commit_parts import CommitParts
from .durable_catalog import DurableCatalog
from .table_alteration import Alteration
from .table_folders import TableFolders
from .table_store import TableStore

_log = logging.getLogger("nyala.storage")


@dataclass(slots=True, eq=False)
class _Prepared:
    """New tables, open, and alterations, by table id."""

    made: dict[str, TableStore] = field(default_factory=dict)
    alterations: dict[str, Alteration] = field(default_factory=dict)


class CatalogCommit:
    """COMMITs with changes of the catalog, one at a time: the store's lock for DDL is held.

    Parameters
    ----------
    catalog : DurableCatalog
    folders : TableFolders
    stores : dict of str to TableStore
        The open tables by id; changed.
    commits : CommitLog
    clock : HybridClock
    alteration : callable
        Begins an `Alteration` of a table.
    syncs_logs : bool
        True with durability "os": logs are synced here nevertheless, as the catalog is.
    """

    def __init__(
        self,
        catalog: DurableCatalog,
        folders: TableFolders,
        stores: dict[str, TableStore],
        commits: CommitLog,
        clock: HybridClock,
        alteration: Callable[[TableStore, CatalogEntry], Alteration],
        syncs_logs: bool,
    ):
        self._catalog = catalog
        self._folders = folders
        self._stores = stores
        self._commits = commits
        self._clock = clock
        self._alteration = alteration
        self._syncs_logs = syncs_logs

    def run(self, changes: TransactionChanges) -> Timestamp:
        """Commit; the timestamp. Raises as `Store.commit_transaction`."""
        wanted = changes.catalog
        assert wanted is not None
        self._catalog.settle()
        record_decided(self._catalog, self._commits)
        changed = changed_catalog(self._catalog.current, wanted)
        emptied = [c.before for c in wanted.tables if c.before is not None and c.removes_values]
        changes = replace(changes, reads=(*changes.reads, *(TableRead(table) for table in emptied)))
        created = {c.after.id for c in wanted.tables if c.before is None and c.after is not None}
        if any(write.table.id in created for write in changes.writes):
            # The catalog must know the numbers of tables whose folders have rows: opening the store takes others for
            # those of a later backup, and leaves them alone.
            self._catalog.write(self._catalog.current)
        with self._prepared(wanted, changed) as prepared:
            while True:
                outcome = self._attempt(changes, changed, prepared)
                if isinstance(outcome, Decision):
                    outcome.wait()
                elif outcome is not None:
                    break
        for alteration in prepared.alterations.values():
            self._folders.drop_tablets(alteration.after.table.name, alteration.dropped)
        kept = {entry.table.id for entry in changed.entries.values()}
        for change in wanted.tables:
            if change.before is not None and change.before.id not in kept:
                self._folders.drop(self._stores.pop(change.before.id))
        return outcome

    @contextmanager
    def _prepared(self, changes: CatalogChanges, changed: Catalog) -> Iterator[_Prepared]:
        """Make the files of new tables and tablets, and open them; they are closed unless the catalog has them at the
        end."""
        prepared = _Prepared()
        try:
            for change in changes.tables:
                if change.after is None:
                    continue
                entry = changed.entries[change.after.name]
                if change.before is None:
                    prepared.made[entry.table.id] = self._folders.make(entry)
                else:
                    alteration = self._alteration(self._stores[entry.table.id], entry)
                    prepared.alterations[entry.table.id] = alteration
            yield prepared
        except BaseException:
            for store in prepared.made.values():
                # The catalog that names the table may be on the disk until the current one is written again.
                self._folders.drop(store, lambda: self._catalog.is_durable)
            for alteration in prepared.alterations.values():
                alteration.close(removes_files=self._catalog.is_durable)
            raise

    def _attempt(
        self, changes: TransactionChanges, changed: Catalog, prepared: _Prepared
    ) -> Timestamp | Decision | None:
        """The timestamp of the COMMIT; the decision to wait for where another write over several tablets has the same
        keys; None where a table needs repairs: both with nothing done."""
        alterations = [prepared.alterations[id_] for id_ in sorted(prepared.alterations)]
        parts = CommitParts(
            self._concerned(changes, prepared), {id_: a.after for id_, a in prepared.alterations.items()}, changes
        )
        parts.check_decided()
        with ExitStack() as locks:
            for alteration in alterations:
                alteration.hold_flushes(locks)
            for tablet in parts.tablets:
                locks.enter_context(tablet.write_lock)
            for id_ in sorted(prepared.alterations):
                locks.enter_context(self._stores[id_].alter_lock)
            if parts.has_repairs():
                return None
            if (blocker := parts.blocker()) is not None:
                return blocker
            changing = parts.check()
            with ExitStack() as undo:
                for alteration in alterations:
                    alteration.prepare()
                    undo.callback(alteration.undo)
                timestamp = self._log_parts(changing, undo)
                decided = self._decide(changed, timestamp, changing)
                undo.pop_all()
            self._change_memory(decided, alterations, changing, prepared)
            if changing:
                commit_together([part.tablet.mvcc for part in changing], timestamp)
        return timestamp

    def _concerned(self, changes: TransactionChanges, prepared: _Prepared) -> dict[str, TableStore]:
        """The tables with writes or reads, and those that are altered, by id."""
        concerned = {id_: self._stores[id_] for id_ in prepared.alterations}
        for id_, table in changes.tables.items():
            store = prepared.made.get(id_) or self._stores.get(id_)
            if store is None:
                raise SerializationFailure(
                    f"table {table.name} was dropped by another transaction after this one began; retry the transaction"
                )
            concerned[id_] = store
        return concerned

    def _log_parts(self, parts: list[TabletPart], undo: ExitStack) -> Timestamp:
        """Make the parts durable in their logs; their timestamp, in flight until `undo` is done."""
        if not parts:
            return self._clock.now()
        self._commits.check_whole()
        timestamp = start_together([part.tablet.mvcc for part in parts])
        for part in parts:
            undo.callback(part.tablet.mvcc.abort, timestamp)
        for part in parts:
            part.log(timestamp)
        for part in parts:
            if (error := part.await_log()) is not None:
                raise error
            if self._syncs_logs:
                part.tablet.log.sync_now()
        return timestamp

    def _decide(self, changed: Catalog, timestamp: Timestamp, parts: list[TabletPart]) -> Catalog:
        """Replace the catalog file: the new catalog."""
        current = self._catalog.current
        decided = dict(current.decided)
        if parts:
            decided[timestamp] = {part.tablet.id: part.last_entry for part in parts}
        changed = replace(changed, next_table=current.next_table, decided=decided)
        try:
            self._catalog.write(changed)
        except DiskError as failure:
            try:
                self._catalog.settle()
            except DiskError as error:
                self._catalog.has_undecided_parts = bool(parts)
                raise OutcomeUnknown(
                    f"{failure}; whether the transaction is committed is known when the store is opened the next time; "
                    "it is not if a row can be written before"
                ) from error
            raise
        return changed

    def _change_memory(
        self, decided: Catalog, alterations: list[Alteration], parts: list[TabletPart], prepared: _Prepared
    ) -> None:
        for alteration in alterations:
            alteration.switch()
        for part in parts:
            part.change_memory()
        self._stores.update(prepared.made)
        self._catalog.current = decided
        self._commits.note_decided(decided.decided)
        record_decided(self._catalog, self._commits)


def record_decided(catalog: DurableCatalog, commits: CommitLog) -> None:
    """Make the commit log's records of COMMITs on which the catalog has decided: it does not need its notes of them any
    more. A failure leaves both as they are, for the next call."""
    try:
        commits.record_decided()
    except OperationalError as error:
        _log.warning("the commit log cannot take the record of a COMMIT, the catalog keeps it for now: %s", error)
        return
    if catalog.current.decided:
        catalog.current = replace(catalog.current, decided={})
