"""Balanced placement of replicas and leaders over servers: first for each table, then for all together.

As in Kudu's rebalancer, the move that balances most is taken, again and again, until no server has two replicas more
than another, of any table or in all. A move never puts two replicas of a tablet on one server, and gives no location a
majority of a tablet's, or a larger one. Before, tablets of which a location has a majority are spread, as far as the
other locations have servers (Kudu's policy fixer).

Leaders, which Kudu leaves alone, follow the same rule: a server that was down has its replicas back, but leads none of
them until leadership is transferred to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from ...model.lazy_dataclass import dataclass
from ..locations import worse


@dataclass(frozen=True, slots=True)
class Placed:
    """A tablet: its table, and the servers with its replicas."""

    tablet: str
    table: str
    servers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a replica from one server to another."""

    tablet: str
    source: str
    target: str


def plan_moves(
    tablets: Sequence[Placed],
    servers: Sequence[str],
    leaving: Sequence[str] = (),
    locations: Mapping[str, str] | None = None,
) -> list[Move]:
    """Returns the moves that balance a cluster, to be done in order.

    Parameters
    ----------
    tablets : sequence of Placed
    servers : sequence of str
        Those that are to carry replicas.
    leaving : sequence of str
        Those that are to be emptied.
    locations : mapping of str to str, optional
        By server (`cluster.locations`).

    Examples
    --------
    >>> plan_moves([Placed("p0", "t", frozenset("a")), Placed("p1", "t", frozenset("a"))], ["a", "b"])
    [Move(tablet='p0', source='a', target='b')]
    """
    at = {tablet.tablet: set(tablet.servers) for tablet in tablets}
    tables = {tablet.tablet: tablet.table for tablet in tablets}
    places = locations or {}
    moves: list[Move] = []
    kept = [server for server in servers if server not in leaving]
    for source in leaving:
        for tablet in sorted(t for t, where in at.items() if source in where):
            if (move := _spread(at, tablet, [source], kept, places)) is not None:
                moves.append(_moved(at, move))
    for tablet in sorted(at):
        while (move := _spread_better(at, tablet, kept, places)) is not None:
            moves.append(_moved(at, move))
    while len(kept) > 1 and (move := _best(at, tables, kept, places)) is not None:
        moves.append(_moved(at, move))
    return moves


def _excess(at: Mapping[str, set[str]], move: Move, places: Mapping[str, str]) -> int:
    """Returns `worse` of the move's tablet after the move."""
    servers = at[move.tablet]
    return worse((servers - {move.source}) | {move.target}, len(servers), places)


def _spread(
    at: Mapping[str, set[str]], tablet: str, sources: Sequence[str], servers: Sequence[str], places: Mapping[str, str]
) -> Move | None:
    """Returns the move of a tablet's replica, from one of some servers, after which it is spread best, to the least
    loaded server."""
    targets = [server for server in servers if server not in at[tablet]]
    moves = [Move(tablet, source, target) for source in sources for target in targets]
    return min(moves, key=lambda m: (_excess(at, m, places), _load(at, m.target), m.target), default=None)


def _spread_better(
    at: Mapping[str, set[str]], tablet: str, servers: Sequence[str], places: Mapping[str, str]
) -> Move | None:
    """Returns a move after which no location has a majority of a tablet's replicas, or a smaller one than now."""
    now = worse(at[tablet], len(at[tablet]), places)
    if not now or len(set(places.values())) < 2:
        return None
    sources = sorted(server for server in at[tablet] if server in servers)
    move = _spread(at, tablet, sources, servers, places)
    return move if move is not None and _excess(at, move, places) < now else None


def _moved(at: dict[str, set[str]], move: Move) -> Move:
    at[move.tablet].remove(move.source)
    at[move.tablet].add(move.target)
    return move


def _load(at: Mapping[str, set[str]], server: str) -> int:
    return sum(server in where for where in at.values())


