"""Nesting depth of queries and plans: statements nested by the hundred are planned and executed on a deep stack."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...sql import bound, expressions
from . import physical

DEEP, DEEP_PLAN = 60, 120
"""Levels of a query or a plan up to which the caller's stack is used. Python allows 1,000 calls. Planning takes up to 8
calls a level, execution up to 5, and the caller may have used some hundred."""
_MODULES = (bound.__name__, expressions.__name__, physical.__name__)
_LEAVES = (expressions.Column, expressions.Literal, expressions.Parameter)
_FIELDS: dict[type, tuple[str, ...]] = {}


def is_deep(root: bound.Query | physical.PhysicalNode) -> bool:
    """True if queries, relations, expressions or operators nest too deeply for the caller's stack."""
    most = DEEP_PLAN if isinstance(root, physical.PhysicalNode) else DEEP
    seen: dict[int, int] = {}
    stack: list[tuple[Any, int]] = [(root, 1)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, tuple):
            stack.extend((item, depth) for item in value if not isinstance(item, _LEAVES))
        elif type(value).__module__ in _MODULES and not isinstance(value, _LEAVES):
            # Each window may become a separate operator.
            depth += len(value.windows) if isinstance(value, bound.Select) else 0
            if depth > most:
                return True
            if seen.get(id(value), 0) < depth:
                seen[id(value)] = depth
                stack.extend((getattr(value, name), depth + 1) for name in _fields(type(value)))
    return False


def _fields(kind: type[Any]) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(spec.name for spec in fields(kind))
    return names
