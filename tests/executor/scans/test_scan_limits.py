"""Limits pushed down into scans: the same results as DuckDB's, and few rows are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor import ExecutionContext
from nyala.executor.joins.runtime_filters import RuntimeFilters
from nyala.executor.scans.scan import open_table_scan
from nyala.executor.statements.statements import run
from nyala.model.schema import Table
from nyala.model.store import ScanSpec, ScanToken
from nyala.planner import plan_query
from nyala.planner.algebra.physical import TableScan
from nyala.planner.scans import scan_limits
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement
from nyala.storage.reading.tablet_scan import even_rows

ORACLE = duckdb.connect(config={"threads": 1})
ROWS = 60


def query(store: MemoryStore, text: str, *values: Any) -> list[tuple[Any, ...]]:
    statement = bind(parse(text)[0], store, values)
    assert isinstance(statement, SelectStatement)
    result = run(statement, ExecutionContext(store, threads=2), plan_query(statement.query, store))  # type: ignore[arg-type]
    return [row for batch in result.batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


def filled(hashed: str | None) -> MemoryStore:
    """Table r(g, t, v) of 60 rows with the key (g, t), in no order."""
    rng = np.random.default_rng(5)
    order = rng.permutation(ROWS)
    values = [None if i % 7 == 0 else i % 5 for i in range(ROWS)]
    data = pa.table(
        {
            "g": pa.array(order // 10, pa.int64()),
            "t": pa.array([f"t{i % 10}" for i in order], pa.string()),
            "v": pa.array(values, pa.int64()),
        }
    )
    store = MemoryStore(batch_rows=4)
    store.add("r", data, ["g", "t"], hashed)
    ORACLE.register("r", data)
    return store


WHERE = st.sampled_from(
    [
        "TRUE",
        "v = 2 OR v > 3",
        "v IS NULL OR v < 1",
        "g = 3",
        "g = 3 AND v > 0",
        "g + v = 4",
        "t LIKE 't1%' OR t > 't7'",
    ]
)
ORDER = st.sampled_from(["g, t", "g, t, v", "t, g", "g, t DESC", "3, g, t"])


@given(
    where=WHERE, order=ORDER, limit=st.integers(0, 12), offset=st.integers(0, 5), hashed=st.sampled_from([None, "g"])
)
@settings(max_examples=examples(40), deadline=None)
def test_top_rows_are_duckdb_s(hashed: str | None, where: str, order: str, limit: int, offset: int) -> None:
    """Also if the scan must produce the rows in key order regardless of cost."""
    store = filled(hashed)
    text = f"SELECT g, t, v FROM r WHERE {where} ORDER BY {order} LIMIT "
    wanted = ORACLE.execute(f"{text}{limit} OFFSET {offset}").fetchall()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan_limits, "WORTH_ORDERING", 1e9)
        assert query(store, f"{text}{limit} OFFSET {offset}") == wanted
        if order.startswith("g, t") and "DESC" not in order and limit:
            assert store.specs[-1].ordered
        assert query(store, f"{text}$1 OFFSET $2", limit, offset) == wanted


@given(where=WHERE, limit=st.integers(0, 70), offset=st.integers(0, 5))
@settings(max_examples=examples(40), deadline=None)
def test_a_limit_alone_gives_so_many_of_the_rows(where: str, limit: int, offset: int) -> None:
    store = filled("g")
    every = Counter(ORACLE.execute(f"SELECT t, v + 1 FROM r WHERE {where}").fetchall())
    found = Counter(query(store, f"SELECT t, v + 1 FROM r WHERE {where} LIMIT {limit} OFFSET {offset}"))
    assert found <= every
    assert found.total() == max(0, min(limit, every.total() - offset))
    assert store.specs[-1].limit == (None if "+" in where else limit + offset)


def test_equality_with_a_parameter_makes_the_rest_of_the_key_the_order() -> None:
    store = filled(None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan_limits, "WORTH_ORDERING", 1e9)
        assert query(store, "SELECT t FROM r WHERE g = $1 ORDER BY t LIMIT 2", 4) == [("t0",), ("t1",)]
    assert store.specs[-1].ordered


@pytest.mark.parametrize("where", ["TRUE", "v > 1", "g = 3"])
def test_rows_of_one_tablet_that_come_in_order_are_not_sorted(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(None)
    text = f"SELECT t, g, v FROM r WHERE {where} ORDER BY g, t LIMIT 5 OFFSET 2"
    monkeypatch.setattr(scan_limits, "WORTH_ORDERING", 1e9)
    monkeypatch.delattr("nyala.executor.sorting.sorted_rows.Sorter")
    assert query(store, text) == ORACLE.execute(text).fetchall()


def test_rows_of_one_tablet_in_another_order_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(None)
    monkeypatch.delattr("nyala.executor.sorting.sorted_rows.Sorter")
    with pytest.raises(NameError):
        query(store, "SELECT t, g FROM r ORDER BY t, g LIMIT 5")


def test_a_limit_of_null_is_none() -> None:
    store = filled(None)
    assert len(query(store, "SELECT g FROM r LIMIT $1", None)) == ROWS
    assert store.specs[-1].limit is None


# ---- what is read ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nyala.Connection]:
    file = tmp_path_factory.mktemp("limits") / "rows.parquet"
    keys = np.arange(1_000_000)
    pq.write_table(pa.table({"k": keys, "v": keys * 7919 % 1000}), file)
    with nyala.connect(":memory:", threads=2) as connection:
        connection.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)")
        connection.execute(f"COPY r FROM '{file}'")
        yield connection


def read(connection: nyala.Connection, text: str) -> tuple[int, int]:
    """(rows considered, pages read) by the scan of a query."""
    drawn = "\n".join(row[0] for row in connection.execute(f"EXPLAIN ANALYZE {text}").fetchall())
    match = re.search(r"([\d,]+) rows considered; pages: ([\d,]+) read", drawn)
    assert match is not None, drawn
    return int(match[1].replace(",", "")), int(match[2].replace(",", ""))


@pytest.mark.embedded_only("counts the rows that a scan considers before a limit ends it; servers read ahead")
def test_the_first_rows_by_key_cost_the_first_pages(
    connection: nyala.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT k, v FROM r WHERE v >= 500 ORDER BY k LIMIT 10"
    rows, pages = read(connection, text)
    assert rows <= 131_072 + 2
    assert pages <= 2
    answer = connection.execute(text).fetchall()
    monkeypatch.setattr(scan_limits, "WORTH_ORDERING", 0.0)
    assert connection.execute(text + "  ").fetchall() == answer


def test_rows_that_came_since_are_merged_in(connection: nyala.Connection) -> None:
    connection.execute("INSERT INTO r VALUES (-5, 3), (-4, 4)")
    connection.execute("DELETE FROM r WHERE k = 0")
    found = connection.execute("SELECT k FROM r ORDER BY k LIMIT 4").fetchall()
    assert found == [(-5,), (-4,), (1,), (2,)]


def test_rows_of_one_bucket_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user's first events: others are in other tablets."""
    with nyala.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE e (u INT, t INT, v INT, PRIMARY KEY (u, t)) DISTRIBUTE BY HASH (u) INTO 4 BUCKETS"
        )
        connection.executemany("INSERT INTO e VALUES (?, ?, ?)", [(i % 50, i * 7919 % 3000, i) for i in range(3000)])
        text = "SELECT t, v FROM e WHERE u = ? ORDER BY t LIMIT 5"
        wanted = sorted((i * 7919 % 3000, i) for i in range(3000) if i % 50 == 17)[:5]
        monkeypatch.delattr("nyala.executor.sorting.sorted_rows.Sorter")
        assert connection.execute(text, (17,)).fetchall() == wanted


