"""`nyala cluster` and `nyala tablet`: local clusters, health, balance. What they do is in `cluster.admin`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..cluster.admin.ksck import describe, ksck
from ..cluster.admin.leaving import Leaving
from ..cluster.admin.local_cluster import LocalCluster, LocalServer
from ..cluster.admin.rebalance import Led, Move, Placed, plan_leaders, plan_moves
from ..cluster.admin.rebalancing import Failure, MoveRun
from ..cluster.admin.unsafe import Forcing
from ..cluster.admin.view import ClusterView
from ..cluster.client.catalog.master_states import master_state
from ..driver.stores.cluster_url import ENVIRONMENT
from ..driver.stores.open_stores import is_cluster
from ..errors import InterfaceError
from ..storage.inspect.text import table_lines
from .arguments import accepts_data_loss
from .cluster_connection import connected


def start_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster start`."""
    directory: Path = _local(arguments)
    if (directory / "cluster.json").exists():
        cluster = LocalCluster.open(directory)
        cluster.check_made_with(
            tservers=arguments.tservers,
            masters=arguments.masters,
            durability=arguments.durability,
            is_secure=arguments.tls or None,
        )
        if arguments.tservers is not None and arguments.tservers > len(cluster.tservers):
            cluster.add("tserver", arguments.tservers - len(cluster.tservers))
    else:
        tservers = 3 if arguments.tservers is None else arguments.tservers
        options = {"durability": arguments.durability or "fsync"}
        cluster = LocalCluster.create(directory, tservers, arguments.masters or 1, options, is_secure=arguments.tls)
    cluster.start()
    files = cluster.client_tls
    print(f"{len(cluster.addresses)} servers run; connect to {cluster.url}" + ("" if files is None else ", by TLS:"))
    if files is not None:
        settings = (f"{ENVIRONMENT[name]}={shlex.quote(value)}" for name, value in files.options().items())
        print(f"export {' '.join(settings)}")
    return 0


def stop_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster stop`."""
    cluster = LocalCluster.open(_local(arguments))
    killed = cluster.stop()
    for name in killed:
        print(f"{name} did not end by itself, and was killed")
    print("all servers have ended")
    return 1 if killed else 0


def status_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster status`: 1 where a server does not answer."""
    servers = LocalCluster.open(_local(arguments)).status()
    if arguments.json:
        print(json.dumps([_plain(server) for server in servers], indent=2))
    else:
        _print(("server", "pid", "address", "state", "role", "replicas", "leads"), [_row(one) for one in servers])
    return 0 if all(server.status is not None for server in servers) else 1


def _role(server: LocalServer) -> str:
    if server.kind == "tserver" or server.status is None:
        return server.kind
    return f"master ({master_state(server.status).lower()})"


def _row(server: LocalServer) -> Sequence[str]:
    state = "stopped" if server.pid is None else "running" if server.status is not None else "does not answer"
    counts = ("", "") if server.status is None else (str(server.status.tablets), str(server.status.leaders))
    return (server.name, str(server.pid or ""), server.address, state, _role(server), *counts)


def _plain(server: LocalServer) -> dict[str, Any]:
    told = server.status
    return {
        "name": server.name,
        "kind": server.kind,
        "pid": server.pid,
        "address": server.address,
        "answers": told is not None,
        "id": None if told is None else told.id,
        "is_leader": None if told is None else told.is_leader,
        "role": _role(server),
        "replicas": None if told is None else told.tablets,
        "leads": None if told is None else told.leaders,
        "memory_bytes": None if told is None else told.memory_bytes,
    }


def ksck_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster ksck`: 1 where anything is wrong."""
    with connected(arguments, leaderless=True) as reached:
        view = reached.view(arguments.timeout, leaderless=True)
        report = ksck(view, reached.channels if arguments.checksum else None)
    print(json.dumps(report.to_dict(), indent=2) if arguments.json else describe(report))
    return 0 if report.is_clean else 1


