"""Recursive queries, LATERAL, table functions, rows of values, LIMIT and FETCH: errors, and their written form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nyala.sql import generate, parse

GOLDEN = Path(__file__).parent / "golden"


def test_wrong_queries_say_what_is_wrong_and_where(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "errors_queries.txt", explain_binding)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("table nation", "SELECT * FROM nation"),
        ("(table a) union table b", "(SELECT * FROM a) UNION SELECT * FROM b"),
        (
            "select 1 from t order by 1 offset 2 rows fetch next 3 rows with ties",
            "SELECT 1 FROM t ORDER BY 1 OFFSET 2 FETCH FIRST 3 ROWS WITH TIES",
        ),
        (
            "with recursive r(n) as (select 1 union all select n + 1 from r) table r",
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
        ),
        ("select * from t, lateral (select t.a) s", "SELECT * FROM t, LATERAL (SELECT t.a) AS s"),
        (
            "select * from t left join lateral f(t.a) as g(n) on true",
            "SELECT * FROM t LEFT JOIN LATERAL F(t.a) AS g(n) ON TRUE",
        ),
        ("select * from (a join b using (k)) as j(x)", "SELECT * FROM (a JOIN b USING (k)) AS j(x)"),
    ],
)
def test_queries_are_written_as_they_were_read(text: str, written: str) -> None:
    tree = parse(text)[0].tree
    assert generate(tree) == written
    assert generate(parse(written)[0].tree) == written
