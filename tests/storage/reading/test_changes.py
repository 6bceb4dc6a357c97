"""Diff scans against a dictionary of versions, wherever background work has put the rows."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from nyala.errors import HistoryGone
from nyala.model.predicates import InList, Range
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.store import (
    CHANGE_COLUMN,
    CHANGED_AT_COLUMN,
    ChangeRange,
    Op,
    ScanCounters,
    ScanSpec,
    Timestamp,
    WriteBatch,
)
from nyala.model.types import BIGINT, BINARY, DECIMAL, DOUBLE, STRING
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.database import Database
from store_model import TableModel

SCHEMA = Schema(
    (
        ColumnSchema("a", STRING, False),
        ColumnSchema("b", BIGINT, False),
        ColumnSchema("n", BIGINT),
        ColumnSchema("text", STRING),
        ColumnSchema("wide", DECIMAL(30, 2)),
    ),
    2,
)
BIG = Decimal("-12345678901234567890123.45")
NET = (CHANGE_COLUMN, *SCHEMA.names)
HISTORY = (CHANGE_COLUMN, CHANGED_AT_COLUMN, *SCHEMA.names)


def changes(db, table, columns, since, until=None, predicates=(), history=False, limit=None, counters=None):
    """The rows of a diff scan as they come, tablet by tablet."""
    snapshot = None if until is None else Timestamp(until)
    spec = ScanSpec(columns, predicates, snapshot, limit=limit, changes=ChangeRange(Timestamp(since), history))
    rows = []
    for token in db.scan_tokens(table, spec):
        for batch in db.scan(token, counters):
            arrays = [column.to_arrow().to_pylist() for column in batch.columns()]
            rows += list(zip(*arrays)) if arrays else [()] * batch.length
    return rows


def random_row(chance):
    """A key and some columns, one at least: an UPDATE of nothing is no change."""
    row = {"a": chance.choice(["", "k", "key"]), "b": chance.randint(0, 3)}
    values = {"n": chance.randint(-5, 5), "text": chance.choice(["", "x", "yy"]), "wide": chance.choice([None, BIG])}
    return row | {name: values[name] for name in chance.sample(list(values), chance.randint(1, 3))}


def write(db, table, model, ops, rows):
    """A batch with its rows' own columns, in the store and in the model."""
    names = [c.name for c in SCHEMA.columns]
    arrays = {n: pa.array([row.get(n) for row in rows], SCHEMA.column(n).type.arrow) for n in names}
    isset = {n: np.array([n in row for row in rows]) for n in names[2:]}
    expected = model.resolve(ops, rows)
    result = db.write(table, WriteBatch(pa.record_batch(arrays), np.array(ops, np.uint8), False, isset))
    assert {error.row for error in result.errors} == set(expected.errors)
    model.commit(expected, result.timestamp)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_histories(seed):
    chance = random.Random(seed)
    partitions = PartitionSchema((HashRule(("b",), 2),)) if seed % 3 == 2 else PartitionSchema()
    with Database(":memory:", background=False) as db:
        table = db.create_table(TableDefinition("t", SCHEMA, partitions))
        model = TableModel(table.schema)
        times = [int(db.now())]
        for _ in range(40):
            work = chance.random()
            if work < 0.75:
                count = chance.randint(1, 5)
                ops = [chance.choice([Op.INSERT, Op.UPSERT, Op.UPDATE, Op.DELETE, Op.DELETE]) for _ in range(count)]
                write(db, table, model, ops, [random_row(chance) for _ in range(count)])
                times.append(int(db.now()))
            elif work < 0.93:
                db.flush()
            else:
                db.compact_table(table)
        times.append(int(db.now()))
        for _ in range(40):
            since, until = sorted(chance.sample(times, 2))
            net = changes(db, table, NET, since, until)
            history = changes(db, table, HISTORY, since, until, history=True)
            if not partitions.hash_rules:
                assert net == model.net_changes(SCHEMA.names, since, until).rows
                assert history == model.history(SCHEMA.names, since, until).rows
            assert sorted(net, key=str) == sorted(model.net_changes(SCHEMA.names, since, until).rows, key=str)
            assert sorted(history, key=str) == sorted(model.history(SCHEMA.names, since, until).rows, key=str)


# ---- one thing each ----------------------------------------------------------------------------------------------

KEY_VALUE = Schema((ColumnSchema("k", BIGINT, False), ColumnSchema("v", STRING), ColumnSchema("f", DOUBLE)), 1)


@pytest.fixture
def db():
    with Database(":memory:", background=False) as opened:
        yield opened


@pytest.fixture
def table(db):
    return db.create_table(TableDefinition("t", KEY_VALUE))


def put(db, table, op, *rows):
    names = [c.name for c in KEY_VALUE.columns][: len(rows[0])]
    arrays = {n: pa.array(values, KEY_VALUE.column(n).type.arrow) for n, values in zip(names, zip(*rows))}
    return db.write(table, WriteBatch(pa.record_batch(arrays), op)).timestamp


