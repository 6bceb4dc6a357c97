"""Sorting and limits.

Every sort key becomes unsigned codes in the wanted order (descending ones mirrored, NULLs before or behind the rest),
all keys of a row one integer where they fit, and rows are sorted as packed integers (`grouping.sort_rows`): equal rows
keep their order. With a limit, each batch gives up all but its first rows before anything is merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from ..errors import DataError
from ..planner.physical import Limit, Sort
from ..sql.expressions import Expr, OrderItem
from ..storage.vector import Array, Batch, Const, Narrow, Vector, Wide
from .aggregation.accumulators import ordered_dictionary
from .context import ExecutionContext
from .evaluate import Compiler, Evaluation, physical
from .grouping import densely, sort_rows
from .kernels.intervals import sortable
from .kernels.numbers import measured_bounds
from .lazy import joined
from .stream import Morsel, Stream, sliced, stream_of

_MOST_BITS = 62
_FLOAT_CODES = 0xFFF8_0000_0000_0001
"""The code of NaN, the greatest, plus one."""
_WORTH_CUTTING = 4
"""A batch is cut to its first n rows where it has so many times as many."""


def constant(expr: Expr | None, what: str) -> int | None:
    """The value of LIMIT or OFFSET; None for none. A negative one is a `DataError`."""
    if expr is None:
        return None
    value = physical(Compiler(()).compile(expr)(Batch([], 1)))
    if value is None:
        return None
    if value < 0:
        raise DataError(f"{what} must not be negative, and is {value}")
    return int(value)


# ---- order -----------------------------------------------------------------------------------------------------------


def ordered_codes(key: Vector, descending: bool, nulls_first: bool) -> tuple[Array, int]:
    """Unsigned codes that ascend in the wanted order, and a bound that they stay below."""
    codes, size = _ascending_codes(key)
    if descending:
        codes = codes.dtype.type(size - 1) - codes
    if key.validity is None:
        return codes, size
    codes = codes.astype(np.uint64) + np.uint64(1 if nulls_first else 0)
    return np.where(key.validity, codes, np.uint64(0 if nulls_first else size)), size + 1


def _ascending_codes(key: Vector) -> tuple[Array, int]:
    if isinstance(key, Const):
        return np.zeros(len(key), np.uint8), 1
    key = sortable(key)
    if key.type.is_text:
        ranked = ordered_dictionary(key)
        return ranked.codes.view(f"u{ranked.codes.dtype.itemsize}"), max(1, len(ranked.dictionary))
    if isinstance(key, Wide):
        ranks = pc.rank(key.array, sort_keys="ascending", tiebreaker="dense").to_numpy()
        return ranks.astype(np.uint64), len(key) + 1
    if isinstance(key, Narrow):
        low, high = key.bounds()
        return key.codes, high - low + 1
    values = key.values()
    if values.dtype.kind == "f":
        return _float_codes(values), _FLOAT_CODES
    if values.dtype == np.bool_:
        return values.view(np.uint8), 2
    low, high = measured_bounds(key)
    codes = values.astype(np.int64).view(np.uint64) - np.uint64(low % 2**64)
    if key.validity is not None:
        codes = np.where(key.validity, codes, np.uint64(0))
    if high - low >= 2**64 - 2:
        return densely(codes, 1 << 64)  # no room for a NULL's code
    return codes, high - low + 1


def _float_codes(values: Array) -> Array:
    """Bits in numeric order: negative numbers mirrored, NaN above everything (PostgreSQL)."""
    plain = values.astype(np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.int64)
    ascending = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return (ascending ^ np.int64(-(2**63))).view(np.uint64)


def order_of(keys: Sequence[Vector], items: Sequence[OrderItem], length: int, first: int | None = None) -> Array:
    """The row numbers in the wanted order; with `first`, only so many."""
    columns = [ordered_codes(k, item.descending, item.nulls_first) for k, item in zip(keys, items, strict=True)]
    size = 1
    for _, more in columns:
        size *= more
    if size > 1 << _MOST_BITS:
        order = np.lexsort([codes for codes, _ in reversed(columns)])
        return order if first is None else order[:first]
    codes = np.zeros(length, np.uint64)
    for part, count in columns:
        codes = codes * np.uint64(count) + part.astype(np.uint64)
    if first is not None and first < length // _WORTH_CUTTING:
        chosen = np.argpartition(codes, first)[: first + 1]
        # Ties at the edge: any of the equal rows will do.
        order, _ = sort_rows(codes.take(chosen), size)
        return chosen.take(order[:first])
    order, _ = sort_rows(codes, size)
    return order if first is None else order[:first]


def open_sort(node: Sort, source: Stream, context: ExecutionContext) -> Stream:
    """Read the source whole and give its rows in order."""
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    evaluations = Compiler(node.source.columns).compile_all([item.expr for item in node.order])
    wanted = None if limit is None else limit + offset
    if wanted == 0:
        return stream_of(node.columns, [])

    def work(batches: Iterator[Batch], _: Morsel) -> list[Batch]:
        if wanted is None:
            return list(batches)
        return [_first_rows(batch, evaluations, node.order, wanted) for batch in batches]

    found = [batch for batches in context.run_all(source, work) for batch in batches]
    rows = joined(node.source.columns, found)
    context.reserve(rows.length * 16 * len(node.order), "a sort")
    if not rows.length:
        return stream_of(node.columns, [])
    order = order_of([evaluate(rows) for evaluate in evaluations], node.order, rows.length, wanted)
    ordered = rows.select(order[offset:])
    positions = {column.id: i for i, column in enumerate(node.source.columns)}
    result = ordered.project([positions[column.id] for column in node.columns])
    return stream_of(node.columns, sliced(result))


def _first_rows(batch: Batch, evaluations: list[Evaluation], items: Sequence[OrderItem], wanted: int) -> Batch:
    if batch.length < _WORTH_CUTTING * wanted:
        return batch
    return batch.select(order_of([evaluate(batch) for evaluate in evaluations], items, batch.length, wanted))


# ---- limits ----------------------------------------------------------------------------------------------------------


def open_limit(node: Limit, source: Stream, context: ExecutionContext) -> Stream:
    """At most so many rows; what comes after them is never computed, but for a little read-ahead."""
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
    """The batches up to the one that completes so many rows: no morsel needs to give more."""
    for batch in batches:
        yield batch
        rows -= batch.length
        if rows <= 0:
            return
