"""A cluster in one process for tests of the client: servers that can be made to fail, over one embedded store.

All servers look at the same `Database`, as if replication took no time; each tablet has a leader, and only that one
takes writes. Requests and replies go through msgpack.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import client_options
from nyala.cluster.embedded_server.catalog_steps import make_steps
from nyala.cluster.raft.messages import Peer
from nyala.cluster.wire.messages import catalog_methods, methods, namespace_methods, user_methods, view_methods
from nyala.cluster.wire.messages.access_plain import access_step_from_plain, access_to_plain
from nyala.cluster.wire.messages.errors import error_from_body, error_to_body
from nyala.cluster.wire.messages.plain import (
    definition_from_plain,
    entry_to_plain,
    namespace_from_plain,
    sketch_to_plain,
    spec_from_plain,
    statistics_to_plain,
    step_from_plain,
    storage_to_plain,
    view_from_plain,
    view_to_plain,
)
from nyala.cluster.wire.rows.small_batches import small_batch
from nyala.cluster.wire.rows.write_rows import write_from_request
from nyala.model.clock import HybridClock
from nyala.model.codec.values import key_from_plain, key_to_plain, map_from_plain
from nyala.model.keys.keys import Keys
from nyala.model.schema import Table
from nyala.model.store import Op, ScanCounters, WriteBatch
from nyala.model.vectors.vector import Batch
from nyala.storage.database import Database
from nyala.storage.maintenance.table_compaction import compact_tablets
from nyala.storage.maintenance.tablet_flush import flush
from nyala.storage.single_rows.row_codec import RowCodec
from nyala.storage.statistics.analysis import Analysis, analyze, table_storage
from nyala.storage.statistics.table_statistics import StatisticsCache
from nyala.storage.tables.table_store import TableStore
from nyala.storage.tables.tablet_descriptions import key_samples
from nyala.storage.writing.incoming_rows import incoming, row_errors

Fault = Callable[[str, Any, str], None]
"""Called with address, request and "before" or "after" (the reply is lost then); raises what goes wrong."""


class FakeCluster:
    """One master and some tablet servers."""

    def __init__(self, servers: int = 3, batch_rows: int = 1 << 17) -> None:
        self.database = Database(":memory:", background=False)
        self.addresses = [f"server{number}:1" for number in range(servers)]
        self.masters = ["master0:1", "master1:1", "master2:1"]
        self.leading_master = "master0:1"
        self.cluster_id = "fake"
        self.dead: set[str] = set()
        self.leaders: dict[str, str] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, Any]] = []
        """Every request that came, with the server's address."""
        self.results: dict[tuple[str, str, int], Any] = {}
        self.applied: list[tuple[str, int]] = []
        """(client, sequence) of each call that was carried out."""
        self.batch_rows = batch_rows
        self.first_batches = 0
        """Number of batches in the reply of the call that begins a scan."""
        self.scanners: dict[tuple[str, str], list[Any]] = {}
        self.streams: list[FakeStream] = []
        self.analyses: dict[str, Analysis] = {}
        self._lock = threading.RLock()

    def client(self, **options: Any) -> Client:
        """A client of this cluster."""
        masters = [(master.split(":")[0], 1) for master in self.masters]
        client = Client(masters, client_options(**options), channels=lambda clock: FakeChannels(self, clock))
        client.runs_fragments = False  # no server evaluates them here
        return client

    def close(self) -> None:
        self.database.close()

    def leader(self, tablet_id: str) -> str:
        """The address of a tablet's leader; at first they are spread evenly."""
        with self._lock:
            if tablet_id not in self.leaders:
                self.leaders[tablet_id] = self.addresses[len(self.leaders) % len(self.addresses)]
            return self.leaders[tablet_id]

    def kill(self, address: str, elect: bool = True) -> None:
        """No answers from this server any more; others lead what it led."""
        with self._lock:
            self.dead.add(address)
            others = [other for other in self.addresses if other not in self.dead]
            self.scanners = {key: value for key, value in self.scanners.items() if key[0] != address}
            for tablet_id, leader in self.leaders.items():
                if leader == address and elect:
                    self.leaders[tablet_id] = others[0]

    def requests(self, kind: type[Any]) -> list[tuple[str, Any]]:
        """The requests of one kind that came."""
        return [(address, request) for address, request in self.log if isinstance(request, kind)]

    # ---- requests ------------------------------------------------------------------------------------------------

    def handle(self, address: str, request: Any) -> Any:
        if address in self.dead:
            raise errors.ServerUnavailable(f"{address} cannot be reached: refused")
        self.log.append((address, request))
        for fault in list(self.faults):
            fault(address, request, "before")
        name = "_do_" + type(request).__struct_config__.tag
        try:
            reply = getattr(self, name)(address, request)
        except errors.Error as error:
            body = msgspec.msgpack.encode(error_to_body(error))
            raise error_from_body(msgspec.msgpack.decode(body, type=type(error_to_body(error)))) from None
        for fault in list(self.faults):
            fault(address, request, "after")
        return msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=type(request).reply)

    def _do_status(self, address: str, request: Any) -> Any:
        return methods.ServerStatus(
            id=address, kind="tserver", address=address, version="", pid=0, started=0.0, clock=self.database.now()
        )

    # ---- masters -------------------------------------------------------------------------------------------------

    def _check_master(self, address: str) -> None:
        if address != self.leading_master:
            raise errors.NotTheLeader(f"{address} does not lead", self.leading_master)

    def _once(self, call: Any, work: Callable[[], Any]) -> Any:
        with self._lock:
            key = ("master", call.client, call.sequence)
            if key not in self.results:
                self.results[key] = work()
                self.applied.append((call.client, call.sequence))
            return self.results[key]

    def _do_catalog(self, address: str, request: methods.GetCatalog) -> Any:
        self._check_master(address)
        current = self.database._catalog.current
        if request.known_version == current.version:
            return methods.CatalogReply(version=current.version, cluster_id=self.cluster_id)
        entries = list(current.entries.values())
        return methods.CatalogReply(
            version=current.version,
            cluster_id=self.cluster_id,
            tables=tuple(entry_to_plain(entry) for entry in entries),
            views=tuple(view_to_plain(view) for view in current.views.values()),
            access=access_to_plain(current.access, with_verifiers=True),
        )

    def _table_reply(self, table: Table) -> Any:
        current = self.database._catalog.current
        return methods.TableReply(table=entry_to_plain(current.entries[table.name]), version=current.version)

    def _do_create_table(self, address: str, request: methods.CreateTable) -> Any:
        self._check_master(address)
        definition = definition_from_plain(request.definition)
        return self._once(request.call, lambda: self._table_reply(self.database.create_table(definition)))

    def _do_alter_table(self, address: str, request: methods.AlterTable) -> Any:
        self._check_master(address)
        steps = [step_from_plain(step) for step in request.steps]
        return self._once(request.call, lambda: self._table_reply(self.database.alter_table(request.name, steps)))

    def _do_drop_table(self, address: str, request: methods.DropTable) -> Any:
        self._check_master(address)
        self._once(request.call, lambda: self.database.drop_table(request.name, request.views))
        return methods.Done()

    def _do_create_view(self, address: str, request: methods.CreateView) -> Any:
        self._check_master(address)
        self._once(request.call, lambda: self.database.create_view(view_from_plain(request.view), request.replace))
        return methods.Done()

    def _do_drop_views(self, address: str, request: methods.DropViews) -> Any:
        self._check_master(address)
        self._once(request.call, lambda: self.database.drop_views(request.names))
        return methods.Done()

    def _do_rename_view(self, address: str, request: view_methods.RenameView) -> Any:
        self._check_master(address)
        change = request.name, request.new_name, request.namespace
        self._once(request.call, lambda: self.database.rename_view(*change))
        return methods.Done()

    def _do_change_catalog(self, address: str, request: catalog_methods.ChangeCatalog) -> Any:
        self._check_master(address)

        def work() -> None:
            with self.database.change_together() as batch:
                make_steps(request.steps, batch, self.database.catalog)

        self._once(request.call, work)
        return methods.Done()

    def _do_create_namespace(self, address: str, request: namespace_methods.CreateNamespace) -> Any:
        self._check_master(address)
        self._once(request.call, lambda: self.database.create_namespace(namespace_from_plain(request.namespace)))
        return methods.Done()

    def _do_drop_namespace(self, address: str, request: namespace_methods.DropNamespace) -> Any:
        self._check_master(address)
        self._once(request.call, lambda: self.database.drop_namespace(request.name, request.tables, request.views))
        return methods.Done()

    def _do_change_access(self, address: str, request: user_methods.ChangeAccess) -> Any:
        self._check_master(address)
        steps = [access_step_from_plain(step) for step in request.steps]
        self._once(request.call, lambda: self.database.change_access(steps))
        return methods.Done()

    def _do_locate_tablets(self, address: str, request: methods.LocateTablets) -> Any:
        self._check_master(address)
        peers = tuple(Peer(other, other) for other in self.addresses)
        entries = self.database._catalog.current.entries.values()
        return methods.LocationsReply(
            tablets=tuple(
                methods.TabletLocation(tablet_id=tablet_id, replicas=peers, leader=self.leader(tablet_id), term=1)
                for entry in entries
                if entry.table.id == request.table_id
                for tablet_id in entry.tablet_ids
            )
        )

    # ---- tablet servers ------------------------------------------------------------------------------------------

    def _store(self, tablet_id: str) -> TableStore:
        for store in self.database._stores.values():
            if any(tablet.id == tablet_id for tablet in store.tablets):
                return store
        raise errors.ReplicaUnavailable(f"there is no replica of tablet {tablet_id}")

    def _check_tablet(self, address: str, tablet_id: str, version: int, leader_only: bool = True) -> TableStore:
        store = self._store(tablet_id)
        leader = self.leader(tablet_id)
        if leader_only and leader != address:
            raise errors.NotTheLeader(f"{address} does not lead {tablet_id}", leader, 1)
        if version != store.table.version:
            raise errors.StaleSchema(f"{tablet_id} has version {store.table.version}, not {version}")
        return store

    def _once_at(self, tablet_id: str, call: Any, work: Callable[[], Any]) -> Any:
        with self._lock:
            key = (tablet_id, call.client, call.sequence)
            if key not in self.results:
                self.results[key] = work()
                self.applied.append((call.client, call.sequence))
            return self.results[key]

    def _do_write(self, address: str, request: methods.Write) -> Any:
        store = self._check_tablet(address, request.tablet_id, request.schema_version)
        batch = write_from_request(request)
        if request.check_only:
            return _reply(0, self.database.now(), _refusals(store, batch))

        def write() -> Any:
            result = self.database.write(store.table, batch)
            return _reply(result.applied, result.timestamp, result.errors)

        return self._once_at(request.tablet_id, request.call, write)

    def _do_write_row(self, address: str, request: methods.WriteRow) -> Any:
        store = self._check_tablet(address, request.tablet_id, request.schema_version)
        row = {
            name: store.table.schema.column(name).type.to_python(value)
            for name, value in map_from_plain(request.row).items()
        }

        def write() -> Any:
            result = self.database.write_row(store.table, Op(request.op), row)
            return _reply(result.applied, result.timestamp, result.errors)

        return self._once_at(request.tablet_id, request.call, write)

    def _do_read_row(self, address: str, request: methods.ReadRow) -> Any:
        latest = request.snapshot is None
        store = self._check_tablet(address, request.tablet_id, request.schema_version, latest)
        codec = RowCodec(store.table)
        key = [c.type.to_python(v) for c, v in zip(store.table.schema.key, key_from_plain(request.key))]
        row = self.database.read_row(store.table, key, request.columns, request.snapshot)
        if row is not None:
            taken = codec.take(dict(zip(request.columns, row)))[0]
            row = key_to_plain(taken[codec.place(name)] for name in request.columns)
        return methods.RowReply(row=row, timestamp=self.database.now())

    def _do_describe_tablets(self, address: str, request: methods.DescribeTablets) -> Any:
        found = []
        for tablet_id in request.tablet_ids:
            store = self._store(tablet_id)
            tablet = next(t for t in store.tablets if t.id == tablet_id)
            cache = StatisticsCache(store.table, self.analyses.get(tablet_id, Analysis({})))
            statistics, sketches = cache.get_with_sketches({tablet.id: tablet.pin()})
            found.append(
                methods.TabletFacts(
                    tablet_id=tablet_id,
                    rows=tablet.row_count,
                    bytes=sum(stored.metadata.data_bytes for stored in tablet.state.rowsets),
                    statistics=statistics_to_plain(statistics),
                    storage=storage_to_plain(table_storage(store.table, [tablet])),
                    sketches={name: sketch_to_plain(sketch) for name, sketch in sketches.items()},
                )
            )
        return methods.TabletFactsReply(tablets=tuple(found))

    def _do_key_samples(self, address: str, request: methods.KeySamples) -> Any:
        keys = key_samples(self._store(request.tablet_id).layout, request.tablet_id)
        return methods.KeySamplesReply(keys=tuple(key_to_plain(key) for key in keys))

    def _do_work_on_tablet(self, address: str, request: methods.WorkOnTablet) -> Any:
        store = self._store(request.tablet_id)
        tablet = next(t for t in store.tablets if t.id == request.tablet_id)
        if request.work == "flush":
            return methods.WorkReply(numbers={"rows": flush(tablet)})
        if request.work == "compact":
            done: Any = compact_tablets([tablet], None)
        else:
            self.analyses[request.tablet_id], done = analyze([tablet], self.database.now(), None)
        return methods.WorkReply(numbers={name: getattr(done, name) for name in done.__slots__})

    def _do_start_scan(self, address: str, request: methods.StartScan) -> Any:
        """The first `first_batches` of a scan; the end only with all of them."""
        ticket = request.ticket
        found = self._batches(address, ticket)
        given = tuple(small_batch(batch) for batch in found[:-1][: self.first_batches])
        if self.first_batches >= len(found):
            return methods.ScanStart(batches=given, end=found[-1])
        self.scanners[address, ticket.scanner] = found
        return methods.ScanStart(batches=given)

    def _do_close_scanner(self, address: str, request: methods.CloseScanner) -> Any:
        self.scanners.pop((address, request.scanner), None)
        return methods.Done()

    def _do_keep_alive(self, address: str, request: methods.KeepAlive) -> Any:
        return methods.Done()

    # ---- scans ---------------------------------------------------------------------------------------------------

    def scan(self, address: str, ticket: methods.ScanTablet) -> Iterator[Batch | methods.ScanEnd]:
        """The batches of a scan from where the ticket says, then its end. Other servers have other orders of rows."""
        if address in self.dead:
            raise errors.ServerUnavailable(f"{address} cannot be reached: refused")
        self.log.append((address, ticket))
        for fault in list(self.faults):
            fault(address, ticket, "before")
        key = (address, ticket.scanner)
        if ticket.resume_batch:
            if key not in self.scanners:
                raise errors.ScannerExpired("there is no such scanner")
        else:
            self.scanners[key] = self._batches(address, ticket)
        yield from self.scanners[key][ticket.resume_batch :]

    def _batches(self, address: str, ticket: methods.ScanTablet) -> list[Any]:
        store = self._check_tablet(address, ticket.tablet_id, ticket.schema_version, "snapshot" not in ticket.spec)
        leader = self.leader(ticket.tablet_id)
        spec = spec_from_plain(ticket.spec)
        spec = replace(spec, tablet=ticket.tablet_id)
        counters = ScanCounters()
        found: list[Any] = []
        limit = spec.limit
        if ticket.after_key is not None:
            spec = replace(spec, limit=None)
        for token in self.database.scan_tokens(store.table, spec):
            for batch in self.database.scan(token, counters):
                loaded = Batch(batch.columns(), batch.length)
                if ticket.after_key is not None:
                    loaded = _behind(store.table, spec.columns, loaded, key_from_plain(ticket.after_key))
                    loaded = loaded if limit is None else loaded.slice(0, limit)
                    limit = None if limit is None else limit - loaded.length
                for start in range(0, loaded.length, self.batch_rows):
                    found.append(loaded.slice(start, start + self.batch_rows))
        if not spec.ordered and self.addresses.index(address) % 2:
            found.reverse()
        end = methods.ScanEnd(
            batches=len(found),
            rows_considered=counters.rows_considered,
            rows_returned=counters.rows_returned,
            leader=leader,
        )
        return [*found, end]


