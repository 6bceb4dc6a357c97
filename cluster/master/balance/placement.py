"""Placement: the servers for the replicas of tablets.

Each replica goes to a location that gets no majority of the tablet's by that, if there is one (`cluster.locations`),
and there to a server with the fewest replicas of the table. Among several such servers two are drawn at random,
and the one with fewer replicas in all is taken ("power of two choices": it balances nearly as well as comparing all of
them, and a server that has just joined does not get every new tablet at once). The first peer of a configuration starts
the first election, so it is the server that leads the fewest tablets.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from ....errors import ClusterError
from ....model.lazy_dataclass import dataclass
from ...locations import well_placed
from ...raft.messages import Configuration, Peer, PeerRole


@dataclass(slots=True)
class Loads:
    """Loads of servers by id, updated as replicas are placed. `of_table` and `leaders_of_table` are by (table id,
    server id)."""

    replicas: Counter[str] = field(default_factory=Counter)
    leaders: Counter[str] = field(default_factory=Counter)
    of_table: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaders_of_table: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, table_id: str, server: str, count: int = 1) -> None:
        """Counts a replica (with -1: one less)."""
        self.replicas[server] += count
        self.of_table[table_id, server] += count

    def lead(self, table_id: str, server: str, count: int = 1) -> None:
        """Counts a leader."""
        self.leaders[server] += count
        self.leaders_of_table[table_id, server] += count


@dataclass(frozen=True, slots=True)
class Takers:
    """Servers that may receive replicas.

    Attributes
    ----------
    live : int
        Number of servers that can.
    silent : tuple of str
        The addresses of servers in the cluster that cannot now: dead, or not heard from yet.
    """

    live: int
    silent: tuple[str, ...] = ()


def replication_factor(requested: int | None, servers: Takers, default: int) -> int:
    """Returns the number of replicas of a table's tablets.

    A default counts silent servers too: otherwise a table that was created while some servers were down would keep too
    few replicas for good.

    Parameters
    ----------
    requested : int, optional
        From the statement; None: `default`, or the greatest odd number that the servers allow.

    Raises
    ------
    ClusterError
        Fewer servers are live than replicas are needed.
    """
    known = servers.live + len(servers.silent)
    if not known:
        raise ClusterError("no tablet server is available for tablets; start one, or check why they do not report")
    wanted = _odd(min(default, known)) if requested is None else requested
    if wanted <= servers.live:
        return wanted
    least = "at least 1 tablet server" if wanted == 1 else f"at least {wanted} tablet servers"
    alive = f"{servers.live} {'is' if servers.live == 1 else 'are'} alive"
    dead = f" and {', '.join(servers.silent)} {'is' if len(servers.silent) == 1 else 'are'} dead or not heard from yet"
    message = f"{wanted} replica{'' if wanted == 1 else 's'} need{'s' if wanted == 1 else ''} {least}: {alive}"
    message += dead if servers.silent else ""
    if requested is None and servers.live:
        message += f". Start them, or request fewer, which the table then keeps: REPLICAS {_odd(servers.live)}"
    raise ClusterError(message)


def _odd(count: int) -> int:
    """Returns the greatest odd number up to `count`."""
    return count if count % 2 else count - 1


@dataclass(frozen=True, slots=True)
class Spread:
    """The replicas that a tablet has, for the choice of one more: their servers, the number that it is to have, and the
    locations of all servers."""

    present: Collection[str] = ()
    replicas: int = 1
    locations: Mapping[str, str] = field(default_factory=dict)


def choose_server(
    candidates: Collection[str], table_id: str, loads: Loads, rng: random.Random, spread: Spread
) -> str | None:
    """Returns the server for one more replica of a table's tablet; None if there is no candidate."""
    servers = well_placed(candidates, spread.present, spread.replicas, spread.locations)
    if not servers:
        return None
    fewest = min(loads.of_table[table_id, server] for server in servers)
    best = sorted(server for server in servers if loads.of_table[table_id, server] == fewest)
    drawn = rng.sample(best, min(2, len(best)))
    return min(drawn, key=lambda server: loads.replicas[server])


def place_tablets(
    table_id: str,
    count: int,
    replicas: int,
    servers: Mapping[str, str],
    loads: Loads,
    rng: random.Random,
    locations: Mapping[str, str] | None = None,
) -> list[Configuration]:
    """Returns the configurations of new tablets of one table.

    Parameters
    ----------
    servers : mapping of str to str
        The addresses, by id, of those that may receive replicas; at least `replicas`.
    loads : Loads
        Their loads; the new replicas are added.
    locations : mapping of str to str, optional
        Their locations, by id.
    """
    return [_place(table_id, replicas, servers, loads, rng, locations or {}) for _ in range(count)]


def _place(
    table_id: str,
    replicas: int,
    servers: Mapping[str, str],
    loads: Loads,
    rng: random.Random,
    locations: Mapping[str, str],
) -> Configuration:
    chosen: list[str] = []
    for _ in range(replicas):
        free = [server for server in servers if server not in chosen]
        server = choose_server(free, table_id, loads, rng, Spread(chosen, replicas, locations))
        assert server is not None, "the caller has as many servers as replicas"
        chosen.append(server)
        loads.add(table_id, server)
    leader = least_leading(chosen, table_id, loads)
    loads.lead(table_id, leader)
    ordered = [leader, *(server for server in chosen if server != leader)]
    return Configuration(tuple(Peer(server, servers[server], PeerRole.VOTER) for server in ordered))


def least_leading(servers: Sequence[str], table_id: str, loads: Loads) -> str:
    """Returns the server that leads the fewest tablets of the table, and of these the one that leads the fewest in
    all."""
    return min(servers, key=lambda server: (loads.leaders_of_table[table_id, server], loads.leaders[server]))
