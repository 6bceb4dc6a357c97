"""The system tablet: a replicated table of one tablet in which the masters keep the catalog (`records`).

_system (kind STRING, id STRING, body BINARY, PRIMARY KEY (kind, id))

It is a tablet like any other: its replicas are at the masters, its log is their Raft log. A `Change` is one write of
one entry. Only its leader reads it, once, when it begins to lead.

The first masters create their replicas by themselves, with the same configuration: their ids follow from their
addresses. From then on the masters are the peers of the configuration, which changes as that of any tablet does
(`master.membership`): a master that is added copies its replica. The address of a single master may change; its id does
not.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ....errors import ClusterError, ConfigurationRefused, DiskFull, NotTheLeader, ReplicaUnavailable
from ....model.clock import HybridClock
from ....model.partitions.partition import Partitioner
from ....model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from ....model.store import Op, ScanSpec, WriteBatch
from ....model.types import BINARY, STRING
from ....storage.files.filesystem import FileSystem
from ....storage.files.page_cache import PageCache
from ....storage.log.wal_format import log_schema
from ....storage.tablet.tablet import StoreOptions
from ....storage.tablet.tablet import Tablet as StorageTablet
from ...consensus.host import ConsensusHost
from ...consensus.unsafe_configuration import force_configuration
from ...raft.messages import Configuration, Peer, PeerRole
from ...tablets.health import ReplicaListener
from ...tablets.layout import schema_behind
from ...tablets.replica import Replica
from ...tablets.superblock import ReplicaState, Superblock
from ...wire.messages.methods import Tablet
from ...wire.messages.plain import table_to_plain
from .records import Change, Record, decode_record, encode_record

_CACHE_BYTES = 16 << 20
TABLET_ID = "00000000-system-catalog"
_COLUMNS = (
    ColumnSchema("kind", STRING, nullable=False),
    ColumnSchema("id", STRING, nullable=False),
    ColumnSchema("body", BINARY),
)
SYSTEM_TABLE = Table("00000000", "_system", Schema(assign_column_ids(_COLUMNS), 2), PartitionSchema(), next_column_id=3)
_NAMESPACE = uuid.UUID("5a5cf0ac-3a3c-4be5-8f0f-b9f54e64a5fd")
_ALONE = "the only master"
_log = logging.getLogger("nyala.cluster.master")


def first_id(masters: Sequence[str], address: str) -> str:
    """Returns the id of a new master that is started with these masters. It keeps it for ever."""
    return _id(_ALONE if not masters or tuple(masters) == (address,) else address)


def belongs_to(id: str, address: str) -> bool:
    """True if a master with an id may begin at an address: it was created there, or as a single master."""
    return id in (_id(address), _id(_ALONE))


def master_peers(masters: Sequence[str], address: str) -> tuple[Peer, ...]:
    """Returns the first masters as peers, in the order of their addresses: the same at each of them. `masters` empty:
    the one that listens at `address` is the only one."""
    if len(masters) <= 1:
        return (Peer(_id(_ALONE), address, PeerRole.VOTER),)
    return tuple(Peer(_id(one), one, PeerRole.VOTER) for one in sorted(masters))


def _id(name: str) -> str:
    return uuid.uuid5(_NAMESPACE, name).hex


class SystemTablet:
    """This master's replica of the system tablet; implements `catalog.catalog_manager.CatalogRows`.

    A master may have none. One that is added, or lost its files, gets a copy of the others' (`catalog.system_copy`),
    and so does one that was away for so long that their logs no longer reach back. Without a replica, it has no vote.

    Parameters
    ----------
    address : str
        This master's address.
    full : callable
        Returns the reason for which this master's disk cannot be written; "" if there is space.
    listener : ReplicaListener
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        host: ConsensusHost,
        *,
        clock: HybridClock,
        options: StoreOptions,
        address: str,
        full: Callable[[], str],
        listener: ReplicaListener,
    ):
        self.fs = fs
        self.directory = directory
        self.replica: Replica | None = None
        self.why_absent = "this master has no copy of the catalog yet"
        self.known_leader = ""
        """Address of another master, for callers of this one while it has no replica."""
        self.work_lock = threading.Lock()
        """Held during work on the replica's files: by maintenance, or by a copy that replaces it."""
        self._host = host
        self._cache = PageCache(_CACHE_BYTES)
        self._clock = clock
        self._options = options
        self._address = address
        self._full = full
        self._listener = listener

    @staticmethod
    def create(fs: FileSystem, directory: str, peers: Sequence[Peer]) -> None:
        """Durably creates the files of this master's replica."""
        partition = Partitioner(SYSTEM_TABLE.schema, SYSTEM_TABLE.partitions).partitions[0]
        tablet = Tablet(
            id=TABLET_ID,
            table=table_to_plain(SYSTEM_TABLE),
            place=partition.place,
            partition=partition.describe(),
        )
        Replica.create(fs, directory, tablet, Configuration(tuple(peers)))

    def open(self) -> None:
        """Opens this master's replica, if a complete one exists."""
        superblock = Superblock.read(self.fs, self.directory)
        if superblock is not None and superblock.state is ReplicaState.READY:
            self.replica = Replica.open(
                self.fs,
                self.directory,
                self._host,
                cache=self._cache,
                clock=self._clock,
                options=self._options,
                listener=self._listener,
            )

    def force(self, survivors: Sequence[str], server: str) -> Configuration:
        """Makes some of the masters, by their ids, to all masters (`force_configuration`); `server` is this one's id.

        Raises `ConfigurationRefused` while a master leads, `ReplicaUnavailable` without a replica.
        """
        with self.work_lock:
            replica = self.replica
            if replica is None:
                raise ReplicaUnavailable(self.why_absent)
            status = replica.consensus.status()
            if status.is_serving or (status.leader and status.leader != server and not status.error):
                raise ConfigurationRefused("a master leads: add and remove masters there")
            schema, applied = log_schema(replica.table.schema), replica.tablet.metadata.replay_index
            _log.warning(
                "the set of masters is forced: acknowledged changes of the catalog may be lost",
                extra={"fields": {"survivors": list(survivors), "term": status.term}},
            )
            self.close()
            try:
                forced = force_configuration(
                    self.fs,
                    self.directory,
                    schema,
                    server,
                    survivors,
                    self._clock,
                    applied_index=applied,
                    alter_schema=schema_behind,
                )
            finally:
                self.open()
            if len(forced.voters) == 1 and self.replica is not None:
                with contextlib.suppress(ClusterError):
                    self.replica.consensus.campaign()
            return forced

    def close(self) -> None:
        """Closes the replica."""
        replica, self.replica = self.replica, None
        if replica is not None:
            replica.close()

    @property
    def configuration(self) -> Configuration:
        """The masters, as far as this one has them; no peers without a replica."""
        replica = self.replica
        return Configuration(()) if replica is None else replica.consensus.status().configuration

    def maintainable(self) -> list[StorageTablet]:
        """Returns the tablet, if it can be flushed and compacted."""
        replica = self.replica
        return [replica.tablet] if replica is not None and replica.state == "RUNNING" else []

    # ---- CatalogRows -----------------------------------------------------------------------------------------------

    @property
    def serving_term(self) -> int | None:
        """See `CatalogRows`."""
        replica = self.replica
        if replica is None:
            return None
        status = replica.consensus.status()
        return status.term if status.is_serving else None

    @property
    def leader_address(self) -> str:
        """See `CatalogRows`."""
        replica = self.replica
        if replica is None:
            return self.known_leader
        return self._address if replica.consensus.status().is_serving else replica.consensus.leader_address()

    @property
    def absence(self) -> str:
        """See `CatalogRows`."""
        return self.why_absent if self.replica is None else ""

    @property
    def disk_full(self) -> str:
        """See `CatalogRows`."""
        return self._full()

    def check_leader(self) -> None:
        """See `CatalogRows`."""
        self._there().consensus.check_can_serve(self._clock.now())

    def load(self, deadline: float) -> Sequence[Record]:
        """See `CatalogRows`."""
        spec = ScanSpec(("kind", "id", "body"))
        records: list[Record] = []
        for batch in self._there().scan(spec, deadline=deadline):
            kinds, ids, bodies = (column.to_arrow().to_pylist() for column in batch.columns())
            records += [decode_record(kind, id_, body) for kind, id_, body in zip(kinds, ids, bodies)]
        return records

    def check_space(self) -> None:
        """See `CatalogRows`."""
        if why := self._full():
            raise DiskFull(f"the catalog accepts no changes: the leading master, at {self._address}: {why}")
        if full := self._there().consensus.voters_without_space():
            where = ", ".join(peer.address for peer in full)
            raise DiskFull(f"the catalog accepts no changes: disk full: the masters at {where}")

    def write(self, change: Change, deadline: float) -> None:
        """See `CatalogRows`."""
        keys = list(change.keys)
        bodies = [encode_record(record) for record in change.puts] + [None] * len(change.removes)
        ops = np.full(len(keys), Op.UPSERT, np.uint8)
        ops[len(change.puts) :] = Op.DELETE_IGNORE
        columns = ([kind for kind, _ in keys], [id_ for _, id_ in keys], bodies)
        arrow = SYSTEM_TABLE.schema.arrow
        rows = pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, arrow)], schema=arrow
        )
        result = self._there().write(WriteBatch(rows, ops, all_or_none=True), None, deadline=deadline)
        if result.errors:
            kind, id_ = keys[result.errors[0].row]
            raise ClusterError(f"the catalog cannot hold {kind} {id_}: {result.errors[0].error}")

    def _there(self) -> Replica:
        replica = self.replica
        if replica is None:
            raise NotTheLeader(self.why_absent, self.known_leader)
        return replica
