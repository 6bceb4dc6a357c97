"""Prepared statements and portals of a client, by the names that it has given them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ....driver.session.executions import Execution, Halt
from ....driver.session.plan_cache import Version
from ....model.lazy_dataclass import dataclass
from ....model.types import DataType
from ....sql.expressions import Column
from ..protocol.replies import Field
from ..values.rows import EncodedRows
from ..values.types import parameter_oid, wire_type
from .reports import Refused
from .statements import StatementText

MOST_STATEMENTS = 10_000
"""Prepared statements of one client, and portals."""


@dataclass(frozen=True, slots=True)
class Description:
    """Types of a statement's parameters (None: open), and the columns of its result (None: it has none)."""

    version: Version
    """Of the catalog and the search path."""
    parameters: tuple[DataType | None, ...]
    columns: tuple[Column, ...] | None


@dataclass(slots=True)
class PreparedStatement:
    """A prepared statement; `statement` is None for an empty text. `oids` are those that the client gave."""

    statement: StatementText | None
    oids: tuple[int, ...]
    description: Description | None = None
    row_description: tuple[tuple[Column, ...], tuple[int, ...], bytes] | None = None
    """Columns and formats of its latest portal, and the message for them."""

    def parameter_oids(self, types: Sequence[DataType | None]) -> list[int]:
        """The oids of all parameters: the client's own, or those of the inferred types."""
        given = (*self.oids, *[0] * (len(types) - len(self.oids)))
        return [oid or parameter_oid(type_) for oid, type_ in zip(given, types, strict=False)]


@dataclass(slots=True)
class Portal:
    """A statement with its values, and its execution once it has begun."""

    prepared: PreparedStatement
    values: tuple[object, ...]
    result_formats: tuple[int, ...]
    execution: Execution | None = None
    columns: tuple[Column, ...] | None = None
    """Those reported to the client, or those of the execution."""
    halt: Halt = field(default_factory=Halt)
    rest: EncodedRows | None = None
    """Rows of the batch at which the portal was suspended."""
    is_done: bool = False

    def close(self) -> None:
        """Ends the execution."""
        execution, self.execution, self.rest = self.execution, None, None
        if execution is not None:
            execution.close()


def formats_for(given: Sequence[int], count: int) -> tuple[int, ...]:
    """One format for each of `count` values. Raises `Refused` if the client gave another number of them.

    >>> formats_for((), 2), formats_for((1,), 2)
    ((0, 0), (1, 1))
    """
    if any(code not in (0, 1) for code in given):
        raise Refused("there is no such format: 0 is text, 1 is binary", "08P01")
    if len(given) == count:
        return tuple(given)
    if len(given) > 1:
        raise Refused(f"the message has {len(given)} formats for {count} values", "08P01")
    return (given[0] if given else 0,) * count


def row_fields(columns: Sequence[Column], formats: Sequence[int]) -> list[Field]:
    """Columns as RowDescription has them."""
    found = []
    for column, format_ in zip(columns, formats, strict=True):
        type_ = wire_type(column.type)
        found.append(Field(column.name, type_.oid, type_.size, type_.modifier, format_))
    return found
