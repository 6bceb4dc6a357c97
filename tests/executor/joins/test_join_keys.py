"""Codes of join keys against plain Python: all types and forms of vectors, NULLs, and hashes that collide."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.joins import join_keys, known_values
from nyala.executor.joins.join_index import HashSlots
from nyala.executor.joins.join_keys import KeyCoder
from nyala.executor.joins.known_values import KnownValues
from nyala.model.types import BIGINT, BINARY, DOUBLE, STRING, DataType, Kind
from nyala.model.vectors.vector import Const, Dict, Text, Vector, vector_from_arrow

WIDE = DataType(Kind.DECIMAL, 38, 2)
VALUES: dict[str, tuple[DataType, list[Any]]] = {
    "text": (STRING, ["", "a", "b", "é", "a longer text of many bytes", "a longer text of many bytez", None]),
    "binary": (BINARY, [b"", b"\0", b"\0\0", b"\xff", None]),
    "wide": (WIDE, [decimal.Decimal(x) for x in ("0", "1.5", "-1.5", "123456789012345678901234.25")] + [None]),
    "double": (DOUBLE, [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None]),
    "far apart": (BIGINT, [-(2**63), -1, 0, 1, 2**63 - 1, None]),
    "integer": (BIGINT, [3, 4, 9, None]),
}


def vector(type_: DataType, values: Sequence[Any], form: str) -> Vector:
    array = pa.array(values, type_.arrow)
    if not type_.is_text or form == "plain":
        return vector_from_arrow(type_, array)
    if form == "constant" and len(set(values)) == 1:
        value = values[0]
        return Const(type_, value, len(values))
    if form == "large dictionary":
        more = [x for x in VALUES["text" if type_ is STRING else "binary"][1] if x is not None and x not in values]
        entries = pa.concat_arrays([pa.array(more, type_.arrow), array.unique().drop_null()])
    else:
        entries = array.unique().drop_null()
    places = {x: i for i, x in enumerate(entries.to_pylist())}
    codes = np.array([places.get(x, 0) for x in values], np.uint8)
    return Dict(type_, codes, entries, np.array([x is not None for x in values], np.bool_), ordered=False)


def same(first: Any, second: Any) -> bool:
    return first == second or (first != first and second != second)  # NaN equals NaN


FORMS = st.sampled_from(["plain", "dictionary", "large dictionary", "constant"])


@pytest.mark.parametrize("hashes", ["good", "poor", "constant"])
@settings(deadline=None, max_examples=examples(120))
@given(data=st.data())
def test_codes_are_equal_for_equal_keys_alone(hashes: str, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    rows = st.tuples(*(st.sampled_from(VALUES[name][1]) for name in names))
    build = data.draw(st.lists(rows, min_size=1, max_size=12))
    probes = data.draw(st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=3))
    types = [VALUES[name][0] for name in names]

    def vectors(side: list[Any]) -> list[Vector]:
        return [vector(t, [row[i] for row in side], data.draw(FORMS)) for i, t in enumerate(types)]

    with pytest.MonkeyPatch.context() as patch:
        if hashes != "good":
            modulus = 2 if hashes == "poor" else 1
            patch.setattr(known_values, "_hashes", lambda a: np.array([len(str(v)) % modulus for v in a], np.int64))
        if data.draw(st.booleans()):
            patch.setattr(join_keys, "_MOST", 20)  # numbers prefixes and columns anew
        if data.draw(st.booleans()):
            patch.setattr(join_keys, "_WHOLE", 0)  # looks up only the entries that occur
        coder, codes = KeyCoder.learn(vectors(build))
        assert codes.dtype == np.int64 and int(codes.max(initial=-1)) < coder.size
        for probe in probes:
            found = coder.encode(vectors(probe))
            for row, code in zip(probe, found.tolist(), strict=True):
                matches = [
                    None not in row and all(same(a, b) for a, b in zip(row, other, strict=True)) for other in build
                ]
                assert [code == other >= 0 for other in codes.tolist()] == matches


def test_one_table_serves_all_batches_of_a_probe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, hashed = [], []
    learn, hash_values = HashSlots.learn.__func__, known_values._hashes  # type: ignore[attr-defined]

    def counted_learn(cls: type[HashSlots], codes: np.ndarray) -> Any:
        learned.append(len(codes))
        return learn(cls, codes)

    def counted_hashes(values: pa.Array) -> Any:
        hashed.append(len(values))
        return hash_values(values)

    monkeypatch.setattr(HashSlots, "learn", classmethod(counted_learn))
    monkeypatch.setattr(known_values, "_hashes", counted_hashes)
    texts = pa.array([f"id{i}" for i in range(1000)])
    coder, _ = KeyCoder.learn([Text(STRING, texts)])
    for start in range(0, 1000, 100):
        assert coder.encode([Text(STRING, texts.slice(start, 100))]).tolist() == list(range(start, start + 100))
    assert learned == [1000]
    assert sum(hashed) == 2000

    # Of a dictionary, each entry that occurs is looked up once, in however many batches.
    hashed.clear()
    entries = pa.array([f"id{i}" for i in range(0, 5000, 2)])
    for _ in range(3):
        codes = np.array([0, 1, 499, 500, 0], np.uint16)
        assert coder.encode([Dict(STRING, codes, entries)]).tolist() == [0, 2, 998, -1, 0]
    assert hashed == [4]
    assert learned == [1000]


def test_a_dictionary_of_the_build_side_is_hashed_only_for_other_probe_sides() -> None:
    entries = pa.array(["a", "b", "c"])
    codes = np.array([0, 2, 2, 1], np.uint8)
    coder, learned = KeyCoder.learn([Dict(STRING, codes, entries)])
    assert learned.tolist() == [0, 2, 2, 1]
    assert coder.encode([Dict(STRING, codes, entries)]).tolist() == [0, 2, 2, 1]
    assert coder._columns[0]._known is None  # type: ignore[attr-defined]
    assert coder.encode([Text(STRING, pa.array(["c", None, "x"]))]).tolist() == [2, -1, -1]


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(-4, 40), max_size=300), st.lists(st.integers(-6, 50), max_size=100))
def test_repeated_codes_have_one_slot(codes: list[int], probe: list[int]) -> None:
    values = np.array(codes, np.int64)
    slots, rows, numbers = HashSlots.learn(values)
    distinct = values if rows is None else values[rows]
    assert sorted(set(codes)) == sorted(distinct.tolist())
    if numbers is not None:
        assert distinct[numbers].tolist() == codes
    found = slots.find(np.array(probe, np.int64))
    assert [distinct[n] if n >= 0 else None for n in found.tolist()] == [x if x in codes else None for x in probe]


def test_known_values_of_nothing() -> None:
    known, numbers = KnownValues.learn(pa.array([], pa.string()))
    assert len(known) == len(numbers) == 0
    assert known.find(pa.array(["a", None])).tolist() == [-1, -1]
