"""Batches of all types of columns, with any bytes that their values may have, for tests of doors/postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from nyala.doors.postgres.values import copy_binary
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
COLUMN_TYPES = [type_ for type_ in TYPES if type_ is not INTERVAL]
"""Those that a table may have."""


def columns(type_: DataType, rows: int) -> st.SearchStrategy[pa.Array]:
    """Columns of all bytes that a type may have: NaN, infinity and the greatest values are among them."""
    width = {Kind.DECIMAL: 16, Kind.INTERVAL: 16, Kind.BOOLEAN: 1}.get(type_.kind, 0) or (
        0 if type_.is_text else np.dtype(type_.dtype).itemsize
    )
    if type_.is_decimal:
        most = 10**type_.precision - 1
        powers = [10**n for n in range(type_.precision)]
        few = st.integers(-min(most, 12), min(most, 12))
        unscaled = st.integers(-most, most) | few | st.sampled_from(powers)
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
def tables(draw: st.DrawFn, types: Sequence[DataType] = TYPES) -> tuple[list[DataType], pa.RecordBatch]:
    chosen = draw(st.lists(st.sampled_from(types), max_size=6))
    rows = draw(st.integers(1, 7))
    arrays = [draw(columns(type_, rows)) for type_ in chosen]
    first = draw(st.integers(0, rows - 1))
    if not arrays:
        schema = pa.schema([])
        return chosen, pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct(list(schema))))
    return chosen, pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(chosen))]).slice(first)


def read_binary(data: bytes, names: Sequence[str], types: Sequence[DataType]) -> Iterator[pa.RecordBatch]:
    """The rows of data of COPY in the binary format, as `copy_binary.BinaryRows` yields them from pieces."""
    rows = copy_binary.BinaryRows(names, types)
    for place in range(0, len(data), copy_binary.BLOCK_BYTES):
        yield from rows.feed(data[place : place + copy_binary.BLOCK_BYTES])
    yield from rows.finish()
