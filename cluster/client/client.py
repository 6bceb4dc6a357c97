"""The client of a cluster: implements `model.store.Store` over masters and tablet servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from ...errors import Error
from ...model.abandoned import close_when_dropped
from ...model.alterations import AlterStep
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.schema import Table, TableDefinition, View
from ...model.store import (
    AnalyzeResult,
    BulkLoader,
    CompactionResult,
    Op,
    ScanCounters,
    ScanSpec,
    ScanToken,
    TableStatistics,
    TableStorage,
    TabletDescription,
    Timestamp,
    WriteBatch,
    WriteResult,
)
from ...model.vectors.vector import Batch
from ...model.waiting_time import one_statement
from ...storage.loads.loading import Loading
from ...storage.malloc import keep_freed_blocks
from ..wire.calls.call_streams import sending_together
from ..wire.calls.rpc import Channels
from ..wire.client_clock import ClientClock
from ..wire.messages.methods import (
    OWNER,
    AlterTable,
    CreateTable,
    CreateView,
    Done,
    DropTable,
    DropViews,
    GetStatus,
    Reply,
    Request,
    ServerStatus,
    TableReply,
)
from ..wire.messages.plain import definition_to_plain, step_to_plain, view_to_plain
from ..wire.process.forking import note_process
from ..wire.security.tls import read_credentials
from .catalog.catalog_cache import CatalogCache
from .catalog.locations import Locations
from .catalog.masters import Masters
from .catalog.statistics_cache import Facts
from .client_context import ChannelsLike, Shared
from .loads.cluster_loads import ClusterLoader
from .loads.owned_loads import OwnedLoader
from .options import ClientOptions
from .scans.scan_tokens import Scans
from .scans.stream_watch import StreamWatch
from .scans.token_scan import TokenBatches, TokenScan
from .tablet_calls import TabletCalls
from .writes.batch_writes import Writer
from .writes.joint_writes import JointWriter
from .writes.single_rows import SingleRows

_DDL_SECONDS = 10.0
"""For an answer that waits until all tablets have done their part; then another master is asked."""


def _channels(clock: HybridClock, options: ClientOptions) -> Channels:
    return Channels(clock, tls=None if options.tls is None else read_credentials(options.tls))


def _release(shared: Shared, catalog: CatalogCache, watch: StreamWatch) -> None:
    shared.close()
    catalog.stop()
    watch.close()


class Client:
    """Tables of a cluster. Safe for several threads; not for a process that is forked afterwards.

    Parameters
    ----------
    masters : sequence of (str, int)
        Hosts and ports of the masters; one that answers is enough.
    options : ClientOptions
    clock : HybridClock, optional
        For tests.
    channels : callable, optional
        Makes the channels, given the clock; for tests.

    Raises
    ------
    InterfaceError
        The TLS files cannot be.
    AuthenticationFailed
        The masters and this client do not trust each other, or only one side speaks TLS.
    DeadlineExceeded
        No master has answered as the leader within `connect_deadline`, or nobody was there for half of it.
    """

    runs_fragments = True

    def __init__(
        self,
        masters: Sequence[tuple[str, int]],
        options: ClientOptions | None = None,
        *,
        clock: HybridClock | None = None,
        channels: Callable[[HybridClock], ChannelsLike] | None = None,
    ):
        note_process()
        keep_freed_blocks()
        addresses = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in masters]
        options = options or ClientOptions()
        clock = clock or ClientClock()
        self.name = f"nyala://{','.join(addresses)}"
        made = _channels(clock, options) if channels is None else channels(clock)
        stay_with_process(self)
        self._shared = shared = Shared(self.name, clock, made, options)
        self._masters = Masters(shared.channels, addresses, shared.attempts)
        self._catalog = CatalogCache(self._masters, shared.numbers)
        self._locations = Locations(self._masters)
        self._calls = TabletCalls(shared, self._catalog, self._locations)
        self._facts = Facts(shared, self._catalog, self._locations, self._calls)
        self._scans = Scans(shared, self._catalog, self._facts.rows_of)
        self._watch = StreamWatch(shared)
        self._writer = Writer(shared, self._catalog, self._calls, self._facts.wrote)
        self._joint_writer = JointWriter(shared, self._catalog, self._masters, self._facts.wrote)
        catalog, joint, single = self._catalog, self._joint_writer, self._writer

        def write(table: Table, batch: WriteBatch) -> WriteResult:
            return (joint if catalog.has_joint_writes else single).write(table, batch)

        self._write = write  # refers to no `Client`, which is to be freed with its last reference
        self._rows = SingleRows(shared, catalog, self._calls, write, self._facts.wrote)
        try:
            seconds = options.connect_deadline
            self._catalog.refresh(seconds, f"connecting to {self.name}", patience=seconds / 2)
        except BaseException:
            shared.close()
            raise
        self._catalog.start()
        release = partial(_release, shared, catalog, self._watch)
        self._finalizer = close_when_dropped(self, self.name, release, "client of")

    def close(self) -> None:
        """Let go of the servers; what was acknowledged is durable with them. Closing again does nothing."""
        self._finalizer.detach()
        _release(self._shared, self._catalog, self._watch)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.name!r}, {len(self._catalog.current.tables)} tables)"

    def _check(self) -> None:
        self._shared.check_open()
        self._catalog.use()

    @property
    def temporary_directory(self) -> str | None:
        return None

    # ---- time ----------------------------------------------------------------------------------------------------

    def now(self) -> Timestamp:
        """A timestamp above everything that this client has written or read, and that any server has told it."""
        self._check()
        return self._shared.clock.now()

    @property
    def last_observed(self) -> Timestamp:
        """The greatest time that this client has seen: a token for another client's `update`, which then reads what
        this one has written and read."""
        return self._shared.clock.latest

    def update(self, timestamp: Timestamp) -> None:
        """Take note of a time that another client has written at, or read: whatever this one reads from now on shows
        what was there then."""
        self._check()
        self._shared.clock.update(timestamp)

    # ---- the catalog ---------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's own id."""
        return self._catalog.cluster_id

    @property
    def catalog_version(self) -> int:
        """Grows when this client sees a newer catalog; plans are cached under it."""
        self._catalog.use()
        return self._catalog.current.version

    @one_statement
    def refresh_catalog(self) -> None:
        """Ask the masters for the catalog as it is now; otherwise it is that of the last second or so."""
        self._check()
        self._catalog.refresh()

    def tables(self) -> Sequence[Table]:
        """All tables by name, ascending, as of the last second."""
        self._check()
        tables = self._catalog.current.tables
        return [tables[name].table for name in sorted(tables)]

    @one_statement
    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        self._check()
        return self._catalog.table(name)

    def create_table(self, definition: TableDefinition) -> Table:
        """`Store.create_table`: every tablet has a leader when it returns."""
        plain = definition_to_plain(definition)
        reply = self._change(
            lambda call: CreateTable(definition=plain, replicas=definition.replicas, call=call),
            TableReply,
            f"CREATE TABLE {definition.name}",
        )
        return self._table_of(reply)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """`Store.alter_table`: every tablet has the new version when it returns."""
        plain = tuple(step_to_plain(step) for step in steps)
        reply = self._change(
            lambda call: AlterTable(name=name, steps=plain, call=call), TableReply, f"ALTER TABLE {name}"
        )
        return self._table_of(reply)

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """`Store.drop_table`; scans that run already may fail."""
        self._change(lambda call: DropTable(name=name, views=tuple(views), call=call), Done, f"DROP TABLE {name}")

    def views(self) -> Sequence[View]:
        """All views by name, ascending, as of the last second."""
        self._check()
        views = self._catalog.current.views
        return [views[name] for name in sorted(views)]

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""
        self._check()
        return self._catalog.current.views.get(name)

    def create_view(self, view: View, replace: bool = False) -> None:
        """`Store.create_view`."""
        plain = view_to_plain(view)
        self._change(lambda call: CreateView(view=plain, replace=replace, call=call), Done, f"CREATE VIEW {view.name}")

    def drop_views(self, names: Collection[str]) -> None:
        """`Store.drop_views`."""
        self._change(lambda call: DropViews(names=tuple(names), call=call), Done, "DROP VIEW")

    @one_statement
    def _change(self, request: Callable[[Any], Request], reply: type[Reply], what: str) -> Any:
        """Have the masters change the catalog, once, and look at what became of it."""
        self._check()
        try:
            with self._shared.numbers.numbered() as call:
                made = self._masters.call(request(call), reply, what, attempt=_DDL_SECONDS)
        except Error:
            # What was refused may be so by what this client does not know yet; why it was is what counts.
            with contextlib.suppress(Error):
                self._catalog.refresh()
            raise
        self._catalog.refresh(what=f"{what} was done; a look at the catalog")
        return made

    def _table_of(self, reply: TableReply) -> Table:
        """The table that the masters answered with, as the catalog has it, so that there is one object for it."""
        found = self._catalog.current.by_id.get(reply.table["id"])
        return self._catalog.table(reply.table["name"]) if found is None else found.table

    # ---- facts ---------------------------------------------------------------------------------------------------

    @one_statement
    def statistics(self, table: Table) -> TableStatistics:
        """`Store.statistics`, some seconds old at most."""
        self._check()
        return self._facts.statistics(table)

    @one_statement
    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """`Store.analyze_table`, at all replicas."""
        self._check()
        return self._facts.analyze(table, check)

    @one_statement
    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        """`Store.compact_table`, at all replicas."""
        self._check()
        return self._facts.compact(table, check)

    @one_statement
    def flush(self, table: Table | None = None) -> int:
        """Write what is in memory at the servers, of one table or all, to their disks; how many rows that were."""
        self._check()
        return self._facts.flush(self.tables() if table is None else [table])

    @one_statement
    def table_storage(self, table: Table) -> TableStorage:
        """How the table lies on the leaders' disks."""
        self._check()
        return self._facts.storage(table)

    @one_statement
    def tablet_count(self, table: Table) -> int:
        """How many tablets the table has."""
        self._check()
        return len(self._catalog.known(table).tablet_ids)

    @one_statement
    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The table's tablets, in the order of partitions."""
        self._check()
        return self._facts.describe(table)

    @one_statement
    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """`Store.key_samples`."""
        self._check()
        return self._facts.key_samples(table, tablet_id)

    # ---- reading -------------------------------------------------------------------------------------------------

    @one_statement
    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The units of a scan, a tablet each; `split_rows` says nothing here, as the servers share out the work."""
        self._check()
        return self._scans.tokens(table, spec)

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        """Read a token, at whichever replica can; `scans.token_scan` says what happens when it dies."""
        self._check()
        return self._batches(self._token_scan(token, counters or ScanCounters()))

    def _batches(self, scan: TokenScan) -> Iterator[Batch]:
        # A generator of the client's own keeps it, and so its channels, for as long as the scan is read.
        yield from scan.batches()

    @one_statement
    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[TokenBatches]:
        """`Store.scan_all`: the servers are asked with one message each."""
        self._check()
        scans = [self._token_scan(token, mine) for token, mine in zip(tokens, counters, strict=True)]
        # Where nobody tells who has a tablet, looking for the others would only take long: each reader sees to its own.
        ready = list(takewhile(TokenScan.can_be_asked, scans))
        with sending_together():
            for scan in ready:
                scan.ask()
        return [TokenBatches(scan) for scan in scans]

    def _token_scan(self, token: ScanToken, counters: ScanCounters) -> TokenScan:
        return TokenScan(self._shared, self._catalog, self._calls, self._watch, token, counters)

    @one_statement
    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """The row with a primary key, as it is now, or at a time."""
        self._check()
        return self._rows.read(table, key, columns, snapshot)

    # ---- writing -------------------------------------------------------------------------------------------------

    @one_statement
    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """`Store.write`: exactly once. On a cluster each tablet's part by itself (`writes`), in a served directory
        all or nothing (`writes.joint_writes`)."""
        self._check()
        return self._write(table, batch)

    @one_statement
    def write_row(self, table: Table, op: Op, row: Mapping[str, Any]) -> WriteResult:
        """`Store.write_row`: exactly once."""
        self._check()
        return self._rows.write(table, op, row)

    @one_statement
    def bulk_loader(self, table: Table) -> BulkLoader:
        """Start a bulk load of a table; see `loads` for what it promises, and `loads.owned_loads` where a directory is
        served."""
        self._check()
        known = self._catalog.known(table)
        status = self._masters.call(GetStatus(), ServerStatus, "a look at the server")
        loader: Loading
        if status.kind == OWNER:
            loader = OwnedLoader(self._shared, known, self._masters.address, self._facts.wrote)
        else:
            loader = ClusterLoader(self._shared, self._writer, known, self._facts.counted, self._facts.flush)
        loader.keeps = self
        return loader
