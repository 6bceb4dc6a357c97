"""Window calls as plan nodes: which calls share an operator, in which order the nodes run, and what may pass them.

All calls of a `Window` node have one PARTITION BY and one ORDER BY, so it sorts its rows once and produces them in that
order. The node with the longest keys runs first: a node whose keys are a prefix of those gets its rows in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...model.types import BIGINT
from ...sql.expressions import Column, Expr, Literal, OrderItem
from ...sql.expressions import Window as WindowCall
from .logical import Node, TopRows, Window
from .trees import columns_in

Calls = Sequence[tuple[Column, WindowCall]]


def over(source: Node, calls: Calls) -> Node:
    """Return the rows of `source` with the values of all calls, one node per pair of PARTITION BY and ORDER BY."""
    groups: dict[tuple[frozenset[Expr], tuple[OrderItem, ...]], list[tuple[Column, WindowCall]]] = {}
    for column, window in calls:
        groups.setdefault((frozenset(window.partition), window.order), []).append((column, window))
    for key in _sequence(list(groups)):
        first = groups[key][0][1]
        same = tuple((column, replace(window, partition=first.partition)) for column, window in groups[key])
        source = Window(source, same)
    return source


def _sequence(
    keys: list[tuple[frozenset[Expr], tuple[OrderItem, ...]]],
) -> list[tuple[frozenset[Expr], tuple[OrderItem, ...]]]:
    """Sort the keys of nodes: equal partitions together, the longest order first within them; otherwise as written."""
    firsts: dict[frozenset[Expr], int] = {}
    for place, (partition, _) in enumerate(keys):
        firsts.setdefault(partition, place)
    return sorted(keys, key=lambda key: (firsts[key[0]], -len(key[1])))


def distinct_on(source: Node, columns: Sequence[Column], order: Sequence[OrderItem]) -> Node:
    """First row by `order` of each set of rows that are equal in `columns`."""
    rest = tuple(item for item in order if item.expr not in columns)
    return TopRows(source, tuple(dict.fromkeys(columns)), rest, Literal(BIGINT, False, 1))


def passes(node: Window, part: Expr) -> bool:
    """True if a predicate may filter the node's input instead: only if it keeps or drops whole partitions."""
    keys = {key.id for key in node.windows[0][1].partition if isinstance(key, Column)}
    return bool(columns_in(part)) and columns_in(part) <= keys


def partitioned(node: Window, source: Node, keys: Iterable[Expr]) -> Window:
    """Return the node over another source, its calls partitioned by further expressions as well."""
    extra = tuple(keys)
    calls = []
    for column, window in node.windows:
        partition = tuple(dict.fromkeys((*window.partition, *extra)))
        calls.append((column, replace(window, partition=partition)))
    return Window(source, tuple(calls))
