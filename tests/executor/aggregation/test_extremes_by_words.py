"""min and max of texts and of wide decimals: by words, the same as Python's, in every form of vector."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import cases
from nyala.executor.aggregation.accumulators import Extreme, ordered_dictionary
from nyala.executor.kernels.groups.segments import Segments
from nyala.model.types import BINARY, STRING, DataType, Kind
from nyala.model.vectors.vector import Dict, Flat, Text, Vector, Wide

WIDE = DataType(Kind.DECIMAL, 38, 0)
TEXTS = ["", "a", "a\0", "é", "https://example.com/a", "https://example.com/b", "y" * 40, "y" * 40 + "\0", "\U0001f600"]
NUMBERS = [0, 1, -1, 2**64, 2**64 - 1, -(2**64), 10**38 - 1, 1 - 10**38, 2**63, -(2**63)]


def _vector(type_: DataType, values: list[Any], form: str) -> Vector:
    if type_ is WIDE and form == "objects":
        mask = np.array([v is not None for v in values])
        return Flat(type_, np.array([0 if v is None else v for v in values], object), None if mask.all() else mask)
    if type_ is WIDE:
        return Wide(type_, pa.array([None if v is None else Decimal(v) for v in values], type_.arrow))
    array = pa.array(values, type_.arrow)
    if form == "text":
        return Text(type_, array)
    entries = [v for v in dict.fromkeys(values) if v is not None]
    random.Random(1).shuffle(entries)
    entries += [type(v)() + v * 3 for v in entries if v * 3 not in entries] if form == "large" else []
    if form == "ordered":
        entries.sort(key=lambda v: v.encode() if isinstance(v, str) else v)
    codes = np.array([0 if v is None else entries.index(v) for v in values], np.uint8)
    mask = np.array([v is not None for v in values])
    return Dict(type_, codes, pa.array(entries, type_.arrow), None if mask.all() else mask, ordered=form == "ordered")


@pytest.mark.parametrize("seed", range(cases(40)))
def test_extremes_are_those_of_python(seed: int) -> None:
    rng = random.Random(seed)
    type_ = rng.choice([STRING, BINARY, WIDE])
    form = rng.choice(["wide", "objects"] if type_ is WIDE else ["text", "ordered", "unordered", "large"])
    pool: list[Any] = NUMBERS if type_ is WIDE else TEXTS if type_ is STRING else [t.encode() for t in TEXTS]
    sizes = [rng.randint(1, 9) for _ in range(rng.choice([1, 1, 6]))]
    nulls = rng.choice([0, 0.3, 0.9])
    values = [None if rng.random() < nulls else rng.choice(pool) for _ in range(sum(sizes))]
    starts = np.cumsum([0, *sizes[:-1]])
    for is_greatest in (False, True):
        accumulator = Extreme(is_greatest)
        groups = Segments(None, starts, len(values))
        state = accumulator.partial([_vector(type_, values, form)], groups)
        parts = [[v for v in part if v is not None] for part in np.split(np.array(values, object), starts[1:])]

        def key(value: Any) -> Any:
            return value.encode() if isinstance(value, str) else value

        expected = [(max if is_greatest else min)(part, key=key) if part else None for part in parts]
        found = state.to_arrow().to_pylist()
        assert [None if v is None else int(v) if type_ is WIDE else v for v in found] == expected, (form, values)
        # States of two batches merge to the same.
        order = np.argsort(np.tile(np.arange(len(sizes)), 2), kind="stable")
        twice = accumulator.merge([state, state], Segments(order, np.arange(len(sizes)) * 2, 2 * len(sizes)))
        assert twice.to_arrow().to_pylist() == found


def test_a_dictionary_is_sorted_once_for_all_batches() -> None:
    vector = _vector(STRING, ["b", "a", "c"], "unordered")
    assert isinstance(vector, Dict)
    first, second = ordered_dictionary(vector), ordered_dictionary(vector.slice(1, 3))
    assert first.dictionary is second.dictionary
    assert first.to_arrow().to_pylist() == ["b", "a", "c"]
