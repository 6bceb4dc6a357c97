"""Rules of transactions: what they refuse, what they record, what stays readable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from nyala.errors import (
    ActiveTransaction,
    DataError,
    InvalidSavepoint,
    NoActiveTransaction,
    NoPartition,
    NotSupportedError,
    ReadOnlyTransaction,
    SchemaChanged,
    SerializationFailure,
)
from nyala.model.alterations import DropColumn
from nyala.model.predicates import BitmapFilter, InList, Range
from nyala.model.schema import AUTO_INCREMENT_COLUMN, ColumnSchema, Schema, TableDefinition, View
from nyala.model.store import ChangeRange, Op, ScanCounters, ScanSpec, WriteBatch
from nyala.model.transactions import Isolation, TableRead, TransactionOptions
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.database import Database
from nyala.storage.transactions.transaction_store import TransactionStore
from transaction_support import SHAPES, contents

SCHEMA = Schema((ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("n", INT), ColumnSchema("s", STRING)), 1)
SERIALIZABLE = TransactionOptions(Isolation.SERIALIZABLE)


@pytest.fixture
def database():
    with Database(":memory:", background=False) as store:
        yield store


@pytest.fixture
def table(database):
    made = database.create_table(TableDefinition("t", SCHEMA))
    database.write(made, rows(range(100)))
    return made


def rows(keys, op=Op.INSERT, n=0, **options) -> WriteBatch:
    keys = list(keys)
    batch = pa.record_batch({"k": keys, "n": pa.array([n] * len(keys), pa.int32()), "s": [f"s{k}" for k in keys]})
    return WriteBatch(batch, op, **options)


def keys_in(store, table, *predicates, **options) -> list[int]:
    spec = ScanSpec(("k",), predicates, **options)
    return [row[0] for token in store.scan_tokens(table, spec) for batch in store.scan(token) for row in batch.rows()]


class Recorder(Database):
    """Keeps the changes of the last COMMIT."""

    changes = None

    def commit_transaction(self, changes):
        self.changes = changes
        return super().commit_transaction(changes)


# ---- life --------------------------------------------------------------------------------------------------------


def test_a_commit_shows_all_changes_at_its_timestamp(database, table) -> None:
    transaction = database.begin()
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 7})
    transaction.write(table, rows(range(200, 300)))
    transaction.write_row(table, Op.DELETE, {"k": 2})
    assert transaction.has_writes and transaction.own_rows(table) == 102
    assert database.read_row(table, (1,), ("n",)) == (0,)
    at = transaction.commit()
    assert not transaction.is_open
    assert database.read_row(table, (1,), ("n",), at) == (7,)
    assert len(keys_in(database, table, snapshot=at)) == 199
    assert len(keys_in(database, table, snapshot=at - 1)) == 100


def test_a_transaction_that_has_ended_refuses_everything_but_tokens_made_before(database, table) -> None:
    transaction = database.begin()
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 7})
    transaction.write(table, WriteBatch(pa.record_batch({"k": [5], "s": ["x"]}), Op.UPDATE))
    tokens = transaction.scan_tokens(table, ScanSpec(("n", "k")))
    transaction.rollback()
    found = [row for token in tokens for batch in transaction.scan(token) for row in batch.rows()]
    assert len(found) == 100 and (7, 1) in found and (0, 5) in found
    for call in (
        transaction.commit,
        transaction.savepoint,
        transaction.now,
        lambda: transaction.scan_tokens(table, ScanSpec(("k",))),
        lambda: transaction.read_row(table, (1,), ("k",)),
        lambda: transaction.write_row(table, Op.DELETE, {"k": 1}),
        lambda: transaction.table("t"),
    ):
        with pytest.raises(NoActiveTransaction, match="has ended"):
            call()
    transaction.rollback()
    transaction.close()
    assert database.read_row(table, (1,), ("n",)) == (0,)


def test_a_conflict_ends_the_transaction(database, table) -> None:
    transaction = database.begin()
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 7})
    database.write_row(table, Op.UPDATE, {"k": 1, "n": 8})
    with pytest.raises(SerializationFailure):
        transaction.commit()
    assert not transaction.is_open
    assert database.read_row(table, (1,), ("n",)) == (8,)


def test_a_read_only_transaction_refuses_writes(database, table) -> None:
    transaction = database.begin(TransactionOptions(read_only=True))
    for call in (
        lambda: transaction.write(table, rows([1000])),
        lambda: transaction.write_row(table, Op.DELETE, {"k": 1}),
        lambda: transaction.bulk_loader(table),
        lambda: transaction.drop_table("t"),
    ):
        with pytest.raises(ReadOnlyTransaction, match="READ WRITE"):
            call()
    assert transaction.commit() == transaction.snapshot


def test_maintenance_is_refused(database, table) -> None:
    transaction = database.begin()
    for call in (lambda: transaction.compact_table(table), lambda: transaction.analyze_table(table), transaction.begin):
        with pytest.raises(ActiveTransaction):
            call()


def test_ddl_is_refused_over_stores_without_it(database, table) -> None:
    transaction = TransactionStore(database, TransactionOptions())
    for call in (
        lambda: transaction.create_table(TableDefinition("u", SCHEMA)),
        lambda: transaction.drop_table("t"),
        lambda: transaction.alter_table("t", [DropColumn("n")]),
        lambda: transaction.create_view(View("v", "SELECT 1", ())),
        lambda: transaction.drop_views(["v"]),
        lambda: transaction.rename_view("v", "w", "public"),
    ):
        with pytest.raises(NotSupportedError, match=r"inside a transaction .* COMMIT or ROLLBACK first"):
            call()


def test_savepoints_are_checked(database, table) -> None:
    transaction = database.begin()
    first, second = transaction.savepoint(), transaction.savepoint()
    transaction.rollback_to(first)
    with pytest.raises(InvalidSavepoint):
        transaction.rollback_to(second)
    transaction.release(first)
    with pytest.raises(InvalidSavepoint):
        transaction.release(first)


def test_many_single_rows_survive_a_savepoint(database, table) -> None:
    """More than the dictionary holds, so that they become a run between the savepoint and its undoing."""
    transaction = database.begin()
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 1})
    mark = transaction.savepoint()
    for key in range(100, 5300):
        transaction.write_row(table, Op.UPSERT, {"k": key, "n": 1, "s": ""})
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 2})
    assert len(keys_in(transaction, table)) == 5300
    transaction.rollback_to(mark)
    assert len(keys_in(transaction, table)) == 100 and transaction.own_rows(table) == 1
    assert transaction.read_row(table, (1,), ("n",)) == (1,)


# ---- what it sees ------------------------------------------------------------------------------------------------


def test_time_travel_sees_committed_rows_only(database, table) -> None:
    before = database.now()
    database.write(table, rows([1000]))
    transaction = database.begin()
    transaction.write(table, rows([2000]))
    assert len(keys_in(transaction, table)) == 102
    assert len(keys_in(transaction, table, snapshot=before)) == 100
    assert transaction.read_row(table, (2000,), ("k",), before) is None
    changed = keys_in(transaction, table, changes=ChangeRange(before))
    assert changed == [1000]
    with pytest.raises(DataError, match="the transaction reads as of"):
        keys_in(transaction, table, snapshot=database.now())


def test_tables_without_own_rows_keep_the_tokens_of_the_store(database, table) -> None:
    other = database.create_table(TableDefinition("u", SCHEMA))
    transaction = database.begin()
    transaction.write(other, rows([1]))
    theirs = database.scan_tokens(table, ScanSpec(("k",), snapshot=transaction.snapshot))
    mine = transaction.scan_tokens(table, ScanSpec(("k",)))
    assert [token.part[1] for token in mine] == [token.part[1] for token in theirs]


def test_rows_that_were_inserted_hide_nothing(database, table) -> None:
    """Their keys are known to be absent, so the store's tokens need no look at keys."""
    transaction = database.begin()
    transaction.write(table, rows([1000, 1001]))
    (token,) = transaction.scan_tokens(table, ScanSpec(("n",)))
    assert not token.part[0].hidden and token.rows == 102
    assert sum(batch.length for batch in transaction.scan(token)) == 102


