"""Scans of external files: a morsel per row group of a Parquet file or per CSV file.

Predicates are used twice: row groups whose statistics exclude them are not read, and every row that is read is checked.
The first use only saves work, so it excludes cases in which Arrow and SQL differ. These are NaN, which SQL sorts above
all numbers and Parquet's statistics omit, and values of types that are converted while they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, arrow_scalar
from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range
from ...model.types import DataType, Kind
from ...model.vectors.vector import Batch, LazyColumn, vector_from_arrow
from ...planner.algebra.physical import FileScan
from ...sql.expressions import Column
from ..expressions.evaluate import Compiler
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream
from .files import FileColumns, cast, pieces


def open_file_scan(node: FileScan, context: ExecutionContext) -> Stream:
    """Open the scan's stream."""
    columns = FileColumns(node.names, tuple(column.type for column in node.fetched))
    types = dict(zip(node.names, columns.types, strict=True))
    found = pieces(node.file.source, columns, lambda schema: pruning(node.predicates, types, schema))
    finish = _finisher(node)
    if context.tracker is not None:
        context.tracker.opened(node.number, expected_rows(node), len(found))
    return Stream(node.columns, tuple(Morsel(_reader(node, piece, finish, context)) for piece in found))


def expected_rows(node: FileScan) -> int | None:
    """Number of rows of the files; None if unknown."""
    return node.file.description.statistics.row_count if node.file.description.is_counted else None


def _reader(
    node: FileScan,
    piece: Callable[[], Iterator[pa.RecordBatch]],
    finish: Callable[[Batch], Batch],
    context: ExecutionContext,
) -> Callable[[], Iterator[Batch]]:
    def run() -> Iterator[Batch]:
        for rows in piece():
            context.watch(rows.num_rows)
            batch = finish(_batch(node, rows))
            if batch.length:
                yield batch
        if context.tracker is not None:
            context.tracker.part_done(0)

    return run


def _batch(node: FileScan, rows: pa.RecordBatch) -> Batch:
    shown = node.file.source.shown

    def loader(column: Column, name: str, array: pa.Array) -> Callable[[Any], Any]:
        def load(chosen: Any) -> Any:
            where = f"{shown}, column {name}"
            # Arrow has no kernel that gathers rows of a view: those are converted to plain arrays first.
            whole = cast(array, column.type, where) if _is_view(array.type) else array
            taken = whole if chosen is None else whole.take(arrow_array(chosen))
            return vector_from_arrow(column.type, cast(taken, column.type, where))

        return load

    named = zip(node.fetched, node.names, rows.columns)  # there are more columns if only the number of rows is needed
    return Batch([LazyColumn(loader(column, name, array)) for column, name, array in named], rows.num_rows)


def _is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def _finisher(node: FileScan) -> Callable[[Batch], Batch]:
    """Return a function that evaluates the residual and drops the columns that only it needed."""
    wanted = range(len(node.columns))
    if node.residual is None:
        return lambda batch: batch
    condition = Compiler(node.fetched).condition(node.residual)
    return lambda batch: condition.select(batch).project(wanted)


# ---- statistics ------------------------------------------------------------------------------------------------------


def pruning(predicates: Sequence[ColumnPredicate], types: dict[str, DataType], schema: pa.Schema) -> Any:
    """Return an Arrow expression that is true for every row that satisfies the predicates; None if none can be made.

    >>> from nyala.model.types import INT
    >>> pruning([Range("x", lower=3)], {"x": INT}, pa.schema([("x", pa.int32())]))
    <pyarrow.compute.Expression (x >= 3)>
    """
    whole = None
    for predicate in predicates:
        type_ = types[predicate.column]
        if schema.field(predicate.column).type == type_.arrow:
            part = _expression(predicate, type_)
            whole = part if whole is None else whole if part is None else whole & part
    return whole


def _expression(predicate: ColumnPredicate, type_: DataType) -> Any:
    """Convert a predicate to an Arrow expression; None if statistics cannot decide it."""
    field = pc.field(predicate.column)
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE) and not _is_finite(predicate):
        return None
    if isinstance(predicate, IsNull):
        return field.is_valid() if predicate.negated else field.is_null()
    if isinstance(predicate, InList):
        return field.isin(arrow_array([type_.to_python(value) for value in predicate.values], type_.arrow))
    if isinstance(predicate, Range):
        return _range(field, predicate, type_)
    if isinstance(predicate, AnyOf):
        members = [_expression(member, type_) for member in predicate.members]
        if any(member is None for member in members):
            return None
        whole = members[0]
        for member in members[1:]:
            whole = whole | member
        return whole
    return None


def _is_finite(predicate: ColumnPredicate) -> bool:
    """True if a predicate on floating-point numbers cannot be true for NaN.

    NaN is above every lower bound, and row groups do not record whether they hold one.
    """
    if isinstance(predicate, Range):
        bounds = [bound for bound in (predicate.lower, predicate.upper) if bound is not None]
        return predicate.upper is not None and not any(math.isnan(bound) for bound in bounds)
    return not isinstance(predicate, InList) or not any(math.isnan(value) for value in predicate.values)


def _range(field: Any, predicate: Range, type_: DataType) -> Any:
    parts = []
    if predicate.lower is not None:
        bound = arrow_scalar(type_.to_python(predicate.lower), type_.arrow)
        parts.append(field >= bound if predicate.lower_inclusive else field > bound)
    if predicate.upper is not None:
        bound = arrow_scalar(type_.to_python(predicate.upper), type_.arrow)
        parts.append(field <= bound if predicate.upper_inclusive else field < bound)
    return parts[0] & parts[1] if len(parts) == 2 else parts[0] if parts else None
