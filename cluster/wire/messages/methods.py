"""The methods of servers: a request and a reply each, plain data. `rpc` calls them, `server` serves them.

Every request may be sent twice: one that changes something is idempotent, or has a call id (`Call`). Tables, scans and
their parts are the plain maps of `plain`, rows Arrow IPC, times hybrid timestamps. Errors are raised at the caller.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from ...raft.messages import Configuration, Peer
from ..rows.small_batches import SmallBatch


class Request(Struct, frozen=True, kw_only=True):
    """A method's parameters. `reply` is the class of its reply."""

    reply: ClassVar[type[Reply]]
    is_small: ClassVar[bool] = False
    """Sent on the connection for small calls (`calls.rpc`), unless it is large."""


class Reply(Struct, frozen=True, kw_only=True):
    """A method's reply."""


class Done(Reply, frozen=True):
    """The reply without content."""


class Call(Struct, frozen=True, array_like=True):
    """The call id: a retry of a call has the same numbers and gets the same reply. `client` is a UUID in hex;
    `sequence` counts its calls from 1. All calls below `first_incomplete` were answered, and their results may be
    dropped. `cluster` is the id of the cluster that the client means, "" if unspecified."""

    client: str
    sequence: int
    first_incomplete: int
    cluster: str = ""


# ---- any server ---------------------------------------------------------------------------------------------------


EMBEDDED_SERVER = "owner"
"""The kind of the server of a directory, which is master and tablet server in one (`cluster.embedded_server`)."""


class ServerStatus(Reply, frozen=True):
    """The status of a server. `kind`: "master", "tserver" or `EMBEDDED_SERVER`. `started`: seconds since 1970."""

    id: str
    kind: str
    address: str
    version: str
    pid: int
    started: float
    clock: int
    is_leader: bool = False
    tablets: int = 0
    leaders: int = 0
    memory_bytes: int = 0
    details: dict[str, Any] = {}


class GetStatus(Request, frozen=True, tag="status"):
    """Returns the server's identity and status."""

    reply = ServerStatus


class SetFaults(Request, frozen=True, tag="faults"):
    """Sets faults, at test servers only (--allow-faults), until the next request: drops all traffic with servers of
    these ids or addresses ("*" for all but this method); delays each write by `disk_delay` seconds; fails operations on
    paths with `broken_path`; finds no space for paths with `full_path`; sets the clock `clock_skew` seconds ahead."""

    reply = Done
    cut: tuple[str, ...] = ()
    disk_delay: float = 0.0
    broken_path: str = ""
    full_path: str = ""
    clock_skew: float = 0.0


# ---- tablet servers: rows -----------------------------------------------------------------------------------------


class WrittenRow(Struct, frozen=True, array_like=True):
    """The refusal of a row: its number in the batch, the error's class in `errors`, its message."""

    row: int
    error: str
    message: str


class WriteReply(Reply, frozen=True):
    """As `model.store.WriteResult`."""

    applied: int
    timestamp: int
    errors: tuple[WrittenRow, ...] = ()


class Write(Request, frozen=True, tag="write"):
    """Applies a batch to a tablet, at its leader. `rows`: one record batch as an Arrow IPC stream. `ops`: one code, or
    one per row. `isset`: per column a bitmap of bytes, as `WriteBatch.isset`. `schema_version` is that of the client's
    table. `check_only`: report what would be refused, and change nothing. `unchanged_since`: as in `WriteBatch`; with
    `is_transaction` the snapshot of a transaction, for which any later write to one of the keys is a conflict."""

    reply = WriteReply
    tablet_id: str
    schema_version: int
    rows: bytes
    ops: int | bytes
    call: Call | None
    isset: dict[str, bytes] = {}
    all_or_none: bool = False
    check_only: bool = False
    unchanged_since: int | None = None
    is_transaction: bool = False


class WriteRow(Request, frozen=True, tag="write_row"):
    """Like `Write`, for one row of physical values by column name."""

    reply = WriteReply
    is_small = True
    tablet_id: str
    schema_version: int
    op: int
    row: dict[str, Any]
    call: Call | None


class RowReply(Reply, frozen=True):
    """The row's physical values, None if there is none, and the timestamp as of which it was read."""

    row: tuple[Any, ...] | None
    timestamp: int


class ReadRow(Request, frozen=True, tag="read_row"):
    """Reads the row with a primary key of physical values. `snapshot` None: the latest, at the leader. Otherwise any
    replica replies once it is complete up to that timestamp."""

    reply = RowReply
    is_small = True
    tablet_id: str
    schema_version: int
    key: tuple[Any, ...]
    columns: tuple[str, ...]
    snapshot: int | None = None


