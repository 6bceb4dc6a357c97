"""Totals of numbered groups are those of gathered ones and of DuckDB, for all types of values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import InternalError, NumericOutOfRange
from nyala.executor.aggregation import aggregate
from nyala.executor.aggregation.accumulators_statistics import Statistics
from nyala.executor.kernels.groups import hash_groups
from nyala.executor.kernels.groups.numbered_groups import (
    NumberedGroups,
    groups_by,
    numbered_groups,
    one_numbered_group,
)
from nyala.executor.kernels.groups.segments import Segments, one_group, segments
from nyala.model.types import BIGINT, DOUBLE
from nyala.model.vectors.vector import Flat

LENGTH = 3000
TYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
NUMBERS: dict[str, tuple[str, int]] = {
    "few": ("u1", 5),
    "bytes": ("u1", 256),
    "absent": ("u2", 4096),
    "many": ("u4", 5000),
    "hashed": ("u8", 2**64),
}


@pytest.fixture(autouse=True)
def compiled(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_groups, "compiled", kernels)


def values_of(type_: str, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(type_)
    if dtype.kind == "b":
        return rng.random(LENGTH) < 0.3
    if dtype.kind == "f":
        return rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -7.25, 1e30], LENGTH).astype(dtype)
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max, LENGTH, dtype, endpoint=True)
    return np.where(rng.random(LENGTH) < 0.1, rng.choice(np.array([limits.min, limits.max], dtype), LENGTH), values)


def both(kind: str, rng: np.random.Generator) -> tuple[NumberedGroups, Segments, np.ndarray]:
    """The same rows numbered and gathered, and the group in `NumberedGroups` of each gathered one."""
    dtype, size = NUMBERS[kind]
    codes = rng.choice(rng.integers(0, size - 1, 700, np.uint64, endpoint=True), LENGTH).astype(dtype)
    found = numbered_groups([(codes, size)])
    key = Flat(BIGINT, codes.astype(np.uint64).view(np.int64))
    gathered = segments([key], LENGTH)
    return found, gathered, found.group_of_row()[gathered.representatives]


@pytest.mark.parametrize("kind", NUMBERS)
def test_groups_are_those_of_segments(kind: str) -> None:
    numbered, gathered, same = both(kind, np.random.default_rng(7))
    assert len(numbered) == len(gathered) == len(set(same.tolist()))
    assert np.array_equal(numbered.sizes[same], gathered.sizes)
    assert numbered.largest == gathered.largest
    assert np.array_equal(numbered.representatives[same], gathered.representatives)
    assert np.array_equal(numbered.firsts, numbered.representatives)
    assert np.array_equal(same[gathered.group_of_row()], numbered.group_of_row())
    weights = np.random.default_rng(8).random(len(numbered))
    assert np.array_equal(numbered.spread(weights), weights[numbered.group_of_row()])
    with pytest.raises(InternalError):
        _ = numbered.starts


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("kind", NUMBERS)
def test_totals_are_those_of_segments(kind: str, type_: str) -> None:
    rng = np.random.default_rng(TYPES.index(type_))
    numbered, gathered, same = both(kind, rng)
    values = values_of(type_, rng)
    assert gathered.order is not None
    ordered = values[gathered.order]
    for greatest in (False, True):
        found, wanted = numbered.extremes(values, greatest)[same], gathered.extremes(ordered, greatest)
        assert found.dtype == wanted.dtype == values.dtype
        assert np.array_equal(found, wanted, equal_nan=values.dtype.kind == "f")
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            found, wanted = numbered.float_sums(values)[same], gathered.float_sums(ordered)
        assert np.allclose(found, wanted, rtol=1e-6, equal_nan=True)
    elif type_ != "u8":  # whose sums may not fit
        assert np.array_equal(numbered.sums(values)[same], gathered.sums(ordered))
    mask = rng.random(LENGTH) < 0.02
    assert np.array_equal(numbered.has_any(mask)[same], gathered.has_any(mask[gathered.order]))


def test_rows_that_lie_in_groups_are_not_numbered() -> None:
    ascending = Flat(BIGINT, np.repeat(np.arange(100), 30))
    mixed = Flat(BIGINT, np.tile(np.arange(100), 30))
    assert not isinstance(groups_by([ascending], LENGTH, by_number=True), NumberedGroups)
    assert isinstance(groups_by([mixed], LENGTH, by_number=True), NumberedGroups)
    assert not isinstance(groups_by([mixed], LENGTH, by_number=False), NumberedGroups)


def test_wrong_buffers_are_refused(kernels: Any) -> None:
    numbers, totals = np.zeros(9, np.uint8), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="numbers: all must be below 4"):
        kernels.add_rows(numbers + np.uint8(4), numbers, "u", totals)
    with pytest.raises(ValueError, match="numbers: all must be below 4"):
        kernels.count_rows(numbers + np.uint8(4), totals, totals.copy())
    with pytest.raises(ValueError, match="values: 9 of a type with a kernel are needed, got 8 of 1"):
        kernels.add_rows(numbers, numbers[:8], "u", totals)
    with pytest.raises(ValueError, match="values: 9 of a type with a kernel"):
        kernels.add_rows(numbers, np.zeros(9, np.float32), "f", totals)
    with pytest.raises(ValueError, match="values: 9 of a type with a kernel"):
        kernels.add_rows(np.zeros(9, np.uint64), numbers, "u", totals)
    with pytest.raises(ValueError, match="numbers: 1, 2 or 4 bytes are possible, got 8"):
        kernels.count_rows(np.zeros(9, np.uint64), totals, totals.copy())
    with pytest.raises(ValueError, match="totals: at least 0 items of 8 bytes"):
        kernels.add_rows(numbers, numbers, "u", np.zeros(4, np.int32))
    with pytest.raises(ValueError, match="firsts: at least 4"):
        kernels.count_rows(numbers, totals, totals[:3].copy())


QUERY = """
SELECT {keys}, count(*), count(i), sum(i), avg(i), min(i), max(i), sum(b), max(b), min(b), sum(d), min(d), max(d),
    avg(n), min(t), max(t), bool_or(p), min_by(b, row), max_by(i, row), stddev_pop(i), covar_pop(i, s),
    sum(s) FILTER (WHERE p)
