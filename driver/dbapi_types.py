"""PEP 249's type objects and constructors.

The type code in `Cursor.description` is the column's full `DataType` (`DECIMAL(15,2)`); it compares equal to the type
object of its family:

>>> from nyala.model.types import DECIMAL
>>> DECIMAL(15, 2) == NUMBER, DECIMAL(15, 2) == STRING
(True, False)
"""

from __future__ import annotations

import datetime
import time
from typing import Final


class TypeObject:
    """A family of types, named by their SQL kinds; equal to every type of the family."""

    def __init__(self, name: str, *kinds: str):
        self.name = name
        self.kinds = frozenset(kinds)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self.kinds == other.kinds
        kind = getattr(other, "kind", None)
        return kind is not None and getattr(kind, "value", None) in self.kinds

    def __hash__(self) -> int:
        return hash(self.kinds)

    def __repr__(self) -> str:
        return f"nyala.{self.name}"


STRING: Final = TypeObject("STRING", "STRING")
BINARY: Final = TypeObject("BINARY", "BINARY")
NUMBER: Final = TypeObject("NUMBER", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
DATETIME: Final = TypeObject("DATETIME", "DATE", "TIMESTAMP", "INTERVAL")
ROWID: Final = TypeObject("ROWID")
"""Equal to no type: nyala identifies rows by their primary key."""

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date at `ticks` seconds since 1970 (PEP 249)."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day at `ticks` seconds since 1970 (PEP 249)."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time at `ticks` seconds since 1970 (PEP 249)."""
    return datetime.datetime(*time.localtime(ticks)[:6])
