"""Sources of a scan of a replica: the tablet's tokens, shared among a few sources.

    view ─► tokens ──┬─► source 1: batches ─► fragment ─► columns read, cut to size ─┐
                     └─► source 2: batches ─► fragment ─► columns read, cut to size ─┴─► the stream

The sources take tokens from one queue, each when it is free. So they end at about the same time, however uneven the
tokens are, and a fragment makes one partial result per source, not one per token. The results refer to no file or view:
they may wait for the network, or be sent twice, while the tablet continues. A small tablet has one source.

Scans in key order, of changes, and with a limit have one source. A scan that resumes after a key
(`ScanTablet.after_key`) begins with the pages whose first key column is at least as large, and leaves out the rows up
to the key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from ....errors import ProtocolError
from ....model.keys.keys import Keys
from ....model.lazy_dataclass import dataclass
from ....model.predicates import Range
from ....model.schema import Schema
from ....model.store import ScanCounters, ScanSpec
from ....model.vectors.sizes import batch_bytes
from ....model.vectors.vector import Batch
from ....storage.columns.column_file import ROW_GROUP_ROWS
from ....storage.reading.tablet_scan import Piece, cut, first_rows, scan_view
from ....storage.tablet.tablet import TabletView
from .fragments import Evaluator

MESSAGE_BYTES = 8 << 20
"""Larger batches are divided if they have more than one row."""
ALONE_ROWS = 4 * ROW_GROUP_ROWS
"""A scan of at most this many rows has one source: sharing costs more than it saves."""
_TOKENS_PER_SOURCE = 4
"""Tokens per source, if the tablet is large enough."""

KeyValues: TypeAlias = tuple[Any, ...]
"""The physical values of a primary key."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanSources:
    """The sources of one scan, with a counter each. `rows` is the approximate number of rows before predicates."""

    iterators: tuple[Iterator[Batch], ...]
    counters: tuple[ScanCounters, ...]
    rows: int


def scan_sources(
    view: TabletView,
    spec: ScanSpec,
    *,
    parallel: int,
    watch: Callable[[int], None],
    after_key: KeyValues | None = None,
    evaluate: Evaluator | None = None,
) -> ScanSources:
    """Divides a scan of a view into sources.

    Parameters
    ----------
    view : TabletView
        At the scan's snapshot.
    parallel : int
        Most sources.
    watch : callable
        Called before each row group; its error ends the source.
    after_key : tuple, optional
        Of ordered scans: leave out the rows up to this key.
    evaluate : Evaluator, optional
        Maps the rows of each source. `ScanSpec.limit` bounds its input rows.

    Raises `ProtocolError` if `after_key` does not fit the scan.
    """
    tokens, rows = _tokens(view, spec, parallel)
    alone = spec.ordered or spec.changes is not None or spec.limit is not None
    count = 1 if alone else max(1, min(parallel, len(tokens)))
    counters = tuple(ScanCounters(watch=watch) for _ in range(count))
    if after_key is not None:
        reading = [_read_after(view, tokens, spec, counters[0], after_key)]
    else:
        reading = [_read(view, tokens, spec, mine) for mine in counters]
    if spec.limit is not None:
        reading = [first_rows(reading[0], spec.limit)]
    sources = reading if evaluate is None else [evaluate(batches) for batches in reading]
    iterators = tuple(_finished(batches) for batches in sources)
    return ScanSources(iterators, counters, rows)


def _tokens(view: TabletView, spec: ScanSpec, parallel: int) -> tuple[deque[tuple[Piece, ...]], int]:
    """Returns the tokens, and about how many rows they cover."""
    rows = sum(rowset.row_count for rowset in view.rowsets) + sum(m.row_count for m in view.memory)
    size = None if parallel == 1 or rows <= ALONE_ROWS else max(ROW_GROUP_ROWS, rows // (parallel * _TOKENS_PER_SOURCE))
    tokens = deque(cut(view, replace(spec, split_rows=size)))
    return tokens, sum(piece.stop - piece.start for pieces in tokens for piece in pieces)


def _read(
    view: TabletView, tokens: deque[tuple[Piece, ...]], spec: ScanSpec, counters: ScanCounters
) -> Iterator[Batch]:
    """Yields the rows of the tokens that this source takes from the queue."""
    while True:
        try:
            pieces = tokens.popleft()
        except IndexError:
            return
        yield from scan_view(view, pieces, spec, counters)


# ---- resuming after a key ----------------------------------------------------------------------------------------


def _read_after(
    view: TabletView, tokens: deque[tuple[Piece, ...]], spec: ScanSpec, counters: ScanCounters, after: KeyValues
) -> Iterator[Batch]:
    schema = view.table.schema
    if not spec.ordered or spec.changes is not None:
        raise ProtocolError("only a scan in key order can resume after a key")
    if len(after) != schema.key_columns:
        raise ProtocolError(f"a key of table {view.table.name} has {schema.key_columns} values, not {len(after)}")
    first = schema.key[0].name
    rest = Range(first, upper=after[0]) if spec.descending else Range(first, lower=after[0])
    missing = tuple(column.name for column in schema.key if column.name not in spec.columns)
    wider = replace(
        spec,
        columns=(*spec.columns, *missing),
        predicates=(*spec.predicates, rest),
        limit=None,
    )
    batches = _behind(_read(view, tokens, wider, counters), schema, wider, after)
    return (batch.project(range(len(spec.columns))) for batch in batches)


def _behind(batches: Iterator[Batch], schema: Schema, spec: ScanSpec, after: KeyValues) -> Iterator[Batch]:
    """Yields the rows after a key, of batches in the order of the scan, whose columns include the key's."""
    types = tuple(column.type for column in schema.key)
    places = [spec.columns.index(column.name) for column in schema.key]
    for batch in batches:
        keys = Keys(types, tuple(batch.column(place) for place in places))
        low, high = 0, batch.length
        while low < high:
            middle = (low + high) >> 1
            values = keys.values_at(middle)
            if values >= after if spec.descending else values <= after:
                low = middle + 1
            else:
                high = middle
        if low < batch.length:
            yield batch.slice(low, batch.length)
            break
    yield from batches


# ---- output ------------------------------------------------------------------------------------------------------


def _finished(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yields the same rows with all columns read, in batches that fit into a message."""
    for batch in batches:
        vectors = batch.columns()
        count = min(-(-batch_bytes(batch) // MESSAGE_BYTES), batch.length)
        if count <= 1:
            yield Batch(vectors, batch.length)
            continue
        rows = -(-batch.length // count)
        for start in range(0, batch.length, rows):
            stop = min(start + rows, batch.length)
            yield Batch([vector.slice(start, stop) for vector in vectors], stop - start)
