"""Cancellation, checked by counts: once the event is set, an operator's scans produce only a bounded number of
batches."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from executor_support import MemoryStore
from nyala.errors import Cancelled
from nyala.executor import ExecutionContext, LocalFiles
from nyala.executor.statements.statements import run
from nyala.model.store import ScanCounters, ScanToken
from nyala.model.vectors.vector import Batch
from nyala.planner import plan_query
from nyala.sql import bind, bound, parse
from nyala.storage.database import Database

ROWS, BATCH = 4000, 10


class CancellingStore(MemoryStore):
    """Sets the cancel event at its nth batch, and counts the batches after it."""

    def __init__(self, after: int):
        super().__init__(batch_rows=BATCH, tablets=3)
        self.cancel = threading.Event()
        self.left = after
        self.given_since = 0

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        for batch in super().scan(token, counters):
            self.left -= 1
            if self.left < 0:
                self.cancel.set()
                self.given_since += 1
            yield batch


def filled(after: int) -> CancellingStore:
    store = CancellingStore(after)
    numbers = np.arange(ROWS)
    data = pa.table({"k": numbers, "v": numbers % 7, "w": numbers % 100, "s": [f"text {i % 50}" for i in numbers]})
    store.add("t", data, ["k"], "k")
    store.add("u", data.slice(0, 300), ["k"], "k")
    return store


def start(store: Any, text: str, **options: Any) -> list[pa.RecordBatch]:
    statement = bind(parse(text)[0], store, None, LocalFiles())
    plan = plan_query(statement.query, store) if isinstance(statement, bound.WITH_QUERY) else None
    return list(run(statement, ExecutionContext(store, **options), plan).batches)


QUERIES = [
    "SELECT k FROM t",
    "SELECT k FROM t WHERE v = 100",  # every row is dropped
    "SELECT k FROM t WHERE s || 'x' = 'y'",
    "SELECT sum(v) FROM t",
    "SELECT k, sum(v) FROM t GROUP BY k",
    "SELECT w, s, count(DISTINCT v) FROM t GROUP BY ROLLUP (w, s)",
    "SELECT DISTINCT w FROM t",
    "SELECT * FROM t ORDER BY s, k",
    "SELECT * FROM t ORDER BY w LIMIT 3",
    "SELECT k FROM t LIMIT 3900",
    "SELECT t.k FROM t JOIN u ON t.k = u.k",
    "SELECT a.k FROM t a JOIN t b ON a.v = b.v",
    "SELECT a.k FROM t a FULL JOIN t b ON a.k = b.k + 1",
    "SELECT a.k FROM t a WHERE a.w NOT IN (SELECT w + 1 FROM t)",
    "SELECT a.k FROM t a, u b WHERE a.k < b.k AND a.v + b.v = -1",
    "SELECT sum(v) OVER (PARTITION BY w ORDER BY k) FROM t",
    "SELECT max(v) OVER (ORDER BY k ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) FROM t",
    "SELECT k FROM t UNION ALL SELECT k FROM u",
    "SELECT w FROM t EXCEPT SELECT w FROM u",
    "WITH RECURSIVE r AS (SELECT k FROM u UNION SELECT t.k + 1 FROM r JOIN t ON t.k = r.k) SELECT count(*) FROM r",
    "SELECT n FROM u, generate_series(1, u.k) g(n)",
    "SELECT (SELECT max(v) FROM t x WHERE x.w = t.w) FROM t",
    "SELECT v, k FROM u, LATERAL (SELECT k AS o FROM t WHERE t.w = u.w ORDER BY k LIMIT 2) l",
    "INSERT INTO u SELECT k + 10000, v, w, s FROM t",
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("after", [0, 25])
@pytest.mark.parametrize("text", QUERIES)
def test_a_cancel_stops_the_scans_of_every_operator(text: str, after: int, threads: int) -> None:
    store = filled(after)
    before = store._parts["u"]
    with pytest.raises(Cancelled, match="the statement was cancelled"):
        start(store, text, threads=threads, cancel=store.cancel)
    assert store.given_since <= 2 * threads
    assert store._parts["u"] is before, "nothing was written"


def test_an_interval_join_of_many_pairs_is_cancelled_between_blocks() -> None:
    """The pairs of one batch are many more than its rows."""
    store = filled(10**9)
    looks = itertools.count()

    class Counting(ExecutionContext):
        def check(self) -> None:
            if next(looks) == 200:
                self.cancel.set()
            super().check()

    text = "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v = -1"
    plan = plan_query(bind(parse(text)[0], store).query, store)  # type: ignore[union-attr]
    with pytest.raises(Cancelled):
        list(run(bind(parse(text)[0], store), Counting(store, threads=1), plan).batches)
    assert next(looks) < 210


# ---- the embedded store ----------------------------------------------------------------------------------------------


@pytest.fixture
def database() -> Iterator[Database]:
    with Database(background=False) as database:
        start(database, "CREATE TABLE t (k INT PRIMARY KEY, v INT, s STRING)")
        with database.bulk_loader(database.table("t")) as loader:
            numbers = np.arange(1_000_000, dtype=np.int32)
            texts = pa.array(["x", "z"]).take(pa.array(numbers % 2))
            loader.append(pa.table({"k": numbers, "v": (numbers * 7919) % 1009, "s": texts}))
            loader.finish()
        yield database


class CountingContext(ExecutionContext):
    """Cancels at the nth row group."""

    groups = 0
    most = 2

    def watch(self, rows: int) -> None:
        self.groups += 1
        if self.groups == self.most:
            self.cancel.set()
        super().watch(rows)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t WHERE v = 700 AND k % 1009 = -1",
        "SELECT k FROM t WHERE s = 'y'",
        "SELECT k FROM t WHERE v IN (3, 5) AND v + 0 = 4",
        "UPDATE t SET v = 0 WHERE s = 'y'",
        "DELETE FROM t WHERE v = 3 AND k % 2 = 3",
    ],
)
def test_a_scan_that_drops_every_row_is_cancelled_at_its_next_row_group(database: Database, text: str) -> None:
    statement = bind(parse(text)[0], database)
    plan = plan_query(statement.query, database)  # type: ignore[union-attr]
    context = CountingContext(database, threads=1)
    with pytest.raises(Cancelled):
        list(run(statement, context, plan).batches)
    assert context.groups == context.most


@pytest.mark.parametrize("text", ["ANALYZE t", "COMPACT TABLE t"])
def test_analyze_and_compact_end_between_steps(database: Database, text: str) -> None:
    start(database, "UPDATE t SET v = v + 1 WHERE k % 10 = 0")
    cancel = threading.Event()
    cancel.set()
    written = database.table_storage(database.table("t"))
    with pytest.raises(Cancelled):
        start(database, text, cancel=cancel)
    assert database.table_storage(database.table("t")) == written
    start(database, text)


def test_copy_is_cancelled_without_a_trace(database: Database, tmp_path: Path) -> None:
    numbers = np.arange(2_000_000, 3_000_000, dtype=np.int32)
    pq.write_table(pa.table({"k": numbers, "v": numbers}), tmp_path / "more.parquet", row_group_size=10_000)
    for number, text in enumerate([f"COPY t FROM '{tmp_path}/more.parquet'", f"COPY t TO '{tmp_path}/out.csv'"]):
        statement = bind(parse(text)[0], database)
        plan = plan_query(statement.query, database) if number else None  # type: ignore[union-attr]
        with pytest.raises(Cancelled):
            run(statement, CountingContext(database, threads=1), plan)
    assert sum(b.num_rows for b in start(database, "SELECT k FROM t WHERE k >= 2000000")) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["more.parquet"]


def test_rows_of_files_that_are_all_dropped(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": np.arange(1000) % 7}), tmp_path / "f.parquet", row_group_size=10)
    store = MemoryStore()
    text = f"SELECT v FROM '{tmp_path}/f.parquet' WHERE v + v = 3"
    statement = bind(parse(text)[0], store, None, LocalFiles())
    context = CountingContext(store, threads=1)  # type: ignore[arg-type]
    with pytest.raises(Cancelled):
        list(run(statement, context, plan_query(statement.query, store)).batches)  # type: ignore
    assert context.groups == context.most


def test_a_very_large_condition_is_planned_in_linear_time_and_cancelled_between_steps() -> None:
    store = filled(10**9)
    text = "SELECT k FROM t WHERE " + " OR ".join(f"k = {i}" for i in range(3000))
    query = bind(parse(text)[0], store).query  # type: ignore[union-attr]
    steps = itertools.count()

    def check() -> None:
        if next(steps) == 3:
            raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        plan_query(query, store, None, check)
    assert next(steps) == 4
