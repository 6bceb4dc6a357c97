"""Binds COPY: the source or target, the file's format and its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from sqlglot import exp

from ....errors import StatementError
from ....model.access.rights import Right
from ...bound import CopyFrom, CopyTo
from ...file_options import FORMATS, READ, WRITE, check_options, format_of, read_option
from ..clauses.query import bind_query
from ..context import Context, only
from ..scope import Scope
from ..tables.create_table import find_table
from .insert import target_columns


def bind_copy(node: Any, context: Context) -> CopyFrom:
    """Bind COPY ... FROM."""
    only(node, "this", "expressions", "path", "options")
    table = find_table(node.this, context, writes=True)
    with context.at(node.this):
        context.require(table, Right.INSERT)
    listed = node.args.get("expressions") or []
    columns = tuple(c.name for c in target_columns(table, listed, context)) if listed else None
    path, format_, options = _file(node, READ, context)
    return CopyFrom(table, path, format_, options, columns)


def bind_copy_to(node: Any, context: Context) -> CopyTo:
    """Bind COPY ... TO; a table is the query for its columns."""
    only(node, "this", "expressions", "path", "options")
    source = node.this
    if isinstance(source, exp.Table):
        listed = node.args.get("expressions") or [exp.Star()]
        columns = [item if isinstance(item, exp.Star) else exp.column(item.copy()) for item in listed]
        source = exp.Select(expressions=columns, from_=exp.From(this=source))
        source.parent = node
    query = bind_query(source, Scope(), context)
    path, format_, options = _file(node, WRITE, context)
    return CopyTo(query, path, format_, options)


def _file(node: Any, use: str, context: Context) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    """The path, the format (the option FORMAT, else the file name's suffix) and the other options."""
    path, given = str(node.args["path"].this), node.args.get("options") or []
    with context.at(node.args["path"]):
        context.require_superuser("COPY with a file of the server")
    formats = [item for item in given if item.this.name.lower() == "format"]
    with context.at(formats[0] if formats else node.args["path"]):
        if formats:
            format_ = str(formats[0].expression.name).lower() if formats[0].expression is not None else "not given"
        else:
            format_ = format_of(path) or PurePath(path).suffix.removeprefix(".").lower() or "unknown"
        if format_ not in FORMATS:
            raise StatementError(f"the file's format is {format_}; write (FORMAT parquet) or (FORMAT csv)")
    options = _options(given, format_, use, context)
    with context.at(given[0] if given else node.args["path"]):
        check_options(options, format_, "COPY")
    return path, format_, tuple(sorted(options.items()))


def _options(items: Sequence[Any], format_: str, use: str, context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for item in items:
        given = str(item.this.name).lower()
        with context.at(item):
            name, value = (given, None) if given == "format" else _option(given, item.expression, format_, use)
            if name in seen:
                raise StatementError(f"option {name} is given twice")
            seen.add(name)
            if name != "format":
                found[name] = value
    return found


def _option(given: str, node: Any, format_: str, use: str) -> tuple[str, Any]:
    value = _plain(node)
    if given in ("compression", "encoding", "header") or value is None or not isinstance(node, exp.Var):
        return read_option(given, value, format_, use, "COPY")
    return read_option(given, node, format_, use, "COPY")  # a bare word, not a text


def _plain(node: Any) -> Any:
    if node is None:
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(node.this)
    return str(node.name)
