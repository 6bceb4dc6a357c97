"""Binds FROM: tables, derived tables, CTE references, joins. The result is a relation and the fields it offers.

Relations left of a LATERAL query or a table function are visible in it; `before` holds them in the functions below.

A comma binds weaker than JOIN: `a, b LEFT JOIN c ON ...` joins b and c first, and only those are visible in the ON.

Columns on the side of an outer join that may be filled with NULLs are nullable from the start. That is determined by
the join kinds before the tables are bound, so that one `Column` means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import (
    AmbiguousColumn,
    NotSupportedError,
    SqlSyntaxError,
    StatementError,
    TypeMismatch,
    UnknownColumn,
)
from ....model.access.rights import Right
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ....model.schema import Table, View
from ....model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN
from ....model.types import Kind
from ...bound import Join, Query, Relation, SeriesRef, SubqueryRef, TableRef, TimeTravel, WorkingRef
from ...coercion import unify
from ...expressions import Call, Column, Expr
from ...syntax.written_names import did_you_mean
from ..context import Context, Frame, name_of, only, unsupported
from ..expressions.comparisons import compare, connect
from ..expressions.expressions import condition
from ..names import OWN_PREFIX, PG_CATALOG, SYSTEM_SCHEMAS, found_name, schema_of
from ..scope import CommonTable, Field, Scope
from .external_files import bind_file, is_file
from .series import bind_series
from .set_returning import from_function
from .system_time import bind_time


@dataclass(frozen=True, slots=True)
class Source:
    """A bound part of FROM: the relation, its fields, its aliases."""

    relation: Relation
    fields: tuple[Field, ...]
    aliases: tuple[str, ...]


def bind_from(
    first: Any,
    joins: Sequence[Any],
    scope: Scope,
    context: Context,
    nullable: bool = False,
    before: Source | None = None,
) -> Source:
    """Binds FROM `first` and the joins after it.

    `scope` is that of the surrounding query; `nullable` is True if an outer join further out may fill all of this with
    NULLs.
    """
    groups: list[list[Any]] = [[]]
    firsts = [first]
    for join in [*(first.args.get("joins") or []), *joins]:
        if join.meta.get("comma"):
            firsts.append(join.this)
            groups.append([])
        else:
            groups[-1].append(join)
    found: Source | None = None
    for head, rest in zip(firsts, groups):
        source = _join_chain(head, rest, scope, context, nullable, _both(before, found))
        found = source if found is None else _joined("cross", found, source, None, head, context)
    assert found is not None
    return found


def _both(before: Source | None, found: Source | None) -> Source | None:
    """The fields visible in a LATERAL item: all relations to its left, here and further out."""
    if before is None or found is None:
        return before or found
    return Source(found.relation, before.fields + found.fields, before.aliases + found.aliases)


def _join_chain(
    first: Any, joins: Sequence[Any], scope: Scope, context: Context, nullable: bool, before: Source | None
) -> Source:
    # Relations left of a RIGHT or FULL join may be filled with NULLs, whatever join precedes it.
    filled_later = [any(_side(j) in ("right", "full") for j in joins[i:]) for i in range(len(joins) + 1)]
    source = _single(first, scope, context, nullable or filled_later[0], before)
    for i, join in enumerate(joins):
        filled = nullable or filled_later[i + 1] or _side(join) in ("left", "full")
        with context.at(join):
            source = _join(source, join, scope, context, filled, before)
    return source


def _side(join: Any) -> str:
    return str(join.args.get("side") or "").lower()


# ---- one relation ----------------------------------------------------------------------------------------------------


def _relation(node: Any, scope: Scope, context: Context, nullable: bool, before: Source | None) -> Source:
    """The right side of a join: `a JOIN b JOIN c ON ... ON ...` has joins of its own there."""
    if node.args.get("joins"):
        return bind_from(node, [], scope, context, nullable, before)
    return _single(node, scope, context, nullable, before)


def _single(node: Any, scope: Scope, context: Context, nullable: bool, before: Source | None) -> Source:
    with context.at(node):
        if isinstance(node, exp.Table) and is_file(node):
            return _file(node, scope, context)
        rows = _rows_of_function(node)
        if rows is not None:
            return _lateral(rows, _lateral_scope(scope, before), context, nullable)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            return _function(node, _lateral_scope(scope, before), context, nullable)
        if isinstance(node, exp.Table):
            return _table(node, scope, context, nullable)
        if isinstance(node, exp.Subquery):
            return _subquery(node, scope, context, nullable, before)
        if isinstance(node, exp.Values):
            return _derived(node, context.bind_query(node, _unseen(scope, before), context), context, nullable)
        if isinstance(node, exp.Lateral):
            return _lateral(node, _lateral_scope(scope, before), context, nullable)
        raise unsupported(node)


def _rows_of_function(node: Any) -> Any:
    """A function of FROM that is no `generate_series`, as a LATERAL query; None for anything else."""
    call = node if isinstance(node, exp.Unnest) else node.this if isinstance(node, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Unnest | exp.Anonymous):
        return None
    return from_function(node, call, node.args.get("alias"), call.args.get("offset"))


def _lateral_scope(scope: Scope, before: Source | None) -> Scope:
    return scope if before is None else Scope(scope, before.fields, before.aliases)


def _unseen(scope: Scope, before: Source | None) -> Scope:
    return scope if before is None else Scope(scope, beside=before.fields)


def _lateral(node: exp.Lateral, scope: Scope, context: Context, nullable: bool) -> Source:
    only(node, "this", "alias")
    if isinstance(node.this, exp.Anonymous):
        return _function(node, scope, context, nullable)
    if not isinstance(node.this, exp.Query | exp.Values):
        raise SqlSyntaxError("LATERAL is followed by a query in parentheses or a table function")
    return _derived(node, context.bind_query(node.this, scope, context), context, nullable)


def _function(node: Any, scope: Scope, context: Context, nullable: bool) -> Source:
    if isinstance(db := node.args.get("db"), exp.Identifier) and name_of(db) == PG_CATALOG:
        only(node, "this", "alias", "joins", "db")
    else:
        only(node, "this", "alias", "joins")
    call = node.this
    name = name_of(call.this) if isinstance(call.this, exp.Identifier) else str(call.this).lower()
    alias, renamed = _alias(node, name)
    with context.at(call):
        series = bind_series(call, alias, scope, context, nullable)
    columns = _renamed(series.columns, renamed, alias)
    return _leaf(replace(series, columns=columns), alias, columns)


def _file(node: exp.Table, scope: Scope, context: Context) -> Source:
    only(node, "this", "alias", "joins")
    file = bind_file(node, Frame(context, scope, "FROM"))
    alias, renamed = _alias(node, file.alias)
    columns = _renamed(file.columns, renamed, alias)
    return _leaf(replace(file, alias=alias, columns=columns), alias, columns)


def _table(node: exp.Table, scope: Scope, context: Context, nullable: bool) -> Source:
    only(node, "this", "alias", "joins", "db", "catalog", "version")
    version = node.args.get("version")
    name, schema, common = _named_query(node, scope, context)
    if common is not None:
        if version is not None:
            raise StatementError(f"FOR SYSTEM_TIME is for tables; {name} is a view or a query of WITH")
        alias, renamed = _alias(node, name)
        # Columns from the previous round of a recursive query may be NULL even if those of its anchor are not.
        nullable = nullable or common.working is not None
        fresh = _fresh(zip(common.names, common.query.columns), context, nullable)
        columns = _renamed(fresh, renamed, alias)
        source = _leaf(_use(common, name, alias, columns), alias, columns, _shown_schema(node, schema))
        if not common.hidden:
            return source
        seen, rest = source.fields[: -common.hidden], source.fields[-common.hidden :]
        return replace(source, fields=(*seen, *(replace(f, hidden=True) for f in rest)))
    table, time = context.catalog.table(found_name(name, schema, context)), None
    if node is not context.written:
        context.require(table, Right.SELECT)
    _note(node, table, context)
    if version is not None:
        table, time = bind_time(version, table, context)
    alias, renamed = _alias(node, name)
    found = {c.name: context.column(c.name, c.type, c.nullable or nullable) for c in table.schema.columns}
    shown = _renamed(tuple(found[name] for name in _shown_names(table, time)), renamed, alias)
    by_number = {column.id: column for column in shown}
    columns = tuple(by_number.get(column.id, column) for column in found.values())
    hidden = tuple(Field(c.name, c, alias, hidden=True) for c in columns if c.id not in by_number)
    schema = _shown_schema(node, table.namespace)
    source = _leaf(TableRef(table, alias, columns, time), alias, shown, schema)
    return replace(source, fields=source.fields + hidden)


def _use(common: CommonTable, name: str, alias: str, columns: tuple[Column, ...]) -> Relation:
    if common.working is not None:
        return WorkingRef(common.working, alias, columns)
    return SubqueryRef(common.query, alias, columns, name if common.shared else None)


def _shown_schema(node: exp.Table, schema: str | None) -> str | None:
    """The schema by which columns of a table or view may be named: none if it has another name in the statement."""
    return schema if node.args.get("alias") is None else None


def _note(node: exp.Table, relation: Table | View, context: Context) -> None:
    """Note the table or view that a name refers to, and its schema if the name has none, for the texts of views."""
    schema = relation.namespace
    if context.names_of_nodes is not None:
        context.names_of_nodes[id(node)] = relation.name
    if schema == TEMPORARY_NAMESPACE or (schema != DEFAULT_NAMESPACE and node.args.get("db") is None):
        context.schemas_of_nodes[id(node)] = schema


def _named_query(node: exp.Table, scope: Scope, context: Context) -> tuple[str, str | None, CommonTable | None]:
    """The name in FROM, its schema, and the query that it refers to; None if it must be a table."""
    schema = schema_of(node, context)
    if schema in SYSTEM_SCHEMAS:
        return name_of(node.this), schema, _system(schema, name_of(node.this), context)
    if not isinstance(node.this, exp.Identifier):
        raise SqlSyntaxError("a table name expected")
    name = name_of(node.this)
    common = scope.common_table(name) if schema is None else None
    if common is None and schema is None and name.startswith(OWN_PREFIX):
        common = _own_of_postgresql(name, context)
    if common is None and (view := context.catalog.view(found_name(name, schema, context))) is not None:
        from ..catalog.views import view_source  # queries of tables do without

        context.require(view, Right.SELECT)
        common, schema = view_source(view, node, context), view.namespace
        _note(node, view, context)
    return name, schema, common


def _own_of_postgresql(name: str, context: Context) -> CommonTable | None:
    """A relation of `pg_catalog`, which is searched before all other schemas, as in PostgreSQL."""
    from ..system.relations import is_system

    return _system(PG_CATALOG, name, context) if is_system(PG_CATALOG, name) else None


def _system(schema: str, name: str, context: Context) -> CommonTable:
    from ..system.relations import system_relation  # most statements need none of its modules

    query, hidden = system_relation(schema, name, context)
    return CommonTable(query, tuple(column.name for column in query.columns), False, hidden=hidden)


def _shown_names(table: Table, time: TimeTravel | None) -> list[str]:
    """The names that `*` expands to: the table's visible columns, then those of a diff scan."""
    names = [column.name for column in (table if time is None else time.table).schema.visible_columns]
    return names if time is None or time.changes is None else [*names, CHANGE_COLUMN, CHANGED_AT_COLUMN]


