"""The system tablet: a replicated table of one tablet in which the masters keep the catalog (`records`).

_system (kind STRING, id STRING, body BINARY, PRIMARY KEY (kind, id))

It is a tablet like any other: its replicas are at the masters, its log is their Raft log. A `Change` is one write of
one entry. Only its leader reads it, once, when it begins to lead.

The masters are fixed from the beginning, so each of them creates its replica by itself, with the same configuration: a
master's id follows from its address. The address of a single master may change; its id does not.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ....errors import ClusterError, DiskFull, NotTheLeader
from ....model.clock import HybridClock
from ....model.partitions.partition import Partitioner
from ....model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from ....model.store import Op, ScanSpec, WriteBatch
from ....model.types import BINARY, STRING
from ....storage.files.filesystem import FileSystem
from ....storage.files.page_cache import PageCache
from ....storage.tablet.tablet import StoreOptions
from ....storage.tablet.tablet import Tablet as StorageTablet
from ...consensus.host import ConsensusHost
from ...raft.messages import Configuration, Peer, PeerRole
from ...tablets.health import ReplicaListener
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


def master_peers(masters: Sequence[str], address: str) -> tuple[Peer, ...]:
    """Returns the masters as peers, in the order of their addresses: the same at each of them. `masters` empty: the one
    that listens at `address` is the only one."""
    if len(masters) <= 1:
        return (Peer(_id(_ALONE), address, PeerRole.VOTER),)
    return tuple(Peer(_id(one), one, PeerRole.VOTER) for one in sorted(masters))


def _id(name: str) -> str:
    return uuid.uuid5(_NAMESPACE, name).hex


class SystemTablet:
    """This master's replica of the system tablet; implements `catalog.catalog_manager.CatalogRows`.

    A master may have none. One that was created after the others gets a copy of theirs (`catalog.system_copy`), and so
    does one that was away for so long that the others' logs no longer reach back. Without a replica, it has no vote.

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

    def close(self) -> None:
        """Closes the replica."""
        replica, self.replica = self.replica, None
        if replica is not None:
            replica.close()

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
            return ""
        return self._address if replica.consensus.status().is_serving else replica.consensus.leader_address()

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
            raise NotTheLeader("this master has no copy of the catalog yet")
        return replica
