"""The checker itself: it must find what is wrong, and forgive what the specification forgives."""

import decimal

import pyarrow as pa
import pytest
from nyala.errors import InterfaceError
from nyala.tpch import check
from nyala.tpch.queries import QUERIES, Query, select

D = decimal.Decimal


def table(*rows):
    return pa.table({f"c{i}": list(column) for i, column in enumerate(zip(*rows))})


def test_every_answer_file_has_rows_of_one_width():
    for query in QUERIES:
        rows = check.read_answer(query.answer)
        assert rows
        assert len({len(row) for row in rows}) == 1, query.number
        assert query.limit is None or len(rows) <= query.limit


def test_an_answer_equals_itself():
    """Numbers read back as decimals, the rest as text: the answer set is right by its own standard."""
    for query in QUERIES:
        rows = [tuple(number(cell) for cell in row) for row in check.read_answer(query.answer)]
        difference = check._difference(query, rows, rows, check.same_value)
        assert difference is None


def number(text):
    try:
        return D(text) if "." in text else int(text)
    except (ValueError, decimal.InvalidOperation):
        return text


def test_official_finds_a_cent_and_a_count():
    right = check.read_answer(QUERIES[0].answer)
    rows = [tuple(number(cell) for cell in row) for row in right]
    assert check.official(QUERIES[0], table(*rows)) is None
    assert check.official(QUERIES[0], table(*rows[:-1])).text == "3 rows instead of 4"
    cent = [list(row) for row in rows]
    cent[2][3] += D("0.01")
    assert "row 3, column 4" in check.official(QUERIES[0], table(*cent)).text
    count = [list(row) for row in rows]
    count[0][9] += 1
    assert "column 10: 1478494 instead of 1478493" in check.official(QUERIES[0], table(*count)).text


def test_q17_may_differ_as_the_answer_set_is_known_to():
    q17 = QUERIES[16]
    assert check.official(q17, table((D("348406.05"),))) is None
    assert check.official(q17, table((348406.0542857143,))) is None
    assert check.official(q17, table((D("348406.06"),))) is not None


def test_ties_may_come_in_any_order():
    query = Query(99, order=(1,))
    ours, theirs = table((2, 5), (1, 5), (3, 6)), table((1, 5), (2, 5), (3, 6))
    assert check.compare(query, ours, theirs) is None
    assert check.compare(Query(99, order=(1, 0)), ours, theirs).text == "row 1, column 1: 2 instead of 1"
    assert "no row equals (2, 5)" in check.compare(query, table((1, 5), (1, 5), (3, 6)), theirs).text


def test_rows_tied_at_the_limit_are_free():
    query = Query(99, order=(1,), limit=2)
    assert check.compare(query, table((1, 5), (7, 6)), table((1, 5), (8, 6))) is None
    assert check.compare(query, table((2, 5), (8, 6)), table((1, 5), (8, 6))) is not None
    unlimited = Query(99, order=(1,), limit=3)
    assert check.compare(unlimited, table((1, 5), (7, 6)), table((1, 5), (8, 6))) is not None


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (1, 1.0, True),
        (D("1.10"), D("1.1"), True),
        (D("1.10"), D("1.11"), False),
        (D("0.333333"), 1 / 3, True),
        (D("0.333334"), 1 / 3, False),
        (1e15, 1e15 + 1, True),
        (1.0, 1.000001, False),
        (None, None, True),
        (None, 0.0, False),
        ("a", "a ", False),
        ("1", 1.0, False),
    ],
)
def test_same_value(ours, theirs, same):
    assert check.same_value(ours, theirs) is same


def test_select():
    assert [q.number for q in select("3, 1,5-7")] == [3, 1, 5, 6, 7]
    assert len(select()) == 22
    for text, message in (("23", "there is no query 23"), ("x", "give query numbers"), ("5-3", "no query 5-3")):
        with pytest.raises(InterfaceError, match=message):
            select(text)