def test_each_part_of_a_scan_ends_at_the_limit(connection: nyala.Connection) -> None:
    rows, pages = read(connection, "SELECT k FROM r WHERE v = 3 LIMIT 10")
    assert rows <= 2 * 2 * 131_072 + 2
    assert pages <= 8


@pytest.mark.parametrize(("threads", "rows"), [(1, 1 << 20), (4, 1 << 20), (5, 1 << 19), (64, 1 << 19)])
def test_few_threads_have_larger_morsels(threads: int, rows: int) -> None:
    store = filled("g")
    statement = bind(parse("SELECT count(*) FROM r")[0], store, ())
    assert isinstance(statement, SelectStatement)
    context = ExecutionContext(store, threads=threads)  # type: ignore[arg-type]
    list(run(statement, context, plan_query(statement.query, store)).batches)
    assert store.specs[-1].split_rows == rows


class SplitStore:
    """Scans of a table of `rows` rows in tokens of about `split_rows`."""

    runs_fragments = False

    def __init__(self, rows: int):
        self._rows = rows
        self.requests = 0

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        self.requests += 1
        sizes = self._sizes(spec.split_rows or self._rows)
        if (even := even_rows(spec, sizes)) is not None:
            sizes = self._sizes(even)
        return [ScanToken(table, "t", spec, rows=size) for size in sizes]

    def _sizes(self, split_rows: int) -> list[int]:
        size = -(-split_rows // 131_072) * 131_072
        return [min(size, self._rows - start) for start in range(0, self._rows, size)]


@pytest.mark.parametrize(
    ("rows", "threads", "share", "morsels"),
    [
        (16 * 131_072, 2, 1.0, 8),  # four for each thread
        (8 * 131_072, 2, 1.0, 8),
        (8 * 131_072, 2, 0.1, 1),  # few rows are expected: gathered in large morsels
        (5 * 131_072, 2, 1.0, 1),  # too few to wake a thread for
        (16 * 131_072, 1, 1.0, 2),  # one thread shares with no other
        (100 * 131_072, 2, 1.0, 13),
    ],
)
def test_scans_of_many_rows_have_several_morsels_for_each_thread(
    rows: int, threads: int, share: float, morsels: int
) -> None:
    table = filled("g").table("r")
    scan = TableScan(columns=(), estimate=rows * share, table=table, alias="r", names=(), fetched=())
    store = SplitStore(rows)
    context = ExecutionContext(store, threads=threads)  # type: ignore[arg-type]
    assert len(open_table_scan(scan, context, RuntimeFilters()).morsels) == morsels
    assert store.requests == 1
