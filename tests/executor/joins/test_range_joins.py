"""Joins with bounds such as BETWEEN, searched in an order of the build side: as if all pairs were checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples
from executor_support import MemoryStore
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from nyala.errors import CardinalityViolation
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.joins import blocks, build_collector, probe_runs, probing, range_index
from nyala.executor.joins.probe_runs import ProbeRuns
from nyala.executor.joins.range_index import RangeIndex
from nyala.model.types import BIGINT, BOOLEAN
from nyala.planner.algebra.physical import HashJoin, NestedLoopJoin, PhysicalNode, TableScan
from nyala.planner.physical.range_bounds import range_bounds
from nyala.sql.expressions import Call, Column, Expr, Literal, conjunction

KINDS = ("inner", "left", "right", "full", "semi", "anti", "null_anti", "single", "right_semi", "right_anti")
TYPES = (pa.int8(), pa.int64(), pa.float64(), pa.decimal128(9, 2), pa.date32(), pa.timestamp("us"))
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Disables shrinking: an example takes long."""
SPECIAL = [-0.0, 0.0, float("nan"), float("inf"), float("-inf")]


def side(store: MemoryStore, name: str, seed: int, rows: int, type_: pa.DataType, ordered: bool = False) -> TableScan:
    """A table of a row number, a key, and two values of which the second is often the larger; perhaps in order of the
    key and the first value."""
    rng = np.random.default_rng(seed)
    low = rng.integers(-20, 20, rows)
    data = {f"{name}0": pa.array(range(rows), pa.int64()), f"{name}k": pa.array(rng.integers(0, 3, rows))}
    for column, numbers in (("x", low), ("y", low + rng.integers(-1, 4, rows))):
        missing = rng.random(rows) < 0.05
        if pa.types.is_floating(type_):
            values = np.where(rng.random(rows) < 0.3, rng.choice(SPECIAL, rows), numbers / 2)
            data[name + column] = pa.array(values, mask=missing)
        elif pa.types.is_temporal(type_):
            data[name + column] = pa.array(numbers, mask=missing).cast(pa.int32()).cast(pa.date32()).cast(type_)
        else:
            plain = pa.array(numbers, mask=missing)
            data[name + column] = (plain.cast(pa.decimal128(30, 0)) if pa.types.is_decimal(type_) else plain).cast(
                type_
            )
    table = pa.table(data)
    if ordered:
        table = table.sort_by([(f"{name}k", "ascending"), (f"{name}x", "ascending")])
    made = store.add(name, table, plain=bool(rng.integers(0, 2)))
    offset = 100 if name == "b" else 0
    columns = tuple(Column(c.type, True, offset + i, c.name) for i, c in enumerate(made.schema.columns))
    return TableScan(columns=columns, table=made, alias=name, names=tuple(data), fetched=columns)


def run(node: PhysicalNode, store: MemoryStore, limit: int | None) -> Counter[Any] | str:
    rows: Counter[Any] = Counter()
    try:
        for batch in execute(node, ExecutionContext(store, threads=2, memory_limit=limit)):  # type: ignore[arg-type]
            columns = (map(str, column.to_arrow().to_pylist()) for column in batch.columns())
            rows.update(zip(*columns, strict=True))
    except CardinalityViolation:
        return "more than one row"
    return rows


def conditions(probe: TableScan, build: TableScan) -> st.SearchStrategy[list[Expr]]:
    """One to three comparisons of values of both sides, either side first; at times another condition."""
    bounds = st.builds(
        lambda function, p, b, swapped: Call(BOOLEAN, True, function, (b, p) if swapped else (p, b)),
        st.sampled_from(["lt", "le", "gt", "ge"]),
        st.sampled_from(probe.columns[2:]),
        st.sampled_from(build.columns[2:]),
        st.booleans(),
    )
    further = st.sampled_from(
        [[], [Call(BOOLEAN, True, "ne", (probe.columns[1], build.columns[0]))]]
        + [[Call(BOOLEAN, True, "le", (column, Literal(BIGINT, False, 9)))] for column in (probe.columns[0],)]
    )
    return st.builds(lambda some, more: some + more, st.lists(bounds, min_size=1, max_size=3), further)


