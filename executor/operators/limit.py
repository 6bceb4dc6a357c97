"""LIMIT and OFFSET over rows in any order."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import DataError
from ...model.vectors.vector import Batch
from ...planner.algebra.physical import Limit, Sort
from ...sql.expressions import Expr
from ..expressions.evaluate import Compiler, physical
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream, stream_of


def constant(expr: Expr | None, what: str) -> int | None:
    """Return the value of LIMIT or OFFSET; None for none. Raises `DataError` for a negative value."""
    if expr is None:
        return None
    value = physical(Compiler(()).compile(expr)(Batch([], 1)))
    if value is None:
        return None
    if value < 0:
        raise DataError(f"{what} must not be negative, and is {value}")
    return int(value)


def open_limit(node: Limit | Sort, source: Stream, context: ExecutionContext) -> Stream:
    """Open a limit: at most `limit` rows in order. Rows behind them are not computed, except for a little
    read-ahead."""
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    if limit == 0:
        return stream_of(node.columns, [])
    if limit is not None:
        source = source.through(source.columns, lambda batches: _until(batches, limit + offset))

    def run() -> Iterator[Batch]:
        skip, left = offset, limit
        batches = context.iterate(source, lambda batch: batch)
        for batch in batches:
            if skip >= batch.length:
                skip -= batch.length
                continue
            stop = batch.length if left is None else min(batch.length, skip + left)
            yield batch.slice(skip, stop)
            left = None if left is None else left - (stop - skip)
            skip = 0
            if left == 0:
                batches.close()  # type: ignore[attr-defined]
                return

    return Stream(node.columns, (Morsel(run),), serial=True)


def _until(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Yield the batches up to the one that completes `rows` rows: no morsel needs to produce more."""
    for batch in batches:
        yield batch
        rows -= batch.length
        if rows <= 0:
            return
