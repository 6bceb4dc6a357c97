r"""Scan tokens: parts of one scan that travel as bytes, and are read wherever the store can be reached.

    planner                                        worker
    TableHandle.scan_tokens ─► ScanToken ─ serialize ─ ... ─ deserialize ─► ScanToken.open(connection) ─► Scan

A token names everything by what does not change: the table and the columns by their ids, the tablet, a range of its
keys, physical values, the moment in hybrid time. It pins nothing, so it outlives the process that made it, for as long
as the store keeps the past (`history_seconds`). The tokens of one call together give each row of the scan exactly once.

    bytes    16   "nyala scan token"
              1   version of the format: 2
              4   CRC-32 of the rest, little-endian
              n   msgpack: a map with the fields of `ScanToken`; a predicate is a map with a column id in place of the
                  column's name (`model.codec.predicates`)

In version 1, which is still read, a predicate is a list:

    ["range", column id, lower, upper, lower inclusive, upper inclusive]
    ["in", column id, values...]        ["null", column id, negated]        ["any", column id, predicates...]
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from ...errors import DataError, InterfaceError, StaleScanToken, TabletGone, UnknownTable, UnsupportedFormat
from ...model.codec.packing import pack, unpack
from ...model.codec.predicates import predicate_from_plain, predicate_to_plain
from ...model.lazy_dataclass import dataclass
from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range
from ...model.schema import Table
from ...model.store import Replica, ScanSpec, Store, TabletDescription, Timestamp
from .key_ranges import KeyRange, key_ranges
from .table_scans import Scan, check_counts, scan_of

if TYPE_CHECKING:
    from ..open_connection import OpenConnection

MAGIC: Final = b"nyala scan token"
VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class TokenColumn:
    """A column in a token: its permanent id, its name when the token was made, its type's name."""

    id: int
    name: str
    type: str


