"""The values of a Bind message that a driver sends again and again, recognized by the bytes around them.

    head   length │ value   length │ value ...   tail          length -1: NULL

The compiled kernel reads values of the usual types in one call. Python reads lists with others, and with NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ....errors import Error
from ....model.types import INTEGER_WIDTHS, DataType, Kind
from ..values import kernels
from ..values.parameters import parameter_value
from ..values.types import BINARY_FORMAT, TEXT, type_of

Values: TypeAlias = tuple[Any, ...]
ValuesMatcher: TypeAlias = Callable[[bytes, int], tuple[Values, int] | None]
"""From bytes and the place of a head to the values behind it and the place of the tail. None if other bytes are there,
or a value is not of its type: the messages are handled one by one, where errors are reported."""

_LENGTH: Final = struct.Struct("!i")


def values_matcher(
    head: bytes, tail: bytes, oids: Sequence[int], formats: Sequence[int], inferred: Sequence[DataType | None]
) -> ValuesMatcher:
    """The function that reads values of these types and formats.

    Parameters
    ----------
    head, tail : bytes
        In front of the values and behind them.
    oids : sequence of int
        Of the parameters, 0 where the client has left it open.
    formats : sequence of int
    inferred : sequence of DataType or None
        The types that Describe reports.
    """
    parameters = list(zip(oids, formats, inferred, strict=True))
    readers = [partial(parameter_value, oid=oid, format_=format_, inferred=type_) for oid, format_, type_ in parameters]
    any_values = partial(_read_each, head, tail, readers)
    forms = [_form(*parameter) for parameter in parameters]
    if kernels.compiled is None or b"" in forms:
        return any_values
    read, all_forms = kernels.compiled.match_values, b"".join(forms)

    def match(data: bytes, place: int) -> tuple[Values, int] | None:
        return read(data, head, tail, all_forms, place) or any_values(data, place)

    return match


def _form(oid: int, format_: int, inferred: DataType | None) -> bytes:
    """The form of a parameter for the compiled kernel; b"" if that does not read it as `parameter_value` does."""
    type_ = type_of(oid) if oid else inferred
    if format_ == TEXT:
        if type_ is None or type_.alias is not None or type_.kind is Kind.STRING:
            return b"t"
        return {2: b"2", 4: b"4", 8: b"8"}.get(INTEGER_WIDTHS.get(type_.kind, 0), b"")
    if format_ != BINARY_FORMAT or type_ is None or type_.alias is not None:
        return b""
    if type_.kind in INTEGER_WIDTHS:
        return b"n"
    return {Kind.FLOAT: b"d", Kind.DOUBLE: b"d", Kind.STRING: b"t"}.get(type_.kind, b"")


def _read_each(
    head: bytes, tail: bytes, readers: Sequence[Callable[[bytes], Any]], data: bytes, place: int
) -> tuple[Values, int] | None:
    if not data.startswith(head, place):
        return None
    place += len(head)
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
    return (tuple(values), place) if data.startswith(tail, place) else None
