"""Statement parameters: what callers may pass, in one shape.

`?` and `$1` take their values from a sequence, `:name` from a mapping. A value is None, bool, int, float, Decimal, str,
bytes, date, datetime, timedelta, or what `model.python_values` makes one of: values of subclasses, scalars of numpy,
pandas and Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...errors import InterfaceError, InvalidText
from ...model.python_values import EXACT, plain_value

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Bind values of `Cursor.execute`."""

Normalized: TypeAlias = tuple[Any, ...] | dict[str, Any]
"""A sequence's values, or a mapping's by name without the colon."""


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
    if type(parameters) in (tuple, list) and EXACT.issuperset(map(type, parameters)):
        if all(value.isascii() for value in parameters if type(value) is str):
            return tuple(parameters) or None  # nearly always, and then in a fifth of the time
    if isinstance(parameters, Mapping):
        return {str(name): _plain(value, f":{name}") for name, value in parameters.items()} or None
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | np.ndarray):
        raise InterfaceError(
            f"parameters are a sequence for ? and $n, or a mapping for :name, not {_article(type(parameters).__name__)}"
        )
    return tuple(_plain(value, str(number)) for number, value in enumerate(parameters, 1)) or None


def normalize_rows(rows: Iterable[Parameters]) -> Iterator[Normalized | None]:
    """`normalize` for each row of `executemany`, whose number is in the errors."""
    for number, row in enumerate(rows, 1):
        try:
            yield normalize(row)
        except (InterfaceError, InvalidText) as error:
            raise type(error)(f"row {number} of the parameters: {error}") from None


def _plain(value: Any, which: str) -> Any:
    try:
        return plain_value(value)
    except InterfaceError as error:
        raise InterfaceError(f"parameter {which} is {error}") from None
    except InvalidText as error:
        raise InvalidText(f"parameter {which}: {error}") from None


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
