"""Joins of every kind against plain Python, pair by pair: NULLs, repeated keys, residuals, all kinds of keys."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CardinalityViolation
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.executor.joins import join_index as index_module
from nyala.executor.joins import runtime_filters as filters_module
from nyala.executor.joins.join_index import JoinIndex
from nyala.model.predicates import BitmapFilter, BloomFilter, InList, Range
from nyala.model.types import BIGINT, BOOLEAN
from nyala.planner.algebra.physical import HashJoin, NestedLoopJoin, PhysicalNode, RuntimeFilter, TableScan
from nyala.sql.expressions import Call, Column, Expr, conjunction

HASH_KINDS = ("inner", "left", "right", "full", "semi", "anti", "null_anti", "single", "right_semi", "right_anti")
LOOP_KINDS = ("inner", "cross", "left", "right", "full", "semi", "anti", "null_anti", "single")

Row = tuple[Any, ...]


def table(store: MemoryStore, name: str, rows: Sequence[Row], types: Sequence[pa.DataType], plain: bool) -> TableScan:
    """A scan of a table of `rows` with columns <name>0, <name>1, ...; the first is a row number, unique."""
    names = [f"{name}{i}" for i in range(len(types) + 1)]
    arrays = [pa.array(range(len(rows)), pa.int64())]
    arrays += [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    made = store.add(name, pa.table(dict(zip(names, arrays, strict=True))), plain=plain)
    offset = 100 if name == "b" else 0
    columns = tuple(Column(c.type, True, offset + i, c.name) for i, c in enumerate(made.schema.columns))
    return TableScan(columns=columns, table=made, alias=name, names=tuple(names), fetched=columns)


def run(node: PhysicalNode, store: MemoryStore, threads: int = 2) -> list[Row]:
    rows: list[Row] = []
    for batch in execute(node, ExecutionContext(store, threads=threads)):  # type: ignore[arg-type]
        rows += zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True)
    return rows


def holds(probe: Row, build: Row, keys: int, residual: bool) -> bool | None:
    """Evaluate the join condition: keys equal, and with `residual` probe row number <= build row number."""
    verdicts: list[bool | None] = []
    for a, b in zip(probe[1 : 1 + keys], build[1 : 1 + keys], strict=True):
        verdicts.append(None if a is None or b is None else a == b)
    if residual:
        verdicts.append(probe[0] <= build[0])
    return False if False in verdicts else None if None in verdicts else True


def expected(kind: str, probe: list[Row], build: list[Row], match: Callable[[Row, Row], bool | None]) -> list[Row]:
    """Compute the join by its definition."""
    pairs = [(p, b) for p in probe for b in build if match(p, b)]
    if kind == "cross":
        return [p + b for p in probe for b in build if match(p, b)]
    width_probe = len(probe[0]) if probe else 3
    width_build = len(build[0]) if build else 3
    matched_probe = {p[0] for p, _ in pairs}
    matched_build = {b[0] for _, b in pairs}
    if kind == "semi":
        return [p for p in probe if p[0] in matched_probe]
    if kind == "anti":
        return [p for p in probe if p[0] not in matched_probe]
    if kind == "null_anti":
        return [p for p in probe if all(match(p, b) is False for b in build)]
    if kind == "right_semi":
        return [b for b in build if b[0] in matched_build]
    if kind == "right_anti":
        return [b for b in build if b[0] not in matched_build]
    if kind == "single" and len(pairs) > len(matched_probe):
        raise CardinalityViolation("reference")
    rows = [p + b for p, b in pairs]
    if kind in ("left", "full", "single"):
        rows += [p + (None,) * width_build for p in probe if p[0] not in matched_probe]
    if kind in ("right", "full"):
        rows += [(None,) * width_probe + b for b in build if b[0] not in matched_build]
    return rows


def output(kind: str, probe: TableScan, build: TableScan) -> tuple[Column, ...]:
    if kind in ("semi", "anti", "null_anti"):
        return probe.columns
    return build.columns if kind in ("right_semi", "right_anti") else probe.columns + build.columns


def condition_of(probe: TableScan, build: TableScan, keys: int, residual: bool) -> Expr | None:
    parts: list[Expr] = [
        Call(BOOLEAN, True, "eq", (a, b))
        for a, b in zip(probe.columns[1 : 1 + keys], build.columns[1 : 1 + keys], strict=True)
    ]
    if residual:
        parts.append(Call(BOOLEAN, True, "le", (probe.columns[0], build.columns[0])))
    return conjunction(parts)


def check(node: PhysicalNode, store: MemoryStore, kind: str, sides: tuple[list[Row], list[Row]], match: Any) -> None:
    try:
        wanted = expected(kind, *sides, match)
    except CardinalityViolation:
        with pytest.raises(CardinalityViolation, match="more than one row"):
            run(node, store)
        return
    assert Counter(run(node, store)) == Counter(wanted)


def numbered(rows: list[Row]) -> list[Row]:
    return [(i, *row) for i, row in enumerate(rows)]


@pytest.mark.parametrize("residual", [False, True], ids=["keys", "residual"])
@pytest.mark.parametrize("kind", HASH_KINDS)
@given(data=st.data())
@settings(max_examples=examples(63), deadline=None)
def test_hash_join(kind: str, residual: bool, data: st.DataObject) -> None:
    keys = data.draw(st.integers(1, 2))
    number = st.one_of(st.none(), st.integers(0, 5), st.just(10**12) if data.draw(st.booleans()) else st.integers(0, 2))
    text = st.one_of(st.none(), st.sampled_from(["a", "b", "é", ""]))
    types = data.draw(
        st.sampled_from([(pa.int64(), pa.string()), (pa.string(), pa.int32()), (pa.date32(), pa.int64())])
    )
    day = st.one_of(st.none(), st.sampled_from([datetime.date(2024, 1, d) for d in (1, 2, 3)]))
    cells = [text if t == pa.string() else day if t == pa.date32() else number for t in types]
    if pa.int32() in types:
        cells[types.index(pa.int32())] = st.one_of(st.none(), st.integers(-3, 3))
    rows = st.lists(st.tuples(*cells), max_size=data.draw(st.sampled_from([3, 25])))
    probe_rows, build_rows = data.draw(rows), data.draw(rows)
    store = MemoryStore(batch_rows=7)
    plain = data.draw(st.booleans())
    probe, build = table(store, "p", probe_rows, types, plain), table(store, "b", build_rows, types, not plain)
    node = HashJoin(
        columns=output(kind, probe, build),
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=probe.columns[1 : 1 + keys],
        build_keys=build.columns[1 : 1 + keys],
        residual=condition_of(probe, build, 0, True) if residual else None,
        runtime_filters=tuple(RuntimeFilter(i, probe.columns[1 + i].id) for i in range(keys))
        if kind in ("inner", "semi", "right", "right_semi", "right_anti")
        else (),
    )
    sides = numbered(probe_rows), numbered(build_rows)
    check(node, store, kind, sides, lambda p, b: holds(p, b, keys, residual))


@pytest.mark.parametrize("kind", LOOP_KINDS)
@given(data=st.data())
@settings(max_examples=examples(50), deadline=None)
def test_nested_loop(kind: str, data: st.DataObject) -> None:
    cells = st.one_of(st.none(), st.integers(0, 4))
    rows = st.lists(st.tuples(cells, cells), max_size=data.draw(st.sampled_from([1, 12])))
    left_rows, right_rows = data.draw(rows), data.draw(rows)
    store = MemoryStore(batch_rows=5)
    types = (pa.int64(), pa.int64())
    left, right = table(store, "p", left_rows, types, True), table(store, "b", right_rows, types, False)
    keys = 0 if kind == "cross" else data.draw(st.integers(0, 2))
    residual = data.draw(st.booleans()) or kind == "null_anti"
    node = NestedLoopJoin(
        columns=output(kind, left, right),
        kind=kind,
        left=left,
        right=right,
        condition=condition_of(left, right, keys, residual),
    )
    check(node, store, kind, (numbered(left_rows), numbered(right_rows)), lambda p, b: holds(p, b, keys, residual))


@given(
    st.lists(st.integers(-1, 60), max_size=80),
    st.lists(st.integers(-1, 60), max_size=80),
    st.sampled_from([1, 10**9]),
    st.integers(1, 20),
)
@settings(deadline=None)
def test_index_finds_all_rows(build: list[int], probe: list[int], spread: int, at_once: int) -> None:
    """Dense and sparse codes, unique and repeated; matches are returned in parts, each with whole probe rows."""
    codes = np.array([b * spread if b >= 0 else -1 for b in build], np.int64)
    index = JoinIndex(codes, 61 * spread)
    wanted = [(i, j) for i, p in enumerate(probe) for j, b in enumerate(build) if p >= 0 and p == b]
    probe_codes = np.array([p * spread if p >= 0 else -1 for p in probe], np.int64)
    original = index_module.PAIRS_AT_ONCE
    index_module.PAIRS_AT_ONCE = at_once
    try:
        parts = [(a.tolist(), b.tolist()) for a, b in index.pairs(probe_codes)]
    finally:
        index_module.PAIRS_AT_ONCE = original
    assert sorted(pair for a, b in parts for pair in zip(a, b, strict=True)) == wanted
    firsts = [a for a, _ in parts if a]
    assert all(before[-1] < after[0] for before, after in itertools.pairwise(firsts))
    assert index.has(probe_codes).tolist() == [any(p == b for b in build) and p >= 0 for p in probe]
    if index.is_unique:
        found = dict(wanted)
        assert index.find(probe_codes).tolist() == [found.get(i, -1) for i in range(len(probe))]


def small_join(
    kind: str, build_keys: list[Any], type_: pa.DataType, bloom_keys: int = 0
) -> tuple[MemoryStore, HashJoin]:
    store = MemoryStore(batch_rows=100)
    probe = table(
        store, "p", [(i % 50,) if type_ == pa.int64() else (f"k{i % 50}",) for i in range(1000)], [type_], False
    )
    build = table(store, "b", [(k,) for k in build_keys], [type_], False)
    node = HashJoin(
        columns=output(kind, probe, build),
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=(probe.columns[1],),
        build_keys=(build.columns[1],),
        runtime_filters=(RuntimeFilter(0, probe.columns[1].id, bloom_keys),),
    )
    return store, node


def test_integer_keys_filter_the_probe_scan_exactly() -> None:
    store, node = small_join("inner", [3, 7, 40, None], pa.int64())
    assert len(run(node, store)) == 60
    (predicate,) = store.specs[-1].predicates
    assert isinstance(predicate, BitmapFilter)
    assert (np.flatnonzero(predicate.bits) + predicate.base).tolist() == [3, 7, 40]


def test_text_keys_filter_the_probe_scan_by_list() -> None:
    store, node = small_join("semi", ["k3", "k7", "other"], pa.string())
    assert len(run(node, store)) == 40
    (predicate,) = store.specs[-1].predicates
    assert predicate == InList("p1", ("k3", "k7", "other"))


def test_many_keys_far_apart_filter_the_probe_scan_by_range_and_bloom_filter() -> None:
    keys = [3, *(10**12 + i * 10**6 for i in range(5000))]
    for bloom_keys, kinds in ((0, [Range]), (5000, [Range]), (5001, [Range, BloomFilter])):
        store, node = small_join("inner", [*keys, None], pa.int64(), bloom_keys)
        assert len(run(node, store)) == 20
        assert [type(predicate) for predicate in store.specs[-1].predicates] == kinds


def test_many_texts_filter_the_probe_scan_by_bloom_filter() -> None:
    store, node = small_join("semi", ["k3", "k7", *(f"other {i}" for i in range(300)), None], pa.string(), 1000)
    assert len(run(node, store)) == 40
    (predicate,) = store.specs[-1].predicates
    assert isinstance(predicate, BloomFilter)


BLOOM_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 7, 2**40, 2**63 - 1]),
    pa.timestamp("us"): st.sampled_from([datetime.datetime(year, 1, 1) for year in (1969, 1970, 2000, 2262)]),
    pa.string(): st.sampled_from(["", "a", "b", "é", "x" * 300]),
    pa.binary(): st.sampled_from([b"", b"a", b"\xff\x00"]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, -1e300, math.inf]),
    pa.decimal128(9, 2): st.sampled_from([decimal.Decimal(v).scaleb(-2) for v in (-5, 0, 7, 999_999_999)]),
    pa.decimal128(30, 2): st.sampled_from([decimal.Decimal(v).scaleb(-2) for v in (-5, 0, 7, 10**25, -(10**28))]),
}


@pytest.mark.parametrize("type_", BLOOM_VALUES, ids=str)
@given(data=st.data())
@settings(max_examples=examples(50), deadline=None)
def test_bloom_filters_drop_no_partner_of_any_type(type_: pa.DataType, data: st.DataObject) -> None:
    rows = st.lists(st.tuples(st.one_of(st.none(), BLOOM_VALUES[type_])), min_size=1, max_size=20)
    probe_rows, build_rows = data.draw(rows), data.draw(rows)
    kind = data.draw(st.sampled_from(["inner", "semi", "right", "right_semi", "right_anti"]))
    store = MemoryStore(batch_rows=7)
    probe = table(store, "p", probe_rows, [type_], data.draw(st.booleans()))
    build = table(store, "b", build_rows, [type_], data.draw(st.booleans()))
    node = HashJoin(
        columns=output(kind, probe, build),
        kind=kind,
        probe=probe,
        build=build,
        probe_keys=(probe.columns[1],),
        build_keys=(build.columns[1],),
        runtime_filters=(RuntimeFilter(0, probe.columns[1].id, bloom_keys=100),),
    )
    with pytest.MonkeyPatch.context() as patched:
        for name in ("MOST_BITS", "MOST_LISTED", "MOST_TEXTS"):
            patched.setattr(filters_module, name, -1)
        sides = numbered(probe_rows), numbered(build_rows)
        check(node, store, kind, sides, lambda p, b: holds(p, b, 1, False))
    predicates = store.specs[-1].predicates
    assert isinstance(predicates[-1], BloomFilter)


def test_a_join_that_keeps_probe_rows_filters_nothing() -> None:
    store, node = small_join("left", [3], pa.int64())
    assert len(run(node, store)) == 1000
    assert store.specs[-1].predicates == ()


def test_an_empty_build_side_spares_the_probe_scan() -> None:
    store, node = small_join("inner", [], pa.int64())
    assert run(node, store) == []
    assert [spec.columns for spec in store.specs] == [("b0", "b1")]


def test_columns_of_dropped_rows_are_not_read() -> None:
    store = MemoryStore(batch_rows=100)
    probe = table(store, "p", [(i, "x") for i in range(500)], [pa.int64(), pa.string()], False)
    build = table(store, "b", [(1000, "y")], [pa.int64(), pa.string()], False)
    node = HashJoin(
        columns=probe.columns + build.columns,
        kind="inner",
        probe=probe,
        build=build,
        probe_keys=(probe.columns[1],),
        build_keys=(build.columns[1],),
    )
    assert run(node, store, threads=1) == []
    assert set(store.columns_read) == {"p.p1", "b.b1"}


def test_three_wide_keys_are_numbered_before_they_overflow() -> None:
    store = MemoryStore(batch_rows=10)
    big = [0, 2**40, 2**50, 2**61]
    rows = [(a, b, c) for a in big for b in big for c in big]
    types = (pa.int64(),) * 3
    probe, build = table(store, "p", rows, types, True), table(store, "b", rows[::3], types, True)
    node = HashJoin(
        columns=probe.columns + build.columns,
        kind="inner",
        probe=probe,
        build=build,
        probe_keys=probe.columns[1:],
        build_keys=build.columns[1:],
    )
    assert Counter(run(node, store)) == Counter(
        expected("inner", numbered(rows), numbered(rows[::3]), lambda p, b: holds(p, b, 3, False))
    )
    assert probe.columns[1].type == BIGINT
