"""Bound statements with deferred parameters: finding these, and replacing them with values.

A statement that was bound with deferred parameters is trusted only if it equals the statement that was bound with the
values themselves: `with_values` of both, which folds what is constant, must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from ...sql import bound, expressions
from ...sql.deferred_parameters import DeferredParameter, Key, Path
from ...sql.expressions import Expr, Literal
from ...sql.subqueries import SUBQUERIES
from ..algebra.trees import rewrite
from ..fold import fold

_MODULES = (bound.__name__, expressions.__name__)


def deferred_parameters(value: Any) -> Iterator[DeferredParameter]:
    """Yield every deferred parameter in a statement, as often as it occurs; once for queries that several places
    share."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, DeferredParameter):
            yield part
        elif isinstance(part, tuple):
            stack.extend(reversed(part))
        elif type(part).__module__ in _MODULES:
            if isinstance(part, bound.Query):
                if id(part) in seen:
                    continue
                seen.add(id(part))
            stack.extend(getattr(part, name) for name in reversed(_fields(type(part))))


def _fields(kind: type[Any]) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(spec.name for spec in fields(kind))
    return names


_FIELDS: dict[type, tuple[str, ...]] = {}


def _compared_fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple([spec.name for spec in fields(kind) if spec.compare])


def same_with_values(first: Any, second: Any, values: Mapping[tuple[Key, Path], Literal]) -> bool:
    """True if two statements are equal, the second with literals for its deferred parameters."""
    return _is_same(with_values(first, {}), with_values(second, values))


def _is_same(first: Any, second: Any) -> bool:
    """Equality; queries that several places share are compared once, where `==` would compare each place again."""
    seen: set[tuple[int, int]] = set()
    pairs = [(first, second)]
    while pairs:
        one, other = pairs.pop()
        if one is other:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, tuple):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif type(one).__module__ in _MODULES:
            if isinstance(one, bound.Query):
                if (id(one), id(other)) in seen:
                    continue
                seen.add((id(one), id(other)))
            names = _compared_fields(type(one))
            pairs.extend((getattr(one, name), getattr(other, name)) for name in names)
        elif one != other:
            return False
    return True


def with_values(value: Any, values: Mapping[tuple[Key, Path], Literal]) -> Any:
    """Return a statement with literals for its deferred parameters, and its constants folded."""
    return _Filling(values).filled(value)


class _Filling:
    """Replaces parameters with values in a statement; queries that several places share stay shared."""

    def __init__(self, values: Mapping[tuple[Key, Path], Literal]):
        self._values = values
        self._queries: dict[int, tuple[Any, Any]] = {}
        """Result for each query, by its `id`; the query is kept, so that its `id` is not reused."""

    def filled(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return fold(rewrite(value, self._part))
        if isinstance(value, tuple):
            return _items(value, self.filled)
        if type(value).__module__ not in _MODULES:
            return value
        if not isinstance(value, bound.Query):
            return self._node(value)
        if id(value) not in self._queries:
            self._queries[id(value)] = value, self._node(value)
        return self._queries[id(value)][1]

    def _node(self, value: Any) -> Any:
        changes = {}
        for name in _fields(type(value)):
            before = getattr(value, name)
            after = self.filled(before)
            if after is not before:
                changes[name] = after
        return replace(value, **changes) if changes else value

    def _part(self, part: Expr) -> Expr:
        if isinstance(part, DeferredParameter):
            return self._values[part.key, part.path]
        if isinstance(part, SUBQUERIES) and part.query is not None:
            query = self.filled(part.query)
            return part if query is part.query else replace(part, query=query)
        return part


def _items(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    after = [change(item) for item in items]
    return tuple(after) if any(a is not b for a, b in zip(after, items, strict=True)) else items
