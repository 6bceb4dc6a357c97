"""Keys: the encoding's order, bulk against one by one, and every answer independent of the vectors' form."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import cases
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import DataError, InvalidText, NotNullViolation
from nyala.model.keys.key_codec import KeyCodec
from nyala.model.keys.keys import Keys, decode_key, encode_key, prefix_end, search_encoded
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.types import BIGINT, BINARY, DATE, DECIMAL, INT, SMALLINT, STRING, TIMESTAMP, TINYINT, DataType
from nyala.model.vectors.vector import Const, Dict, Flat, Narrow, Text, Vector, concat
from nyala.storage.rowsets.memrowset import index_keys

TYPES = (TINYINT, SMALLINT, INT, BIGINT, DATE, TIMESTAMP, DECIMAL(7, 2), DECIMAL(18, 3), DECIMAL(38), STRING, BINARY)
WIDTHS = {TINYINT: 1, SMALLINT: 2, INT: 4, BIGINT: 8, DATE: 4, TIMESTAMP: 8}


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    """Physical values, with many collisions and the extremes."""
    if type_ is STRING:
        return st.text("a\0\x01bé", max_size=20) | st.text(max_size=90)
    if type_ is BINARY:
        return st.lists(st.sampled_from([0, 1, 2, 255]), max_size=12).map(bytes) | st.binary(max_size=80)
    if type_.is_decimal:
        assert type_.precision is not None
        bound = 10**type_.precision - 1
        return st.integers(-2, 2) | st.integers(-bound, bound)
    half = 1 << (8 * WIDTHS[type_] - 1)
    return st.integers(-2, 2) | st.integers(-half, half - 1)


KEY_TYPES = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4).map(tuple)
KEYS = KEY_TYPES.flatmap(
    lambda types: st.tuples(
        st.just(types), st.lists(st.tuples(*(values_of(t) for t in types)), max_size=12).map(lambda r: r + r[:2])
    )
)


def as_bytes(row: Sequence[Any]) -> tuple[Any, ...]:
    """Text compares by its bytes."""
    return tuple(v.encode() if isinstance(v, str) else v for v in row)


@given(KEYS)
def test_bytes_compare_as_values_do(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    for a in rows:
        for b in rows:
            assert (encode_key(types, a) < encode_key(types, b)) == (as_bytes(a) < as_bytes(b))


@given(KEYS)
def test_decode_is_the_inverse_of_encode(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    assert [decode_key(types, encode_key(types, row)) for row in rows] == rows


@given(KEYS)
def test_bulk_encoding_equals_one_by_one(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    keys = Keys.from_values(types, rows)
    expected = [encode_key(types, row) for row in rows]
    assert [keys.encode_one(i) for i in range(len(rows))] == expected
    assert keys.encoded().to_pylist() == expected
    assert [keys.encode_one(i) for i in range(len(rows))] == expected
    matrix, packed = keys.matrix(), keys.packed()
    if not any(t.is_text for t in types):
        assert matrix is not None
        assert [row.tobytes() for row in matrix] == expected
    if packed is not None:
        assert packed.tolist() == [int.from_bytes(e, "big") for e in expected]


@given(KEYS)
def test_order_is_a_stable_sort_of_the_encoded_keys(
    case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]],
) -> None:
    types, rows = case
    encoded = [encode_key(types, row) for row in rows]
    keys = Keys.from_values(types, rows)
    order = sorted(range(len(rows)), key=encoded.__getitem__)
    assert keys.order().tolist() == order
    assert keys.duplicates().tolist() == [i for i, e in enumerate(encoded) if e in encoded[:i]]
    assert keys.descents().tolist() == [i for i in range(1, len(encoded)) if encoded[i] <= encoded[i - 1]]
    assert keys.is_strictly_ascending() == all(a < b for a, b in itertools.pairwise(encoded))
    ordered = keys.take(keys.order())
    assert ordered.order().tolist() == list(range(len(rows)))
    assert ordered.is_strictly_ascending() == (len(set(encoded)) == len(encoded))


@given(KEYS)
def test_a_prefix_encodes_as_a_prefix(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    for row in rows:
        for length in range(len(types)):
            prefix, whole = encode_key(types, row[:length]), encode_key(types, row)
            end = prefix_end(prefix)
            assert whole.startswith(prefix)
            assert end is None or whole < end


@given(KEYS)
def test_one_key_is_as_the_same_among_many(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    keys, codec = Keys.from_values(types, rows), KeyCodec(types)
    assert [codec.encode(row) for row in rows] == keys.encoded().to_pylist()
    assert [codec.hash(row) for row in rows] == keys.hashes().tolist()
    found = [codec.index_key(row) for row in rows]
    assert found == index_keys(keys)
    assert [codec.encoded_of(key) for key in found] == keys.encoded().to_pylist()


def forms(type_: DataType, values: list[Any]) -> list[Vector]:
    """The same values in every form that can hold them."""
    found: list[Vector] = [Keys.from_values((type_,), [(v,) for v in values]).columns[0]]
    if type_.is_text:
        entries = list(dict.fromkeys(values))
        ordered = sorted(entries, key=lambda v: as_bytes((v,)))
        for dictionary, is_ordered in ((entries, False), (ordered, True)):
            codes = np.array([dictionary.index(v) for v in values], np.uint16)
            found.append(Dict(type_, codes, pa.array(dictionary, type_.arrow), ordered=is_ordered))
        padded = pa.array(["x", *values] if type_ is STRING else [b"x", *values], type_.arrow)
        found.append(Text(type_, padded.slice(1)))
    elif type_ != DECIMAL(38):
        found.append(Flat(type_, np.array(values, np.int64)))
        low = min(values, default=0)
        codes = np.array([v - low for v in values], np.uint64)
        found.append(Narrow(type_, codes, low))
        if max(values, default=0) - low < 256:
            found.append(Narrow(type_, codes.astype(np.uint8), low))
    if values and len(set(values)) == 1:
        found.append(Const(type_, values[0], len(values)))
    return found


@given(st.sampled_from(TYPES).flatmap(lambda t: st.tuples(st.just(t), st.lists(values_of(t), max_size=8))))
def test_nothing_depends_on_the_form_of_the_vectors(case: tuple[DataType, list[Any]]) -> None:
    type_, values = case
    first, *others = (Keys((type_, INT), (v, Const(INT, 7, len(values)))) for v in forms(type_, values))
    for other in others:
        assert other.encoded().equals(first.encoded())
        assert other.hashes().tolist() == first.hashes().tolist()
        assert other.order().tolist() == first.order().tolist()
        assert other.duplicates().tolist() == first.duplicates().tolist()
        assert other.is_strictly_ascending() == first.is_strictly_ascending()
        assert [other.encode_one(i) for i in range(len(values))] == [first.encode_one(i) for i in range(len(values))]


@given(KEYS)
def test_equal_keys_hash_equal_and_others_do_not(case: tuple[tuple[DataType, ...], list[tuple[Any, ...]]]) -> None:
    types, rows = case
    keys = Keys.from_values(types, rows)
    assert len(set(keys.hashes().tolist())) == len({as_bytes(row) for row in rows})
    back = np.arange(len(rows))[::-1]
    assert keys.take(back).hashes().tolist() == Keys.from_values(types, rows[::-1]).hashes().tolist()


def test_hashes_never_change() -> None:
    """Stored Bloom filters depend on these numbers."""
    types = (INT, DECIMAL(38), STRING)
    keys = Keys.from_values(types, [(1, 2, "a"), (-1, -(10**30), "longer than eight bytes")])
    assert [f"{h:016x}" for h in keys.hashes().tolist()] == PINNED


PINNED = ["f11730521ded27bf", "bbb100877aebd604"]


@pytest.mark.parametrize("seed", range(cases(4)))
@pytest.mark.parametrize("spread", [4, 2**20, 2**62])
def test_order_of_many_rows_with_many_ties(seed: int, spread: int) -> None:
    """Enough rows that key bits and row numbers do not fit one word, so that several passes are needed."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(-spread, spread, 5_000) for _ in range(3)]
    columns[0] //= spread  # few distinct values lead
    keys = Keys((BIGINT,) * 3, tuple(Flat(BIGINT, c) for c in columns))
    assert keys.order().tolist() == np.lexsort(columns[::-1]).tolist()


