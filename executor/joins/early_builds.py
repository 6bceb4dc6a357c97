"""Build sides that are read before their turn, where servers scan.

Where each scan is a round trip, a plan that opens one operator after the other mostly waits. So the build sides whose
turn comes later begin with the statement, beside what the coordinating thread opens first, if nothing but their turn
keeps them waiting (`planner.physical.independent_build_sides`). One that a runtime filter from above reaches waits for
it: a filter saves more than a turn. Where the scans are this process's own work, all turns are as good, and nothing is
early.

What such a build side knows may be enough to ask for the probe side, too, if that is a small table. The filters of
joins above only come later then, and the joins drop the rows:

    HashJoin, with a filter for supplier
    ├─ probe: HashJoin, with a filter for supplier
    │         ├─ probe: scan supplier                 asked for as soon as the nations are known
    │         └─ build: scan nation                   read early
    └─ build: partsupp of some parts                  opened first, two round trips

Where servers were asked for all scans of a build side already (`scans.prefetch_policy`), and there is no such probe
side, nothing is gained by a thread, and it would hinder the others.

One may be read that nobody wants: where a build side above turns out to be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...planner.algebra.physical import HashJoin, PhysicalNode, Shared, TableScan, nodes
from ...planner.physical.independent_build_sides import independent_build_sides
from ..run.context import ExecutionContext
from ..scans.prefetch_policy import MOST_TOKENS, SMALL_TABLE_ROWS, is_whole, row_bytes
from ..scans.scan import begin_scans
from .join import Opener, read_build
from .join_shape import DROPS_UNMATCHED_PROBE
from .kept_keys import KeptKeys
from .runtime_filters import NO_FILTERS

MOST = 8
"""Build sides of one statement that begin early."""
MOST_PROBE_BYTES = 512 << 10
"""What a probe side is expected to bring at most that is asked for before all its filters are known."""


def begin_early(root: PhysicalNode, context: ExecutionContext, open_node: Opener) -> None:
    """Begin the build sides of a plan that may be early; `open_hash_join` takes them."""
    if context.threads <= 1 or not context.store.runs_fragments or context.is_worker:
        return
    found = [(node, _early_probe(node, context)) for node in early_builds(root)]
    waiting = [(node, scan) for node, scan in found if scan is not None or not _is_begun(node.build, context)]
    for node, scan in waiting[:MOST]:
        context.early.start(id(node), partial(_read, node, scan, context, open_node))


def _is_begun(build: PhysicalNode, context: ExecutionContext) -> bool:
    return all(id(node) in context.begun for node in nodes(build) if isinstance(node, TableScan))


def _read(node: HashJoin, scan: TableScan | None, context: ExecutionContext, open_node: Opener) -> object:
    """The build side, and `scan`, its probe side, asked for."""
    context.opening.append(node)
    try:
        side, pieces = read_build(node, context, NO_FILTERS, open_node)
    finally:
        context.opening.pop()
    if scan is not None and pieces:
        kept = KeptKeys(node, side.account)
        for piece in pieces:
            kept.add(piece.keys, counted=True)
        begin_scans([(scan, SMALL_TABLE_ROWS)], MOST_TOKENS, context, kept.filters(NO_FILTERS))
    return side, pieces


def _early_probe(node: HashJoin, context: ExecutionContext) -> TableScan | None:
    """The scan of a join's probe side, if the join's own filter leaves few rows of a small table."""
    scan = node.probe
    if not isinstance(scan, TableScan) or not is_whole(scan) or id(scan) in context.begun:
        return None
    is_filtered = any(offered.column == column.id for offered in node.runtime_filters for column in scan.fetched)
    if not is_filtered or node.kind not in DROPS_UNMATCHED_PROBE:
        return None
    if node.estimate * row_bytes(scan) > MOST_PROBE_BYTES:
        return None
    return scan if context.store.statistics(scan.table).row_count <= SMALL_TABLE_ROWS else None


def early_builds(root: PhysicalNode) -> Iterator[HashJoin]:
    """The joins whose build sides may be read early, in about the order of their turns."""
    shared: set[int] = set()
    for side in independent_build_sides(root):
        build = side.join.build
        # A thread for further uses of shared rows would only wait for the first.
        is_again = isinstance(build, Shared) and build.key in shared
        shared.update(node.key for node in nodes(build) if isinstance(node, Shared))
        if not side.is_next and not is_again:
            yield side.join
