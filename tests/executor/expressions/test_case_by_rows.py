"""CASE and COALESCE whose branches fail for rows that do not reach them, in one batch or in a later one."""

from __future__ import annotations

from collections.abc import Iterator

import nyala
import pytest
from nyala.errors import NumericOutOfRange
from nyala.executor.expressions.expression_costs import fails_rarely, is_fallible
from nyala.model.types import BIGINT, DOUBLE, INT, STRING
from nyala.sql.expressions import Call, Cast, Column

LARGE = 2**62


@pytest.fixture
def connection() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s VARCHAR)")
        rows = [(i, LARGE if i == 5 else i, "x" if i == 7 else str(i)) for i in range(20)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        yield connection


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CASE WHEN n < 100 THEN n * 4 ELSE -1 END", lambda i: -1 if i == 5 else 4 * i),
        ("CASE WHEN n < 100 THEN CAST(n AS INT) + 1 END", lambda i: None if i == 5 else i + 1),
        ("CASE WHEN n > 100 THEN 0 WHEN n * 4 > 40 THEN 1 ELSE 2 END", lambda i: 0 if i == 5 else 1 if i > 10 else 2),
        ("CASE WHEN s <> 'x' THEN CAST(s AS INT) ELSE 0 END", lambda i: 0 if i == 7 else i),
        ("CASE WHEN id <> 3 THEN 6 / (id - 3) ELSE 9 END", lambda i: 9 if i == 3 else int(6 / (i - 3))),
    ],
)
def test_branches_fail_only_for_the_rows_that_reach_them(connection, expression, value):
    found = connection.execute(f"SELECT id, {expression} FROM t ORDER BY id").fetchall()
    assert found == [(i, value(i)) for i in range(20)]


def test_a_branch_that_a_row_reaches_fails(connection):
    with pytest.raises(NumericOutOfRange):
        connection.execute("SELECT CASE WHEN id < 10 THEN n * 4 ELSE 0 END FROM t").fetchall()


def test_a_batch_that_fails_is_followed_by_others(connection):
    """The first rows can be computed for all branches; later ones cannot."""
    text = (
        "SELECT sum(CASE WHEN n < 200000 THEN n * 2 WHEN n > 4000000000000000000 THEN 1 ELSE n * 3 END) "
        "FROM (SELECT CASE WHEN g = 250000 THEN 4611686018427387904 ELSE g END AS n "
        "FROM generate_series(1, 300000) AS s(g)) AS x"
    )
    expected = sum(1 if g == 250000 else g * 2 if g < 200000 else g * 3 for g in range(1, 300001))
    assert connection.execute(text).fetchall() == [(expected,)]


def test_which_expressions_fail_rarely():
    number, text = Column(INT, True, 1, "n"), Column(STRING, True, 2, "s")
    assert fails_rarely(Call(INT, True, "add", (number, number)))
    assert fails_rarely(Cast(BIGINT, True, number)) and fails_rarely(number)
    for refused in (
        Cast(INT, True, text),
        Call(INT, True, "div", (number, number)),
        Call(DOUBLE, True, "ln", (number,)),
    ):
        assert is_fallible(refused) and not fails_rarely(refused)
        assert not fails_rarely(Call(INT, True, "add", (number, refused)))
