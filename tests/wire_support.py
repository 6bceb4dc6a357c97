"""Batches of all sorts of vectors, to be sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Interval,
)
from nyala.model.vectors.vector import Batch, Const, Dict, Flat, Narrow, Text, Vector


def validities(draw: st.DrawFn, rows: int) -> Any:
    if draw(st.booleans()):
        return None
    return np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)


@st.composite
def vectors(draw: st.DrawFn, rows: int) -> Vector:
    def numbers(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=rows, max_size=rows))

    validity = validities(draw, rows)
    match draw(st.integers(0, 8)):
        case 0:
            type_ = draw(st.sampled_from([BIGINT, TIMESTAMP, DECIMAL(18, 2)]))
            least, most = (1 - 10**18, 10**18 - 1) if type_.is_decimal else (-(2**63), 2**63 - 1)
            return Flat(type_, np.array(numbers(least, most), np.int64), validity)
        case 1:
            wide = draw(st.integers(2**63, 2**90))
            return Flat(DECIMAL(9, 2), np.array(numbers(-99, 99), np.int64), validity, -wide, wide)
        case 2:
            dtype = draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
            type_ = draw(st.sampled_from([INT, DATE, BOOLEAN]))
            base, top = (0, 1) if type_ is BOOLEAN else (draw(st.integers(-(2**31), 99)), 99)
            return Narrow(type_, np.array(numbers(0, top), dtype), base, validity, draw(st.sampled_from([None, top])))
        case 3:
            entries = draw(st.lists(st.text(max_size=4), min_size=1, max_size=5, unique=True))
            codes = np.array(numbers(0, len(entries) - 1), draw(st.sampled_from([np.uint8, np.uint32])))
            return Dict(STRING, codes, pa.array(entries, pa.string()), validity, draw(st.booleans()))
        case 4:
            value = draw(st.none() | st.integers(-(10**37), 10**37))
            return Const(DECIMAL(38, 1), value, rows)
        case 5:
            constants = [Const(INTERVAL, Interval(1, -2, 3), rows), Const(NULL, None, rows), Const(BINARY, b"\0", rows)]
            return draw(st.sampled_from(constants))
        case 6:
            texts = draw(st.lists(st.none() | st.binary(max_size=5), min_size=rows, max_size=rows))
            return Text(BINARY, pa.array(texts, pa.binary()))
        case 7:
            return Flat(BOOLEAN, np.array(numbers(0, 1), np.bool_), validity)
        case _:
            return Flat(DOUBLE, np.array(numbers(-9, 9), np.float64) / 3, validity)


@st.composite
def row_batches(draw: st.DrawFn) -> Batch:
    rows = draw(st.integers(0, 20))
    return Batch([draw(vectors(rows)) for _ in range(draw(st.integers(0, 4)))], rows)


def same_vector(left: Vector, right: Vector) -> bool:
    if type(left) is not type(right) or left.type != right.type or left.bounds() != right.bounds():
        return False
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value and type(left.value) is type(right.value))
    if isinstance(left, Dict) and isinstance(right, Dict) and left.ordered != right.ordered:
        return False
    return bool(left.to_arrow().equals(right.to_arrow()))
