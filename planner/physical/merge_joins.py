"""Choice of merge joins: a hash join becomes one if both sides are in key order, in tablets that are partitioned alike.

    t (a, b, ...)  PRIMARY KEY (a, b)   HASH (a) INTO 4     t.a = u.x: merged by it, tablet 0 with tablet 0 and so on
    u (x, ...)     PRIMARY KEY (x)      HASH (x) INTO 4     t.a = u.x AND t.b = u.y: the same, the rest a condition

The keys must be a prefix of both primary keys, in order. They must hold the partitioning columns, and both tables must
be partitioned by equal rules over equal types. Filters, plain projections, and merge joins whose left rows pass in
order may lie between the scans and the join.

A merge join is chosen if neither side is small. A hash join keeps its build side in memory and indexes it. But it
passes its keys to the probe side's scan as a filter and divides a tablet among threads. Where such a filter is worth
its cost, the hash join stays.

>>> from nyala.planner import explain
>>> from nyala.planner.testing import plan_text
>>> print(explain(plan_text("SELECT t.a, w.a FROM t JOIN t AS w ON t.k = w.k", merge_joins="always")))
Project t.a, w.a  (~1,000,000 rows)
  MergeJoin inner on t.k = w.k  (~1,000,000 rows)
    TableScan t  (~1,000,000 rows)
      · reads k, a
      · ordered by key
    TableScan t w  (~1,000,000 rows)
      · reads k, a
      · ordered by key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ...model.schema import HashRule, PartitionSchema, Table
from ...model.types import BOOLEAN
from ...sql.expressions import Call, Column, Expr, conjuncts
from ..algebra import physical
from ..algebra.invariants import same_type
from ..algebra.physical import HashJoin, MergeJoin, PhysicalNode, TableScan
from ..algebra.trees import all_of

MODES = ("auto", "always", "never")
WORTH_MERGING = 4e6
"""Rows of either side from which on a merge join is considered. Measured on TPC-H's lineitem: with 1.5 million build
rows a hash join takes three quarters of a merge join's time, with 6 million the same time. But a hash join keeps those
rows in memory, a merge join keeps one batch."""
_KINDS = frozenset(("inner", "left", "right", "full", "semi", "anti", "single", "right_semi", "right_anti"))
_KEEPS_ORDER = frozenset(("inner", "semi", "anti"))
"""Kinds of merge joins whose left rows are produced in order: others put rows without partner behind."""


@dataclass(frozen=True, slots=True)
class _Side:
    """An input that can produce its rows in key order, and the table's names of its columns, by number."""

    table: Table
    names: Mapping[int, str]


def merge_join(join: HashJoin, mode: str) -> MergeJoin | None:
    """Return the same join as a merge join, None if that is impossible or, with "auto", not expected to be cheaper."""
    if mode == "never" or join.kind not in _KINDS or (mode == "auto" and not _is_promising(join)):
        return None
    left, right = _side(join.probe), _side(join.build)
    if left is None or right is None:
        return None
    chosen = _keys(left, right, join)
    if not chosen or not _cut_alike(left, right, [(left.names[a.id], right.names[b.id]) for a, b in chosen]):
        return None
    merged = {(a.id, b.id) for a, b in chosen}
    rest: list[Expr] = [
        Call(BOOLEAN, True, "eq", (a, b))
        for a, b in zip(join.probe_keys, join.build_keys, strict=True)
        if not (isinstance(a, Column) and isinstance(b, Column) and (a.id, b.id) in merged)
    ]
    return MergeJoin(
        columns=join.columns,
        estimate=join.estimate,
        kind=join.kind,
        left=_in_order(join.probe),
        right=_in_order(join.build),
        left_keys=tuple(a for a, _ in chosen),
        right_keys=tuple(b for _, b in chosen),
        residual=all_of([*rest, *conjuncts(join.residual)]),
    )


def _is_promising(join: HashJoin) -> bool:
    """True if the build side is large, and a filter by its keys is not worth its cost."""
    scans = [node for node in physical.nodes(join.probe) if isinstance(node, TableScan)]
    parallel = all(scan.table.partitions.tablet_count > 1 for scan in scans)
    return parallel and not join.runtime_filters and min(join.build.estimate, join.probe.estimate) >= WORTH_MERGING


def _side(node: PhysicalNode) -> _Side | None:
    if isinstance(node, TableScan):
        if node.limit is not None or node.time is not None:
            return None
        return _Side(node.table, {c.id: name for c, name in zip(node.fetched, node.names, strict=True)})
    if isinstance(node, physical.Filter):
        return _side(node.source)
    if isinstance(node, physical.MergeJoin) and node.kind in _KEEPS_ORDER:
        return _side(node.left)
    if isinstance(node, physical.Project):
        below = _side(node.source)
        pairs = zip(node.columns, node.expressions, strict=True)
        names = {column.id: expr.id for column, expr in pairs if isinstance(expr, Column)}
        if below is not None:
            return _Side(below.table, {new: below.names[old] for new, old in names.items() if old in below.names})
    return None


def _keys(left: _Side, right: _Side, join: HashJoin) -> list[tuple[Column, Column]]:
    """Pairs of join keys that follow both primary keys from the beginning."""
    by_name: dict[tuple[str, str], tuple[Column, Column]] = {}
    for a, b in zip(join.probe_keys, join.build_keys, strict=True):
        if isinstance(a, Column) and isinstance(b, Column) and a.id in left.names and b.id in right.names:
            by_name[left.names[a.id], right.names[b.id]] = a, b
    pairs_in_order: list[tuple[Column, Column]] = []
    for first, second in zip(left.table.schema.key, right.table.schema.key, strict=False):
        pair = by_name.get((first.name, second.name))
        if pair is None or not same_type(first.type, second.type):
            break
        pairs_in_order.append(pair)
    return pairs_in_order


def _cut_alike(left: _Side, right: _Side, pairs: Sequence[tuple[str, str]]) -> bool:
    """True if rows with equal keys lie in tablets of the same partition."""
    first, second = left.table.partitions, right.table.partitions
    names = dict(pairs)
    if not first.columns <= names.keys() or not (first.is_uniform and second.is_uniform):
        return False
    types = {a: left.table.schema.column(a).type == right.table.schema.column(b).type for a, b in pairs}
    if not all(types[name] for name in first.columns):
        return False
    return _renamed_rules(first, names) == second.hash_rules and _same_ranges(first, second, names)


def _renamed_rules(partitions: PartitionSchema, names: Mapping[str, str]) -> tuple[HashRule, ...]:
    rules = partitions.hash_rules
    return tuple(HashRule(tuple(names[column] for column in rule.columns), rule.buckets, rule.seed) for rule in rules)


def _same_ranges(first: PartitionSchema, second: PartitionSchema, names: Mapping[str, str]) -> bool:
    one, other = first.range_rule, second.range_rule
    if one is None or other is None:
        return one is other
    same_columns = tuple(names[column] for column in one.columns) == other.columns
    return same_columns and one.partitions == other.partitions


def _in_order(node: PhysicalNode) -> PhysicalNode:
    """Return the side with its scan in key order."""
    if isinstance(node, TableScan):
        return replace(node, ordered=True)
    if isinstance(node, physical.Filter | physical.Project):
        return replace(node, source=_in_order(node.source))
    return node
