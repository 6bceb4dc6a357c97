"""Aggregation, DISTINCT, set operations and shared rows under limits that make them spill: the same rows are
produced."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples, few
from executor_support import MemoryStore, open_files
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import Cancelled, OperationalError
from nyala.executor.aggregation.accumulators import Sum
from nyala.executor.aggregation.aggregate_calls import accumulator_of, parts_of, state_of
from nyala.executor.kernels.groups.segments import segments, segments_of_codes
from nyala.executor.spilling.encoded import from_record_batch, to_record_batch
from nyala.executor.spilling.lists import Lists
from nyala.model.types import BIGINT, DataType, Kind
from nyala.model.vectors.vector import Batch, Const, Flat, Vector, Wide, concat, vector_from_arrow
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.algebra.physical import HashAggregate, nodes
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement
from nyala.sql.expressions import Aggregate, Column, Literal
from spilling_support import CALLS, KEYS, answer, check, sorted_rows, store_of, table

# ---- states as vectors -----------------------------------------------------------------------------------------------


def calls_of(text: str) -> list[Aggregate]:
    """Return the aggregate calls of a query over `r`."""
    store = store_of(table(4))
    statement = bind(parse(f"SELECT {text} FROM r")[0], store)  # type: ignore[arg-type]
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store, PlannerOptions(check=True))  # type: ignore[arg-type]
    return [call for node in nodes(plan.root) if isinstance(node, HashAggregate) for call in node.aggregates]


PLAIN = (
    "count(*), count(n), count(k) FILTER (WHERE f), sum(n), sum(m), sum(w), sum(x), min(t), max(c), min(x), max(w)",
    "sum(DISTINCT a), count(DISTINCT t), string_agg(DISTINCT t, ','), string_agg(t, b), product(y), bool_or(f)",
    "bit_xor(n), var_pop(x), var_pop(DISTINCT y), covar_pop(x, y), any_value(b), any_value(t ORDER BY id)",
    "min_by(t, id), max_by(m, x), approx_count_distinct(t), approx_count_distinct(w), median(y), avg(w)",
    "mode() WITHIN GROUP (ORDER BY t)",
)
ALL_CALLS = [call for text in PLAIN for call in calls_of(text)]


def through_arrow(vectors: list[Vector], rows: int) -> list[Vector]:
    """Convert to Arrow and back."""
    return from_record_batch(to_record_batch(Batch(vectors, rows)), [v.type for v in vectors]).columns()


@pytest.mark.parametrize("call", ALL_CALLS, ids=str)
@given(st.integers(0, 1000), st.sampled_from([1, 7, 60]), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=examples(5), deadline=None)
def test_states_come_back_from_vectors(call: Aggregate, seed: int, count: int, holes: float) -> None:
    data = table(2 * count, seed, holes)
    rng = np.random.default_rng(seed)
    for part in parts_of(call):
        accumulator = accumulator_of(part)
        states, vectors, groups = [], [], 0
        for half in (data.slice(0, count), data.slice(count)):
            number = Batch([vector_from_arrow(BIGINT, pa.array(np.sort(rng.integers(0, 5, count))))], count).column(0)
            rows = segments([number], count)
            inputs = [
                vector_from_arrow(expr.type, half[expr.name])
                if isinstance(expr, Column)
                else Const(expr.type, expr.value, count)
                for expr in part.inputs
                if isinstance(expr, Column | Literal)
            ]
            states.append(state_of(accumulator, inputs, None, rows))
            vectors.append(through_arrow(accumulator.to_vectors(states[-1], len(rows)), len(rows)))
            groups += len(rows)
        assert all(len(each) == len(vectors[0]) for each in vectors)
        together = segments_of_codes(rng.integers(0, 3, groups), 3)
        wanted = accumulator.merge(states, together)
        sizes = [len(each[0]) for each in vectors]
        back = [accumulator.from_vectors(each, size) for each, size in zip(vectors, sizes, strict=True)]
        once = accumulator.from_vectors([joined(column) for column in zip(*vectors, strict=True)], groups)
        for found in (accumulator.merge(back, together), accumulator.merge([once], together)):
            ours, theirs = (accumulator.to_vectors(state, len(together)) for state in (found, wanted))
            assert list(map(listed, ours)) == list(map(listed, theirs))


def listed(vector: Vector) -> str:
    return repr(vector.to_arrow().to_pylist())


def joined(vectors: Sequence[Vector]) -> Vector:
    if not all(isinstance(vector, Lists) for vector in vectors):
        return concat(vectors)
    lists = [vector for vector in vectors if isinstance(vector, Lists)]
    return Lists.of_sizes(concat([each.items for each in lists]), np.concatenate([each.sizes for each in lists]))


def test_sums_of_any_size_come_back_together() -> None:
    few = [5, -7, 10**17]
    many = [10**37, -(10**37) - 3, 10**37]
    rows = segments_of_codes(np.array([0, 0, 1]), 2)
    type_ = DataType(Kind.DECIMAL, 38, 0)
    columns = [Flat(type_, np.array(few)), Wide(type_, pa.array(many, pa.decimal128(38, 0)))]
    states = [Sum().partial([column], rows) for column in columns]
    vectors = [through_arrow(Sum().to_vectors(state, 2), 2) for state in states]
    together = segments_of_codes(np.array([0, 1, 0, 1]), 2)
    once = Sum().from_vectors([concat(column) for column in zip(*vectors, strict=True)], 4)
    found, wanted = (Sum().to_vectors(Sum().merge(each, together), 2) for each in ([once], states))
    assert list(map(listed, found)) == list(map(listed, wanted))


# ---- queries ---------------------------------------------------------------------------------------------------------

DATA = table(1500)
STORES = [store_of(DATA), store_of(DATA, is_apart=True)]


@pytest.mark.parametrize("calls", few(CALLS, 3))
@pytest.mark.parametrize("keys", ["k", "id"])
def test_every_function_spills(calls: str, keys: str) -> None:
    for store, threads in zip(STORES, (1, 2), strict=True):
        check(store, f"SELECT {keys}, {calls} FROM r GROUP BY {keys}", 60_000, threads)


@pytest.mark.parametrize("keys", few(KEYS))
def test_keys_of_all_types(keys: str) -> None:
    text = f"SELECT {keys}, count(*), sum(n), count(DISTINCT k) FROM r GROUP BY {keys}"
    for store, threads in zip(STORES, (2, 1), strict=True):
        check(store, text, 30_000, threads)


def test_intervals_are_grouped_by_their_length() -> None:
    spans = "CASE WHEN f THEN i * INTERVAL '1 day' ELSE i / 30 * INTERVAL '1 month' + i % 30 * INTERVAL '1 day' END"
    source = f"(SELECT {spans} AS v, id FROM r) q"
    text = f"SELECT v = INTERVAL '30 days', count(*), count(DISTINCT id) FROM {source} GROUP BY v"
    check(STORES[0], text, 15_000)


@pytest.mark.parametrize(
    ("columns", "sets"),
    [
        ("a, b, k", "CUBE (a, b, k)"),
        ("t, k", "ROLLUP (t, k)"),
        ("t, k, a", "GROUPING SETS ((t), (k, a), (k), (), (a), (a))"),
    ],
)
def test_grouping_sets(columns: str, sets: str) -> None:
    for store, threads in zip(STORES, (2, 1), strict=True):
        check(store, f"SELECT {columns}, sum(n), count(DISTINCT i) FROM r GROUP BY {sets}", 70_000, threads)


def test_one_group_with_many_distinct_values() -> None:
    data = pa.table({"id": pa.array(range(60_000)), "k": pa.array([i * 7919 % 30_011 for i in range(60_000)])})
    for is_apart, threads in ((False, 1), (True, 2)):
        store = MemoryStore(batch_rows=5000)
        store.add("r", data, ["id"], "id" if is_apart else None)
        text = "SELECT {}count(DISTINCT k), sum(DISTINCT k), count(*), min(DISTINCT k) FROM r {}"
        check(store, text.format("", ""), 300_000, threads)
        check(store, text.format("id % 2, ", "GROUP BY id % 2"), 300_000, threads)


def test_what_one_group_needs_at_once_is_refused() -> None:
    with pytest.raises(OperationalError, match=r"an aggregation needs .* that cannot be spilled, and memory_limit"):
        answer(STORES[0], "SELECT string_agg(t, ',') FROM r", 15_000)
    assert answer(STORES[0], "SELECT length(string_agg(s, ',')) FROM r", 10_000_000)[1] == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT t, w FROM r",
        "SELECT k, t FROM r INTERSECT SELECT i, t FROM r",
        "SELECT k FROM r INTERSECT ALL SELECT i FROM r",
        "SELECT k, x FROM r EXCEPT SELECT n, y FROM r",
        "SELECT s, x FROM r EXCEPT ALL SELECT s, x FROM r WHERE id % 3 = 0",
        "SELECT 1, k FROM r EXCEPT SELECT 2, k FROM r",
    ],
)
def test_distinct_and_set_operations(text: str) -> None:
    for store, threads in zip(STORES, (1, 2), strict=True):
        check(store, text, 20_000, threads)


def test_equal_rows_take_no_room() -> None:
    data = pa.table({"id": pa.array(range(50_000)), "s": pa.array(["x" * 50] * 50_000)})
    store = MemoryStore(batch_rows=1000)
    store.add("r", data, ["id"])
    check(store, "SELECT s, s FROM r EXCEPT ALL SELECT s, s FROM r WHERE id % 2 = 0", 20_000, spills=False)
    check(store, "SELECT s, count(*), min(id) FROM r GROUP BY s", 20_000, spills=False)


def test_shared_rows_are_read_by_each_use() -> None:
    text = (
        "WITH c AS MATERIALIZED (SELECT id, s, n + 1 AS q FROM r WHERE n > -50)"
        " SELECT count(*), sum(q), min(s) FROM c UNION ALL SELECT id, q, s FROM c WHERE q < 0"
    )
    for store, threads in zip(STORES, (1, 2), strict=True):
        check(store, text, 60_000, threads)


@given(st.integers(0, 1000), st.sampled_from(KEYS), st.sampled_from(CALLS[:3]), st.sampled_from([60_000, 150_000]))
@settings(max_examples=examples(6), deadline=None)
def test_random_tables(seed: int, keys: str, calls: str, limit: int) -> None:
    store = store_of(table(800, seed, 0.4), is_apart=seed % 2 == 0)
    text = f"SELECT {keys}, {calls} FROM r GROUP BY {keys}"
    assert sorted_rows(answer(store, text, limit)[0]) == sorted_rows(answer(store, text)[0])


# ---- files, memory, ends ---------------------------------------------------------------------------------------------


FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not FILES.is_dir(), reason="counts open files in /proc")
def test_files_are_closed_and_memory_is_given_back(tmp_path: Path) -> None:
    text = "SELECT k, t, sum(n), count(DISTINCT i) FROM r GROUP BY CUBE (k, t)"
    context = answer(STORES[0], text, 60_000, temporary_directory=str(tmp_path))[2]
    memory = context.memory
    del context
    assert not open_files(tmp_path)
    account = memory.account("all of it")
    assert account.grow(60_000)


class Stopping:
    """An event that is set once it was tested n times."""

    def __init__(self, after: int):
        self.left = after

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("after", [5, 20, 40, 60, 100])
def test_a_cancelled_statement_stops_while_it_spills(after: int, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        text = "SELECT k, t, count(DISTINCT x), sum(n) FROM r GROUP BY CUBE (k, t)"
        answer(STORES[1], text, 60_000, cancel=Stopping(after), temporary_directory=str(tmp_path))
    assert open_files(tmp_path) <= 1


def test_a_full_disk_ends_the_statement_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with nyala.connect(":memory:", threads=2, memory_limit=100_000, temp_directory=str(tmp_path)) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"{i:0100d}") for i in range(3000)])
        text = "SELECT s, count(*) FROM t GROUP BY s"
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            with pytest.raises(OperationalError, match="is full, and the statement needs more memory"):
                connection.execute(text).fetchall()
        assert len(connection.execute(text).fetchall()) == 3000
        assert not list(tmp_path.iterdir())


def full(*args: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