def _alias(node: Any, default: str) -> tuple[str, list[str]]:
    alias = node.args.get("alias")
    if alias is None:
        return default, []
    name = name_of(alias.this) if alias.this is not None else default
    return name, [name_of(column) for column in alias.args.get("columns") or []]


def _fresh(columns: Any, context: Context, nullable: bool) -> tuple[Column, ...]:
    return tuple(context.column(name, column.type, column.nullable or nullable) for name, column in columns)


def _renamed(columns: tuple[Column, ...], names: list[str], alias: str) -> tuple[Column, ...]:
    """The columns under the names of `AS alias (names)`; the rest keep theirs."""
    if len(names) > len(columns):
        raise TypeMismatch(f"{alias} has {len(columns)} columns, {len(names)} names are given")
    return tuple(replace(c, name=n) for c, n in zip(columns, names)) + columns[len(names) :]


def _leaf(relation: Relation, alias: str, columns: tuple[Column, ...], schema: str | None = None) -> Source:
    return Source(relation, tuple(Field(c.name, c, alias, schema=schema) for c in columns), (alias,))


def _subquery(node: exp.Subquery, scope: Scope, context: Context, nullable: bool, before: Source | None) -> Source:
    inner = node.this
    only(node, "this", "alias", "joins")
    joined = isinstance(inner, exp.Table | exp.Lateral) or (isinstance(inner, exp.Subquery) and inner.args.get("joins"))
    if joined or (isinstance(inner, exp.Subquery) and not node.args.get("alias")):
        # Parentheses around joins: `a JOIN (b JOIN c ON ...) ON ...`.
        source = bind_from(inner, [], scope, context, nullable, before)
        return _under_one_name(node, source, context) if node.args.get("alias") else source
    return _derived(node, context.bind_query(inner, _unseen(scope, before), context), context, nullable)


