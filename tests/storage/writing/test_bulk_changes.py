"""UPDATE and DELETE of many rows: batches of ascending keys take shorter ways, which must come to the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import few
from nyala.model.keys.keys import Keys
from nyala.storage.predicate_eval.key_index import KeyIndex
from nyala.storage.tablet import row_locator
from nyala.storage.writing import incoming_rows, net_changes, op_resolution

ROWS = 3000
KEYS = {
    "BIGINT": pa.array([i * 3 - 4000 for i in range(ROWS)], pa.int64()),
    "STRING": pa.array([f"key {i // 500} {i:05d}" for i in range(ROWS)]),
    "DECIMAL(30, 2)": pa.array([Decimal(i * 10**20) for i in range(ROWS)], pa.decimal128(30, 2)),
    "DATE": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
}
STATEMENTS = [
    "UPDATE t SET a = a + 1",
    "UPDATE t SET a = NULL, s = 'x' || s WHERE a % 10 = 3",
    "DELETE FROM t WHERE a % 4 = 1",
    "INSERT INTO t SELECT k, 7, 'again', b FROM old WHERE a % 8 = 4 AND (a + 1) % 10 <> 3",
    "UPDATE t SET s = NULL, b = -b",
    "UPDATE t SET b = b WHERE s IS NOT NULL",
    "DELETE FROM t WHERE a IS NULL OR b > 0.9",
    "UPDATE t SET a = a - 1",
    "UPSERT INTO t SELECT k, 8, 'third', b FROM old WHERE b > 0.5",
    "UPDATE t SET a = a + 2",
    "DELETE FROM t WHERE b < 0.8",
]


def run(key: str, buckets: int, moves: dict[int, str]) -> list[Any]:
    """The table after each statement, the same in time travel at the end, and the history."""
    connection = nyala.connect(":memory:")
    layout = f"DISTRIBUTE BY HASH (k) INTO {buckets} BUCKETS" if buckets > 1 else ""
    for name in ("t", "old"):
        connection.execute(f"CREATE TABLE {name} (k {key}, a INT, s STRING, b DOUBLE, PRIMARY KEY (k)) {layout}")
    a = pa.array([None if i % 11 == 0 else i % 100 for i in range(ROWS)], pa.int32())
    texts = pa.array([None if i % 13 == 0 else f"s{i % 5}" for i in range(ROWS)])
    numbers = pa.array(np.random.default_rng(3).random(ROWS))
    for name in ("t", "old"):
        connection.load(name, pa.table({"k": KEYS[key], "a": a, "s": texts, "b": numbers}))
    connection.store.flush()  # the shorter ways are about rows of rowsets
    seen, times = [], []
    query = "SELECT * FROM t ORDER BY k"
    for number, statement in enumerate(STATEMENTS):
        cursor = connection.execute(statement)
        times.append(connection.now())
        seen.append((cursor.rowcount, connection.execute(query).fetchall()))
        if number in moves:
            connection.execute(moves[number])
    past = [connection.at(time).execute(query).fetchall() for time in times]
    assert past == [rows_ for _, rows_ in seen]
    connection.close()
    return seen


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("key", few(list(KEYS), 2))
def test_shorter_ways_come_to_the_same(key: str, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {"resolution": 0, "run": 0, "deltas": 0, "runs": 0, "distinct": 0}
    monkeypatch.setattr(row_locator, "_RUN_ROWS", 32)
    runs, are_distinct = row_locator._runs, row_locator.Locations.are_distinct
    changed, run_of, of_all = op_resolution._changed_rows, KeyIndex._run_of, net_changes.NetChanges._deltas_of_all

    def count_resolution(*given: Any) -> Any:
        found = changed(*given)
        taken["resolution"] += found is not None
        return found

    def count_run(*given: Any) -> Any:
        found = run_of(*given)
        taken["run"] += found >= 0
        return found

    def count_deltas(*given: Any) -> Any:
        taken["deltas"] += 1
        return of_all(*given)

    def count_runs(keys: Keys) -> Any:
        found = runs(keys)
        taken["runs"] += len(found) > 1
        return found

    def count_distinct(locations: row_locator.Locations) -> bool:
        taken["distinct"] += (found := are_distinct(locations))
        return found

    with monkeypatch.context() as counted:
        counted.setattr(row_locator, "_runs", count_runs)
        counted.setattr(row_locator.Locations, "are_distinct", count_distinct)
        counted.setattr(op_resolution, "_changed_rows", count_resolution)
        counted.setattr(KeyIndex, "_run_of", count_run)
        counted.setattr(net_changes.NetChanges, "_deltas_of_all", count_deltas)
        short = run(key, buckets, {2: "COMPACT TABLE t"})
    assert min(taken.values()) >= buckets, taken
    monkeypatch.setattr(row_locator, "_runs", lambda keys: [(0, keys)])
    monkeypatch.setattr(row_locator.Locations, "are_distinct", lambda _: False)
    monkeypatch.setattr(op_resolution, "_changed_rows", lambda *_: None)
    monkeypatch.setattr(net_changes.NetChanges, "_is_whole", lambda *_: False)
    monkeypatch.setattr(KeyIndex, "_find_ascending", lambda self, keys, likely: _found_by_search(self, keys, likely))
    assert run(key, buckets, {2: "COMPACT TABLE t"}) == short


def _found_by_search(index: KeyIndex, keys: Keys, likely: bool) -> Any:
    """As for keys in any order: `find` of the reversed keys."""
    backwards = np.arange(len(keys))[::-1]
    return index.find(keys.take(backwards), likely)[::-1]


def test_repeated_keys_of_many_runs_are_resolved() -> None:
    """Keys that exist, in ascending runs, one of them twice: the last value stays, and the whole batch is one write."""
    connection = nyala.connect(":memory:")
    connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, a BIGINT)")
    table = connection.table("t")
    keys = np.arange(20_000)
    connection.load("t", pa.table({"k": keys, "a": keys}))
    again = np.concatenate([keys[10_000:], keys[:10_001]])
    table.update(pa.table({"k": again, "a": np.arange(len(again))}))
    assert connection.execute("SELECT count(*), sum(a) FROM t").fetchone() == (
        20_000,
        sum(range(1, 20_001)),
    )
    connection.close()


@pytest.mark.parametrize(
    "type_",
    [pa.bool_(), pa.int8(), pa.int64(), pa.float64(), pa.decimal128(38, 2), pa.string(), pa.binary(), pa.date32()],
    ids=str,
)
def test_many_nulls_are_those_of_arrow(type_: pa.DataType) -> None:
    nulls = incoming_rows._nulls(type_, 70_001)
    nulls.validate(full=True)
    assert nulls.equals(pa.nulls(70_001, type_))
    assert nulls.slice(60_000).take(pa.array([5, 10_000])).to_pylist() == [None, None]
