"""Planning of wide statements: the work is linear in their size, neither quadratic nor exponential."""

import nyala
import pytest
from work_support import growth

pytestmark = pytest.mark.embedded_only("counts the planner's work, which is above the Store protocol")

WIDE = {
    "columns": (200, lambda n: f"SELECT {', '.join(f'k + {i} AS c{i}' for i in range(n))} FROM t"),
    "branches": (200, lambda n: f"SELECT CASE {' '.join(f'WHEN k = {i} THEN {i}' for i in range(n))} END FROM t"),
    "cases": (100, lambda n: f"SELECT {', '.join(f'CASE WHEN k = {i} THEN {i} END' for i in range(n))} FROM t"),
    "unions": (60, lambda n: " UNION ALL ".join(f"SELECT k + {i} FROM t" for i in range(n))),
    "aggregates": (100, lambda n: f"SELECT {', '.join(f'sum(k + {i})' for i in range(n))} FROM t"),
    "and": (300, lambda n: f"SELECT k FROM t WHERE {' AND '.join(f'k <> {i + 7}' for i in range(n))}"),
    "or": (300, lambda n: f"SELECT k FROM t WHERE {' OR '.join(f'k = {i}' for i in range(n))}"),
    "ranges": (
        150,
        lambda n: f"SELECT k FROM t WHERE {' OR '.join(f'k BETWEEN {3 * i} AND {3 * i}' for i in range(n))}",
    ),
    "patterns": (100, lambda n: "SELECT k FROM t WHERE " + " OR ".join(f"s LIKE 'a{i}%'" for i in range(n))),
    "sum": (300, lambda n: f"SELECT {' + '.join(['k'] * n)} FROM t"),
    "nested calls": (150, lambda n: f"SELECT {'abs(' * n}k{')' * n} FROM t"),
    "else": (
        100,
        lambda n: (
            "SELECT " + "".join(f"CASE WHEN k = {i} THEN {i} ELSE " for i in range(n)) + "0" + " END" * n + " FROM t"
        ),
    ),
    "nested IN": (60, lambda n: f"SELECT k FROM t WHERE {'k IN (SELECT k FROM t WHERE ' * n}k = 1{')' * n}"),
    "lists": (150, lambda n: "SELECT k FROM t WHERE " + " OR ".join(f"k IN ({i}, {i + 7}, k - 1)" for i in range(n))),
    "literals": (2000, lambda n: f"SELECT k FROM t WHERE k IN ({', '.join(str(i) for i in range(n))})"),
    "chain of names": (
        60,
        lambda n: (
            "WITH c0 AS (SELECT k FROM t)"
            + "".join(f", c{i + 1} AS (SELECT k + 1 AS k FROM c{i})" for i in range(n))
            + f" SELECT * FROM c{n}"
        ),
    ),
}


@pytest.fixture(scope="module")
def connection():
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection._session.plans.enabled = False
        yield connection


@pytest.mark.slow
@pytest.mark.parametrize("form", WIDE)
def test_the_work_is_linear_in_the_size(connection, form):
    size, text = WIDE[form]
    assert growth(lambda n: connection.execute(text(n)).fetchall(), size) < 2.6


def test_names_that_are_used_twice_do_not_double_at_each_level(connection):
    def run(n):
        text = "WITH c0 AS (SELECT k FROM t)" + "".join(
            f", c{i + 1} AS (SELECT a.k FROM c{i} a JOIN c{i} b ON a.k = b.k)" for i in range(n)
        )
        assert connection.execute(f"{text} SELECT * FROM c{n}").fetchall() == [(1,)]

    assert growth(run, 15) < 4


def test_many_joins_are_ordered_pair_by_pair(connection):
    def run(n):
        text = "SELECT count(*) FROM t t0" + "".join(f" JOIN t t{i} ON t{i}.k = t{i - 1}.k" for i in range(1, n))
        assert connection.execute(text).fetchall() == [(1,)]

    # The pairs of n tables are n * n / 2; costing each again after every step made it n * n * n.
    assert growth(run, 25) < 6


@pytest.mark.slow
def test_sizes_that_occur(connection):
    """A thousand of each, and a chain of 500 names."""
    for text in (
        WIDE["columns"][1](1000),
        WIDE["cases"][1](1000),
        WIDE["unions"][1](1000),
        "SELECT " + ", ".join(f"sum(k) OVER (ORDER BY k + {i})" for i in range(300)) + " FROM t",
    ):
        assert connection.execute(text).fetchall()
    assert connection.execute(WIDE["chain of names"][1](500)).fetchall() == [(501,)]
