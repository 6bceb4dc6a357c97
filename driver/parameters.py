"""Statement parameters: what callers may pass, in one shape.

`?` and `$1` take their values from a sequence, `:name` from a mapping. A value is None, bool, int, float, Decimal, str,
bytes, date, datetime, timedelta or a numpy scalar.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..errors import InterfaceError, InvalidText

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""What a caller passes to `Cursor.execute`."""

Normalized: TypeAlias = tuple[Any, ...] | dict[str, Any]
"""A sequence's values, or a mapping's by name without the colon."""

_EXACT = frozenset(
    {type(None), bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime, datetime.timedelta}
)
_PLAIN = (bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.timedelta)


def normalize(parameters: Parameters | None) -> Normalized | None:
    """Check and copy the parameters of one execution; None and an empty sequence mean that there are none.

    Raises `InterfaceError` for something that is neither sequence nor mapping, or a value no SQL type holds.

    >>> normalize([1, None])
    (1, None)
    >>> normalize({"year": 1994})
    {'year': 1994}
    """
    if parameters is None:
        return None
    if type(parameters) in (tuple, list) and _EXACT.issuperset(map(type, parameters)):
        if all(value.isascii() for value in parameters if type(value) is str):
            return tuple(parameters) or None  # nearly always, and then in a fifth of the time
    if isinstance(parameters, Mapping):
        return {str(name): _plain(value, f":{name}") for name, value in parameters.items()} or None
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | np.ndarray):
        raise InterfaceError(
            f"parameters are a sequence for ? and $n, or a mapping for :name, not {_article(type(parameters).__name__)}"
        )
    return tuple(_plain(value, str(number)) for number, value in enumerate(parameters, 1)) or None


def _plain(value: Any, which: str) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):  # some of them are subclasses of Python's, which only look right
        return value.item()
    if isinstance(value, str) and not value.isascii():
        _refuse_surrogates(value, which)
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise InterfaceError(
        f"parameter {which} is {_article(type(value).__name__)}; a value is None, bool, int, float, Decimal, str, "
        "bytes, date, datetime or timedelta"
    )


def _refuse_surrogates(value: str, which: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(f"parameter {which} holds U+{ord(value[error.start]):04X}, half a character") from None


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
