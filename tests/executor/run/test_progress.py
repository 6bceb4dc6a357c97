"""A statement's reported progress: it grows, adds up to the rows of its scans, and is reported at the end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from executor_support import MemoryStore
from nyala.errors import Cancelled
from nyala.executor import ExecutionContext, LocalFiles
from nyala.executor.run import progress as progress_module
from nyala.executor.run.progress import Progress, Tracker
from nyala.executor.statements.statements import run
from nyala.planner import plan_query
from nyala.sql import bind, bound, parse


@pytest.fixture(autouse=True)
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL", 0.0)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(batch_rows=10, tablets=3)
    numbers = np.arange(1000)
    made.add("t", pa.table({"k": numbers, "v": numbers % 7}), ["k"], "k")
    made.add("u", pa.table({"k": numbers[:100], "v": numbers[:100]}))
    return made


def told(store: MemoryStore, text: str, **options: Any) -> list[Progress]:
    statement = bind(parse(text)[0], store, None, LocalFiles())
    plan = plan_query(statement.query, store) if isinstance(statement, bound.WITH_QUERY) else None
    seen: list[Progress] = []
    context = ExecutionContext(store, progress=seen.append, **options)  # type: ignore[arg-type]
    list(run(statement, context, plan).batches)
    return seen


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT k FROM t", 1000),
        ("SELECT k FROM t WHERE v = 100", 1000),
        ("SELECT sum(v) FROM t", 1000),
        ("SELECT t.k FROM t JOIN u ON t.k = u.v", 1100),
        ("SELECT * FROM t ORDER BY v, k", 1000),
        ("INSERT INTO u SELECT k + 1000, v FROM t", 1000),
        ("SELECT 1", 0),
    ],
)
def test_rows_grow_up_to_those_of_all_scans(store: MemoryStore, text: str, rows: int, threads: int) -> None:
    seen = told(store, text, threads=threads)
    assert [p.rows for p in seen] == sorted(p.rows for p in seen)
    assert [p.parts_done for p in seen] == sorted(p.parts_done for p in seen)
    last = seen[-1]
    assert (last.rows, last.expected_rows, last.fraction) == (rows, rows, 1.0)
    assert last.parts_done == last.parts
    assert all(p.rows <= (p.expected_rows or 0) for p in seen)
    assert all(p.expected_rows is not None and p.expected_rows >= rows for p in seen), "known before anything is opened"


def test_files_and_copies_count_too(store: MemoryStore, tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": np.arange(5000, 5100), "v": np.arange(100)}), path, row_group_size=10)
    last = told(store, f"SELECT sum(v) FROM '{path}' WHERE v + v = 3")[-1]
    assert last == Progress(100, 100, 10, 10)
    assert told(store, f"COPY t FROM '{path}'")[-1] == Progress(100, 100, 1, 1)
    (tmp_path / "f.csv").write_text("k,v\n7000,1\n7001,2\n")
    last = told(store, f"COPY t FROM '{tmp_path}/f.csv'")[-1]
    assert (last.rows, last.expected_rows, last.fraction) == (2, None, None)


def test_a_statement_without_a_query_tells_its_end(store: MemoryStore) -> None:
    assert set(told(store, "CREATE TABLE n (k INT PRIMARY KEY)")) == {Progress(0, 0)}


def test_a_true_answer_cancels_and_an_exception_comes_out(store: MemoryStore) -> None:
    query = bind(parse("SELECT sum(v) FROM t")[0], store).query  # type: ignore[union-attr]
    statement, plan = bound.SelectStatement(query), plan_query(query, store)
    with pytest.raises(Cancelled):
        list(run(statement, ExecutionContext(store, progress=lambda _: True), plan).batches)  # type: ignore[arg-type]

    def broken(_: Progress) -> None:
        raise ValueError("a broken bar")

    with pytest.raises(ValueError, match="a broken bar"):
        list(run(statement, ExecutionContext(store, progress=broken), plan).batches)  # type: ignore[arg-type]


def test_calls_are_spaced_and_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL", 3600.0)
    inside = threading.Lock()
    seen: list[Progress] = []

    def handler(progress: Progress) -> None:
        assert inside.acquire(blocking=False)
        seen.append(progress)
        inside.release()

    tracker = Tracker(handler, threading.Event())
    threads = [threading.Thread(target=lambda: [tracker.passed(1) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker.finish()
    tracker.finish()
    assert [p.rows for p in seen] == [4000]
