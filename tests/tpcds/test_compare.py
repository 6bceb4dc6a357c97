"""The comparison itself: what it forgives and what it notices."""

from decimal import Decimal

import pytest
from tpcds.compare import difference, take_apart

TIED = take_apart("SELECT k, sum(v) AS total FROM t GROUP BY k ORDER BY total DESC LIMIT 2")
THEIRS = [("a", 3.0), ("b", 1 / 3), ("c", 1 / 3), ("d", None)]


def test_a_statement_is_taken_apart():
    assert (TIED.limit, TIED.order) == (2, (1,))
    assert TIED.unlimited.endswith("DESC ")
    keys = "SELECT a, b + 1, c AS d FROM t ORDER BY 2, d, a, z, b + 1"
    assert take_apart(keys).order == (1, 2, 0)
    assert take_apart(keys).unlimited == keys


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


def test_decimals_are_exact():
    statement = take_apart("SELECT x FROM t")
    assert difference(statement, [(Decimal("1.00"),)], [(Decimal("1"),)]) is None
    assert difference(statement, [(Decimal("1.01"),)], [(Decimal("1"),)]) is not None
