"""Rows written one by one against batches of one row: the same answers, the same contents, also after a crash."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DiskError, InvalidText, NumericOutOfRange, RowChanged, TextTooLong, TypeMismatch, UnknownColumn
from nyala.model.schema import (
    AUTO_INCREMENT_COLUMN,
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
)
from nyala.model.store import Op, ScanSpec, WriteBatch, WriteResult
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
)
from nyala.storage.database import Database
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from place_support import one_slot
from row_path_support import batches_only

compared_with_batches = pytest.fixture(autouse=True, scope="module")(batches_only)

SCHEMA = Schema(
    (
        ColumnSchema("a", INT, False),
        ColumnSchema("b", STRING, False),
        ColumnSchema("plain", DECIMAL(9, 2)),
        ColumnSchema("needed", DATE, False),
        ColumnSchema("filled", STRING, False, default="none"),
        ColumnSchema("fixed", BIGINT, immutable=True),
        ColumnSchema("wide", DECIMAL(30, 3)),
    ),
    2,
)
PARTITIONS = PartitionSchema(
    (HashRule(("b",), 2),), RangeRule(("a",), (RangePartition(None, (2,)), RangePartition((2,), (4,))))
)
NUMBERED = Schema(
    (
        ColumnSchema("a", INT, False),
        ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, False, auto_increment=True),
        ColumnSchema("plain", STRING),
    ),
    2,
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "plain": st.none() | st.decimals(-99, 99, places=2),
    "needed": st.none() | st.dates(datetime.date(2000, 1, 1), datetime.date(2000, 1, 9)),
    "filled": st.none() | st.sampled_from(["x", "y" * 1500, "z" * (1 << 20) + "z"]),
    "fixed": st.none() | st.integers(-5, 5),
    "wide": st.none() | st.decimals(-(10**20), 10**20, places=3),
}
ROW = st.fixed_dictionaries(
    {"a": st.integers(0, 4), "b": st.sampled_from(["", "k", "é\0", "l" * 17_000])}, optional=OPTIONAL
)
STEPS = st.lists(
    st.tuples(st.sampled_from(list(Op)), ROW) | st.sampled_from(["flush", "compact", "reopen"]), min_size=1, max_size=25
)


class Pair:
    """Two stores with one table each: rows go to the one by themselves, to the other as batches."""

    def __init__(self, schema: Schema, partitions: PartitionSchema, durability: str):
        self.files: list[FileSystem] = [MemoryFileSystem(), MemoryFileSystem()]
        self.durability = durability
        self.stores = [self.open(fs) for fs in self.files]
        for store in self.stores:
            store.create_table(TableDefinition("t", schema, partitions))

    def open(self, fs: FileSystem) -> Database:
        return Database("/d", fs=fs, durability=self.durability, background=False, threads=1)

    def write(self, op: Op, row: dict[str, Any]) -> None:
        one, batch = self.stores
        table = batch.table("t")
        fields = [table.schema.arrow.field(name) for name in row]
        arrays = [pa.array([row[field.name]], field.type) for field in fields]
        expected = batch.write(table, WriteBatch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), op))
        assert told(one.write_row(one.table("t"), op, row)) == told(expected)

    def step(self, name: str) -> None:
        for number, store in enumerate(self.stores):
            if name == "flush":
                store.flush()
            elif name == "compact":
                store.compact_table(store.table("t"))
            else:
                store.close()
                self.stores[number] = self.open(self.files[number])

    def check(self) -> None:
        one, batch = (contents(store) for store in self.stores)
        assert one == batch
        for store in self.stores:
            store.check()
            store.close()


def told(result: WriteResult) -> tuple[Any, ...]:
    return result.applied, [(e.row, type(e.error), str(e.error)) for e in result.errors]


def contents(store: Database) -> list[tuple[Any, ...]]:
    table = store.table("t")
    names = tuple(table.schema.names)
    rows: list[tuple[Any, ...]] = []
    for token in store.scan_tokens(table, ScanSpec(names)):
        for batch in store.scan(token):
            rows += [tuple(row.values()) for row in batch.to_arrow(list(names)).to_pylist()]
    return sorted(rows, key=lambda row: row[: table.schema.key_columns])


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.sampled_from(["os", "fsync"]), st.booleans())
def test_a_row_is_a_batch_of_one_row(steps: Sequence[Any], durability: str, is_one_slot: bool) -> None:
    with one_slot(is_one_slot):
        pair = Pair(SCHEMA, PARTITIONS, durability)
        for step in steps:
            if isinstance(step, str):
                pair.step(step)
            else:
                pair.write(*step)
        pair.step("reopen")
        pair.check()


FEW_ROWS = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.integers(0, 9)})
FEW_STEPS = st.lists(st.tuples(st.sampled_from(list(Op)), FEW_ROWS) | st.sampled_from(["flush", "compact", "reopen"]))


@settings(max_examples=examples(150), deadline=None)
@given(FEW_STEPS)
def test_a_hint_of_another_row_changes_nothing(steps: Sequence[Any]) -> None:
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT)), 1)
    with one_slot():
        pair = Pair(schema, PartitionSchema(), "os")
        for number in range(3):
            pair.write(Op.INSERT, {"k": number, "v": number})
        pair.step("flush")
        for step in steps:
            if isinstance(step, str):
                pair.step(step)
            else:
                op, row = step
                pair.write(op, {"k": row["k"]} if op in (Op.DELETE, Op.DELETE_IGNORE) else row)
        pair.check()


NUMBERED_ROW = st.fixed_dictionaries(
    {"a": st.integers(0, 3)},
    optional={AUTO_INCREMENT_COLUMN: st.none() | st.integers(1, 6), "plain": st.sampled_from(["x", None])},
)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Op)), NUMBERED_ROW) | st.sampled_from(["flush", "reopen"]), max_size=20))
def test_rows_are_numbered_as_in_batches(steps: Sequence[Any]) -> None:
    pair = Pair(NUMBERED, PartitionSchema((HashRule(("a",), 2),)), "os")
    for step in steps:
        if isinstance(step, str):
            pair.step(step)
        else:
            pair.write(*step)
    pair.check()


VALUES: list[tuple[DataType, list[Any], list[Any]]] = [
    (TINYINT, [-128, 127], [128, 1.0, True, "1", Decimal(1)]),
    (
        DECIMAL(4, 1),
        [Decimal("999.9"), Decimal("1E+1"), 7],
        [Decimal("1000"), Decimal("0.25"), 1.5, Decimal("NaN"), "1"],
    ),
    (DECIMAL(38, 0), [Decimal(10**38 - 1), -(10**37)], [Decimal(10**38)]),
    (FLOAT, [1.5, 0.1, float("inf")], ["1", True]),
    (DOUBLE, [1.5, 3], ["1", Decimal(1)]),
    (BOOLEAN, [True, False], [1, "true"]),
    (DATE, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], [datetime.datetime(2000, 1, 1), 7, "2000-01-01"]),
    (TIMESTAMP, [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)], [datetime.date(2000, 1, 1), 5]),
    (STRING, ["", "\0é"], [b"x", 1, "\ud800"]),
    (BINARY, [b"", b"\xff\0", bytearray(b"x")], ["x", 1]),
    (DataType(Kind.STRING, length=2), ["éé"], ["abc"]),
]


@pytest.mark.parametrize(("type_", "good", "bad"), VALUES, ids=lambda v: str(v) if isinstance(v, DataType) else "")
def test_values_are_taken_as_they_are_or_refused(type_: DataType, good: list[Any], bad: list[Any]) -> None:
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", type_)), 1)
    fs = MemoryFileSystem()
    with Database("/d", fs=fs, background=False) as store:
        table = store.create_table(TableDefinition("t", schema))
        for key, value in enumerate(good):
            assert store.write_row(table, Op.INSERT, {"k": key, "v": value}).applied == 1
        for value in bad:
            with pytest.raises(
                (TypeMismatch, NumericOutOfRange, InvalidText, TextTooLong), match=r"column v of table t"
            ):
                store.write_row(table, Op.INSERT, {"k": 100, "v": value})
        expected = pa.array(good, type_.arrow).to_pylist()
        assert [v for _, v in contents(store)] == expected
        assert [store.read_row(table, [key], ["v"]) for key in range(len(good))] == [(v,) for v in expected]
    with Database("/d", fs=fs, background=False) as store:
        assert [v for _, v in contents(store)] == expected


def test_unknown_columns_are_named() -> None:
    with Database(background=False) as store:
        table = store.create_table(TableDefinition("t", SCHEMA))
        with pytest.raises(UnknownColumn, match="column plaim does not exist in table t"):
            store.write_row(table, Op.INSERT, {"a": 1, "plaim": 2})


class _FailingSync(MemoryFileSystem):
    """A file system whose log files cannot be synced for a while."""

    failing = False

    def create(self, path: str) -> Any:
        return self.watched(path, super().create(path))

    def append(self, path: str) -> Any:
        return self.watched(path, super().append(path))

    def watched(self, path: str, file: Any) -> Any:
        if path.endswith(".log"):
            whole = file.sync

            def sync() -> None:
                if self.failing:
                    raise DiskError(f"cannot sync {path}")
                whole()

            file.sync = sync
        return file


@pytest.mark.parametrize("is_flushed", [False, True])
def test_what_could_not_be_synced_is_taken_back(is_flushed: bool) -> None:
    fs = _FailingSync()
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT)), 1)
    with Database("/d", fs=fs, background=False) as store:
        table = store.create_table(TableDefinition("t", schema))
        for key in range(3):
            store.write_row(table, Op.INSERT, {"k": key, "v": 0})
        if is_flushed:
            store.flush()
            store.write_row(table, Op.INSERT, {"k": 9, "v": 0})
        before = contents(store)
        fs.failing = True
        for op, row in (
            (Op.INSERT, {"k": 7, "v": 1}),
            (Op.UPDATE, {"k": 0, "v": 1}),
            (Op.DELETE, {"k": 1}),
        ):
            with pytest.raises(DiskError, match="cannot sync"):
                store.write_row(table, op, row)
        fs.failing = False
        assert contents(store) == before
        assert [store.read_row(table, [key], ["v"]) for key in (0, 1, 7)] == [(0,), (0,), None]
        assert store.write_row(table, Op.INSERT, {"k": 7, "v": 2}).applied == 1
        store.check()


def test_threads_insert_each_row_once() -> None:
    """Several threads race for the same keys with group commit; a flush runs beside them."""
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT)), 1)
    fs = MemoryFileSystem()
    with Database("/d", fs=fs, background=False) as store:
        table: Table = store.create_table(TableDefinition("t", schema, PartitionSchema((HashRule(("k",), 2),))))

        def work(number: int) -> int:
            applied = 0
            for key in range(200):
                applied += store.write_row(table, Op.INSERT, {"k": key, "v": number}).applied
                store.write_row(table, Op.UPDATE, {"k": key, "v": number + 100})
                if key % 60 == 30:
                    store.flush()
            return applied

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(4))) == 200
        found = contents(store)
        assert [store.read_row(table, [key], ["k", "v"]) for key in range(200)] == found
        store.check()
    with Database("/d", fs=fs, background=False) as store:
        assert contents(store) == found


def test_a_row_is_written_unless_it_was_changed_meanwhile() -> None:
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT)), 1)
    with Database("/d", fs=MemoryFileSystem(), background=False) as store:
        table = store.create_table(TableDefinition("t", schema))
        for key in (1, 2):
            store.write_row(table, Op.INSERT, {"k": key, "v": 0})
        read_at = store.now()
        store.write_row(table, Op.UPDATE, {"k": 2, "v": 5})
        assert store.write_row(table, Op.UPDATE, {"k": 1, "v": 1}, read_at).applied == 1, "another row of its tablet"
        for at in (read_at, store.now()):
            refused = store.write_row(table, Op.UPDATE, {"k": 2, "v": 6}, at)
            assert [type(error.error) for error in refused.errors] == ([RowChanged] if at == read_at else [])
        assert contents(store) == [(1, 1), (2, 6)]


WRITER = """
import sys
from nyala.storage.database import Database
from nyala.model.store import Op

