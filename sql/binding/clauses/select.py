"""Binds one SELECT block with its ORDER BY: FROM, WHERE, GROUP BY, select list, HAVING, ORDER BY, in this order.

ORDER BY belongs here because it may name columns that the select list does not have: such keys become hidden columns at
the end of the projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import SqlSyntaxError, StatementError
from ....model.lazy_dataclass import dataclass
from ....model.types import STRING, Kind
from ...bound import Query, Select
from ...coercion import convert
from ...expressions import Column, Expr, OrderItem, Window
from ..context import Aggregates, Context, Frame, Windows, name_of, only, unsupported
from ..expressions.catalog_syntax import REFERENCES, shown_reference
from ..expressions.expressions import condition
from ..expressions.windows import bind_definitions, bind_qualify, check_distinct_on, definitions_of, with_outputs
from ..scope import Scope
from .from_clause import Source, bind_from
from .grouping import (
    Grouping,
    bind_groups,
    determined_columns,
    group_columns,
    scope_of_sets,
    with_added,
)
from .grouping_sets import GroupBy
from .set_returning import with_rows

_PARTS = (
    *("expressions", "from_", "joins", "where", "group", "having", "windows", "qualify"),
    *("distinct", "order", "limit", "offset", "with_", "locks"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the select list, stars expanded: its name, bound expression and syntax node."""

    name: str
    expr: Expr
    node: Any


@dataclass(frozen=True, slots=True)
class _Above:
    """The bound clauses above the aggregation."""

    items: list[Item]
    having: Expr | None
    order: list[_Key]
    qualify: Expr | None
    distinct_on: list[_Key]
    windows: tuple[tuple[Column, Window], ...]


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """A bound block, its order, and the number of its visible columns."""

    body: Select
    order: tuple[OrderItem, ...]
    visible: int


def bind_select(node: exp.Select, scope: Scope, context: Context) -> BoundSelect:
    """Binds a SELECT and its ORDER BY; LIMIT and WITH belong to the query."""
    only(node, *_PARTS)
    if node.args.get("locks") and node is not context.locking:
        raise unsupported(node.args["locks"][0])
    node = with_rows(node)
    source = _source(node, scope, context)
    outputs = frozenset(name_of(item.args["alias"]) for item in node.expressions if _renames(item))
    fields, aliases = (source.fields, source.aliases) if source else ((), ())
    inner = Scope(scope, fields, aliases, outputs=outputs)
    where = node.args.get("where")
    test = condition(where.this, Frame(context, inner, "WHERE")) if where else None
    return _Block(node, inner, context).bind(source, test)


def _renames(item: Any) -> bool:
    """True for an item of a select list with a name that is not its column's."""
    if not isinstance(item, exp.Alias):
        return False
    return not isinstance(item.this, exp.Column) or name_of(item.this.this) != name_of(item.args["alias"])


def _source(node: exp.Select, scope: Scope, context: Context) -> Source | None:
    from_, joins = node.args.get("from_"), node.args.get("joins") or []
    if from_ is None:
        if joins:
            raise unsupported(joins[0])
        return None
    only(from_, "this")
    return bind_from(from_.this, joins, scope, context)