@dataclass(frozen=True, slots=True, eq=False)
class ScanToken:
    """One part of a scan: a tablet, or a range of its keys.

    Attributes
    ----------
    table_id, table : str
        The table's permanent id, and its name when the token was made.
    schema_version : int
        The table's schema changes until then.
    tablet : str
        The tablet's id.
    partition : str
        Readable partition of the tablet.
    locations : tuple of Replica
        Location: for an embedded store, this host and the store's directory.
    columns, condition_columns : tuple of TokenColumn
        Output columns of the scan, in order; all columns of the predicates and the key range.
    key_range : tuple of Range
        The part of the tablet; empty for all of it.
    predicates : tuple of ColumnPredicate
    snapshot : Timestamp
        The snapshot.
    ordered : bool
        The rows ascend by primary key.
    limit : int, optional
        Limit of rows of this part.
    estimated_rows, estimated_bytes : int
        Approximate amount to read, before predicates.
    """

    table_id: str
    table: str
    schema_version: int
    tablet: str
    partition: str
    locations: tuple[Replica, ...]
    columns: tuple[TokenColumn, ...]
    condition_columns: tuple[TokenColumn, ...]
    key_range: KeyRange
    predicates: tuple[ColumnPredicate, ...]
    snapshot: Timestamp
    ordered: bool
    limit: int | None
    estimated_rows: int
    estimated_bytes: int

    def serialize(self) -> bytes:
        """The token as bytes; `deserialize` reads them."""
        ids = {column.name: column.id for column in self.condition_columns}
        fields = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        fields["locations"] = [asdict(replica) for replica in self.locations]
        fields["columns"] = [[c.id, c.name, c.type] for c in self.columns]
        fields["condition_columns"] = [[c.id, c.name, c.type] for c in self.condition_columns]
        fields["key_range"] = [_written(part, ids) for part in self.key_range]
        fields["predicates"] = [_written(predicate, ids) for predicate in self.predicates]
        body = pack(fields)
        return MAGIC + bytes([VERSION]) + zlib.crc32(body).to_bytes(4, "little") + body

    @classmethod
    def deserialize(cls, data: bytes) -> ScanToken:
        """The token that `serialize` wrote.

        Raises `UnsupportedFormat` for one of another version, `DataError` for what is no token or was damaged.
        """
        data = bytes(data)
        start = len(MAGIC)
        if not data.startswith(MAGIC) or len(data) < start + 5:
            raise DataError("these bytes are no scan token")
        version = data[start]
        if not 1 <= version <= VERSION:
            raise UnsupportedFormat(f"the scan token has format version {version}; this nyala reads up to {VERSION}")
        body = data[start + 5 :]
        if zlib.crc32(body).to_bytes(4, "little") != data[start + 1 : start + 5]:
            raise DataError("the scan token is damaged: its checksum is not that of its bytes")
        fields = unpack(body)
        for name in cls.__slots__:
            if name not in fields:
                raise DataError(f"the scan token lacks its {name}")
        known = [TokenColumn(*column) for column in fields["condition_columns"]]
        names = {column.id: column.name for column in known}
        read = _from_version_1 if version == 1 else predicate_from_plain
        return cls(
            **{name: fields[name] for name in _PLAIN_FIELDS},
            locations=tuple(Replica(**replica) for replica in fields["locations"]),
            columns=tuple(TokenColumn(*column) for column in fields["columns"]),
            condition_columns=tuple(known),
            key_range=tuple(_renamed(read(part), names) for part in fields["key_range"]),
            predicates=tuple(_renamed(read(predicate), names) for predicate in fields["predicates"]),
        )

    def open(self, connection: OpenConnection, batch_rows: int | None = None) -> Scan:
        """Read this part, as it was at the token's moment, through any connection to the store.

        Columns come out under the names that they had when the token was made.

        Raises
        ------
        StaleScanToken
            The table or a column of the token was dropped, or the tablet.
        HistoryGone
            The store does not keep the past for so long.
        """
        table, spec = self.resolved(connection.store)
        try:
            return scan_of(
                lambda: connection.store,
                table,
                spec.columns,
                spec.predicates,
                self.snapshot,
                names=[column.name for column in self.columns],
                tablet=self.tablet,
                limit=self.limit,
                ordered=self.ordered,
                batch_rows=batch_rows,
            )
        except TabletGone as error:
            raise StaleScanToken(f"{error}; request new scan tokens") from error

    def resolved(self, store: Store) -> tuple[Table, ScanSpec]:
        """The table, and the columns to read by their current names. `StaleScanToken` as `open`."""
        table = self._table(store)
        names = {column.name: _now(table, column) for column in self.condition_columns}
        return table, ScanSpec(
            tuple(_now(table, column) for column in self.columns),
            tuple(_renamed(predicate, names) for predicate in (*self.key_range, *self.predicates)),
            self.snapshot,
            ordered=self.ordered,
            limit=self.limit,
            tablet=self.tablet,
        )

    def _table(self, store: Store) -> Table:
        table = _by_id(store, self.table_id)
        if table is None:
            # A cluster's client may not have a new table cached: it requests unknown names from the masters.
            with suppress(UnknownTable):
                store.table(self.table)
            table = _by_id(store, self.table_id)
        if table is not None:
            return table
        raise StaleScanToken(f"table {self.table} ({self.table_id}) of the scan token has been dropped")


_PLAIN_FIELDS = (
    "table_id",
    "table",
    "schema_version",
    "tablet",
    "partition",
    "snapshot",
    "ordered",
    "limit",
    "estimated_rows",
    "estimated_bytes",
)


def _by_id(store: Store, table_id: str) -> Table | None:
    return next((table for table in store.tables() if table.id == table_id), None)


def _now(table: Table, column: TokenColumn) -> str:
    """The name that a column has today."""
    for found in table.schema.columns:
        if found.id == column.id:
            if str(found.type) != column.type:
                raise StaleScanToken(
                    f"column {column.name} of table {table.name} was {column.type} when the scan token was made, and "
                    f"is {found.type}"
                )
            return found.name
    raise StaleScanToken(f"column {column.name} of the scan token has been dropped from table {table.name}")


