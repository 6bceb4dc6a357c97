"""Binds SET, RESET and SHOW of settings: looks up names, converts values to plain units."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ....errors import StatementError
from ...bound import ResetSettings, SetSetting, ShowSettings
from ...expressions import Literal
from ...settings import Setting, find_setting
from ..context import Context, Frame
from ..scope import Scope


def bind_set(node: Any, context: Context) -> SetSetting | ResetSettings:
    """Bind SET; SET name = DEFAULT is RESET."""
    setting = _changeable(node.this, context)
    if isinstance(node.expression, exp.Var) and node.expression.name.upper() == "DEFAULT":
        return ResetSettings(setting.name)
    with context.at(node.expression):
        assert setting.read is not None
        return SetSetting(setting.name, setting.read(_plain(node.expression, context)))


def bind_reset(node: Any, context: Context) -> ResetSettings:
    """Bind RESET name or RESET ALL."""
    return ResetSettings(None if node.this is None else _changeable(node.this, context).name)


def bind_show(node: Any, context: Context) -> ShowSettings:
    """Bind SHOW name or SHOW ALL."""
    if node.this is None:
        return ShowSettings()
    with context.at(node.this):
        return ShowSettings(find_setting(node.this.name).name)


def _changeable(node: Any, context: Context) -> Setting:
    with context.at(node):
        setting = find_setting(node.name)
        if setting.read is None:
            raise StatementError(
                f"{setting.name} cannot be SET: a directory is opened with it, connect(..., {setting.name}=...), and a "
                "cluster's servers are started with it (nyala tserver)"
            )
    return setting


def _plain(node: Any, context: Context) -> Any:
    """The Python value of a literal or parameter, or the bare word."""
    if isinstance(node, exp.Var | exp.Boolean):
        return node.name if isinstance(node, exp.Var) else bool(node.this)
    if isinstance(node, exp.Column) and not node.args.get("table"):
        return node.name
    value = Frame(context, Scope(), "SET").bind(node)
    if not isinstance(value, Literal) or value.value is None:
        raise StatementError("SET takes a number, a text or a word")
    return value.type.to_python(value.value)
