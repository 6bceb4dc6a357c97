"""A replica's view of its table in one version: computed once, replaced as a whole when the table is altered."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa

from ...errors import ProtocolError, StaleSchema
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.vectors.vector import Array
from ...storage.log.wal_format import log_schema
from ...storage.single_rows.row_codec import RowCodec
from ..decoders import msgpack_decoder
from ..wire.messages.methods import Tablet
from ..wire.messages.plain import table_from_plain

_decode = msgpack_decoder(Tablet).decode
_encode = msgspec.msgpack.Encoder().encode


def encode_description(tablet: Tablet) -> bytes:
    """Returns the body of an ALTER entry."""
    return _encode(tablet)


def decode_description(body: bytes | memoryview) -> Tablet:
    """Inverse of `encode_description`; raises `ProtocolError` if the bytes do not describe a tablet."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"{len(body)} bytes do not describe a tablet: {error}") from error


def check_version(table: Table, version: int | None) -> Table:
    """Returns the table; raises `StaleSchema` if the caller has another version of it. None: any version will do."""
    if version is not None and version != table.version:
        raise StaleSchema(f"table {table.name} is at version {table.version} here; the caller has version {version}")
    return table


def schema_behind(body: bytes) -> pa.Schema:
    """Returns the schema of rows in the log after an ALTER entry with this body."""
    return log_schema(table_from_plain(decode_description(body).table).schema)


@dataclass(frozen=True, eq=False)
class ReplicaLayout:
    """The description of a tablet and the objects derived from it.

    Parameters
    ----------
    description : Tablet
    table : Table
    partitioner : Partitioner
        Of the whole table.
    place : int
        Index of the tablet's partition; -1: a range partition that was dropped.
    """

    description: Tablet
    table: Table
    partitioner: Partitioner
    place: int

    @classmethod
    def of(cls, description: Tablet) -> ReplicaLayout:
        """Returns the layout of a tablet."""
        table = table_from_plain(description.table)
        partitioner = Partitioner(table.schema, table.partitions)
        places = {partition.place: partition.index for partition in partitioner.partitions}
        return cls(description, table, partitioner, places.get(description.place, -1))

    @cached_property
    def codec(self) -> RowCodec:
        """Codec of the table's rows."""
        return RowCodec(self.table)

    def check_version(self, version: int | None) -> None:
        """Raises `StaleSchema` if the caller has the table in another version."""
        check_version(self.table, version)

    def check_rows(self, rows: pa.RecordBatch) -> None:
        """Raises `StaleSchema` if a row does not belong to the tablet."""
        places: Array = self.partitioner.route(rows)
        strangers = np.flatnonzero(places != self.place)
        if len(strangers) or self.place < 0:
            raise self._stranger(int(places[strangers[0]]) if len(strangers) else -1)

    def check_key(self, key: list[object]) -> None:
        """Like `check_rows`, for one row given by at least the physical values of its key."""
        place = self.partitioner.route_one(key)
        if place != self.place or place < 0:
            raise self._stranger(place)

    def _stranger(self, place: int) -> StaleSchema:
        its = self.partitioner.partitions[place].describe() if place >= 0 else "no partition"
        return StaleSchema(
            f"a row belongs to {its} of table {self.table.name}, not to tablet {self.description.id}, "
            f"which is {self.description.partition}"
        )
