"""The catalog file: every table with its schema, partitions and tablets; every view.

A table exists from the moment the catalog that names it is durable, until one is that does not. Folders under
`tables/` that no table owns are what a crash left of a CREATE or a DROP; they are removed when the store opens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import DuplicateTable
from ..files.checked_file import read_checked, replace_checked
from ..files.filesystem import FileSystem
from ..keys.partition import Partition, Partitioner
from ..schema import (
    ColumnSchema,
    Compression,
    Encoding,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
    View,
    assign_column_ids,
)
from ..types import DataType, Kind

MAGIC = b"nyalaCAT"
VERSION = 3
"""Version 1 had no `initial`, `immutable`, `auto_increment` and `block_size` of columns, and no `next_tablet`.
Version 2 had no views and no hash rules of single ranges."""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table and its tablets, one per partition and in their order. `next_tablet` numbers tablets, and no number is
    ever used twice."""

    table: Table
    tablet_ids: tuple[str, ...]
    next_tablet: int = 0

    def altered(self, table: Table) -> CatalogEntry:
        """The entry of the table after an ALTER TABLE: partitions that were there keep their tablets, others get new
        ones."""
        before, after = (
            Partitioner(self.table.schema, self.table.partitions),
            Partitioner(table.schema, table.partitions),
        )
        known = {_place(p): tablet for p, tablet in zip(before.partitions, self.tablet_ids)}
        tablets = []
        number = self.next_tablet
        for partition in after.partitions:
            tablet = known.get(_place(partition))
            if tablet is None:
                tablet = _tablet_id(table, number)
                number += 1
            tablets.append(tablet)
        return CatalogEntry(table, tuple(tablets), number)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All tables and views by name; no two share one. Immutable: DDL makes a new one.

    `version` counts DDL; `next_table` numbers tables, and no number is ever used twice.
    """

    entries: Mapping[str, CatalogEntry] = field(default_factory=dict)
    version: int = 0
    next_table: int = 1
    views: Mapping[str, View] = field(default_factory=dict)

    def check_free(self, name: str) -> None:
        """Raise `DuplicateTable` where a table or view has the name."""
        for kind, taken in (("table", self.entries), ("view", self.views)):
            if name in taken:
                raise DuplicateTable(f"{kind} {name} exists already")

    def with_table(self, definition: TableDefinition, partitions: int) -> Catalog:
        """This catalog with one more table."""
        columns = assign_column_ids(definition.schema.columns)
        table = Table(
            id=f"t{self.next_table:06d}",
            name=definition.name,
            schema=Schema(columns, definition.schema.key_columns),
            partitions=definition.partitions,
            comment=definition.comment,
            next_column_id=len(columns),
        )
        tablets = tuple(_tablet_id(table, number) for number in range(partitions))
        entries = {**self.entries, table.name: CatalogEntry(table, tablets, partitions)}
        return Catalog(entries, self.version + 1, self.next_table + 1, self.views)

    def with_altered(self, name: str, table: Table) -> Catalog:
        """This catalog with the table of that name altered."""
        entries = {other: entry for other, entry in self.entries.items() if other != name}
        entries[table.name] = self.entries[name].altered(table)
        return replace(self, entries=entries, version=self.version + 1)

    def without(self, tables: Collection[str], views: Collection[str]) -> Catalog:
        """This catalog without some of its tables and views; names that it does not have are passed over."""
        entries = {name: entry for name, entry in self.entries.items() if name not in tables}
        kept = {name: view for name, view in self.views.items() if name not in views}
        return replace(self, entries=entries, views=kept, version=self.version + 1)

    def with_view(self, view: View) -> Catalog:
        """This catalog with a view, in the place of one of its name."""
        return replace(self, views={**self.views, view.name: view}, version=self.version + 1)

    def write(self, fs: FileSystem, path: str) -> None:
        """Replace the catalog file durably."""
        content = {
            "version": self.version,
            "next_table": self.next_table,
            "tables": [_entry_to_dict(entry) for entry in self.entries.values()],
            "views": [[view.name, view.text, list(view.columns)] for view in self.views.values()],
        }
        replace_checked(fs, path, MAGIC, VERSION, content)

    @classmethod
    def read(cls, fs: FileSystem, path: str) -> Catalog:
        """The catalog in a file; `CorruptionError` where it is damaged."""
        content = read_checked(fs, path, MAGIC, VERSION)
        entries = [_entry_from_dict(entry) for entry in content["tables"]]
        views = [View(name, text, tuple(columns)) for name, text, columns in content.get("views", [])]
        return cls(
            {entry.table.name: entry for entry in entries},
            content["version"],
            content["next_table"],
            {view.name: view for view in views},
        )


def _place(partition: Partition) -> tuple[Any, ...]:
    """What tells a partition from others of its table whatever their columns are called: its buckets and bounds."""
    range_ = partition.range
    return partition.buckets, None if range_ is None else (range_.lower, range_.upper)


def _tablet_id(table: Table, number: int) -> str:
    return f"{table.id}-p{number:04d}"


# ---- tables as plain data ----------------------------------------------------------------------------------------


def _entry_to_dict(entry: CatalogEntry) -> dict[str, Any]:
    table = entry.table
    return {
        "id": table.id,
        "name": table.name,
        "version": table.version,
        "comment": table.comment,
        "next_column_id": table.next_column_id,
        "key_columns": table.schema.key_columns,
        "columns": [_column_to_dict(column) for column in table.schema.columns],
        "hash_rules": _hash_to_list(table.partitions.hash_rules),
        "range_rule": _range_to_dict(table.partitions.range_rule),
        "tablets": list(entry.tablet_ids),
        "next_tablet": entry.next_tablet,
    }


def _entry_from_dict(data: dict[str, Any]) -> CatalogEntry:
    columns = tuple(_column_from_dict(column) for column in data["columns"])
    hash_rules = _hash_from_list(data["hash_rules"])
    table = Table(
        id=data["id"],
        name=data["name"],
        schema=Schema(columns, data["key_columns"]),
        partitions=PartitionSchema(hash_rules, _range_from_dict(data["range_rule"])),
        version=data["version"],
        comment=data["comment"],
        next_column_id=data["next_column_id"],
    )
    return CatalogEntry(table, tuple(data["tablets"]), data.get("next_tablet", len(data["tablets"])))


def _column_to_dict(column: ColumnSchema) -> dict[str, Any]:
    type_ = column.type
    return {
        "id": column.id,
        "name": column.name,
        "type": [type_.kind.value, type_.precision, type_.scale, type_.length],
        "nullable": column.nullable,
        "default": column.default,
        "encoding": column.encoding.value,
        "compression": column.compression.value,
        "comment": column.comment,
        "initial": column.initial,
        "immutable": column.immutable,
        "auto_increment": column.auto_increment,
        "block_size": column.block_size,
    }


def _column_from_dict(data: dict[str, Any]) -> ColumnSchema:
    kind, precision, scale, length = data["type"]
    return ColumnSchema(
        name=data["name"],
        type=DataType(Kind(kind), precision, scale, length),
        nullable=data["nullable"],
        id=data["id"],
        default=data["default"],
        encoding=Encoding(data["encoding"]),
        compression=Compression(data["compression"]),
        comment=data["comment"],
        initial=data.get("initial"),
        immutable=data.get("immutable", False),
        auto_increment=data.get("auto_increment", False),
        block_size=data.get("block_size", 0),
    )


def _range_to_dict(rule: RangeRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    own = [None if p.hash_rules is None else _hash_to_list(p.hash_rules) for p in rule.partitions]
    bounds = [[p.lower, p.upper] for p in rule.partitions]
    return {"columns": list(rule.columns), "partitions": bounds, "hash_rules": own}


def _range_from_dict(data: dict[str, Any] | None) -> RangeRule | None:
    if data is None:
        return None
    own = data.get("hash_rules") or [None] * len(data["partitions"])
    partitions = tuple(
        RangePartition(_bound(lower), _bound(upper), None if rules is None else _hash_from_list(rules))
        for (lower, upper), rules in zip(data["partitions"], own, strict=True)
    )
    return RangeRule(tuple(data["columns"]), partitions)


def _hash_to_list(rules: Sequence[HashRule]) -> list[Any]:
    return [[list(rule.columns), rule.buckets, rule.seed] for rule in rules]


def _hash_from_list(data: list[Any]) -> tuple[HashRule, ...]:
    return tuple(HashRule(tuple(names), buckets, seed) for names, buckets, seed in data)


def _bound(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
