"""The rows of the system tablet: the durable state of the masters.

    kind      id                  body
    cluster   "cluster"           the cluster's id, the catalog's version, the next number of a table
    table     table id            the table with its tablets' ids, its state, the number of its tablets' replicas
    dropped   table id            a dropped table: replicas of it that turn up are deleted
    tablet    tablet id           whether it was ever served, and its replicas as last reported
    view      name                the view
    namespace name                the schema of SQL; the default one has no row
    access    "access"            users, memberships and grants; no row while nothing of them has been changed
    server    server id           a tablet server that is to lose its replicas
    absence   server id           a tablet server in maintenance
    call      "<client>/<number>" the outcome of a DDL call, for an hour

A change of the catalog is a `Change`: rows to put and rows to remove, made durable all together or not at all. A body
is a msgpack map with a version.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, get_args

import msgspec

from ....errors import UnsupportedFormat
from ....model.access.roles import Access
from ....model.access.tokens import TokenKey
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import Namespace
from ....model.partitions.partition import Partitioner
from ....model.schema import Table, View
from ....storage.tables.catalog import CatalogEntry
from ...decoders import converter
from ...raft.messages import Configuration
from ...wire.messages.access_plain import access_from_plain, access_to_plain, keys_from_plain, keys_to_plain
from ...wire.messages.methods import Tablet
from ...wire.messages.plain import (
    entry_from_plain,
    entry_to_plain,
    namespace_from_plain,
    namespace_to_plain,
    table_to_plain,
    view_from_plain,
    view_to_plain,
)

Key: TypeAlias = tuple[str, str]
"""(kind, id): the primary key of a row."""

BODY_VERSION = 1
_configuration = converter(Configuration)


class TableState(enum.StrEnum):
    """CREATING, ALTERING: not every tablet serves the table's newest version yet."""

    CREATING = "CREATING"
    RUNNING = "RUNNING"
    ALTERING = "ALTERING"


@dataclass(frozen=True)
class TableRecord:
    """A table. `replicas`: the number of each tablet's replicas."""

    kind: ClassVar[str] = "table"

    entry: CatalogEntry
    state: TableState
    replicas: int

    @property
    def key(self) -> Key:
        return self.kind, self.id

    @property
    def id(self) -> str:
        return self.table.id

    @property
    def table(self) -> Table:
        return self.entry.table

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Returns the table as sent to clients: its entry, its replicas, its state."""
        return {**entry_to_plain(self.entry), "replicas": self.replicas, "state": self.state.value}

    @cached_property
    def tablets(self) -> dict[str, Tablet]:
        """Returns the descriptions of its tablets by id, in the order of partitions."""
        table = table_to_plain(self.table)
        partitions = Partitioner(self.table.schema, self.table.partitions).partitions
        return {
            tablet_id: Tablet(id=tablet_id, table=table, place=partition.place, partition=partition.describe())
            for tablet_id, partition in zip(self.entry.tablet_ids, partitions, strict=True)
        }

    def has_dropped(self, tablet_id: str) -> bool:
        """True for a former tablet of this table. Tablets are numbered, and no number is reused."""
        number = tablet_id.removeprefix(f"{self.id}-p")
        return tablet_id not in self.tablets and number.isdecimal() and int(number) < self.entry.next_tablet

    def to_plain(self) -> dict[str, Any]:
        return {"entry": entry_to_plain(self.entry), "state": self.state.value, "replicas": self.replicas}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> TableRecord:
        return cls(entry_from_plain(plain["entry"]), TableState(plain["state"]), plain["replicas"])


@dataclass(frozen=True, slots=True)
class DroppedRecord:
    """A dropped table; its name is for people. Replicas of it that turn up are deleted."""

    kind: ClassVar[str] = "dropped"

    id: str
    name: str

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def to_plain(self) -> dict[str, Any]:
        return {"name": self.name}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> DroppedRecord:
        return cls(id, plain["name"])


@dataclass(frozen=True, slots=True)
class TabletRecord:
    """A tablet of a table that is not dropped.

    `is_created`: a leader of it has served. From then on replicas are copies of others and never created empty, since
    an empty voter would outvote acknowledged entries. `configuration`: the newest that was reported to the master.
    """

    kind: ClassVar[str] = "tablet"

    id: str
    table_id: str
    configuration: Configuration
    is_created: bool = False

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def to_plain(self) -> dict[str, Any]:
        configuration = msgspec.to_builtins(self.configuration)
        return {"table_id": self.table_id, "configuration": configuration, "is_created": self.is_created}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> TabletRecord:
        configuration = _configuration(plain["configuration"])
        return cls(id, plain["table_id"], configuration, plain["is_created"])


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """A view."""

    kind: ClassVar[str] = "view"

    view: View

    @property
    def key(self) -> Key:
        return self.kind, self.view.name

    def to_plain(self) -> dict[str, Any]:
        return {"view": view_to_plain(self.view)}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> ViewRecord:
        return cls(view_from_plain(plain["view"]))


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace other than the default one."""

    kind: ClassVar[str] = "namespace"

    namespace: Namespace

    @property
    def key(self) -> Key:
        return self.kind, self.namespace.name

    def to_plain(self) -> dict[str, Any]:
        return {"namespace": namespace_to_plain(self.namespace)}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> NamespaceRecord:
        return cls(namespace_from_plain(plain["namespace"]))


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """Users, memberships and grants; owners are with the tables, views and namespaces. `version` increases with each
    change, `keys` are those of tokens (`model.access.tokens`)."""

    kind: ClassVar[str] = "access"

    access: Access
    version: int
    keys: tuple[TokenKey, ...] = ()

    @property
    def key(self) -> Key:
        return self.kind, "access"

    def to_plain(self) -> dict[str, Any]:
        access = access_to_plain(self.access, with_verifiers=True)
        return {"access": access, "version": self.version, "keys": keys_to_plain(self.keys)}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> AccessRecord:
        return cls(access_from_plain(plain["access"]), plain["version"], keys_from_plain(plain["keys"]))


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """A tablet server that is leaving."""

    kind: ClassVar[str] = "server"

    id: str

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def to_plain(self) -> dict[str, Any]:
        return {"state": "LEAVING"}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> ServerRecord:
        return cls(id)


