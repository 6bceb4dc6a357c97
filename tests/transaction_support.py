"""Tables, rows and stores for tests of transactions: a transaction over a store, and a mirror of what it must see."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
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
from nyala.model.store import (
    Op,
    ScanCounters,
    ScanSpec,
    Store,
    WriteBatch,
    WriteResult,
)
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
)

WIDE = DECIMAL(38, 4)


ONE_TABLET = PartitionSchema()


@dataclass(frozen=True)
class Shape:
    """A table: its key columns, values to make keys of, and partitions."""

    key: tuple[DataType, ...]
    pools: tuple[tuple[Any, ...], ...]
    partitions: PartitionSchema = ONE_TABLET

    def definition(self) -> TableDefinition:
        columns = [ColumnSchema(f"k{place}", type_, nullable=False) for place, type_ in enumerate(self.key)]
        return TableDefinition("t", Schema((*columns, *VALUES), len(self.key)), self.partitions)


VALUES = (
    ColumnSchema("n", INT),
    ColumnSchema("s", STRING, nullable=False, default="d"),
    ColumnSchema("w", WIDE, nullable=False),
    ColumnSchema("d", DOUBLE),
    ColumnSchema("b", BOOLEAN, immutable=True),
)
POOLS: dict[str, tuple[Any, ...]] = {
    "n": (None, 0, 1, 5, -7, 2**31 - 1),
    "s": ("", "a", "b", "élan", "a much longer text than the others"),
    "w": (Decimal("0.0000"), Decimal("1.5000"), Decimal("-99999999999999999999999999999999.9999")),
    "d": (None, 0.5, -1e300, 3.0),
    "b": (None, True, False),
}
_INTS = tuple(range(-3, 9))
SHAPES = {
    "int": Shape((INT,), (_INTS,)),
    "hashed": Shape((INT,), (_INTS,), PartitionSchema((HashRule(("k0",), 3),))),
    "ranges": Shape(
        (BIGINT, STRING),
        (_INTS, ("x", "y\0z")),
        PartitionSchema(
            (HashRule(("k1",), 2),), RangeRule(("k0",), (RangePartition((-3,), (2,)), RangePartition((2,), (6,))))
        ),
    ),
    "text": Shape((STRING,), (("", "a", "ab", "b", "ü", "z" * 70),)),
    "binary": Shape((BINARY, TINYINT), ((b"", b"\0", b"\0\1", b"\xff"), (-128, 0, 127))),
    "wide": Shape(
        (WIDE, DATE),
        (
            (Decimal("-1.0000"), Decimal("7.0000"), Decimal("9" * 34 + ".0000")),
            (datetime.date(1969, 1, 1), datetime.date(2026, 2, 3)),
        ),
    ),
    "time": Shape(
        (DECIMAL(9, 2), TIMESTAMP),
        (
            (Decimal("1.25"), Decimal("-3.50")),
            (datetime.datetime(1970, 1, 1), datetime.datetime(2026, 1, 2, 3, 4, 5, 6)),
        ),
    ),
}


def batch_of(
    table: Table, rows: Sequence[Mapping[str, Any]], names: Sequence[str], ops: Any, **options: Any
) -> WriteBatch:
    """Rows as a batch of the columns `names`; cells that a row lacks are not set."""
    arrays, isset = [], {}
    for name in names:
        arrays.append(pa.array([row.get(name) for row in rows], table.schema.column(name).type.arrow))
        mask = np.array([name in row for row in rows], np.bool_)
        if not mask.all():
            isset[name] = mask
    return WriteBatch(pa.RecordBatch.from_arrays(arrays, names=list(names)), ops, isset=isset, **options)


def outcome(result: WriteResult) -> tuple[int, list[tuple[int, str, str]]]:
    """Result of a write, without its timestamp."""
    return result.applied, [(e.row, type(e.error).__name__, str(e.error)) for e in result.errors]


def scanned(store: Store, table: Table, spec: ScanSpec, together: bool = False) -> list[list[tuple[Any, ...]]]:
    """The rows of each token."""
    tokens = store.scan_tokens(table, spec)
    counters = [ScanCounters() for _ in tokens]
    scans = store.scan_all(tokens, counters) if together else [store.scan(t, c) for t, c in zip(tokens, counters)]
    found = []
    for scan, mine in zip(scans, counters):
        rows = []
        for batch in scan:
            assert batch.length
            rows += batch.rows()
        found.append(rows)
        assert mine.rows_returned >= len(rows) or spec.limit is not None
        scan.close()
    return found


def contents(store: Store, table: Table) -> list[dict[str, Any]]:
    """All rows, by key."""
    names = tuple(table.schema.names)
    rows = [row for part in scanned(store, table, ScanSpec(names)) for row in part]
    width = table.schema.key_columns
    return [dict(zip(names, row)) for row in sorted(rows, key=lambda row: row[:width])]


def make_equal(store: Store, table: Table, wanted: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a table."""
    names = table.schema.names
    key = names[: table.schema.key_columns]
    before = contents(store, table)
    if before:
        store.write(table, batch_of(table, before, key, Op.DELETE))
    if wanted:
        assert not store.write(table, batch_of(table, wanted, names, Op.INSERT)).errors
