"""Binds aggregate calls: DISTINCT, ORDER BY and separators inside them, WITHIN GROUP, FILTER; and GROUPING.

    string_agg(DISTINCT name, ', ' ORDER BY name DESC) FILTER (WHERE age > 3)
    percentile_cont(0.5) WITHIN GROUP (ORDER BY age)
    grouping(country, city)

A call is extracted from the expression around it and replaced by a column (`context.Aggregates` collects the calls).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import GroupingError, SqlSyntaxError, TypeMismatch, UnknownFunction
from ....model.lazy_dataclass import dataclass
from ....model.types import INT, STRING
from ... import functions
from ...bound import Query, SubqueryRef
from ...expressions import Aggregate, Column, Expr, Literal, OrderItem, columns_of, walk
from ...expressions import Call as ScalarCall
from ...subqueries import SUBQUERIES, ScalarSubquery
from ..clauses.grouping_sets import grouping_value
from ..clauses.query_casts import select_from
from ..context import Frame, Handler, name_of, only
from ..scope import Scope
from ..traverse import columns_read
from .comparisons import connect
from .expressions import call as bind_scalar
from .expressions import condition


@dataclass(frozen=True, slots=True)
class Call:
    """A call in its syntax; `order` are the keys of ORDER BY inside it, `within` those of WITHIN GROUP."""

    name: str
    node: Any
    args: Sequence[Any]
    distinct: bool = False
    order: Sequence[Any] = ()
    within: Sequence[Any] | None = None
    filter: Any = None


def read(node: Any) -> Call:
    """The parts of a call of any form."""
    condition_, within = None, None
    if isinstance(node, exp.Filter):
        condition_, node = node.expression.this, node.this
    if isinstance(node, exp.WithinGroup):
        only(node.expression, "expressions")
        within, node = node.expression.expressions, node.this
    if not isinstance(node, exp.Anonymous):
        raise SqlSyntaxError("FILTER and WITHIN GROUP must follow the call of an aggregate function")
    only(node, "this", "expressions")
    name = name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    args, order = list(node.expressions), ()
    if args and isinstance(args[-1], exp.Order):
        order = args[-1].expressions
        only(args[-1], "this", "expressions")
        args[-1] = args[-1].this
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        only(args[0], "expressions")
        args = list(args[0].expressions)
    return Call(name, node, args, distinct, order, within, condition_)


def _call(node: Any, frame: Frame) -> Expr:
    name = name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    if name == "grouping":
        return _grouping(node, frame)
    if name == "array" and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query):
        return _array_of_query(node.expressions[0], frame)
    function = functions.REGISTRY.get(name)
    return _column(node, frame) if function is not None and function.aggregate else bind_scalar(node, frame)


def _column(node: Any, frame: Frame) -> Expr:
    """The column that represents an aggregate call."""
    call = read(node)
    function = functions.look_up(call.name)
    if not function.aggregate:
        word = "FILTER" if call.filter is not None else "WITHIN GROUP"
        raise TypeMismatch(f"only aggregate functions take {word}, and {call.name} is not one")
    aggregate = _bound(call, function, frame.inside(call.name))
    owner = _owner(aggregate, frame)
    if owner is None:
        raise GroupingError(f"aggregate function {call.name} is not allowed in FROM over columns of the same FROM")
    if owner.within is not None:
        raise GroupingError(f"aggregate calls cannot be nested: {call.name} is inside {owner.within}")
    if owner.aggregates is None:
        raise GroupingError(f"aggregate function {call.name} is not allowed in {owner.clause}{_instead(owner.clause)}")
    inputs = (*aggregate.args, *(item.expr for item in aggregate.order))
    solid = owner.aggregates.grouped and aggregate.filter is None and not any(arg.nullable for arg in inputs)
    solid = solid and functions.AGGREGATES[aggregate.function].always_defined
    aggregate = replace(aggregate, nullable=aggregate.nullable and not solid)
    column = owner.aggregates.column(aggregate, frame.context)
    return in_braces(column) if function.name == "array_agg" else column


def in_braces(elements: Expr) -> Expr:
    """An array of elements that are joined by commas."""
    opened, closed = Literal(STRING, False, "{"), Literal(STRING, False, "}")
    return ScalarCall(elements.type, elements.nullable, "concat", (opened, elements, closed))


def _array_of_query(node: Any, frame: Frame) -> Expr:
    """`ARRAY (SELECT ...)`: the rows of a query of one column, in its order, as an array."""
    query = frame.bind_query(node)
    if len(query.columns) != 1:
        raise TypeMismatch(f"the query of ARRAY must have one column, not {len(query.columns)}")
    ordered = query.order if query.limit is None and query.offset is None else ()
    whole = replace(query, columns=(*query.columns, *query.hidden), hidden=(), order=query.order if not ordered else ())
    inner = select_from(whole, frame.context)
    assert isinstance(inner.relation, SubqueryRef)
    fresh = {old.id: new for old, new in zip(whole.columns, inner.relation.columns, strict=True)}
    order = tuple(replace(item, expr=fresh[item.expr.id]) for item in query.order if isinstance(item.expr, Column))
    built = functions.build("array_agg", (inner.relation.columns[0],))
    assert isinstance(built, Aggregate)
    joined = frame.context.column("array_agg", built.type, True)
    column = frame.context.column("array", built.type, False)
    empty = Literal(built.type, False, "{}")
    value = ScalarCall(built.type, False, "coalesce", (in_braces(joined), empty))
    body = replace(
        inner, projection=((column, value),), aggregates=((joined, replace(built, order=order)),), grouped=True
    )
    return ScalarSubquery(built.type, True, Query(body, (column,)))


def _owner(call: Aggregate, frame: Frame) -> Frame | None:
    """The frame of the query that computes an aggregate: the innermost one whose columns it reads (SQL standard).

    A call that reads no columns belongs to the query that contains it. None for a query whose columns are visible by
    LATERAL only.

    `SELECT (SELECT sum(t.a) FROM u) FROM t` sums the rows of t.
    """
    read_ = _columns_read(call)
    scope: Scope | None = frame.scope
    owner: Frame | None = frame
    while read_ and scope is not None:
        if read_ & scope.own_columns:
            return owner
        scope = scope.parent
        owner = scope.holder if scope is not None else None
    return frame


def _columns_read(expr: Expr) -> frozenset[int]:
    """The columns that an expression reads, its subqueries included."""
    numbers = columns_of(expr)
    for node in walk(expr):
        if isinstance(node, SUBQUERIES) and node.query is not None:
            numbers |= columns_read(node.query)
    return numbers


def _bound(call: Call, function: functions.Function, frame: Frame) -> Aggregate:
    """The call with its arguments and clauses bound; `frame` is that of its insides."""
    args = _arguments(call, function, frame)
    if call.order and args is not None and len(args) < function.least:
        raise UnknownFunction(f"ORDER BY must follow the last argument of {call.name}: {function.signature}")
    built = function.build(function, ()) if args is None else functions.build(call.name, args)
    assert isinstance(built, Aggregate)
    if call.distinct and built.function == "count" and not built.args:
        raise TypeMismatch(f"{call.name} takes no DISTINCT")
    order = built.order
    if call.within is not None:
        _, descending, nulls_first = _key(call.within[0])
        order = (OrderItem(built.order[0].expr, descending, nulls_first),)
    elif call.order:
        order = _order(call, built, frame)
    test = built.filter
    if call.filter is not None:
        given = condition(call.filter, replace(frame, clause="FILTER"))
        test = given if test is None else connect("and", (test, given))
    return replace(built, distinct=call.distinct, filter=test, order=order)


def _arguments(call: Call, function: functions.Function, frame: Frame) -> tuple[Expr, ...] | None:
    """The arguments, with the key of WITHIN GROUP as the last; None for the * of count(*)."""
    before = function.within_group
    if before is not None and call.within is None and not (call.name == "mode" and call.args):
        raise TypeMismatch(f"{call.name} is written {function.signature}")
    if call.within is not None:
        if before is None:
            names = [f.name for f in functions.AGGREGATES.values() if f.within_group is not None]
            raise TypeMismatch(f"{call.name} takes no WITHIN GROUP; {', '.join(names)} do")
        if call.distinct or call.order:
            raise TypeMismatch(f"{call.name} takes neither DISTINCT nor ORDER BY together with WITHIN GROUP")
        if len(call.within) != 1 or len(call.args) != before:
            raise UnknownFunction(f"{call.name} is written {function.signature}")
        return frame.bind_all([*call.args, _key(call.within[0])[0]])
    star = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], exp.Star) else None
    if call.name == "count" and star is not None and not call.distinct:
        only(star)
        return None
    return frame.bind_all(call.args)


def _key(node: exp.Ordered) -> tuple[Any, bool, bool]:
    only(node, "this", "desc", "nulls_first")
    return node.this, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def _order(call: Call, found: Aggregate, frame: Frame) -> tuple[OrderItem, ...]:
    """ORDER BY inside a call: bound to check it, kept only if the aggregate depends on order."""
    items = []
    for node in call.order:
        inner, descending, nulls_first = _key(node)
        with frame.context.at(inner):
            if isinstance(inner, exp.Literal):
                raise SqlSyntaxError(f"ORDER BY inside {call.name} needs an expression; a number is not a position")
            expr = frame.bind(inner)
            if call.distinct and expr not in found.args:
                raise TypeMismatch(f"with DISTINCT, ORDER BY inside {call.name} can only use the arguments")
        items.append(OrderItem(expr, descending, nulls_first))
    return tuple(items) if functions.AGGREGATES[found.function].order_sensitive else found.order


def _instead(clause: str) -> str:
    hint = {"WHERE": "use HAVING for conditions on groups", "SET": "put it into a subquery"}.get(clause)
    return f"; {hint}" if hint else ""


# ---- GROUPING --------------------------------------------------------------------------------------------------------


def _grouping(node: exp.Anonymous, frame: Frame) -> Expr:
    """`grouping(a, b)`: one bit per argument, the last one's lowest; 1 if the row's grouping set does not have it."""
    if frame.within is not None:
        raise GroupingError(f"grouping() is not allowed inside the aggregate {frame.within}")
    if frame.aggregates is None:
        raise GroupingError(f"grouping() is not allowed in {frame.clause}{_instead(frame.clause)}")
    group_by = frame.aggregates.group_by
    if not 1 <= len(node.expressions) <= 31:
        raise UnknownFunction(f"grouping takes 1 to 31 arguments, and was given {len(node.expressions)}")
    places = []
    for arg in node.expressions:
        expr = frame.inside("grouping").bind(arg)
        with frame.context.at(arg):
            if group_by is None or expr not in group_by.groups:
                raise GroupingError("the arguments of grouping must be expressions of this query's GROUP BY")
        places.append(group_by.groups.index(expr))
    if group_by is None or group_by.sets is None or group_by.number is None:
        return Literal(INT, False, 0)
    return grouping_value(places, group_by.sets, group_by.number)


HANDLERS: dict[type, Handler] = {
    exp.Anonymous: _call,
    exp.Filter: _column,
    exp.WithinGroup: _column,
}
