"""Assigns the tablets of a scan to tasks of about equal size.

Tablets excluded by the predicates are not assigned. If there are fewer tablets than tasks, large ones are split into
key ranges; if there are more, a task reads several.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from ....driver.tables.key_ranges import key_ranges
from ....model.predicates import ColumnPredicate
from ....model.store import ScanSpec, Store, Timestamp
from ....planner.algebra.physical import TableScan
from .tasks import Part

LEAST_ROWS: Final = 1 << 18
"""Minimum number of rows for a separate task: starting one takes some ten milliseconds."""


def deal(
    store: Store,
    scan: TableScan,
    snapshot: Timestamp,
    tasks: int,
    *,
    more: Sequence[ColumnPredicate] = (),
    whole_tablets: bool = False,
) -> tuple[tuple[Part, ...], ...]:
    """The parts of a scan for about `tasks` tasks at most; empty if there is nothing to read.

    `more` are predicates besides the scan's own. With `whole_tablets`, no tablet is split.
    """
    table, changes = scan.table, None
    if scan.time is not None:
        table, snapshot, changes = scan.time.table, scan.time.until, scan.time.changes
    spec = ScanSpec((), (*scan.predicates, *more), snapshot, changes=changes)
    rows: dict[str, int] = {}
    for token in store.scan_tokens(table, spec):
        rows[token.tablet_id] = rows.get(token.tablet_id, 0) + token.rows
    if not sum(rows.values()):  # not counted yet
        rows = {tablet.id: tablet.rows for tablet in store.describe_tablets(table) if tablet.id in rows}
    total = sum(rows.values())
    wanted = max(1, min(tasks, -(-total // LEAST_ROWS)))
    pieces: list[tuple[float, Part]] = []
    for tablet, count in rows.items():
        parts = 1 if whole_tablets or changes is not None else round(wanted * count / max(1, total))
        if parts < 2 or len(rows) >= wanted:
            pieces.append((count, Part(tablet)))
            continue
        key = [column.name for column in table.schema.key]
        ranges = key_ranges(key, store.key_samples(table, tablet), parts)
        pieces += [(count * share, Part(tablet, range_)) for range_, share in ranges]
    return _balanced(pieces, wanted)


def _balanced(pieces: Sequence[tuple[float, Part]], tasks: int) -> tuple[tuple[Part, ...], ...]:
    """The pieces in `tasks` groups of about equal size: the largest first, each to the smallest group."""
    heaps: list[tuple[float, int, list[Part]]] = [(0.0, number, []) for number in range(min(tasks, len(pieces)))]
    for size, part in sorted(pieces, key=lambda piece: -piece[0]):
        held, number, parts = heaps[0]
        heapq.heapreplace(heaps, (held + size, number, [*parts, part]))
    return tuple(tuple(parts) for _, _, parts in sorted(heaps, key=lambda heap: heap[1]))
