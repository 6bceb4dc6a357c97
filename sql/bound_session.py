"""Bound statements about what a session keeps by name: prepared statements and cursors. The others are in `bound`."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..model.lazy_dataclass import dataclass
from ..model.types import DataType


@dataclass(frozen=True, slots=True)
class PrepareStatement:
    """PREPARE name (types) AS text."""

    name: str
    types: tuple[DataType, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ExecutePrepared:
    """EXECUTE name (values); the values are those of Python."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE name; without a name DEALLOCATE ALL."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """DISCARD: with `everything` DISCARD ALL, with `temporary` DISCARD TEMP; otherwise something that a session has
    not."""

    everything: bool
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class DeclareCursor:
    """DECLARE name CURSOR FOR text. `keeps_rows` is True if it can go back or outlive the transaction."""

    name: str
    text: str
    keeps_rows: bool
    hold: bool


@dataclass(frozen=True, slots=True)
class FetchCursor:
    """FETCH from a cursor, or MOVE. `direction` is FORWARD, BACKWARD, ABSOLUTE or RELATIVE; `count` None is ALL."""

    name: str
    direction: str
    count: int | None
    is_move: bool


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE name; without a name CLOSE ALL."""

    name: str | None = None


SessionStatement: TypeAlias = (
    PrepareStatement | ExecutePrepared | Deallocate | Discard | DeclareCursor | FetchCursor | CloseCursor
)
