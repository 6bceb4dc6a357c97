"""A vector that grows at its end: what single deltas set a column to, in the order of their coming."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...model.arrow_arrays import arrow_array
from ...model.types import EPOCH_DATE, EPOCH_TIMESTAMP, INTEGER_WIDTHS, DataType, Kind
from ...model.vectors.vector import Array, Flat, Vector, concat, vector_from_arrow

LEAST_ROOM = 32
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH_ORDINAL = EPOCH_DATE.toordinal()

_Converter: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]


class GrownVector:
    """Append-only vector of values of one type. One thread at a time appends; vectors returned earlier are unchanged.
    The caller keeps the number of values: if an append is interrupted (by Ctrl-C, for example), it is unchanged.

    A scan concurrent with writers finds a few new values in each rowset. Values of a fixed width are appended in place;
    making an Arrow array of them, casting it and copying all earlier values took several times as long.
    """

    def __init__(self, type_: DataType):
        self.type = type_
        self._convert = _converter(type_)
        self._values: Array = np.empty(0, type_.dtype if self._convert is not None else np.uint8)
        self._is_valid: Array | None = None
        """As long as `_values`, once one is NULL."""
        self._others: Vector | None = None
        """All values, where the type has no fixed width."""

    def put(self, start: int, values: Sequence[Any]) -> None:
        """Put Python values as storage keeps them, None for NULL, behind the first `start` ones."""
        if self._convert is None:
            new = vector_from_arrow(self.type, arrow_array(values, self.type.arrow))
            self._others = new if self._others is None else concat([self.first(start), new])
            return
        stop = start + len(values)
        if stop > len(self._values):
            self._make_room(start, stop)
        if None not in values:
            self._values[start:stop] = self._convert(values)
            if self._is_valid is not None:
                self._is_valid[start:stop] = True
            return
        present = np.array([value is not None for value in values])
        converted = np.zeros(len(values), self._values.dtype)
        converted[present] = self._convert([value for value in values if value is not None])
        if self._is_valid is None:
            self._is_valid = np.ones(len(self._values), np.bool_)
        self._values[start:stop], self._is_valid[start:stop] = converted, present

    def first(self, count: int) -> Vector:
        """The first `count` values."""
        if self._others is not None:
            return self._others if len(self._others) == count else self._others.slice(0, count)
        return Flat(self.type, self._values[:count], None if self._is_valid is None else self._is_valid[:count])

    def _make_room(self, count: int, least: int) -> None:
        # Who has a vector of the old arrays keeps these.
        length = max(LEAST_ROOM, 2 * least)
        values = np.empty(length, self._values.dtype)
        values[:count] = self._values[:count]
        if self._is_valid is not None:
            is_valid = np.ones(length, np.bool_)
            is_valid[:count] = self._is_valid[:count]
            self._is_valid = is_valid
        self._values = values


def _converter(type_: DataType) -> _Converter | None:
    """Converter from stored values to physical values; None if they have no fixed width."""
    if type_.kind in (Kind.BOOLEAN, Kind.FLOAT, Kind.DOUBLE, *INTEGER_WIDTHS):
        return lambda values: values
    if type_.kind is Kind.DATE:
        return lambda values: [value.toordinal() - _EPOCH_ORDINAL for value in values]
    if type_.kind is Kind.TIMESTAMP:
        return lambda values: [(value - EPOCH_TIMESTAMP) // _MICROSECOND for value in values]
    if type_.is_decimal and (type_.precision or 0) <= 18:
        scale = type_.scale or 0
        return lambda values: [int(value.scaleb(scale)) for value in values]
    return None
