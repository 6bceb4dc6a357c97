"""Encodes bound expressions as plain data and back, so that plan fragments can be sent to tablet servers.

    expression   [name of the class, type, nullable, fields in their order ...]
    type         [kind, precision, scale, length]
    OrderItem    ["OrderItem", expression, descending, nulls_first]

Decoding checks its input: only the classes below, fields of the right kinds, functions of the registry, and a depth
that evaluation supports; anything else raises `DataError`. Bytes from untrusted sources can therefore be decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from ..errors import DataError, NotSupportedError
from ..model.types import DataType, Kind
from .expressions import Aggregate, Call, Case, Cast, Column, Expr, InValues, Literal, OrderItem
from .functions import AGGREGATES, OPERATIONS

_CLASSES: Final[dict[str, type[Expr]]] = {
    each.__name__: each for each in (Column, Literal, Call, Cast, Case, InValues, Aggregate)
}
_FIELDS: Final = {name: [f.name for f in fields(each)][2:] for name, each in _CLASSES.items()}
_MOST_DEPTH: Final = 100
_WIDE: Final = "wide"
"""Prefix of an integer beyond 64 bits, which is encoded as text."""

_MOST_DIGITS: Final = 50

Plain = Any


def expression_to_plain(expr: Expr) -> Plain:
    """The expression as lists, texts and numbers.

    Raises `NotSupportedError` for expressions that are bound to the statement: parameters, subqueries, windows,
    functions whose value differs at every call. Also for those nested more deeply than servers accept.
    """
    return _expression_to_plain(expr, 0)


def _expression_to_plain(expr: Expr, depth: int) -> Plain:
    if depth > _MOST_DEPTH:
        raise NotSupportedError(f"an expression that is nested more than {_MOST_DEPTH} deep cannot travel")
    name = type(expr).__name__
    if name not in _CLASSES:
        raise NotSupportedError(f"a {name} cannot travel")
    if isinstance(expr, Call) and OPERATIONS[expr.function].volatile:
        raise NotSupportedError(f"{expr.function}() cannot travel: each call gives another value")
    if isinstance(expr, Literal) and isinstance(expr.value, tuple):
        raise NotSupportedError(f"a literal of type {expr.type} cannot travel")
    return [
        name,
        _type_to_plain(expr.type),
        expr.nullable,
        *[_to_plain(getattr(expr, f), depth + 1) for f in _FIELDS[name]],
    ]


def expression_from_plain(plain: Plain) -> Expr:
    """The inverse of `expression_to_plain`; raises `DataError` for any other data."""
    return _expression(plain, 0)


def columns_to_plain(columns: Sequence[Column]) -> Plain:
    """Columns as plain data."""
    return [expression_to_plain(column) for column in columns]


def columns_from_plain(plain: Plain) -> tuple[Column, ...]:
    """The inverse of `columns_to_plain`."""
    found = tuple(expression_from_plain(each) for each in _list(plain))
    for column in found:
        if not isinstance(column, Column):
            raise DataError(f"a column was expected, not a {type(column).__name__}")
    return found  # type: ignore[return-value]


# ---- writing ---------------------------------------------------------------------------------------------------------


def _type_to_plain(type_: DataType) -> Plain:
    return [type_.kind.value, type_.precision, type_.scale, type_.length]


def _to_plain(value: Any, depth: int) -> Plain:
    if isinstance(value, Expr):
        return _expression_to_plain(value, depth)
    if isinstance(value, OrderItem):
        return ["OrderItem", _expression_to_plain(value.expr, depth), value.descending, value.nulls_first]
    if isinstance(value, tuple):
        return [_to_plain(item, depth) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return [_WIDE, str(value)]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    raise NotSupportedError(f"a {type(value).__name__} cannot travel")


# ---- reading ---------------------------------------------------------------------------------------------------------


def _list(plain: Plain) -> list[Any]:
    if not isinstance(plain, (list, tuple)):
        raise DataError(f"a list was expected, not a {type(plain).__name__}")
    return list(plain)


def _expression(plain: Plain, depth: int) -> Expr:
    name, *rest = _list(plain) or [None]
    kind = _CLASSES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DataError(f"there is no expression {name!r}")
    if depth > _MOST_DEPTH:
        raise DataError(f"an expression is nested more than {_MOST_DEPTH} deep")
    wanted = _FIELDS[name]
    if len(rest) != len(wanted) + 2 or not isinstance(rest[1], bool):
        raise DataError(f"a {name} has a type, nullability and {len(wanted)} fields, not {len(rest)} in all")
    values = [_READERS[name, field](value, depth + 1) for field, value in zip(wanted, rest[2:])]
    found = kind(_type(rest[0]), rest[1], *values)
    if isinstance(found, Call):
        if (operation := OPERATIONS.get(found.function)) is None:
            raise DataError(f"there is no operation {found.function!r}")
        if operation.volatile:
            raise DataError(f"{found.function}() cannot travel")
    if isinstance(found, Aggregate) and found.function not in AGGREGATES:
        raise DataError(f"there is no aggregate {found.function!r}")
    return found


def _type(plain: Plain) -> DataType:
    parts = _list(plain)
    if len(parts) != 4 or not all(p is None or isinstance(p, int) for p in parts[1:]):
        raise DataError("a type is a kind, precision, scale and length")
    try:
        return DataType(Kind(parts[0]), *parts[1:])
    except ValueError as error:
        raise DataError(f"there is no such type: {error}") from None


def _one(plain: Plain, depth: int) -> Expr:
    return _expression(plain, depth)


def _maybe(plain: Plain, depth: int) -> Expr | None:
    return None if plain is None else _expression(plain, depth)


def _many(plain: Plain, depth: int) -> tuple[Expr, ...]:
    return tuple(_expression(each, depth) for each in _list(plain))


def _branches(plain: Plain, depth: int) -> tuple[tuple[Expr, Expr], ...]:
    pairs = [_many(each, depth) for each in _list(plain)]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError("a branch of a CASE is a condition and a value")
    return tuple((pair[0], pair[1]) for pair in pairs)


def _order(plain: Plain, depth: int) -> tuple[OrderItem, ...]:
    found = []
    for each in _list(plain):
        parts = _list(each)
        if len(parts) != 4 or parts[0] != "OrderItem" or not all(isinstance(flag, bool) for flag in parts[2:]):
            raise DataError("an order is an expression and two flags")
        found.append(OrderItem(_expression(parts[1], depth), parts[2], parts[3]))
    return tuple(found)


def _plain_of(kind: type) -> Callable[[Plain, int], Any]:
    def read(plain: Plain, depth: int) -> Any:
        if type(plain) is not kind:
            raise DataError(f"{kind.__name__} was expected, not {type(plain).__name__}")
        return plain

    return read


def _value(plain: Plain, depth: int) -> Any:
    """A physical value from plain data."""
    if isinstance(plain, (list, tuple)) and len(plain) == 2 and plain[0] == _WIDE:
        try:
            return int(str(plain[1])[:_MOST_DIGITS])
        except ValueError:
            raise DataError(f"{plain[1]!r} is no integer") from None
    if plain is None or isinstance(plain, (bool, int, float, str, bytes)):
        return plain
    raise DataError(f"a {type(plain).__name__} is no value")


_READERS: Final[dict[tuple[str, str], Callable[[Plain, int], Any]]] = {
    ("Column", "id"): _plain_of(int),
    ("Column", "name"): _plain_of(str),
    ("Literal", "value"): _value,
    ("Call", "function"): _plain_of(str),
    ("Call", "args"): _many,
    ("Cast", "arg"): _one,
    ("Cast", "safe"): _plain_of(bool),
    ("Case", "branches"): _branches,
    ("Case", "default"): _one,
    ("InValues", "arg"): _one,
    ("InValues", "items"): _many,
    ("Aggregate", "function"): _plain_of(str),
    ("Aggregate", "args"): _many,
    ("Aggregate", "distinct"): _plain_of(bool),
    ("Aggregate", "filter"): _maybe,
    ("Aggregate", "order"): _order,
}
