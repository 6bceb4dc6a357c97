"""Build sides that are read before their turn, where servers scan.

Where each scan is a round trip, a plan that opens one operator after the other mostly waits. So the build sides whose
turn comes later begin with the statement, beside what the coordinating thread opens first, if nothing but their turn
keeps them waiting (`planner.build_sides`). One that a runtime filter from above reaches waits for it: a filter saves
more than a turn. Where servers were asked for all of its scans already (`early_scans`), there is nothing to wait for,
and a thread would only hinder the others. Where the scans are this process's own work, all turns are as good, and
nothing is early.

One may be read that nobody wants: where a build side above turns out to be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...planner.build_sides import independent_build_sides
from ...planner.physical import HashJoin, PhysicalNode, Shared, TableScan, nodes
from ..context import ExecutionContext
from .join import Opener, read_build
from .runtime_filters import RuntimeFilters

MOST = 8
"""Build sides of one statement that begin early."""


def begin_early(root: PhysicalNode, context: ExecutionContext, open_node: Opener) -> None:
    """Begin the build sides of a plan that may be early; `open_hash_join` takes them."""
    if context.threads <= 1 or not context.store.runs_fragments or context.is_worker:
        return
    waiting = [node for node in early_builds(root) if not _is_begun(node.build, context)]
    for node in waiting[:MOST]:
        context.early.start(id(node), partial(_read, node, context, open_node))


def _is_begun(build: PhysicalNode, context: ExecutionContext) -> bool:
    return all(id(node) in context.begun for node in nodes(build) if isinstance(node, TableScan))


def _read(node: HashJoin, context: ExecutionContext, open_node: Opener) -> object:
    context.opening.append(node)
    try:
        return read_build(node, context, RuntimeFilters(), open_node)
    finally:
        context.opening.pop()


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