def test_counters_count_own_rows_and_not_hidden_ones(database, table) -> None:
    transaction = database.begin()
    transaction.write(table, rows(range(90, 110), Op.UPSERT, n=5))
    counters = ScanCounters()
    spec = ScanSpec(("k",), (Range("n", 5, 5),))
    tokens = transaction.scan_tokens(table, spec)
    assert sum(batch.length for token in tokens for batch in transaction.scan(token, counters)) == 20
    assert counters.rows_returned == 20
    assert counters.rows_considered == 120


def test_statistics_count_own_rows(database, table) -> None:
    transaction = database.begin()
    transaction.write(table, rows(range(100, 150)))
    transaction.write(table, WriteBatch(pa.record_batch({"k": [1, 2]}), Op.DELETE))
    assert transaction.statistics(table).row_count == database.statistics(table).row_count + 48


def test_statements_made_for_another_version_are_refused(database, table) -> None:
    transaction = database.begin()
    transaction.write(table, rows([1000]))
    altered = database.alter_table("t", [DropColumn("n")])
    with pytest.raises(SchemaChanged, match="was altered since this transaction wrote to it"):
        transaction.write_row(altered, Op.DELETE, {"k": 1})
    with pytest.raises(SchemaChanged):
        transaction.scan_tokens(altered, ScanSpec(("k",)))


