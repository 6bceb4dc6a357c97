"""A session's store with its temporary objects: each call goes to the store that has the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ...model.access.roles import Access
from ...model.access.steps import AccessStep
from ...model.alterations import AlterStep
from ...model.catalog_batch import CatalogBatch
from ...model.namespaces import TEMPORARY_NAMESPACE, Namespace
from ...model.schema import Table, TableDefinition, View
from ...model.store import (
    AnalyzeResult,
    BulkLoader,
    CompactionResult,
    Op,
    ScanBatches,
    ScanCounters,
    ScanSpec,
    ScanToken,
    Store,
    TableStatistics,
    TableStorage,
    TabletDescription,
    Timestamp,
    TransactionChanges,
    WriteBatch,
    WriteResult,
)
from ...model.vectors.vector import Batch
from .overlaid_batch import OverlaidBatch

_PREFIX = f"{TEMPORARY_NAMESPACE}."
_VERSIONS = 1 << 32
"""More than a temporary store has versions of its catalog."""
S = TypeVar("S", bound=Store)


class OverlaidTables(Generic[S]):
    """The common part of an overlay of stores and one of transactions (`model.store.Store`).

    Parameters
    ----------
    base : Store
        That of the connection.
    temporary : Store
        That of the temporary objects.
    """

    def __init__(self, base: S, temporary: S):
        self.base = base
        self.temporary = temporary

    def __getattr__(self, name: str) -> Any:
        # What a store has beyond the protocol, such as `history_seconds`, is the base's.
        return getattr(self.base, name)

    def _within(self, namespace: str) -> S:
        return self.temporary if namespace == TEMPORARY_NAMESPACE else self.base

    def _of(self, table: Table) -> S:
        return self._within(table.namespace)

    def _named(self, name: str) -> S:
        return self.temporary if name.startswith(_PREFIX) else self.base

    # ---- the catalog -------------------------------------------------------------------------------------------------

    @property
    def catalog_version(self) -> int:
        """A number for each pair of versions."""
        return self.base.catalog_version * _VERSIONS + self.temporary.catalog_version

    @property
    def transactional_ddl(self) -> bool:
        return self.base.transactional_ddl

    @property
    def temporary_directory(self) -> str | None:
        return self.base.temporary_directory

    @property
    def runs_fragments(self) -> bool:
        """False: servers do not see temporary tables."""
        return False

    def tables(self) -> Sequence[Table]:
        return sorted([*self.base.tables(), *self.temporary.tables()], key=lambda table: table.name)

    def table(self, name: str) -> Table:
        return self._named(name).table(name)

    def views(self) -> Sequence[View]:
        return sorted([*self.base.views(), *self.temporary.views()], key=lambda view: view.name)

    def view(self, name: str) -> View | None:
        return self._named(name).view(name)

    def namespaces(self) -> Sequence[Namespace]:
        known = [*self.base.namespaces(), Namespace(TEMPORARY_NAMESPACE)]
        return sorted(known, key=lambda namespace: namespace.name)

    def create_table(self, definition: TableDefinition) -> Table:
        return self._within(definition.namespace).create_table(definition)

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        self._named(name).drop_table(name, self._drop_temporary(name, views))

    def create_view(self, view: View, replace: bool = False) -> None:
        self._within(view.namespace).create_view(view, replace)

    def drop_views(self, names: Collection[str]) -> None:
        kept = self._drop_temporary("", names)
        if kept:
            self.base.drop_views(kept)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        self._named(name).rename_view(name, new_name, namespace)

    def _drop_temporary(self, name: str, views: Collection[str]) -> list[str]:
        """Drop those of the views that are temporary, unless a temporary table takes them along; the others."""
        own = [view for view in views if view.startswith(_PREFIX)]
        if own and not name.startswith(_PREFIX):
            self.temporary.drop_views(own)
            own = []
        return [*own, *(view for view in views if not view.startswith(_PREFIX))]

    @contextmanager
    def change_together(self) -> Iterator[CatalogBatch]:
        """See `Store.change_together`. Temporary objects are changed after those of the base."""
        with self.base.change_together() as batch:
            overlaid = OverlaidBatch(batch, self.temporary)
            yield overlaid
        overlaid.change_temporary()

    def create_namespace(self, namespace: Namespace) -> None:
        self.base.create_namespace(namespace)

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        self.base.drop_namespace(name, tables, self._drop_temporary("", views))

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        return self._named(name).alter_table(name, steps)

    @property
    def access(self) -> Access:
        return self.base.access

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        self.base.change_access(steps)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        if table.namespace == TEMPORARY_NAMESPACE:
            # The session alone writes them.
            return self.temporary.write(table, replace(batch, unchanged_since=None))
        return self.base.write(table, batch)

    def write_row(
        self, table: Table, op: Op, row: Mapping[str, Any], unchanged_since: Timestamp | None = None
    ) -> WriteResult:
        if table.namespace == TEMPORARY_NAMESPACE:
            return self.temporary.write_row(table, op, row)
        return self.base.write_row(table, op, row, unchanged_since)

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        if table.namespace == TEMPORARY_NAMESPACE:
            return self.temporary.read_row(table, key, columns)
        return self.base.read_row(table, key, columns, snapshot)

    def bulk_loader(self, table: Table) -> BulkLoader:
        return self._of(table).bulk_loader(table)

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        return self._of(table).take_numbers(table, partition, count)

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        if table.namespace == TEMPORARY_NAMESPACE:
            return self.temporary.scan_tokens(table, replace(spec, snapshot=self.temporary.now()))
        return self.base.scan_tokens(table, spec)

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        return self._of(token.table).scan(token, counters)

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> Sequence[ScanBatches]:
        stores = [self._of(token.table) for token in tokens]
        found: dict[int, ScanBatches] = {}
        for store in (self.base, self.temporary):
            places = [place for place, of in enumerate(stores) if of is store]
            if places:
                scans = store.scan_all([tokens[place] for place in places], [counters[place] for place in places])
                found |= zip(places, scans, strict=True)
        return [found[place] for place in range(len(tokens))]

    # ---- how rows are stored -----------------------------------------------------------------------------------------

    def statistics(self, table: Table) -> TableStatistics:
        return self._of(table).statistics(table)

    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        return self._of(table).compact_table(table, check)

    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        return self._of(table).analyze_table(table, check)

    def table_storage(self, table: Table) -> TableStorage:
        return self._of(table).table_storage(table)

    def tablet_count(self, table: Table) -> int:
        return self._of(table).tablet_count(table)

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        return self._of(table).describe_tablets(table)

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        return self._of(table).key_samples(table, tablet_id)

    # ---- times -------------------------------------------------------------------------------------------------------

    def now(self) -> Timestamp:
        """That of the base."""
        return self.base.now()

    def commit_transaction(self, changes: TransactionChanges) -> Timestamp:
        return self.base.commit_transaction(changes)

    def close(self) -> None:
        """Release the temporary objects; the base is the connection's."""
        self.temporary.close()
