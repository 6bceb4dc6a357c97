"""Every function of the registry: Spark's answers over edge values, or its name among those that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from nyala.errors import NotSupportedError
from nyala.spark.engine.translate import aggregates, expressions
from nyala.sql.functions.registry import AGGREGATES, FUNCTIONS, OPERATIONS
from spark_function_cases import AGGREGATES as AGGREGATE_CASES
from spark_function_cases import CASES, CASTS, COLUMNS, FAILURES, ROWS, WINDOWS
from spark_session import spark  # noqa: F401
from spark_translate_support import Oracle, differing_columns, same


@pytest.fixture(scope="module")
def edges(spark: Any) -> Iterator[Oracle]:  # noqa: F811
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute(f"CREATE TABLE edges ({COLUMNS})")
        connection.execute(f"INSERT INTO edges VALUES {', '.join(ROWS)}")
        yield Oracle(spark, connection, "edges")


def test_every_function_is_written_and_compared_or_refused() -> None:
    assert set(expressions.SCALARS) | set(expressions.REFUSED) == OPERATIONS.keys()
    assert not set(expressions.SCALARS) & set(expressions.REFUSED)
    assert set(CASES) == set(expressions.SCALARS)
    assert set(aggregates.WRITERS) == set(AGGREGATE_CASES) == AGGREGATES.keys()
    windows = {name for function in FUNCTIONS if function.kind == "window" for name in function.canonical}
    assert set(WINDOWS) - {"frames"} == windows


def test_scalar_functions(edges: Oracle) -> None:
    texts = [text for name in CASES for text in CASES[name]]
    assert list(differing_columns(edges, "edges", texts)) == []


def test_casts(edges: Oracle) -> None:
    assert list(differing_columns(edges, "edges", CASTS)) == []


def test_windows(edges: Oracle) -> None:
    texts = [text for name in WINDOWS for text in WINDOWS[name]]
    assert list(differing_columns(edges, "edges", texts)) == []


def _of_one_sort(texts: list[str]) -> list[list[str]]:
    """Spark has no ordered aggregates beside DISTINCT ones."""
    ordered = [text for text in texts if text.startswith(("string_agg(", "mode(")) and "DISTINCT" not in text]
    alone = [text for text in texts if text.startswith("string_agg(DISTINCT")]
    return [ordered, *([text] for text in alone), [text for text in texts if text not in ordered and text not in alone]]


@pytest.mark.parametrize("tail", ["GROUP BY b", "WHERE k < 0 GROUP BY GROUPING SETS ((b), ())"])
def test_aggregates(edges: Oracle, tail: str) -> None:
    different: list[Any] = []
    for texts in _of_one_sort([text for name in AGGREGATE_CASES for text in AGGREGATE_CASES[name]]):
        items = ", ".join(f"{text} AS e{i}" for i, text in enumerate(texts))
        statement = f"SELECT b, {items} FROM edges {tail}"
        ours, theirs = (
            sorted(rows, key=lambda row: repr(row[0])) for rows in (edges.ours(statement), edges.theirs(statement))
        )
        different += [
            (text, one[i], other[i])
            for i, text in enumerate(texts, 1)
            for one, other in zip(ours, theirs, strict=True)
            if not same(one[i], other[i])
        ]
    assert different == []


@pytest.mark.parametrize("text", FAILURES)
def test_errors(edges: Oracle, text: str) -> None:
    statement = f"SELECT {text} AS e FROM edges WHERE k IN (1, 2, 9)"
    with pytest.raises(nyala.Error):
        edges.ours(statement)
    translation = edges.translated(statement)
    with pytest.raises(Exception, match=r"\[[A-Z_.]+\]|Exception"):
        edges.run(translation)


def test_a_refused_function_says_so(edges: Oracle) -> None:
    with pytest.raises(NotSupportedError, match=r"initcap\(\).*SET engine = nyala"):
        edges.translated("SELECT initcap(s) FROM edges")
