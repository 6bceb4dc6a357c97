"""Leaves: table scans with runtime filters, constant rows.

A table scan requests tokens of about `SPLIT_ROWS` rows from the store, each a morsel; larger ones if threads are few.
Predicates and the runtime filters of joins above are part of the `ScanSpec`. The residual is evaluated on the returned
batches, whose other columns have not been read by then. A limit of the operator above is part of the `ScanSpec` as
well, unless a residual must be evaluated first; then the morsel stops by itself. If the store runs fragments, the
residual is sent, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from ...errors import HistoryGone
from ...model.predicates import ColumnPredicate, OneOf
from ...model.schema import Table
from ...model.store import EvenSplit, ScanCounters, ScanSpec, ScanToken
from ...model.vectors.vector import Batch
from ...planner.algebra.physical import PhysicalNode, TableScan, ValuesScan
from ...sql.constant_rows import ConstantRows
from ...sql.expressions import Column
from ..expressions.evaluate import Compiler, physical
from ..joins.runtime_filters import RuntimeFilters, described
from ..kernels.conditional import from_physical
from ..lazy import joined
from ..run.adaptive_threads import LARGE_ROWS
from ..run.context import ExecutionContext
from ..run.stream import BATCH_ROWS, Morsel, Stream, stream_of
from ..sorting.running_bound import ScanBound
from .prefetch import (
    MOST_SCANS,
    MOST_TOKENS,
    SHARED_ROWS,
    SMALL_TABLE_ROWS,
    PrefetchedTokens,
    TokenShares,
    prefetch_together,
    small_scans,
)

SPLIT_ROWS = 4 * BATCH_ROWS
"""Rows per morsel of a scan: small enough to share a tablet among threads, large enough that its few milliseconds
outweigh what starting it costs."""
FEW_THREADS, FEW_THREADS_SPLIT_ROWS = 4, 8 * BATCH_ROWS
"""Number of threads up to which morsels are larger. Fewer, larger morsels cost less with concurrent writers: rows
changed by deltas are evaluated once per morsel and rowset. (TPC-H's Q6 with 15,000 rows upserted: 15.5 ms of processor
instead of 17.5.)"""
MORSELS_PER_THREAD = 4
"""Number of morsels for each thread, if they have a batch each at least: where there are fewer, one thread works on the
last while the others have nothing left, and the first, which is tried alone, is a large share of the work."""
MANY_ROWS = 0.25
"""Least share of a table's rows that a scan must be expected to yield for its morsels to become smaller. Otherwise its
work is short, and its few rows are better gathered into few batches."""
FEW_ROWS = 32_768
"""Rows up to which smaller batches of one morsel are gathered: an operator takes some hundred microseconds for a batch
of any size. (TPC-H embedded, in processor time: geometric mean 41 ms instead of 43 with 8,192.)"""


def open_table_scan(node: TableScan, context: ExecutionContext, filters: RuntimeFilters) -> Stream:
    """Open the scan's stream, one morsel per token. Filters do not reach a scan that was prefetched."""
    scan = context.prefetched.pop(node.number, None)
    if scan is None:
        at_runtime, bound = filters.predicates(node), filters.bound_of(node)
        tokens, finish = _tokens_of_rows(node, context, at_runtime, bound)
        _tell_opened(node, context, at_runtime, tokens)
        scan = _TokenScan(node, context, tokens, finish, _most_rows(node))
        scan.bound = bound
    return Stream(node.columns, scan.morsels(), partition_columns(node))


def prefetch_scans(root: PhysicalNode, context: ExecutionContext) -> None:
    """Request the small scans of a plan from servers, with one message each; `open_table_scan` takes them over.

    A scan is not prefetched if it has more tokens than are left of `MOST_TOKENS`, or if its table is found to be large.
    """
    if not context.store.runs_fragments or context.is_worker:
        return
    scans = list(islice(small_scans(root), MOST_SCANS))
    if len(scans) < 2:
        return
    requested: list[PrefetchedTokens] = []
    most_tokens = MOST_TOKENS
    for node, is_filtered in scans:
        tokens, finish = _tokens_of_rows(node, context, ())
        if is_filtered and not 0 < sum(token.rows for token in tokens) <= SMALL_TABLE_ROWS:
            continue
        if not 0 < len(tokens) <= most_tokens or not all(token.is_small for token in tokens):
            continue
        _tell_opened(node, context, (), tokens)
        scan = context.prefetched[node.number] = _TokenScan(node, context, tokens, finish, is_prefetched=True)
        assert scan.prefetched is not None
        requested.append(scan.prefetched)
        most_tokens -= len(tokens)
    if requested:
        prefetch_together(requested, context.store)


