"""Sharing of small build sides: equal build sides of several joins of a plan are read once.

The rule `share_common_subplans` shares subplans that a statement repeats. After join ordering, further subplans may
have become equal: for example a few rows of a dimension under the same condition that meet two large tables, as the
nations of Europe in TPC-H's Q2. Build sides are equal if they differ only in the columns that they produce; the shared
one produces those of all.

Only scans and joins of scans are shared, only if no runtime filter from above reaches them, and only if they are small:

    HashJoin, with a filter for scan b
    ├─ probe: HashJoin
    │         ├─ probe: HashJoin
    │         │         ├─ probe: scan a
    │         │         └─ build: scan d     independent
    │         └─ build: scan b               a filter reaches it
    └─ build: scan c                         independent

Build sides are read whole anyway, so keeping them costs next to nothing. If scans are round trips, each one saved
counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import field, fields, replace

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Column, Expr
from ...sql.functions import is_volatile
from ..algebra.physical import (
    HashJoin,
    PhysicalNode,
    Recursive,
    Shared,
    TableScan,
    UnionAll,
    WorkingTable,
    nodes,
)
from ..algebra.trees import rewrite
from ..context import Context

MOST_ROWS = 10_000.0
"""Largest number of expected rows of a build side that is kept for further uses."""


def share_small_builds(root: PhysicalNode, context: Context) -> PhysicalNode:
    """Return the plan with a use of one shared subplan for each of several equal small build sides."""
    tables = Counter(node.table.id for node in nodes(root) if isinstance(node, TableScan))
    if not any(count > 1 for count in tables.values()):
        return root  # nearly all queries
    uses: dict[int, PhysicalNode] = {}
    covered: set[int] = set()
    for equal in _equal_builds(root):
        left = [node for node in equal if node.number not in covered]
        if len(left) > 1:
            covered.update(inner.number for node in left for inner in nodes(node))
            uses.update(zip([node.number for node in left], _uses(left, context), strict=True))
    return _replaced(root, uses) if uses else root


def _equal_builds(root: PhysicalNode) -> list[list[PhysicalNode]]:
    """Build sides that may be shared, grouped by equality, outer ones before those inside them."""
    found: defaultdict[Hashable, list[PhysicalNode]] = defaultdict(list)
    for build in independent_build_sides(root):
        if build.estimate <= MOST_ROWS and (shape := _Shape().of(build)) is not None:
            found[shape].append(build)
    return [equal for equal in found.values() if len(equal) > 1]


def independent_build_sides(root: PhysicalNode) -> Iterator[PhysicalNode]:
    """Build sides that no runtime filter from above reaches, outer ones before those inside them.

    Build sides within shared subplans and recursive queries are left out: these run at the first of several uses, or
    many times.
    """
    return _independent(root, frozenset())


def _independent(node: PhysicalNode, filtered: frozenset[int]) -> Iterator[PhysicalNode]:
    """Build sides at or below a node; `filtered` are the columns for which joins above have runtime filters."""
    if isinstance(node, HashJoin):
        if _is_independent(node.build, filtered):
            yield node.build
        yield from _independent(node.build, filtered)
        yield from _independent(node.probe, filtered | {offered.column for offered in node.runtime_filters})
    elif not isinstance(node, Recursive | Shared):
        for child in node.children():
            yield from _independent(child, filtered)


def _is_independent(build: PhysicalNode, filtered: frozenset[int]) -> bool:
    for node in nodes(build):
        if isinstance(node, Recursive | WorkingTable):
            return False
        if isinstance(node, TableScan) and any(column.id in filtered for column in node.fetched):
            return False
    return True


class _Shape:
    """Structural key of one subplan, independent of column numbers, and the columns that the subplan produces."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        """Position of each scanned column among all columns of all tables, in order of traversal."""
        self._columns = 0

    def of(self, node: PhysicalNode) -> Hashable | None:
        """Return a key that is equal for equal subplans; None for subplans that are not shared."""
        if isinstance(node, TableScan):
            return self._scan(node)
        if not isinstance(node, HashJoin):
            return None
        sides = self.of(node.probe), self.of(node.build)
        exprs = (*node.probe_keys, *node.build_keys, *(() if node.residual is None else (node.residual,)))
        if None in sides or any(map(is_volatile, exprs)):
            return None
        return node.kind, sides, node.residual is None, tuple(map(self._placed, exprs))

    def _scan(self, node: TableScan) -> Hashable | None:
        if node.ordered or node.limit is not None or node.time is not None:
            return None
        names = [column.name for column in node.table.schema.columns]
        for column, name in zip(node.fetched, node.names, strict=True):
            self._places[column.id] = self._columns + names.index(name)
        self._columns += len(names)
        residual = node.residual
        if residual is not None and is_volatile(residual):
            return None
        return node.table.id, node.predicates, None if residual is None else self._placed(residual)

    def _placed(self, expr: Expr) -> Expr:
        def placed(part: Expr) -> Expr:
            return Column(part.type, part.nullable, self._places[part.id], "") if isinstance(part, Column) else part

        return rewrite(expr, placed)


# ---- one for all -----------------------------------------------------------------------------------------------------


def _uses(equal: list[PhysicalNode], context: Context) -> list[PhysicalNode]:
    """Return a use of the shared subplan for each of these."""
    source, numbers = equal[0], [{column.id: column.id for column in equal[0].columns}]
    for other in equal[1:]:
        merged = _Merged()
        source = merged.of(source, other)
        numbers.append({merged.numbers[column.id]: column.id for column in other.columns})
    key = context.share_key()
    found: list[PhysicalNode] = []
    for known in numbers:
        fresh = (context.numbers.column(column) for column in source.columns)
        columns = tuple(replace(new, id=known.get(old.id, new.id)) for old, new in zip(source.columns, fresh))
        found.append(Shared(columns=columns, estimate=source.estimate, key=key, source=source))
    return found


@dataclass(slots=True)
class _Merged:
    """Union of two equal subplans: it produces the columns of both, the first one's under their own numbers."""

    numbers: dict[int, int] = field(default_factory=dict)
    """Numbers in the union of the second subplan's columns."""

    def of(self, first: PhysicalNode, second: PhysicalNode) -> PhysicalNode:
        """Return the subplan."""
        if isinstance(first, TableScan) and isinstance(second, TableScan):
            return self._scan(first, second)
        assert isinstance(first, HashJoin) and isinstance(second, HashJoin)
        probe, build = self.of(first.probe, second.probe), self.of(first.build, second.build)
        return replace(first, probe=probe, build=build, columns=self._columns(first, second))

    def _scan(self, first: TableScan, second: TableScan) -> TableScan:
        known = {name: column.id for name, column in zip(first.names, first.fetched, strict=True)}
        for name, column in zip(second.names, second.fetched, strict=True):
            self.numbers[column.id] = known.get(name, column.id)
        columns = self._columns(first, second)
        present = {column.id for column in columns}
        fetched = columns + tuple(column for column in first.fetched if column.id not in present)
        names = {column.id: name for scan in (second, first) for name, column in zip(scan.names, scan.fetched)}
        return replace(first, columns=columns, fetched=fetched, names=tuple(names[column.id] for column in fetched))

    def _columns(self, first: PhysicalNode, second: PhysicalNode) -> tuple[Column, ...]:
        present = {column.id for column in first.columns}
        more = (replace(column, id=self.numbers[column.id]) for column in second.columns)
        return first.columns + tuple(column for column in more if column.id not in present)


def _replaced(node: PhysicalNode, uses: dict[int, PhysicalNode]) -> PhysicalNode:
    """Return the plan with these uses for the nodes of these numbers."""
    if node.number in uses:
        return uses[node.number]
    if isinstance(node, Shared):
        return node
    if isinstance(node, UnionAll):
        return replace(node, sources=tuple(_replaced(source, uses) for source in node.sources))
    inputs = {s.name: v for s in fields(node) if isinstance(v := getattr(node, s.name), PhysicalNode)}
    changed = {name: new for name, old in inputs.items() if (new := _replaced(old, uses)) is not old}
    return replace(node, **changed) if changed else node  # type: ignore[arg-type]