class FakeStream:
    """As `wire.scan_streams.ScanStream`."""

    def __init__(self, cluster: FakeCluster, address: str, ticket: methods.ScanTablet) -> None:
        self._cluster = cluster
        self._address = address
        self._items = cluster.scan(address, ticket)
        self.batches = 0
        self.end: methods.ScanEnd | None = None
        self.closed = threading.Event()
        cluster.streams.append(self)

    def __iter__(self) -> FakeStream:
        return self

    def __next__(self) -> Batch:
        for fault in list(self._cluster.faults):
            fault(self._address, self, "before")
        if self.closed.is_set():
            raise errors.Cancelled("the scan has been closed")
        if self._address in self._cluster.dead:
            raise errors.ServerUnavailable(f"the scan at {self._address} was interrupted")
        item = next(self._items)
        if isinstance(item, methods.ScanEnd):
            self.end = item
            raise StopIteration
        self.batches += 1
        return item

    def close(self) -> None:
        self.closed.set()


class FakeChannel:
    def __init__(self, cluster: FakeCluster, address: str, clock: HybridClock) -> None:
        self._cluster, self._address, self._clock = cluster, address, clock

    def call(self, request: Any, timeout: float = 30.0, look: Callable[[], None] | None = None) -> Any:
        assert timeout > 0
        request = msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=type(request))
        try:
            return self._cluster.handle(self._address, request)
        finally:
            self._cluster.database.clock.update(self._clock.now())
            self._clock.update(self._cluster.database.now())

    def begin(self, request: Any, timeout: float) -> Callable[[], Any]:
        """Returns a call whose reply is made now."""
        try:
            reply = self.call(request, timeout)
        except errors.Error as error:
            return partial(_raise, error)
        return lambda: reply

    def finish(
        self, request: Any, begun: Callable[[], Any], timeout: float, look: Callable[[], None] | None = None
    ) -> Any:
        assert timeout > 0
        return begun()

    def scan(self, ticket: methods.ScanTablet, timeout: float = 30.0) -> FakeStream:
        ticket = msgspec.msgpack.decode(msgspec.msgpack.encode(ticket), type=type(ticket))
        self._cluster.database.clock.update(self._clock.now())
        return FakeStream(self._cluster, self._address, ticket)


