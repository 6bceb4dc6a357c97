"""Aggregations whose partials are merged in partitions have the rows of those merged in one thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from aggregate_support import compare
from examples import examples, few
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.aggregation import partitioned_merge
from nyala.executor.kernels.groups import hash_groups
from nyala.executor.run.context import ExecutionContext
from spilling_support import CALLS, KEYS, answer, check, sorted_rows, store_of, table

FEW_GROUPS = (
    "SELECT count(DISTINCT t), count(DISTINCT k), count(*), sum(n) FROM r",
    "SELECT a, count(DISTINCT t), sum(DISTINCT x), avg(DISTINCT y), min(t), count(DISTINCT w) FROM r GROUP BY a",
    "SELECT b, count(DISTINCT k) FILTER (WHERE f), count(DISTINCT a), sum(DISTINCT m), bit_xor(DISTINCT n) FROM r "
    "GROUP BY b",
    "SELECT b, string_agg(DISTINCT t, ',' ORDER BY t), count(DISTINCT t), median(x) FROM r GROUP BY b",
    "SELECT count(DISTINCT s), count(DISTINCT NULL) FROM r",
)
SETS = (
    "SELECT k, a, count(*), count(DISTINCT t) FROM r GROUP BY ROLLUP (k, a)",
    "SELECT k, t, sum(n), count(DISTINCT x) FROM r GROUP BY GROUPING SETS ((k), (t))",
    "SELECT k, t FROM r EXCEPT SELECT i, t FROM r",
    "SELECT k FROM r INTERSECT ALL SELECT i FROM r",
    "SELECT DISTINCT k, t, w FROM r",
)


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Partition partials of any size; return a list of the numbers of partitions that were merged."""
    made: list[int] = []
    monkeypatch.setattr(partitioned_merge, "PARTITIONED_ROWS", 1)
    monkeypatch.setattr("nyala.executor.aggregation.aggregate.PARTITIONED_ROWS", 20)
    scattered = partitioned_merge._scattered

    def counted(*args: Any) -> list[list[Any]]:
        pieces = scattered(*args)
        made.append(sum(bool(piece) for piece in pieces))
        return pieces

    monkeypatch.setattr(partitioned_merge, "_scattered", counted)
    return made


def in_one_thread(store: MemoryStore, text: str) -> list[str]:
    return sorted_rows(answer(store, text, threads=1)[0])


@pytest.mark.parametrize("calls", few(CALLS, 3))
@pytest.mark.parametrize("keys", few(KEYS))
def test_threads_find_the_groups_of_one_thread(partitions: list[int], keys: str, calls: str) -> None:
    store = store_of(table(1500))
    text = f"SELECT {keys}, {calls} FROM r GROUP BY {keys}"
    wanted = in_one_thread(store, text)
    assert not partitions
    for threads in (2, 3):
        assert sorted_rows(answer(store, text, threads=threads)[0]) == wanted
    assert len(partitions) >= 2
    assert max(partitions) > 1


@pytest.mark.parametrize("text", [*FEW_GROUPS, *SETS])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_distinct_values_and_sets_are_partitioned(
    partitions: list[int], monkeypatch: pytest.MonkeyPatch, text: str, is_compiled: bool
) -> None:
    if not is_compiled:
        monkeypatch.setattr(hash_groups, "compiled", None)
    store = store_of(table(1500))
    wanted = in_one_thread(store, text)
    assert sorted_rows(answer(store, text, threads=2)[0]) == wanted
    assert partitions


@given(st.data())
@settings(max_examples=examples(25), deadline=None)
def test_duckdb_finds_the_same(data: st.DataObject) -> None:
    rows = table(data.draw(st.sampled_from([1, 40, 900])), data.draw(st.integers(0, 99)), data.draw(st.floats(0, 1)))
    keys = data.draw(st.sampled_from(["k", "t", "k, t, w", "a", "b, a", "id, t"]))
    calls = "count(*), sum(n), min(t), max(w), count(DISTINCT t), count(DISTINCT k), sum(DISTINCT a)"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned_merge, "PARTITIONED_ROWS", 1)
        patch.setattr("nyala.executor.aggregation.aggregate.PARTITIONED_ROWS", data.draw(st.sampled_from([1, 10**6])))
        compare(rows, f"SELECT {keys}, {calls} FROM r GROUP BY {keys}")
        compare(rows, f"SELECT {calls} FROM r")


