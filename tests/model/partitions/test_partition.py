"""Partitioning: routing against the definition row by row, pruning against routing."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import InvalidTableDefinition, NotNullViolation
from nyala.model.keys.keys import encode_key
from nyala.model.partitions.partition import Partition, Partitioner
from nyala.model.predicates import AnyOf, BitmapFilter, BloomFilter, ColumnPredicate, InList, IsNull, Range
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    check_partitions,
)
from nyala.model.types import BIGINT, DATE, INT, STRING

SCHEMA = Schema(tuple(ColumnSchema(n, t, False) for n, t in [("a", INT), ("s", STRING), ("b", BIGINT), ("d", DATE)]), 4)
VALUES = {"a": st.integers(-9, 9), "s": st.text("xy\0", max_size=2), "b": st.integers(-3, 3), "d": st.integers(0, 9)}
ROWS = st.lists(st.fixed_dictionaries(VALUES), max_size=15)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    types = {c.name: c.type for c in SCHEMA.columns}
    columns = {n: pa.array([r[n] for r in rows], pa.int32() if n == "d" else t.arrow) for n, t in types.items()}
    columns["d"] = columns["d"].cast(pa.date32())
    return pa.table(columns)


@st.composite
def partition_schemas(draw: st.DrawFn) -> PartitionSchema:
    names = draw(st.permutations(list(VALUES)))
    split = draw(st.integers(0, 3))
    hashed = [tuple(names[:split])] if split else []
    if split > 1 and draw(st.booleans()):
        hashed = [(names[0],), tuple(names[1:split])]
    rules = tuple(HashRule(columns, draw(st.integers(2, 5)), draw(st.integers(0, 2))) for columns in hashed)
    found = PartitionSchema(rules, draw(st.none() | range_rules()))
    return draw(with_own_rules(found)) if rules and found.range_rule and draw(st.booleans()) else found


@st.composite
def with_own_rules(draw: st.DrawFn, schema: PartitionSchema) -> PartitionSchema:
    """Some of the ranges get hash rules of their own: other columns, other numbers of buckets, as many levels."""
    assert schema.range_rule is not None
    parts = []
    for part in schema.range_rule.partitions:
        names = draw(st.permutations(list(VALUES)))
        own = tuple(
            HashRule((names.pop(),), draw(st.integers(2, 6)), draw(st.integers(0, 2))) for _ in schema.hash_rules
        )
        parts.append(replace(part, hash_rules=own) if draw(st.booleans()) else part)
    return replace(schema, range_rule=replace(schema.range_rule, partitions=tuple(parts)))


@st.composite
def range_rules(draw: st.DrawFn) -> RangeRule:
    columns = tuple(draw(st.permutations(list(VALUES)))[: draw(st.integers(1, 3))])
    cuts = draw(st.lists(st.tuples(*(VALUES[c] for c in columns)), max_size=5, unique=True))
    if columns == ("s",):
        cuts = [cut for cut in cuts if cut != ("",)]  # nothing lies below it
    cuts.sort(key=lambda cut: tuple(v.encode() if isinstance(v, str) else v for v in cut))
    bounds: list[tuple[Any, ...] | None] = [None, *cuts, None]
    ranges = [RangePartition(lower, upper) for lower, upper in itertools.pairwise(bounds)]
    return RangeRule(columns, tuple(r for r in ranges if draw(st.integers(0, 4))))


def partition_key(schema: PartitionSchema, row: dict[str, Any]) -> bytes:
    """By the definition in `model.partitions.partition`, one row at a time."""
    key = b""
    for rule in schema.rules_of(range_of(schema, row)):
        types = tuple(SCHEMA.column(c).type for c in rule.columns)
        encoded = encode_key(types, [row[c] for c in rule.columns])
        key += (mmh3.hash(encoded, rule.seed, signed=False) % rule.buckets).to_bytes(4, "big")
    if schema.range_rule is not None:
        types = tuple(SCHEMA.column(c).type for c in schema.range_rule.columns)
        key += encode_key(types, [row[c] for c in schema.range_rule.columns])
    return key


def range_of(schema: PartitionSchema, row: dict[str, Any]) -> RangePartition | None:
    if schema.range_rule is None:
        return None
    names = schema.range_rule.columns
    types = tuple(SCHEMA.column(c).type for c in names)
    key = encode_key(types, [row[c] for c in names])
    for part in schema.range_rule.partitions:
        lower = b"" if part.lower is None else encode_key(types, part.lower)
        if lower <= key and (part.upper is None or key < encode_key(types, part.upper)):
            return part
    return None


def covers(partition: Partition, key: bytes) -> bool:
    return partition.lower <= key and (not partition.upper or key < partition.upper)


@given(partition_schemas(), ROWS)
def test_a_row_goes_to_the_partition_whose_interval_holds_its_key(
    schema: PartitionSchema, rows: list[dict[str, Any]]
) -> None:
    partitioner = Partitioner(SCHEMA, schema)
    expected = []
    for row in rows:
        key = partition_key(schema, row)
        holders = [p.index for p in partitioner.partitions if covers(p, key)]
        assert len(holders) <= 1
        expected.append(holders[0] if holders else -1)
    assert partitioner.route(table_of(rows)).tolist() == expected
    assert [partitioner.route_one([row[c.name] for c in SCHEMA.key]) for row in rows] == expected


@given(partition_schemas())
def test_partitions_are_disjoint_and_without_gaps_tile_the_space(schema: PartitionSchema) -> None:
    partitions = Partitioner(SCHEMA, schema).partitions
    assert [p.index for p in partitions] == list(range(len(partitions)))
    for before, after in itertools.pairwise(partitions):
        assert before.upper and before.upper <= after.lower
    rule = schema.range_rule
    complete = rule is None or (
        schema.is_uniform
        and len(rule.partitions) > 0
        and rule.partitions[0].lower is None
        and rule.partitions[-1].upper is None
        and all(a.upper == b.lower for a, b in zip(rule.partitions, rule.partitions[1:]))
    )
    if complete:
        assert partitions[0].lower == b""
        assert partitions[-1].upper == b""
        assert all(a.upper == b.lower for a, b in itertools.pairwise(partitions))


@st.composite
def predicates(draw: st.DrawFn) -> ColumnPredicate:
    name = draw(st.sampled_from(list(VALUES)))
    if draw(st.integers(0, 3)):
        return draw(plain(name))
    members = draw(st.lists(plain(name), max_size=4))
    return AnyOf(name, tuple(m for m in members if isinstance(m, (Range, InList, IsNull))))


@st.composite
def plain(draw: st.DrawFn, name: str) -> Any:
    value = VALUES[name]
    kind = draw(st.sampled_from(["equal", "range", "in", "null", "bitmap"]))
    if kind == "equal":
        return Range.equal(name, draw(value))
    if kind == "range":
        bound = st.none() | value
        return Range(name, draw(bound), draw(bound), draw(st.booleans()), draw(st.booleans()))
    if kind == "null":
        return IsNull(name, negated=draw(st.integers(0, 5)) > 0)
    if kind == "bitmap" and name != "s":
        bits = np.array(draw(st.lists(st.booleans(), max_size=6)), np.bool_)
        return BitmapFilter(name, draw(st.integers(-5, 5)), bits)
    listed = draw(st.lists(value, unique=True, max_size=4))
    return InList(name, tuple(sorted(listed, key=lambda v: v.encode() if isinstance(v, str) else v)))


def satisfies(row: dict[str, Any], predicate: ColumnPredicate) -> bool:
    value = row[predicate.column]
    if isinstance(predicate, Range):
        low, high = predicate.lower, predicate.upper
        above = low is None or value > low or (value == low and predicate.lower_inclusive)
        return above and (high is None or value < high or (value == high and predicate.upper_inclusive))
    if isinstance(predicate, InList):
        return value in predicate.values
    if isinstance(predicate, IsNull):
        return predicate.negated
    if isinstance(predicate, AnyOf):
        return any(satisfies(row, member) for member in predicate.members)
    place = value - predicate.base
    return bool(0 <= place < len(predicate.bits) and predicate.bits[place])


@settings(max_examples=examples(300))
@given(partition_schemas(), ROWS, st.lists(predicates(), max_size=4))
def test_pruning_never_loses_a_row(
    schema: PartitionSchema, rows: list[dict[str, Any]], conditions: list[ColumnPredicate]
) -> None:
    partitioner = Partitioner(SCHEMA, schema)
    kept = partitioner.prune(conditions)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(range(len(partitioner.partitions)))
    homes = partitioner.route(table_of(rows)).tolist()
    for row, home in zip(rows, homes):
        if home >= 0 and all(satisfies(row, c) for c in conditions):
            assert home in kept


@given(partition_schemas(), ROWS.filter(bool))
def test_a_row_fixed_in_all_columns_is_in_one_partition_at_most(
    schema: PartitionSchema, rows: list[dict[str, Any]]
) -> None:
    partitioner = Partitioner(SCHEMA, schema)
    home = int(partitioner.route(table_of(rows[:1]))[0])
    kept = partitioner.prune([Range.equal(name, value) for name, value in rows[0].items()])
    assert kept == ([home] if home >= 0 else [])


TWO_LEVELS = PartitionSchema(
    (HashRule(("a",), 4),),
    RangeRule(("d",), (RangePartition(None, (10,)), RangePartition((10,), (20,)), RangePartition((30,), None))),
)


@pytest.mark.parametrize(
    ("conditions", "ranges"),
    [
        ([Range("d", lower=10)], {1, 2}),
        ([Range("d", lower=20, upper=29)], set()),
        ([Range("d", upper=10, upper_inclusive=False)], {0}),
        ([Range("d", upper=10)], {0, 1}),
        ([Range("d", lower=19, lower_inclusive=False)], {2}),
        ([InList("d", (3, 25, 31))], {0, 2}),
        ([Range("d", 5, 8), InList("d", (1, 9))], set()),
        ([AnyOf("d", (Range("d", None, 5), InList("d", (31, 32))))], {0, 1, 2}),
        ([AnyOf("d", (Range("d", 12, 15), InList("d", (31, 32))))], {1, 2}),
        ([AnyOf("d", (Range.equal("d", 5), InList("d", (31, 32))))], {0, 2}),
        ([AnyOf("d", (Range("d", 7, 5), IsNull("d")))], set()),
        ([BloomFilter("d", np.zeros(1, np.uint64))], {0, 1, 2}),
        ([BitmapFilter("d", 12, np.ones(1_000, np.bool_))], {1, 2}),
        ([Range("d", lower=2**40)], set()),
        ([Range("d", upper=2**40)], {0, 1, 2}),
        ([], {0, 1, 2}),
    ],
    ids=str,
)
def test_range_rules_prune_exactly(conditions: list[ColumnPredicate], ranges: set[int]) -> None:
    kept = Partitioner(SCHEMA, TWO_LEVELS).prune(conditions)
    assert {i % 3 for i in kept} == ranges
    assert len(kept) == 4 * len(ranges)


def test_hash_rules_prune_by_lists_and_short_ranges() -> None:
    partitioner = Partitioner(SCHEMA, PartitionSchema((HashRule(("a",), 64),)))
    rows = [{"a": v, "s": "", "b": 0, "d": 0} for v in (3, 4, 5)]
    homes = sorted(set(partitioner.route(table_of(rows)).tolist()))
    assert partitioner.prune([InList("a", (3, 4, 5))]) == homes
    assert partitioner.prune([Range("a", 3, 5)]) == homes
    assert len(partitioner.prune([Range("a", 0, 10**6)])) == 64


def test_a_dictionary_column_routes_as_its_texts_do() -> None:
    partitioner = Partitioner(SCHEMA, PartitionSchema((HashRule(("s",), 7, seed=5),)))
    texts = pa.array(["x", "yy", "", "x", "zzz"])
    rows = table_of([{"a": 0, "s": "", "b": 0, "d": 0}] * 5)
    plain = rows.set_column(1, "s", texts)
    encoded = rows.set_column(1, "s", texts.dictionary_encode())
    assert partitioner.route(encoded).tolist() == partitioner.route(plain).tolist()


def test_batches_longer_than_a_portion_route_alike() -> None:
    partitioner = Partitioner(SCHEMA, PartitionSchema((HashRule(("a", "s"), 16),)))
    n = 40_000
    rows = pa.table({"a": pa.array(np.arange(n) % 1_000, pa.int32()), "s": [str(i % 1_000) for i in range(n)]})
    routed = partitioner.route(rows)
    assert routed.dtype == np.int32
    assert np.array_equal(routed[:1_000], routed[n - 1_000 :])
    assert set(np.unique(routed)) == set(range(16))


def test_a_table_without_rules_has_one_partition() -> None:
    partitioner = Partitioner(SCHEMA, PartitionSchema())
    assert partitioner.partitions == (Partition(0, (), None, b"", b"", "all rows"),)
    assert partitioner.prune([Range.equal("a", 1)]) == [0]
    assert partitioner.prune([IsNull("a")]) == []


def test_partitions_describe_themselves() -> None:
    start = (datetime.date(2026, 1, 1) - datetime.date(1970, 1, 1)).days
    ranges = (RangePartition(None, (start, 5)), RangePartition((start, 5), None))
    schema = PartitionSchema((HashRule(("a", "s"), 2),), RangeRule(("d", "b"), ranges))
    assert [p.describe() for p in Partitioner(SCHEMA, schema).partitions] == [
        "HASH (a, s) bucket 0 of 2, (d, b) < ('2026-01-01', 5)",
        "HASH (a, s) bucket 0 of 2, ('2026-01-01', 5) <= (d, b)",
        "HASH (a, s) bucket 1 of 2, (d, b) < ('2026-01-01', 5)",
        "HASH (a, s) bucket 1 of 2, ('2026-01-01', 5) <= (d, b)",
    ]


def test_a_range_below_the_empty_text_is_refused() -> None:
    rule = RangeRule(("s",), (RangePartition(None, ("",)), RangePartition(("",), None)))
    with pytest.raises(InvalidTableDefinition, match=r"range partition of \(s\) is empty"):
        Partitioner(SCHEMA, PartitionSchema((), rule))


def test_a_null_in_a_partition_column_is_refused() -> None:
    with pytest.raises(NotNullViolation, match="key column a is NULL in row 2 of the batch"):
        Partitioner(SCHEMA, TWO_LEVELS).route(pa.table({"a": pa.array([1, None], pa.int32())}))


@given(partition_schemas(), ROWS)
def test_rows_of_two_tablets_differ_in_a_partition_column(schema: PartitionSchema, rows: list[dict[str, Any]]) -> None:
    partitioner = Partitioner(SCHEMA, schema)
    assert schema.tablet_count == len(partitioner.partitions)
    home: dict[tuple[Any, ...], int] = {}
    for row, place in zip(rows, partitioner.route(table_of(rows)).tolist(), strict=True):
        assert home.setdefault(tuple(row[name] for name in sorted(schema.columns)), place) == place


def test_a_range_with_hash_rules_of_its_own_has_as_many_as_the_table() -> None:
    own = (HashRule(("a",), 2), HashRule(("b",), 2))
    schema = PartitionSchema((HashRule(("a",), 4),), RangeRule(("d",), (RangePartition(None, None, own),)))
    with pytest.raises(InvalidTableDefinition, match="as many as the table, 1, not 2"):
        check_partitions(SCHEMA, schema)
    with pytest.raises(InvalidTableDefinition, match="at least 2 buckets"):
        check_partitions(
            SCHEMA, replace(schema, range_rule=RangeRule(("d",), (RangePartition(None, None, (HashRule(("b",), 1),)),)))
        )