def _under_one_name(node: exp.Subquery, source: Source, context: Context) -> Source:
    """Binds `(a JOIN b ...) AS alias`: the aliases inside are no longer visible."""
    if isinstance(source.relation, TableRef | SeriesRef):
        raise SqlSyntaxError("the alias of a table must follow its name, not parentheses around it")
    alias, renamed = _alias(node, "")
    seen = [replace(f, relation=alias, merged=False) for f in source.fields if not (f.merged or f.hidden)]
    if len(renamed) > len(seen):
        raise TypeMismatch(f"{alias} has {len(seen)} columns, {len(renamed)} names are given")
    named = [replace(f, name=name) for f, name in zip(seen, renamed)] + seen[len(renamed) :]
    return Source(source.relation, tuple(named), (alias,))


def _derived(node: Any, query: Query, context: Context, nullable: bool) -> Source:
    alias, renamed = _alias(node, "")
    columns = _renamed(_fresh(((c.name, c) for c in query.columns), context, nullable), renamed, alias)
    return _leaf(SubqueryRef(query, alias, columns), alias, columns)


# ---- joins -----------------------------------------------------------------------------------------------------------


def _join(left: Source, node: Any, scope: Scope, context: Context, nullable: bool, before: Source | None) -> Source:
    only(node, "this", "method", "side", "kind", "on", "using")
    kind = _join_kind(node)
    if kind in ("right", "full") and isinstance(node.this, exp.Lateral):
        with context.at(node.this):
            raise StatementError(
                f"LATERAL is not allowed on the right of a {kind.upper()} JOIN, only of an INNER, LEFT or CROSS JOIN"
            )
    visible = before if kind in ("right", "full") else _both(before, left)
    right = _relation(node.this, scope, context, nullable, visible)
    names = _using(node, left, right)
    if names is not None:
        return _join_using(kind, left, right, names, node, context)
    joined = _joined(kind, left, right, None, node.this, context)
    on = node.args.get("on")
    if on is None:
        return joined
    inner = Scope(scope, joined.fields, joined.aliases)
    test = condition(on, Frame(context, inner, "JOIN ... ON"))
    assert isinstance(joined.relation, Join)
    return replace(joined, relation=replace(joined.relation, condition=test))