@dataclass(frozen=True, slots=True)
class AbsenceRecord:
    """A tablet server in maintenance: its replicas stay where they are, though it may be away."""

    kind: ClassVar[str] = "absence"

    id: str

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def to_plain(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> AbsenceRecord:
        return cls(id)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A DDL call whose change of the catalog is durable. A retry of the call finds it, and changes nothing.

    `table_id`, `table_version`: the table that it made, if any. `time`: seconds since 1970.
    """

    kind: ClassVar[str] = "call"

    client: str
    sequence: int
    time: float
    table_id: str = ""
    table_version: int = 0

    @property
    def key(self) -> Key:
        return self.kind, f"{self.client}/{self.sequence}"

    def to_plain(self) -> dict[str, Any]:
        return {"time": self.time, "table_id": self.table_id, "table_version": self.table_version}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> CallRecord:
        client, _, sequence = id.rpartition("/")
        return cls(client, int(sequence), plain["time"], plain["table_id"], plain["table_version"])


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster as a whole. `version` counts changes by DDL; `next_table` numbers tables."""

    kind: ClassVar[str] = "cluster"

    id: str
    version: int = 0
    next_table: int = 1

    @property
    def key(self) -> Key:
        return self.kind, "cluster"

    def to_plain(self) -> dict[str, Any]:
        return {"cluster_id": self.id, "version": self.version, "next_table": self.next_table}

    @classmethod
    def from_plain(cls, id: str, plain: dict[str, Any]) -> ClusterRecord:
        return cls(plain["cluster_id"], plain["version"], plain["next_table"])


Record: TypeAlias = (
    TableRecord
    | DroppedRecord
    | TabletRecord
    | ViewRecord
    | NamespaceRecord
    | AccessRecord
    | ServerRecord
    | AbsenceRecord
    | CallRecord
    | ClusterRecord
)

_CLASSES: dict[str, Any] = {cls.kind: cls for cls in get_args(Record)}


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to put, replacing those with their keys, and keys of rows to remove. Each key occurs once."""

    puts: tuple[Record, ...] = ()
    removes: tuple[Key, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.puts or self.removes)

    def __add__(self, other: Change) -> Change:
        return Change(self.puts + other.puts, self.removes + other.removes)

    @property
    def keys(self) -> Iterator[Key]:
        """Returns the keys of all affected rows."""
        yield from (record.key for record in self.puts)
        yield from self.removes


def encode_record(record: Record) -> bytes:
    """Returns the body of a record's row."""
    return msgspec.msgpack.encode({"format": BODY_VERSION, **record.to_plain()})


def decode_record(kind: str, id: str, body: bytes) -> Record:
    """Returns the record of a row; raises `UnsupportedFormat` for one of a newer nyala."""
    plain = msgspec.msgpack.decode(body)
    if kind not in _CLASSES or plain.get("format") != BODY_VERSION:
        raise UnsupportedFormat(
            f"the system tablet has a row {kind} {id} of format {plain.get('format')}; this nyala reads format "
            f"{BODY_VERSION} of {', '.join(sorted(_CLASSES))}"
        )
    record: Record = _CLASSES[kind].from_plain(id, plain)
    return record
