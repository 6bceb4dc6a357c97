"""The compiled kernels of rows compute what NumPy does, and refuse places outside of their buffers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.postgres.values import copy_binary, kernels
from nyala.doors.postgres.values.copy_rows import RowFinder, Stop
from nyala.doors.postgres.values.rows import COPY_DATA, encode_rows
from nyala.errors import DataError
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
from postgres_support import replies

pytestmark = pytest.mark.skipif(kernels.compiled is None, reason="the kernels were built without a C compiler")

DECIMALS = [
    DECIMAL(1, 0),
    DECIMAL(9, 2),
    DECIMAL(15, 3),
    DECIMAL(18, 18),
    DECIMAL(38, 0),
    DECIMAL(38, 5),
    DECIMAL(38, 38),
]
FIXED = [BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, TIMESTAMP, INTERVAL]
TYPES = [*FIXED, *DECIMALS, STRING, BINARY]


def columns(type_: DataType, rows: int) -> st.SearchStrategy[pa.Array]:
    """Columns of all bytes that a type may have: NaN, infinity and the greatest values are among them."""
    width = {Kind.DECIMAL: 16, Kind.INTERVAL: 16, Kind.BOOLEAN: 1}.get(type_.kind, 0) or (
        0 if type_.is_text else np.dtype(type_.dtype).itemsize
    )
    if type_.is_decimal:
        most = 10**type_.precision - 1
        unscaled = (
            st.integers(-most, most) | st.integers(-12, 12) | st.sampled_from([10**n for n in range(type_.precision)])
        )
        data = st.lists(unscaled, min_size=rows, max_size=rows).map(
            lambda values: b"".join(value.to_bytes(16, "little", signed=True) for value in values)
        )
    elif type_.kind is Kind.INTERVAL:
        part = st.tuples(st.integers(-99, 99), st.integers(-99, 99), st.integers(-(10**15), 10**15))
        data = st.lists(part, min_size=rows, max_size=rows).map(
            lambda values: b"".join(np.array([(m, d, 1000 * u)], "<i4,<i4,<i8").tobytes() for m, d, u in values)
        )
    elif type_.is_text:
        texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
        values = st.none() | (st.binary(max_size=9) if type_.kind is Kind.BINARY else texts)
        return st.lists(values, min_size=rows, max_size=rows).map(lambda found: pa.array(found, type_.arrow))
    elif type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        number = st.integers(-700_000, 2_900_000) | st.just(0)
        scale = 1 if type_.kind is Kind.DATE else 86_399_999_999
        dtype = np.int32 if scale == 1 else np.int64
        data = st.lists(number, min_size=rows, max_size=rows).map(
            lambda values: (np.array(values, np.int64) * scale).astype(dtype).tobytes()
        )
    else:
        size = -(-rows // 8) if type_.kind is Kind.BOOLEAN else rows * width
        data = st.binary(min_size=size, max_size=size)
    return st.tuples(data, st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows)).map(
        lambda pair: pa.Array.from_buffers(
            type_.arrow, rows, [None if pair[1] is None else bits(pair[1]), pa.py_buffer(pair[0])]
        )
    )


def bits(flags: list[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(flags, np.bool_), bitorder="little"))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[DataType], pa.RecordBatch]:
    types = draw(st.lists(st.sampled_from(TYPES), max_size=6))
    rows = draw(st.integers(1, 7))
    arrays = [draw(columns(type_, rows)) for type_ in types]
    first = draw(st.integers(0, rows - 1))
    if not arrays:
        schema = pa.schema([])
        return types, pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct(list(schema))))
    return types, pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(types))]).slice(first)


def by_both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """The results of work with and without the kernels; the text of its error, if it is refused."""

    def outcome() -> Any:
        try:
            return work()
        except DataError as error:
            return f"{type(error).__name__}: {error}"

    found = outcome()
    with mock.patch.object(kernels, "compiled", None):
        return found, outcome()


def copy_data(types: list[DataType], batch: pa.RecordBatch) -> bytes:
    messages = encode_rows(batch, types, [1] * len(types), COPY_DATA)
    return copy_binary.HEADER + b"".join(body for _, body in replies(messages)) + copy_binary.TRAILER


def read(data: bytes, types: list[DataType]) -> list[Any]:
    names = [f"c{i}" for i in range(len(types))]
    return [batch.to_pydict() for batch in copy_binary.read_binary(io.BytesIO(data), names, types)]


@given(tables(), st.data())
def test_messages(table: tuple[list[DataType], pa.RecordBatch], draw: st.DataObject) -> None:
    types, batch = table
    formats = [draw.draw(st.sampled_from([0, 1])) for _ in types]
    compiled, plain = by_both(lambda: encode_rows(batch, types, formats))
    assert compiled == plain


@given(tables())
def test_rows_of_any_bytes_come_back(table: tuple[list[DataType], pa.RecordBatch]) -> None:
    types, batch = table
    if not types:
        return
    compiled, plain = by_both(lambda: read(copy_data(types, batch), types))
    assert repr(compiled) == repr(plain)  # NaN is not equal to itself
    assert repr(compiled) == repr([batch.to_pydict()])


@given(tables(), st.integers(7, 60), st.data())
def test_damaged_data_is_refused_in_the_same_words(
    table: tuple[list[DataType], pa.RecordBatch], block: int, draw: st.DataObject
) -> None:
    types, batch = table
    if not types:
        return
    data = bytearray(copy_data(types, batch))
    for _ in range(draw.draw(st.integers(1, 2))):
        data[draw.draw(st.integers(len(copy_binary.HEADER), len(data) - 1))] = draw.draw(
            st.sampled_from([0, 1, 4, 127, 255])
        )
    cut = draw.draw(st.integers(len(copy_binary.HEADER), len(data)))
    with mock.patch.object(copy_binary, "BLOCK_BYTES", block):
        compiled, plain = by_both(lambda: read(bytes(data[:cut]), types))
    if isinstance(compiled, str):
        assert compiled == plain
    else:
        assert repr(merged(compiled)) == repr(merged(plain))


def merged(batches: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for batch in batches:
        for name, values in batch.items():
            found.setdefault(name, []).extend(values)
    return found


@given(st.binary(max_size=40), st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3))
def test_rows_are_found_in_any_bytes(data: bytes, widths: list[int]) -> None:
    def find() -> Any:
        found = RowFinder(widths).find(memoryview(data), 0)
        return found.starts.tolist(), found.lengths.tolist(), found.end, found.stop

    compiled, plain = by_both(find)
    assert compiled == plain


def test_more_rows_than_the_kernel_has_room_for() -> None:
    row = b"\0\1\0\0\0\2\0\7"
    with mock.patch("nyala.doors.postgres.values.copy_rows._ROOM", 3):
        finder = RowFinder([2])
        data = memoryview(row * 4 + copy_binary.TRAILER)
        found = finder.find(data, 0)
        assert (found.rows, found.end, found.stop) == (3, 24, Stop.FULL)
        found = finder.find(data, found.end)
        assert (found.rows, found.starts[0, 0], found.stop) == (1, 30, Stop.TRAILER)
        assert read(copy_binary.HEADER + bytes(data), [SMALLINT]) == [{"c0": [7, 7, 7]}, {"c0": [7]}]


def test_places_outside_of_a_block_are_refused() -> None:
    places, lengths, values = np.array([2], np.int32), np.array([4], np.int32), np.zeros(1, np.int32)
    for start in (-1, 3):
        with pytest.raises(ValueError, match="not within the block"):
            kernels.compiled.read_numbers(b"12345", places * 0 + start, lengths, values)
    with pytest.raises(ValueError, match="values"):
        kernels.compiled.read_numbers(b"123456", places, lengths, values[:0])
    with pytest.raises(ValueError, match="data"):
        kernels.compiled.read_texts(b"123456", places, lengths, np.zeros(2, np.int32), np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="words"):
        kernels.compiled.read_numerics(b"123456", places, lengths, 9, 2, np.zeros(15, np.uint8))
    with pytest.raises(ValueError, match="precision"):
        kernels.compiled.read_numerics(b"123456", places, lengths, 39, 2, np.zeros(16, np.uint8))
    with pytest.raises(ValueError, match="offsets"):
        kernels.compiled.join_fields(68, 1, ((b"abc", 0, np.array([0, 4], np.int32), None),))
    with pytest.raises(ValueError, match="data"):
        kernels.compiled.join_fields(68, 2, ((b"abc", 2, None, None),))
    with pytest.raises(ValueError, match="data"):
        kernels.compiled.write_numerics(bytes(16), 0, None, np.zeros(1, np.int32), np.zeros(31, np.uint8))
    with pytest.raises(ValueError, match="lengths"):
        kernels.compiled.find_rows(b"", 0, places, np.zeros(2, np.int32), np.zeros(1, np.int32))
