"""Prefetch of scans at servers: selection of the scans, requests of their tokens, and combination of small replies.

If each scan is a round trip, a plan that opens one operator after the other mostly waits. Three measures reduce that:

1. Small scans are requested when the statement begins, all with one message per server (`small_scans`):

       HashJoin                                          requested at once:
       ├─ probe: HashJoin, with a filter for supplier
       │         ├─ probe: scan supplier                 if the table is small, without the filter
       │         └─ build: scan nation                   no filter reaches it
       └─ build: scan part                               no filter reaches it, and few rows are expected

   A runtime filter is worth waiting for, unless it would only drop rows of a small table. (A scan of 10,000 rows took
   1.04 ms; with a filter that left 400 of them, 1.10.) A prefetched scan may be superfluous, if a build side is empty;
   it is cancelled when the statement ends.

2. The tokens of one scan are requested together (`PrefetchedTokens`):

       take(0)   requests 0 to 15, one message per server     the reader of 0 waits, the other replies arrive meanwhile
       take(1)   has arrived already, or is in flight
       take(16)  requests 16 to 31

   So one thread that reads token after token waits about as long as one thread per token would.

3. A morsel that has few rows continues with the next token, unless another morsel has begun it (`TokenShares`):

       tokens       0   1   2   3   4
       morsel 0     7   2   5   │          14 rows for the operators above, in one batch
       morsel 1         ·       │          its token was read already: no rows
       morsel 3                 9   1      another thread had begun it

   An operator takes some hundred microseconds for a batch, and much of that for a morsel, even for few rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from ...model.store import ScanBatches, ScanCounters, ScanToken, Store
from ...model.vectors.vector import Batch
from ...planner.algebra.physical import (
    Filter,
    HashAggregate,
    HashJoin,
    MergeJoin,
    PhysicalNode,
    Project,
    Recursive,
    Shared,
    TableScan,
)

MOST_SCANS = 8
"""Largest number of scans of one statement that are prefetched,"""
MOST_TOKENS = 32
"""of their tokens together,"""
MOST_BYTES = 256 << 10
"""and of the expected bytes of each."""
SMALL_TABLE_ROWS = 16_384
"""Rows up to which a table is read whole at once, instead of waiting for a runtime filter."""
_VALUE_BYTES, _TEXT_BYTES = 8, 32

AT_ONCE = 16
"""Tokens of one scan that are requested at once; each reply may take 2 MiB before it is read."""

SHARED_ROWS = 4_096
"""Rows below which a morsel of a scan at servers continues with the next token; with more, another thread may read it.
(TPC-H over three servers: Q2 takes 0.9 times as long as without; with 32,768, Q7 and Q10 took 1.13 times as long.)"""


# ---- which scans -----------------------------------------------------------------------------------------------------


def small_scans(root: PhysicalNode) -> Iterator[tuple[TableScan, bool]]:
    """Yield the scans with few expected rows, roughly in the order of opening, and True if a runtime filter reaches
    them."""
    for scan, is_filtered in _scans(root, frozenset(), set()):
        is_whole = not scan.ordered and scan.limit is None and scan.time is None
        if is_whole and scan.estimate * _row_bytes(scan) <= MOST_BYTES:
            yield scan, is_filtered


def _scans(node: PhysicalNode, filtered: frozenset[int], shared: set[int]) -> Iterator[tuple[TableScan, bool]]:
    """Yield the table scans at or below a node, and True if a filter reaches them; `filtered` are the columns for which
    joins above have runtime filters."""
    if isinstance(node, TableScan):
        yield node, any(column.id in filtered for column in node.fetched)
    elif isinstance(node, HashJoin):
        yield from _scans(node.build, filtered, shared)
        yield from _scans(node.probe, filtered | {offered.column for offered in node.runtime_filters}, shared)
    elif isinstance(node, Shared):
        if node.key not in shared:
            shared.add(node.key)
            yield from _scans(node.source, frozenset(), shared)
    elif not isinstance(node, Recursive | MergeJoin) and not _is_aggregated_scan(node):
        for child in node.children():
            yield from _scans(child, filtered, shared)


def _is_aggregated_scan(node: PhysicalNode) -> bool:
    """True if the servers aggregate the rows of a scan, which is then a different scan."""
    if not isinstance(node, HashAggregate):
        return False
    source = node.source
    while isinstance(source, Filter | Project):
        source = source.source
    return isinstance(source, TableScan)


def _row_bytes(scan: TableScan) -> int:
    return sum(_TEXT_BYTES if column.type.is_text else _VALUE_BYTES for column in scan.columns)


# ---- the tokens of one scan ------------------------------------------------------------------------------------------


class PrefetchedTokens:
    """Requests the tokens of a scan several at a time. Thread-safe.

    Parameters
    ----------
    store : Store
    tokens : sequence of ScanToken
    counters : sequence of ScanCounters
        One per token.
    """

    def __init__(self, store: Store, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]):
        self._store = store
        self._tokens = tokens
        self._counters = counters
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._requested: dict[int, ScanBatches] = {}
        """Replies by token number, until they are taken."""
        self._next = 0
        """Number of the first token that has not been requested."""
        self._is_closed = False

    def take(self, number: int, counters: ScanCounters) -> Iterator[Batch]:
        """Yield the batches of a token: first with the counters of its request, later with the given counters."""
        with self._lock:
            if number >= self._next and not self._is_closed:
                stop = number + AT_ONCE
                self._add(number, self._store.scan_all(self._tokens[number:stop], self._counters[number:stop]))
            requested = self._requested.pop(number, None)
        return self._store.scan(self._tokens[number], counters) if requested is None else iter(requested)

    def _add(self, number: int, requested: Sequence[ScanBatches]) -> None:
        self._requested.update(enumerate(requested, number))
        self._next = number + AT_ONCE

    def close(self) -> None:
        """Cancel requests whose replies have not been taken. These can still be taken, and are then requested again."""
        with self._lock:
            left, self._requested, self._is_closed = self._requested, {}, True
        for batches in left.values():
            batches.close()


def prefetch_together(scans: Sequence[PrefetchedTokens], store: Store) -> None:
    """Request the first tokens of several scans, none of which has been taken, with one message per server."""
    firsts = [(scan._tokens[:AT_ONCE], scan._counters[:AT_ONCE]) for scan in scans]
    requested = iter(store.scan_all([t for tokens, _ in firsts for t in tokens], [c for _, cs in firsts for c in cs]))
    for scan, (tokens, _) in zip(scans, firsts):
        scan._add(0, list(islice(requested, len(tokens))))


# ---- small replies ---------------------------------------------------------------------------------------------------


class TokenShares:
    """Assigns the tokens of a scan to its morsels. Thread-safe.

    Parameters
    ----------
    count : int
        Number of the tokens, and of the morsels.
    few_rows : int
        A morsel with fewer rows continues with the next token.
    """

    def __init__(self, count: int, few_rows: int):
        self._few_rows = few_rows
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._readers: list[int | None] = [None] * count
        """Morsel that reads each token, for each execution of the morsels."""

    def read(self, morsel: int, read: Callable[[int], Iterator[Batch]]) -> Iterator[Batch]:
        """Yield the batches of a morsel's tokens, in the tokens' order; `read` yields those of one token."""
        rows = 0
        for token in range(morsel, len(self._readers)):
            if not self._is_read_by(morsel, token, rows < self._few_rows):
                return
            for batch in read(token):
                rows += batch.length
                yield batch

    def _is_read_by(self, morsel: int, token: int, may_take: bool) -> bool:
        with self._lock:
            if self._readers[token] is None and may_take:
                self._readers[token] = morsel
            return self._readers[token] == morsel
