"""Results of statements: result sets, counts of changed rows, small listings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ...errors import InternalError
from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.types import DataType
from ...planner import Plan
from ...sql import bound
from ...sql.expressions import Column

if TYPE_CHECKING:
    from ..run.context import ExecutionContext

Planner: TypeAlias = Plan | Callable[[bound.Query], Plan] | None
"""The statement's plan, or a function that makes it. Statements without a query need none."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """Result of a statement.

    Parameters
    ----------
    columns : tuple of Column, optional
        None if the statement has no result set.
    batches : iterator of pa.RecordBatch
        The rows, produced on demand; evaluation errors are raised there.
    rowcount : int
        Number of changed rows, -1 if not applicable.
    """

    columns: tuple[Column, ...] | None
    batches: Iterator[pa.RecordBatch]
    rowcount: int = -1


def planned(query: bound.Query, plan: Planner) -> Plan:
    """Return a query's plan, made now if planning was deferred."""
    if plan is None:
        raise InternalError("a statement with a query was run without its plan")
    return plan if isinstance(plan, Plan) else plan(query)


def done(rowcount: int = -1) -> StatementResult:
    """Result of a statement without a result set."""
    return StatementResult(None, iter(()), rowcount)


def arrow_batches(plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan under the names of its columns, as they are produced."""
    from ..execute import execute  # with the operators

    names = [column.name for column in plan.columns]
    for batch in execute(plan.root, context):
        yield batch.to_arrow(names)


def listing(names: Sequence[str], types: Sequence[DataType], columns: Sequence[Sequence[object]]) -> StatementResult:
    """Make a small result set, column by column."""
    outline = tuple(Column(type_, True, -1 - i, name) for i, (name, type_) in enumerate(zip(names, types, strict=True)))
    arrays = [arrow_array(values, type_.arrow) for values, type_ in zip(columns, types, strict=True)]
    return StatementResult(outline, iter([pa.RecordBatch.from_arrays(arrays, names=list(names))]))