# ---- making them -----------------------------------------------------------------------------------------------------


def scan_tokens(
    store: Store,
    table: Table,
    columns: Sequence[str],
    predicates: tuple[ColumnPredicate, ...],
    snapshot: Timestamp,
    *,
    limit: int | None = None,
    ordered: bool = False,
    split_size_bytes: int | None = None,
) -> list[ScanToken]:
    """The parts of a scan: one for each tablet that may have rows for it, or several of about `split_size_bytes` on
    disk, in the order of tablets and, within one, of keys. Raises as `scan_of` does."""
    check_counts(limit=limit, split_size_bytes=split_size_bytes)
    tablets = {tablet.id: tablet for tablet in store.describe_tablets(table)}
    rows: dict[str, int] = {}
    for token in store.scan_tokens(table, ScanSpec((), predicates, snapshot)):
        rows[token.tablet_id] = rows.get(token.tablet_id, 0) + token.rows
    key = [column.name for column in table.schema.key]
    asked = dict.fromkeys((*key, *(predicate.column for predicate in predicates)))
    made = []
    for tablet in (tablets[tablet_id] for tablet_id in rows if tablet_id in tablets):
        whole = ScanToken(
            table.id,
            table.name,
            table.version,
            tablet.id,
            tablet.partition,
            tablet.replicas,
            tuple(_token_column(table, name) for name in columns),
            tuple(_token_column(table, name) for name in asked),
            (),
            predicates,
            snapshot,
            ordered,
            limit,
            rows[tablet.id],
            tablet.bytes,
        )
        made += _split(store, table, key, tablet, whole, split_size_bytes)
    return made


def _split(
    store: Store, table: Table, key: Sequence[str], tablet: TabletDescription, whole: ScanToken, size: int | None
) -> list[ScanToken]:
    """Divides a tablet's token into several; those without rows, according to the store, are omitted."""
    if size is None or tablet.bytes <= size:
        return [whole]
    parts = key_ranges(key, store.key_samples(table, tablet.id), -(-tablet.bytes // size))
    parts_ = []
    for range_, share in parts:
        spec = ScanSpec((), (*range_, *whole.predicates), whole.snapshot, tablet=tablet.id)
        if store.scan_tokens(table, spec):
            rows, bytes_ = round(whole.estimated_rows * share), round(whole.estimated_bytes * share)
            parts_.append(replace(whole, key_range=range_, estimated_rows=rows, estimated_bytes=bytes_))
    return parts_


def _token_column(table: Table, name: str) -> TokenColumn:
    column = table.schema.column(name)
    return TokenColumn(column.id, column.name, str(column.type))


# ---- predicates ------------------------------------------------------------------------------------------------------


def _written(predicate: ColumnPredicate, ids: Mapping[str, int]) -> dict[str, Any]:
    """A predicate as plain values, with the ids of its columns."""
    if not isinstance(predicate, Range | InList | IsNull | AnyOf):
        raise InterfaceError(f"a scan token cannot hold a {type(predicate).__name__}")
    return predicate_to_plain(_renamed(predicate, ids))


def _from_version_1(written: Sequence[Any]) -> Any:
    """The predicate in a list of a token of version 1, with the ids of its columns."""
    kind, column, *rest = written
    match kind:
        case "range":
            return Range(column, *rest)
        case "null":
            return IsNull(column, *rest)
        case "in":
            return InList(column, tuple(rest))
        case "any":
            return AnyOf(column, tuple(_from_version_1(member) for member in rest))
    raise DataError(f"the scan token holds a predicate of an unknown kind, {kind!r}")


def _renamed(predicate: Any, names: Mapping[Any, Any]) -> Any:
    """The predicate with other names of its columns, or with their ids."""
    renamed = replace(predicate, column=names[predicate.column])
    if isinstance(renamed, AnyOf):
        return replace(renamed, members=tuple(_renamed(member, names) for member in renamed.members))
    return renamed
