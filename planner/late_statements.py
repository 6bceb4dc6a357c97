"""Bound statements with late parameters in them: which these are, and the statement with values in their place.

A statement that was bound late is trusted only if it says the same as the one that was bound with the values
themselves: `with_values` of both, which folds what is constant, must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from ..sql import bound, expressions
from ..sql.expressions import SUBQUERIES, Expr, Literal
from ..sql.late_parameters import Key, LateParameter, Path
from .fold import fold
from .trees import rewrite

_MODULES = (bound.__name__, expressions.__name__)


def late_parameters(value: Any) -> Iterator[LateParameter]:
    """Every late parameter in a statement, as often as it stands there."""
    if isinstance(value, LateParameter):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from late_parameters(item)
    elif type(value).__module__ in _MODULES:
        for spec in fields(value):
            yield from late_parameters(getattr(value, spec.name))


def with_values(value: Any, values: Mapping[tuple[Key, Path], Literal]) -> Any:
    """A statement with literals for its late parameters, and its constants folded."""
    if isinstance(value, Expr):
        return fold(rewrite(value, lambda part: _with_values(part, values)))
    if isinstance(value, tuple):
        return _items(value, lambda item: with_values(item, values))
    if type(value).__module__ not in _MODULES:
        return value
    changes = {}
    for spec in fields(value):
        before = getattr(value, spec.name)
        after = with_values(before, values)
        if after is not before:
            changes[spec.name] = after
    return replace(value, **changes) if changes else value


def _with_values(part: Expr, values: Mapping[tuple[Key, Path], Literal]) -> Expr:
    if isinstance(part, LateParameter):
        return values[part.key, part.path]
    if isinstance(part, SUBQUERIES) and part.query is not None:
        query = with_values(part.query, values)
        return part if query is part.query else replace(part, query=query)
    return part


def _items(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    after = [change(item) for item in items]
    return tuple(after) if any(a is not b for a, b in zip(after, items, strict=True)) else items
