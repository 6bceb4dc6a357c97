"""Single cases of values at the limits of their types; `tests/differential/test_extremes.py` generates them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import nyala
import pytest
from nyala.errors import NumericOutOfRange
from nyala.executor.kernels.groups.key_codes import column_codes
from nyala.executor.sorting.sort_keys import ordered_codes
from nyala.model.types import BIGINT, DECIMAL
from nyala.model.vectors.vector import Const, Flat, Narrow, concat

LEAST, MOST = -(2**63), 2**63 - 1
BEYOND = 10**27


@pytest.fixture(params=["memory", "compacted"])
def c(request: Any) -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, MOST), (2, LEAST), (3, None), (4, 7)])
        if request.param == "compacted":
            connection.execute("COMPACT TABLE t")
        yield connection


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT v FROM t ORDER BY v NULLS FIRST", [None, LEAST, 7, MOST]),
        ("SELECT v FROM t ORDER BY v DESC", [None, MOST, 7, LEAST]),
        ("SELECT v FROM t ORDER BY v", [LEAST, 7, MOST, None]),
        ("SELECT v FROM t ORDER BY v DESC LIMIT 2", [None, MOST]),
        ("SELECT v FROM t WHERE v IS NOT NULL ORDER BY v DESC", [MOST, 7, LEAST]),
        ("SELECT rank() OVER (ORDER BY v NULLS FIRST) FROM t ORDER BY k", [4, 2, 1, 3]),
        ("SELECT count(*) OVER (PARTITION BY v) FROM t", [1, 1, 1, 1]),
        ("SELECT count(*) FROM t GROUP BY v", [1, 1, 1, 1]),
        ("SELECT count(DISTINCT v) FROM t", [3]),
        ("SELECT count(*) FROM (SELECT v FROM t UNION SELECT v FROM t) u", [4]),
        ("SELECT count(*) FROM t a JOIN t b ON a.v = b.v", [3]),
    ],
)
def test_integers_that_fill_64_bits(c: Any, query: str, expected: list[Any]) -> None:
    assert [row[0] for row in c.execute(query).fetchall()] == expected


def test_codes_of_64_bits_have_room_for_null() -> None:
    codes = np.array([2**64 - 1, 0, 5, 5], np.uint64)
    validity = np.array([True, True, False, True])
    key = Narrow(BIGINT, codes, LEAST, validity, 2**64 - 1)
    found, size = column_codes(key)
    assert sorted(found.tolist()) == [0, 1, 2, 3] and found[2] == 3 and size == 4, "NULL has the greatest"
    for descending, first, expected in (
        (False, False, [2, 0, 3, 1]),
        (False, True, [3, 1, 0, 2]),
        (True, False, [0, 2, 3, 1]),
        (True, True, [1, 3, 0, 2]),
    ):
        assert ordered_codes(key, descending, first)[0].tolist() == expected


def test_wide_constants_join_other_vectors() -> None:
    type_ = DECIMAL(38, 0)
    both = concat([Const(type_, BEYOND, 2), Flat(type_, np.array([5]))])
    assert both.to_arrow().to_pylist() == [Decimal(BEYOND), Decimal(BEYOND), Decimal(5)]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (f"SELECT count(*) FROM t JOIN (VALUES ({BEYOND}.5)) x (d) ON t.k = x.d", 0),
        (f"SELECT count(*) FROM t JOIN (SELECT {BEYOND}.0 AS d, k FROM t) x ON t.k = x.d", 0),
        (f"SELECT count(*) FROM (SELECT {BEYOND} AS d FROM t) a JOIN (SELECT {BEYOND} AS d FROM t) b ON a.d = b.d", 16),
        (f"SELECT count(*) FROM t LEFT JOIN (SELECT {BEYOND} AS d FROM t) x ON t.k = x.d", 4),
        (f"SELECT count(*) FROM t WHERE k NOT IN (SELECT {BEYOND} FROM t)", 4),
    ],
)
def test_joins_with_a_constant_beyond_64_bits(c: Any, query: str, count: int) -> None:
    assert c.execute(query).fetchone() == (count,)


@pytest.fixture
def scales() -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE n (k INT PRIMARY KEY, n DECIMAL(38,0), d DECIMAL(38,20))")
        rows = [(1, 10**37, "0.5"), (2, 5, "5"), (3, None, "99999999999999999.5"), (4, -(10**37), None)]
        connection.executemany("INSERT INTO n VALUES (?, ?, ?)", rows)
        yield connection


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("a.n = b.d", [(2, 2)]),
        ("a.n > b.d AND b.k = 3", [(1, 3)]),
        ("a.n < b.d AND b.k = 1", [(4, 1)]),
        ("a.n IS NOT DISTINCT FROM b.d", [(2, 2), (3, 4)]),
        ("a.n BETWEEN b.d AND b.d", [(2, 2)]),
        ("a.n IN (b.d, 0.99)", [(2, 2)]),
        ("a.n + 0 = b.d", [(2, 2)]),
        ("nullif(a.n, b.d) IS NULL AND b.k = 1", [(3, 1)]),
        ("CASE a.n WHEN b.d THEN TRUE ELSE FALSE END", [(2, 2)]),
        ("(a.n, a.k) = (b.d, b.k)", [(2, 2)]),
    ],
)
def test_decimals_of_other_scales_compare(scales: Any, condition: str, keys: list[Any]) -> None:
    found = scales.execute(f"SELECT a.k, b.k FROM n a JOIN n b ON {condition} ORDER BY 1, 2").fetchall()
    assert found == keys


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT k FROM n WHERE n IN (SELECT d FROM n)", [2]),
        ("SELECT k FROM n WHERE n NOT IN (SELECT d FROM n WHERE d IS NOT NULL)", [1, 4]),
        ("SELECT k FROM n WHERE n NOT IN (SELECT d FROM n)", []),
        ("SELECT k FROM n WHERE n > ALL (SELECT d FROM n WHERE d IS NOT NULL)", [1]),
        ("SELECT k FROM n WHERE d IN (10000000000000000000000000000000000000, 5)", [2]),
        ("SELECT k FROM n WHERE n IN (5.0, 0.99)", [2]),
        ("SELECT k FROM n WHERE d < 10000000000000000000000000000000000000", [1, 2, 3]),
        ("SELECT k FROM n WHERE d NOT BETWEEN 10000000000000000000000000000000000000 AND 1", [1, 2, 3]),
        ("SELECT k FROM n WHERE EXISTS (SELECT 1 FROM n b WHERE b.d = n.n)", [2]),
        ("SELECT n FROM n INTERSECT SELECT d FROM n", [None, 5]),
        ("SELECT d FROM n EXCEPT SELECT n FROM n", [Decimal("0.5"), Decimal("99999999999999999.5")]),
    ],
)
def test_what_a_common_type_cannot_hold_is_unequal(scales: Any, query: str, keys: list[Any]) -> None:
    found = [row[0] for row in scales.execute(query).fetchall()]
    assert sorted(found, key=lambda v: (v is not None, v or 0)) == keys


def test_parameters_compare_as_constants(scales: Any) -> None:
    for text in ("n = ?", "n > ?", "n IN (?, 3)", "d = ?", "d < ?"):
        for value in (Decimal("0.5"), 10**37, Decimal("5"), 5, 10**30):
            constant = f"{value}"
            expected = scales.execute(f"SELECT k FROM n WHERE {text.replace('?', constant)}").fetchall()
            for _ in range(2):
                assert scales.execute(f"SELECT k FROM n WHERE {text}", (value,)).fetchall() == expected


def test_a_float_column_compares_with_a_double_beyond_it() -> None:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE f (k INT PRIMARY KEY, v FLOAT)")
        connection.execute("INSERT INTO f VALUES (1, 2.5), (2, -1)")
        assert connection.execute("SELECT count(*) FROM f WHERE v < 1e300").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM f WHERE v IN (-1e300, 2.5)").fetchone() == (1,)


def test_intervals_in_subqueries(c: Any) -> None:
    spans = "(VALUES (INTERVAL '30 days'), (INTERVAL '1 hour')) s (v)"
    assert c.execute(f"SELECT INTERVAL '1 month' IN (SELECT v FROM {spans})").fetchone() == (True,)
    assert c.execute(f"SELECT INTERVAL '2 hours' NOT IN (SELECT v FROM {spans})").fetchone() == (True,)
    assert c.execute(f"SELECT INTERVAL '1 day' < ALL (SELECT v FROM {spans})").fetchone() == (False,)


LARGE = 10**37


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("CAST(avg(v) AS DECIMAL(38,0))", [Decimal(LARGE)]),
        ("avg(v)::DECIMAL(38,0) + count(*)", [Decimal(LARGE + 3)]),
        ("CAST(max(v) / 3 AS DECIMAL(38,0))", [Decimal(LARGE // 3 + 1)]),
        ("CAST(max(v) / 3 AS DECIMAL(38,1))", [Decimal("3333333333333333333333333333333333333.7")]),
        (f"CAST({LARGE} / 3 AS DECIMAL(38,0))", [Decimal(LARGE // 3)]),
        ("CAST(avg(d) AS DECIMAL(38,10))", [Decimal("333333333333333333333333333.0833333333")]),
        ("CAST(avg(k) AS DECIMAL(38,0)), avg(k)", [Decimal(2), Decimal(2)]),
        ("CAST(1 / 3.0 AS DECIMAL(9,2)), CAST(7 / 2 AS DECIMAL(38,0))", [Decimal("0.33"), Decimal(3)]),
    ],
)
def test_casts_of_quotients_say_how_many_digits_they_have(value: str, expected: list[Any]) -> None:
    """As in PostgreSQL, which has room for more than 38 digits."""
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE w (k INT PRIMARY KEY, v DECIMAL(38,0), d DECIMAL(38,10))")
        rows = [(1, LARGE, "1.5"), (2, LARGE, "-2.25"), (3, LARGE + 1, 10**27)]
        connection.executemany("INSERT INTO w VALUES (?, ?, ?)", rows)
        assert list(connection.execute(f"SELECT {value} FROM w").fetchone()) == expected


@pytest.mark.parametrize(
    ("value", "advice"),
    [("avg(v)", "CAST(avg(a) AS DECIMAL(38, 0))"), ("v / 3", "CAST(a / b AS DECIMAL(38, 0))")],
)
def test_quotients_without_room_say_so(value: str, advice: str) -> None:
    with nyala.connect(":memory:", threads=1) as connection:
        source = f"(VALUES (CAST({LARGE} AS DECIMAL(38,0)))) w (v)"
        with pytest.raises(NumericOutOfRange) as caught:
            connection.execute(f"SELECT {value} FROM {source}").fetchall()
        assert advice in str(caught.value)
