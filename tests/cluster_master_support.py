"""Masters in this process, with ports, files and Raft; the tablet servers are fakes with ports."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from pathlib import Path
from typing import Any

from nyala.cluster.master.options import MasterOptions
from nyala.cluster.master.server import MasterServer
from nyala.cluster.raft.options import RaftOptions
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.messages.methods import (
    Call,
    CreateTable,
    GetCatalog,
    GetStatus,
    Heartbeat,
    HeartbeatReply,
    ListServers,
    Request,
)
from nyala.cluster.wire.messages.plain import definition_to_plain
from nyala.cluster.wire.server import RpcServer
from nyala.errors import Error, NotTheLeader, ServerUnavailable
from nyala.model.clock import HybridClock
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.types import BIGINT

from tests.fake_tservers import FakeTservers, eventually

RAFT = RaftOptions(heartbeat=0.1, election_timeout=0.4, lease=0.3)


def free_addresses(count: int) -> tuple[str, ...]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)


class MasterCluster:
    """Masters and fake tablet servers, with a client. `addresses` are those that masters are started with."""

    def __init__(self, path: Path, masters: int = 1, tservers: int = 3, **options: Any):
        self.path = path
        self.addresses = free_addresses(masters)
        self.options = options
        self.channels = Channels(HybridClock())
        self.masters: dict[str, MasterServer] = {}
        for address in self.addresses:
            self.start(address)
        self.tservers = FakeTservers((), self._beat)
        self._servers: list[RpcServer] = []
        for number in range(tservers):
            server = self.tservers.add(f"ts{number}")
            rpc = RpcServer("127.0.0.1:0", HybridClock(), handlers=server.handlers, id=server.id)
            server.address = rpc.address
            rpc.start()
            self._servers.append(rpc)
        self.tservers.start()
        self.client, self.calls = uuid.uuid4().hex, 0
        eventually(lambda: len(self.ask(ListServers()).tservers) == tservers)

    def start(self, address: str, masters: tuple[str, ...] | None = None) -> MasterServer:
        options = MasterOptions(
            directory=str(self.path / address),
            bind=address,
            masters=self.addresses if masters is None else masters,
            raft=RAFT,
            warm_up=0.3,
            **self.options,
        )
        master = self.masters[address] = MasterServer(options)
        master.start()
        return master

    def stop(self, address: str, drains: bool = False) -> None:
        master = self.masters.pop(address)
        if drains:
            master.drain()
        master.stop()

    def leader(self) -> str:
        """The address of the master that leads."""

        def look() -> str:
            for address in self.masters:
                with contextlib.suppress(Error):
                    if self.channels.get(address).call(GetStatus(), 2.0).is_leader:
                        return address
            return ""

        found: str = eventually(look)
        return found

    def ask(self, request: Request, seconds: float = 20.0, timeout: float = 10.0) -> Any:
        """The leader's answer."""
        end = time.monotonic() + seconds
        while True:
            for address in list(self.masters):
                try:
                    return self.channels.get(address).call(request, timeout)
                except (NotTheLeader, ServerUnavailable) as error:
                    last = error
            if time.monotonic() > end:
                raise last
            time.sleep(0.05)

    def create(self, name: str, call: Call | None = None, timeout: float = 10.0) -> Any:
        columns = (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", BIGINT))
        definition = TableDefinition(name, Schema(columns, 1), PartitionSchema((HashRule(("k",), 2),)))
        plain = definition_to_plain(definition)
        return self.ask(CreateTable(definition=plain, replicas=None, call=call or self.next_call()), timeout=timeout)

    def next_call(self) -> Call:
        self.calls += 1
        return Call(self.client, self.calls, 1)

    def names(self) -> list[str]:
        return [table["name"] for table in self.ask(GetCatalog()).tables]

    def _beat(self, beat: Heartbeat) -> HeartbeatReply:
        reply = HeartbeatReply(is_leader=False)
        for address in list(self.masters):
            with contextlib.suppress(Error):
                reply = self.channels.get(address).call(beat, 1.0)
                if reply.is_leader:
                    break
        return reply

    def close(self) -> None:
        self.tservers.stop()
        for server in self._servers:
            server.stop()
        for address in list(self.masters):
            self.stop(address)
        self.channels.close()