def _best(
    at: Mapping[str, set[str]], tables: Mapping[str, str], servers: Sequence[str], places: Mapping[str, str]
) -> Move | None:
    """Returns a move that balances a table, or all replicas without making a table more uneven; None if there is
    none."""
    total = {server: _load(at, server) for server in servers}
    skewed: list[tuple[int, str, dict[str, int]]] = []
    for table in sorted(set(tables.values())):
        counts = {s: sum(s in where for t, where in at.items() if tables[t] == table) for s in servers}
        skewed.append((max(counts.values()) - min(counts.values()), table, counts))
    for skew, table, counts in sorted(skewed, key=lambda one: (-one[0], one[1])):
        if skew >= 2:
            for move in _candidates(at, tables, table, counts, total, places):
                if counts[move.source] - counts[move.target] >= 2:
                    return move
    if max(total.values()) - min(total.values()) >= 2:
        for _, table, counts in skewed:
            for move in _candidates(at, tables, table, total, counts, places):
                if total[move.source] - total[move.target] >= 2 and counts[move.source] > counts[move.target]:
                    return move
    return None


def _candidates(
    at: Mapping[str, set[str]],
    tables: Mapping[str, str],
    table: str,
    first: Mapping[str, int],
    second: Mapping[str, int],
    places: Mapping[str, str],
) -> Iterator[Move]:
    """Yields moves of a table's replicas that spread no tablet worse, from the fullest server to the emptiest first."""
    by_load = sorted(first, key=lambda server: (first[server], second[server], server))
    for source in reversed(by_load):
        for target in by_load:
            if first[source] - first[target] < 2:
                break
            for tablet in sorted(t for t, where in at.items() if tables[t] == table):
                move = Move(tablet, source, target)
                if source not in at[tablet] or target in at[tablet]:
                    continue
                if not places or _excess(at, move, places) <= worse(at[tablet], len(at[tablet]), places):
                    yield move


# ---- leaders ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Led:
    """A tablet: its table, the server that leads it, and the servers with replicas that can."""

    tablet: str
    table: str
    leader: str
    servers: frozenset[str]


def plan_leaders(tablets: Sequence[Led], servers: Sequence[str]) -> list[Move]:
    """Returns the transfers of leadership that balance a cluster, at most one per tablet: no server leads two tablets
    more than another, of any table or in all, as far as the places of replicas allow it.

    Parameters
    ----------
    servers : sequence of str
        Those that are to lead.

    Examples
    --------
    >>> there = frozenset("ab")
    >>> plan_leaders([Led("p0", "t", "a", there), Led("p1", "t", "a", there)], ["a", "b"])
    [Move(tablet='p0', source='a', target='b')]
    """
    leaders = {tablet.tablet: tablet.leader for tablet in tablets}
    tables = [[t for t in tablets if t.table == table] for table in sorted({t.table for t in tablets})]
    for mine in tables:
        while _improve(mine, leaders, servers, _counts(mine, leaders, servers), {}):
            pass
    per_table = {mine[0].table: _counts(mine, leaders, servers) for mine in tables}
    while _improve(tablets, leaders, servers, _counts(tablets, leaders, servers), per_table):
        per_table = {mine[0].table: _counts(mine, leaders, servers) for mine in tables}
    return [Move(t.tablet, t.leader, leaders[t.tablet]) for t in tablets if leaders[t.tablet] != t.leader]


def _counts(tablets: Sequence[Led], leaders: Mapping[str, str], servers: Sequence[str]) -> dict[str, int]:
    """Returns how many of the tablets each server leads."""
    counts = dict.fromkeys(servers, 0)
    for tablet in tablets:
        if leaders[tablet.tablet] in counts:
            counts[leaders[tablet.tablet]] += 1
    return counts


def _improve(
    tablets: Sequence[Led],
    leaders: dict[str, str],
    servers: Sequence[str],
    counts: Mapping[str, int],
    per_table: Mapping[str, Mapping[str, int]],
) -> bool:
    """Changes `leaders` so that one server leads a tablet less, another one that leads at least two fewer one more, and
    those in between as many as before; False if that is impossible. No table of `per_table` becomes more uneven."""
    for source in sorted(servers, key=lambda server: (-counts[server], server)):
        came_by: dict[str, Move] = {}
        waiting = deque([source])
        while waiting:
            at = waiting.popleft()
            if counts[source] - counts[at] >= 2:
                while at != source:
                    leaders[came_by[at].tablet] = at
                    at = came_by[at].source
                return True
            for tablet in tablets:
                if leaders[tablet.tablet] != at:
                    continue
                of_table = per_table.get(tablet.table)
                for target in sorted(tablet.servers & counts.keys() - came_by.keys() - {source}):
                    if of_table is None or of_table[at] > of_table[target]:
                        came_by[target] = Move(tablet.tablet, at, target)
                        waiting.append(target)
    return False
