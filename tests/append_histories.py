"""Checks histories of transactions that read lists and append to them, as Elle does (Kingsbury and Alvaro, VLDB 2020).

Every append adds an element that no other one adds, so a list that was read shows the order of all appends before:

    ww    appended the element before
    wr    appended the last element that the other has read
    rw    read the list up to the element before that of the other (anti-dependency)
    so    ended before the other began, at the same client

Serializability: these have no cycle. Snapshot isolation: the relation "ww, wr or so, then perhaps one rw" has none
(Cerone and Gotsman, PODC 2016): write skew is a cycle with two rw in succession, and possible; a lost update, a read
skew (G-single) and a long fork are none. Cycles without rw are G0 and G1c.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

Key = int
Element = int
Graph = dict[int, set[int]]


@dataclass
class Transaction:
    """One transaction of a client; `is_committed` None: it did not hear of the outcome. `reads` are whole lists at the
    snapshot, `appends` the element for each key."""

    client: int
    reads: dict[Key, tuple[Element, ...]] = field(default_factory=dict)
    appends: dict[Key, Element] = field(default_factory=dict)
    is_committed: bool | None = True


class Anomaly(AssertionError):
    """The history is impossible at the isolation level."""


def check(history: Sequence[Transaction], level: Literal["snapshot", "serializable"]) -> None:
    """Raise `Anomaly` where the history, in which each client's transactions are in their order, breaks the level."""
    writers = {
        (key, element): number
        for number, transaction in enumerate(history)
        for key, element in transaction.appends.items()
    }
    orders = _orders(history, writers)
    for (key, element), number in writers.items():
        if history[number].is_committed and element not in orders[key]:
            # The last transaction of the history reads all lists.
            raise Anomaly(f"the acknowledged element {element} of list {key} is lost")
    direct, anti = _dependencies(history, writers, orders)
    if level == "snapshot":
        graph: Graph = {a: set(bs) for a, bs in direct.items()}
        for a, bs in direct.items():
            for b in bs:
                graph[a] |= anti.get(b, set())
    else:
        graph = {a: direct.get(a, set()) | anti.get(a, set()) for a in {*direct, *anti}}
    if cycle := find_cycle(graph):
        raise Anomaly(f"not {level}: a cycle of transactions {[(n, history[n]) for n in cycle]}")


def _orders(
    history: Sequence[Transaction], writers: Mapping[tuple[Key, Element], int]
) -> dict[Key, tuple[Element, ...]]:
    """The longest list that was read of each key; all others must be its beginnings."""
    longest: dict[Key, tuple[Element, ...]] = defaultdict(tuple)
    for transaction in history:
        for key, read in transaction.reads.items():
            if len(read) > len(longest[key]):
                longest[key] = read
    for transaction in history:
        for key, read in transaction.reads.items():
            if longest[key][: len(read)] != read:
                raise Anomaly(f"list {key} was read as {read} and as {longest[key]}: an update is lost")
            for element in read:
                writer = writers.get((key, element))
                if writer is None or history[writer].is_committed is False:
                    raise Anomaly(f"list {key} was read with element {element} of an aborted transaction (G1a)")
    for key, order in longest.items():
        if len(set(order)) < len(order):
            raise Anomaly(f"list {key} has an element twice: {order}")
    return longest


def _dependencies(
    history: Sequence[Transaction],
    writers: Mapping[tuple[Key, Element], int],
    orders: Mapping[Key, tuple[Element, ...]],
) -> tuple[Graph, Graph]:
    """(ww, wr and so; rw) among different transactions."""
    direct: Graph = defaultdict(set)
    anti: Graph = defaultdict(set)
    latest: dict[int, int] = {}
    for number, transaction in enumerate(history):
        if transaction.is_committed:
            if transaction.client in latest:
                direct[latest[transaction.client]].add(number)
            latest[transaction.client] = number
    for key, order in orders.items():
        for before, after in pairwise(order):
            direct[writers[key, before]].add(writers[key, after])
    for number, transaction in enumerate(history):
        if transaction.is_committed is False:
            continue
        if transaction.is_committed is None and not any(
            element in orders[key] for key, element in transaction.appends.items()
        ):
            continue
        for key, read in transaction.reads.items():
            order = orders[key]
            if read:
                direct[writers[key, read[-1]]].add(number)
            if len(read) < len(order):
                anti[number].add(writers[key, order[len(read)]])
    for graph in (direct, anti):
        for number in graph:
            graph[number].discard(number)
    return dict(direct), dict(anti)


def find_cycle(graph: Mapping[int, Iterable[int]]) -> list[int]:
    """The nodes of a cycle; none if there is none."""
    state: dict[int, int] = {}
    for root in graph:
        path: list[int] = []
        stack: list[tuple[int, bool]] = [(root, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                state[node] = 2
                path.pop()
            elif state.get(node) is None:
                state[node] = 1
                path.append(node)
                stack.append((node, True))
                for target in graph.get(node, ()):
                    if state.get(target) == 1:
                        return path[path.index(target) :]
                    if state.get(target) is None:
                        stack.append((target, False))
    return []
