"""A table that a transaction has altered, over the store's rows: the new schema over the table as it was at BEGIN.

    the transaction's table       k    total (was: n)    note (added)
    scan of the store             k    n                 -
    batch                         k    n                 the column's initial value

Columns are found by their permanent ids. A predicate on an added column is evaluated on its initial value, which all
rows of the store have. Tablets of range partitions that were dropped are left out, those of added ones have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import TabletGone
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.predicates import ColumnPredicate, renamed_predicate
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
from ...model.vectors.vector import Batch, Const
from ..predicate_eval.evaluation import evaluate
from ..single_rows.row_codec import RowCodec
from ..tables.catalog import CatalogEntry
from .table_source import Numbers, TableSource, new_tablets


@dataclass(frozen=True, slots=True, eq=False)
class AlteredPart:
    """`ScanToken.part` of a token of an altered table: the store's token."""

    source: AlteredTable
    base: ScanToken


class AlteredTable:
    """`TableSource` of an altered table.

    Parameters
    ----------
    store : TableSource
    before, after : CatalogEntry
        As the transaction has found the table, and now.
    replica : Replica
        Place of the tablets to be made.
    numbers : Numbers, optional
        Those of an earlier version of the table.
    """

    def __init__(
        self,
        store: TableSource,
        before: CatalogEntry,
        after: CatalogEntry,
        replica: Replica,
        numbers: Numbers | None = None,
    ):
        self.store = store
        self.before = before
        self.entry = after
        self.replica = replica
        self.numbers = numbers or Numbers()
        known = {column.id: column.name for column in before.table.schema.columns}
        schema = after.table.schema
        self._names = {column.name: known[column.id] for column in schema.columns if column.id in known}
        """Names of the columns before, by names of now."""
        self._kept = frozenset(after.tablet_ids).intersection(before.tablet_ids)

    # ---- what there is -------------------------------------------------------------------------------------------

    def statistics(self, table: Table) -> TableStatistics:
        """Those of the store, by names of now."""
        found = self.store.statistics(self.before.table)
        return replace(found, columns=self._renamed(found.columns))

    def table_storage(self, table: Table) -> TableStorage:
        """That of the store, by names of now."""
        found = self.store.table_storage(self.before.table)
        columns = {column.name: ColumnStorage() for column in self.entry.table.schema.columns}
        return replace(found, tablets=len(self.entry.tablet_ids), columns=columns | self._renamed(found.columns))

    def _renamed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[before] for name, before in self._names.items() if before in values}

    def tablet_count(self, table: Table) -> int:
        """Number of tablets that the table will have."""
        return len(self.entry.tablet_ids)

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The store's tablets, and those that the table will have besides."""
        known = {tablet.id: tablet for tablet in self.store.describe_tablets(self.before.table)}
        return [
            replace(known[tablet.id], partition=tablet.partition) if tablet.id in self._kept else tablet
            for tablet in new_tablets(self.entry, self.replica)
        ]

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """Those of the store."""
        return self.store.key_samples(self.before.table, tablet_id) if tablet_id in self._kept else ()

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Those of the store; of a tablet to be made, numbers that only the transaction has."""
        tablet_id = self.entry.tablet_ids[partition]
        if tablet_id not in self._kept:
            return self.numbers.take(tablet_id, count)
        return self.store.take_numbers(self.before.table, self.before.tablet_ids.index(tablet_id), count)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The store's tokens, for the columns of now."""
        if spec.tablet is not None and spec.tablet not in self._kept:
            if spec.tablet in self.entry.tablet_ids:
                return []
            raise TabletGone(f"table {table.name} has no tablet {spec.tablet}: its range partition was dropped")
        base_spec = self._base_spec(spec, spec)
        if base_spec is None:
            return []
        return [
            replace(token, table=table, spec=spec, part=(AlteredPart(self, token),))
            for token in self.store.scan_tokens(self.before.table, base_spec)
            if token.tablet_id in self._kept
        ]

    def _base_spec(self, spec: ScanSpec, base: ScanSpec) -> ScanSpec | None:
        """`base` with columns, predicates, order and limit of `spec`, in terms of the table before; None where no row
        satisfies the predicates."""
        predicates: list[ColumnPredicate] = []
        for predicate in spec.predicates:
            if (name := self._base_name(predicate.column)) is not None:
                predicates.append(renamed_predicate(predicate, name))
                continue
            column = self.entry.table.schema.column(predicate.column)
            if not evaluate(predicate, Const(column.type, column.initial, 1))[0]:
                return None
        names = tuple(name for column in spec.columns if (name := self._base_name(column)) is not None)
        return replace(
            base,
            columns=names,
            predicates=tuple(predicates),
            ordered=spec.ordered,
            descending=spec.descending,
            limit=spec.limit,
        )

    def _base_name(self, name: str) -> str | None:
        """Name of a column in the table before; None for one that was added. Other names are those of diff scans."""
        return self._names.get(name) if name in self.entry.table.schema else name

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[ScanBatches]:
        """As `Store.scan_all`."""
        found: list[ScanBatches] = []
        for token, mine in zip(tokens, counters, strict=True):
            (part,) = token.part
            assert isinstance(part, AlteredPart)
            spec = self._base_spec(token.spec, part.base.spec)
            if spec is None:
                found.append(_AlteredBatches(self, token.spec, None))
                continue
            base = part.base if spec == part.base.spec else replace(part.base, spec=spec)
            (batches,) = self.store.scan_all([base], [mine])
            found.append(_AlteredBatches(self, token.spec, batches))
        return found

    def altered(self, batch: Batch, columns: Sequence[str]) -> Batch:
        """A batch of the store with the columns of now."""
        schema, slots = self.entry.table.schema, iter(batch.slots())
        return Batch(
            [
                next(slots)
                if self._base_name(name) is not None
                else Const(schema.column(name).type, schema.column(name).initial, batch.length)
                for name in columns
            ],
            batch.length,
        )

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """The store's row, for the columns of now."""
        if len(self._kept) < len(self.before.tablet_ids):
            before = self.before.table
            place = Partitioner(before.schema, before.partitions).route_one(RowCodec(before).take_key(key))
            if place < 0 or self.before.tablet_ids[place] not in self._kept:
                return None
        names = [name for column in columns if (name := self._base_name(column)) is not None]
        first = self.before.table.schema.columns[0].name
        row = self.store.read_row(self.before.table, key, names or [first], snapshot)
        if row is None:
            return None
        values, schema = iter(row), self.entry.table.schema
        return tuple(
            next(values)
            if self._base_name(name) is not None
            else schema.column(name).type.to_python(schema.column(name).initial)
            for name in columns
        )


class _AlteredBatches:
    """The batches of one token; `ScanBatches`."""

    def __init__(self, source: AlteredTable, spec: ScanSpec, base: ScanBatches | None):
        self._source = source
        self._columns = spec.columns
        self._base = base

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._base is None:
            raise StopIteration
        return self._source.altered(next(self._base), self._columns)

    def close(self) -> None:
        """End the scan. Closing again has no effect."""
        if self._base is not None:
            self._base.close()


def altered_source(token: ScanToken) -> AlteredTable | None:
    """The altered table of a token; None for a token of another table."""
    (part,) = token.part if len(token.part) == 1 else (None,)
    return part.source if isinstance(part, AlteredPart) else None
