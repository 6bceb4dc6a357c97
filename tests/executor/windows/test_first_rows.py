"""The first rows of partitions by row_number and rank, beside DuckDB: bounds, ties, NULLs, and literals that differ."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from engines_support import same_tables

TIED = random.Random(3)
ROWS = [
    (i, TIED.choice([None, 1, 2, 3, 4]), TIED.choice([None, *range(12)]), TIED.choice(["a", "b", None]))
    for i in range(600)
]


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any]]:
    with same_tables({"t": "id INT PRIMARY KEY, g INT, n INT, s VARCHAR"}, {"t": ROWS}) as found:
        yield found


WINDOWS = {
    "row_number": "PARTITION BY g ORDER BY n DESC NULLS LAST, id",
    "rank": "PARTITION BY g ORDER BY n NULLS FIRST",
    "rank of expressions": "PARTITION BY g, s ORDER BY n % 3 NULLS LAST, s NULLS FIRST",
    "row_number of all": "ORDER BY n NULLS LAST, id DESC",
    "rank of all": "ORDER BY n DESC NULLS LAST",
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(
    "condition", ["p <= {k}", "p < {k}", "p = {k}", "p <= {k} AND p <> 1 AND id > 100", "{k} >= p"]
)
def test_first_rows_of_partitions(databases: tuple[Any, Any], name: str, condition: str) -> None:
    for bound in (3, 1, 5, 0, 3):  # texts that differ in a literal share a plan
        text = (
            f"SELECT id, p FROM (SELECT id, {name.split()[0]}() OVER ({WINDOWS[name]}) AS p FROM t) AS x "
            f"WHERE {condition.format(k=bound)}"
        )
        ours, theirs = (Counter(map(tuple, database.execute(text).fetchall())) for database in databases)
        assert ours == theirs, text


def test_the_window_reads_the_first_rows_only(databases: tuple[Any, Any]) -> None:
    text = (
        "EXPLAIN SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY g ORDER BY n, id) AS p FROM t) AS x "
        "WHERE p <= 2"
    )
    plan = "\n".join(row[0] for row in databases[0].execute(text).fetchall())
    assert "TopRows n, id first 2 by g" in plan
