"""Rows in the formats of the protocol: whole batches against one row at a time, and against psycopg's own reading."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import struct
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.postgres.values import kernels
from nyala.doors.postgres.values import rows as rows_module
from nyala.doors.postgres.values.numerics import numeric_from_bytes, numeric_to_bytes
from nyala.doors.postgres.values.parameters import from_binary, parameter_value
from nyala.doors.postgres.values.rows import EncodedRows, encode_rows, pieces
from nyala.doors.postgres.values.single_rows import encode_row
from nyala.doors.postgres.values.types import parameter_oid
from nyala.errors import InvalidText
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
)
from postgres_support import replies, row

DECIMALS = [
    DECIMAL(1, 0),
    DECIMAL(9, 2),
    DECIMAL(15, 3),
    DECIMAL(18, 18),
    DECIMAL(18, 1),
    DECIMAL(38, 0),
    DECIMAL(38, 37),
]


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    if type_.is_integer:
        bits = np.dtype(type_.dtype).itemsize * 8 - 1
        return st.integers(-(2**bits), 2**bits - 1)
    if type_.kind is Kind.DECIMAL:
        most = 10 ** (type_.precision or 0) - 1
        with decimal.localcontext(prec=60):
            return st.integers(-most, most).map(lambda unscaled: exact(unscaled, type_.scale or 0))
    return {
        Kind.BOOLEAN: st.booleans(),
        Kind.FLOAT: st.floats(width=32),
        Kind.DOUBLE: st.floats(),
        Kind.DATE: st.dates(),
        Kind.TIMESTAMP: st.datetimes(),
        Kind.STRING: st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        Kind.BINARY: st.binary(),
    }[type_.kind]


def exact(unscaled: int, scale: int) -> decimal.Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return decimal.Decimal((int(unscaled < 0), digits, -scale))


TYPES = [BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, *DECIMALS, DATE, TIMESTAMP, STRING, BINARY]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], list[int], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    formats = [draw(st.sampled_from([0, 1])) for _ in types]
    cells = [st.none() | values_of(t) if draw(st.booleans()) else values_of(t) for t in types]
    return types, formats, draw(st.lists(st.tuples(*cells), max_size=6))


def batch(types: list[DataType], rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = [pa.array([r[i] for r in rows], t.arrow) for i, t in enumerate(types)]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(types))])


@given(tables())
def test_a_batch_is_its_rows_one_after_the_other(
    table: tuple[list[DataType], list[int], list[tuple[Any, ...]]],
) -> None:
    types, formats, rows = table
    expected = b"".join(encode_row(values, types, formats) for values in rows)
    whole = batch(types, rows)
    assert encode_rows(whole, types, formats) == expected
    if rows:  # a slice has offsets into the same buffers
        assert encode_rows(whole.slice(1), types, formats) == b"".join(encode_row(r, types, formats) for r in rows[1:])


@given(tables(), st.lists(st.integers(1, 4), min_size=6, max_size=6), st.booleans())
def test_rows_that_are_fetched_a_few_at_a_time_are_the_same(
    table: tuple[list[DataType], list[int], list[tuple[Any, ...]]], counts: list[int], compiled: bool
) -> None:
    types, formats, rows = table
    found: list[bytes] = []
    with mock.patch.object(rows_module, "PIECE_ROWS", 3), contextlib.ExitStack() as stack:
        if not compiled:
            stack.enter_context(mock.patch.object(kernels, "compiled", None))
        rest = EncodedRows(batch(types, rows), types, formats)
        for most in counts:
            if not rest.count:
                break
            before = rest.count
            messages, count = rest.take(most)
            assert 1 <= count <= most and rest.count == before - count
            assert messages == encode_rows(batch(types, rows[len(rows) - before :][:count]), types, formats)
            found.append(messages)
    assert not rest.count and b"".join(found) == encode_rows(batch(types, rows), types, formats)


@given(tables())
def test_what_is_sent_can_be_read(table: tuple[list[DataType], list[int], list[tuple[Any, ...]]]) -> None:
    types, formats, rows = table
    data = encode_rows(batch(types, rows), types, formats)
    for (kind, body), values in zip(replies(data), rows, strict=True):
        assert kind == "D"
        for field, value, type_, format_ in zip(row(body), values, types, formats, strict=True):
            if value is None:
                assert field is None
                continue
            assert field is not None
            found = parameter_value(field, parameter_oid(type_), format_)
            assert found == value or (value != value and found != found), type_
            if isinstance(value, float):
                assert struct.pack("!d", found) == struct.pack("!d", value) or value != value


@given(st.sampled_from(DECIMALS).flatmap(values_of))
def test_a_numeric_is_read_as_it_was_written(value: decimal.Decimal) -> None:
    found = numeric_from_bytes(numeric_to_bytes(value))
    assert (found, -found.as_tuple().exponent) == (value, -value.as_tuple().exponent)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", "0000 0000 0000 0000"),
        ("12345.678", "0003 0001 0000 0003 0001 0929 1a7c"),
        ("-1", "0001 0000 4000 0000 0001"),
        ("0.00010", "0001 ffff 0000 0005 0001"),
        ("10000", "0001 0001 0000 0000 0001"),
        ("0.5", "0001 ffff 0000 0001 1388"),
    ],
)
def test_the_binary_numeric_is_that_of_postgresql(value: str, expected: str) -> None:
    """The bytes are those of `numeric_send` of PostgreSQL 15."""
    assert numeric_to_bytes(decimal.Decimal(value)) == bytes.fromhex(expected)


@given(st.binary(max_size=24))
def test_bytes_that_are_no_numeric_are_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidText):
        numeric_from_bytes(data)


@given(st.sampled_from(TYPES), st.binary(max_size=20))
def test_any_bytes_are_a_value_or_refused(type_: DataType, data: bytes) -> None:
    with contextlib.suppress(InvalidText):
        from_binary(data, type_)


def test_intervals() -> None:
    array = pa.array([(14, -3, 4_000_001_000), None, (0, 0, 0)], pa.month_day_nano_interval())
    rows = pa.RecordBatch.from_arrays([array], names=["i"])
    text, binary = (
        [row(body)[0] for _, body in replies(encode_rows(rows, [INTERVAL], [format_]))] for format_ in (0, 1)
    )
    assert text == [b"1 year 2 mons -3 days +00:00:04.000001", None, b"00:00:00"]
    assert binary == [struct.pack("!qii", 4_000_001, -3, 14), None, bytes(16)]
    assert from_binary(struct.pack("!qii", 1, 2, 0), INTERVAL) == datetime.timedelta(days=2, microseconds=1)
    assert from_binary(struct.pack("!qii", 1_000_000, 2, 3), INTERVAL) == "3 mons 2 days 00:00:01"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1e-5, "1e-05"), (0.1, "0.1"), (float("inf"), "Infinity"), (float("nan"), "NaN"), (1e300, "1e+300")],
)
def test_floats_are_written_as_postgresql_writes_them(value: float, text: str) -> None:
    assert row(encode_row([value], [DOUBLE], [0])[5:]) == [text.encode()]


def test_pieces_of_long_texts_have_few_rows() -> None:
    long = pa.RecordBatch.from_arrays([pa.array(["x" * (1 << 20)] * 5)], names=["t"])
    assert [piece.num_rows for piece in pieces(long)] == [1] * 5
    short = pa.RecordBatch.from_arrays([pa.array(range(100_000))], names=["n"])
    assert len(list(pieces(short))) == 4
