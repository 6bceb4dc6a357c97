"""Bound statements as golden text, and properties that golden text cannot show: parameters, sharing, numbers."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.errors import InterfaceError, NotSupportedError
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP
from nyala.sql import bind, bound, parse
from nyala.sql.binding.traverse import columns_read, map_query, walk_deep
from nyala.sql.expressions import Call, Column, Expr, Literal, walk
from nyala.tpch.queries import select as tpch_queries

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(nyala.__file__).parent
QUERIES = {int(path.stem[1:]): path for path in (ROOT / "tpch" / "query_texts").glob("q*.sql")}


def query_of(text: str, catalog: Any, parameters: Any = None) -> bound.Query:
    (parsed,) = parse(text)
    statement = bind(parsed, catalog, parameters)
    assert isinstance(statement, bound.SelectStatement)
    return statement.query


def select_of(text: str, catalog: Any, parameters: Any = None) -> bound.Select:
    body = query_of(text, catalog, parameters).body
    assert isinstance(body, bound.Select)
    return body


def test_bound_statements(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "bound.txt", explain_binding)


# ---- TPC-H -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", sorted(QUERIES))
def test_tpch_queries_have_the_columns_of_the_official_answers(number: int, catalog: Any) -> None:
    query = query_of(QUERIES[number].read_text(encoding="utf-8"), catalog)
    answer = tpch_queries(str(number))[0].answer
    titles = [title.strip() for title in answer.splitlines()[0].split("|")]
    assert len(titles) == len(query.columns)
    for title, column in zip(titles, query.columns, strict=True):
        # The expected titles are cut to the column's width, and name the one unnamed column by its position.
        assert column.name.startswith(title) or title.startswith("col")


@pytest.mark.parametrize("number", sorted(QUERIES))
def test_every_column_that_a_tpch_query_reads_is_defined_once(number: int, catalog: Any) -> None:
    query = query_of(QUERIES[number].read_text(encoding="utf-8"), catalog)
    defined = list(_defined(query, set()))
    assert len(defined) == len(set(defined))
    assert columns_read(query) <= set(defined)


def _defined(query: bound.Query, seen: set[int]) -> Any:
    """Yield the numbers of all columns that a query defines, a shared query counted once."""
    if id(query) in seen:
        return
    seen.add(id(query))
    body = query.body
    if isinstance(body, bound.Select):
        yield from (column.id for column, _ in (*body.groups, *body.aggregates, *body.projection))
        if body.relation is not None:
            yield from _defined_by(body.relation, seen)
    elif isinstance(body, bound.SetOperation):
        yield from _defined(body.left, seen)
        yield from _defined(body.right, seen)
        yield from (column.id for column in body.columns)
    else:
        yield from (column.id for column in body.columns)
    for node in walk_deep(query):
        if (inner := getattr(node, "query", None)) is not None:
            yield from _defined(inner, seen)


def _defined_by(relation: bound.Relation, seen: set[int]) -> Any:
    if isinstance(relation, bound.Join):
        yield from _defined_by(relation.left, seen)
        yield from _defined_by(relation.right, seen)
        return
    yield from (column.id for column in relation.columns)
    if isinstance(relation, bound.SubqueryRef):
        yield from _defined(relation.query, seen)


def test_predicates_of_q6_compare_columns_with_literals_of_their_own_type(catalog: Any) -> None:
    where = select_of(QUERIES[6].read_text(encoding="utf-8"), catalog).where
    assert isinstance(where, Call) and where.function == "and"
    for test in where.args:
        assert isinstance(test, Call)
        column, literal = test.args
        assert isinstance(column, Column) and isinstance(literal, Literal)
        assert column.type == literal.type


# ---- structure -------------------------------------------------------------------------------------------------------


def test_a_cte_used_twice_is_one_object(catalog: Any) -> None:
    body = select_of("with t as (select 1 as x) select * from t a, t b", catalog)
    assert isinstance(body.relation, bound.Join)
    left, right = body.relation.left, body.relation.right
    assert isinstance(left, bound.SubqueryRef) and isinstance(right, bound.SubqueryRef)
    assert left.query is right.query
    assert left.shared == right.shared == "t"
    assert left.columns[0].id != right.columns[0].id
    once = select_of("with t as (select 1 as x) select * from t", catalog).relation
    assert isinstance(once, bound.SubqueryRef) and once.shared is None


def test_an_outer_reference_is_the_outer_column_itself(catalog: Any) -> None:
    body = select_of(
        "select 1 from nation where exists (select 1 from region where r_regionkey = n_regionkey)", catalog
    )
    assert isinstance(body.relation, bound.TableRef) and body.where is not None
    outer = body.relation.columns[2]
    inner = body.where.query.body.where
    assert outer in inner.args


def test_map_query_reaches_every_expression(catalog: Any) -> None:
    text = (
        "select n_regionkey, count(*) from nation where n_name > 'A' group by 1 having count(*) > 1 order by 2 limit 3"
    )
    query = query_of(text, catalog)
    seen: list[Expr] = []

    def change(expr: Expr) -> Expr:
        seen.append(expr)
        return expr

    assert map_query(query, change, {}) == query
    assert {type(expr).__name__ for root in seen for expr in walk(root)} >= {"Column", "Literal", "Call", "Aggregate"}
    assert any(isinstance(e, Literal) and e.value == 3 for e in seen)


def test_deep_nesting_is_refused_and_long_chains_are_not(catalog: Any) -> None:
    with pytest.raises(NotSupportedError, match="nested too deeply"):
        query_of("select " + "(" * 5000 + "1" + ")" * 5000, catalog)
    chain = " and ".join(f"n_nationkey <> {i}" for i in range(2000))
    where = select_of(f"select 1 from nation where {chain}", catalog).where
    assert isinstance(where, Call) and len(where.args) == 2000


# ---- parameters ------------------------------------------------------------------------------------------------------

VALUES = [
    (7, INT, 7),
    (1 << 40, BIGINT, 1 << 40),
    (1 << 70, DECIMAL(22, 0), 1 << 70),
    (decimal.Decimal("1.50"), DECIMAL(3, 2), 150),
    (1.5, DOUBLE, 1.5),
    ("x", STRING, "x"),
    (True, BOOLEAN, True),
    (b"x", BINARY, b"x"),
    (datetime.date(1970, 1, 2), DATE, 1),
    (datetime.datetime(1970, 1, 1, 0, 0, 1), TIMESTAMP, 1_000_000),
]


@pytest.mark.parametrize(("value", "type_", "physical"), VALUES)
def test_a_parameter_is_a_typed_literal(value: Any, type_: Any, physical: Any, catalog: Any) -> None:
    ((_, expr),) = select_of("select ?", catalog, [value]).projection
    assert expr == Literal(type_, False, physical)
    assert type(expr.value) is type(physical)


def test_placeholders_of_each_style(catalog: Any) -> None:
    def values(text: str, parameters: Any) -> list[Any]:
        return [getattr(expr, "value", None) for _, expr in select_of(text, catalog, parameters).projection]

    # The order of the text counts, not that of the tree.
    assert values("select case when true then ? end is null, ?, ?", ["a", 2, 3])[1:] == [2, 3]
    assert values("select $2, $1, $2", [1, 2]) == [2, 1, 2]
    assert values("select :b, :a, :b", {"a": 1, "b": 2}) == [2, 1, 2]


def test_a_text_parameter_adapts_like_a_literal(catalog: Any) -> None:
    where = select_of(
        "select 1 from orders where o_orderdate < ? and o_orderkey = ?", catalog, ["1970-01-02", "5"]
    ).where
    assert where is not None
    assert [node.value for node in walk(where) if isinstance(node, Literal)] == [1, 5]


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("select ?", None, "1 placeholder, 0 given"),
        ("select ?, ?", [1], "2 placeholders, 1 given"),
        ("select 1", [1], "no placeholder, 1 given"),
        ("select $3", [1], "3 placeholders, 1 given"),
        ("select $0", [], "count from"),
        ("select :a, :b", {"a": 1}, "missing: :b"),
        ("select :a", {"a": 1, "c": 2}, "no placeholder :c"),
        ("select :a", [1], "as a mapping"),
        ("select ?", {"a": 1}, "as a sequence"),
        ("select ?, :a", [1], "one style"),
        ("select ?", "x", "not as one string"),
        ("select ?", [object()], "cannot be a object"),
    ],
)
def test_parameters_that_do_not_fit(text: str, parameters: Any, message: str, catalog: Any) -> None:
    with pytest.raises(InterfaceError, match=message):
        query_of(text, catalog, parameters)