def test_a_row_that_no_range_covers_is_refused(database) -> None:
    table = database.create_table(SHAPES["ranges"].definition())
    transaction = database.begin()
    row = {"k0": 99, "k1": "x", "s": "", "w": 1}
    result = transaction.write_row(table, Op.INSERT, row)
    assert isinstance(result.errors[0].error, NoPartition)
    assert not transaction.has_writes


def test_numbers_are_assigned_at_once(database) -> None:
    schema = Schema(
        (
            ColumnSchema("k", INT, nullable=False),
            ColumnSchema(AUTO_INCREMENT_COLUMN, BIGINT, nullable=False, auto_increment=True),
            ColumnSchema("n", INT),
        ),
        2,
    )
    table = database.create_table(TableDefinition("t", schema))
    database.write(table, WriteBatch(pa.record_batch({"k": pa.array([1], pa.int32())}), Op.INSERT))
    transaction = database.begin()
    given = pa.record_batch({"k": pa.array([1, 1], pa.int32()), "n": pa.array([5, 6], pa.int32())})
    assert transaction.write(table, WriteBatch(given, Op.INSERT)).applied == 2
    assert transaction.write_row(table, Op.INSERT, {"k": 1, "n": 7}).applied == 1
    database.write(table, WriteBatch(pa.record_batch({"k": pa.array([1], pa.int32())}), Op.INSERT))
    shown = contents(transaction, table)
    assert [row["n"] for row in shown] == [None, 5, 6, 7]
    transaction.commit()
    assert [row["n"] for row in contents(database, table)] == [None, 5, 6, 7, None]
    assert [row for row in contents(database, table) if row["n"]] == shown[1:]


# ---- files -------------------------------------------------------------------------------------------------------


def test_own_rows_beyond_the_limit_are_in_a_file(database, table, tmp_path) -> None:
    transaction = database.begin(TransactionOptions(memory_limit=1 << 20, temporary_directory=str(tmp_path)))
    order = np.random.default_rng(1).permutation(60_000)
    for part in np.split(order, 12):
        transaction.write(table, rows(part.tolist(), Op.UPSERT, n=3))
    own = transaction._tables[table.id]
    assert own.nbytes <= 1 << 20 < sum(run.size for run in own.runs)
    assert keys_in(transaction, table, Range("k", 5000, 5005), ordered=True) == [5000, 5001, 5002, 5003, 5004, 5005]
    assert len(keys_in(transaction, table)) == 60_000
    assert transaction.read_row(table, (59_999,), ("n", "s")) == (3, "s59999")
    transaction.commit()
    assert len(keys_in(database, table, Range("n", 3, 3))) == 60_000
    assert not list(tmp_path.iterdir())