class _Block:
    """The part of a SELECT above WHERE, where grouped and plain blocks differ."""

    def __init__(self, node: exp.Select, scope: Scope, context: Context) -> None:
        self.node = node
        self.scope = scope
        self.context = context
        self.aggregates = Aggregates(False)
        self.windows = Windows()
        self.grouped_queries: dict[Any, Query] = {}

    def bind(self, source: Source | None, where: Expr | None) -> BoundSelect:
        node = self.node
        clause = node.args.get("group")
        if clause:
            self.scope = scope_of_sets(clause, self.scope)
            group_by = bind_groups(clause, node.expressions, self._frame("GROUP BY", grouped=False))
            self.aggregates.group_by, self.aggregates.grouped = group_by, group_by.has_rows
        else:
            group_by = GroupBy(())
        above = self._above()
        columns = group_columns(group_by, self.context)
        grouped = bool(clause or above.having is not None or self.aggregates.found)
        if grouped:
            determined = determined_columns(source.relation if source else None, group_by)
            grouping = Grouping(self.context, columns, self.scope.own_columns, determined)
            above = self._lifted(above, grouping)
            group_by, columns = with_added(group_by, len(grouping.added)), (*columns, *grouping.added.values())
        projection = [
            (self.context.column(item.name, item.expr.type, item.expr.nullable), item.expr) for item in above.items
        ]
        distinct = node.args.get("distinct") is not None and not above.distinct_on
        firsts = tuple(self._place(key, projection, distinct) for key in above.distinct_on)
        places = [self._place(key, projection, distinct) for key in above.order]
        if firsts:
            check_distinct_on(firsts, [(place, key.node) for place, key in zip(places, above.order)], self.context)
        keys = tuple(OrderItem(place, key.descending, key.nulls_first) for place, key in zip(places, above.order))
        body = Select(
            source.relation if source else None,
            where,
            tuple(projection),
            columns,
            tuple((column, call) for call, column in self.aggregates.found.items()),
            above.having,
            grouped,
            distinct,
            above.windows,
            above.qualify,
            firsts,
            group_by.sets,
            group_by.number,
        )
        return BoundSelect(body, keys, len(above.items))

    def _above(self) -> _Above:
        """Binds the clauses above GROUP BY, in the order in which they may refer to each other."""
        node, frame = self.node, self._frame("WINDOW")
        self.windows.definitions = definitions_of(node.args.get("windows") or (), frame)
        items = self._items()
        having_node = node.args.get("having")
        having = condition(having_node.this, self._frame("HAVING")) if having_node else None
        order = self._order(items)
        qualify = bind_qualify(node, items, self._frame("QUALIFY"))
        bind_definitions(frame)
        distinct_on = self._distinct_on(items)
        windows = tuple((column, call) for call, (column, _) in self.windows.found.items())
        return _Above(items, having, order, qualify, distinct_on, windows)

    def _lifted(self, above: _Above, grouping: Grouping) -> _Above:
        """The clauses rewritten over grouped columns."""

        def keys(found: list[_Key]) -> list[_Key]:
            return [replace(key, expr=grouping.lift(key.expr, key.node)) for key in found]

        def test(name: str, expr: Expr | None) -> Expr | None:
            return grouping.lift(expr, self.node.args.get(name)) if expr is not None else None

        items = [replace(item, expr=grouping.lift(item.expr, item.node)) for item in above.items]
        having, qualify = test("having", above.having), test("qualify", above.qualify)
        calls = [(column, grouping.lift(call, node)) for call, (column, node) in self.windows.found.items()]
        windows = tuple((column, call) for column, call in calls if isinstance(call, Window))
        return _Above(items, having, keys(above.order), qualify, keys(above.distinct_on), windows)

    def _frame(self, clause: str, grouped: bool = True) -> Frame:
        windows = None if clause in ("GROUP BY", "HAVING") else self.windows
        aggregates = self.aggregates if grouped else None
        return Frame(
            self.context, self.scope, clause, aggregates, windows=windows, grouped_queries=self.grouped_queries
        )

    def _distinct_on(self, items: list[Item]) -> list[_Key]:
        """The expressions of DISTINCT ON, which may name output columns as ORDER BY may."""
        clause = self.node.args.get("distinct")
        on = clause.args.get("on") if clause is not None else None
        if on is None:
            return []
        nodes = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
        if not nodes:
            with self.context.at(clause):
                raise SqlSyntaxError("DISTINCT ON needs at least one expression")
        return [self._keyed(node, items, "DISTINCT ON") for node in nodes]

    # ---- the select list ---------------------------------------------------------------------------------------------

    def _items(self) -> list[Item]:
        if not self.node.expressions:
            raise SqlSyntaxError("SELECT needs at least one expression")
        return [item for node in self.node.expressions for item in self._item(node)]

    def _item(self, node: Any) -> list[Item]:
        star, qualifier = star_of(node)
        if star:
            with self.context.at(node):
                fields = self.scope.star(qualifier)
                if not self.scope.relations:
                    raise SqlSyntaxError("SELECT * needs a FROM")
            self.context.stars[id(node)] = fields
            for field in fields:
                if isinstance(field.expr, Column):
                    self.context.mentions.setdefault(field.expr.id, []).append(node)
            return [Item(field.name, self._shown(field.expr), node) for field in fields]
        inner = node.this if isinstance(node, exp.Alias) else node
        expr = self._frame("SELECT").bind(inner)
        if expr.type.kind is Kind.NULL:
            expr = convert(expr, STRING)  # as PostgreSQL resolves a bare NULL
        return [Item(output_name(node), self._shown(expr), inner)]

    def _shown(self, expr: Expr) -> Expr:
        """An item as clients see it: `regclass` and its like are numbers in the statement, and names in its result."""
        if expr.type.alias not in REFERENCES or self.context.within or not _is_outermost(self.node):
            return expr
        return shown_reference(expr, self._frame("SELECT"))

    # ---- ORDER BY ----------------------------------------------------------------------------------------------------

    def _order(self, items: list[Item]) -> list[_Key]:
        clause = self.node.args.get("order")
        if clause is None:
            return []
        only(clause, "expressions")
        return [self._key(node, items) for node in clause.expressions]

    def _key(self, node: exp.Ordered, items: list[Item]) -> _Key:
        only(node, "this", "desc", "nulls_first")
        key = self._keyed(node.this, items, "ORDER BY")
        return replace(key, descending=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first")))

    def _keyed(self, node: Any, items: list[Item], clause: str) -> _Key:
        with self.context.at(node):
            position = output_position(node, [item.name for item in items], self.node.expressions, clause)
        if position is not None:
            return _Key(items[position].expr, node, position=position)
        frame = self._frame(clause)
        return _Key(replace(frame, scope=with_outputs(self.scope, items, node)).bind(node), node)

    def _place(self, key: _Key, projection: list[tuple[Column, Expr]], distinct: bool) -> Column:
        """The key's column of the projection, to which it is added if it is missing."""
        if key.position is not None:
            return projection[key.position][0]
        found = next((column for column, expr in projection if expr == key.expr), None)
        if found is None:
            if distinct:
                with self.context.at(key.node):
                    raise StatementError("with SELECT DISTINCT, ORDER BY can only use what is in the select list")
            found = self.context.column("order", key.expr.type, key.expr.nullable)
            projection.append((found, key.expr))
        return found


@dataclass(frozen=True, slots=True)
class _Key:
    """One ORDER BY key before it has a column; `position` is that of the select item that it names."""

    expr: Expr
    node: Any
    descending: bool = False
    nulls_first: bool = False
    position: int | None = None


def output_position(node: Any, names: Sequence[str], items: Sequence[Any], clause: str = "ORDER BY") -> int | None:
    """The position of the output column that a key names by ordinal or bare name; None for any other expression.

    An output name wins over a column of FROM, as in PostgreSQL. Ordinals count output columns, stars expanded.
    """
    if isinstance(node, exp.Literal):
        text = str(node.this)
        if node.is_string or not text.isdigit():
            raise SqlSyntaxError(f"a constant in {clause} must be a position in the select list")
        if not 1 <= int(text) <= len(names):
            raise SqlSyntaxError(f"{clause} position {text} is not in the select list of {len(names)}")
        return int(text) - 1
    if isinstance(node, exp.Column) and not node.args.get("table") and isinstance(node.this, exp.Identifier):
        positions = [i for i, name in enumerate(names) if name == name_of(node.this)]
        # A repeated name is resolved in FROM, which finds out whether the columns are the same.
        return positions[0] if len(positions) == 1 else None
    return None


def _is_outermost(node: Any) -> bool:
    """True if the rows of a query are the statement's."""
    parent = node.parent
    while isinstance(parent, exp.SetOperation):
        parent = parent.parent
    return parent is None


def star_of(node: Any) -> tuple[bool, str | None]:
    """True for `*` or `qualifier.*`, and the qualifier."""
    if isinstance(node, exp.Star):
        only(node)
        return True, None
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        only(node, "this", "table")
        only(node.this)
        return True, name_of(node.args["table"])
    return False, None


def output_name(node: Any) -> str:
    """The output name of a select item: its alias, its column, its function, else `?column?` (PostgreSQL)."""
    if isinstance(node, exp.Alias):
        return name_of(node.args["alias"])
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column):
        return name_of(node.this)
    if isinstance(node, exp.Anonymous):
        return str(node.this.this if isinstance(node.this, exp.Identifier) else node.this).lower()
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window | exp.IgnoreNulls | exp.RespectNulls):
        return output_name(node.this)
    if isinstance(node, exp.Cast | exp.TryCast) and not isinstance(node.this, exp.Literal):
        return output_name(node.this)
    names = {
        exp.Case: "case",
        exp.Extract: "extract",
        exp.Exists: "exists",
        exp.Cast: _type_name(node),
    }
    return names.get(type(node), "?column?")


def _type_name(node: Any) -> str:
    kind = node.args["to"].this if isinstance(node, exp.Cast) else None
    return str(kind.value).lower() if isinstance(kind, exp.DataType.Type) else "?column?"
