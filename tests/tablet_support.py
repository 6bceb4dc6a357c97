"""Helpers of the storage tests: small tables, and reading a store back as plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from nyala.model.predicates import ColumnPredicate
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
)
from nyala.model.store import Op, ScanCounters, ScanSpec, ScanToken, Timestamp, WriteBatch, WriteResult
from nyala.model.types import BIGINT, STRING
from nyala.storage.database import Database
from nyala.storage.loads.bulk_load import TableBulkLoader

SCHEMA = Schema((ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", STRING)), 1)
ONE_TABLET = PartitionSchema()
HASHED = PartitionSchema((HashRule(("k",), 3),))
RANGED = PartitionSchema((), RangeRule(("k",), (RangePartition(None, (100,)), RangePartition((100,), (200,)))))


def definition(name: str = "t", partitions: PartitionSchema = ONE_TABLET, schema: Schema = SCHEMA) -> TableDefinition:
    return TableDefinition(name, schema, partitions)


def batch(keys: Iterable[int], text: str = "v") -> pa.RecordBatch:
    """Rows (k, text + k)."""
    numbers = list(keys)
    return pa.record_batch({"k": pa.array(numbers, pa.int64()), "v": pa.array([f"{text}{k}" for k in numbers])})


def insert(db: Database, table: Table, keys: Iterable[int], text: str = "v", op: Op = Op.INSERT) -> WriteResult:
    return db.write(table, WriteBatch(batch(keys, text), op))


def load(db: Database, table: Table, *parts: Iterable[int], text: str = "v") -> int:
    """Loads rows as rowsets, few rows too."""
    with rowset_loader(db, table) as loader:
        for part in parts:
            loader.append(batch(part, text))
        return loader.finish()


def rowset_loader(db: Database, table: Table) -> TableBulkLoader:
    """A bulk load that makes rowsets of few rows, too."""
    return TableBulkLoader(db.open_table(table), db._pool, lambda: db.open_table(table))


def read_tokens(db: Database, tokens: Sequence[ScanToken], counters: ScanCounters | None = None) -> list[Any]:
    """All rows of some tokens as sorted tuples; a row that occurs twice shows twice."""
    rows: list[Any] = []
    for token in tokens:
        for found in db.scan(token, counters):
            columns = [column.to_arrow().to_pylist() for column in found.columns()]
            rows.extend(zip(*columns) if columns else [()] * found.length)
    return sorted(rows)


def read(
    db: Database,
    table: Table,
    columns: tuple[str, ...] = ("k", "v"),
    predicates: tuple[ColumnPredicate, ...] = (),
    snapshot: Timestamp | None = None,
    split_rows: int | None = None,
) -> list[Any]:
    """The rows of a scan as sorted tuples."""
    return read_tokens(db, db.scan_tokens(table, ScanSpec(columns, predicates, snapshot, split_rows)))


def keys_of(db: Database, table: Table) -> list[int]:
    return [row[0] for row in read(db, table, ("k",))]