FROM x GROUP BY {keys} ORDER BY {order}
"""


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(3)
    length = 20_000
    nothing = rng.random(length) < 0.1

    def some(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(np.asarray(values), type_, mask=nothing & (rng.random(length) < 0.7))

    hot = rng.integers(0, 300, length)
    return pa.table(
        {
            "row": np.arange(length),
            "k": some(hot, pa.int32()),
            "w": some(rng.choice(rng.integers(-(2**63), 2**63 - 1, 800), length), pa.int64()),
            "f": some(rng.choice([0.0, -0.0, math.nan, 1.5, math.inf, *rng.random(60)], length), pa.float64()),
            "i": some(rng.integers(-(2**31), 2**31 - 1, length), pa.int32()),
            "b": some(rng.integers(-(2**60), 2**60, length), pa.int64()),
            "d": some(rng.choice([math.nan, 2.5, -1e10, *rng.random(99)], length), pa.float64()),
            "n": some(rng.integers(0, 10**6, length), pa.int32()).cast(pa.decimal128(12, 2)),
            "t": some(rng.integers(0, 10**15, length), pa.timestamp("us")),
            "p": some(rng.random(length) < 0.5, pa.bool_()),
            "s": some(rng.integers(0, 9, length), pa.int16()),
        }
    )


@pytest.mark.parametrize("keys", few(["k", "w", "f", "k, s", "w, f", "p"], 3))
def test_statements_have_the_answers_of_segments_and_of_duckdb(
    rows: pa.Table, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb")
    order = ", ".join(f"{key} NULLS FIRST" for key in keys.split(", "))
    text = QUERY.format(keys=keys, order=order)
    answers = []
    with nyala.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE x (row BIGINT PRIMARY KEY, k INT, w BIGINT, f DOUBLE, i INT, b BIGINT, d DOUBLE, "
            "n DECIMAL(12, 2), t TIMESTAMP, p BOOLEAN, s SMALLINT)"
        )
        connection.load("x", rows)
        answers.append(connection.execute(text).fetchall())
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN ANALYZE {text}").fetchall())
        assert "rows grouped by the compiled kernel" in plan
        monkeypatch.setattr(hash_groups, "compiled", None)
        answers.append(connection.execute(text).fetchall())
    other = duckdb.connect()
    other.register("x", rows)
    answers.append(other.execute(text).fetchall())
    first, *others = answers
    for answer in others:
        assert len(answer) == len(first)
        assert [(a, b) for a, b in zip(answer, first, strict=True) if not all(map(are_equal, a, b))] == []


@pytest.mark.embedded_only("servers group the rows of their tablets")
@pytest.mark.parametrize("memory", [1 << 30, 3 << 20])
def test_batches_of_a_morsel_are_merged_first_if_their_groups_repeat(
    monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(aggregate, "COMBINED_GROUPS", 100)
    rng = np.random.default_rng(1)
    length = 500_000
    table = pa.table(
        {"id": np.arange(length), "k": rng.integers(0, 70_000, length), "v": rng.integers(-9, 99, length, np.int32)}
    )
    wanted = np.bincount(table["k"].to_numpy(), table["v"].to_numpy(), 70_000)
    with nyala.connect(":memory:", threads=2, memory_limit=memory) as connection:
        connection.execute("CREATE TABLE x (id BIGINT PRIMARY KEY, k BIGINT, v INT)")
        connection.load("x", table)
        text = "SELECT k, sum(v), min(v) FROM x GROUP BY k"
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN ANALYZE {text}").fetchall())
        assert "groups of batches merged morsel by morsel" in plan
        found = connection.execute(text).fetchall()
        unique = "SELECT id, sum(v) FROM x GROUP BY id"
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN ANALYZE {unique}").fetchall())
        assert "merged morsel by morsel" not in plan
    assert len(found) == len({k for k, _, _ in found}) == np.count_nonzero(np.bincount(table["k"].to_numpy()))
    assert all(int(total) == wanted[k] for k, total, _ in found)


def are_equal(one: Any, other: Any) -> bool:
    """True for equal values, or nearly equal numbers: sums of doubles depend on their order, types on the engine."""
    if one is None or other is None or not isinstance(one, (int, float, Decimal)):
        return bool(one == other)
    one, other = float(one), float(other)
    return math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("kind", [*NUMBERS, "one group"])
@given(seed=st.integers(0, 2**32), has_nulls=st.booleans(), has_special=st.booleans(), offset=st.sampled_from([0, 1e9]))
@settings(max_examples=examples(40), deadline=None)
def test_moments_are_those_of_gathered_rows(
    kind: str, inputs: int, seed: int, has_nulls: bool, has_special: bool, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    if kind == "one group":
        numbered: Segments = one_numbered_group(LENGTH)
        gathered, same, order = one_group(LENGTH), np.zeros(1, np.intp), np.arange(LENGTH)
    else:
        numbered, gathered, same = both(kind, rng)
        assert gathered.order is not None
        order = gathered.order
    columns = [rng.normal(offset, 3, LENGTH) for _ in range(inputs)]
    if has_special:
        columns[-1][rng.integers(0, LENGTH, 20)] = rng.choice([math.nan, math.inf, -math.inf], 20)
    validity = rng.random(LENGTH) < 0.4 if has_nulls else None
    ordered_validity = None if validity is None else validity[order]
    found = Statistics().partial([Flat(DOUBLE, values, validity) for values in columns], numbered)
    with mock.patch.object(hash_groups, "compiled", None):
        wanted = Statistics().partial([Flat(DOUBLE, values[order], ordered_validity) for values in columns], gathered)
    assert np.array_equal(found.counts[same], wanted.counts)
    scale = 1e-9 * max(1.0, offset * 1e-6)
    for a, b in zip((*found.means, *found.products), (*wanted.means, *wanted.products), strict=True):
        assert np.allclose(a[same], b, rtol=1e-9, atol=scale * LENGTH, equal_nan=True)


def test_equal_values_have_no_variance() -> None:
    numbered = numbered_groups([(np.tile(np.arange(7, dtype=np.uint8), 300), 7)])
    found = Statistics().partial([Flat(DOUBLE, np.full(2100, 0.1))], numbered)
    assert found.counts.tolist() == [300.0] * 7
    assert found.means[0].tolist() == [0.1] * 7
    assert found.products[0].tolist() == [0.0] * 7


def test_moments_that_overflow_are_refused() -> None:
    numbered = numbered_groups([(np.tile(np.arange(2, dtype=np.uint8), 600), 2)])
    values = np.where(np.arange(1200) % 4 < 2, 1e300, -1e300)
    with pytest.raises(NumericOutOfRange):
        Statistics().partial([Flat(DOUBLE, values)], numbered)
    with pytest.raises(NumericOutOfRange):  # of the group without infinity
        Statistics().partial([Flat(DOUBLE, np.where(np.arange(1200) % 2, math.inf, values))], numbered)


def test_older_kernels_have_no_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = numbered_groups([(np.tile(np.arange(7, dtype=np.uint8), 300), 7)])
    monkeypatch.setattr(hash_groups, "compiled", None)
    assert numbered.moments([np.zeros(2100)], None) is None


def test_wrong_buffers_for_moments_are_refused(kernels: Any) -> None:
    numbers, values, states = np.zeros(9, np.uint8), np.zeros(9), np.zeros((4, 3))
    with pytest.raises(ValueError, match="numbers: all must be below 4"):
        kernels.moment_rows(numbers + np.uint8(4), values, None, None, states)
    with pytest.raises(ValueError, match="numbers: 1, 2 or 4 bytes are possible, got 8"):
        kernels.moment_rows(values, values, None, None, states)
    with pytest.raises(ValueError, match="x: at least 9"):
        kernels.moment_rows(numbers, values[:8].copy(), None, None, states)
    with pytest.raises(ValueError, match="y: at least 9"):
        kernels.moment_rows(numbers, values, values.astype(np.float32), None, states)
    with pytest.raises(ValueError, match="present: at least 9"):
        kernels.moment_rows(numbers, values, values, np.zeros(8, np.bool_), states)
    with pytest.raises(ValueError, match="states: at least 0 items of 8 bytes"):
        kernels.moment_rows(numbers, values, values, None, states.astype(np.float32))