@pytest.mark.parametrize("flushes", range(4))
def test_a_key_that_moves_between_rowsets_is_one_row(db, table, flushes):
    put(db, table, Op.INSERT, (1, "old"), (2, "same"), (3, "gone"))
    since = db.now()
    for step, done in enumerate(
        [
            lambda: put(db, table, Op.DELETE, (1,), (3,)),
            lambda: put(db, table, Op.INSERT, (1, "new"), (4, "brief")),
            lambda: put(db, table, Op.DELETE, (4,)),
        ]
    ):
        done()
        if step < flushes:
            db.flush()
    assert changes(db, table, (CHANGE_COLUMN, "k", "v"), since) == [("update", 1, "new"), ("delete", 3, "gone")]
    assert changes(db, table, (CHANGE_COLUMN, "k", "v"), since, history=True) == [
        ("delete", 1, "old"),
        ("insert", 1, "new"),
        ("delete", 3, "gone"),
        ("insert", 4, "brief"),
        ("delete", 4, "brief"),
    ]


def test_times_are_those_of_the_writes(db, table):
    since = db.now()
    first = put(db, table, Op.INSERT, (2, "a"))
    second = put(db, table, Op.UPDATE, (2, "b"))
    third = put(db, table, Op.DELETE, (2,))
    columns = (CHANGED_AT_COLUMN, "v")
    assert changes(db, table, columns, since, history=True) == [(first, "a"), (second, "b"), (third, "b")]
    assert changes(db, table, columns, first, history=True) == [(second, "b"), (third, "b")]
    assert changes(db, table, columns, first, second) == [(second, "b")]
    assert changes(db, table, columns, first) == [(third, "a")]
    assert changes(db, table, columns, third) == []


def test_predicates_apply_to_the_values_shown_and_the_limit_after_them(db, table):
    put(db, table, Op.INSERT, *((k, "old") for k in range(6)))
    since = db.now()
    put(db, table, Op.UPDATE, (1, "new"), (2, "new"), (5, "new"))
    put(db, table, Op.DELETE, (3,), (5,))
    net = (CHANGE_COLUMN, "k")
    assert changes(db, table, net, since, predicates=(InList("v", ("new",)),)) == [("update", 1), ("update", 2)]
    old = (InList("v", ("old",)),)
    assert changes(db, table, net, since, predicates=old) == [("delete", 3), ("delete", 5)]
    assert changes(db, table, net, since, predicates=old, limit=1) == [("delete", 3)]
    both = (Range("k", 4, None), InList(CHANGE_COLUMN, ("delete",)))
    assert changes(db, table, ("v",), since, predicates=both, history=True) == [("new",)]
    assert changes(db, table, (), since) == [()] * 4


def test_a_bulk_load_within_the_interval_is_insertions(db, table):
    since = db.now()
    with db.bulk_loader(table) as loader:
        loader.append(pa.table({"k": [3, 1, 2], "v": ["c", "a", "b"], "f": [0.5, None, float("inf")]}))
        loader.finish()
    loaded = db.now()
    put(db, table, Op.DELETE, (2,))
    columns = (CHANGE_COLUMN, "k", "f")
    assert changes(db, table, columns, since) == [("insert", 1, None), ("insert", 3, 0.5)]
    assert changes(db, table, columns, since, loaded)[1] == ("insert", 2, float("inf"))
    assert changes(db, table, columns, loaded) == [("delete", 2, float("inf"))]


def test_only_touched_pages_are_read(db, table):
    count = 3 * ROW_GROUP_ROWS
    keys = np.arange(count)
    with db.bulk_loader(table) as loader:
        loader.append(pa.table({"k": keys, "v": pa.array(keys.astype(str)), "f": keys / 2}))
        loader.finish()
    since = db.now()
    put(db, table, Op.UPDATE, (5, "five"), (ROW_GROUP_ROWS + 5, "more"))
    counters = ScanCounters()
    found = changes(db, table, ("k", "v", "f"), since, counters=counters)
    assert found == [(5, "five", 2.5), (ROW_GROUP_ROWS + 5, "more", (ROW_GROUP_ROWS + 5) / 2)]
    assert counters.rows_considered == counters.rows_returned == 2
    # Key, value and number of two row groups; the key once more for the order.
    assert counters.pages_read <= 8


def test_a_changed_column_need_not_be_among_those_asked_for(db, table):
    put(db, table, Op.INSERT, (1, "a", 0.5))
    db.flush()
    since = db.now()
    put(db, table, Op.UPDATE, (1, "b"))
    assert changes(db, table, ("k", "f"), since) == [(1, 0.5)]


def test_columns_of_bytes_and_many_rows_in_key_order(db):
    schema = Schema((ColumnSchema("k", BINARY, False), ColumnSchema("v", BIGINT)), 1)
    table = db.create_table(TableDefinition("b", schema))
    chance = random.Random(4)
    keys = [chance.randbytes(2) + i.to_bytes(3, "big") for i in range(70_000)]
    since = db.now()
    for start in range(0, len(keys), 20_000):
        part = keys[start : start + 20_000]
        db.write(table, WriteBatch(pa.record_batch({"k": part, "v": range(start, start + len(part))})))
        if start == 20_000:
            db.flush()
    found = changes(db, table, ("k", "v"), since)
    assert [k for k, _ in found] == sorted(keys)
    assert all(keys[v] == k for k, v in found)


def test_changes_since_a_time_that_is_forgotten_are_refused(db, table):
    since = db.now()
    put(db, table, Op.INSERT, (1, "a"))
    (tablet,) = db._stores[table.id].tablets
    tablet.metadata = replace(tablet.metadata, ancient_history_mark=int(since) + 1)
    with pytest.raises(HistoryGone):
        changes(db, table, ("k",), since)
    assert changes(db, table, ("k",), since + 1) == [(1,)]
