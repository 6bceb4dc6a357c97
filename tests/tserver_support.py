"""Tablet servers in this process, and a small client for them."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from nyala.cluster.raft.messages import Configuration, Peer, PeerRole
from nyala.cluster.raft.options import RaftOptions
from nyala.cluster.tserver.options import TabletServerOptions
from nyala.cluster.tserver.server import TabletServer
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.messages import methods, plain
from nyala.cluster.wire.messages.methods import Call, Request, ScanTablet, Tablet, TabletReport
from nyala.cluster.wire.rows.scan_streams import ScanStream
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.errors import Error
from nyala.model.clock import HybridClock
from nyala.model.partitions.partition import Partitioner
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.model.types import BIGINT, STRING
from nyala.storage.files.filesystem import FileSystem

T = TypeVar("T")
QUICK = RaftOptions(heartbeat=0.1, election_timeout=0.5, lease=0.4)
SCHEMA = Schema(assign_column_ids((ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", STRING))), 1)
SECONDS = 90.0
"""Timeout of every wait, in seconds."""


def table(version: int = 0, schema: Schema = SCHEMA) -> Table:
    return Table("t1", "t", schema, PartitionSchema(), version, "", 2)


def tablet(tablet_id: str = "t1-p0", of: Table | None = None) -> Tablet:
    of = of or table()
    (partition,) = Partitioner(of.schema, of.partitions).partitions
    return Tablet(id=tablet_id, table=plain.table_to_plain(of), place=partition.place, partition=partition.describe())


def rows(keys: Iterable[int], text: str = "v") -> pa.RecordBatch:
    numbers = list(keys)
    return pa.record_batch({"k": pa.array(numbers, pa.int64()), "v": pa.array([f"{text}{k}" for k in numbers])})


def wait_for(condition: Callable[[], T], seconds: float = SECONDS) -> T:
    """Returns the condition's value as soon as it is true; errors count as false until the timeout."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
            if found:
                return found
        except Error:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


class Servers:
    """Some tablet servers, each in a directory of its own."""

    def __init__(self, path: Path, count: int, **options: Any):
        self.path = path
        self.clock = HybridClock()
        self.channels = Channels(self.clock)
        self.options = {"raft": QUICK, "bind": "127.0.0.1:0", "memory_limit_bytes": 1 << 30, **options}
        self.running: dict[int, TabletServer] = {}
        self._sequence = 0
        self._client = uuid.uuid4().hex
        for number in range(count):
            self.start(number)

    def start(self, number: int, fs: FileSystem | None = None, **options: Any) -> TabletServer:
        made = TabletServerOptions(directory=str(self.path / f"s{number}"), **{**self.options, **options})
        server = TabletServer(made, fs=fs)
        server.start()
        self.running[number] = server
        return server

    def restart(self, number: int, **options: Any) -> TabletServer:
        """Stop a server without any hand-over, and start it from its directory, at the same port."""
        bind = self.running[number].address
        self.stop(number)
        return self.start(number, bind=bind, **options)

    def stop(self, number: int) -> None:
        self.running.pop(number).stop()

    def close(self) -> None:
        for number in list(self.running):
            self.stop(number)
        self.channels.close()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- calls ---------------------------------------------------------------------------------------------------

    def configuration(self, numbers: Sequence[int] | None = None) -> Configuration:
        chosen = sorted(self.running) if numbers is None else numbers
        peers = tuple(Peer(self.running[n].id, self.running[n].address, PeerRole.VOTER) for n in chosen)
        return Configuration(peers)

    def call(self, number: int, request: Request, timeout: float = SECONDS) -> Any:
        return self.channels.get(self.running[number].address).call(request, timeout)

    def create(self, made: Tablet | None = None, numbers: Sequence[int] | None = None) -> str:
        """A tablet at these servers, all by default; returns its id when a leader serves."""
        made = made or tablet()
        chosen = sorted(self.running) if numbers is None else numbers
        configuration = self.configuration(chosen)
        for number in chosen:
            self.call(number, methods.CreateTablet(tablet=made, configuration=configuration))
        self.leader(made.id)
        return made.id

    def reports(self, tablet_id: str) -> dict[int, TabletReport]:
        found = {}
        for number in sorted(self.running):
            reply = self.call(number, methods.ReportTablets(tablet_ids=(tablet_id,)))
            for report in reply.tablets:
                found[number] = report
        return found

    def report(self, number: int, tablet_id: str) -> TabletReport | None:
        return self.reports(tablet_id).get(number)

    def leader(self, tablet_id: str) -> int:
        """Which server leads a tablet and serves."""
        return (
            wait_for(
                lambda: [
                    n + 1
                    for n, report in self.reports(tablet_id).items()
                    if report.role == "LEADER" and report.is_serving
                ],
            )[0]
            - 1
        )

    def call_leader(self, tablet_id: str, request: Request) -> Any:
        """Calls the leader, also after a change of leaders."""
        return wait_for(lambda: self.call(self.leader(tablet_id), request))

    def write(
        self, tablet_id: str, batch: pa.RecordBatch, op: Op = Op.UPSERT, version: int = 0, **more: Any
    ) -> methods.WriteReply:
        self._sequence += 1
        call = Call(self._client, self._sequence, self._sequence)
        request = write_to_request(
            WriteBatch(batch, op, **more), tablet_id=tablet_id, schema_version=version, call=call
        )
        reply: methods.WriteReply = self.call_leader(tablet_id, request)
        return reply

    # ---- scans ---------------------------------------------------------------------------------------------------

    def stream(
        self,
        number: int,
        tablet_id: str,
        spec: ScanSpec,
        *,
        latest: bool = False,
        scanner: str | None = None,
        **more: Any,
    ) -> ScanStream:
        """Begins a scan at a server; as of the client's clock if the spec has no snapshot, unless `latest`."""
        if spec.snapshot is None and not latest:
            spec = dataclasses.replace(spec, snapshot=self.clock.now())
        ticket = ScanTablet(
            tablet_id=tablet_id,
            schema_version=more.pop("version", 0),
            spec=plain.spec_to_plain(spec),
            scanner=scanner or uuid.uuid4().hex,
            **more,
        )
        return self.channels.get(self.running[number].address).scan(ticket, SECONDS)

    def read(self, number: int, tablet_id: str, spec: ScanSpec | None = None, **more: Any) -> list[Any]:
        """The rows of a scan as tuples, in the order in which they come."""
        return list(tuples(self.stream(number, tablet_id, spec or ScanSpec(("k", "v")), **more)))

    def keys(self, number: int, tablet_id: str) -> list[int]:
        return sorted(row[0] for row in self.read(number, tablet_id))


def tuples(stream: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for batch in stream:
        yield from zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True)
