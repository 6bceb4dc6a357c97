"""Mistakes of callers of the Store protocol: each raises its own error, whose text helps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from nyala.errors import (
    DataError,
    DuplicateTable,
    Error,
    HistoryGone,
    InterfaceError,
    InvalidTableDefinition,
    LimitExceeded,
    NoPartition,
    NotFound,
    NotNullViolation,
    ProgrammingError,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
)
from nyala.model.alterations import AddColumn, DropColumn, RenameColumn
from nyala.model.predicates import Range
from nyala.model.schema import (
    ColumnSchema,
    Encoding,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
)
from nyala.model.store import Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, DOUBLE, INT, STRING
from nyala.storage.database import Database
from nyala.storage.writing.incoming_rows import MAX_CELL_BYTES, MAX_KEY_BYTES
from tablet_support import RANGED, SCHEMA, definition, insert, keys_of, load, read


@pytest.fixture
def db() -> Any:
    with Database(":memory:") as opened:
        yield opened


@pytest.fixture
def table(db: Database) -> Table:
    return db.create_table(definition(partitions=RANGED))


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


# ---- batches and rows --------------------------------------------------------------------------------------------

WRONG_BATCHES: list[tuple[pa.RecordBatch, type[Error], str]] = [
    (batch(k=[1], vv=["x"]), UnknownColumn, "column vv does not exist in table t; table t has k, v"),
    (batch(k=[1], v=[7]), TypeMismatch, "column v of table t is STRING"),
    (batch(k=["1"], v=["x"]), TypeMismatch, "column k of table t is BIGINT"),
    (batch(v=["x"]), NotNullViolation, "key column k of table t is missing"),
]


@pytest.mark.parametrize(("rows", "error", "words"), WRONG_BATCHES, ids=[words for _, _, words in WRONG_BATCHES])
def test_a_batch_that_does_not_fit_the_table(
    db: Database, table: Table, rows: pa.RecordBatch, error: type[Error], words: str
) -> None:
    with pytest.raises(error, match=words):
        db.write(table, WriteBatch(rows))
    with db.bulk_loader(table) as loader:
        with pytest.raises(error, match=words):
            loader.append(rows)
        with pytest.raises(InterfaceError, match="has ended"):
            loader.append(rows)
    assert keys_of(db, table) == []


LONG = "x" * (MAX_CELL_BYTES + 1)
WRONG_ROWS: list[tuple[dict[str, Any], Op, type[Error], str]] = [
    (
        {"k": None, "v": "x"},
        Op.INSERT,
        NotNullViolation,
        "column k of table t is NOT NULL; row 2 has NULL: k = NULL",
    ),
    ({"k": 500, "v": "x"}, Op.INSERT, NoPartition, "k = 500.*it has: k < 100; 100 <= k < 200"),
    ({"k": 5, "v": LONG}, Op.INSERT, LimitExceeded, "column v of table t.*the limit is 1,048,576"),
    ({"k": 5, "v": "x"}, Op.UPDATE, NotFound, "no row with key .k = 5. is in table t"),
    ({"k": 5, "v": "x"}, Op.DELETE, NotFound, "no row with key .k = 5. is in table t"),
]


@pytest.mark.parametrize(
    ("row", "op", "error", "words"), WRONG_ROWS, ids=[f"{o.name} {w}" for _, o, _, w in WRONG_ROWS]
)
def test_a_row_that_is_refused_hinders_no_other(
    db: Database, table: Table, row: dict[str, Any], op: Op, error: type[Error], words: str
) -> None:
    insert(db, table, [1, 150])
    rows = pa.RecordBatch.from_pylist([{"k": 1, "v": "new"}, row, {"k": 150, "v": "new"}], schema=SCHEMA.arrow)
    ops = [Op.UPSERT, op, Op.UPSERT]
    result = db.write(table, WriteBatch(rows, ops))  # type: ignore[arg-type]
    (refused,) = result.errors
    assert refused.row == 1 and result.applied == 2
    with pytest.raises(error, match=words):
        raise refused.error
    assert read(db, table) == [(1, "new"), (150, "new")]
    result = db.write(table, WriteBatch(rows, ops, all_or_none=True))  # type: ignore[arg-type]
    assert (result.applied, [e.row for e in result.errors]) == (0, [1])


def test_a_load_refuses_what_writes_refuse(db: Database, table: Table) -> None:
    for row, op, error, words in WRONG_ROWS:
        if op is Op.INSERT:
            rows = pa.RecordBatch.from_pylist([row], schema=SCHEMA.arrow)
            with pytest.raises(error, match=words.replace("row 2", "row 1")), db.bulk_loader(table) as loader:
                loader.append(rows)


def test_a_key_has_a_limit(db: Database) -> None:
    schema = Schema((ColumnSchema("k", STRING, nullable=False), ColumnSchema("v", STRING)), 1)
    table = db.create_table(definition("texts", schema=schema))
    keys = ["x" * MAX_KEY_BYTES, "x" * (MAX_KEY_BYTES + 1)]
    result = db.write(table, WriteBatch(batch(k=keys)))
    assert (result.applied, [e.row for e in result.errors]) == (1, [1])
    assert isinstance(result.errors[0].error, LimitExceeded)
    assert "takes 16,385 bytes" in str(result.errors[0].error)


def test_ops_must_be_ops_and_one_for_each_row(db: Database, table: Table) -> None:
    with pytest.raises(ValueError, match="2 ops for 1 rows"):
        db.write(table, WriteBatch(batch(k=[1]), [Op.INSERT] * 2))  # type: ignore[arg-type]
    with pytest.raises(ProgrammingError, match="there is no op code 77; there are 1 INSERT"):
        db.write(table, WriteBatch(batch(k=[1]), [77]))  # type: ignore[arg-type]


# ---- tables ------------------------------------------------------------------------------------------------------


def ranges(*bounds: tuple[Any, Any]) -> PartitionSchema:
    made = tuple(
        RangePartition(None if low is None else (low,), None if high is None else (high,)) for low, high in bounds
    )
    return PartitionSchema((), RangeRule(("k",), made))


WRONG_PARTITIONS: list[tuple[PartitionSchema, str]] = [
    (ranges((0, 10), (5, 20)), "range partitions 1 and 2 overlap"),
    (ranges((None, None), (5, 20)), "range partitions 1 and 2 overlap"),
    (ranges((10, 10)), "range partition 1 is empty"),
    (PartitionSchema((HashRule(("k",), 0),)), "needs at least 2 buckets, not 0"),
    (PartitionSchema((HashRule(("v",), 4),)), "HASH column v is not part of the primary key"),
    (PartitionSchema((HashRule(("k",), 4), HashRule(("k",), 2))), "column k is in more than one HASH rule"),
    (PartitionSchema((HashRule((), 4),)), "HASH needs at least one column"),
    (PartitionSchema((HashRule(("k",), 5000),)), "5000 hash buckets are more than the limit"),
]


@pytest.mark.parametrize(("partitions", "words"), WRONG_PARTITIONS, ids=[words for _, words in WRONG_PARTITIONS])
def test_partitions_that_cannot_be(db: Database, partitions: PartitionSchema, words: str) -> None:
    with pytest.raises(InvalidTableDefinition, match=words):
        db.create_table(definition(partitions=partitions))
    assert db.tables() == []


WRONG_SCHEMAS: list[tuple[list[ColumnSchema], int, str]] = [
    ([ColumnSchema("k", INT, False), ColumnSchema("k", INT)], 1, "column k occurs twice"),
    ([ColumnSchema("k", INT, False)], 0, "needs a PRIMARY KEY"),
    ([ColumnSchema("k", INT)], 1, "primary key column k must be NOT NULL"),
    ([ColumnSchema("k", DOUBLE, False)], 1, "cannot be of type DOUBLE"),
    ([ColumnSchema("k", INT, False, encoding=Encoding.DICT)], 1, "INT cannot be stored as DICT; there are"),
    ([ColumnSchema("k", INT, False, block_size=-4)], 1, "block size of -4 bytes"),
    ([ColumnSchema(f"c{i}", INT, False) for i in range(301)], 1, "301 columns are more than the limit of 300"),
]


@pytest.mark.parametrize(("columns", "key", "words"), WRONG_SCHEMAS, ids=[words for _, _, words in WRONG_SCHEMAS])
def test_schemas_that_cannot_be(db: Database, columns: list[ColumnSchema], key: int, words: str) -> None:
    with pytest.raises(InvalidTableDefinition, match=words):
        db.create_table(TableDefinition("t", Schema(tuple(columns), key)))


def test_names_of_tables(db: Database, table: Table) -> None:
    with pytest.raises(DuplicateTable, match="table t exists already"):
        db.create_table(definition())
    db.create_table(definition("events"))
    for action in (db.table, db.drop_table, lambda name: db.alter_table(name, [DropColumn("v")])):
        with pytest.raises(UnknownTable, match="table evnts does not exist; did you mean events"):
            action("evnts")


def test_a_refused_alteration_changes_nothing_not_even_its_first_steps(db: Database, table: Table) -> None:
    insert(db, table, [1])
    version = db.catalog_version
    for last in (DropColumn("k"), DropColumn("nothing"), AddColumn(ColumnSchema("v", INT))):
        with pytest.raises(ProgrammingError):
            db.alter_table("t", [AddColumn(ColumnSchema("x", BIGINT)), last])
    assert db.table("t") == table and db.catalog_version == version
    assert read(db, table) == [(1, "v1")]


# ---- reads -------------------------------------------------------------------------------------------------------


def test_unknown_columns_of_a_scan(db: Database, table: Table) -> None:
    for spec in (ScanSpec(("k", "w")), ScanSpec(("k",), (Range.equal("w", 1),))):
        with pytest.raises(UnknownColumn, match="column w does not exist; the table has k, v"):
            db.scan_tokens(table, spec)
    with pytest.raises(UnknownColumn):
        db.read_row(table, (1,), ("w",))


def test_the_future_and_the_forgotten_past_cannot_be_read(table: Table, db: Database) -> None:
    future = Timestamp(db.now() + (3_600_000_000 << 12))
    with pytest.raises(DataError, match=r"cannot read table t as of .*it is only"):
        read(db, table, snapshot=future)
    with pytest.raises(DataError, match="cannot read table t as of"):
        db.read_row(table, (1,), ("v",), future)
    with Database(":memory:", history_seconds=0) as forgetful:
        table = forgetful.create_table(definition())
        insert(forgetful, table, [1])
        past = forgetful.now()
        forgetful.write(table, WriteBatch(batch(k=[1], v=["new"]), Op.UPDATE))
        forgetful.compact_table(table)
        with pytest.raises(HistoryGone, match="its history is kept only since"):
            read(forgetful, table, snapshot=past)
        assert read(forgetful, table) == [(1, "new")]


def test_a_table_that_was_dropped_or_altered_meanwhile(db: Database, table: Table) -> None:
    db.alter_table("t", [RenameColumn("v", "x"), AddColumn(ColumnSchema("v", STRING))])
    for action in (
        lambda: read(db, table),
        lambda: insert(db, table, [1]),
        lambda: db.write_row(table, Op.INSERT, {"k": 1, "v": "x"}),
        lambda: db.read_row(table, (1,), ("v",)),
    ):
        with pytest.raises(UnknownColumn, match="another one since the table was altered"):
            action()
    db.drop_table("t")
    for action in (lambda: keys_of(db, table), lambda: insert(db, table, [1]), lambda: load(db, table, [1])):
        with pytest.raises(UnknownTable, match="table t has been dropped"):
            action()
