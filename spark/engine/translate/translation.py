r"""Translates a logical plan to Spark SQL.

Every node becomes a SELECT over its inputs; adjacent nodes share one if that is equivalent (`block.py`). A column of
the plan is named by its number:

    Project c7 = c1 + c2                 SELECT c1 + c2 AS c7
      Filter c3 > 0                      FROM orders_1 AS t1
        Scan -> relation "orders_1"      WHERE c3 > 0

Leaves are relations registered with Spark (temporary views), which the caller names: a scan always, or any subtree.
Shared subplans are common table expressions of the statement.

The text states nyala's semantics explicitly where Spark's differ: types by CAST, NULLs by NULLS FIRST and LAST.
Constructs that cannot be expressed raise `NotSupportedError`. The text requires a session with `SETTINGS`; without the
setting about decimals it raises an error instead of rounding differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlglot import exp

from ....errors import InternalError
from ....model.lazy_dataclass import dataclass
from ....model.types import MAX_PRECISION, Kind
from ....planner.algebra.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Series,
    SetOperation,
    Shared,
    SingleRow,
    Sort,
    TopRows,
    Values,
    Window,
    WorkingTable,
)
from ....sql.expressions import Column, Expr, Literal, OrderItem
from . import expressions, grouping, joins, windows
from .block import Aliases, Block, subquery, values
from .tree import (
    DIALECT,
    call,
    column,
    column_name,
    equal,
    error,
    named,
    not_supported,
    null,
    number,
    string,
    text,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RelationRef: TypeAlias = str
"""The name of a temporary view; its columns are c<number> for the number of each column of the node."""

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""Settings that a session needs while it analyses a translation; Spark's defaults, except for decimals and the time
zone."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The text of a plan.

    Attributes
    ----------
    text : one query of Spark SQL, without a semicolon
    columns : the names of the plan's columns, in order; a column that occurs twice in the plan is selected once, and
        its name occurs twice here
    tables : the relations that it reads
    """

    text: str
    columns: tuple[str, ...]
    tables: tuple[RelationRef, ...]


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Applies `SETTINGS` to a session while `spark.sql(translation.text)` is called, and restores the previous ones.

    A query keeps the settings under which it was analysed, so that it may run afterwards.
    """
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)


def translate(
    root: Node,
    relation_of: Callable[[Node], RelationRef | None],
    hints: Callable[[Join], str | None] = lambda join: None,
) -> Translation:
    """Writes a logical plan as Spark SQL.

    Parameters
    ----------
    root : Node
        The plan after all rules, with values in place of its parameters.
    relation_of : callable
        Returns the relation for a node, or None if the node is to be translated. Called from the top: nodes below a
        relation are not visited.
    hints : callable, optional
        For a join, returns None or `"<strategy> <side>"`: broadcast, shuffle_hash, merge or nested_loop; left or right.

    Raises
    ------
    NotSupportedError
        If Spark SQL cannot express a part of the plan with nyala's semantics; the message names it.
    InternalError
        If a scan has no relation.
    """
    writer = _Writer(relation_of, hints)
    query = writer.whole(root)
    names = tuple(column_name(of.id) for of in root.columns)
    return Translation(text(query), names, tuple(writer.tables))


class _Writer:
    """Writes one plan: its nodes, its shared subplans, its relations."""

    def __init__(self, relation_of: Callable[[Node], RelationRef | None], hints: Callable[[Join], str | None]):
        self.tables: dict[RelationRef, None] = {}
        self._relation_of = relation_of
        self._hints = hints
        self._aliases = Aliases()
        self._shared: dict[int, exp.Query] = {}

    def whole(self, root: Node) -> exp.Query:
        for of in root.columns:
            if of.type.kind is Kind.INTERVAL:
                raise not_supported(f"a result of type INTERVAL ({of.name})")
        query = self.block(root).query()
        if any(map(_is_exact_arithmetic, (query, *self._shared.values()))):
            query = _with_exact_decimals(query)
        for key, inner in self._shared.items():
            query = query.with_(_shared_name(key), as_=inner, copy=False)
        return query

    def block(self, node: Node) -> Block:
        """The node's rows."""
        relation = self._relation_of(node)
        if relation is not None:
            return self._relation(node, relation)
        writer = _NODES.get(type(node))
        if writer is None:
            raise InternalError(f"{type(node).__name__} has no relation, and cannot be written for Spark without one")
        return writer(self, node)

    def _relation(self, node: Node, name: RelationRef) -> Block:
        for of in node.columns:
            if of.type.kind is Kind.INTERVAL:
                raise not_supported(f"a relation with a column of type INTERVAL ({of.name})")
        self.tables[name] = None
        return Block(node.columns, source=exp.to_table(name).as_(self._aliases.next()))

    # ---- rows of constants -------------------------------------------------------------------------------------------

    def _values(self, node: Values) -> Block:
        if not node.rows:
            nothing = tuple(null(of.type) for of in node.output)
            return Block(node.output, items=nothing, where=(exp.false(),))
        rows = [[expressions.write(cell) for cell in row] for row in node.rows]
        if len(rows) == 1:
            return Block(node.output, items=tuple(rows[0]))
        if all(isinstance(cell, Literal) for row in node.rows for cell in row):
            return Block(node.output, source=values(node.output, rows, self._aliases.next()))
        selects = [Block(node.output, items=tuple(row)).query() for row in rows]
        return Block(node.output, finished=_union(selects))

    def _series(self, node: Series) -> Block:
        return windows.series(node, self.block(node.source), self._aliases)

    # ---- rows of rows ------------------------------------------------------------------------------------------------

    def _filter(self, node: Filter) -> Block:
        return self._aliases.opened(self.block(node.source)).filtered(expressions.write(node.predicate))

    def _project(self, node: Project) -> Block:
        source = self._aliases.opened(self.block(node.source))
        items = {of.id: (of, expr) for of, expr in node.items}.values()
        columns = tuple(of for of, _ in items)
        if all(isinstance(expr, Column) and expr.id == of.id for of, expr in items):
            return replace(source, columns=columns)
        return replace(source, columns=columns, items=tuple(expressions.write(expr) for _, expr in items))

    def _join(self, node: Join) -> Block:
        return joins.joined(node, self.block(node.left), self.block(node.right), self._hints(node), self._aliases)

    def _aggregate(self, node: Aggregate) -> Block:
        return grouping.grouped(node, self.block(node.source), self._aliases)

    def _window(self, node: Window) -> Block:
        return windows.windowed(node, self.block(node.source), self._aliases)

    def _single_row(self, node: SingleRow) -> Block:
        return joins.one_row(node.columns, self.block(node.source), self._aliases)

    # ---- order and number --------------------------------------------------------------------------------------------

    def _sort(self, node: Sort) -> Block:
        query = self._ordered(self.block(node.source), node.order)
        return Block(node.columns, finished=_cut(query, node.limit, node.offset))

    def _ordered(self, block: Block, order: Sequence[OrderItem]) -> exp.Query:
        query = self._aliases.opened(block).query() if block.finished is not None else block.query()
        keys = windows.order_keys(order)
        return query.order_by(*keys, copy=False) if keys else query

    def _limit(self, node: Limit) -> Block:
        block = self.block(node.source)
        query = block.finished
        if query is None or any(query.args.get(name) for name in ("limit", "offset")):
            query = self._aliases.opened(block).query()
        return Block(node.columns, finished=_cut(query, node.limit, node.offset))

    def _top_rows(self, node: TopRows) -> Block:
        block = self.block(node.source)
        if not node.groups and not node.ties:
            return Block(node.columns, finished=_cut(self._ordered(block, node.order), node.limit, node.offset))
        found = windows.top_rows(node, block, self._aliases)
        if node.groups:
            return found
        return Block(node.columns, finished=self._ordered(found, node.order))

    # ---- several inputs, used several times --------------------------------------------------------------------------

    def _set_operation(self, node: SetOperation) -> Block:
        left, right = (self._renamed(side, node.output) for side in (node.left, node.right))
        kind = {"union": exp.Union, "intersect": exp.Intersect, "except": exp.Except}[node.kind]
        return Block(node.output, finished=kind(this=left, expression=right, distinct=not node.all))

    def _renamed(self, node: Node, output: Sequence[Column]) -> exp.Query:
        """The node's columns by position, under other numbers."""
        block = self._aliases.opened(self.block(node))
        return block.selecting([named(column(of), new.id) for of, new in zip(node.columns, output)])

    def _shared_use(self, node: Shared) -> Block:
        if node.key not in self._shared:
            query = self.block(node.source).query()
            self._shared[node.key] = query
        source = exp.to_table(_shared_name(node.key)).as_(self._aliases.next())
        block = Block(node.source.columns, source=source)
        return Block(node.output, source=source, items=tuple(column(of) for of in block.columns))

    def _recursion(self, node: Recursive | WorkingTable) -> Block:
        raise not_supported("WITH RECURSIVE")


