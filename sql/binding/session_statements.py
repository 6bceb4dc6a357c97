"""Binds the statements about prepared statements and cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...errors import NotSupportedError
from ..bound_session import (
    CloseCursor,
    Deallocate,
    DeclareCursor,
    Discard,
    ExecutePrepared,
    FetchCursor,
    PrepareStatement,
    SessionStatement,
)
from ..expressions import Literal
from ..syntax import nodes
from .context import Context, Frame, name_of
from .scope import Scope
from .tables.type_names import bind_cast_type


def _prepare(node: Any, context: Context) -> SessionStatement:
    types = tuple(bind_cast_type(type_, context) for type_ in node.expressions)
    return PrepareStatement(name_of(node.this), types, node.args["text"])


def _execute(node: Any, context: Context) -> SessionStatement:
    values = []
    for each in node.expressions:
        value = Frame(context, Scope(), "EXECUTE").bind(each)
        with context.at(each):
            if not isinstance(value, Literal):
                raise NotSupportedError("EXECUTE takes constants and parameters")
        values.append(value.type.to_python(value.value))
    return ExecutePrepared(name_of(node.this), tuple(values))


def _declare(node: Any, context: Context) -> SessionStatement:
    hold = bool(node.args.get("hold"))
    return DeclareCursor(name_of(node.this), node.args["text"], hold or bool(node.args.get("scroll")), hold)


def _fetch(node: Any, context: Context) -> SessionStatement:
    args = node.args
    return FetchCursor(name_of(node.this), args["direction"], args.get("count"), bool(args.get("move")))


def _name(node: Any) -> str | None:
    return None if node.this is None else name_of(node.this)


SESSION_STATEMENTS: Final[dict[type, Callable[[Any, Context], SessionStatement]]] = {
    nodes.PrepareStatement: _prepare,
    nodes.ExecuteStatement: _execute,
    nodes.DeallocateStatement: lambda node, _: Deallocate(_name(node)),
    nodes.DiscardSession: lambda node, _: Discard(node.this.name == "ALL", node.this.name.startswith("TEMP")),
    nodes.DeclareCursor: _declare,
    nodes.FetchCursor: _fetch,
    nodes.CloseCursor: lambda node, _: CloseCursor(_name(node)),
    nodes.Unlisten: lambda node, _: Discard(False),
}
"""The binding function of each kind of statement."""
