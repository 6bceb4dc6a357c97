"""Python values that a column stores and returns unchanged; most written values are of this kind. Other values may
still convert to the type (a text for a date, a float for a DECIMAL): `DataType.to_physical` decides."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, TypeAlias

from ..types import INTEGER_WIDTHS, DataType, Kind

Plain: TypeAlias = tuple[type | None, Callable[[Any], bool] | None]
"""The class of plain values (subclasses excluded; None: there are no plain values), and a further condition, None if
there is none."""

_ALL: dict[Kind, type] = {Kind.BOOLEAN: bool, Kind.DOUBLE: float, Kind.DATE: datetime.date, Kind.BINARY: bytes}


def plain(type_: DataType) -> Plain:
    """Class and condition of the plain values of a type.

    >>> exact, check = plain(DataType(Kind.TINYINT))
    >>> exact, check(127), check(128)
    (<class 'int'>, True, False)
    """
    kind = type_.kind
    if kind in INTEGER_WIDTHS:
        half = 1 << (8 * INTEGER_WIDTHS[kind] - 1)
        return int, lambda value: -half <= value < half
    if kind is Kind.STRING:
        length = type_.length
        return str, None if length is None else lambda value: len(value) <= length
    if kind is Kind.DECIMAL:
        assert type_.precision is not None and type_.scale is not None
        unit = decimal.Decimal(1).scaleb(-type_.scale)
        limit = 10 ** (type_.precision - type_.scale)
        # Zeros come back without their sign.
        return decimal.Decimal, lambda value: value.same_quantum(unit) and -limit < value < limit and bool(value)
    if kind is Kind.TIMESTAMP:
        return datetime.datetime, lambda value: value.tzinfo is None and not value.fold
    return _ALL.get(kind), None
