"""Prepared statements: a text, the types of its parameters and its columns, and the values bound to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ....driver.session.bind_values import Normalized, normalize
from ....driver.session.session import Session
from ....model.lazy_dataclass import dataclass
from ....model.types import STRING, DataType, Kind
from ....sql import bound
from ....sql.binding.parameter_types import infer_parameters
from ....sql.expressions import Column
from ..metadata.columns import schema_of
from .reports import Refused
from .results import NO_COLUMNS


@dataclass(slots=True)
class PreparedStatement:
    """A prepared statement of a client.

    Attributes
    ----------
    handle : bytes
    text : str
    schema : pa.Schema
        Of its result; without fields if it changes rows or tables.
    parameters : pa.Schema
        One field for each parameter. One whose type the statement leaves open is a text.
    values : pa.RecordBatch, optional
        Rows of parameters, bound by DoPut.
    used : float
        Time of its latest use (monotonic).
    """

    handle: bytes
    text: str
    schema: pa.Schema
    parameters: pa.Schema
    values: pa.RecordBatch | None = None
    used: float = 0.0

    def rows(self) -> Iterator[Normalized | None]:
        """The bound rows of values; one of None without parameters. Raises `Refused` if values are missing."""
        count = len(self.parameters)
        if not count:
            yield None
            return
        if self.values is None or not self.values.num_rows:
            raise Refused(f"the statement has {count} parameters, and none are bound", "08P01")
        yield from rows_of(self.values)


def described(session: Session, text: str) -> tuple[pa.Schema, pa.Schema]:
    """Schemas of the result and of the parameters of a statement, which is not run if it changes anything.

    Raises
    ------
    Refused
        There are several statements.
    SqlSyntaxError, UnknownTable
        Or another error of the statement.
    """
    parsed = session.parse(text)
    if len(parsed) > 1:
        raise Refused("several statements cannot be prepared as one", "42601")
    statement, types = infer_parameters(parsed[0], session.store, session=session.facts)
    parameters = pa.schema([_parameter(place, type_) for place, type_ in enumerate(types, 1)])
    if isinstance(statement, bound.WITH_QUERY):
        columns = result_columns(statement)
    elif isinstance(statement, _LISTING | bound.Explain):
        # The columns of a listing, such as DESCRIBE, are known once it has run; it changes nothing. EXPLAIN ANALYZE
        # may change something, and has the columns of any EXPLAIN.
        execution = session.run("EXPLAIN SELECT 1" if isinstance(statement, bound.Explain) else text)
        columns = execution.columns
        execution.close()
    else:
        columns = None
    return NO_COLUMNS if columns is None else schema_of(columns), parameters


_LISTING = (
    bound.ShowTables
    | bound.ShowFunctions
    | bound.ShowSchemas
    | bound.ShowStats
    | bound.ShowPartitions
    | bound.ShowCreateTable
    | bound.ShowSettings
    | bound.Describe
    | bound.DescribeView
)


def result_columns(statement: bound.Statement) -> tuple[Column, ...] | None:
    """The columns of a bound statement's result; None if it has none."""
    if isinstance(statement, bound.SelectStatement):
        return statement.query.columns[: statement.visible]
    return getattr(statement, "returning", None)


def _parameter(place: int, type_: DataType | None) -> pa.Field:
    # The JDBC driver (18.3) sends a timestamp in milliseconds, whatever the unit of the field.
    is_timestamp = type_ is not None and type_.kind is Kind.TIMESTAMP
    return pa.field(str(place), pa.timestamp("ms") if is_timestamp else (type_ or STRING).arrow)


def rows_of(values: pa.RecordBatch) -> Iterator[Normalized | None]:
    """The rows of a batch as values of statements."""
    columns = [_python_values(column) for column in values.columns]
    for row in zip(*columns, strict=True):
        yield normalize(row)


def _python_values(column: pa.Array) -> list[Any]:
    """Values as `normalize` accepts them; a union, as clients send a parameter of any type, has Python values, too."""
    found: list[Any] = column.to_pylist()
    return found
