"""The compiled kernels of single rows read and write what Python does, and leave to it what they do not cover."""

from __future__ import annotations

import struct
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.postgres.session.bound_values import ValuesMatcher, values_matcher
from nyala.doors.postgres.values import kernels
from nyala.doors.postgres.values.single_rows import RowEncoder, row_encoder
from nyala.model.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, FLOAT, INT, INTERVAL, SMALLINT, STRING, DataType
from postgres_rows_support import COLUMN_TYPES, tables

pytestmark = pytest.mark.skipif(kernels.compiled is None, reason="the kernels were built without a C compiler")

HEAD, TAIL = b"\0name\0", b"\0\0D"
TYPES: list[DataType | None] = [
    None,
    SMALLINT,
    INT,
    BIGINT,
    FLOAT,
    DOUBLE,
    STRING,
    DECIMAL(9, 2),
    DATE,
    BOOLEAN,
    INTERVAL,
]
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-40_000, 40_000)
FIELDS = st.one_of(
    st.none(),
    st.binary(max_size=10),
    st.text(max_size=5).map(str.encode),
    NUMBERS.map(lambda number: str(number).encode()),
    NUMBERS.map(lambda number: struct.pack("!q", number)),
    st.integers(-(2**31), 2**31 - 1).map(lambda number: struct.pack("!i", number)),
    st.integers(-(2**15), 2**15 - 1).map(lambda number: struct.pack("!h", number)),
    st.floats().map(lambda number: struct.pack("!d", number)),
    st.floats(width=32).map(lambda number: struct.pack("!f", number)),
    st.sampled_from([b"+5", b" 5", b"5 ", b"-", b"", b"-32768", b"-32769", b"32768", b"2147483648", b"9" * 19]),
)


def encoders(types: list[DataType], formats: list[int]) -> tuple[RowEncoder, RowEncoder]:
    make = row_encoder.__wrapped__
    with mock.patch.object(kernels, "compiled", None):
        plain = make(tuple(types), tuple(formats))
    return make(tuple(types), tuple(formats)), plain


@given(tables(COLUMN_TYPES), st.data())
def test_rows_are_those_of_python(table: tuple[list[DataType], Any], draw: st.DataObject) -> None:
    types, batch = table
    compiled, plain = encoders(types, [draw.draw(st.sampled_from([0, 1])) for _ in types])
    for row in batch.to_pylist():
        values = tuple(row[name] for name in batch.schema.names)
        assert compiled(values) == plain(values)


@pytest.mark.parametrize("size", [1000, 1013, 1014, 1024, 3000, 100_000])
def test_long_rows(size: int) -> None:
    compiled, plain = encoders([STRING, BIGINT, STRING], [0, 1, 0])
    row = ("é" * (size // 2), -5, "x" * size)
    assert compiled(row) == plain(row)


@pytest.mark.parametrize(
    ("forms", "row", "error"),
    [
        (b"n", ("7",), TypeError),
        (b"n", (2**63,), OverflowError),
        (b"2", (32768,), OverflowError),
        (b"d", ("x",), TypeError),
        (b"t", (7,), TypeError),
        (b"t", ("\ud800",), UnicodeEncodeError),
        (b"-", (7,), TypeError),
        (b"nn", (7,), ValueError),
    ],
)
def test_values_of_other_types_are_refused(forms: bytes, row: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        kernels.compiled.data_row(forms, (None,) * len(forms), row)


def matchers(oids: list[int], formats: list[int], types: list[DataType | None]) -> tuple[ValuesMatcher, ValuesMatcher]:
    with mock.patch.object(kernels, "compiled", None):
        plain = values_matcher(HEAD, TAIL, oids, formats, types)
    return values_matcher(HEAD, TAIL, oids, formats, types), plain


@given(st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from([0, 1]), FIELDS), max_size=4), st.data())
def test_values_are_those_of_python(
    parameters: list[tuple[DataType | None, int, bytes | None]], draw: st.DataObject
) -> None:
    types, formats = [type_ for type_, _, _ in parameters], [format_ for _, format_, _ in parameters]
    compiled, plain = matchers([0] * len(types), formats, types)
    fields = b"".join(
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for _, _, value in parameters
    )
    data = bytearray(b"__" + HEAD + fields + TAIL + b"more")
    if draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.sampled_from([0, 1, 4, 127, 255]))
    cut = draw.draw(st.integers(0, len(data)) | st.just(len(data)))
    whole = bytes(data[:cut])
    assert repr(compiled(whole, 2)) == repr(plain(whole, 2))  # NaN is not equal to itself


def test_usual_values_need_no_python() -> None:
    fields = b"".join(struct.pack("!i", len(value)) + value for value in (struct.pack("!h", -7), b"12", b"\xc3\xa9"))
    found = kernels.compiled.match_values(HEAD + fields + TAIL, HEAD, TAIL, b"n4t", 0)
    assert found == ((-7, 12, "é"), len(HEAD) + len(fields))


def test_arguments_of_other_types_are_refused() -> None:
    for arguments in (
        (b"", b"", b"", b""),
        (b"", b"", b"", b"", -1),
        (b"", b"", b"", b"", "x"),
        ("", b"", b"", b"", 0),
    ):
        with pytest.raises((TypeError, ValueError)):
            kernels.compiled.match_values(*arguments)
    assert kernels.compiled.match_values(b"", b"", b"", b"", 9) is None
    with pytest.raises(ValueError, match="three arguments"):
        kernels.compiled.data_row(b"", ())
