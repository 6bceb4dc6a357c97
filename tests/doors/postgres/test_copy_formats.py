"""Data of COPY: what is written can be read, in blocks of any size, and damaged data is refused."""

from __future__ import annotations

import contextlib
import io
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.postgres.session.copy_syntax import parse_copy
from nyala.doors.postgres.session.reports import Refused
from nyala.doors.postgres.values import copy_binary, copy_text
from nyala.doors.postgres.values.rows import COPY_DATA, encode_rows
from nyala.errors import DataError, Error
from nyala.model.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, SMALLINT, STRING, TIMESTAMP, DataType
from postgres_rows_support import read_binary
from postgres_support import replies

TYPES = [BOOLEAN, SMALLINT, INT, BIGINT, DOUBLE, DECIMAL(9, 2), DECIMAL(18, 6), DECIMAL(38, 3), DATE, TIMESTAMP, STRING]


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    if type_.is_decimal:
        assert type_.precision is not None and type_.scale is not None
        most = 10 ** (type_.precision - type_.scale) - 1
        return st.decimals(-most, most, places=type_.scale, allow_nan=False)
    if type_.is_integer:
        bits = 8 * type_.dtype.itemsize - 1
        return st.integers(-(1 << bits), (1 << bits) - 1) | st.integers(0, 12)
    if type_ is STRING:
        characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
        return st.text(characters) | st.text("\\\t\n\r,\"N.;|x01'")
    others = {BOOLEAN: st.booleans(), DOUBLE: st.floats(allow_nan=False), DATE: st.dates(), TIMESTAMP: st.datetimes()}
    return others[type_]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], pa.RecordBatch]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    rows = draw(st.integers(0, 8))
    arrays = [pa.array(draw(st.lists(st.none() | values_of(t), min_size=rows, max_size=rows)), t.arrow) for t in types]
    return types, pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(types))])


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@given(tables(), st.integers(1, 40))
def test_binary(table: tuple[list[DataType], pa.RecordBatch], block: int) -> None:
    types, batch = table
    messages = encode_rows(batch, types, [1] * len(types), COPY_DATA)
    data = copy_binary.HEADER + b"".join(body for _, body in replies(messages)) + copy_binary.TRAILER
    with mock.patch.object(copy_binary, "BLOCK_BYTES", block):
        found = list(read_binary(data, batch.schema.names, types))
    assert rows_of(found) == rows_of([batch])


@given(tables(), st.integers(1, 40), st.data())
def test_damaged_binary_data_is_refused_or_read(
    table: tuple[list[DataType], pa.RecordBatch], block: int, draw: st.DataObject
) -> None:
    types, batch = table
    messages = encode_rows(batch, types, [1] * len(types), COPY_DATA)
    data = bytearray(copy_binary.HEADER + b"".join(body for _, body in replies(messages)) + copy_binary.TRAILER)
    place = draw.draw(st.integers(0, len(data) - 1))
    if draw.draw(st.booleans()):
        data[place] = draw.draw(st.integers(0, 255))
    else:
        del data[place:]
    with mock.patch.object(copy_binary, "BLOCK_BYTES", block), contextlib.suppress(DataError):
        list(read_binary(data, batch.schema.names, types))


def test_a_row_of_wrong_lengths_is_found_at_once() -> None:
    row = b"\0\1\0\0\0\4\0\0\0\1"
    data = copy_binary.HEADER + row + b"\0\1\0\0\0\2\0\1" + row * 10 + copy_binary.TRAILER
    with pytest.raises(DataError, match="row 2: a field has a length"):
        list(read_binary(data, ["k"], [INT]))
    with pytest.raises(DataError, match="row 2: 1 fields expected, 7 found"):
        list(read_binary(copy_binary.HEADER + row + b"\0\7" + row, ["k"], [INT]))
    with pytest.raises(DataError, match="signature"):
        list(read_binary(b"1\ttext\n", ["k"], [INT]))


@given(tables(), st.integers(1, 40), st.sampled_from(["\t", "|", ",", "x"]))
def test_text(table: tuple[list[DataType], pa.RecordBatch], block: int, delimiter: str) -> None:
    types, batch = table
    messages = copy_text.text_rows(batch, types, delimiter, "\\N")
    data = b"".join(body for _, body in replies(messages))
    with mock.patch.object(copy_text, "BLOCK_BYTES", block):
        source = io.BytesIO(data)
        found = list(copy_text.read_text(source, batch.schema.names, types, delimiter, "\\N", False))
    assert rows_of(found) == rows_of([batch])


@given(st.text("a\t\n\\.N1x0", max_size=30))
def test_any_text_is_read_or_refused(data: str) -> None:
    source = io.BytesIO(data.encode())
    with contextlib.suppress(Error):
        for batch in copy_text.read_text(source, ["a", "b"], [STRING, INT], "\t", "\\N", False):
            assert batch.num_columns == 2


def test_escapes_of_the_text_format() -> None:
    data = b"a\\tb\\\\n\\x41\\101\\q\\N\t1\n\\xc3\\xa4\t2\nx\\\ty\t3\nl\\\nm\t4\r\n\\.\nignored\n"
    (batch,) = copy_text.read_text(io.BytesIO(data), ["a", "b"], [STRING, INT], "\t", "\\N", False)
    assert batch.column(0).to_pylist() == ["a\tb\\nAAqN", "ä", "x\ty", "l\nm"]
    assert batch.column(1).to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("COPY t FROM STDIN", ("t", (), "text", "\t", "\\N", False)),
        ("COPY public.t (a, \"B\") FROM STDIN WITH (FORMAT csv, HEADER, NULL 'x')",
         ("public.t", ("a", '"B"'), "csv", ",", "x", True)),
        ("copy t from stdin with csv header delimiter as ';'", ("t", (), "csv", ";", "", True)),
        ("COPY BINARY t FROM STDIN", ("t", (), "binary", "\t", "\\N", False)),
        ("COPY t FROM STDIN (FORMAT 'text', HEADER false, DELIMITER '|')", ("t", (), "text", "|", "\\N", False)),
    ],
)  # fmt: skip
def test_the_syntax_of_copy(sql: str, expected: tuple[Any, ...]) -> None:
    found = parse_copy(sql)
    assert (found.table, found.columns, found.format, found.delimiter, found.null, found.header) == expected


@pytest.mark.parametrize(
    "sql",
    ["COPY t FROM 'x.csv'", "COPY t FROM STDIN (FORMAT xml)", "COPY t FROM STDIN (DELIMITER 'ab')",
     "COPY t TO PROGRAM 'x'"],
)  # fmt: skip
def test_what_copy_refuses(sql: str) -> None:
    with pytest.raises(Refused):
        parse_copy(sql)
