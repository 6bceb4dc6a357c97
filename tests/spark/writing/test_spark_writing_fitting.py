"""Columns and values of DataFrames as a table takes them: nothing is lost without an error that shows the row."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import nyala
import pyarrow as pa
import pytest
from nyala.errors import (
    DataError,
    Error,
    InterfaceError,
    NoPartition,
    NotNullViolation,
    TextTooLong,
    TypeMismatch,
    UnknownColumn,
)
from nyala.model.schema import Table
from nyala.spark.writing.fitting import Fitting
from nyala.spark.writing.operations import Operation


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with nyala.connect() as connection:
        connection.execute(
            "CREATE TABLE t (k INT NOT NULL, i SMALLINT, d DECIMAL(5, 2), long DECIMAL(38, 30), f FLOAT,"
            " day DATE, at TIMESTAMP, name VARCHAR(3), must INT NOT NULL DEFAULT 1, PRIMARY KEY (k))"
            " DISTRIBUTE BY RANGE (k) (PARTITION 0 <= VALUES < 100)"
        )
        yield connection.store.table("t")


def fitted(table: Table, operation: Operation = Operation.UPSERT, **columns: pa.Array) -> list[dict[str, Any]]:
    batch = pa.record_batch({"k": pa.array(range(len(next(iter(columns.values()), [0])))), **columns})
    found = Fitting(table, operation, batch.schema).rows(batch)
    assert all(column.type == table.schema.column(name).type.arrow for name, column in zip(found.schema.names, found))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


MIDNIGHT = datetime.datetime(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12)


@pytest.mark.parametrize(
    ("column", "given", "wanted"),
    [
        ("i", pa.array([1.0, None]), [1, None]),
        ("i", pa.array([Decimal("7.00")]), [7]),
        ("d", pa.array([12]), [Decimal("12.00")]),
        ("long", pa.array([-12, None]), [Decimal(-12), None]),
        ("d", pa.array([Decimal("1.500")]), [Decimal("1.50")]),
        ("f", pa.array([0.1, 16777217]), [pa.scalar(0.1, pa.float32()).as_py(), 16777216.0]),
        ("f", pa.array([float("inf"), None]), [float("inf"), None]),
        ("f", pa.array([Decimal("0.5")]), [0.5]),
        ("day", pa.array([MIDNIGHT], pa.timestamp("us", "UTC")), [MIDNIGHT.date()]),
        ("at", pa.array([NOON], pa.timestamp("us", "UTC")), [NOON]),
        ("at", pa.array([MIDNIGHT.date()]), [MIDNIGHT]),
        ("NAME", pa.array(["äöü"], pa.large_string()), ["äöü"]),
    ],
)
def test_values_that_keep_their_meaning(table: Table, column: str, given: pa.Array, wanted: list[Any]) -> None:
    assert [row[column.lower()] for row in fitted(table, **{column: given})] == wanted


@pytest.mark.parametrize(
    ("column", "given", "kind"),
    [
        ("i", pa.array([1.0, 2.5]), DataError),
        ("i", pa.array([1, 40_000]), DataError),
        ("d", pa.array([Decimal("1.50"), Decimal("0.125")]), DataError),
        ("d", pa.array([1, 1000]), DataError),
        ("f", pa.array([1.0, 1e300]), DataError),
        ("day", pa.array([MIDNIGHT, NOON], pa.timestamp("us")), DataError),
        ("name", pa.array(["abc", "abcd"]), TextTooLong),
        ("must", pa.array([1, None]), NotNullViolation),
    ],
)
def test_values_that_do_not_are_shown_with_their_rows(
    table: Table, column: str, given: pa.Array, kind: type[Error]
) -> None:
    with pytest.raises(kind, match=rf"{column}.*the row with k = 1, {column} = "):
        fitted(table, **{column: given})


def test_a_row_outside_all_partitions_is_refused(table: Table) -> None:
    batch = pa.record_batch({"k": [5, 100]})
    with pytest.raises(NoPartition, match="k = 100"):
        Fitting(table, Operation.DELETE, batch.schema).rows(batch)


@pytest.mark.parametrize(
    ("names", "types", "operation", "kind", "message"),
    [
        (["k", "x"], [pa.int64()] * 2, Operation.INSERT, UnknownColumn, "column x"),
        (["i"], [pa.int64()], Operation.DELETE, NotNullViolation, "lacks column k"),
        (["k", "K"], [pa.int64()] * 2, Operation.INSERT, InterfaceError, "k and K are both"),
        (["k", "name"], [pa.int64()] * 2, Operation.INSERT, TypeMismatch, "name"),
        (["k", "d"], [pa.int64(), pa.float64()], Operation.INSERT, TypeMismatch, "column d"),
        (["k", "i"], [pa.int64(), pa.string()], Operation.INSERT, TypeMismatch, "column i"),
        (["k"], [pa.int64()], Operation.UPDATE, InterfaceError, "only the key"),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_once(
    table: Table, names: list[str], types: list[pa.DataType], operation: Operation, kind: type[Error], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Fitting(table, operation, pa.schema(list(zip(names, types))))


def test_a_deletion_needs_the_key_alone(table: Table) -> None:
    assert fitted(table, Operation.DELETE, must=pa.array([None, 1], pa.int32())) == [{"k": 0}, {"k": 1}]
