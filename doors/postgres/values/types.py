"""Types on the wire: nyala's types under the oids of PostgreSQL, which drivers know by heart.

| nyala | PostgreSQL | oid |
|---|---|---|
| BOOLEAN | bool | 16 |
| TINYINT, SMALLINT | int2 | 21 |
| INT | int4 | 23 |
| BIGINT | int8 | 20 |
| FLOAT | float4 | 700 |
| DOUBLE | float8 | 701 |
| DECIMAL(p, s) | numeric | 1700 |
| DATE | date | 1082 |
| TIMESTAMP | timestamp | 1114 |
| INTERVAL | interval | 1186 |
| STRING, VARCHAR(n) | text, varchar | 25, 1043 |
| BINARY | bytea | 17 |
| the type of a bare NULL | text | 25 |
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

from ....model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
)
from ....sql.binding.system.types import postgres_name, postgres_types
from ....sql.functions.arrays import is_array

TEXT: Final = 0
BINARY_FORMAT: Final = 1
"""The two formats of a value."""


class WireType(NamedTuple):
    """A type as RowDescription names it; `size` -1: varying, `modifier` -1: none."""

    oid: int
    size: int
    modifier: int = -1


_TYPES: Final = {
    Kind.BOOLEAN: WireType(16, 1),
    Kind.TINYINT: WireType(21, 2),
    Kind.SMALLINT: WireType(21, 2),
    Kind.INT: WireType(23, 4),
    Kind.BIGINT: WireType(20, 8),
    Kind.FLOAT: WireType(700, 4),
    Kind.DOUBLE: WireType(701, 8),
    Kind.DATE: WireType(1082, 4),
    Kind.TIMESTAMP: WireType(1114, 8),
    Kind.INTERVAL: WireType(1186, 16),
    Kind.STRING: WireType(25, -1),
    Kind.BINARY: WireType(17, -1),
    Kind.NULL: WireType(25, -1),
}
_HEADER: Final = 4
"""Added to every modifier of varying length, as PostgreSQL does."""


def wire_type(type_: DataType) -> WireType:
    """The type's oid, size and modifier.

    >>> wire_type(DECIMAL(15, 2))
    WireType(oid=1700, size=-1, modifier=983046)
    """
    if type_.alias is not None and (found := _of_catalogs(type_)) is not None:
        return found
    if type_.kind is Kind.DECIMAL:
        assert type_.precision is not None and type_.scale is not None
        return WireType(1700, -1, (type_.precision << 16 | type_.scale) + _HEADER)
    if type_.length is not None:
        return WireType(1043, -1, type_.length + _HEADER)
    return _TYPES[type_.kind]


_CATALOG_TYPES: Final = ("oid", "xid", "name", "char", "int2vector", "oidvector")


def _of_catalogs(type_: DataType) -> WireType | None:
    """A type of the system catalogs; None for one that goes as what nyala has for it."""
    if type_.alias not in _CATALOG_TYPES and not is_array(type_):
        return None
    found = postgres_types().get(postgres_name(type_))
    return None if found is None else WireType(found.oid, found.facts["typlen"])


def element_oid(type_: DataType) -> int | None:
    """The oid of an array's elements; None for a type that is no array."""
    if not is_array(type_):
        return None
    found = postgres_types().get(postgres_name(type_))
    return None if found is None else int(found.facts["typelem"])


_BY_OID: Final = {
    16: BOOLEAN,
    17: BINARY,
    20: BIGINT,
    21: SMALLINT,
    23: INT,
    26: BIGINT,  # oid
    700: FLOAT,
    701: DOUBLE,
    1082: DATE,
    1114: TIMESTAMP,
    1184: TIMESTAMP,  # timestamptz: what is stored is UTC
    1186: INTERVAL,
    1700: DECIMAL(MAX_PRECISION, 10),
    **dict.fromkeys((18, 19, 25, 1042, 1043), STRING),  # char, name, text, bpchar, varchar
}


def type_of(oid: int) -> DataType | None:
    """The type of parameters of an oid; None if the oid says nothing: unknown, or a type that nyala does not have."""
    return _BY_OID.get(oid) or _arrays().get(oid)


@cache
def _arrays() -> dict[int, DataType]:
    """The types of arrays that have a binary format here, by oid."""
    names = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "text", "varchar", "name")
    return {postgres_types()[f"_{name}"].oid: DataType(Kind.STRING, alias=f"{name}[]") for name in names}


def parameter_oid(type_: DataType | None) -> int:
    """The oid by which a parameter of a type is described; a text if the type is open."""
    if type_ is None:
        return 25
    return wire_type(type_ if is_array(type_) else replace(type_, alias=None)).oid
