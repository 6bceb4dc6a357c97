"""On which servers the replicas of tablets go.

Each replica goes where the table has fewest yet; among several such servers, to the better of two that are drawn at
random: the one with fewer replicas in all ("power of two choices": it evens out nearly as well as looking at all of
them, and a server that has just joined does not get every new tablet at once). The first peer of a configuration starts
the first election, so it is the server that leads least.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ....errors import ClusterError
from ...raft.messages import Configuration, Peer, PeerRole


@dataclass(slots=True)
class Loads:
    """What servers carry, by id; counted on as replicas are placed. `of_table` and `leaders_of_table` are by (table id,
    server id)."""

    replicas: Counter[str] = field(default_factory=Counter)
    leaders: Counter[str] = field(default_factory=Counter)
    of_table: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaders_of_table: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, table_id: str, server: str, count: int = 1) -> None:
        """Count a replica (with -1: one less)."""
        self.replicas[server] += count
        self.of_table[table_id, server] += count

    def lead(self, table_id: str, server: str, count: int = 1) -> None:
        """Count a leader."""
        self.leaders[server] += count
        self.leaders_of_table[table_id, server] += count


@dataclass(frozen=True, slots=True)
class Takers:
    """Who there is to take replicas.

    Attributes
    ----------
    live : int
        Servers that can.
    silent : tuple of str
        The addresses of those that belong to the cluster and cannot now: dead, or not heard of yet.
    """

    live: int
    silent: tuple[str, ...] = ()


def replication_factor(asked: int | None, servers: Takers, default: int) -> int:
    """How many replicas the tablets of a table get.

    A default counts silent servers too: a table that was made with less than its cluster has, because some were down
    at that moment, would keep so few for good.

    Parameters
    ----------
    asked : int, optional
        What the statement says; None: `default`, or the greatest odd number that the servers allow.

    Raises
    ------
    ClusterError
        Fewer servers are live than replicas are needed.
    """
    known = servers.live + len(servers.silent)
    if not known:
        raise ClusterError("no tablet server is there to take tablets; start one, or look why they do not report")
    wanted = _odd(min(default, known)) if asked is None else asked
    if wanted <= servers.live:
        return wanted
    least = "at least 1 tablet server" if wanted == 1 else f"at least {wanted} tablet servers"
    alive = f"{servers.live} {'is' if servers.live == 1 else 'are'} alive"
    dead = f" and {', '.join(servers.silent)} {'is' if len(servers.silent) == 1 else 'are'} dead or not heard of yet"
    told = f"{wanted} replica{'' if wanted == 1 else 's'} need{'s' if wanted == 1 else ''} {least}: {alive}"
    told += dead if servers.silent else ""
    if asked is None and servers.live:
        told += f". Start them, or ask for fewer, which the table then keeps: REPLICAS {_odd(servers.live)}"
    raise ClusterError(told)


def _odd(count: int) -> int:
    """The greatest odd number up to it."""
    return count if count % 2 else count - 1


def choose_server(candidates: Collection[str], table_id: str, loads: Loads, rng: random.Random) -> str | None:
    """The server for one more replica of a table's tablet; None where there is no candidate."""
    if not candidates:
        return None
    fewest = min(loads.of_table[table_id, server] for server in candidates)
    best = sorted(server for server in candidates if loads.of_table[table_id, server] == fewest)
    drawn = rng.sample(best, min(2, len(best)))
    return min(drawn, key=lambda server: loads.replicas[server])


def place_tablets(
    table_id: str, count: int, replicas: int, servers: Mapping[str, str], loads: Loads, rng: random.Random
) -> list[Configuration]:
    """The configurations of new tablets of one table.

    Parameters
    ----------
    servers : mapping of str to str
        The addresses, by id, of those that take replicas; at least `replicas`.
    loads : Loads
        What they carry; the new replicas are added to it.
    """
    return [_place(table_id, replicas, servers, loads, rng) for _ in range(count)]


def _place(table_id: str, replicas: int, servers: Mapping[str, str], loads: Loads, rng: random.Random) -> Configuration:
    chosen: list[str] = []
    for _ in range(replicas):
        server = choose_server([s for s in servers if s not in chosen], table_id, loads, rng)
        assert server is not None, "the caller has as many servers as replicas"
        chosen.append(server)
        loads.add(table_id, server)
    leader = least_leading(chosen, table_id, loads)
    loads.lead(table_id, leader)
    ordered = [leader, *(server for server in chosen if server != leader)]
    return Configuration(tuple(Peer(server, servers[server], PeerRole.VOTER) for server in ordered))


def least_leading(servers: Sequence[str], table_id: str, loads: Loads) -> str:
    """The server that leads fewest tablets of the table, and of these the one that leads fewest in all."""
    return min(servers, key=lambda server: (loads.leaders_of_table[table_id, server], loads.leaders[server]))
