"""The client of a cluster: implements `model.store.Store` over masters and tablet servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...errors import ClockTooFarAhead, Error, LoginNeeded, NotSupportedError, ProtocolError
from ...model.abandoned import close_when_dropped
from ...model.access.roles import Access
from ...model.access.steps import AccessStep
from ...model.access.tokens import TASK_SECONDS
from ...model.alterations import AlterStep
from ...model.catalog_batch import CatalogBatch
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.namespaces import Namespace
from ...model.observations import tablet_rows
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
    TransactionChanges,
    WriteBatch,
    WriteResult,
)
from ...model.transactions import DEFAULT_OPTIONS, TransactionOptions
from ...model.vectors.vector import Batch
from ...model.waiting_time import one_statement
from ...net.addresses import address_of
from ...net.client_connection import sending_together
from ...storage.loads.loading import Loading
from ...storage.malloc import configure_heap
from ...storage.transactions.transaction_store import TransactionStore
from ..wire.calls.rpc import Channels
from ..wire.client_clock import ClientClock
from ..wire.messages.access_plain import access_step_to_plain
from ..wire.messages.catalog_methods import ChangeCatalog
from ..wire.messages.envelope import describe_lead, too_far_ahead
from ..wire.messages.methods import (
    EMBEDDED_SERVER,
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
from ..wire.messages.namespace_methods import CreateNamespace, DropNamespace
from ..wire.messages.plain import definition_to_plain, namespace_to_plain, step_to_plain, view_to_plain
from ..wire.messages.transaction_methods import NumbersReply, TakeNumbers
from ..wire.messages.user_methods import ChangeAccess
from ..wire.messages.view_methods import RenameView
from ..wire.process.forking import note_process
from ..wire.security.tls import read_credentials
from .catalog.batched_changes import BatchedChanges
from .catalog.catalog_cache import CatalogCache
from .catalog.locations import Locations
from .catalog.masters import Masters
from .catalog.statistics_cache import TableStatisticsCache
from .client_context import ChannelsLike, ClientContext
from .direct_rows import DirectRows, Rest
from .loads.cluster_loads import ClusterLoader
from .loads.served_loads import ServedLoader
from .login import Login, TaskLogin, login_with
from .options import ClientOptions
from .scans.scan_tokens import Scans
from .scans.stream_watch import StreamWatch
from .scans.token_scan import TokenBatches, TokenScan
from .speculative_reads import Counts
from .steps import perform
from .tablet_calls import TabletCalls
from .writes.batch_writes import Writer
from .writes.joint_commits import JointCommits
from .writes.joint_writes import EmbeddedCalls, JointWriter
from .writes.single_rows import SingleRows
from .writes.transactions import TransactionWriter

if TYPE_CHECKING:
    from .awaited_rows import AwaitedRows

_DDL_SECONDS = 10.0
"""Seconds for a reply that waits until all tablets have done their part; then another master is called."""


def _channels(clock: HybridClock, options: ClientOptions) -> Channels:
    return Channels(clock, tls=None if options.tls is None else read_credentials(options.tls))


def _release(shared: ClientContext, catalog: CatalogCache, watch: StreamWatch, login: Login | TaskLogin | None) -> None:
    shared.close()
    catalog.stop()
    watch.close()
    if login is not None:
        login.stop()


def _check_use(shared: ClientContext, catalog: CatalogCache) -> None:
    """Checks that the client is open, and marks it as in use."""
    shared.check_open()
    catalog.use()


class Client:
    """Tables of a cluster. Thread-safe; not for a process that is forked afterwards.

    Parameters
    ----------
    masters : sequence of (str, int)
        Hosts and ports of the masters; one that responds is enough.
    options : ClientOptions
    clock : HybridClock, optional
        For tests.
    channels : callable, optional
        Makes the channels, given the clock; for tests.

    Raises
    ------
    InterfaceError
        The TLS files cannot be used.
    AuthenticationFailed
        The masters and this client do not trust each other, or only one side uses TLS.
    DeadlineExceeded
        No master has replied as the leader within `connect_deadline`, or none was reachable for half of it.
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
        configure_heap()
        addresses = [address_of(host, port) for host, port in masters]
        options = options or ClientOptions()
        clock = clock or ClientClock()
        self.name = f"nyala://{','.join(addresses)}"
        made = _channels(clock, options) if channels is None else channels(clock)
        stay_with_process(self)
        self._shared = shared = ClientContext(self.name, clock, made, options)
        self._masters = Masters(shared.channels, addresses, shared.attempts)
        self._login = login_with(self._masters, options)
        if self._login is not None:
            made.tokens = self._login
        self._catalog = CatalogCache(self._masters, shared.numbers)
        self._locations = Locations(self._masters)
        self._masters.known_servers = self._locations.servers
        self._calls = TabletCalls(shared, self._catalog, self._locations)
        self._statistics = TableStatisticsCache(shared, self._catalog, self._locations, self._calls)
        self._scans = Scans(shared, self._catalog, self._statistics.rows_of)
        self._watch = StreamWatch(shared)
        self._writer = Writer(shared, self._catalog, self._calls, self._statistics.wrote)
        embedded = EmbeddedCalls(shared, self._masters)
        self._joint_writer = JointWriter(shared, self._catalog, embedded, self._statistics.wrote)
        self._joint_commits = JointCommits(shared, self._catalog, embedded, self._statistics.wrote)
        catalog, joint, single = self._catalog, self._joint_writer, self._writer

        def write(table: Table, batch: WriteBatch) -> WriteResult:
            return (joint if catalog.has_joint_writes else single).write(table, batch)

        self._write = write  # refers to no `Client`, so that its last reference frees it
        self._transactions = TransactionWriter(shared, catalog, self._calls, self._statistics.wrote)
        self._rows = SingleRows(shared, catalog, self._calls, write, self._statistics.wrote)
        self._direct = DirectRows(shared, catalog, self._locations, self._rows)
        self._awaited: AwaitedRows | None = None
        try:
            seconds = options.connect_deadline
            if self._login is not None:
                self._login.log_in(seconds, patience=seconds / 2)
            self._catalog.refresh(seconds, f"connecting to {self.name}", patience=seconds / 2)
        except BaseException:
            shared.close()
            raise
        self._catalog.start()
        self._release = release = partial(_release, shared, catalog, self._watch, self._login)
        if self._login is not None:
            self._login.start()
        self._finalizer = close_when_dropped(self, self.name, release, "client of")

    @property
    def masters(self) -> tuple[str, ...]:
        """The addresses of the masters that it calls: the present ones, then those of its URL."""
        return self._masters.addresses

    def close(self) -> None:
        """Closes the connections; acknowledged writes are durable at the servers. Idempotent."""
        self._finalizer.detach()
        self._release()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.name!r}, {len(self._catalog.current.tables)} tables)"

    def _check(self) -> None:
        _check_use(self._shared, self._catalog)

    @property
    def user(self) -> str | None:
        """The user that this client has logged in as; None: it has all rights that its process or certificate has."""
        return None if self._login is None else self._login.user

    def task_token(self, seconds: float = TASK_SECONDS) -> bytes:
        """Returns a token by which other processes work as this client's user (`ClientOptions.token`) for `seconds`, a
        day at most; b"" where it has none. Raises `LoginNeeded` if the user may not log in any more."""
        self._check()
        if self._login is None:
            return b""
        with self._needs_upgrade("makes no tokens for tasks"):
            return self._login.task_token(seconds, self._shared.options.deadline)

    @property
    def transactional_ddl(self) -> bool:
        return False

    @property
    def temporary_directory(self) -> str | None:
        return None

    @property
    def speculative_reads(self) -> Counts:
        """The counts of speculative reads so far (`ClientOptions.speculative_reads`)."""
        return self._calls.speculation.counts

    # ---- timestamps --------------------------------------------------------------------------------------------------

    def now(self) -> Timestamp:
        """Returns a timestamp above everything that this client has written, read, or received from a server."""
        self._check()
        return self._shared.clock.now()

    @property
    def last_observed(self) -> Timestamp:
        """The greatest timestamp that this client has seen: a token for another client's `observe`, which then reads
        everything that this one has written and read."""
        return self._shared.clock.latest

    def observe(self, timestamp: Timestamp) -> None:
        """Advances the clock to a timestamp that another client has written at, or read: later reads of this client
        include everything up to it. Raises `ClockTooFarAhead` for one that servers would refuse."""
        self._check()
        clock = self._shared.clock
        if too_far_ahead(clock, timestamp, is_peer=False):
            raise ClockTooFarAhead(describe_lead(clock, timestamp, "the client that the timestamp is from"))
        clock.update(timestamp)

    # ---- the catalog ---------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's own id."""
        return self._catalog.cluster_id

    @property
    def catalog_version(self) -> int:
        """Increases when this client sees a newer catalog; a key of the plan cache."""
        self._catalog.use()
        return self._catalog.current.version

    @one_statement
    def refresh_catalog(self) -> None:
        """Refreshes the catalog from the masters; otherwise it is at most about a second old."""
        self._check()
        self._catalog.refresh()

    def tables(self) -> Sequence[Table]:
        """Returns all tables by name, ascending, as of the last second."""
        self._check()
        tables = self._catalog.current.tables
        return [tables[name].table for name in sorted(tables)]

    @one_statement
    def table(self, name: str) -> Table:
        """Returns a table; `UnknownTable` suggests similar names."""
        self._check()
        return self._catalog.table(name)

    def create_table(self, definition: TableDefinition) -> Table:
        """Implements `Store.create_table`: every tablet has a leader when it returns."""
        plain = definition_to_plain(definition)
        reply = self._change(
            lambda call: CreateTable(definition=plain, replicas=definition.replicas, call=call),
            TableReply,
            f"CREATE TABLE {definition.name}",
        )
        return self._table_of(reply)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """Implements `Store.alter_table`: every tablet has the new version when it returns."""
        plain = tuple(step_to_plain(step) for step in steps)
        reply = self._change(
            lambda call: AlterTable(name=name, steps=plain, call=call), TableReply, f"ALTER TABLE {name}"
        )
        return self._table_of(reply)

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """Implements `Store.drop_table`; running scans may fail."""
        self._change(lambda call: DropTable(name=name, views=tuple(views), call=call), Done, f"DROP TABLE {name}")

    def views(self) -> Sequence[View]:
        """Returns all views by name, ascending, as of the last second."""
        self._check()
        views = self._catalog.current.views
        return [views[name] for name in sorted(views)]

    def view(self, name: str) -> View | None:
        """Returns a view; None if there is none of that name."""
        self._check()
        return self._catalog.current.views.get(name)

    def create_view(self, view: View, replace: bool = False) -> None:
        """Implements `Store.create_view`."""
        plain = view_to_plain(view)
        self._change(lambda call: CreateView(view=plain, replace=replace, call=call), Done, f"CREATE VIEW {view.name}")

    def drop_views(self, names: Collection[str]) -> None:
        """Implements `Store.drop_views`."""
        self._change(lambda call: DropViews(names=tuple(names), call=call), Done, "DROP VIEW")

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """Implements `Store.rename_view`. Raises `NotSupportedError` for servers of an earlier version."""
        otherwise = f"upgrade its servers, or drop view {name} and create it under the new name"
        with self._needs_upgrade("renames no views", otherwise):
            self._change(
                lambda call: RenameView(name=name, new_name=new_name, namespace=namespace, call=call),
                Done,
                f"ALTER VIEW {name}",
            )

    @contextlib.contextmanager
    def _needs_upgrade(self, lack: str, advice: str = "upgrade its servers") -> Iterator[None]:
        """Have a request that servers of an earlier version do not know end with a `NotSupportedError`."""
        try:
            yield
        except ProtocolError as error:
            raise NotSupportedError(
                f"{self.name} is served by an earlier version of nyala, which {lack}: {advice} ({error})"
            ) from None

    @contextlib.contextmanager
    def change_together(self) -> Iterator[CatalogBatch]:
        """Implements `Store.change_together`. Raises `NotSupportedError` for servers of an earlier version."""
        batch = BatchedChanges()
        yield batch
        steps = tuple(batch.steps)
        with self._needs_upgrade("changes objects one at a time"):
            self._change(lambda call: ChangeCatalog(steps=steps, call=call), Done, "a change of the catalog")

    @property
    def access(self) -> Access:
        """Returns users, memberships and grants, as of the last second."""
        return self._catalog.recent().access

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """Implements `Store.change_access`. Raises `NotSupportedError` for servers of an earlier version."""
        plain = tuple(access_step_to_plain(step) for step in steps)
        with self._needs_upgrade("keeps no users"):
            self._change(lambda call: ChangeAccess(steps=plain, call=call), Done, "a change of users or grants")

    def namespaces(self) -> Sequence[Namespace]:
        """Returns all namespaces by name, ascending, with the default one, as of the last second."""
        self._check()
        return self._catalog.current.namespaces

    def create_namespace(self, namespace: Namespace) -> None:
        """Implements `Store.create_namespace`."""
        plain = namespace_to_plain(namespace)
        what = f"CREATE SCHEMA {namespace.name}"
        self._change(lambda call: CreateNamespace(namespace=plain, call=call), Done, what)

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """Implements `Store.drop_namespace`; running scans of the tables may fail."""
        gone = tuple(tables), tuple(views)
        self._change(
            lambda call: DropNamespace(name=name, tables=gone[0], views=gone[1], call=call), Done, f"DROP SCHEMA {name}"
        )

    @one_statement
    def _change(self, request: Callable[[Any], Request], reply: type[Reply], what: str) -> Any:
        """Changes the catalog at the masters, once, and refreshes the cache."""
        self._check()
        try:
            with self._shared.numbers.numbered() as call:
                made = self._masters.call(request(call), reply, what, attempt=_DDL_SECONDS)
        except Error:
            # A refusal may come from a change that this client has not seen yet; the caller needs the refusal's reason.
            with contextlib.suppress(Error):
                self._catalog.refresh()
            raise
        with contextlib.suppress(LoginNeeded):  # of a client that has made the first user: its next call raises it
            self._catalog.refresh(what=f"{what} was done; a refresh of the catalog")
        return made

    def _table_of(self, reply: TableReply) -> Table:
        """Returns the table of the masters' reply as the cached catalog has it, so that there is one object for it."""
        found = self._catalog.current.by_id.get(reply.table["id"])
        return self._catalog.table(reply.table["name"]) if found is None else found.table

    # ---- statistics --------------------------------------------------------------------------------------------------

    @one_statement
    def statistics(self, table: Table) -> TableStatistics:
        """Implements `Store.statistics`, at most some seconds old."""
        self._check()
        return self._statistics.statistics(table)

    @one_statement
    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """Implements `Store.analyze_table`, at all replicas."""
        self._check()
        return self._statistics.analyze(table, check)

    @one_statement
    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        """Implements `Store.compact_table`, at all replicas."""
        self._check()
        return self._statistics.compact(table, check)

    @one_statement
    def flush(self, table: Table | None = None) -> int:
        """Flushes one table or all at the servers; returns the number of rows."""
        self._check()
        return self._statistics.flush(self.tables() if table is None else [table])

    @one_statement
    def table_storage(self, table: Table) -> TableStorage:
        """Returns the storage statistics of a table at the leaders."""
        self._check()
        return self._statistics.storage(table)

    @one_statement
    def tablet_count(self, table: Table) -> int:
        """Returns the table's number of tablets."""
        self._check()
        return len(self._catalog.known(table).tablet_ids)

    @one_statement
    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """Returns the table's tablets, in the order of partitions."""
        self._check()
        return self._statistics.describe(table)

    def observations(self, kind: str) -> Iterable[Mapping[str, Any]]:
        """Rows of `nyala_catalog.tablets`, one for each replica, and of `masters`; the servers have the rest
        (`model.observations`)."""
        if kind == "masters":
            from .catalog.master_states import master_rows  # few statements read them

            self._check()
            return master_rows(self._masters, self._shared.channels, self._shared.pool)
        return tablet_rows(self) if kind == "tablets" else ()

    @one_statement
    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """Implements `Store.key_samples`."""
        self._check()
        return self._statistics.key_samples(table, tablet_id)

    # ---- reading -------------------------------------------------------------------------------------------------

    @one_statement
    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """Returns the units of a scan, one per tablet; `split_rows` is ignored, as the servers divide the work."""
        self._check()
        return self._scans.tokens(table, spec)

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        """Reads a token at any replica that can; `scans.token_scan` describes what happens when it dies."""
        self._check()
        return self._batches(self._token_scan(token, counters or ScanCounters()))

    def scan_at_leader(self, token: ScanToken) -> Iterator[Batch]:
        """`scan` by the leader, whatever replica is to be preferred."""
        self._check()
        return self._batches(self._token_scan(token, ScanCounters(), at_leader=True))

    def _batches(self, scan: TokenScan) -> Iterator[Batch]:
        # A generator of the client itself keeps it, and so its channels, alive for as long as the scan is read.
        yield from scan.batches()

    @one_statement
    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[TokenBatches]:
        """Implements `Store.scan_all`: one message per server."""
        self._check()
        scans = [self._token_scan(token, mine) for token, mine in zip(tokens, counters, strict=True)]
        # If the location of a tablet is not known, finding the others would only delay: each reader finds its own.
        ready = list(takewhile(TokenScan.can_request, scans))
        with sending_together():
            for scan in ready:
                scan.request()
        return [TokenBatches(scan) for scan in scans]

    def _token_scan(self, token: ScanToken, counters: ScanCounters, at_leader: bool = False) -> TokenScan:
        return TokenScan(self._shared, self._catalog, self._calls, self._watch, token, counters, at_leader=at_leader)

    @property
    def awaited_rows(self) -> AwaitedRows:
        """Single rows for asyncio (`model.awaited_rows.HasAwaitedRows`)."""
        if self._awaited is None:
            from .awaited_rows import AwaitedRows  # asyncio is imported only by its users

            self._awaited = AwaitedRows(self._shared, self._rows, partial(_check_use, self._shared, self._catalog))
            self._shared.closing.append(self._awaited.close)
        return self._awaited

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """Returns the row with a primary key, the latest, or as of a timestamp."""
        self._check()
        found = self._direct.read(table, key, columns, snapshot)
        return self._performed(found) if isinstance(found, Rest) else found

    @one_statement
    def _performed(self, rest: Rest) -> Any:
        return perform(rest.steps, self._shared.channels)

    # ---- writing -------------------------------------------------------------------------------------------------

    @one_statement
    def commit_transaction(self, changes: TransactionChanges) -> Timestamp:
        """Implements `Store.commit_transaction`: on a cluster as `writes.transactions`, in a served directory as
        `writes.joint_commits` describes."""
        self._check()
        if self._catalog.has_joint_writes:
            return self._joint_commits.commit(changes)
        return self._transactions.commit(changes, self)

    @one_statement
    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Implements `Store.write`: exactly once. On a cluster each tablet's part by itself (`writes`), in a served
        directory all or nothing (`writes.joint_writes`)."""
        self._check()
        return self._write(table, batch)

    def write_row(
        self, table: Table, op: Op, row: Mapping[str, Any], unchanged_since: Timestamp | None = None
    ) -> WriteResult:
        """Implements `Store.write_row`: exactly once."""
        self._check()
        written = self._direct.write(table, op, row, unchanged_since)
        return self._performed(written) if isinstance(written, Rest) else written

    @one_statement
    def bulk_loader(self, table: Table) -> BulkLoader:
        """Starts a bulk load of a table; see `loads` for its guarantees, and `loads.served_loads` for a served
        directory."""
        self._check()
        known = self._catalog.known(table)
        status = self._masters.call(GetStatus(), ServerStatus, "a check of the server")
        loader: Loading
        if status.kind == EMBEDDED_SERVER:
            loader = ServedLoader(self._shared, known, self._masters.address, self._statistics.wrote)
        else:
            loader = ClusterLoader(self._shared, self._writer, known, self._statistics.counted, self._statistics.flush)
        loader.keeps = self
        return loader

    @one_statement
    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Implements `Store.take_numbers`."""
        self._check()
        known = self._catalog.known(table)
        tablet_id = known.tablet_ids[partition]
        attempts = self._shared.attempts(f"numbers for rows of table {table.name}")
        request = TakeNumbers(tablet_id=tablet_id, count=count)
        return self._calls.leader(request, NumbersReply, known, tablet_id, attempts).first

    # ---- transactions --------------------------------------------------------------------------------------------

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> TransactionStore:
        """Begins a transaction at the latest state that this client has seen or written."""
        return TransactionStore(self, options)