store = Database(sys.argv[1], durability=sys.argv[2], memrowset_bytes=1 << 16, deltamemstore_bytes=1 << 15)
table = store.table("t")
for number in range(1_000_000):
    key = number % 500
    if number < 500:
        store.write_row(table, Op.INSERT, {"k": key, "v": number})
    elif number % 7 == 0:
        store.write_row(table, Op.DELETE_IGNORE, {"k": key})
    else:
        store.write_row(table, Op.UPSERT, {"k": key, "v": number})
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_acknowledged_rows_survive_the_end_of_the_process(durability: str, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT)), 1)
    with Database(path) as store:
        store.create_table(TableDefinition("t", schema))
    with subprocess.Popen([sys.executable, "-c", WRITER, path, durability], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        last = -1
        for line in writer.stdout:
            last = int(line)
            if last >= 2_500:
                writer.kill()
                break
        last = max([last, *(int(line) for line in writer.stdout if line.endswith(b"\n"))])
    expected: dict[int, int] = {}
    possible = []
    for number in range(last + 2):  # one more may have been written, but not acknowledged
        if number >= 500 and number % 7 == 0:
            expected.pop(number % 500, None)
        else:
            expected[number % 500] = number
        if number >= last:
            possible.append(sorted(expected.items()))
    with Database(path) as store:
        assert contents(store) in possible
        table = store.table("t")
        assert [store.read_row(table, row[:1], ["k", "v"]) for row in contents(store)] in possible
        store.check()
