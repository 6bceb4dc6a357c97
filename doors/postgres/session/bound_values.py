"""The values of a Bind message that a driver sends again and again, read at their place among other bytes.

    count   length │ value   length │ value ...          length -1: NULL

If all values are binary numbers, and have the widths of the first run, `struct` reads them in one step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ....errors import Error
from ....model.types import DataType, Kind
from ..values.parameters import parameter_value
from ..values.types import BINARY_FORMAT, type_of

Values: TypeAlias = tuple[Any, ...]
ValuesReader: TypeAlias = Callable[[bytes, int], tuple[Values, int] | None]
"""From bytes and the place of the first value to the values and the place behind them; None if that is no such list,
or a value is not of its type: the messages are handled again one by one, where errors are reported."""

_LENGTH: Final = struct.Struct("!i")
_INTEGERS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS: Final = {4: "f", 8: "d"}
_WIDTHS: Final = {
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT), _INTEGERS),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _FLOATS),
}


def values_reader(
    oids: Sequence[int],
    formats: Sequence[int],
    inferred: Sequence[DataType | None],
    sample: Sequence[bytes | None],
) -> ValuesReader:
    """The function that reads values of these types and formats.

    Parameters
    ----------
    oids : sequence of int
        Of the parameters, 0 where the client has left it open.
    formats : sequence of int
    inferred : sequence of DataType or None
        The types that Describe reports.
    sample : sequence of bytes or None
        Values of one run: those of other runs are expected to have the same widths.
    """
    readers = [
        partial(parameter_value, oid=oid, format_=format_, inferred=type_)
        for oid, format_, type_ in zip(oids, formats, inferred, strict=True)
    ]
    general = partial(_read_each, readers)
    forms = [_form(*parameter) for parameter in zip(oids, formats, inferred, sample, strict=True)]
    if not forms:
        return lambda data, place: ((), place)
    if "" in forms:
        return general
    layout = struct.Struct("!" + "".join(f"i{form}" for form in forms))
    widths = tuple(struct.calcsize(f"!{form}") for form in forms)
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, place: int) -> tuple[Values, int] | None:
        end = place + size
        if end <= len(data):
            found = unpack(data, place)
            if found[::2] == widths:
                return found[1::2], end
        return general(data, place)

    return read


def _form(oid: int, format_: int, inferred: DataType | None, sample: bytes | None) -> str:
    """The form in which `struct` reads a parameter; "" if it does not read it, or not as `parameter_value` does."""
    type_ = type_of(oid) if oid else inferred
    if format_ != BINARY_FORMAT or type_ is None or type_.alias is not None or sample is None:
        return ""
    return _WIDTHS.get(type_.kind, {}).get(len(sample), "")


def _read_each(readers: Sequence[Callable[[bytes], Any]], data: bytes, place: int) -> tuple[Values, int] | None:
    values: list[Any] = []
    for reader in readers:
        if place + _LENGTH.size > len(data):
            return None
        (size,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        if size < 0:
            if size != -1:
                return None
            values.append(None)
            continue
        if place + size > len(data):
            return None
        try:
            values.append(reader(data[place : place + size]))
        except Error:
            return None
        place += size
    return tuple(values), place