def _tokens_of_rows(
    node: TableScan,
    context: ExecutionContext,
    at_runtime: tuple[ColumnPredicate, ...],
    bound: tuple[str, Column, ScanBound] | None = None,
) -> tuple[list[ScanToken], Callable[[Batch], Batch]]:
    """Tokens of a scan that produces the table's rows, and the function that is applied to their batches."""
    fragment = b""
    if node.residual is not None and context.store.runs_fragments and not context.is_deep:
        from ..fragments.fragment import encoded, scan_fragment  # needed where servers evaluate fragments

        fragment = encoded(scan_fragment(node)) or b""
        if fragment and context.collect:
            context.actuals.of(node).fragment = "the condition"
    finish = _finisher(node, bound) if not fragment else _as_it_is
    return _tokens(node, context, at_runtime, _most_rows(node), fragment), finish


def open_fragment_scan(node: TableScan, context: ExecutionContext, filters: RuntimeFilters, fragment: bytes) -> Stream:
    """Open the scan under a fragment that ends in an aggregation, one morsel per token; the stream's columns are not
    set."""
    at_runtime = filters.predicates(node)
    tokens = _tokens(node, context, at_runtime, None, fragment)
    _tell_opened(node, context, at_runtime, tokens)
    return Stream((), _TokenScan(node, context, tokens, _as_it_is, is_gathered=False).morsels())


def _split_rows(context: ExecutionContext) -> int:
    """Largest number of rows per morsel."""
    return FEW_THREADS_SPLIT_ROWS if context.threads <= FEW_THREADS else SPLIT_ROWS


def _even_split(node: TableScan, context: ExecutionContext, is_filtered: bool) -> EvenSplit | None:
    """Return the division that gives every thread `MORSELS_PER_THREAD`; None if no scan of the node needs it."""
    if context.threads <= 1 or context.store.runs_fragments or (node.residual is None and is_filtered):
        return None
    most = None if node.residual is not None else int(node.estimate / MANY_ROWS)
    return EvenSplit(context.threads * MORSELS_PER_THREAD, LARGE_ROWS, most)


def _tokens(
    node: TableScan,
    context: ExecutionContext,
    at_runtime: tuple[ColumnPredicate, ...],
    limit: int | None,
    fragment: bytes,
) -> list[ScanToken]:
    """Tokens of the scan, with the runtime filters known by now."""
    spec = ScanSpec(
        node.names,
        (*node.predicates, *at_runtime),
        context.snapshot if node.time is None else node.time.until,
        split_rows=None if node.ordered else _split_rows(context),
        split_evenly=None if node.ordered else _even_split(node, context, bool(at_runtime)),
        ordered=node.ordered,
        descending=node.descending,
        limit=limit if node.residual is None else None,
        changes=None if node.time is None else node.time.changes,
        fragment=fragment,
        one_of=_one_of(node),
    )
    if node.time is None:
        return context.store.scan_tokens(node.table, spec)
    try:
        return context.store.scan_tokens(node.time.table, spec)
    except HistoryGone as error:
        raise HistoryGone(f"{error}{node.time.excerpt}") from error


def _one_of(node: TableScan) -> tuple[OneOf, ...]:
    """Conditions of the residual that leave out tablets."""
    if node.residual is None or node.table.partitions.tablet_count == 1:
        return ()
    from ...planner.scans.tablet_conditions import one_of  # few statements need it

    return one_of(node)


def _tell_opened(
    node: TableScan,
    context: ExecutionContext,
    at_runtime: tuple[ColumnPredicate, ...],
    tokens: Sequence[ScanToken],
) -> None:
    """Record the opened scan in the statistics and in the progress."""
    if context.collect:
        context.actuals.of(node).filtered = tuple(described(predicate) for predicate in at_runtime)
    if context.tracker is not None:
        context.tracker.opened(node.number, sum(token.rows for token in tokens), len(tokens))


def _as_it_is(batch: Batch) -> Batch:
    return batch