def _raise(error: errors.Error) -> None:
    raise error


class FakeChannels:
    def __init__(self, cluster: FakeCluster, clock: HybridClock) -> None:
        self._cluster, self._clock = cluster, clock

    def get(self, address: str) -> FakeChannel:
        return FakeChannel(self._cluster, address, self._clock)

    def close(self) -> None:
        pass


def _behind(table: Table, columns: tuple[str, ...], batch: Batch, key: tuple[Any, ...]) -> Batch:
    types = tuple(column.type for column in table.schema.key)
    keys = Keys(types, tuple(batch.column(columns.index(column.name)) for column in table.schema.key))
    kept = [row for row in range(batch.length) if keys.values_at(row) > key]
    return batch.select(np.array(kept, np.intp))


def _reply(applied: int, timestamp: int, refused: Any) -> methods.WriteReply:
    rows = tuple(methods.WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in refused)
    return methods.WriteReply(applied=applied, timestamp=timestamp, errors=rows)


def _refusals(store: TableStore, batch: WriteBatch) -> list[Any]:
    rows = incoming(store.table, batch)
    refused = row_errors(store.table, rows)
    parts = store.layout.route(rows, refused)
    with ExitStack() as locks:
        for part in parts:
            part.probe()
            locks.enter_context(part.tablet.write_lock)
        for part in parts:
            part.check()
    return [*refused, *(error for part in parts for error in part.errors)]


# ---- faults ----------------------------------------------------------------------------------------------------------


def once(kind: type[Any], error: Exception, when: str = "before", times: int = 1) -> Fault:
    """The next requests of a kind fail."""
    left = [times]

    def fault(address: str, request: Any, moment: str) -> None:
        if isinstance(request, kind) and moment == when and left[0]:
            left[0] -= 1
            raise error

    return fault