def test_order_of_texts_of_many_words() -> None:
    rng = np.random.default_rng(1)
    texts = [f"Customer#{i:09d}" + "~" * int(i % 3) for i in rng.integers(0, 3_000, 5_000)]
    keys = Keys((STRING,), (Text(STRING, pa.array(texts)),))
    assert keys.order().tolist() == sorted(range(5_000), key=texts.__getitem__)


def test_rows_of_another_arrow_type_are_cast() -> None:
    schema = Schema((ColumnSchema("d", DATE, False), ColumnSchema("k", BIGINT, False), ColumnSchema("v", INT)), 2)
    rows = pa.table({"k": pa.array([5], pa.uint8()), "d": [datetime.datetime(1970, 1, 3)], "v": [None]})
    assert Keys.from_rows(schema, rows).values_at(0) == (2, 5)
    assert Keys.from_rows(schema, rows, ["k"]).types == (BIGINT,)


def test_a_chunked_table_is_read_whole() -> None:
    schema = Schema((ColumnSchema("k", STRING, False),), 1)
    rows = pa.concat_tables([pa.table({"k": ["b", "a"]}), pa.table({"k": ["c"]})])
    assert Keys.from_rows(schema, rows).encoded().to_pylist() == [b"b", b"a", b"c"]
    assert len(Keys.from_rows(schema, rows.slice(0, 0))) == 0


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (pa.array([1, None, None]), NotNullViolation, "key column k is NULL in row 2 of the batch"),
        (pa.array([1, 2**40]), InvalidText, "key column k: int64 does not become INT"),
        (pa.array([[1]]), InvalidText, r"list<item: int64> does not become INT"),
    ],
)
def test_bad_key_columns_are_named(column: pa.Array, error: type[Exception], message: str) -> None:
    schema = Schema((ColumnSchema("k", INT, False),), 1)
    with pytest.raises(error, match=message):
        Keys.from_rows(schema, pa.table({"k": column}))


