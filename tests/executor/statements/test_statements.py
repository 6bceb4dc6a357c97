"""Statements other than queries, and execution in general: files, cancellation, limits, errors, EXPLAIN."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from executor_support import MemoryStore
from nyala.errors import (
    AlreadyPresent,
    Cancelled,
    CardinalityViolation,
    DataError,
    DivisionByZero,
    DuplicateTable,
    NotNullViolation,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    UnknownColumn,
    UnknownTable,
)
from nyala.executor import ExecutionContext, StatementResult
from nyala.executor.execute import execute
from nyala.executor.run.progress import Progress
from nyala.executor.run.stream import Morsel, Stream
from nyala.executor.statements.statements import run
from nyala.model.store import ScanToken
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat
from nyala.planner import plan_query
from nyala.sql import bind, parse
from nyala.sql.bound import Explain, InsertStatement, SelectStatement


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(batch_rows=100)
    made.add("t", pa.table({"k": range(1000), "v": [i % 7 for i in range(1000)], "s": ["x", "y"] * 500}), ["k"], "k")
    return made


def start(store: MemoryStore, text: str, **options: Any) -> StatementResult:
    statement = bind(parse(text)[0], store)
    inner = statement.statement if isinstance(statement, Explain) else statement
    plan = plan_query(inner.query, store) if isinstance(inner, SelectStatement | InsertStatement) else None
    context = options.pop("context", None) or ExecutionContext(store, **{"threads": 2, **options})  # type: ignore[arg-type]
    return run(statement, context, plan)


def rows(store: MemoryStore, text: str, **options: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in start(store, text, **options).batches:
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


# ---- writing -------------------------------------------------------------------------------------------------------


def test_create_insert_describe_drop(store: MemoryStore) -> None:
    created = start(store, "CREATE TABLE n (a INT NOT NULL, b DECIMAL(9,2) DEFAULT 1.5, PRIMARY KEY (a))")
    assert created.columns is None
    assert start(store, "INSERT INTO n (a, b) VALUES (1, 2.25), (2, NULL)").rowcount == 2
    assert start(store, "INSERT INTO n (a) SELECT k FROM t WHERE k > 997").rowcount == 2
    assert [str(r) for r in rows(store, "SELECT a, b FROM n ORDER BY a")] == [
        "(1, Decimal('2.25'))",
        "(2, None)",
        "(998, Decimal('1.50'))",
        "(999, Decimal('1.50'))",
    ]
    assert rows(store, "SHOW TABLES") == [("n", "table"), ("t", "table")]
    assert rows(store, "DESCRIBE n")[1][:5] == ("b", "DECIMAL(9,2)", True, False, "1.50")
    start(store, "DROP TABLE n")
    assert rows(store, "SHOW TABLES") == [("t", "table")]


def test_if_exists_and_if_not_exists(store: MemoryStore) -> None:
    start(store, "CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY)")
    start(store, "DROP TABLE IF EXISTS nothing")
    with pytest.raises(DuplicateTable, match="t exists already"):
        start(store, "CREATE TABLE t (a INT PRIMARY KEY)")
    with pytest.raises(UnknownTable, match="nothing"):
        start(store, "DROP TABLE nothing")


def test_refused_rows_are_told_with_what_became_of_the_others(store: MemoryStore) -> None:
    with pytest.raises(AlreadyPresent) as caught:
        start(store, "INSERT INTO t (k, v, s) VALUES (3, 0, 'a'), (2001, 0, 'b'), (6, 0, 'c')")
    assert str(caught.value) == "key (3,) is in table t already\n2 of 3 rows refused, none was inserted"
    with pytest.raises(AlreadyPresent) as single:
        start(store, "INSERT INTO t (k, v, s) VALUES (3, 0, 'a')")
    assert "refused" not in str(single.value)


def test_an_error_in_the_query_inserts_nothing(store: MemoryStore) -> None:
    with pytest.raises(DivisionByZero):
        start(store, "INSERT INTO t (k, v, s) SELECT k + 5000, 1 / (k - 999), s FROM t")
    assert rows(store, "SELECT count(*) FROM t") == [(1000,)]


def test_insert_from_the_same_table_ends(store: MemoryStore) -> None:
    assert start(store, "INSERT INTO t (k, v, s) SELECT k + 1000, v, s FROM t").rowcount == 1000
    assert rows(store, "SELECT count(*) FROM t") == [(2000,)]


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    data = pa.table({"K": pa.array([5000, 5001], pa.int32()), "v": [1, 2], "s": ["a", None]})
    pq.write_table(data, tmp_path / "more.parquet", row_group_size=1)
    pa_csv.write_csv(data, tmp_path / "more.csv")
    (tmp_path / "bare.csv").write_text("7000;x;1\n7001;-;2\n")
    return tmp_path


def _empty(store: MemoryStore) -> None:
    columns = {"k": pa.array([], pa.int64()), "v": pa.array([], pa.int64()), "s": pa.array([], pa.string())}
    store.add("n", pa.table(columns), nullable=["s"])


@pytest.mark.parametrize("name", ["more.parquet", "more.csv"])
def test_copy(store: MemoryStore, files: Path, name: str) -> None:
    seen: list[Progress] = []
    _empty(store)
    assert start(store, f"COPY n FROM '{files / name}'", progress=seen.append).rowcount == 2
    assert rows(store, "SELECT k, v, s FROM n ORDER BY k") == [(5000, 1, "a"), (5001, 2, None)]
    assert (seen[-1].rows, seen[-1].parts_done) == (2, 1)


def test_copy_csv_with_options(store: MemoryStore, files: Path) -> None:
    options = "FORMAT csv, DELIMITER ';', HEADER false, NULL '-'"
    _empty(store)
    assert start(store, f"COPY n (k, s, v) FROM '{files / 'bare.csv'}' ({options})").rowcount == 2
    assert rows(store, "SELECT k, s, v FROM n ORDER BY k") == [(7000, "x", 1), (7001, None, 2)]
    with pytest.raises(NotNullViolation, match="line 2: NULL in column s of table t"):
        start(store, f"COPY t (k, s, v) FROM '{files / 'bare.csv'}' ({options})")


def test_copy_says_what_does_not_fit(store: MemoryStore, files: Path) -> None:
    pq.write_table(pa.table({"k": [1], "vv": [2]}), files / "wrong.parquet")
    with pytest.raises(UnknownColumn, match=r"column vv of .*wrong\.parquet is not in table t"):
        start(store, f"COPY t FROM '{files / 'wrong.parquet'}'")
    pq.write_table(pa.table({"v": [1], "s": ["x"]}), files / "keyless.parquet")
    with pytest.raises(NotNullViolation, match="lacks column k, which is NOT NULL in table t"):
        start(store, f"COPY t FROM '{files / 'keyless.parquet'}'")
    pq.write_table(pa.table({"k": ["one"], "v": [1], "s": ["x"]}), files / "texts.parquet")
    with pytest.raises(DataError, match=r"column t\.k: string does not convert to int64"):
        start(store, f"COPY t FROM '{files / 'texts.parquet'}'")
    (files / "torn.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"torn\.parquet"):
        start(store, f"COPY t FROM '{files / 'torn.parquet'}'")
    with pytest.raises(OperationalError, match="there is no file"):
        start(store, f"COPY t FROM '{files / 'none.parquet'}'")
    with pytest.raises(ProgrammingError, match="option"):
        start(store, f"COPY t FROM '{files / 'bare.csv'}' (FORMAT csv, DELIMETER ';')")


def test_external_files_join_tables(store: MemoryStore, files: Path) -> None:
    store.add("n", pa.table({"k": [5001, 5002], "w": ["yes", "no"]}))
    text = f"SELECT n.w, f.v FROM read_parquet('{files / 'more.parquet'}') AS f JOIN n ON n.k = f.\"K\""
    try:
        found = rows(store, text)
    except (ProgrammingError, NotSupportedError, OperationalError) as error:
        pytest.skip(f"the binder does not read files yet: {error}")
    assert found == [("yes", 2)]


# ---- errors, cancelling, limits ------------------------------------------------------------------------------------


def test_errors_of_threads_keep_their_type(store: MemoryStore) -> None:
    with pytest.raises(DivisionByZero, match="NULLIF"):
        rows(store, "SELECT 1 / (k - 777) FROM t")
    with pytest.raises(CardinalityViolation, match=r"more than one row|1000 rows"):
        rows(store, "SELECT (SELECT k FROM t) FROM t")


class SlowStore(MemoryStore):
    """Sets the cancel event while it is being scanned."""

    cancel = threading.Event()

    def scan(self, token: ScanToken, counters: Any = None) -> Iterator[Batch]:
        for number, batch in enumerate(super().scan(token, counters)):
            if number == 1:
                self.cancel.set()
            yield batch


@pytest.mark.parametrize("text", ["SELECT k FROM t", "SELECT sum(v) FROM t", "SELECT k FROM t ORDER BY s, k"])
def test_a_cancel_ends_a_statement_between_batches(text: str) -> None:
    slow = SlowStore(batch_rows=10)
    slow.cancel = threading.Event()
    slow.add("t", pa.table({"k": range(2000), "v": range(2000), "s": ["x"] * 2000}))
    with pytest.raises(Cancelled, match="the statement was cancelled"):
        rows(slow, text, cancel=slow.cancel)
    assert len(slow.columns_read) < 3 * 200


def test_closing_a_result_stops_the_work(store: MemoryStore) -> None:
    batches = start(store, "SELECT k FROM t").batches
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]
    assert len(store.columns_read) <= 12


def test_a_limit_stops_reading(store: MemoryStore) -> None:
    assert len(rows(store, "SELECT k FROM t LIMIT 5", threads=1)) == 5
    assert len(store.columns_read) == 1


def test_memory_limit_names_the_operator(store: MemoryStore) -> None:
    with pytest.raises(OperationalError, match=r"a sort needs .* memory_limit"):
        rows(store, "SELECT k FROM t ORDER BY v", memory_limit=1000)


def test_negative_limits_are_refused(store: MemoryStore) -> None:
    with pytest.raises((DataError, ProgrammingError)):
        rows(store, "SELECT k FROM t LIMIT -1")


def test_results_come_in_order_however_many_threads(store: MemoryStore) -> None:
    one = rows(store, "SELECT k FROM t WHERE v > 2", threads=1)
    assert rows(store, "SELECT k FROM t WHERE v > 2", threads=4) == one


def test_a_batch_of_a_result_is_read_already(store: MemoryStore) -> None:
    statement = bind(parse("SELECT k, s FROM t")[0], store)
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store)
    for batch in execute(plan.root, ExecutionContext(store, threads=2)):  # type: ignore[arg-type]
        assert all(batch.is_loaded(i) for i in range(batch.width))


def test_morsels_do_not_deadlock_when_they_outnumber_threads(store: MemoryStore) -> None:
    context = ExecutionContext(store, threads=2)  # type: ignore[arg-type]

    def morsel(i: int) -> Morsel:
        return Morsel(lambda: iter([Batch([Flat(BIGINT, np.array([i]))], 1)]))

    stream = Stream((), tuple(morsel(i) for i in range(50)))

    def nested(batches: Iterator[Batch], _: Morsel) -> int:
        return sum(context.parallel([lambda b=b: int(b.column(0).values()[0]) for b in batches]))

    assert context.run_all(stream, nested) == list(range(50))


# ---- EXPLAIN ---------------------------------------------------------------------------------------------------


def test_explain_analyze_counts(store: MemoryStore) -> None:
    text = "\n".join(
        line for (line,) in rows(store, "EXPLAIN ANALYZE SELECT v, count(*) FROM t WHERE k < 500 GROUP BY v")
    )
    assert "HashAggregate" in text
    assert "7 rows" in text
    assert "500 rows" in text
    assert "1,000 rows considered" in text
    assert "ms" in text


def test_explain_analyze_as_json_is_data(store: MemoryStore) -> None:
    query = "SELECT v, count(*) FROM t WHERE k < 500 GROUP BY v"
    ((text,),) = rows(store, f"EXPLAIN (ANALYZE, FORMAT JSON) {query}")
    by_operator = {}
    waiting = [json.loads(text)]
    while waiting:
        node = waiting.pop()
        by_operator[node["operator"]] = node
        waiting += node["inputs"]
    scan, aggregate = by_operator["TableScan"], by_operator["HashAggregate"]
    assert (scan["table"], scan["tablets_scanned"], scan["actual_rows"]) == ("t", scan["tablets"], 500)
    assert aggregate["actual_rows"] == 7
    assert aggregate["memory_bytes"] > 0
    ((unrun,),) = rows(store, f"EXPLAIN (FORMAT JSON) {query}")
    assert "actual_rows" not in unrun


def test_explain_does_not_run(store: MemoryStore) -> None:
    text = [line for (line,) in rows(store, "EXPLAIN SELECT 1 / (k - 1) FROM t")]
    assert any("TableScan" in line for line in text)
    assert store.columns_read == []


def test_explain_of_statements_without_a_plan_is_refused(store: MemoryStore) -> None:
    with pytest.raises(NotSupportedError, match=r"COPY \.\.\. TO; other"):
        start(store, "EXPLAIN SHOW TABLES")
