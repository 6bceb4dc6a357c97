"""Scans without SQL: a projection and predicates of one table at one moment, as Arrow record batches.

    TableHandle.scan ─► scan_of ─► Scan ─ Store.scan, token by token ─► RecordBatch ...
                                                └─ in_key_order, where the rows of all tablets ascend together

A `Scan` fixes its moment and pins what it reads when it is made. It may be read several times, and gives the same rows
each time, whatever is written, flushed or dropped meanwhile, until it is closed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ...errors import InterfaceError
from ...model.forks import stay_with_process
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, PartitionSchema, Table
from ...model.store import ScanSpec, ScanToken, Store, Timestamp
from ...model.vectors.vector import Batch

ROWS_AT_ONCE = 1 << 12
"""Rows that become Python values in one go."""
_UNPARTITIONED = PartitionSchema()


class Scan:
    """Rows of a table at one snapshot.

    Iteration yields `pa.RecordBatch`es, never empty; memory holds one at a time (in key order: one of each tablet). A
    context manager; leaving it closes it.

    Attributes
    ----------
    snapshot : Timestamp
        Its hybrid timestamp.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        columns: Sequence[ColumnSchema],
        tokens: Sequence[ScanToken],
        snapshot: Timestamp,
        *,
        names: Sequence[str] | None = None,
        limit: int | None = None,
        order_by: Sequence[str] = (),
        batch_rows: int | None = None,
    ):
        """The columns come out under `names` (their own where that is None). `tokens` may have more of them, behind
        these: those that `order_by` needs."""
        self.snapshot = snapshot
        self._columns = columns
        self._names = names
        self._store = store
        self._tokens: Sequence[ScanToken] | None = tokens
        self._limit = limit
        self._order_by = order_by
        self._batch_rows = batch_rows
        stay_with_process(self)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return arrow_schema(self._columns, self._names)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batches = self._ordered() if self._order_by else self._batches()
        for batch in _sliced(_limited(batches, self._limit), self._batch_rows):
            self._held()
            self._store()
            yield pa.RecordBatch.from_arrays(batch.columns[: len(self.schema)], schema=self.schema)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows one by one: tuples of Python values, as Arrow's `to_pylist` gives them, in the order of the columns.

        What a few rows in key order cost least by: no column is made of them.

        Examples
        --------
        >>> import nyala
        >>> connection = nyala.connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        >>> written = connection.table("t").insert([(1, "one"), (2, "two"), (3, "three")])
        >>> with connection.table("t").scan(predicates=("k", ">=", 2), ordered=True, limit=10) as scan:
        ...     list(scan.rows())
        [(2, 'two'), (3, 'three')]
        >>> connection.close()
        """
        tokens = self._held()
        if self._order_by and len(tokens) > 1:
            rows = merged_rows([self._rows_of(token) for token in tokens], tokens[0].spec.columns, self._order_by)
        else:
            rows = chain.from_iterable(map(self._rows_of, tokens))
        width = len(self._columns)
        if tokens and len(tokens[0].spec.columns) > width:
            rows = (row[:width] for row in rows)
        return islice(rows, self._limit)

    def _rows_of(self, token: ScanToken) -> Iterator[tuple[Any, ...]]:
        for batch in self._store().scan(token):
            for start in range(0, batch.length, ROWS_AT_ONCE):
                self._held()
                self._store()
                yield from batch.slice(start, start + ROWS_AT_ONCE).rows()

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(list(self), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; `options` are those of `pa.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        self._held()
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows by Arrow's C stream interface, for pandas, Polars, DuckDB, DataFusion, pyarrow."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """Number of rows; reads only the columns of the predicates."""
        rows = 0
        for token in self._held():
            bare = replace(token, spec=replace(token.spec, columns=(), ordered=False))
            for batch in self._store().scan(bare):
                rows += batch.length
                if self._limit is not None and rows >= self._limit:
                    return self._limit
        return rows

    def close(self) -> None:
        """Release the pinned snapshot. May be repeated."""
        self._tokens = None

    def __enter__(self) -> Scan:
        self._held()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _held(self) -> Sequence[ScanToken]:
        if self._tokens is None:
            raise InterfaceError("the scan is closed")
        return self._tokens

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for token in self._held():
            yield from self._of(token)

    def _of(self, token: ScanToken) -> Iterator[pa.RecordBatch]:
        for batch in self._store().scan(token):
            if batch.length:
                yield record_batch(batch, token.spec.columns)

    def _ordered(self) -> Iterator[pa.RecordBatch]:
        tokens = self._held()
        if len(tokens) == 1:
            return self._of(tokens[0])
        return in_key_order([self._of(token) for token in tokens], self._order_by)


def scan_of(
    store: Callable[[], Store],
    table: Table,
    columns: Sequence[str],
    predicates: Sequence[ColumnPredicate],
    snapshot: Timestamp,
    *,
    names: Sequence[str] | None = None,
    tablet: str | None = None,
    limit: int | None = None,
    ordered: bool = False,
    batch_rows: int | None = None,
) -> Scan:
    """Returns a scan of some columns, named `names` (by default their own names); of one tablet if it is given.

    Raises `InterfaceError` for an invalid number, `UnknownColumn`, `HistoryGone` if the history at `snapshot` was
    removed, and `TabletGone`.
    """
    check_counts(limit=limit, batch_rows=batch_rows)
    shown = [table.schema.column(name) for name in columns]
    # A table without partitions has one tablet for ever, whose rows come in order.
    is_merged = ordered and table.partitions != _UNPARTITIONED
    key = [column.name for column in table.schema.key] if is_merged else []
    fetched = (*columns, *(name for name in key if name not in columns))
    spec = ScanSpec(fetched, tuple(predicates), snapshot, ordered=ordered, limit=limit, tablet=tablet)
    tokens = store().scan_tokens(table, spec)
    return Scan(store, shown, tokens, snapshot, names=names, limit=limit, order_by=key, batch_rows=batch_rows)


def check_counts(**counts: int | None) -> None:
    """Raise `InterfaceError` unless each is None or a whole number: a limit from 0, others from 1."""
    for name, count in counts.items():
        least = 0 if name == "limit" else 1
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < least):
            raise InterfaceError(f"{name}={count!r}: a whole number of at least {least} is needed")


def arrow_schema(columns: Sequence[ColumnSchema], names: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of some columns, under other names where those are given."""
    called = names or [column.name for column in columns]
    return pa.schema([pa.field(name, c.type.arrow, c.nullable) for name, c in zip(called, columns, strict=True)])


