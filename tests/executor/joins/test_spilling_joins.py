"""Joins of sides that do not fit into memory, compared with the same joins without a limit, and with DuckDB."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples, few
from executor_support import MemoryStore, open_files
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from nyala.errors import Cancelled, CardinalityViolation
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.joins import blocks as blocks_module
from nyala.executor.joins import build_collector as collecting_module
from nyala.model.types import BOOLEAN
from nyala.planner.algebra.physical import HashJoin, NestedLoopJoin, PhysicalNode, RuntimeFilter, TableScan
from nyala.sql.expressions import Call, Column, Expr, conjunction

HASH_KINDS = ("inner", "left", "right", "full", "semi", "anti", "null_anti", "single", "right_semi", "right_anti")
LOOP_KINDS = ("inner", "cross", "left", "right", "full", "semi", "anti", "null_anti", "single")
KEY_TYPES = (pa.int64(), pa.string(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(30, 2), pa.date32())

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Disables shrinking: an example takes long."""

Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files of many batches, and give threads little memory."""
    monkeypatch.setattr(collecting_module, "_SMALL", 16)
    monkeypatch.setattr(blocks_module, "SMALLEST", 600)


def side(store: MemoryStore, name: str, seed: int, rows: int, types: list[pa.DataType], skewed: bool) -> TableScan:
    """A table of a row number, keys of few values and NULLs, and a text."""
    rng = np.random.default_rng(seed)
    data: dict[str, pa.Array] = {f"{name}0": pa.array(range(rows), pa.int64())}
    for place, type_ in enumerate(types):
        numbers = rng.integers(0, max(2, rows // 3), rows)
        if skewed:
            numbers[rng.random(rows) < 0.9] = 1
        data[f"{name}{place + 1}"] = keys_of(numbers, rng.random(rows) < 0.05, type_)
    data[f"{name}x"] = pa.array([f"{name} {i % 40}" for i in range(rows)], pa.string())
    made = store.add(name, pa.table(data), plain=bool(rng.integers(0, 2)))
    offset = 100 if name == "b" else 0
    columns = tuple(Column(c.type, True, offset + i, c.name) for i, c in enumerate(made.schema.columns))
    return TableScan(columns=columns, table=made, alias=name, names=tuple(data), fetched=columns)


def keys_of(numbers: Any, missing: Any, type_: pa.DataType) -> pa.Array:
    plain = pa.array(numbers, mask=missing)
    if pa.types.is_date(type_):
        return plain.cast(pa.int32()).cast(type_)
    return plain.cast(pa.decimal128(30, 0)).cast(type_) if pa.types.is_decimal(type_) else plain.cast(type_)


def run(node: PhysicalNode, store: MemoryStore, limit: int | None, threads: int) -> tuple[Counter[Row], int]:
    """Return the rows, and the number of spilled bytes."""
    context = ExecutionContext(store, threads=threads, memory_limit=limit, collect=True)  # type: ignore[arg-type]
    rows: Counter[Row] = Counter()
    for batch in execute(node, context):
        rows.update(zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True))
    return rows, context.actuals.of(node).spilled


def same_with_less_memory(node: PhysicalNode, store: MemoryStore, limit: int, threads: int) -> int:
    try:
        wanted, none = run(node, store, None, threads)
    except CardinalityViolation:
        with pytest.raises(CardinalityViolation, match="more than one row"):
            run(node, store, limit, threads)
        return 1
    assert not none
    found, spilled = run(node, store, limit, threads)
    assert found == wanted
    return spilled


def output(kind: str, probe: TableScan, build: TableScan) -> tuple[Column, ...]:
    if kind in ("semi", "anti", "null_anti"):
        return probe.columns[::2]
    return build.columns[1:] if kind in ("right_semi", "right_anti") else probe.columns + build.columns[:-1]


def condition(probe: TableScan, build: TableScan, keys: int, residual: bool) -> Expr | None:
    parts: list[Expr] = [
        Call(BOOLEAN, True, "eq", pair) for pair in list(zip(probe.columns[1:], build.columns[1:]))[:keys]
    ]
    if residual:
        parts.append(Call(BOOLEAN, True, "le", (probe.columns[0], build.columns[0])))
    return conjunction(parts)


@pytest.mark.parametrize("residual", [False, True], ids=["keys", "residual"])
@pytest.mark.parametrize("kind", HASH_KINDS)
@given(data=st.data())
@settings(max_examples=examples(6), deadline=None, phases=PHASES)
def test_hash_join(kind: str, residual: bool, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2))
    store = MemoryStore(batch_rows=data.draw(st.sampled_from([7, 60])))
    seeds = st.integers(0, 2**32)
    skewed = data.draw(st.booleans())
    counts = data.draw(st.sampled_from([(0, 150), (150, 150), (40, 300), (300, 3)]))
    probe = side(store, "p", data.draw(seeds), counts[0], types, skewed)
    build = side(store, "b", data.draw(seeds), counts[1], types, skewed)
    keys = tuple(column for column in probe.columns[1 : 1 + len(types)])
    node = HashJoin(
        columns=output(kind, probe, build),
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=keys,
        build_keys=build.columns[1 : 1 + len(types)],
        residual=condition(probe, build, 0, True) if residual else None,
        runtime_filters=tuple(RuntimeFilter(i, key.id, 100) for i, key in enumerate(keys))
        if kind in ("inner", "semi", "right", "right_semi", "right_anti")
        else (),
    )
    limit = data.draw(st.sampled_from([1000, 1500, 3000, 6000]))
    spilled = same_with_less_memory(node, store, limit, data.draw(st.sampled_from([1, 2])))
    assert spilled or counts[1] == 3


@pytest.mark.parametrize("kind", LOOP_KINDS)
@given(data=st.data())
@settings(max_examples=examples(6), deadline=None, phases=PHASES)
def test_nested_loop(kind: str, data: st.DataObject) -> None:
    store = MemoryStore(batch_rows=data.draw(st.sampled_from([7, 60])))
    counts = data.draw(st.sampled_from([(0, 60), (60, 90), (90, 40), (5, 2)]))
    sides = [
        side(store, name, data.draw(st.integers(0, 2**32)), count, [pa.int64()], False)
        for name, count in zip("pb", counts)
    ]
    keys = 0 if kind == "cross" else data.draw(st.integers(0, 1))
    residual = kind == "null_anti" or data.draw(st.booleans())
    node = NestedLoopJoin(
        columns=output(kind, *sides),
        kind=kind,
        left=sides[0],
        right=sides[1],
        condition=condition(*sides, keys, residual),
    )
    limit = data.draw(st.sampled_from([800, 1500]))
    spilled = same_with_less_memory(node, store, limit, data.draw(st.sampled_from([1, 2])))
    assert spilled or counts[1] == 2


# ---- whole statements ------------------------------------------------------------------------------------------------

STATEMENTS = (
    "SELECT count(*), sum(a.v + b.v) FROM a JOIN b ON a.k = b.k",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.t = b.t AND a.v < b.v",
    "SELECT a.id, b.id FROM a RIGHT JOIN b ON a.t = b.t AND a.k = b.k",
    "SELECT a.id, b.t FROM a FULL JOIN b ON a.k = b.k AND a.id % 7 = b.id % 7",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE v > 10)",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.d = a.d AND b.v <> a.v)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.t = a.t)",
    "SELECT id FROM a WHERE id NOT IN (SELECT v + 20 FROM b WHERE v IS NOT NULL)",
    "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT id FROM a WHERE (id, k) NOT IN (SELECT v + 20, k FROM b WHERE id < 150)",
    "SELECT id, (SELECT max(v) FROM b WHERE b.k = a.k) FROM a",
    "SELECT id, (SELECT v FROM b WHERE b.id = a.id + 5) FROM a",
    "SELECT count(*), sum(a.v * b.id) FROM a, b",
    "SELECT a.id, b.id FROM a JOIN b ON a.v < b.v - 40",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.v > b.v + 45",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.v > b.v + 45 AND a.t <> b.t",
    "SELECT count(*) FROM a JOIN b ON a.k = b.k JOIN a AS c ON c.t = b.t AND c.id % 50 = a.id % 50",
)


def statement_table(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 60, rows)
    keys[rng.random(rows) < 0.3] = 7
    missing = rng.random(rows) < 0.04
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array(keys, mask=missing),
            "t": pa.array([f"text {k % 9}" for k in keys], mask=missing),
            "d": pa.array(rng.integers(0, 500, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(9, 2)),
            "v": pa.array(rng.integers(0, 60, rows), mask=rng.random(rows) < 0.1),
        }
    )


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[nyala.Connection, duckdb.DuckDBPyConnection]]:
    """The same two tables here and in DuckDB."""
    oracle = duckdb.connect(config={"threads": 1})
    with nyala.connect(":memory:") as ours:
        for name, seed, rows in (("a", 1, 400), ("b", 2, 300)):
            data = statement_table(seed, rows)
            oracle.register("given", data)
            oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            ours.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k BIGINT, t STRING, d DECIMAL(9, 2), v BIGINT)")
            marks = ", ".join("?" * len(data.schema))
            ours.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", list(zip(*data.to_pydict().values())))
        yield ours, oracle


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("statement", few(STATEMENTS, 9))
def test_statements(both: Any, statement: str, threads: int) -> None:
    ours, oracle = both
    ours.execute(f"SET threads = {threads}")
    ours.execute("RESET memory_limit")
    wanted = Counter(oracle.execute(statement).fetchall())
    assert Counter(ours.execute(statement).fetchall()) == wanted
    for limit in ("20KB", "5KB"):
        ours.execute(f"SET memory_limit = '{limit}'")
        assert Counter(ours.execute(statement).fetchall()) == wanted


def test_explain_analyze_tells_what_was_spilled(both: Any) -> None:
    ours, _ = both
    ours.execute("SET memory_limit = '5KB'")
    plan = "\n".join(row[0] for row in ours.execute("EXPLAIN ANALYZE SELECT a.id, b.t FROM a JOIN b ON a.k = b.k"))
    (line,) = [line for line in plan.splitlines() if "HashJoin" in line or "Hash Join" in line]
    assert "spilled" in line


# ---- files and threads -----------------------------------------------------------------------------------------------


def large_join(kind: str = "inner") -> tuple[MemoryStore, HashJoin]:
    store = MemoryStore(batch_rows=200)
    probe, build = side(store, "p", 1, 2000, [pa.int64()], False), side(store, "b", 2, 2000, [pa.int64()], False)
    node = HashJoin(
        columns=output(kind, probe, build),
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=probe.columns[1:2],
        build_keys=build.columns[1:2],
    )
    return store, node


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not list open files")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["inner", "full"])
def test_a_join_that_is_closed_early_closes_its_file(kind: str, threads: int, tmp_path: Path) -> None:
    store, node = large_join(kind)
    context = ExecutionContext(store, threads=threads, memory_limit=8000, temporary_directory=str(tmp_path))  # type: ignore[arg-type]
    rows = execute(node, context)
    assert next(rows).length and open_files(tmp_path) >= 1
    rows.close()  # type: ignore[attr-defined]
    del rows
    assert not open_files(tmp_path)


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_memory_is_given_back_and_stays_within_the_limit(kind: str) -> None:
    store, node = large_join(kind)
    context = ExecutionContext(store, threads=2, memory_limit=20_000, collect=True)  # type: ignore[arg-type]
    assert sum(batch.length for batch in execute(node, context))
    actual = context.actuals.of(node)
    assert actual.spilled and 0 < actual.memory <= 20_000
    gc.collect()
    assert context.memory.account("a test").grow(20_000)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cancel_ends_it(threads: int) -> None:
    store, node = large_join()
    cancel = threading.Event()
    context = ExecutionContext(store, threads=threads, memory_limit=8000, cancel=cancel)  # type: ignore[arg-type]
    rows = execute(node, context)
    next(rows)
    cancel.set()
    with pytest.raises(Cancelled):
        for _ in rows:
            pass


def test_one_key_on_both_sides_is_joined_in_blocks() -> None:
    """No hash can cut them: 1,500 x 300 pairs in blocks of build rows."""
    store = MemoryStore(batch_rows=100)
    counts = {"p": 1500, "b": 300}
    tables = {}
    for name, rows in counts.items():
        data = pa.table({f"{name}0": range(rows), f"{name}1": pa.array([5] * rows, pa.int64())})
        made = store.add(name, data)
        columns = tuple(Column(c.type, True, ord(name) + i, c.name) for i, c in enumerate(made.schema.columns))
        tables[name] = TableScan(
            columns=columns, table=made, alias=name, names=tuple(data.schema.names), fetched=columns
        )
    probe, build = tables["p"], tables["b"]
    node = HashJoin(
        columns=(probe.columns[0], build.columns[0]),
        kind="left",
        probe=probe,
        build=build,
        probe_keys=probe.columns[1:],
        build_keys=build.columns[1:],
    )
    rows, spilled = run(node, store, 3000, 2)
    assert spilled and len(rows) == 1500 * 300 and set(rows.values()) == {1}
