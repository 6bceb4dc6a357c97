"""Kinds of rights, the objects that they are for, and the keys of objects in grants."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..lazy_dataclass import dataclass
from ..namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ..schema import Table, View


class Right(Enum):
    """A right; the value is its letter in PostgreSQL's access lists."""

    SELECT = "r"
    INSERT = "a"
    UPDATE = "w"
    DELETE = "d"
    TRUNCATE = "D"
    USAGE = "U"
    CREATE = "C"


TABLE_RIGHTS: Final = (Right.SELECT, Right.INSERT, Right.UPDATE, Right.DELETE, Right.TRUNCATE)
SCHEMA_RIGHTS: Final = (Right.USAGE, Right.CREATE)
LETTERS: Final = (Right.INSERT, Right.SELECT, Right.UPDATE, Right.DELETE, Right.TRUNCATE, Right.USAGE, Right.CREATE)
"""The rights in the order in which access lists have them."""
DEFAULT_SCHEMA: Final = DEFAULT_NAMESPACE
"""The schema that every store has."""


@dataclass(frozen=True, slots=True)
class Secured:
    """An object that has an owner and grants.

    Parameters
    ----------
    kind : {"table", "view", "schema"}
    name : str
    key : str
        Its identity in grants: a table's is its permanent id, so it survives a RENAME.
    owner : str
        A role; empty for the store's own role.
    """

    kind: str
    name: str
    key: str
    owner: str = ""

    @property
    def rights(self) -> tuple[Right, ...]:
        """The rights that such an object can have."""
        return SCHEMA_RIGHTS if self.kind == "schema" else TABLE_RIGHTS


def secured(object_: Table | View) -> Secured:
    """A table or view as an object with grants. A temporary one has none: its key is that of no object of the store,
    which numbers its tables in the same way."""
    if object_.namespace == TEMPORARY_NAMESPACE:
        kind = "table" if isinstance(object_, Table) else "view"
        return Secured(kind, object_.name, f"temporary:{object_.name}", object_.owner)
    if isinstance(object_, Table):
        return Secured("table", object_.name, object_.id, object_.owner)
    return Secured("view", object_.name, view_key(object_.name), object_.owner)


def view_key(name: str) -> str:
    """The key of a view, which has no id."""
    return f"view:{name}"


def secured_schema(name: str = DEFAULT_SCHEMA, owner: str = "") -> Secured:
    """A schema as an object with grants."""
    return Secured("schema", name, schema_key(name), owner)


def schema_key(name: str) -> str:
    """The key of a schema."""
    return f"schema:{name}"