@pytest.mark.parametrize("limit", [60_000, 400_000])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, t, count(*), sum(n), count(DISTINCT x), string_agg(b, ',' ORDER BY id) FROM r GROUP BY k, t",
        "SELECT count(DISTINCT t), count(DISTINCT k), count(DISTINCT w) FROM r",
        "SELECT id, s, count(*) FROM r GROUP BY id, s",
    ],
)
def test_spilled_groups_are_the_same(partitions: list[int], text: str, limit: int) -> None:
    store = store_of(table(4000))
    wanted, found = answer(store, text, threads=1)[0], answer(store, text, limit)[0]
    assert sorted_rows(found) == sorted_rows(wanted)
    if limit == 60_000:
        check(store, text, limit)


def test_tablets_that_are_kept_apart_are_partitioned_each(partitions: list[int]) -> None:
    store = store_of(table(1500), is_apart=True)
    text = "SELECT id, count(*), count(DISTINCT t) FROM r GROUP BY id"
    assert sorted_rows(answer(store, text, threads=4)[0]) == in_one_thread(store, text)
    assert len(partitions) == 3


def test_keys_of_one_hash_lie_in_one_partition(partitions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_merge, "_words", lambda key, length: np.full(length, 7, np.uint64))
    store = store_of(table(900))
    for text in ("SELECT k, x, count(*) FROM r GROUP BY k, x", FEW_GROUPS[0]):
        assert sorted_rows(answer(store, text)[0]) == in_one_thread(store, text)
    assert set(partitions) == {1}


def test_equal_keys_of_any_encoding_are_one_group(partitions: list[int]) -> None:
    """Batches hold one key as codes, as plain text, in several dictionaries, and zeros and NaNs of both signs."""
    texts = [f"t{i % 9}" for i in range(250)] + [f"u{i}" for i in range(250)] + [f"t{i % 7}" for i in range(250)]
    floats = [(0.0, -0.0, math.nan, -math.nan, None)[i % 5] for i in range(750)]
    data = pa.table({"id": pa.array(range(750), pa.int64()), "t": texts, "x": pa.array(floats, pa.float64())})
    store = store_of(data)
    rows = answer(store, "SELECT t, x, count(*) FROM r GROUP BY t, x")[0]
    assert sum(row[2] for row in rows) == 750
    assert len(rows) == len(
        {(t, None if x is None else "NaN" if math.isnan(x) else 0.0) for t, x in zip(texts, floats)}
    )
    assert partitions


@pytest.mark.embedded_only("servers group the rows of their tablets")
@pytest.mark.parametrize("is_compiled", [True, False])
def test_explain_names_the_kernel_and_the_partitions(
    partitions: list[int], monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    if is_compiled and hash_groups.compiled is None:
        pytest.skip("the compiled kernel is not installed")
    if not is_compiled:
        monkeypatch.setattr(hash_groups, "compiled", None)
    with nyala.connect(":memory:", threads=2) as connection:
        connection.execute("CREATE TABLE r (id BIGINT, k BIGINT, PRIMARY KEY (id))")
        connection.load("r", pa.table({"id": range(5000), "k": [i % 2500 << 40 for i in range(5000)]}))
        text = "EXPLAIN ANALYZE SELECT k, count(*) FROM r GROUP BY k"
        lines = "\n".join(line for (line,) in connection.execute(text).fetchall())
        assert ("5,000 rows grouped by the compiled kernel" in lines) is is_compiled
        assert f"merged in {partitions[-1]} partitions" in lines


def test_memory_is_released(partitions: list[int]) -> None:
    store = store_of(table(3000))
    for text in ("SELECT k, t, count(*) FROM r GROUP BY k, t", FEW_GROUPS[0], SETS[2]):
        context: ExecutionContext = answer(store, text)[2]
        assert context.memory.peak > 0
        context.account("another").grow(1)  # takes account of what was collected
        assert context.memory.held == 1, text