def _is_exact_arithmetic(query: exp.Query) -> bool:
    """True if the query computes with DECIMALs."""
    casts = query.find_all(exp.Cast)
    return any(one.to.is_type("decimal") and isinstance(one.this, exp.Binary) for one in casts)


def _with_exact_decimals(query: exp.Query) -> exp.Query:
    """Adds a condition that fails in a session with the wrong setting for DECIMALs.

    Spark evaluates it to TRUE or to an error during planning: a session that rounds sums and products of DECIMALs gives
    them other types.
    """
    wide = f"CAST(0 AS DECIMAL({MAX_PRECISION}, 16))"
    message = "this session's spark.sql.decimalOperations.allowPrecisionLoss must be false while it reads the query"
    exact = equal(call("typeof", exp.maybe_parse(f"{wide} + {wide}", dialect=DIALECT)), string("decimal(38,16)"))
    guard = call("if", exact, exp.true(), error(message, "BOOLEAN"))
    if not isinstance(query, exp.Select):
        query = exp.Select(expressions=[exp.Star()]).from_(subquery(query, "whole"))
    found: exp.Query = query.where(guard, copy=False)
    return found


def _shared_name(key: int) -> str:
    return f"shared_{key}"


def _union(queries: Sequence[exp.Query]) -> exp.Query:
    """UNION ALL, as a balanced tree."""
    if len(queries) == 1:
        return queries[0]
    middle = len(queries) // 2
    return exp.Union(this=_union(queries[:middle]), expression=_union(queries[middle:]), distinct=False)


def _cut(query: exp.Query, limit: Expr | None, offset: Expr | None) -> exp.Query:
    """LIMIT and OFFSET."""
    most, skipped = windows.constant_count(limit, "LIMIT"), windows.constant_count(offset, "OFFSET")
    if most is not None and most < 2**31:
        query.set("limit", exp.Limit(expression=number(most)))
    if skipped:
        query.set("offset", exp.Offset(expression=number(min(skipped, 2**31 - 1))))
    return query


_NODES: Mapping[type[Node], Callable[[Any, Any], Block]] = {
    Values: _Writer._values,
    Series: _Writer._series,
    Filter: _Writer._filter,
    Project: _Writer._project,
    Join: _Writer._join,
    Aggregate: _Writer._aggregate,
    Window: _Writer._window,
    Sort: _Writer._sort,
    Limit: _Writer._limit,
    TopRows: _Writer._top_rows,
    SetOperation: _Writer._set_operation,
    SingleRow: _Writer._single_row,
    Shared: _Writer._shared_use,
    Recursive: _Writer._recursion,
    WorkingTable: _Writer._recursion,
}
