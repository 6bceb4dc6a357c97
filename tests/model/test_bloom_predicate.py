"""Bloom filters as predicates: no false negatives, few false positives, one answer whatever holds the value."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import arrow_array, make_schema, make_table, write
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.bloom_predicate import bloom_predicate, may_contain, may_contain_value
from nyala.model.predicates import Range, prefix_range
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, FLOAT, INT, STRING, DataType
from nyala.model.vectors.vector import Dict, Flat, Narrow, Vector, vector_from_arrow
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.predicate_eval.code_conditions import ALL, NONE, Hashed
from nyala.storage.predicate_eval.evaluation import evaluate

VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DATE: st.integers(-1000, 1000),
    BOOLEAN: st.booleans(),
    DECIMAL(12, 2): st.integers(-(10**12) + 1, 10**12 - 1),
    DECIMAL(38, 3): st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-3, 3),
    FLOAT: st.floats(width=32) | st.sampled_from([0.0, -0.0]),
    DOUBLE: st.floats() | st.sampled_from([0.0, -0.0]),
    STRING: st.text(max_size=300),
    BINARY: st.binary(max_size=20),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_what_was_put_in_passes_in_every_form(type_: DataType, data: Any) -> None:
    column = data.draw(st.lists(VALUES[type_] | st.none(), max_size=30))
    array = arrow_array(type_, column)
    vector = vector_from_arrow(type_, array)
    predicate = bloom_predicate("c", vector)
    assert (predicate.words == bloom_predicate("c", array).words).all()
    expected = [value is not None for value in column]
    for form in forms(type_, vector, array):
        assert may_contain(predicate.words, form).tolist() == expected
        if isinstance(form, Vector):
            assert evaluate(predicate, form).tolist() == expected
    strangers = data.draw(st.lists(VALUES[type_], max_size=20))
    found = may_contain(predicate.words, vector_from_arrow(type_, arrow_array(type_, strangers))).tolist()
    assert found == [may_contain_value(predicate.words, value, type_) for value in strangers]


def forms(type_: DataType, vector: Vector, array: pa.Array) -> list[Any]:
    found: list[Any] = [vector, array]
    if type_.is_text:
        encoded = array.dictionary_encode()
        codes = encoded.indices.fill_null(0).to_numpy()
        found.append(Dict(type_, codes, encoded.dictionary, vector.validity, ordered=False))
    elif isinstance(vector, Flat) and not type_.is_float and len(vector):
        values = [int(v) for v in vector.values()]
        codes = np.array([v - min(values) for v in values], np.uint64)
        found.append(Narrow(type_, codes, min(values), vector.validity))
    return found


def test_join_partners_of_other_widths_hash_alike() -> None:
    words = bloom_predicate("c", pa.array([1, -7, 300], pa.int64()), 0.001).words
    for other in (pa.int16(), pa.int32(), pa.decimal128(38, 0), pa.decimal128(19, 0)):
        values = pa.array([1, -7, 300]).cast(other)
        assert may_contain(words, values).all()
    singles = bloom_predicate("c", pa.array([0.5, float("nan"), -0.0], pa.float32())).words
    assert may_contain(singles, pa.array([0.5, -float("nan"), 0.0], pa.float64())).all()


@pytest.mark.parametrize("rate", [0.3, 0.05, 0.01, 0.0005])
@pytest.mark.parametrize("count", [1, 700, 100_000])
def test_few_strangers_pass(rate: float, count: int) -> None:
    words = bloom_predicate("c", pa.array(np.arange(count) * 7), rate).words
    assert words.nbytes & (words.nbytes - 1) == 0
    strangers = pa.array(np.arange(200_000) * 7 + 3)
    assert may_contain(words, strangers).mean() <= rate * 1.2 + 0.0001


def test_nothing_passes_an_empty_filter() -> None:
    words = bloom_predicate("c", pa.array([], pa.int64())).words
    assert not may_contain(words, pa.array([0, 1, 2])).any()
    with pytest.raises(ValueError, match="false_positive_rate"):
        bloom_predicate("c", pa.array([1]), 0)


def test_verdict_of_a_page_with_one_value() -> None:
    condition = Hashed(bloom_predicate("c", pa.array([5])).words)
    found = condition.verdicts(np.array([5, 6, 5]), np.array([5, 6, 9]))
    assert found[0] == ALL and found[1] == NONE and found[2] not in (ALL, NONE)


# ---- in a scan ---------------------------------------------------------------------------------------------------

ROWS = 3 * ROW_GROUP_ROWS


def scan(keys: range, rate: float = 0.01) -> tuple[int, ScanCounters]:
    schema = make_schema(("k", BIGINT), ("n", BIGINT, False), ("s", STRING, False))
    numbers = [i * 7919 % ROWS for i in range(ROWS)]
    table = make_table(schema, {"k": list(range(ROWS)), "n": numbers, "s": [f"x{n % 5000}" for n in numbers]})
    (rowset,) = write(MemoryFileSystem(), schema, table)
    counters = ScanCounters()
    predicate = bloom_predicate("n", pa.array(keys), rate)
    found = 0
    for batch in rowset.scan([schema.column("k")], (predicate,), 0, ROWS, counters):
        kept = set(batch.column(0).values().tolist())
        found += len({k for k in kept if numbers[k] in keys})
    return found, counters


def test_a_scan_drops_what_does_not_pass() -> None:
    found, counters = scan(range(1000))
    assert found == 1000
    assert counters.rows_returned < 1000 + 0.02 * ROWS


def test_a_filter_that_drops_nothing_is_not_asked_again() -> None:
    found, counters = scan(range(ROWS))
    assert found == ROWS
    assert counters.pages_read == 1 + 3  # one page of the filter's column, then those of the projection


# ---- prefixes ----------------------------------------------------------------------------------------------------


@given(st.text(max_size=3) | st.sampled_from(["\ud7ff", "a\U0010ffff", "\U0010ffff"]), st.lists(st.text(max_size=5)))
def test_a_prefix_range_holds_just_what_starts_with_it(prefix: str, texts: list[str]) -> None:
    column = [*texts, *(prefix + text for text in texts)]
    wanted = prefix_range("c", prefix)
    assert evaluate(wanted, vector_from_arrow(STRING, pa.array(column, pa.string()))).tolist() == [
        text.startswith(prefix) for text in column
    ]


@given(st.binary(max_size=3) | st.sampled_from([b"\xff", b"\x00\xff\xff"]), st.lists(st.binary(max_size=5)))
def test_a_prefix_range_of_bytes(prefix: bytes, texts: list[bytes]) -> None:
    column = [*texts, *(prefix + text for text in texts)]
    found = evaluate(prefix_range("c", prefix), vector_from_arrow(BINARY, pa.array(column, pa.binary())))
    assert found.tolist() == [text.startswith(prefix) for text in column]


def test_the_empty_prefix_is_open_above() -> None:
    assert prefix_range("c", "") == Range("c", "", None)


def test_decimals_hash_by_their_unscaled_value() -> None:
    wide = pa.array([decimal.Decimal("1.250"), decimal.Decimal(10) ** 30], pa.decimal128(38, 3))
    words = bloom_predicate("c", wide).words
    assert may_contain_value(words, 1250, DECIMAL(12, 3))
    assert may_contain_value(words, 10**33, DECIMAL(38, 3))
