"""The comparison of answers: what it accepts and what it notices."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from nyala.bench.suites import answers
from nyala.bench.suites.answers import compare, difference, difference_by_columns, take_apart

TIED = take_apart("SELECT k, sum(v) AS total FROM t GROUP BY k ORDER BY total DESC LIMIT 2")
THEIRS = [("a", 3.0), ("b", 1 / 3), ("c", 1 / 3), ("d", None)]


def test_a_statement_is_taken_apart():
    assert (TIED.limit, TIED.order, TIED.offset) == (2, (1,), 0)
    assert TIED.unlimited.endswith("DESC ")
    keys = "SELECT a, b + 1, c AS d FROM t ORDER BY 2, d, a, z, b + 1"
    assert take_apart(keys).order == (1, 2, 0)
    assert take_apart(keys).unlimited == keys
    paged = take_apart("SELECT COUNT(*), k FROM t GROUP BY k ORDER BY COUNT(*) LIMIT 10 OFFSET 3")
    assert (paged.limit, paged.offset, paged.order) == (10, 3, (0,)) and "OFFSET" not in paged.unlimited
    assert take_apart("SELECT * FROM t ORDER BY a LIMIT 1").order == ()


@pytest.mark.parametrize("second", [("b", Decimal("0.33333333333333333")), ("c", 1 / 3 + 1e-15)])
def test_ties_and_rounding_are_forgiven(second):
    assert difference(TIED, [("a", 3), second], THEIRS) is None


@pytest.mark.parametrize(
    "ours",
    [
        [("a", 3.0)],
        [("b", 1 / 3), ("a", 3.0)],
        [("a", 3.0), ("b", Decimal("0.3333"))],
        [("a", 3.0), ("x", 1 / 3)],
        [("a", 3.0), ("b", None)],
        [("a", 3.0), ("a", 3.0)],
    ],
    ids=["rows", "order", "value", "key", "null", "twice"],
)
def test_wrong_answers_are_noticed(ours):
    assert difference(TIED, ours, THEIRS) is not None


def test_rows_behind_an_offset_may_be_any_of_the_tied_ones():
    paged = take_apart("SELECT k, n FROM t ORDER BY n DESC LIMIT 1 OFFSET 1")
    theirs = [("a", 3), ("b", 2), ("c", 2), ("d", 1)]
    assert difference(paged, [("c", 2)], theirs) is None
    assert difference(paged, [("a", 3)], theirs) is not None
    assert difference(paged, [("d", 1)], theirs) is not None


def test_decimals_dates_and_nan():
    statement = take_apart("SELECT x FROM t")
    assert difference(statement, [(Decimal("1.00"),)], [(Decimal("1"),)]) is None
    assert difference(statement, [(Decimal("1.01"),)], [(Decimal("1"),)]) is not None
    day, midnight = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2)
    assert difference(statement, [(day,)], [(midnight,)]) is None
    assert difference(statement, [(day,)], [(datetime.datetime(2026, 1, 2, 1),)]) is not None
    assert difference(statement, [(float("nan"),)], [(float("nan"),)]) is None
    assert difference(statement, [(float("nan"),)], [(0.0,)]) is not None


def test_the_unlimited_answer_is_computed_for_ties_only():
    text = "SELECT k, n FROM t ORDER BY n LIMIT 1"
    theirs, other = pa.table({"k": ["a"], "n": [1]}), pa.table({"k": ["b"], "n": [1]})
    assert compare(text, theirs, theirs, lambda text: pytest.fail("not needed")) is None
    assert compare(text, other, theirs, lambda text: pa.table({"k": ["a", "b"], "n": [1, 1]})) is None
    assert compare(text, other, theirs, lambda text: pa.table({"k": ["a", "b"], "n": [1, 2]})) is not None
    assert "columns" in compare(text, theirs.select(["k"]), theirs, lambda text: theirs)


def large(**changes):
    columns = {
        "k": ["b", "a", None, "a"],
        "n": [1, 2, 3, 4],
        "x": [0.5, None, float("nan"), 0.25],
        "d": [Decimal("1.10"), Decimal("2.20"), None, Decimal("0")],
        "t": [datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)],
    }
    return pa.table(columns | changes)


def test_large_answers_are_compared_by_columns(monkeypatch):
    shuffled = large().take([3, 1, 0, 2])
    assert difference_by_columns(large(), shuffled) is None
    doubles = shuffled.set_column(3, "d", shuffled["d"].cast(pa.float64()))
    assert difference_by_columns(large(), doubles) is None
    assert "rows" in difference_by_columns(large(), shuffled.slice(1))
    assert "NULL" in difference_by_columns(large(k=["b", None, None, "a"]), shuffled)
    for changes in ({"k": ["b", "a", None, "c"]}, {"n": [1, 2, 3, 5]}, {"x": [0.5, None, float("nan"), 0.2500001]}):
        assert "instead of" in difference_by_columns(large(**changes), shuffled)
    assert "column 2, row 1" in difference_by_columns(large(), shuffled, [1])
    monkeypatch.setattr(answers, "BY_COLUMNS", 2)
    assert compare("SELECT k, n, x, d, t FROM t ORDER BY n", large(), shuffled, lambda text: shuffled) is not None
    assert compare("SELECT k, n, x, d, t FROM t", large(), shuffled, lambda text: shuffled) is None


def test_rows_of_numbers_alone_take_no_quadratic_time():
    table = pa.table({"n": range(200_000), "x": [n / 3 for n in range(200_000)]})
    assert compare("SELECT n, x FROM t", table, table.sort_by([("n", "descending")]), lambda text: table) is None


def test_empty_answers_are_equal():
    empty = large().slice(0, 0)
    assert difference_by_columns(empty, empty) is None
    assert compare("SELECT k, n, x, d, t FROM t", empty, empty, lambda text: empty) is None
