"""Small scans that servers are asked for when the statement begins, all with one message per server.

    HashJoin                                          asked for at once:
    ├─ probe: HashJoin, with a filter for supplier
    │         ├─ probe: scan supplier                 if the table is small: whatever the filter would drop
    │         └─ build: scan nation                   nothing reaches it
    └─ build: scan part                               nothing reaches it, and few rows are expected

Where each scan is a round trip, a plan that opens one operator after the other mostly waits. What comes of these scans
is there when their turn comes, without a thread that waits for it. A runtime filter is what makes a turn worth waiting
for, but not where it would only drop rows of a small table. (A scan of 10,000 rows took 1.04 ms; with a filter that
left 400 of them, 1.10.)

A scan may be asked for that nobody wants: where a build side turns out to be empty. It is given up with the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

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
from ..run.context import ExecutionContext
from .scan import begin_scans

MOST_SCANS = 8
"""Scans of one statement that are asked for early,"""
MOST_TOKENS = 32
"""of so many tokens together."""
MOST_BYTES = 256 << 10
"""What each is expected to bring at most."""
SMALL_TABLE_ROWS = 16_384
"""Of a table with no more rows all are read rather than waited for a filter."""
_VALUE_BYTES, _TEXT_BYTES = 8, 32


def begin_early_scans(root: PhysicalNode, context: ExecutionContext) -> None:
    """Ask for the scans of a plan that may be early; `open_table_scan` takes them."""
    if not context.store.runs_fragments or context.is_worker:
        return
    found = list(islice(early_scans(root), MOST_SCANS))
    if len(found) > 1:
        begin_scans(
            [(scan, SMALL_TABLE_ROWS if is_filtered else None) for scan, is_filtered in found], MOST_TOKENS, context
        )


def early_scans(root: PhysicalNode) -> Iterator[tuple[TableScan, bool]]:
    """The scans that are expected to bring little, in about the order of their turns, and whether a runtime filter
    reaches them."""
    for scan, is_filtered in _scans(root, frozenset(), set()):
        if _is_whole(scan) and _expected_bytes(scan) <= MOST_BYTES:
            yield scan, is_filtered


def _scans(node: PhysicalNode, filtered: frozenset[int], shared: set[int]) -> Iterator[tuple[TableScan, bool]]:
    """The tables' scans at or below a node in about the order of their turns, and whether a filter reaches them;
    `filtered` are the columns for which joins above have runtime filters."""
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
    """Its servers aggregate it, so the scan is another."""
    if not isinstance(node, HashAggregate):
        return False
    source = node.source
    while isinstance(source, Filter | Project):
        source = source.source
    return isinstance(source, TableScan)


def _is_whole(scan: TableScan) -> bool:
    """Are all of its rows wanted, as they are now and in any order?"""
    return not scan.ordered and scan.limit is None and scan.time is None


def _expected_bytes(scan: TableScan) -> float:
    return scan.estimate * sum(_TEXT_BYTES if column.type.is_text else _VALUE_BYTES for column in scan.columns)