def rebalance_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster rebalance`."""
    with connected(arguments) as reached:
        mover = reached.mover()
        view = reached.view()
        moves = _moves(view)
        failures = _do(
            moves,
            lambda move: f"tablet {move.tablet}: {_at(view, move.source)} -> {_at(view, move.target)}",
            None if arguments.dry_run else lambda m: mover.move(m.tablet, m.source, m.target, arguments.timeout),
        )
        after = reached.view() if moves and not arguments.dry_run else view
        leaders = _leaders(after)
        failures += _do(
            leaders,
            lambda m: f"tablet {m.tablet} is led by {_at(after, m.target)} instead of {_at(after, m.source)}",
            None if arguments.dry_run else lambda m: mover.step_down(m.tablet, m.target, arguments.timeout),
        )
    if not moves and not leaders:
        print("balanced already: nothing to move")
    elif arguments.dry_run:
        later = ", and more perhaps when replicas have moved" if moves else ""
        print(f"replicas to move: {len(moves)}; leaderships to hand over: {len(leaders)}{later}")
    else:
        moved, led = (sum(failure.move in some for failure in failures) for some in (moves, leaders))
        print(f"replicas moved: {len(moves) - moved}; leaderships handed over: {len(leaders) - led}")
    if failures:
        print(f"{len(failures)} of these failed; run `nyala cluster rebalance` again to continue")
    return 1 if failures else 0


def _do(moves: Sequence[Move], describe: Callable[[Move], str], work: Callable[[Move], object] | None) -> list[Failure]:
    """Make the moves and print the progress; without `work`, print the moves only. Returns the failed ones."""
    if work is not None:
        return MoveRun(work, lambda line: print(line, flush=True), describe).run(moves)
    for number, move in enumerate(moves, 1):
        print(f"{number}/{len(moves)}  {describe(move)}")
    return []


def _moves(view: ClusterView) -> list[Move]:
    tablets = [Placed(t.id, t.table, frozenset(peer.id for peer in t.replicas)) for t in view.tablets]
    alive = [s.id for s in view.tservers if s.state not in ("DEAD", "REPLACED") and not s.in_maintenance]
    leaving = [server.id for server in view.tservers if server.state == "LEAVING"]
    locations = {server.id: server.location for server in view.tservers if server.location}
    return plan_moves(tablets, alive, leaving, locations)


def _leaders(view: ClusterView) -> list[Move]:
    tablets = [Led(t.id, t.table, t.leader, frozenset(t.running_voters())) for t in view.tablets if t.leader]
    heirs = [s.id for s in view.tservers if s.state == "ALIVE" and not s.in_maintenance and not s.is_quiescing]
    return plan_leaders(tablets, heirs)


def leave_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster leave`."""
    with connected(arguments) as reached:
        leaving = Leaving(reached.channels, reached.masters, arguments.server, reached.local)
        if arguments.undo:
            leaving.undo()
            print(f"{leaving.name} stays")
            return 0
        leaving.begin(has_to_end=arguments.wait)
        if not arguments.wait:
            print(f"{leaving.name} {leaving.fate}")
            return 0
        leaving.wait(lambda told: print(told, file=sys.stderr, flush=True), arguments.timeout)
    print(f"{leaving.name} holds no replica any more")
    return 0


def _at(view: ClusterView, id: str) -> str:
    server = view.server(id)
    return id if server is None else server.address


# ---- tablets ---------------------------------------------------------------------------------------------------------


def tablets_command(arguments: argparse.Namespace) -> int:
    """`nyala tablet list`."""
    with connected(arguments) as reached:
        view = reached.view()
    if arguments.table is not None and arguments.table not in view.tables:
        raise InterfaceError(f"the cluster has no table {arguments.table}; it has: {', '.join(view.tables) or 'none'}")
    tablets = [tablet for tablet in view.tablets if arguments.table in (None, tablet.table)]
    if arguments.json:
        plain = [
            {
                "tablet": tablet.id,
                "table": tablet.table,
                "replicas": [
                    {"address": peer.address, "role": peer.role.name, "leads": peer.id == tablet.leader}
                    for peer in tablet.replicas
                ],
            }
            for tablet in tablets
        ]
        print(json.dumps(plain, indent=2))
        return 0
    rows = [
        (
            tablet.id,
            tablet.table,
            next((peer.address for peer in tablet.replicas if peer.id == tablet.leader), "none"),
            ", ".join(peer.address for peer in tablet.replicas if peer.id != tablet.leader),
        )
        for tablet in tablets
    ]
    _print(("tablet", "table", "leader", "followers"), rows)
    return 0


def move_command(arguments: argparse.Namespace) -> int:
    """`nyala tablet move`."""
    with connected(arguments) as reached:
        tablet, source, target = reached.mover().move(
            arguments.tablet, arguments.source, arguments.target, arguments.timeout
        )
    print(f"tablet {tablet} has a replica at {target.address}, and none at {source.address}")
    return 0


def step_down_command(arguments: argparse.Namespace) -> int:
    """`nyala tablet leader-step-down`."""
    with connected(arguments) as reached:
        tablet, leader = reached.mover().step_down(arguments.tablet, arguments.to, arguments.timeout)
    print(f"tablet {tablet} is led by {leader.address}")
    return 0


def unsafe_change_config_command(arguments: argparse.Namespace) -> int:
    """`nyala tablet unsafe-change-config`."""
    with connected(arguments) as reached:
        forcing = Forcing(reached.channels, reached.masters, reached.local, arguments.tablet, arguments.survivor)
        if not accepts_data_loss(arguments, forcing.warning()):
            return 1
        told = forcing.force(arguments.timeout)
    print(told)
    return 0


# ---- parts -----------------------------------------------------------------------------------------------------------


def _local(arguments: argparse.Namespace) -> Path:
    """The directory of a local cluster."""
    directory: Path = arguments.directory
    if is_cluster(str(directory)) or str(directory).startswith("nyala:"):
        raise InterfaceError("this takes the directory of a cluster on this machine, and no URL")
    return directory


def _print(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n".join(table_lines(header, rows, left=header)))
