"""How deep a plan is: plans whose nodes or expressions stand in each other by hundreds are run on a deep stack."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..sql.expressions import Column, Expr, Literal, OrderItem, Parameter
from .physical import PhysicalNode

DEEP = 60
"""Levels from which on a plan is run on a deep stack: running takes up to 5 calls a level, of Python's 1,000, and the
caller may have used some hundred."""


def is_deep(root: PhysicalNode) -> bool:
    """True if more than `DEEP` nodes and expressions stand in each other."""
    seen: dict[int, int] = {}
    stack: list[tuple[Any, int]] = [(root, 1)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, tuple):
            stack.extend((item, depth) for item in value if not isinstance(item, _LEAVES))
        elif isinstance(value, PhysicalNode | Expr | OrderItem):
            if depth > DEEP:
                return True
            if seen.get(id(value), 0) < depth:
                seen[id(value)] = depth
                stack.extend((getattr(value, spec.name), depth + 1) for spec in fields(value))
    return False


_LEAVES = (Column, Literal, Parameter, str, int)
