"""nyala's types as PostgreSQL's: numbers, modifiers, names; and the types that PostgreSQL's clients look up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from ....model.lazy_dataclass import dataclass
from ....model.types import DataType, Kind
from .type_numbers import CONVERTERS, TYPES

_BY_KIND: Final = {
    Kind.BOOLEAN: "bool",
    Kind.TINYINT: "int2",
    Kind.SMALLINT: "int2",
    Kind.INT: "int4",
    Kind.BIGINT: "int8",
    Kind.FLOAT: "float4",
    Kind.DOUBLE: "float8",
    Kind.DECIMAL: "numeric",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.STRING: "text",
    Kind.BINARY: "bytea",
    Kind.INTERVAL: "interval",
    Kind.NULL: "text",
}
LONG_NAMES: Final = {
    "bool": "boolean",
    "char": '"char"',
    "int8": "bigint",
    "int2": "smallint",
    "int4": "integer",
    "float4": "real",
    "float8": "double precision",
    "bpchar": "character",
    "varchar": "character varying",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone",
    "varbit": "bit varying",
}
"""The names that SQL has for types, by PostgreSQL's own."""
_HEADER: Final = 4
"""PostgreSQL adds the size of a header to the modifiers of varchar and numeric."""
DEFAULT_COLLATION: Final = 100


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A row of `pg_type`: `facts` are the values of its columns by name."""

    oid: int
    name: str
    facts: dict[str, Any]


@cache
def postgres_types() -> dict[str, PostgresType]:
    """The types by PostgreSQL's own names, array types included (`_int4`)."""
    return {type_.name: type_ for type_ in _types()}


@cache
def converters() -> dict[str, int]:
    """The numbers of the functions that convert types, by name."""
    return {name: int(oid) for name, oid in (entry.split(":") for entry in CONVERTERS.split())}


@cache
def names_by_oid() -> dict[int, str]:
    """SQL's names of all types, by number; those of arrays end in `[]`."""
    return {type_.oid: long_name(name) for name, type_ in postgres_types().items()}


def long_name(name: str) -> str:
    """The name that SQL has for a type.

    >>> long_name("int4"), long_name("_int4"), long_name("date")
    ('integer', 'integer[]', 'date')
    """
    plain = name.removeprefix("_")
    return LONG_NAMES.get(plain, plain) + ("[]" if plain != name else "")


def postgres_name(type_: DataType) -> str:
    """PostgreSQL's own name of a type.

    >>> postgres_name(DataType(Kind.STRING, length=20)), postgres_name(DataType(Kind.BIGINT, alias="oid"))
    ('varchar', 'oid')
    """
    if type_.alias is not None and "[]" in type_.alias:
        return "_" + type_.alias.removesuffix("[]")
    if type_.length is not None:
        return "varchar"
    return type_.alias or _BY_KIND[type_.kind]


def oid_of(type_: DataType) -> int:
    """The number of PostgreSQL's type for a type."""
    found = postgres_types().get(postgres_name(type_))
    return postgres_types()["text"].oid if found is None else found.oid


def modifier_of(type_: DataType) -> int:
    """PostgreSQL's modifier of a type, -1 for none: the length of a varchar, the digits of a numeric."""
    if type_.length is not None:
        return type_.length + _HEADER
    if type_.precision is not None:
        return (type_.precision << 16 | (type_.scale or 0)) + _HEADER
    return -1


def _types() -> Iterator[PostgresType]:
    names = (
        *("oid", "typname", "typlen", "typbyval", "typtype", "typcategory", "typispreferred", "typelem", "typarray"),
        *("typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typalign", "typstorage"),
        "typcollation",
    )
    texts = ("typname", "typtype", "typcategory", "typalign", "typstorage")
    for line in TYPES.strip().splitlines():
        facts: dict[str, Any] = dict(zip(names, line.split(), strict=True))
        for name in names:
            if name in ("typbyval", "typispreferred"):
                facts[name] = facts[name] == "t"
            elif name not in texts:
                facts[name] = int(facts[name])
        facts["typsubscript"] = 0
        yield PostgresType(facts["oid"], facts["typname"], facts)
        if facts["typarray"]:
            array = _array_facts(facts)
            yield PostgresType(array["oid"], array["typname"], array)


def _array_facts(element: dict[str, Any]) -> dict[str, Any]:
    """The columns of the array type of a type."""
    numbers = converters()
    return element | {
        "oid": element["typarray"],
        "typname": "_" + element["typname"],
        "typlen": -1,
        "typbyval": False,
        "typtype": "b" if element["typtype"] != "p" else "p",
        "typcategory": "A",
        "typispreferred": False,
        "typelem": element["oid"],
        "typarray": 0,
        "typinput": numbers["array_in"],
        "typoutput": numbers["array_out"],
        "typreceive": numbers["array_recv"],
        "typsend": numbers["array_send"],
        "typalign": "d" if element["typalign"] == "d" else "i",
        "typstorage": "x",
    }
