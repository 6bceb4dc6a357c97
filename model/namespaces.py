"""Schemas of SQL, which the code calls namespaces as PostgreSQL's does: a schema here has columns (`model.schema`).

A store has one set of names for its tables and views. An object of the default namespace has its own name there; one of
another namespace has both, `staging.orders`. So all that is keyed by a table's name (caches, statistics, messages,
metrics) distinguishes tables of one name in two namespaces.

>>> full_name("public", "orders"), full_name("staging", "orders"), full_name("a.b", "c.d")
('orders', 'staging.orders', '"a.b"."c.d"')
>>> local_name("staging", "staging.orders"), local_name("public", "staging.orders")
('orders', 'staging.orders')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import DependentObjects, DuplicateSchema, InvalidTableDefinition
from .lazy_dataclass import dataclass

DEFAULT_NAMESPACE: Final = "public"
"""The namespace that each store has, of names that are written without one."""
DEFAULT_ALIAS: Final = "main"
"""Another name of the default namespace, which earlier versions had."""
TEMPORARY_NAMESPACE: Final = "pg_temp"
"""The namespace of a session's temporary objects. Only the stores in memory that hold them have it."""
_RESERVED: Final = ("information_schema", "nyala_catalog")
_SHOWN: Final = 3
"""The objects that an error about a namespace names at most."""
MAX_NAME_BYTES: Final = 63
"""Length of a namespace's name in bytes of UTF-8, as in PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A schema of SQL: a set of tables and views. `owner` is a role; empty for the store's own role."""

    name: str
    owner: str = ""


def full_name(namespace: str, name: str) -> str:
    """The name of a table or view in the store."""
    return name if namespace == DEFAULT_NAMESPACE else f"{_part(namespace)}.{_part(name)}"


def local_name(namespace: str, name: str) -> str:
    """The name of a table or view within its namespace, of its name in the store."""
    if namespace == DEFAULT_NAMESPACE:
        return name
    part = name[len(_part(namespace)) + 1 :]
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _part(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""')) if "." in name or '"' in name else name


def not_empty(name: str, found: Sequence[str]) -> DependentObjects:
    """The error for a namespace that is not dropped, as it has these tables and views."""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return DependentObjects(
        f"schema {name} has {', '.join(found[:_SHOWN])}{more}; DROP SCHEMA ... CASCADE drops its tables and views too"
    )


def check_new_namespace(name: str) -> None:
    """Raise `InvalidTableDefinition` where no namespace can have the name, `DuplicateSchema` for the default one."""
    if not name:
        raise InvalidTableDefinition("a schema needs a name")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidTableDefinition(f"the schema's name {name} is longer than {MAX_NAME_BYTES} bytes")
    if (name.startswith("pg_") and name != TEMPORARY_NAMESPACE) or name in _RESERVED:
        raise InvalidTableDefinition(
            f"a schema cannot be called {name}: names that begin with pg_, and {' and '.join(_RESERVED)}, are those of "
            "the system"
        )
    if name in (DEFAULT_NAMESPACE, DEFAULT_ALIAS):
        also = "" if name == DEFAULT_NAMESPACE else f"; it is another name of {DEFAULT_NAMESPACE}"
        raise DuplicateSchema(f"schema {name} exists already{also}")