def _join_kind(node: Any) -> str:
    method, kind = str(node.args.get("method") or "").upper(), str(node.args.get("kind") or "").upper()
    if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise NotSupportedError(f"{method or kind} JOIN is not supported")
    conditioned = method or node.args.get("on") is not None or node.args.get("using")
    if kind == "CROSS":
        if conditioned:
            raise SqlSyntaxError("CROSS JOIN takes no condition")
        return "cross"
    if not conditioned:
        raise SqlSyntaxError("JOIN needs ON, USING or NATURAL; CROSS JOIN pairs all rows")
    return _side(node) or "inner"


def _joined(kind: str, left: Source, right: Source, test: Expr | None, node: Any, context: Context) -> Source:
    for alias in right.aliases:
        if alias and alias in left.aliases:
            with context.at(node):
                raise StatementError(f"table name {alias} occurs twice; give one of them an alias")
    relation = Join(kind, left.relation, right.relation, test)
    return Source(relation, left.fields + right.fields, left.aliases + right.aliases)


def _using(node: Any, left: Source, right: Source) -> list[tuple[str, Any]] | None:
    """The names that USING lists or NATURAL finds, with their syntax nodes; None if the join has neither."""
    if node.args.get("using"):
        return [(name_of(item), item) for item in node.args["using"]]
    if node.args.get("method"):
        there = {f.name for f in right.fields if not (f.merged or f.hidden)}
        return [(f.name, node) for f in left.fields if f.name in there and not (f.merged or f.hidden)]
    return None


def _join_using(
    kind: str, left: Source, right: Source, names: list[tuple[str, Any]], node: Any, context: Context
) -> Source:
    joined = _joined(kind if names else "cross", left, right, None, node.this, context)
    tests: list[Expr] = []
    merged: list[Field] = []
    for name, item in names:
        with context.at(item):
            ours, theirs = _shared_field(left, name, "left"), _shared_field(right, name, "right")
            tests.append(compare("eq", ours.expr, theirs.expr))
            merged.append(Field(name, _merge(kind, ours.expr, theirs.expr), None))
    taken = {name for name, _ in names}
    rest = tuple(replace(f, merged=True) if f.name in taken else f for f in joined.fields)
    if not tests:
        return joined
    test = tests[0] if len(tests) == 1 else connect("and", tuple(tests))
    assert isinstance(joined.relation, Join)
    return Source(replace(joined.relation, condition=test), (*merged, *rest), joined.aliases)


def _shared_field(source: Source, name: str, side: str) -> Field:
    matches = [f for f in source.fields if f.name == name and not f.merged]
    if not matches:
        names = [f.name for f in source.fields if not f.merged]
        raise UnknownColumn(f"the {side} side of the join has no column {name}{did_you_mean(name, names, 'it has')}")
    if len(matches) > 1:
        raise AmbiguousColumn(f"the {side} side of the join has more than one column {name}")
    return matches[0]


def _merge(kind: str, left: Expr, right: Expr) -> Expr:
    """The merged column of USING: the side that has a value in every row."""
    if kind == "right":
        return right
    if kind != "full":
        return left
    type_, sides = unify([left, right], "USING cannot merge")
    assert type_.kind is not Kind.NULL
    return Call(type_, left.nullable and right.nullable, "coalesce", sides)
