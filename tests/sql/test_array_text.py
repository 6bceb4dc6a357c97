"""Arrays as texts: what is written is read again, as PostgreSQL writes it."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import InvalidText
from nyala.sql.array_text import parse_array, write_array

ELEMENTS = st.one_of(st.none(), st.sampled_from(["", "NULL", "null", "a b", 'a"b', "a\\b", "{", "}", ","]), st.text())


@settings(max_examples=examples(300))
@given(st.lists(ELEMENTS))
def test_what_is_written_is_read_again(values: list[str | None]) -> None:
    assert parse_array(write_array(values)) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{}", []),
        (" { 1 , 2 } ", ["1", "2"]),
        ("{a b,c}", ["a b", "c"]),
        ("{null,NULL}", [None, None]),
        ("1 2", ["1", "2"]),
        ("", []),
    ],
)
def test_texts_of_postgresql(text: str, values: list[str | None]) -> None:
    assert parse_array(text) == values


@pytest.mark.parametrize("text", ["{", "{a", "{a}}", "{{1},{2}}", "{a,,b}", "{,}", "a,b", '{"a}', "{a}b"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidText):
        parse_array(text)
