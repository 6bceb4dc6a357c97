"""`nyala cluster masters`, `add-master`, `remove-master`, `replace-master` and `unsafe-change-masters`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ..cluster.admin.local_cluster import LocalCluster
from ..cluster.admin.master_changes import ForcedMasters, MasterChanges
from ..cluster.client.catalog.master_states import MasterState
from ..driver.stores.open_stores import is_cluster
from ..errors import InterfaceError, did_you_mean
from ..storage.inspect.text import table_lines
from .arguments import accepts_data_loss
from .cluster_connection import Reached, connected

_HEADER = ("master", "role", "state", "term", "last entry", "lag", "id")


def list_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster masters`."""
    with _changing(arguments) as (reached, changes):
        found = changes.states()
    if arguments.json:
        print(json.dumps([{**asdict(each), "leads": each.state == "LEADER"} for each in found], indent=2))
        return 0
    names = {address: name for name, address in reached.local.items()}
    print(
        "\n".join(table_lines(_HEADER, [_row(each, names) for each in found], left=("master", "role", "state", "id")))
    )
    return 0


def _row(found: MasterState, names: Mapping[str, str]) -> tuple[str, ...]:
    numbers = ("" if number is None else str(number) for number in (found.term, found.last_index, found.lag_entries))
    return names.get(found.address, found.address), found.role, found.state, *numbers, found.id


def add_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster add-master`."""
    with _changing(arguments) as (reached, changes):
        changes.add(_newcomer(arguments, reached, changes))
    return 0


def remove_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster remove-master`."""
    with _changing(arguments) as (reached, changes):
        address = _address_of(arguments.master, reached)
        changes.remove(address)
    _forget(arguments, address)
    return 0


def replace_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster replace-master`."""
    with _changing(arguments) as (reached, changes):
        old = _address_of(arguments.master, reached)
        changes.replace(old, _newcomer(arguments, reached, changes, arguments.master))
    _forget(arguments, old)
    return 0


def unsafe_change_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster unsafe-change-masters`."""
    with connected(arguments, leaderless=True) as reached:
        forced = ForcedMasters(reached.channels, [_address_of(one, reached) for one in arguments.survivor])
        if not accepts_data_loss(arguments, forced.warning()):
            return 1
        told = forced.force(arguments.timeout)
    print(told)
    return 0


@contextmanager
def _changing(arguments: argparse.Namespace) -> Iterator[tuple[Reached, MasterChanges]]:
    def say(told: str) -> None:
        print(told, flush=True)

    with connected(arguments) as reached:
        yield reached, MasterChanges(reached.channels, reached.masters, say, arguments.timeout)


def _local(arguments: argparse.Namespace) -> LocalCluster | None:
    return None if is_cluster(arguments.cluster) else LocalCluster.open(Path(arguments.cluster))


def _address_of(master: str, reached: Reached) -> str:
    """Returns the address of a master that is named by it, or by its name in a local cluster."""
    address = reached.local.get(master, master)
    if not address.rpartition(":")[2].isdigit():
        names = [name for name in reached.local if name.startswith("master-")]
        raise InterfaceError(f"{master} is no address HOST:PORT of a master{did_you_mean(master, names)}")
    return address


def _newcomer(arguments: argparse.Namespace, reached: Reached, changes: MasterChanges, replaced: str = "") -> str:
    """Returns the address of the master to add. In a local cluster, its process is started unless one is named: that
    of an interrupted command, or a new one."""
    if arguments.address is not None:
        return _address_of(arguments.address, reached)
    local = _local(arguments)
    if local is None:
        raise InterfaceError("name the address HOST:PORT of the new master, where a process of `nyala master` waits")
    voters = [peer.address for peer in changes.list().configuration.voters]
    replaced = next((name for name, at in local.addresses.items() if at == replaced), replaced)
    left = [
        name
        for name, instead_of in local.added.items()
        if instead_of == replaced and (replaced or local.addresses[name] not in voters)
    ]
    name = left[0] if left else local.add_master(replaced)
    process = local.process(name)
    process.start()
    process.wait_ready()
    print(f"{name} runs at {local.addresses[name]}", flush=True)
    return local.addresses[name]


def _forget(arguments: argparse.Namespace, address: str) -> None:
    """Ends the process of a removed master of a local cluster."""
    local = _local(arguments)
    for name in [] if local is None else [name for name, at in local.addresses.items() if at == address]:
        assert local is not None
        local.forget(name)
        print(f"{name} has ended; its directory stays in {local.directory}")
