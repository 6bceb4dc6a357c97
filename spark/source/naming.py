"""Parses `dbtable` and `where`: the name of a table in several spellings, a query in parentheses, one condition."""

from __future__ import annotations

from sqlglot import exp

from ...driver.connection import Connection
from ...errors import Error, InterfaceError, UnknownTable
from ...sql import parse
from ...sql.binding.context import name_of
from ...sql.binding.names import sql_name


def is_query(dbtable: str) -> bool:
    """True for `(SELECT ...) alias`, as JDBC takes it, and False for a name."""
    return dbtable.lstrip().startswith("(")


def table_name(connection: Connection, dbtable: str) -> str:
    """The name in the store of the table or view for `dbtable`: as the store has it, or as SQL spells it.

    `orders`, `public.orders` and `"orders"` are one table, `staging.orders` is one of another schema; a table whose
    name is really `public.orders` has precedence.
    """
    if _is_there(connection, dbtable):
        return dbtable
    try:
        source = _source(dbtable)
    except Error:  # not a name in SQL: the store reports the names that it has
        return dbtable
    if not isinstance(source, exp.Table) or source.alias or source.catalog:
        return dbtable
    # As ever, letters of a table's name count as they are written; those of a schema are folded as in SQL.
    schema = [name_of(source.args["db"])] if source.args.get("db") else []
    try:
        return connection.session.stored_name([*schema, str(source.name)])
    except UnknownTable:  # no such schema
        return dbtable


def written_table(connection: Connection, name: str) -> str:
    """The name in SQL of a table or view, of its name in the store."""
    return sql_name(name, connection.store)


def _source(text: str) -> exp.Expression | None:
    """The item of FROM, if it is a single one."""
    statements = parse(f"SELECT * FROM {text}\n")
    tree = statements[0].tree
    if len(statements) > 1 or _has_more(tree, "from_"):
        return None
    source: exp.Expression = tree.args["from_"].this
    return None if source.args.get("joins") else source


def _has_more(tree: exp.Expression, *known: str) -> bool:
    """True if a SELECT has other parts than its expressions and those."""
    return any(value and name not in ("expressions", "kind", *known) for name, value in tree.args.items())


def _is_there(connection: Connection, name: str) -> bool:
    if connection.store.view(name) is not None:
        return True
    try:
        connection.store.table(name)
    except UnknownTable:
        return False
    return True


def from_query(dbtable: str) -> str:
    """A query in parentheses, as FROM takes it. Raises `InterfaceError` for anything after it except an alias."""
    source = _source(dbtable)
    if not isinstance(source, exp.Subquery):
        raise InterfaceError(f"option dbtable={dbtable!r}: it is a name, or one query in brackets: (SELECT ...) t")
    return dbtable if source.alias else f"{dbtable}\n AS query"


def condition(where: str) -> str:
    """The option `where` in enclosing parentheses. Raises `InterfaceError` unless it is a single condition."""
    # On a separate line: a comment at the end of the condition ends there.
    bracketed = f"({where}\n)"
    if where.strip():
        statements = parse(f"SELECT {bracketed}")
        tree = statements[0].tree
        if len(statements) == 1 and not _has_more(tree) and [type(one) for one in tree.expressions] == [exp.Paren]:
            return bracketed
    raise InterfaceError(
        f"option where={where!r}: one condition is needed, with as many closing parentheses as opening ones"
    )
