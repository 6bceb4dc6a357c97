"""Single values out of vectors: for look-ups by primary key, where a kernel of numpy or Arrow per value costs more than
all the rest."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from ..types import EPOCH_DATE, EPOCH_TIMESTAMP, INTEGER_WIDTHS, DataType, Kind, decimal_value
from .vector import Const, Dict, Flat, Narrow, Text, Wide

_EPOCH_DAY = EPOCH_DATE.toordinal()
_DATE, _TIMESTAMP, _BOOLEAN, _DECIMAL = Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN, Kind.DECIMAL
"""A look-up in an Enum takes longer than a comparison."""
_fromordinal = datetime.date.fromordinal


def cell(vector: Any, place: int) -> Any:
    """The value at `place` as a Python value, None for NULL: `model.vectors.vector.to_arrow()[place].as_py()`, in less
    than a microsecond for numbers and dates."""
    form = type(vector)
    if form is Narrow:
        if vector.validity is not None and not vector.validity[place]:
            return None
        return to_python(vector.type, vector.codes.item(place) + vector.base)
    if form is Dict:
        if vector.validity is not None and not vector.validity[place]:
            return None
        return vector.dictionary[vector.codes.item(place)].as_py()
    if form is Flat:
        if vector.validity is not None and not vector.validity[place]:
            return None
        return to_python(vector.type, vector.values().item(place))
    if form is Text:
        return vector.cells.get(place)
    if form is Const:
        return vector.type.to_python(vector.value)
    return vector.slice(place, place + 1).to_arrow()[0].as_py()


def cell_getter(vector: Any) -> Callable[[int], Any]:
    """`cell` of one vector, as a function of the place, for a vector whose cells are read often.

    >>> from nyala.model.types import DECIMAL
    >>> import numpy as np
    >>> cell_getter(Narrow(DECIMAL(9, 2), np.array([0, 50], np.uint8), 100))(1)
    Decimal('1.50')
    """
    if type(vector) is not Narrow or vector.validity is not None:
        return partial(cell, vector)
    code, base, kind = vector.codes.item, vector.base, vector.type.kind
    if kind in INTEGER_WIDTHS:
        return lambda place: code(place) + base
    if kind is _DECIMAL:
        scale = vector.type.scale or 0
        return lambda place: decimal_value(code(place) + base, scale)
    return partial(cell, vector)


def cells(vector: Any, start: int, stop: int) -> list[Any]:
    """The values from `start` to `stop` (exclusive) as Python values, None for NULL: `cell` for some."""
    form = type(vector)
    if form is Narrow and vector.validity is None and vector.type.kind in INTEGER_WIDTHS:
        base = vector.base
        return [code + base for code in vector.codes[start:stop].tolist()]
    is_arrow = form is Text or form is Wide
    array = vector.array.slice(start, stop - start) if is_arrow else vector.slice(start, stop).to_arrow()
    values: list[Any] = array.to_pylist()
    return values


def to_python(type_: DataType, value: Any) -> Any:
    """A physical value that is not None as a Python value: `DataType.to_python` by the shortest way."""
    kind = type_.kind
    if kind is _DATE:
        return _fromordinal(value + _EPOCH_DAY)
    if kind is _TIMESTAMP:
        return EPOCH_TIMESTAMP + datetime.timedelta(microseconds=value)
    if kind is _BOOLEAN:
        return bool(value)
    return type_.to_python(value) if kind is _DECIMAL else value