def test_a_missing_key_column_is_named() -> None:
    schema = Schema((ColumnSchema("k", INT, False),), 1)
    with pytest.raises(NotNullViolation, match="key column k is missing"):
        Keys.from_rows(schema, pa.table({"v": [1]}))


@pytest.mark.parametrize("data", [b"", b"\x80\0\0", b"\x80\0\0\1", b"\x80\0\0\1ab", b"\x80\0\0\1ab\0\0\x80"])
def test_bytes_that_are_no_key_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"not an encoded key of \(INT, STRING, SMALLINT\)"):
        decode_key((INT, STRING, SMALLINT), data)


def test_a_value_beyond_its_column_is_refused() -> None:
    with pytest.raises(DataError, match="300 does not fit a key column of type TINYINT"):
        encode_key((TINYINT,), (300,))


@given(st.lists(st.binary(max_size=3)), st.lists(st.binary(max_size=3)), st.booleans())
def test_search_is_bisection(ascending: list[bytes], probes: list[bytes], right: bool) -> None:
    import bisect

    ascending.sort()
    find = bisect.bisect_right if right else bisect.bisect_left
    found = search_encoded(pa.array(ascending, pa.binary()), pa.array(probes, pa.binary()), right)
    assert found.tolist() == [find(ascending, p) for p in probes]


def test_keys_of_joined_batches_are_the_batches_keys() -> None:
    parts = [Dict(STRING, np.array([1, 0], np.uint8), pa.array(e), ordered=True) for e in (["a", "b"], ["b", "c"])]
    joined = Keys((STRING,), (concat(parts),))
    assert joined.encoded().to_pylist() == [b"b", b"a", b"c", b"b"]
    assert joined.duplicates().tolist() == [3]
