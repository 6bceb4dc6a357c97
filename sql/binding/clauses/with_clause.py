"""Binds WITH: each query once, after the queries that it reads.

A query of WITH RECURSIVE may read itself: it is then `anchor UNION [ALL] step`. In the step, its name refers to the
rows of the previous round (`bound.WorkingRef`). The positions where that name is not allowed are PostgreSQL's, for the
same reason: every round must be computable from the new rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ....errors import GroupingError, NotSupportedError, StatementError, TypeMismatch, UnknownTable
from ....model.types import STRING, Kind
from ...bound import Join, Query, Recursive, Relation, Select, SetOperation, SubqueryRef, WorkingRef
from ...coercion import unify
from ..context import Context, name_of, only, unsupported
from ..scope import CommonTable, Scope
from .query_casts import cast_query, is_same, outputs


def bind_with(node: exp.With, query: Any, scope: Scope, context: Context) -> Scope:
    """The scope of `query` with the names of its WITH."""
    search = node.args.get("search")
    if search is not None:
        with context.at(search):
            clause = "CYCLE" if search.args["kind"] == "CYCLE" else "SEARCH"
            raise NotSupportedError(f"{clause} in WITH RECURSIVE is not supported; {_INSTEAD}")
    only(node, "expressions", "recursive")
    ctes = _named(node, context)
    found: dict[str, CommonTable] = {}
    # Counted by name in the text: a shadowing CTE of the same name may be counted too, which costs only a wrong hint.
    uses = Counter(_table_names(query))
    recursive = bool(node.args.get("recursive"))
    for name in _in_order(ctes, context) if recursive else ctes:
        cte = ctes[name]
        inner = Scope(scope, common_tables=MappingProxyType(dict(found)))
        if recursive and next(_uses(cte.this, name), None) is not None:
            bound = _recursive(cte, name, inner, context)
        else:
            bound = _plain(cte, name, inner, context)
        found[name] = CommonTable(bound, _column_names(cte, name, bound, context), uses[name] > 1)
    return Scope(scope, common_tables=MappingProxyType(found))


def _plain(cte: exp.CTE, name: str, scope: Scope, context: Context) -> Query:
    try:
        return context.bind_query(cte.this, scope, context)
    except UnknownTable as error:
        own = next(_uses(cte.this, name), None)
        if own is None or not error.message.startswith(f"table {name} does not exist;"):
            raise
        with context.at(own):
            raise StatementError(f"{name} reads itself, which only a query of WITH RECURSIVE may") from None


_INSTEAD = "carry the path, or a column to order by, along as a column"


def _named(node: exp.With, context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for cte in node.expressions:
        with context.at(cte.args["alias"]):
            if not isinstance(cte, exp.CTE):
                raise unsupported(cte)
            only(cte, "this", "alias", "materialized")
            name = name_of(cte.args["alias"].this)
            if name in found:
                raise StatementError(f"WITH names {name} twice")
        found[name] = cte
    return found


def _column_names(cte: exp.CTE, name: str, bound: Query, context: Context) -> tuple[str, ...]:
    alias = cte.args["alias"]
    names = [name_of(column) for column in alias.args.get("columns") or []]
    with context.at(alias):
        if len(names) > len(bound.columns):
            raise TypeMismatch(f"{name} has {len(bound.columns)} columns, {len(names)} names are given")
    return tuple(names) + tuple(column.name for column in bound.columns[len(names) :])


# ---- who reads whom --------------------------------------------------------------------------------------------------


def _names(table: Any, name: str) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.args.get("db") and name_of(table.this) == name


def _table_names(node: Any) -> Iterator[str]:
    """The names of the tables below a syntax node, with repetitions."""
    for table in node.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.args.get("db"):
            yield name_of(table.this)


def _uses(node: Any, name: str) -> Iterator[Any]:
    """The tables with a name below a syntax node, except where a nested WITH redefines the name."""
    if isinstance(node, exp.Table) and _names(node, name):
        yield node
    with_ = node.args.get("with_")
    if with_ is not None and any(name_of(cte.args["alias"].this) == name for cte in with_.expressions):
        return
    for child in node.iter_expressions():
        yield from _uses(child, name)


def _in_order(ctes: Mapping[str, Any], context: Context) -> list[str]:
    """The names sorted so that each follows those that it reads: WITH RECURSIVE lets a query read later ones."""
    reads = {}
    for name, cte in ctes.items():
        named = set(_table_names(cte.this)) - {name}
        reads[name] = [o for o in ctes if o in named and next(_uses(cte.this, o), None) is not None]
    done: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            with context.at(ctes[name].args["alias"]):
                circle = " and ".join(path[path.index(name) :])
                raise NotSupportedError(f"queries of WITH that read each other are not supported: {circle}")
        if name not in done:
            for other in reads[name]:
                visit(other, (*path, name))
            done[name] = None

    for name in ctes:
        visit(name, ())
    return list(done)


# ---- recursion -------------------------------------------------------------------------------------------------------


def _recursive(cte: exp.CTE, name: str, scope: Scope, context: Context) -> Query:
    union = cte.this
    while isinstance(union, exp.Subquery) and not any(v for k, v in union.args.items() if k not in ("this", "alias")):
        union = union.this
    with context.at(cte.args["alias"]):
        if type(union) is not exp.Union:
            raise StatementError(
                f"the recursive query {name} must be of the form: first part UNION [ALL] part that reads {name}"
            )
    _check_places(union, name, context)
    with_ = union.args.get("with_")
    if with_ is not None:
        scope = bind_with(with_, union, scope, context)
    anchor = context.bind_query(union.this, scope, context)
    names = _column_names(cte, name, anchor, context)
    types = tuple(STRING if c.type.kind is Kind.NULL else c.type for c in anchor.columns)
    anchor = cast_query(anchor, types, context)
    key = next(context.numbers)
    working = CommonTable(anchor, names, False, key)
    inner = Scope(scope, common_tables=MappingProxyType({name: working}))
    step = context.bind_query(union.expression, inner, context)
    with context.at(union.expression):
        step = _aligned(name, anchor, step, context)
        _check_aggregates(step, key, name)
    columns = tuple(context.column(own, type_, True) for own, type_ in zip(names, types))
    body = Recursive(key, not union.args.get("distinct"), anchor, step, columns)
    return Query(body, columns)


def _aligned(name: str, anchor: Query, step: Query, context: Context) -> Query:
    if len(anchor.columns) != len(step.columns):
        raise TypeMismatch(
            f"the parts of the recursive query {name} have {len(anchor.columns)} and {len(step.columns)} columns: both "
            "need as many"
        )
    for i, (own, other) in enumerate(zip(anchor.columns, outputs(step)), 1):
        type_, _ = unify([own, other], f"column {i} of the recursive query {name} is of types")
        if not is_same(type_, own.type):
            raise TypeMismatch(
                f"column {i} of the recursive query {name} is {own.type} in its first part and {type_} with what the "
                f"second part makes of it; cast it to {type_} in the first part"
            )
    return cast_query(step, tuple(c.type for c in anchor.columns), context)


def _check_places(union: exp.Union, name: str, context: Context) -> None:
    """Rejects every use of a recursive query's name where a round could not read it."""
    for part in ("order", "limit", "offset"):
        if (clause := union.args.get(part)) is not None:
            with context.at(clause):
                raise NotSupportedError(
                    f"{part.upper()}{' BY' if part == 'order' else ''} of a recursive query is not supported; put it "
                    f"on the query that reads {name}"
                )
    for table in _uses(union.this, name):
        with context.at(table):
            raise StatementError(f"{name} is not allowed in the first part of its own query")
    uses = list(_uses(union.expression, name))
    if len(uses) > 1:
        with context.at(uses[1]):
            raise StatementError(f"{name} is allowed only once in its own query")
    for table in uses:
        where = _forbidden(table, union)
        if where is not None:
            with context.at(table):
                raise StatementError(f"{name} is not allowed {where} in its own query")