class ScanTablet(Struct, frozen=True, kw_only=True):
    """The ticket of a scan stream (`do_get`); batches as `wire.rows.batches`, the last message a `ScanEnd`.

    `spec` is `messages.plain.spec_to_plain`; without a snapshot, the leader reads the latest. `scanner` is the client's
    own name for the scan (UUID): sent again with `resume_batch`, it resumes the scan with the batch of that number,
    which the server keeps for `scanner_ttl` after the stream broke. `after_key`, of ordered scans only, resumes after a
    primary key (physical values), at any replica. `fragment` is evaluated over the batches at the server
    (`tserver.scans.fragments`).
    """

    tablet_id: str
    schema_version: int
    spec: dict[str, Any]
    scanner: str
    resume_batch: int = 0
    after_key: tuple[Any, ...] | None = None
    fragment: bytes = b""


class ScanEnd(Struct, frozen=True, kw_only=True):
    """The result of a scan: the numbers of `ScanCounters`. `leader` is the address of the tablet's leader, if it is
    known: new rows are there half a heartbeat sooner than at other replicas."""

    batches: int
    rows_considered: int = 0
    rows_returned: int = 0
    pages_read: int = 0
    pages_skipped: int = 0
    rowgroups_skipped: int = 0
    bytes_read: int = 0
    leader: str = ""


class ScanStart(Reply, frozen=True):
    """The first batches of a scan. `end` None: more may follow; a stream of the same scan with `resume_batch` set to
    their number resumes it."""

    batches: tuple[SmallBatch, ...] = ()
    end: ScanEnd | None = None


class StartScan(Request, frozen=True, tag="start_scan"):
    """Begins a scan, and returns at once the part of it that is small and soon done: most scans end with that. Must not
    be sent twice with the same `scanner`."""

    reply = ScanStart
    is_small = True
    ticket: ScanTablet


class CloseScanner(Request, frozen=True, tag="close_scanner"):
    """Drops a scan that is not read to its end; if it arrives before the scan has begun, the scan does not begin."""

    reply = Done
    scanner: str


class KeepAlive(Request, frozen=True, tag="keep_alive"):
    """Keeps a scan whose next batches are requested later. Raises `ScannerExpired` if it is gone."""

    reply = Done
    scanner: str


# ---- tablet servers: tablets --------------------------------------------------------------------------------------


class Tablet(Struct, frozen=True, kw_only=True):
    """The description of a tablet: its table (`messages.plain.table_to_plain`), its place among the partition's tablets
    in words, and the partition's own description (`Partition.place`, `Partition.describe()`)."""

    id: str
    table: dict[str, Any]
    place: str
    partition: str


class CreateTablet(Request, frozen=True, tag="create_tablet"):
    """Creates an empty replica, and starts it. No-op if it exists. The first peer starts an election at once."""

    reply = Done
    tablet: Tablet
    configuration: Configuration


class DeleteTablet(Request, frozen=True, tag="delete_tablet"):
    """Removes a replica's data, and leaves a tombstone with its term and vote. No-op if it does not exist. With
    `configuration_index`: only if its configuration is not newer than that. `forget`: no tombstone either, since the
    table was dropped."""

    reply = Done
    tablet_id: str
    configuration_index: int | None = None
    forget: bool = False


class AlterTablet(Request, frozen=True, tag="alter_tablet"):
    """Brings a tablet, through its leader's log, to this version of its table. No-op if it has it or a later one."""

    reply = Done
    tablet: Tablet


class TabletReport(Struct, frozen=True, kw_only=True):
    """The report of a replica. `state`: "RUNNING", "COPYING" (remote bootstrap), "BOOTSTRAPPING" (opening), "FAILED"
    (with `error`), "TOMBSTONED". A RUNNING one with an `error` is damaged and the only one. `votes`: it takes part in
    the consensus, even if it has failed and only its log can be read. `disk_full`: the place that has no space for
    writes. `prepared`: transactions without an outcome, for `prepared_seconds`."""

    tablet_id: str
    table_id: str
    state: str
    role: str
    term: int
    leader: str
    configuration: Configuration
    schema_version: int
    is_serving: bool = False
    commit_index: int = 0
    last_index: int = 0
    applied_index: int = 0
    rows: int = 0
    bytes: int = 0
    error: str = ""
    votes: bool = False
    disk_full: str = ""
    prepared: int = 0
    prepared_seconds: float = 0.0


class TabletReports(Reply, frozen=True):
    """In the order of tablet ids."""

    tablets: tuple[TabletReport, ...]


