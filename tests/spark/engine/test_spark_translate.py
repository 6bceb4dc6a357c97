"""Plans as Spark SQL: nyala's answers, by Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import nyala
import pyarrow.parquet as parquet
import pytest
from differential.query_generator import DUCKDB, QueryGenerator
from differential.test_differential import TABLES as SMALL_TABLES
from differential.test_differential import fill
from nyala.errors import NotSupportedError
from nyala.spark.engine.translate.translation import settings
from nyala.tpch.generate import generate
from nyala.tpch.queries import QUERIES
from nyala.tpch.schema import TABLES
from spark_session import spark  # noqa: F401
from spark_translate_support import Oracle, difference

SEED = 1_000_000
RANDOM_QUERIES = int(os.environ.get("NYALA_QUERIES", "1000")) // 50


@pytest.fixture(scope="module")
def small(spark: Any) -> Iterator[Oracle]:  # noqa: F811
    with nyala.connect(":memory:", threads=1) as connection:
        fill(connection.execute)
        yield Oracle(spark, connection, "small")


@pytest.fixture(scope="module")
def tpch(spark: Any, tmp_path_factory: Any) -> Iterator[Oracle]:  # noqa: F811
    directory = generate(0.01, tmp_path_factory.mktemp("spark_tpch"))
    with nyala.connect(":memory:", threads=1) as connection:
        oracle = Oracle(spark, connection, "tpch")
        for spec in TABLES:
            connection.execute(spec.create_table(2))
            connection.load(spec.name, parquet.read_table(directory / f"{spec.name}.parquet"))
            oracle.provide(spec.name, spark.read.parquet(str(directory / f"{spec.name}.parquet")))
        yield oracle


@pytest.mark.parametrize("query", QUERIES, ids=[f"q{query.number}" for query in QUERIES])
def test_tpch(tpch: Oracle, query: Any) -> None:
    assert difference(tpch.ours(query.text), tpch.theirs(query.text), ordered=True) is None


SHAPES = (
    "SELECT k, a FROM r WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
    "SELECT k FROM r WHERE a NOT IN (SELECT a FROM u)",
    "SELECT k FROM r WHERE a NOT IN (SELECT a FROM u WHERE u.s = r.s)",
    "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a > r.a AND u.s = r.s)",
    "SELECT k, (SELECT u.s FROM u WHERE u.k = r.k) FROM r",
    "SELECT k, (SELECT max(u.s) FROM u WHERE u.a < r.a) FROM r",
    "SELECT r.k, u.k FROM r FULL JOIN u ON r.a = u.a AND r.b > 0",
    "SELECT r.k, u.k FROM r RIGHT JOIN u ON r.a = u.a WHERE u.k > 2",
    "SELECT count(*) FROM r CROSS JOIN u",
    "SELECT a, s, count(*), sum(d) FROM r GROUP BY ROLLUP (a, s)",
    "SELECT a, count(*), grouping(a) FROM r WHERE k < 0 GROUP BY GROUPING SETS ((a), ())",
    "SELECT a FROM r INTERSECT ALL SELECT a FROM u",
    "SELECT a, s FROM r EXCEPT ALL SELECT a, s FROM u",
    "SELECT a FROM r UNION SELECT a FROM u EXCEPT SELECT k FROM v",
    "SELECT a, k FROM r ORDER BY a DESC, k FETCH FIRST 3 ROWS WITH TIES",
    "SELECT a, k FROM r ORDER BY a, k LIMIT 4 OFFSET 2",
    "SELECT * FROM (VALUES (1, 'a'), (NULL, 'b'), (CAST(random() * 0 AS INT), 'c')) AS t (x, y)",
    "SELECT r.k, n FROM r, generate_series(r.a, 3) AS g (n)",
    "SELECT n FROM generate_series(5, 1, -2) AS g (n)",
    "WITH x AS (SELECT a, count(*) AS n FROM r GROUP BY a) SELECT p.a, q.n FROM x p JOIN x q ON p.a = q.n",
    "SELECT k, k, a + 1 FROM r WHERE day > DATE '2023-12-31' AND day < DATE '2024-01-01' + INTERVAL '2 months'",
    "SELECT a, d FROM (SELECT a, d, row_number() OVER (PARTITION BY a ORDER BY d, k) AS n FROM r) WHERE n <= 2",
    "SELECT DISTINCT f, day FROM r",
    "SELECT 1 AS one, NULL AS nothing, 'it''s \\ a \"text\"' AS t, X'00ff' AS x, -1.50 AS d, 1e300 AS f",
)


def _is_ordered(text: str) -> bool:
    """True if the whole statement has an ORDER BY, behind all parentheses."""
    return " ORDER BY " in text.rpartition(")")[2]


@pytest.mark.parametrize("text", SHAPES, ids=range(len(SHAPES)))
def test_shapes(small: Oracle, text: str) -> None:
    assert difference(small.ours(text), small.theirs(text), _is_ordered(text)) is None


def test_random_queries(small: Oracle) -> None:
    run = 0
    for seed in range(SEED, SEED + RANDOM_QUERIES):
        text = QueryGenerator(seed, SMALL_TABLES, DUCKDB).query()
        try:
            ours = small.ours(text)
            translation = small.translated(text)
        except nyala.Error:
            continue
        run += 1
        found = difference(ours, small.run(translation), _is_ordered(text))
        assert found is None, f"{found}\n{text}\n{translation.text}"
    assert run > RANDOM_QUERIES * 0.6


def test_a_scalar_subquery_of_two_rows_is_an_error(small: Oracle) -> None:
    for text in ("SELECT (SELECT a FROM u) FROM r", "SELECT k, (SELECT u.k FROM u WHERE u.a = r.a) FROM r"):
        with pytest.raises(nyala.Error):
            small.ours(text)
        with pytest.raises(Exception, match="more than one row"):
            small.theirs(text)


@pytest.mark.parametrize("hint", ["broadcast right", "shuffle_hash left", "merge right"])
def test_hints(small: Oracle, hint: str) -> None:
    text = "SELECT r.k, u.k, v.s FROM r JOIN u ON r.a = u.a LEFT JOIN v ON v.k = u.k"
    small.hints = lambda join: hint
    try:
        translation = small.translated(text)
    finally:
        small.hints = lambda join: None
    assert f"/*+ {hint.split()[0].upper()}(" in translation.text
    assert difference(small.ours(text), small.run(translation)) is None


def test_what_cannot_be_said_is_refused(small: Oracle) -> None:
    for text, named in (
        ("SELECT gcd(k, 2) FROM r", "gcd"),
        ("SELECT sum(k) OVER (ORDER BY k ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM r", "EXCLUDE"),
        ("SELECT day - TIMESTAMP '2020-01-01' FROM r", "INTERVAL"),
        ("WITH RECURSIVE x (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 3) SELECT n FROM x", "RECURSIVE"),
    ):
        with pytest.raises(NotSupportedError, match=f"{named}.*SET engine = nyala"):
            small.translated(text)


def test_a_session_that_rounds_decimals_is_refused(small: Oracle, spark: Any) -> None:  # noqa: F811
    translation = small.translated("SELECT d + 1 FROM r")
    with pytest.raises(Exception, match="allowPrecisionLoss"):
        spark.sql(translation.text).toArrow()
    with settings(spark):
        frame = spark.sql(translation.text)
    assert frame.toArrow().num_rows == 23