def _most_rows(node: TableScan) -> int | None:
    """Largest number of rows needed of a token; None for all. Invalid limits are reported by the Limit operator."""
    values = [
        None if expr is None else physical(Compiler(()).compile(expr)(Batch([], 1)))
        for expr in (node.limit, node.offset)
    ]
    limit, offset = values
    return None if limit is None or limit < 0 else int(limit) + max(0, int(offset or 0))


class _TokenScan:
    """The tokens of one scan, a morsel each.

    If servers scan and all tokens are small, they are requested together, and small results are combined.

    Parameters
    ----------
    finish : callable
        Applied to each batch.
    limit : int, optional
        Largest number of rows of each token.
    is_gathered : bool
        True if they are the table's rows, so that small batches are combined.
    is_prefetched : bool
        True if the tokens are requested together, even a single one.
    """

    def __init__(
        self,
        node: TableScan,
        context: ExecutionContext,
        tokens: Sequence[ScanToken],
        finish: Callable[[Batch], Batch],
        limit: int | None = None,
        is_gathered: bool = True,
        is_prefetched: bool = False,
    ):
        self._node = node
        self._context = context
        self._tokens = tokens
        self._finish = finish
        self._limit = limit
        self._is_gathered = is_gathered
        self.bound: tuple[str, Column, ScanBound] | None = None
        """The bound of the sort above, by a column of the scan. It becomes a predicate of each token that is read
        alone; the rest of the rows are dropped by the sort."""
        self._readings: dict[int, _Reading] = {}
        """For tokens that are requested together: the requests of their first runs, by number, until these begin."""
        self.prefetched: PrefetchedTokens | None = None
        self._shares: TokenShares | None = None
        if is_prefetched or (len(tokens) > 1 and all(token.is_small for token in tokens)):
            self._readings = {number: _Reading(context, token) for number, token in enumerate(tokens)}
            self.prefetched = context.prefetch(tokens, [reading.counters for reading in self._readings.values()])
            if is_gathered and limit is None and not node.ordered:
                self._shares = TokenShares(len(tokens), SHARED_ROWS)

    def morsels(self) -> tuple[Morsel, ...]:
        """Return the morsels in the tokens' order; reversed if a descending sort follows, because columns that ascend
        with the key or with time are common, and the first morsels then give a bound that excludes the others."""
        is_requested = self.prefetched is not None
        morsels = tuple(
            Morsel(partial(self._run, number), token.partition or token.tablet_id, is_requested, token.rows)
            for number, token in enumerate(self._tokens)
        )
        is_backward = self.bound is not None and self.bound[2].descending and not is_requested
        return morsels[::-1] if is_backward else morsels

    def _run(self, number: int) -> Iterator[Batch]:
        begun: list[_Reading] = []
        read = partial(self._read, begun)
        found = read(number) if self._shares is None else self._shares.read(number, read)
        try:
            if self._limit is not None:
                yield from _first(found, self._limit)
            else:
                is_awaited = None if self.bound is None else self.bound[2].is_awaited
                yield from gathered(self._node.columns, found, is_awaited) if self._is_gathered else found
        finally:
            # Not before: the operators above read columns of a batch while they have it.
            for reading in begun:
                reading.done(self._node)

    def _read(self, begun: list[_Reading], number: int) -> Iterator[Batch]:
        reading = self._readings.pop(number, None) or _Reading(self._context, self._tokens[number])
        begun.append(reading)
        if self.prefetched is None:
            batches = self._context.store.scan(self._bounded(reading.token), reading.counters)
        else:
            batches = self.prefetched.take(number, reading.counters)
        return map(self._finish, self._context.checked(batches))

    def _bounded(self, token: ScanToken) -> ScanToken:
        """Return the token with the bound known by now among its predicates."""
        if self.bound is None or token.spec.ordered or token.spec.limit is not None:
            return token
        name, column, bound = self.bound
        predicate = bound.predicate(name, column.type)
        if predicate is None:
            return token
        if self._context.collect:
            self._context.actuals.of(self._node).bounded_by = f"running bound on {name}"
        return replace(token, spec=replace(token.spec, predicates=(*token.spec.predicates, predicate)))


