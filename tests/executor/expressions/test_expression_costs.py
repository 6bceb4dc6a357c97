"""Divisions by a constant may be computed for every row, unless the constant is one that fails."""

from __future__ import annotations

import nyala
import pytest
from nyala.errors import DivisionByZero, NumericOutOfRange
from nyala.executor.expressions.expression_costs import is_fallible
from nyala.model.types import INT
from nyala.sql.expressions import Call, Column, Expr, Literal

X = Column(INT, True, 1, "x")


@pytest.mark.parametrize("function", ["div", "mod"])
@pytest.mark.parametrize(
    ("divisor", "fails"),
    [
        (Literal(INT, False, 20), False),
        (Literal(INT, False, -7), False),
        (Literal(INT, False, 0), True),
        (Literal(INT, False, -1), True),
        (Literal(INT, True, None), True),
        (X, True),
    ],
)
def test_a_division_fails_for_two_constants_only(function: str, divisor: Expr, fails: bool) -> None:
    assert is_fallible(Call(INT, True, function, (X, divisor))) is fails


def test_branches_with_remainders_have_the_values_of_their_rows() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE r (k INT PRIMARY KEY, x BIGINT)")
        values = [-(2**63), 2**63 - 1, -21, -20, 0, 19, 20, None]
        connection.executemany("INSERT INTO r VALUES (?, ?)", list(enumerate(values)))
        text = "SELECT CASE WHEN x % 20 = 0 THEN div(x, 3) WHEN x % 20 > 0 THEN x % 7 ELSE -5 END FROM r ORDER BY k"
        wanted = []
        for x in values:
            remainder = None if x is None else abs(x) % 20 * (1 if x > 0 else -1)
            wanted.append(-5 if remainder is None or remainder < 0 else x // 3 if remainder == 0 else x % 7)
        wanted[3] = -6  # -20 / 3, towards zero
        assert [row[0] for row in connection.execute(text).fetchall()] == wanted
        for text, error in (("x % (k - k)", DivisionByZero), ("div(x, -1)", NumericOutOfRange)):
            guarded = f"SELECT CASE WHEN k = 0 THEN 7 ELSE {text.replace('k - k', 'k')} END FROM r ORDER BY k"
            assert connection.execute(guarded).fetchall()[0] == (7,)
            with pytest.raises(error):
                connection.execute(f"SELECT {text} FROM r").fetchall()
