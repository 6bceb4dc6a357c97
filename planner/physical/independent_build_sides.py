"""Build sides of a plan that depend on no other operator.

A plan opens one operator after the other: a join's build side first, then its probe side, with the build sides below
it. A join passes its keys to the scans below its probe side (`RuntimeFilter`), so a build side there may have to wait
for it:

    HashJoin, with a filter for scan b
    ├─ probe: HashJoin
    │         ├─ probe: HashJoin
    │         │         ├─ probe: scan a
    │         │         └─ build: scan d     independent
    │         └─ build: scan b               has to wait
    └─ build: scan c                         independent, and the first to be opened

Shared subplans and recursive queries are not inspected: they run at the first of several uses, or many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..algebra.physical import (
    HashJoin,
    MergeJoin,
    NestedLoopJoin,
    PhysicalNode,
    Recursive,
    Shared,
    TableScan,
    WorkingTable,
    nodes,
)


@dataclass(frozen=True, slots=True)
class BuildSide:
    """A join whose build side is independent. `is_next`: it is opened first of all, or first inside an independent
    build side."""

    join: HashJoin
    is_next: bool


def independent_build_sides(root: PhysicalNode) -> Iterator[BuildSide]:
    """Yield the build sides that no runtime filter from above reaches, roughly in the order of opening, outer ones
    before those inside them."""
    return _found(root, frozenset(), True)


def _found(node: PhysicalNode, filtered: frozenset[int], is_next: bool) -> Iterator[BuildSide]:
    """Yield those at or below a node; `filtered` are the columns for which joins above have runtime filters."""
    if isinstance(node, HashJoin):
        if is_independent := _is_independent(node.build, filtered):
            yield BuildSide(node, is_next)
        yield from _found(node.build, filtered, is_next or is_independent)
        yield from _found(node.probe, filtered | {offered.column for offered in node.runtime_filters}, False)
    elif not isinstance(node, Recursive | Shared):
        for place, child in enumerate(_in_turn(node)):
            yield from _found(child, filtered, is_next and not place)


def _in_turn(node: PhysicalNode) -> tuple[PhysicalNode, ...]:
    """Inputs in the order in which the executor opens them."""
    if isinstance(node, NestedLoopJoin):
        return node.right, node.left
    if isinstance(node, MergeJoin):
        return node.left, node.right
    return node.children()


def _is_independent(build: PhysicalNode, filtered: frozenset[int]) -> bool:
    for node in nodes(build):
        if isinstance(node, Recursive | WorkingTable):
            return False
        if isinstance(node, TableScan) and any(column.id in filtered for column in node.fetched):
            return False
    return True