class ReportTablets(Request, frozen=True, tag="report_tablets"):
    """Returns reports of the replicas with these ids; None: all of them."""

    reply = TabletReports
    tablet_ids: tuple[str, ...] | None = None


class TabletFacts(Struct, frozen=True, kw_only=True):
    """Statistics of a tablet. `statistics`: `plain.statistics_to_plain`; `storage`: the numbers of `TableStorage`;
    `sketches`, by column, which can be merged with those of other tablets: `plain.sketch_to_plain`."""

    tablet_id: str
    rows: int
    bytes: int
    statistics: dict[str, Any]
    storage: dict[str, Any]
    sketches: dict[str, dict[str, Any]] = {}


class TabletFactsReply(Reply, frozen=True):
    tablets: tuple[TabletFacts, ...]


class DescribeTablets(Request, frozen=True, tag="describe_tablets"):
    """Returns statistics of those tablets that have a replica at this server."""

    reply = TabletFactsReply
    tablet_ids: tuple[str, ...]


class KeySamplesReply(Reply, frozen=True):
    keys: tuple[tuple[Any, ...], ...]


class KeySamples(Request, frozen=True, tag="key_samples"):
    """`Store.key_samples`."""

    reply = KeySamplesReply
    tablet_id: str


class WorkReply(Reply, frozen=True):
    """The numbers of `CompactionResult`, `AnalyzeResult`; of "flush": rows."""

    numbers: dict[str, int]


class WorkOnTablet(Request, frozen=True, tag="work_on_tablet"):
    """Runs maintenance at once. `work`: "flush", "compact", "analyze"."""

    reply = WorkReply
    tablet_id: str
    work: str


class ChecksumReply(Reply, frozen=True):
    """Number of rows, and a sum over their cells that does not depend on the order or storage of rows."""

    rows: int
    checksum: str


class ChecksumTablet(Request, frozen=True, tag="checksum_tablet"):
    """Reads a replica as of a timestamp and returns its checksum; waits until the replica is complete up to there."""

    reply = ChecksumReply
    tablet_id: str
    snapshot: int


# ---- tablet servers: consensus ------------------------------------------------------------------------------------


class ConfigurationReply(Reply, frozen=True):
    configuration: Configuration


class ChangeReplicas(Request, frozen=True, tag="change_replicas"):
    """Changes the configuration by one peer, at the leader: `kind` "add" (as PRE_VOTER, promoted when it has caught
    up), or "remove". With `configuration_index`: only if that is the current one. Returns when it is committed."""

    reply = ConfigurationReply
    tablet_id: str
    kind: str
    peer: Peer
    configuration_index: int | None = None


class StepDown(Request, frozen=True, tag="step_down"):
    """Transfers leadership to a server, at the leader (None: to the most up-to-date one)."""

    reply = Done
    tablet_id: str
    target: str | None = None


class StartBootstrap(Request, frozen=True, tag="start_bootstrap"):
    """From a leader to a peer without the data: copy the replica at `source`; returns at once. Refused if the peer's
    own term is greater, or a copy is in progress."""

    reply = Done
    tablet: Tablet
    source: Peer
    term: int


class BootstrapSession(Reply, frozen=True):
    """A snapshot of a replica for the lifetime of the session: `files` by path in the tablet's directory, with their
    sizes; `base_index`, `base_term`: the log entry up to which the files have everything (later entries come by the
    log)."""

    session: str
    metadata: dict[str, Any]
    files: dict[str, int]
    tablet: Tablet
    results: bytes
    base_index: int
    base_term: int
    configuration: Configuration
    clock_limit: int


class BeginBootstrap(Request, frozen=True, tag="begin_bootstrap"):
    """Begins a session at the source. It holds files and log until it is ended, or unused for a minute."""

    reply = BootstrapSession
    tablet_id: str
    receiver: str


class FileChunk(Reply, frozen=True):
    data: bytes
    checksum: int
    """CRC-32 of `data`."""


class ReadFile(Request, frozen=True, tag="read_file"):
    """Reads a part of a session's file."""

    reply = FileChunk
    session: str
    path: str
    offset: int
    length: int


class EndBootstrap(Request, frozen=True, tag="end_bootstrap"):
    """Ends the session."""

    reply = Done
    session: str


# ---- masters ------------------------------------------------------------------------------------------------------