def record_batch(batch: Batch, names: Sequence[str]) -> pa.RecordBatch:
    """A batch in Arrow."""
    return pa.RecordBatch.from_arrays([column.to_arrow() for column in batch.columns()], names=list(names))


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    while limit > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, limit)
        limit -= min(limit, batch.num_rows)


def _sliced(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if rows is None:
            yield batch
            continue
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


# ---- key order -------------------------------------------------------------------------------------------------------


def in_key_order(streams: Sequence[Iterator[pa.RecordBatch]], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Merge streams of batches, each of them ascending by some columns without NULLs, into one that ascends.

    Each round takes from every stream the rows up to the least of the last keys that the batches at hand have, which
    uses up one batch at least, and sorts these rows together.
    """
    heads = {number: batch for number, stream in enumerate(streams) if (batch := next(stream, None)) is not None}
    while heads:
        bound = min(_key_at(batch, key, batch.num_rows - 1) for batch in heads.values())
        parts = []
        for number, batch in list(heads.items()):
            end = bisect_right(range(batch.num_rows), bound, key=partial(_key_at, batch, key))
            if end:
                parts.append(batch.slice(0, end))
            rest = batch.slice(end) if end < batch.num_rows else next(streams[number], None)
            if rest is None:
                del heads[number]
            else:
                heads[number] = rest
        yield parts[0] if len(parts) == 1 else _sorted(parts, key)


def merged_rows(
    streams: Sequence[Iterator[tuple[Any, ...]]], columns: Sequence[str], key: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Merge streams of rows with these columns, each of them ascending by some of them without NULLs, into one that
    ascends."""
    return merge(*streams, key=itemgetter(*(columns.index(name) for name in key)))


def _key_at(batch: pa.RecordBatch, key: Sequence[str], row: int) -> tuple[Any, ...]:
    return tuple(batch.column(name)[row].as_py() for name in key)


def _sorted(parts: Sequence[pa.RecordBatch], key: Sequence[str]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(parts).combine_chunks()
    (batch,) = rows.sort_by([(name, "ascending") for name in key]).combine_chunks().to_batches()
    return batch