def test_a_load_becomes_own_rows_at_its_end(database, table) -> None:
    transaction = database.begin(TransactionOptions(memory_limit=1000))
    with transaction.bulk_loader(table) as loader:
        for start in range(1000, 1500, 100):
            loader.append(rows(range(start, start + 100)).rows)
        assert not transaction.has_writes
        assert loader.finish() == 500
    assert len(keys_in(transaction, table)) == 600
    with transaction.bulk_loader(table) as loader:
        loader.append(rows([1]).rows)
    assert transaction.own_rows(table) == 500


# ---- reads -------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorder():
    with Recorder(":memory:", background=False) as store:
        made = store.create_table(TableDefinition("t", SCHEMA))
        store.write(made, rows(range(100)))
        yield store


def commit_reads(recorder, transaction) -> list[TableRead]:
    transaction.write(recorder.table("t"), rows([5000], Op.UPSERT))
    transaction.commit()
    return list(recorder.changes.reads)


def test_serializable_records_predicates_and_keys(recorder) -> None:
    table = recorder.table("t")
    transaction = recorder.begin(SERIALIZABLE)
    bits = BitmapFilter("k", 0, np.ones(3, np.bool_))
    for _ in range(2):
        keys_in(transaction, table, Range("k", 1, 3), InList("n", (7,)), bits)
    transaction.read_row(table, (50,), ("n",))
    transaction.write(table, rows([60, 61], Op.INSERT_IGNORE))
    scan, looked_up = commit_reads(recorder, transaction)
    assert scan == TableRead(table, (Range("k", 1, 3), InList("n", (7,))))
    assert looked_up.keys.to_pydict() == {"k": [60, 61, 50]}


def test_many_reads_are_widened(recorder) -> None:
    table = recorder.table("t")
    transaction = recorder.begin(SERIALIZABLE)
    keys_in(transaction, table, InList("k", tuple(range(2000))))
    (read,) = commit_reads(recorder, transaction)
    assert read.predicates == (Range("k", 0, 1999),)
    transaction = recorder.begin(SERIALIZABLE)
    for low in range(300):
        keys_in(transaction, table, Range("k", low, low))
    assert commit_reads(recorder, transaction) == [TableRead(table)]


def test_snapshot_isolation_records_locked_rows_alone(recorder) -> None:
    table = recorder.table("t")
    transaction = recorder.begin()
    keys_in(transaction, table)
    transaction.lock_rows(table, pa.record_batch({"k": [4]}))
    (read,) = commit_reads(recorder, transaction)
    assert read.keys.to_pydict() == {"k": [4]}


@pytest.mark.parametrize("changes", [False, True])
def test_write_skew_is_refused_where_serializable(recorder, changes) -> None:
    table = recorder.table("t")
    transaction = recorder.begin(SERIALIZABLE)
    keys_in(transaction, table, Range("n", 7, None))
    transaction.write_row(table, Op.UPDATE, {"k": 1, "n": 1})
    recorder.write_row(table, Op.UPDATE, {"k": 2, "n": 9 if changes else 3})
    if not changes:
        transaction.commit()
        return
    with pytest.raises(SerializationFailure):
        transaction.commit()


def test_a_serializable_transaction_without_writes_needs_no_validation(recorder) -> None:
    table = recorder.table("t")
    transaction = recorder.begin(SERIALIZABLE)
    keys_in(transaction, table)
    recorder.write(table, rows([1000]))
    assert transaction.commit() == transaction.snapshot