class NamedServer(Struct, frozen=True, kw_only=True):
    """A tablet server of the master's list. `state`: "ALIVE", "DEAD" (silent for too long), "LEAVING" (its replicas
    move away), "REPLACED" (another server runs at its address, so it will not return; its replicas are copied, and then
    it is dropped from the list). `in_maintenance`, `is_quiescing`: `maintenance_methods`."""

    id: str
    address: str
    state: str
    seconds_silent: float
    replicas: int
    leaders: int
    in_maintenance: bool = False
    is_quiescing: bool = False
    location: str = ""


class HeartbeatReply(Reply, frozen=True):
    """`is_leader`: this master accepts reports; otherwise `leader` is the leader's address ("" if it is not known).
    `wants_full_report`: the next heartbeat must list all tablets. `cluster_id`: a server with tablets of another one
    must take no orders here, since ids of tablets repeat. `masters`: of all, if known. `rights`: `SetRights`.
    `above_quota`: bytes of tables that have reached their quota, by id."""

    is_leader: bool
    leader: str = ""
    wants_full_report: bool = False
    cluster_id: str = ""
    masters: tuple[str, ...] = ()
    rights: dict[str, Any] | None = None
    above_quota: dict[str, int] = {}


class Heartbeat(Request, frozen=True, tag="heartbeat"):
    """Reports a living tablet server, with the changes of its tablets since the last accepted report, or all of them
    (`is_full`). `sequence` counts its reports, `session` identifies its process. `removed`: tablets without a replica
    there now. `sizes`: bytes of led tablets, by id, of tables with a quota. `rights_version`: of `SetRights`, or -1."""

    reply = HeartbeatReply
    server: Peer
    sequence: int
    is_full: bool
    session: str = ""
    reports: tuple[TabletReport, ...] = ()
    removed: tuple[str, ...] = ()
    is_quiescing: bool = False
    location: str = ""
    rights_version: int = -1
    sizes: dict[str, int] = {}


class CatalogReply(Reply, frozen=True):
    """All tables (`plain.table_to_plain` with their tablets' ids), views and namespaces but the default one, `access`
    (None: a new store's); None if `known_version` is the newest. `joint_writes`: the server has those methods."""

    version: int
    cluster_id: str
    joint_writes: bool = False
    tables: tuple[dict[str, Any], ...] | None = None
    views: tuple[dict[str, Any], ...] | None = None
    namespaces: tuple[dict[str, Any], ...] = ()
    masters: tuple[str, ...] = ()
    access: dict[str, Any] | None = None


class GetCatalog(Request, frozen=True, tag="catalog"):
    reply = CatalogReply
    known_version: int = -1


class TableReply(Reply, frozen=True):
    """A table with its tablets' ids, and the catalog's version with it."""

    table: dict[str, Any]
    version: int


class CreateTable(Request, frozen=True, tag="create_table"):
    """`Store.create_table` (`messages.plain.definition_to_plain`); returns when every tablet has a leader that
    serves."""

    reply = TableReply
    definition: dict[str, Any]
    replicas: int | None
    call: Call


class DropTable(Request, frozen=True, tag="drop_table"):
    """`Store.drop_table`."""

    reply = Done
    name: str
    views: tuple[str, ...]
    call: Call


class AlterTable(Request, frozen=True, tag="alter_table"):
    """`Store.alter_table`; returns when every tablet has the new version. `steps`: `messages.plain.step_to_plain`."""

    reply = TableReply
    name: str
    steps: tuple[dict[str, Any], ...]
    call: Call


class CreateView(Request, frozen=True, tag="create_view"):
    """`Store.create_view`."""

    reply = Done
    view: dict[str, Any]
    replace: bool
    call: Call


class DropViews(Request, frozen=True, tag="drop_views"):
    """`Store.drop_views`."""

    reply = Done
    names: tuple[str, ...]
    call: Call


class TabletLocation(Struct, frozen=True, kw_only=True):
    """Locations of a tablet's replicas; `leader` is a server's id, "" if it is not known. `locations`: of their servers
    (`cluster.locations`), in the same order."""

    tablet_id: str
    replicas: tuple[Peer, ...]
    leader: str
    term: int
    locations: tuple[str, ...] = ()


class LocationsReply(Reply, frozen=True):
    tablets: tuple[TabletLocation, ...]


class LocateTablets(Request, frozen=True, tag="locate_tablets"):
    """Locates the tablets of a table, or those with these ids."""

    reply = LocationsReply
    table_id: str | None = None
    tablet_ids: tuple[str, ...] = ()


class ServersReply(Reply, frozen=True):
    """Tablet servers by id; masters by address with whether each leads."""

    tservers: tuple[NamedServer, ...]
    masters: tuple[tuple[str, bool], ...]


class ListServers(Request, frozen=True, tag="list_servers"):
    reply = ServersReply