class _Passed:
    """Rows that a scan has passed.

    This is separate from `_Reading`, which has the token: the token's counters would refer back to it, and a cycle
    keeps the rows pinned until the cyclic collector runs.
    """

    __slots__ = ("_context", "rows")

    def __init__(self, context: ExecutionContext):
        self._context = context
        self.rows = 0

    def add(self, rows: int) -> None:
        self.rows += rows
        self._context.watch(rows)


class _Reading:
    """One token being read, and the progress reported of it."""

    def __init__(self, context: ExecutionContext, token: ScanToken):
        self.token = token
        self._context = context
        self._passed = _Passed(context)
        self.counters = ScanCounters(watch=self._passed.add)

    def done(self, node: TableScan) -> None:
        """Record that the token was read to its end, or abandoned."""
        context = self._context
        if context.tracker is not None:
            context.tracker.part_done(max(0, self.token.rows - self._passed.rows))
        if context.collect:
            context.actuals.add_counters(context.actuals.of(node), self.counters)


def gathered(
    columns: Sequence[Column], batches: Iterable[Batch], is_awaited: Callable[[], bool] | None = None
) -> Iterator[Batch]:
    """Yield the same rows in larger batches, still unread. A selective filter leaves few rows of each batch, and every
    operator above costs some hundred microseconds per batch, even for few rows.

    While `is_awaited()`, each batch is yielded at once: a sort above then has the first rows for its bound.
    """
    few: list[Batch] = []
    for batch in batches:
        if is_awaited is not None and not few and batch.length and is_awaited():
            yield batch
            continue
        if few and (batch.length >= FEW_ROWS or sum(b.length for b in few) >= FEW_ROWS):
            yield _together(columns, few)
            few = []
        if batch.length >= FEW_ROWS:
            yield batch
        elif batch.length:
            few.append(batch)
    if few:
        yield _together(columns, few)


def _together(columns: Sequence[Column], batches: Sequence[Batch]) -> Batch:
    return batches[0] if len(batches) == 1 else joined(columns, batches)


def _first(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Yield the batches up to the one that completes `rows` rows, cut there."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        if batch.length:
            kept = batch if batch.length <= rows else batch.slice(0, rows)
            rows -= kept.length
            yield kept


def _finisher(node: TableScan, bound: tuple[str, Column, ScanBound] | None) -> Callable[[Batch], Batch]:
    """Return a function that evaluates the residual and drops the columns that only it needed. Rows behind the bound of
    the sort above are dropped first: the residual may read further columns of the others."""
    width = len(node.columns)
    wanted = range(width)
    if node.residual is None:
        return (lambda batch: batch) if len(node.fetched) == width else lambda batch: batch.project(wanted)
    select = Compiler(node.fetched).condition(node.residual).select
    if bound is not None:
        _, column, scan_bound = bound
        select = partial(_select_within, scan_bound, node.fetched.index(column), select)
    if len(node.fetched) == width:
        return select
    return lambda batch: select(batch).project(wanted)


def _select_within(bound: ScanBound, place: int, select: Callable[[Batch], Batch], batch: Batch) -> Batch:
    return select(bound.bound.cut_by_leading(batch, place))


def partition_columns(node: TableScan) -> frozenset[int]:
    """Numbers of the partition columns, if all of them are produced: rows of two tablets differ in one of them."""
    names = partition_names(node.table)
    numbers = {name: column.id for name, column in zip(node.names, node.columns)}
    if not names or any(name not in numbers for name in names):
        return frozenset()
    return frozenset(numbers[name] for name in names)


def partition_names(table: Table) -> set[str]:
    """Columns that determine the tablet of a row."""
    return set(table.partitions.columns)


# ---- constant rows ---------------------------------------------------------------------------------------------------


def open_values(node: ValuesScan) -> Stream:
    """Open the constant rows, computed now."""
    if not node.rows:
        return stream_of(node.columns, [])
    if isinstance(node.rows, ConstantRows):
        constants = [from_physical(type_, values) for type_, values in zip(node.rows.types, node.rows.columns)]
        return stream_of(node.columns, [Batch(constants, len(node.rows))])
    one_row = Batch([], 1)
    compiler = Compiler(())
    rows = [[physical(compiler.compile(expr)(one_row)) for expr in row] for row in node.rows]
    vectors = [from_physical(c.type, [row[i] for row in rows]) for i, c in enumerate(node.columns)]
    return stream_of(node.columns, [Batch(vectors, len(rows))])
