"""The catalog file: every table with its schema, partitions and tablets; every view.

A table exists from the moment the catalog that names it is durable, until one is that does not. Folders under
`tables/` that no table owns are what a crash left of a CREATE or a DROP; they are removed when the store opens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ...errors import (
    DuplicateSchema,
    DuplicateTable,
    InvalidTableDefinition,
    UnknownSchema,
    UnknownTable,
    did_you_mean,
    quoted_name,
)
from ...model.access.rights import Secured, schema_key, secured, secured_schema, view_key
from ...model.access.roles import Access
from ...model.access.steps import AccessStep, ObjectRenamed, OwnerChanged, apply_access_steps, without_objects
from ...model.alterations import AlterStep
from ...model.altered_table import apply_steps
from ...model.codec.access import access_from_dict, access_to_dict
from ...model.codec.tables import (
    namespace_from_dict,
    namespace_to_dict,
    table_from_dict,
    table_to_dict,
    view_from_list,
    view_to_list,
)
from ...model.lazy_dataclass import dataclass
from ...model.namespaces import DEFAULT_NAMESPACE, Namespace, check_new_namespace, not_empty
from ...model.partitions.partition import Partition, Partitioner
from ...model.schema import (
    Schema,
    Table,
    TableDefinition,
    View,
    assign_column_ids,
    check_encoding,
    check_partitions,
)
from ..files.checked_file import read_checked, replace_checked
from ..files.filesystem import FileSystem

MAGIC = b"nyalaCAT"
VERSION = 6
"""Version 1 had no `initial`, `immutable`, `auto_increment` and `block_size` of columns, and no `next_tablet`.
Version 2 had no views and no hash rules of single ranges. Version 3 had no `history_seconds`. Version 4 has no
`decided`: a catalog that decides on nothing is written with it, so that earlier nyalas can read it. Version 5 has no
`access` and no `namespaces`: a catalog without users, grants and further schemas is written without them; an earlier
nyala would open the others to anyone, or take a schema for a part of a name."""
_VERSION_WITHOUT_ACCESS = 5
_VERSION_WITHOUT_DECISIONS = 4


def did_you_mean_table(name: str, known: Iterable[Table | View]) -> str:
    """The end of an error about a name that no table has: names that are like it, as statements write them."""
    written = {found.name: found.name if found.namespace != DEFAULT_NAMESPACE else None for found in known}
    return did_you_mean(name, written, written=lambda each: written.get(each) or quoted_name(each))


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table and its tablets, one per partition and in their order. `next_tablet` numbers tablets, and no number is
    ever used twice."""

    table: Table
    tablet_ids: tuple[str, ...]
    next_tablet: int = 0

    @classmethod
    def of(cls, table: Table) -> CatalogEntry:
        """The entry of a new table."""
        partitions = len(Partitioner(table.schema, table.partitions).partitions)
        return cls(table, tuple(_tablet_id(table, number) for number in range(partitions)), partitions)

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

    `version` counts DDL; `next_table` numbers tables, and no number is ever used twice. `history_seconds` is the number
    of seconds for which history stays readable; None for the default. `decided` has the COMMITs that this catalog
    decides on, and which the commit log may lack yet: by timestamp, the last log entries of their parts by tablet
    (`catalog_commit`). `access` has the users and grants; owners are with the tables, views and namespaces.
    `namespaces` has all but the default one, by name.
    """

    entries: Mapping[str, CatalogEntry] = field(default_factory=dict)
    version: int = 0
    next_table: int = 1
    views: Mapping[str, View] = field(default_factory=dict)
    history_seconds: int | None = None
    decided: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    access: Access = field(default_factory=Access)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        """All tables by name, ascending."""
        return [self.entries[name].table for name in sorted(self.entries)]

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        entry = self.entries.get(name)
        if entry is None:
            known: list[Table | View] = [*(entry.table for entry in self.entries.values()), *self.views.values()]
            raise UnknownTable(f"table {name} does not exist{did_you_mean_table(name, known)}")
        return entry.table

    def all_views(self) -> list[View]:
        """All views by name, ascending."""
        return [self.views[name] for name in sorted(self.views)]

    def check_views(self, names: Collection[str]) -> None:
        """Raise `UnknownTable` where one of the views is not there."""
        for name in names:
            if name not in self.views:
                raise UnknownTable(f"view {name} does not exist{did_you_mean(name, self.views, written=quoted_name)}")

    def check_free(self, name: str) -> None:
        """Raise `DuplicateTable` where a table or view has the name."""
        for kind, taken in (("table", self.entries), ("view", self.views)):
            if name in taken:
                raise DuplicateTable(f"{kind} {name} exists already")

    def all_namespaces(self) -> list[Namespace]:
        """All namespaces by name, ascending, with the default one."""
        return sorted([Namespace(DEFAULT_NAMESPACE), *self.namespaces.values()], key=lambda found: found.name)

    def check_namespace(self, name: str) -> None:
        """Raise `UnknownSchema` where there is no such namespace."""
        if name != DEFAULT_NAMESPACE and name not in self.namespaces:
            known = (DEFAULT_NAMESPACE, *self.namespaces)
            raise UnknownSchema(f"schema {name} does not exist{did_you_mean(name, known, written=quoted_name)}")

    def names_within(self, namespace: str) -> list[str]:
        """The names of the tables and views of a namespace, ascending."""
        found: list[Table | View] = [*(entry.table for entry in self.entries.values()), *self.views.values()]
        return sorted(each.name for each in found if each.namespace == namespace)

    def check_new(self, definition: TableDefinition) -> None:
        """Raise `InvalidTableDefinition` where a table cannot be, `DuplicateTable` where its name is taken,
        `UnknownSchema` where its namespace does not exist."""
        for column in definition.schema.columns:
            check_encoding(column)
        check_partitions(definition.schema, definition.partitions)
        self.check_namespace(definition.namespace)
        self.check_free(definition.name)

    def with_table(self, definition: TableDefinition) -> Catalog:
        """This catalog with one more table, which must have passed `check_new`."""
        columns = assign_column_ids(definition.schema.columns)
        table = Table(
            id=f"t{self.next_table:06d}",
            name=definition.name,
            schema=Schema(columns, definition.schema.key_columns),
            partitions=definition.partitions,
            comment=definition.comment,
            next_column_id=len(columns),
            owner=definition.owner,
            quota_bytes=definition.quota_bytes,
            namespace=definition.namespace,
        )
        entries = {**self.entries, table.name: CatalogEntry.of(table)}
        return replace(self, entries=entries, version=self.version + 1, next_table=self.next_table + 1)

    def altered_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """The table of that name after the steps of an ALTER TABLE; errors as of `Store.alter_table`."""
        taken = (*self.entries, *self.views)
        table = apply_steps(self.table(name), steps, [other for other in taken if other != name])
        self.check_namespace(table.namespace)
        return table

    def with_altered(self, name: str, table: Table) -> Catalog:
        """This catalog with the table of that name altered."""
        entries = {other: entry for other, entry in self.entries.items() if other != name}
        entries[table.name] = self.entries[name].altered(table)
        access = self._access_of_owner(secured(self.entries[name].table), table.owner)
        return replace(self, entries=entries, version=self.version + 1, access=access)

    def without(self, tables: Collection[str], views: Collection[str]) -> Catalog:
        """This catalog without some of its tables and views; names that it does not have are passed over."""
        entries = {name: entry for name, entry in self.entries.items() if name not in tables}
        kept = {name: view for name, view in self.views.items() if name not in views}
        gone = [entry.table.id for name, entry in self.entries.items() if name in tables]
        access = without_objects(self.access, (*gone, *(view_key(name) for name in views)))
        return replace(self, entries=entries, views=kept, version=self.version + 1, access=access)

    def with_view(self, view: View, replaces: bool) -> Catalog:
        """This catalog with a view; with `replaces` in the place of one of its name. `DuplicateTable` where the name is
        taken otherwise, `UnknownSchema` where its namespace does not exist."""
        self.check_namespace(view.namespace)
        before = self.views.get(view.name) if replaces else None
        if before is None:
            self.check_free(view.name)
        access = self.access if before is None else self._access_of_owner(secured(before), view.owner)
        return replace(self, views={**self.views, view.name: view}, version=self.version + 1, access=access)

    def with_renamed_view(self, name: str, new_name: str, namespace: str) -> Catalog:
        """This catalog with another name and namespace of a view, whose grants follow it; errors as of
        `Store.rename_view`, and `UnknownSchema` where there is no such namespace."""
        self.check_views([name])
        self.check_namespace(namespace)
        self.check_free(new_name)
        kept = {other: view for other, view in self.views.items() if other != name}
        view = self.views[name]
        renamed = replace(view, name=new_name, namespace=namespace)
        access = apply_access_steps(self.access, [ObjectRenamed(secured(view), view_key(new_name))], self.objects())
        return replace(self, views={**kept, new_name: renamed}, version=self.version + 1, access=access)

    def with_namespace(self, namespace: Namespace) -> Catalog:
        """This catalog with a namespace. `DuplicateSchema` where the name is taken, `InvalidTableDefinition` where it
        cannot be."""
        check_new_namespace(namespace.name)
        if namespace.name in self.namespaces:
            raise DuplicateSchema(f"schema {namespace.name} exists already")
        return replace(self, namespaces={**self.namespaces, namespace.name: namespace}, version=self.version + 1)

    def with_altered_namespace(self, namespace: Namespace) -> Catalog:
        """This catalog with another owner of a namespace. `UnknownSchema` where there is none of its name,
        `InvalidTableDefinition` for the default one."""
        self.check_namespace(namespace.name)
        if namespace.name == DEFAULT_NAMESPACE:
            raise InvalidTableDefinition(f"schema {DEFAULT_NAMESPACE} belongs to the store's own role")
        before = self.namespaces[namespace.name]
        access = self._access_of_owner(secured_schema(before.name, before.owner), namespace.owner)
        namespaces = {**self.namespaces, namespace.name: namespace}
        return replace(self, namespaces=namespaces, version=self.version + 1, access=access)

    def without_namespace(self, name: str, tables: Collection[str], views: Collection[str]) -> Catalog:
        """This catalog without a namespace, and without some of its tables and views. `UnknownSchema` where there is
        none, `DependentObjects` where it has others."""
        self.check_namespace(name)
        if name == DEFAULT_NAMESPACE:
            raise InvalidTableDefinition(f"schema {name} is the default schema, which every store has")
        changed = self.without(tables, views)
        if left := changed.names_within(name):
            raise not_empty(name, left)
        namespaces = {other: kept for other, kept in self.namespaces.items() if other != name}
        return replace(changed, namespaces=namespaces, access=without_objects(changed.access, [schema_key(name)]))

    def with_access(self, steps: Sequence[AccessStep]) -> Catalog:
        """This catalog with users, memberships or grants changed; errors as of `Store.change_access`."""
        access = apply_access_steps(self.access, steps, self.objects())
        return replace(self, access=access, version=self.version + 1)

    def objects(self) -> dict[str, Secured]:
        """All objects that have an owner, by their keys in grants."""
        found = [secured(entry.table) for entry in self.entries.values()]
        found += [secured(view) for view in self.views.values()]
        found += [secured_schema(namespace.name, namespace.owner) for namespace in self.all_namespaces()]
        return {each.key: each for each in found}

    def _access_of_owner(self, object_: Secured, owner: str) -> Access:
        """The access after an object's owner has become another one."""
        if object_.owner == owner:
            return self.access
        return apply_access_steps(self.access, [OwnerChanged(object_.key, object_.owner, owner)], self.objects())

    def write(self, fs: FileSystem, path: str) -> None:
        """Replace the catalog file durably."""
        content = {
            "version": self.version,
            "next_table": self.next_table,
            "tables": [entry_to_dict(entry) for entry in self.entries.values()],
            "views": [view_to_list(view) for view in self.views.values()],
            "history_seconds": self.history_seconds,
        }
        if self.decided:
            content["decided"] = [[timestamp, dict(parts)] for timestamp, parts in self.decided.items()]
        version = _VERSION_WITHOUT_ACCESS if self.decided else _VERSION_WITHOUT_DECISIONS
        if not self.access.is_first or any(object_.owner for object_ in self.objects().values()):
            content["access"], version = access_to_dict(self.access), VERSION
        if self.namespaces:
            content["namespaces"] = [namespace_to_dict(self.namespaces[name]) for name in sorted(self.namespaces)]
            version = VERSION
        replace_checked(fs, path, MAGIC, version, content)

    @classmethod
    def read(cls, fs: FileSystem, path: str) -> Catalog:
        """The catalog in a file; `CorruptionError` where it is damaged."""
        content = read_checked(fs, path, MAGIC, VERSION)
        entries = [entry_from_dict(entry) for entry in content["tables"]]
        views = [view_from_list(view) for view in content.get("views", [])]
        namespaces = [namespace_from_dict(namespace) for namespace in content.get("namespaces", [])]
        return cls(
            {entry.table.name: entry for entry in entries},
            content["version"],
            content["next_table"],
            {view.name: view for view in views},
            content.get("history_seconds"),
            dict(content.get("decided", [])),
            access_from_dict(content["access"]) if "access" in content else Access(),
            {namespace.name: namespace for namespace in namespaces},
        )


def _place(partition: Partition) -> tuple[Any, ...]:
    """Identity of a partition within its table, independent of column names: its buckets and bounds."""
    range_ = partition.range
    return partition.buckets, None if range_ is None else (range_.lower, range_.upper)


def _tablet_id(table: Table, number: int) -> str:
    return f"{table.id}-p{number:04d}"


def entry_to_dict(entry: CatalogEntry) -> dict[str, Any]:
    """The entry as plain data: its table's (`model.codec.tables`) with the tablets."""
    return {**table_to_dict(entry.table), "tablets": list(entry.tablet_ids), "next_tablet": entry.next_tablet}


def entry_from_dict(data: Mapping[str, Any]) -> CatalogEntry:
    """The entry of `entry_to_dict`."""
    return CatalogEntry(table_from_dict(data), tuple(data["tablets"]), data.get("next_tablet", len(data["tablets"])))
