"""The relations that the catalogs describe: tables, views, keys and the catalogs themselves, with their numbers.

The numbers of a table follow from its permanent id, those of a view from its name, so that they are the same after a
restart and on all servers:

    | number | of |
    |---|---|
    | 16384 + 8 n | table n; + 1 its row type, + 2 an array of these, + 3 the index and + 4 the constraint of its key |
    | 2**29 to 2**30 | schemas, by a hash of the name |
    | 2**30 and more | views, by a hash of the name |
    | below 16384 | PostgreSQL's own |

The hidden column of a NON UNIQUE PRIMARY KEY is not among the columns: clients insert into all that they find, and it
takes no values. Without it such a key is not unique, so for clients the table has none.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Final

from ....errors import Error
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ....model.schema import ColumnSchema, Table, View
from ....model.types import DataType
from ..catalog.views import describe_view
from ..context import Context
from ..names import INFORMATION_SCHEMA, NYALA_CATALOG, PG_CATALOG, search_path
from ..tables.show_create import name_text
from .definitions import relations

FIRST: Final = 16384
PER_TABLE: Final = 8
_FIRST_VIEW: Final = 1 << 30
_FIRST_TEMPORARY: Final = 1 << 25
"""Is added to the numbers of temporary tables, which their own store counts."""
_FIRST_NAMESPACE: Final = 1 << 29
_NAMESPACES: Final = {PG_CATALOG: 11, DEFAULT_NAMESPACE: 2200, INFORMATION_SCHEMA: 13207, NYALA_CATALOG: 13208}
"""The numbers of the schemas that every store has."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of a relation; `place` counts from 1, `stored` is its definition if it is a column of a table."""

    name: str
    place: int
    type: DataType
    nullable: bool
    stored: ColumnSchema | None = None


@dataclass(frozen=True)
class SystemObject:
    """A relation that the catalogs describe: `kind` is that of `pg_class.relkind` (r, v, i)."""

    schema: str
    name: str
    oid: int
    kind: str
    table: Table | None = None
    view: View | None = None
    context: Context | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The columns in order; none for a view that is not valid."""
        if self.kind == "i":
            assert self.table is not None
            return tuple(_stored(column, place) for place, column in enumerate(self.table.schema.key, 1))
        if self.table is not None:
            return tuple(_stored(column, place) for place, column in enumerate(self.table.schema.visible_columns, 1))
        if self.view is not None:
            return self._view_columns(self.view)
        columns = relations()[self.schema, self.name].columns
        return tuple(Attribute(column.name, place, column.type, True) for place, column in enumerate(columns, 1))

    @property
    def has_key(self) -> bool:
        """True for a table with a unique key."""
        return self.table is not None and self.table.schema.auto_increment is None

    def _view_columns(self, view: View) -> tuple[Attribute, ...]:
        assert self.context is not None
        # A view may read the catalogs, whose rows describe it: there they have none.
        inner = replace(self.context, within=(PG_CATALOG,))
        try:
            columns = describe_view(view, inner).columns
        except Error:
            return ()
        return tuple(Attribute(c.name, place, c.type, c.nullable) for place, c in enumerate(columns, 1))


def _stored(column: ColumnSchema, place: int) -> Attribute:
    return Attribute(column.name, place, column.type, column.nullable, column)


def table_number(table: Table) -> int:
    """The number of a table."""
    digits = re.fullmatch(r"t(\d+)", table.id)
    number = int(digits[1]) if digits else zlib.crc32(table.id.encode()) >> 6
    if table.namespace == TEMPORARY_NAMESPACE:
        number += _FIRST_TEMPORARY
    return FIRST + PER_TABLE * number


def key_name(table: Table) -> str:
    """The name of a table's primary key, as PostgreSQL gives it to one without a name."""
    return f"{table.local_name}_pkey"


def view_number(view: View) -> int:
    """The number of a view."""
    return _FIRST_VIEW + PER_TABLE * (zlib.crc32(view.name.encode()) >> 5)


def namespace_number(name: str) -> int:
    """The number of a schema."""
    return _NAMESPACES.get(name) or _FIRST_NAMESPACE + (zlib.crc32(name.encode()) >> 3)


class Objects:
    """The relations that a statement's catalog describes, found once for each binding."""

    def __init__(self, context: Context):
        self.context = context

    @cached_property
    def namespaces(self) -> dict[str, int]:
        """The numbers of all schemas by name, PostgreSQL's own first."""
        names = [namespace.name for namespace in self.context.catalog.namespaces()]
        return _NAMESPACES | {name: namespace_number(name) for name in names}

    @cached_property
    def searched(self) -> tuple[str, ...]:
        """The schemas in which a name without one is searched, in order."""
        return (PG_CATALOG, *search_path(self.context))

    @cached_property
    def own(self) -> tuple[SystemObject, ...]:
        """The tables and views of the store, by name and schema."""
        catalog = self.context.catalog
        found = [SystemObject(t.namespace, t.local_name, table_number(t), "r", table=t) for t in catalog.tables()]
        found += [
            SystemObject(v.namespace, v.local_name, view_number(v), "v", view=v, context=self.context)
            for v in catalog.views()
        ]
        return tuple(sorted(found, key=lambda each: (each.name, each.schema)))

    @cached_property
    def stored(self) -> dict[str, SystemObject]:
        """The tables and views of the store by their names there."""
        return {found.name: each for each in self.own if (found := each.table or each.view) is not None}

    @cached_property
    def tables(self) -> tuple[SystemObject, ...]:
        """The tables of the store, by name."""
        return tuple(each for each in self.own if each.table is not None)

    @cached_property
    def keys(self) -> tuple[SystemObject, ...]:
        """The indexes of the unique primary keys, by the name of their table."""
        return tuple(
            SystemObject(each.schema, key_name(each.table), each.oid + 3, "i", table=each.table)
            for each in self.tables
            if each.table is not None and each.has_key
        )

    @cached_property
    def system(self) -> tuple[SystemObject, ...]:
        """The catalogs themselves."""
        return tuple(
            SystemObject(relation.schema, relation.name, relation.oid, "v" if relation.is_view else "r")
            for relation in relations().values()
        )

    def everything(self) -> Iterator[SystemObject]:
        """All relations."""
        yield from self.own
        yield from self.keys
        yield from self.system

    @cached_property
    def by_name(self) -> dict[tuple[str, str], int]:
        """The numbers of all relations by schema and name."""
        return {(each.schema, each.name): each.oid for each in self.everything()}

    @cached_property
    def shown_names(self) -> dict[int, str]:
        """The names of all relations by number, with the schema if the name alone means another relation or none."""
        found = {}
        for each in self.everything():
            name = name_text(each.name)
            found[each.oid] = name if self.is_visible(each) else f"{name_text(each.schema)}.{name}"
        return found

    def is_visible(self, relation: SystemObject) -> bool:
        """True if the name of a relation alone means it."""
        first = next((schema for schema in self.searched if (schema, relation.name) in self.by_name), None)
        return first == relation.schema
