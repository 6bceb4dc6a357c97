"""Rewriting of a correlated aggregate over tables that the outer query joins anyway, as a window over the outer rows.

Zuzarte et al., "WinMagic: subquery elimination using window aggregation" (SIGMOD 2003). TPC-H's Q2 selects the parts of
a kind with their cheapest European supplier, and its subquery joins the same suppliers again:

    SELECT ... FROM part, partsupp, supplier, nation, region                    part alone reads p_size
    WHERE p_partkey = ps_partkey AND <European> AND p_size = 15
      AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
                           WHERE p_partkey = ps_partkey AND <European>)

The tables of the subquery are the *repeated* ones, the others of the outer query are the *own* ones. Suppose that the
outer query has each repeated table under exactly the conditions that the subquery puts on it. Then the outer query's
rows of one combination of own rows are the subquery's rows for it: `min(ps_supplycost) OVER (PARTITION BY p_partkey)`.

>>> from nyala.planner.testing import show
>>> print(show('''SELECT k FROM t, v WHERE t.a = v.d AND v.e = 3
...     AND k > (SELECT avg(k) FROM t AS s WHERE s.a = v.d)''', ["pushdown_predicates"]))
Project k
  Filter CAST(k AS DECIMAL(38,16)) > avg
    Window avg(k) OVER (PARTITION BY d)
      Join inner on a = d
        Scan t: k, a
        Scan v: d, e WHERE e = 3
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr, WindowFrame, conjuncts
from ...sql.expressions import Window as WindowCall
from ...sql.functions import is_volatile
from ..algebra.logical import Aggregate, Filter, Join, Node, Scan, Window
from ..algebra.properties import Equivalence, unique_keys
from ..algebra.trees import (
    as_equality,
    column_equality,
    column_ids,
    columns_in,
    columns_in_all,
    free_columns,
    substitute,
)

FUNCTIONS = frozenset(("avg", "count", "max", "min", "sum"))
LEAST_SHARE = 4.0
"""Factor by which the subquery must aggregate more rows than the outer query has, for a window to be cheaper: the
window keeps whole rows and sorts them."""
MOST_ASSIGNMENTS = 24
"""Largest number of ways tried to pair tables that occur more than once."""


def as_window(node: Node, subquery: Aggregate, rows: Callable[[Node], float]) -> Window | None:
    """Return the outer plan with `subquery`'s aggregates, under their own numbers, as window calls.

    None if the subquery must be joined. `subquery` has one group; `rows` estimates the number of rows of a plan of
    joins and filters.
    """
    outer, inner = _Joined.of(node), _Joined.of(subquery.source)
    if not all(_is_plain(call) for _, call in subquery.aggregates) or not all(map(_is_bare_scan, inner.leaves)):
        return None
    if not free_columns(subquery) <= column_ids(node):
        return None
    for pairs in _assignments(inner.leaves, outer.leaves):
        keys = _partition(outer, inner, pairs)
        if keys is not None:
            break
    else:
        return None
    if rows(node) * LEAST_SHARE > rows(subquery.source):
        return None
    mapping = _renamed(pairs)
    return Window(node, tuple((column, _over(call, keys, mapping)) for column, call in subquery.aggregates))


def _is_plain(call: AggregateCall) -> bool:
    return call.function in FUNCTIONS and not call.distinct and not call.order and not is_volatile(call)


def _over(call: AggregateCall, keys: Sequence[Column], mapping: Mapping[int, Expr]) -> WindowCall:
    args = tuple(substitute(arg, mapping) for arg in call.args)
    chosen = None if call.filter is None else substitute(call.filter, mapping)
    return WindowCall(call.type, call.nullable, call.function, args, tuple(keys), frame=WindowFrame(), filter=chosen)


@dataclass(slots=True)
class _Joined:
    """The relations of a tree of inner joins, and all conditions on their rows."""

    leaves: list[Node] = field(default_factory=list)
    parts: list[Expr] = field(default_factory=list)

    @staticmethod
    def of(node: Node) -> _Joined:
        tree = _Joined()
        tree._collect(node)
        return tree

    def _collect(self, node: Node) -> None:
        if isinstance(node, Filter):
            self.parts += conjuncts(node.predicate)
            self._collect(node.source)
        elif isinstance(node, Join) and node.kind in ("inner", "cross"):
            self.parts += conjuncts(node.condition)
            self._collect(node.left)
            self._collect(node.right)
        else:
            self.leaves.append(node)


def _is_bare_scan(node: Node) -> bool:
    return isinstance(node, Scan) and not node.predicates


Pairs = list[tuple[Scan, Scan]]


def _assignments(inner: list[Node], outer: list[Node]) -> Iterator[Pairs]:
    """Yield ways to assign to each scan of the subquery a different scan of the same rows in the outer query."""

    def extended(pairs: Pairs, place: int) -> Iterator[Pairs]:
        if place == len(inner):
            yield pairs
            return
        scan = inner[place]
        for other in outer:
            if _reads_the_same(scan, other) and all(other is not taken for _, taken in pairs):
                assert isinstance(scan, Scan) and isinstance(other, Scan)
                yield from extended([*pairs, (scan, other)], place + 1)

    return islice(extended([], 0), MOST_ASSIGNMENTS)


def _reads_the_same(first: Node, second: Node) -> bool:
    return (
        isinstance(first, Scan)
        and isinstance(second, Scan)
        and not second.predicates
        and (first.table.id, first.time) == (second.table.id, second.time)
    )


def _renamed(pairs: Pairs) -> dict[int, Expr]:
    """Map each column of the subquery's scans to the outer query's column."""
    mapping: dict[int, Expr] = {}
    for scan, other in pairs:
        columns = {column.id: column for column in other.output}
        by_name = {name: columns[number] for number, name in other.source_names if number in columns}
        mapping |= {number: by_name[name] for number, name in scan.source_names if name in by_name}
    return mapping


def _partition(outer: _Joined, inner: _Joined, pairs: Pairs) -> list[Column] | None:
    """Columns by which the outer query's rows are partitioned so that each partition is the subquery's rows for one row
    of the own tables; None if there are no such columns."""
    repeated = frozenset(number for _, other in pairs for number in column_ids(other))
    own = [leaf for leaf in outer.leaves if all(leaf is not other for _, other in pairs)]
    keys = [next(iter(unique_keys(leaf)), None) for leaf in own]
    asked = _asked(inner.parts, outer, repeated, _renamed(pairs))
    if not own or asked is None or any(map(is_volatile, (*outer.parts, *asked))):
        return None
    alone = [part for part in outer.parts if not columns_in(part) & repeated]
    joining = [part for part in outer.parts if columns_in(part) & repeated]
    if _others(joining) != _others(asked) or _equal(outer.parts).classes() != _equal(alone + asked).classes():
        return None
    columns: list[Column] = []
    for leaf, key in zip(own, keys, strict=True):
        if key is None:
            return None
        columns += [column for column in leaf.columns if column.id in key]
    return columns


def _asked(
    parts: Sequence[Expr], outer: _Joined, repeated: frozenset[int], mapping: Mapping[int, Expr]
) -> list[Expr] | None:
    """Conditions of the subquery in the outer query's columns.

    None if one reads an outer column of a repeated table that equals no column of an own table: mapped, it would
    compare a row with itself.
    """
    equal = _equal(outer.parts)
    own = {column.id: column for leaf in outer.leaves for column in leaf.columns if column.id not in repeated}
    changes = dict(mapping)
    for number in columns_in_all(parts) & repeated:
        partner = next((own[n] for n in equal.same(number) if n in own), None)
        if partner is None:
            return None
        changes[number] = partner
    return [substitute(part, changes) for part in parts]


def _column_pair(part: Expr) -> tuple[int, int] | None:
    """Numbers of two columns that the condition equates; for a column that equals itself None, since that only means
    that it is not NULL."""
    pair = column_equality(part)
    return None if pair is None or pair[0].id == pair[1].id else (pair[0].id, pair[1].id)


def _equal(parts: Sequence[Expr]) -> Equivalence:
    return Equivalence(pair for part in parts if (pair := _column_pair(part)))


def _others(parts: Sequence[Expr]) -> frozenset[Hashable]:
    """Conditions other than equalities of two columns; the sides of an equality in no order."""
    return frozenset(frozenset(as_equality(part) or (part,)) for part in parts if _column_pair(part) is None)
