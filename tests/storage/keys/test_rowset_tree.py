"""The rowset tree against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.keys.keys import Keys, encode_key
from nyala.model.types import BIGINT, STRING, DataType
from nyala.storage.keys.rowset_tree import RowSetTree

KEY = st.binary(max_size=2)
# More than are looked through one by one.
SPANS = st.lists(st.tuples(KEY, KEY).map(lambda pair: (min(pair), max(pair))), max_size=40)


def tree_of(spans: list[tuple[bytes, bytes]]) -> RowSetTree[int]:
    return RowSetTree([(low, high, i) for i, (low, high) in enumerate(spans)])


@given(SPANS, KEY)
def test_containing_finds_every_span_of_a_key(spans: list[tuple[bytes, bytes]], key: bytes) -> None:
    expected = {i for i, (low, high) in enumerate(spans) if low <= key <= high}
    found = tree_of(spans).containing(key)
    assert set(found) == expected
    assert [spans[i][0] for i in found] == sorted(spans[i][0] for i in found)


@given(SPANS, KEY, KEY)
def test_overlapping_is_half_open(spans: list[tuple[bytes, bytes]], lower: bytes, upper: bytes) -> None:
    expected = {i for i, (low, high) in enumerate(spans) if high >= lower and (not upper or low < upper)}
    assert set(tree_of(spans).overlapping(lower, upper)) == expected


def check_candidates(type_: DataType, spans: list[tuple[object, object]], probes: list[object]) -> None:
    entries = [(encode_key((type_,), (a,)), encode_key((type_,), (b,)), i) for i, (a, b) in enumerate(spans)]
    keys = Keys.from_values((type_,), [(p,) for p in probes])
    found = {i: rows.tolist() for i, rows in RowSetTree(entries).candidates(keys)}
    expected = {}
    for low, high, i in entries:
        rows = [r for r in keys.order().tolist() if low <= keys.encode_one(r) <= high]
        if rows:
            expected[i] = rows
    assert found == expected


INTEGERS = st.integers(-20, 20)
TEXTS = st.text("ab\0", max_size=3)


@given(st.lists(st.tuples(INTEGERS, INTEGERS).map(sorted), max_size=40), st.lists(INTEGERS, max_size=6))
def test_candidates_of_integer_keys(spans: list[tuple[object, object]], probes: list[object]) -> None:
    check_candidates(BIGINT, spans, probes)


@given(st.lists(st.tuples(TEXTS, TEXTS).map(sorted), max_size=40), st.lists(TEXTS, max_size=6))
def test_candidates_of_text_keys(spans: list[tuple[object, object]], probes: list[object]) -> None:
    check_candidates(STRING, spans, probes)


def test_one_key_among_thousands_of_rowsets_and_many_keys_among_few() -> None:
    spans = [(i * 10, i * 10 + 14) for i in range(5_000)]
    entries = [(encode_key((BIGINT,), (a,)), encode_key((BIGINT,), (b,)), i) for i, (a, b) in enumerate(spans)]
    one = Keys.from_values((BIGINT,), [(31_013,)])
    assert [i for i, _ in RowSetTree(entries).candidates(one)] == [3_100, 3_101]
    many = Keys.from_values((BIGINT,), [(i,) for i in range(50_000)])
    rows = dict(RowSetTree(entries[:3]).candidates(many))
    assert {i: (int(r[0]), int(r[-1]), len(r)) for i, r in rows.items()} == {
        0: (0, 14, 15),
        1: (10, 24, 15),
        2: (20, 34, 15),
    }
    assert all(np.all(np.diff(r) == 1) for r in rows.values())
