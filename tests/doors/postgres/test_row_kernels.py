"""The compiled kernels of rows compute what NumPy does, and refuse places outside of their buffers."""

from __future__ import annotations

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
from nyala.model.types import SMALLINT, DataType
from postgres_rows_support import COLUMN_TYPES, read_binary, tables
from postgres_support import replies

pytestmark = pytest.mark.skipif(kernels.compiled is None, reason="the kernels were built without a C compiler")


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
    return [batch.to_pydict() for batch in read_binary(data, names, types)]


@given(tables(), st.data())
def test_messages(table: tuple[list[DataType], pa.RecordBatch], draw: st.DataObject) -> None:
    types, batch = table
    formats = [draw.draw(st.sampled_from([0, 1])) for _ in types]
    compiled, plain = by_both(lambda: encode_rows(batch, types, formats))
    assert compiled == plain


@given(tables(COLUMN_TYPES))
def test_rows_of_any_bytes_come_back(table: tuple[list[DataType], pa.RecordBatch]) -> None:
    types, batch = table
    if not types:
        return
    compiled, plain = by_both(lambda: read(copy_data(types, batch), types))
    assert repr(compiled) == repr(plain)  # NaN is not equal to itself
    assert repr(compiled) == repr([batch.to_pydict()])


@given(tables(COLUMN_TYPES), st.integers(7, 60), st.data())
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
