"""The same statement by nyala's own engine and, through its translation, by Spark; the rows are to be equal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from nyala.model.types import type_from_arrow
from nyala.planner import plan_query
from nyala.planner.algebra.logical import Node, Scan
from nyala.spark.engine.translate import expressions
from nyala.spark.engine.translate.translation import Translation, settings, translate
from nyala.spark.engine.translate.tree import column_name
from nyala.spark.types import spark_schema
from nyala.sql import bind, parse
from sqlglot import exp

Row = tuple[Any, ...]


class Oracle:
    """A connection of nyala's and a Spark session over the same tables, which the session gets as temporary views."""

    def __init__(self, spark: Any, connection: Any, prefix: str = "base"):
        self._spark, self._connection, self._prefix = spark, connection, prefix
        self._bases: set[str] = set()
        self._relations = 0
        self.hints: Any = lambda join: None

    def provide(self, table: str, data: Any) -> None:
        """Rows of a table, an Arrow table or a Spark DataFrame, so that they need not be read out of nyala."""
        frame = data
        if not hasattr(data, "createOrReplaceTempView"):
            columns = [(field.name, type_from_arrow(field.type), True) for field in data.schema]
            frame = self._spark.createDataFrame(data, schema=spark_schema(columns))
        frame.createOrReplaceTempView(f"{self._prefix}_{table}")
        self._bases.add(table)

    def ours(self, text: str) -> list[Row]:
        rows: list[Row] = self._connection.execute(text).fetchall()
        return rows

    def translated(self, text: str) -> Translation:
        """The statement's plan as Spark SQL; scans are views that have the scan's predicates applied."""
        store = self._connection.session.store
        plan = plan_query(bind(parse(text)[0], store).query, store)
        return translate(plan.logical, self._relation, self.hints)

    def theirs(self, text: str) -> list[Row]:
        return self.run(self.translated(text))

    def run(self, translation: Translation) -> list[Row]:
        with settings(self._spark):
            frame = self._spark.sql(translation.text)
        found = frame.toArrow()
        columns = [found.column(found.column_names.index(name)).to_pylist() for name in translation.columns]
        return list(zip(*columns)) if columns else [()] * found.num_rows

    def _relation(self, node: Node) -> str | None:
        if not isinstance(node, Scan):
            return None
        self._relations += 1
        name = f"{self._prefix}_relation_{self._relations}"
        with settings(self._spark):
            self._spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {self._scan(node).sql('spark')}")
        return name

    def _scan(self, node: Scan) -> exp.Select:
        table = node.table.name
        if table not in self._bases:
            self.provide(table, self._connection.execute(f"SELECT * FROM {table}").arrow())
        numbered = exp.Select(
            expressions=[exp.alias_(exp.column(name), column_name(i)) for i, name in node.source_names]
        )
        inner = exp.Subquery(
            this=numbered.from_(f"{self._prefix}_{table}"), alias=exp.TableAlias(this=exp.to_identifier("i"))
        )
        shown = [exp.column(column_name(of.id)) for of in node.output] or [exp.alias_(exp.Literal.number(0), "nothing")]
        outer = exp.Select(expressions=shown).from_(inner)
        for predicate in node.predicates:
            outer = outer.where(expressions.write(predicate))
        return outer


def difference(ours: Sequence[Row], theirs: Sequence[Row], ordered: bool = False) -> str | None:
    """Description of the difference; None if the rows are equal, in any order, floats up to their last digits."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, and {len(theirs)} of Spark: {list(ours)[:3]}, {list(theirs)[:3]}"
    if not ordered:
        ours, theirs = sorted(ours, key=_sortable), sorted(theirs, key=_sortable)
    for place, (one, other) in enumerate(zip(ours, theirs)):
        if len(one) != len(other) or not all(map(same, one, other)):
            return f"row {place} is {one}, and {other} of Spark"
    return None


def same(one: Any, other: Any) -> bool:
    """Equal values of one Python type; floats within 1e-9."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (
            one == other
            or (math.isnan(one) and math.isnan(other))
            or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
        )
    return bool(one == other)


def _sortable(row: Row) -> list[tuple[bool, str]]:
    return [(value is None, f"{value:.6g}" if isinstance(value, float) else repr(value)) for value in row]


def differing_columns(
    oracle: Oracle, table: str, expressions_: Sequence[str], where: str = "true", at_once: int = 40
) -> Iterator[str]:
    """For expressions over a table with the key k: which differ, in which row."""
    for first in range(0, len(expressions_), at_once):
        chunk = expressions_[first : first + at_once]
        items = ", ".join(f"{text} AS e{i}" for i, text in enumerate(chunk))
        statement = f"SELECT k, {items} FROM {table} WHERE {where} ORDER BY k"
        ours, theirs = oracle.ours(statement), oracle.theirs(statement)
        for i, text in enumerate(chunk, 1):
            for one, other in zip(ours, theirs, strict=True):
                if not same(one[i], other[i]):
                    yield f"{text}: {one[i]!r}, and {other[i]!r} of Spark, in row {one[0]}"
                    break