@pytest.mark.parametrize("keys", [0, 1], ids=["no key", "key"])
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=examples(12), phases=PHASES)
@given(data=st.data())
def test_same_rows_as_without_a_search(kind: str, keys: int, data: st.DataObject) -> None:
    if not keys and kind in ("right_semi", "right_anti"):
        return
    store = MemoryStore(batch_rows=data.draw(st.sampled_from([7, 100])))
    type_ = data.draw(st.sampled_from(TYPES))
    counts = data.draw(st.sampled_from([(0, 9), (40, 40), (30, 1), (9, 90)]))
    ordered = data.draw(st.booleans())
    probe, build = (
        side(store, name, data.draw(st.integers(0, 2**32)), count, type_, ordered and name == "p")
        for name, count in zip("pb", counts)
    )
    parts = data.draw(conditions(probe, build))
    columns = probe.columns if kind in ("semi", "anti", "null_anti") else (*probe.columns, *build.columns)
    columns = build.columns if kind in ("right_semi", "right_anti") else columns
    node: PhysicalNode = NestedLoopJoin(
        columns=columns, kind=kind, left=probe, right=build, condition=conjunction(parts)
    )
    if keys:
        node = HashJoin(
            columns=columns,
            kind=kind,
            probe=probe,
            build=build,
            probe_keys=probe.columns[1:2],
            build_keys=build.columns[1:2],
            residual=conjunction(parts),
        )
    limit = data.draw(st.sampled_from([None, None, 1500]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_collector, "_SMALL", 16)
        patch.setattr(blocks, "SMALLEST", 600)
        patch.setattr(range_index, "FEWEST", 1)
        patch.setattr(probing, "FEWEST", 1)
        patch.setattr(probe_runs, "FEWEST", 1)
        patch.setattr(probe_runs, "_SHORTEST", 0)
        patch.setattr(probe_runs, "PAIRS_AT_ONCE", data.draw(st.sampled_from([3, 1000])))
        found = run(node, store, limit)
        patch.setattr(RangeIndex, "make", classmethod(lambda *_: None))
        patch.setattr(ProbeRuns, "make", classmethod(lambda *_: None))
        assert found == run(node, store, None)


def test_only_rows_in_range_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    produced: list[int] = []
    pairs = range_index.run_pairs

    def counted(*args: Any) -> Any:
        for part in pairs(*args):
            produced.append(len(part[0]))
            yield part

    monkeypatch.setattr(range_index, "run_pairs", counted)
    store = MemoryStore(batch_rows=500)
    numbers = pa.array(range(2000), pa.int64())
    made = {}
    for name, low, high in (("p", 0, 0), ("b", 0, 5)):
        columns = {f"{name}0": numbers, f"{name}x": pa.array(np.arange(2000) * 10 + low)}
        columns[f"{name}y"] = pa.array(np.arange(2000) * 10 + high)
        table = store.add(name, pa.table(columns))
        found = tuple(
            Column(c.type, True, (100 if name == "b" else 0) + i, c.name) for i, c in enumerate(table.schema.columns)
        )
        made[name] = TableScan(columns=found, table=table, alias=name, names=tuple(columns), fetched=found)
    point, (low_column, high_column) = made["p"].columns[1], made["b"].columns[1:]
    between = [Call(BOOLEAN, True, "ge", (point, low_column)), Call(BOOLEAN, True, "le", (point, high_column))]
    node = NestedLoopJoin(
        columns=made["p"].columns + made["b"].columns,
        kind="inner",
        left=made["p"],
        right=made["b"],
        condition=conjunction(between),
    )
    assert len(run(node, store, None)) == 2000
    assert sum(produced) == 2000


ORDERED = (
    "SELECT a.k, a.t, b.id FROM a JOIN b ON a.k = b.k AND a.t BETWEEN b.lo - 3 AND b.hi",
    "SELECT a.k, a.t, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.t > b.lo AND a.t < b.hi AND a.v <> b.id",
    "SELECT count(*), count(DISTINCT b.id) FROM a RIGHT JOIN b ON a.k = b.k AND a.t >= b.lo AND a.t <= b.hi",
    "SELECT a.k, a.t FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND b.lo <= a.t AND b.hi > a.t)",
    "SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.t + 2 > b.lo AND a.t <= b.hi",
    "SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.v BETWEEN b.lo AND b.hi",
)


@pytest.mark.parametrize("statement", ORDERED)
def test_ordered_probe_rows_are_searched(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    produced: list[bool] = []
    pairs = ProbeRuns.pairs

    def counted(self: ProbeRuns, *args: Any) -> Any:
        found = pairs(self, *args)
        produced.append(found is not None)
        return found

    monkeypatch.setattr(ProbeRuns, "pairs", counted)
    rng = np.random.default_rng(8)
    low = rng.integers(0, 3000, 60)
    numbers = np.arange(6000)
    tables = {
        "a": {"k": numbers // 500, "t": numbers % 500 * 6, "v": rng.integers(0, 3000, 6000)},
        "b": {"id": np.arange(60), "k": rng.integers(0, 14, 60), "lo": low, "hi": low + rng.integers(0, 90, 60)},
    }
    with nyala.connect(":memory:") as connection, duckdb.connect() as other:
        for name, columns in tables.items():
            data = pa.table(columns)
            kinds = ", ".join(f"{column} BIGINT" for column in columns)
            connection.execute(f"CREATE TABLE {name} ({kinds}, PRIMARY KEY ({'k, t' if name == 'a' else 'id'}))")
            connection.load(name, data)
            other.register("data", data)
            other.execute(f"CREATE TABLE {name} AS SELECT * FROM data")
        ours, theirs = (Counter(map(tuple, engine.execute(statement).fetchall())) for engine in (connection, other))
        plan = "\n".join(str(row[0]) for row in connection.execute("EXPLAIN ANALYZE " + statement).fetchall())
    assert ours == theirs
    assert ("6,000 of 6,000 probe rows searched" in plan) == ("a.v BETWEEN" not in statement), plan
    assert any(produced) == ("a.v BETWEEN" not in statement)


def test_bounds_are_recognised_either_way_round() -> None:
    a, b = (Column(BIGINT, True, number, name) for number, name in enumerate("ab"))

    def bounds(function: str, *args: Expr) -> list[tuple[bool, bool]]:
        found = range_bounds(Call(BOOLEAN, True, function, args), [a], [b])
        assert all(bound.probe is a and bound.build is b for bound in found)
        return [(bound.is_upper, bound.is_strict) for bound in found]

    assert bounds("lt", b, a) == bounds("gt", a, b) == [(True, True)]
    assert bounds("le", a, b) == bounds("ge", b, a) == [(False, False)]
    assert bounds("eq", a, b) == bounds("lt", a, a) == []


STATEMENTS = (
    "SELECT a.id, b.id FROM a JOIN b ON a.t BETWEEN b.lo AND b.hi",
    "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.t BETWEEN b.lo AND b.hi",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.t >= b.lo AND a.t < b.hi AND b.k > 1",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.t + 5 < b.lo AND a.t + 20 > b.hi",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.t BETWEEN b.lo AND b.hi)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND a.t BETWEEN b.lo AND b.hi)",
    "SELECT x.id, y.id FROM b AS x JOIN b AS y ON x.lo < y.hi AND y.lo < x.hi AND x.id <> y.id",
    "SELECT a.id, b.id FROM a JOIN b ON a.k <> 0 AND 100 / a.k > b.lo AND a.t > b.hi",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_give_what_duckdb_gives(statement: str) -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 500, 200)
    tables = {
        "a": {"id": np.arange(300), "k": rng.integers(0, 4, 300), "t": rng.integers(0, 500, 300)},
        "b": {"id": np.arange(200), "k": rng.integers(0, 4, 200), "lo": low, "hi": low + rng.integers(0, 30, 200)},
    }
    answers: list[Sequence[Any]] = []
    with nyala.connect(":memory:") as connection, duckdb.connect() as other:
        for name, columns in tables.items():
            data = pa.table(columns)
            names = ", ".join(f"{column} BIGINT" for column in columns if column != "id")
            connection.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, {names})")
            connection.load(name, data)
            other.register("data", data)
            other.execute(f"CREATE TABLE {name} AS SELECT * FROM data")
        text = statement.replace("100 / a.k", "100 // a.k")
        answers = [Counter(connection.execute(statement).fetchall()), Counter(other.execute(text).fetchall())]
        plan = "\n".join(str(row[0]) for row in connection.execute("EXPLAIN " + statement).fetchall())
    assert "searches ranges of" in plan
    assert answers[0] == answers[1]
