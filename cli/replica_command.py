"""`nyala replica`: the replicas in the directory of a tablet server that does not run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict

from ..cluster.tserver.local_replicas import LocalReplica, LocalReplicas
from ..storage.files.os_filesystem import OsFileSystem
from ..storage.inspect.text import format_bytes, table_lines
from .arguments import accepts_data_loss

_HEADER = ("tablet", "table", "state", "term", "bytes", "peers")


def list_command(arguments: argparse.Namespace) -> int:
    """`nyala replica list`: 1 if a replica cannot be read."""
    with LocalReplicas(OsFileSystem(), str(arguments.directory)) as local:
        replicas = local.list()
    if arguments.json:
        print(json.dumps([_plain(replica) for replica in replicas], indent=2))
    else:
        print("\n".join(table_lines(_HEADER, [_row(replica) for replica in replicas], left=_HEADER)))
        for replica in replicas:
            if replica.error:
                print(f"{replica.path}: {replica.error}")
    return 1 if any(replica.error for replica in replicas) else 0


def _row(replica: LocalReplica) -> tuple[str, ...]:
    peers = ", ".join(peer.address for peer in replica.peers)
    return replica.tablet_id, replica.table, replica.state, str(replica.term), format_bytes(replica.bytes), peers


def _plain(replica: LocalReplica) -> dict[str, object]:
    peers = [{"id": peer.id, "address": peer.address, "role": peer.role.name} for peer in replica.peers]
    return {**asdict(replica), "peers": peers}


def delete_command(arguments: argparse.Namespace) -> int:
    """`nyala replica delete`."""
    with LocalReplicas(OsFileSystem(), str(arguments.directory)) as local:
        if not accepts_data_loss(arguments, _warning(arguments.tablet)):
            return 1
        gone = local.delete(arguments.tablet)
    print(f"{gone.path} has a tombstone instead of {format_bytes(gone.bytes)} of table {gone.table}")
    return 0


def _warning(tablet: str) -> Iterator[str]:
    yield (
        f"DANGER: rows of tablet {tablet} that no other replica has ARE PERMANENTLY LOST. So are writes that a "
        "majority with this replica has acknowledged, if another server fails before the data are copied again."
    )
    yield "If the server can run, use `nyala tablet move` or `nyala cluster leave` instead."