def _forbidden(table: Any, top: Any) -> str | None:
    """The position of a table, in words, if a recursive query may not name itself there; None if it may."""
    node = table
    while node is not top:
        parent = node.parent
        if isinstance(parent, exp.Intersect) and not parent.args.get("distinct"):
            return "within INTERSECT ALL"
        if isinstance(parent, exp.Except) and (node is parent.expression or not parent.args.get("distinct")):
            return "within EXCEPT"
        if isinstance(parent, exp.Select | exp.Table | exp.Subquery) and _is_filled(node, parent):
            return "on the side of an outer join that is filled with NULLs"
        in_from = exp.From | exp.Join | exp.Lateral | exp.CTE | exp.SetOperation | exp.Subquery
        if isinstance(node, exp.Query) and not isinstance(parent, in_from):
            return "in a subquery of an expression"
        if isinstance(parent, exp.Join) and node.arg_key == "on":
            return "in a subquery of an expression"
        node = parent
    return None


def _is_filled(node: Any, parent: Any) -> bool:
    """True if an outer join of `parent`'s FROM may fill the rows of one of its items with NULLs."""
    joins = parent.args.get("joins") or []
    sides = [str(join.args.get("side") or "").lower() for join in joins]
    places = [i for i, join in enumerate(joins) if join is node]
    if places:
        place = places[0]
        return sides[place] in ("left", "full") or _filled_later(joins, sides, place + 1)
    return (isinstance(node, exp.From) or node.arg_key == "this") and _filled_later(joins, sides, 0)


def _filled_later(joins: list[Any], sides: list[str], start: int) -> bool:
    for join, side in zip(joins[start:], sides[start:]):
        if join.meta.get("comma"):
            return False
        if side in ("right", "full"):
            return True
    return False


def _check_aggregates(query: Query, key: int, name: str) -> None:
    body = query.body
    if isinstance(body, SetOperation):
        _check_aggregates(body.left, key, name)
        _check_aggregates(body.right, key, name)
    elif isinstance(body, Select) and body.relation is not None:
        if body.aggregates and any(isinstance(r, WorkingRef) and r.key == key for r in _direct(body.relation)):
            raise GroupingError(f"the part of the recursive query {name} that reads {name} cannot aggregate its rows")
        for relation in _direct(body.relation):
            if isinstance(relation, SubqueryRef):
                _check_aggregates(relation.query, key, name)


def _direct(relation: Relation) -> Iterator[Relation]:
    if isinstance(relation, Join):
        yield from _direct(relation.left)
        yield from _direct(relation.right)
    else:
        yield relation
