"""Schemas and partition rules refuse what cannot be, and say why."""

from __future__ import annotations

import pytest
from nyala.errors import InvalidTableDefinition, UnknownColumn
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    assign_column_ids,
    check_partitions,
)
from nyala.model.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, STRING, DataType

HOST = ColumnSchema("host", STRING, nullable=False)
TS = ColumnSchema("ts", BIGINT, nullable=False)
VALUE = ColumnSchema("value", DOUBLE)
SCHEMA = Schema((HOST, TS, VALUE), 2)


def ranges(*bounds: tuple[int | None, int | None]) -> PartitionSchema:
    parts = tuple(RangePartition(None if a is None else (a,), None if b is None else (b,)) for a, b in bounds)
    return PartitionSchema((), RangeRule(("ts",), parts))


def test_positions_and_names() -> None:
    assert SCHEMA.names == ["host", "ts", "value"]
    assert SCHEMA.key == (HOST, TS)
    assert "ts" in SCHEMA and "x" not in SCHEMA
    assert [c.id for c in assign_column_ids(SCHEMA.columns, 7)] == [7, 8, 9]
    assert SCHEMA.arrow.field("host").nullable is False


def test_an_unknown_column_is_answered_with_a_close_one() -> None:
    with pytest.raises(UnknownColumn, match="did you mean value"):
        SCHEMA.column("vlaue")


@pytest.mark.parametrize(
    ("columns", "keys", "message"),
    [
        ((HOST, HOST), 1, "host occurs twice"),
        ((HOST,), 0, "needs a PRIMARY KEY"),
        ((ColumnSchema("k", BIGINT),), 1, "k must be NOT NULL"),
        ((ColumnSchema("k", DOUBLE, False),), 1, "cannot be of type DOUBLE"),
        ((ColumnSchema("k", BOOLEAN, False),), 1, "cannot be of type BOOLEAN"),
        ((TS, ColumnSchema("i", INTERVAL)), 1, "column i: a column cannot be of type INTERVAL"),
        (tuple(ColumnSchema(f"c{i}", BIGINT, False) for i in range(301)), 1, "301 columns are more than the limit"),
    ],
)
def test_an_impossible_schema_is_refused(columns: tuple[ColumnSchema, ...], keys: int, message: str) -> None:
    with pytest.raises(InvalidTableDefinition, match=message):
        Schema(columns, keys)


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (PartitionSchema((HashRule(("value",), 4),)), r"value is not part of the primary key \(host, ts\)"),
        (PartitionSchema((HashRule((), 4),)), "needs at least one column"),
        (PartitionSchema((HashRule(("ts",), 1),)), "at least 2 buckets, not 1"),
        (PartitionSchema((HashRule(("ts",), 4), HashRule(("ts",), 4))), "ts is in more than one HASH rule"),
        (PartitionSchema((HashRule(("ts",), 64), HashRule(("host",), 64))), "4096 hash buckets are more"),
        (ranges((0, 10), (5, 20)), "range partitions 1 and 2 overlap"),
        (ranges((None, None), (5, 20)), "range partitions 1 and 2 overlap"),
        (ranges((10, 10)), "range partition 1 is empty"),
    ],
)
def test_impossible_partitions_are_refused(partitions: PartitionSchema, message: str) -> None:
    with pytest.raises(InvalidTableDefinition, match=message):
        check_partitions(SCHEMA, partitions)


def test_ranges_may_leave_gaps_and_be_open() -> None:
    check_partitions(SCHEMA, ranges((None, 0), (10, 20), (20, None)))
    check_partitions(SCHEMA, PartitionSchema((HashRule(("host",), 3), HashRule(("ts",), 4, seed=1))))


def test_an_unknown_partition_column_is_named() -> None:
    with pytest.raises(UnknownColumn, match="hots"):
        check_partitions(SCHEMA, PartitionSchema((HashRule(("hots",), 4),)))


def test_types_compare_by_value() -> None:
    assert DataType(STRING.kind, length=3) != STRING
    assert str(DataType(STRING.kind, length=3)) == "VARCHAR(3)"
