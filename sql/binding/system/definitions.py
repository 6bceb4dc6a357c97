"""The relations of the system catalogs by name: their numbers and columns, with the types that nyala has for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from ....model.lazy_dataclass import dataclass
from ....model.types import DataType, Kind
from .columns_a_to_o import COLUMNS as A_TO_O
from .columns_information import COLUMNS as INFORMATION
from .columns_nyala import COLUMNS as NYALA
from .columns_p_to_z import COLUMNS as P_TO_Z

FIRST_VIEW: Final = 10000
"""PostgreSQL numbers its system tables below, its system views from here on."""
_KINDS: Final = {
    "bool": Kind.BOOLEAN,
    "int2": Kind.SMALLINT,
    "int4": Kind.INT,
    "int8": Kind.BIGINT,
    "float4": Kind.FLOAT,
    "float8": Kind.DOUBLE,
    "timestamptz": Kind.TIMESTAMP,
    "interval": Kind.INTERVAL,
    "bytea": Kind.BINARY,
    "text": Kind.STRING,
    **dict.fromkeys(("oid", "xid", "regproc", "regtype", "regclass"), Kind.BIGINT),
}
"""The kinds of the catalogs' types; all others are texts."""


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """A column of a system catalog: its name, PostgreSQL's name of its type, and nyala's type."""

    name: str
    type_name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class SystemRelation:
    """A relation of a system catalog."""

    schema: str
    name: str
    oid: int
    columns: tuple[SystemColumn, ...]

    @property
    def is_view(self) -> bool:
        """True if PostgreSQL has it as a view."""
        return self.oid >= FIRST_VIEW


def system_type(name: str) -> DataType:
    """nyala's type for a type of the catalogs.

    >>> str(system_type("regclass")), system_type("regclass").alias, str(system_type("int2[]"))
    ('BIGINT', 'regclass', 'STRING')
    """
    plain = name in ("text", "bytea", "bool", "interval") or name[-1].isdigit()
    return DataType(_KINDS.get(name, Kind.STRING), alias=None if plain else name)


@cache
def relations() -> dict[tuple[str, str], SystemRelation]:
    """All relations by schema and name."""
    parts = (
        ("pg_catalog", "pg_", A_TO_O),
        ("pg_catalog", "pg_", P_TO_Z),
        ("information_schema", "", INFORMATION),
        ("nyala_catalog", "", NYALA),
    )
    found = (relation for schema, prefix, text in parts for relation in _parsed(schema, prefix, text))
    return {(relation.schema, relation.name): relation for relation in found}


def _parsed(schema: str, prefix: str, text: str) -> Iterator[SystemRelation]:
    for line in text.replace("\n  ", " ").strip().splitlines():
        name, oid, *columns = line.split()
        pairs = (column.split(":") for column in columns)
        found = tuple(SystemColumn(column, type_, system_type(type_)) for column, type_ in pairs)
        yield SystemRelation(schema, prefix + name, int(oid), found)
