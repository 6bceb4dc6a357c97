"""Look-ups of the functions of the catalogs: texts and numbers by name or number, from the objects of the catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ....errors import UnknownFunction, UnknownSchema, UnknownTable
from ....model.namespaces import DEFAULT_ALIAS, DEFAULT_NAMESPACE
from ....model.types import BIGINT, STRING, DataType
from ...coercion import cast
from ...expressions import Call, Expr, Literal
from ...written_identifiers import name_parts
from ..names import canonical
from ..tables.show_create import name_text
from .objects import Objects
from .pg_server import functions
from .roles import role_names
from .types import LONG_NAMES, converters, names_by_oid, postgres_types

COLUMNS_PER_TABLE: Final = 10_000
"""Columns are looked up by the number of their table times this, plus their place."""
_SIZE: Final = re.compile(r"\s*\([\d,\s]*\)")
_SQL_NAMES: Final = {long: short for short, long in LONG_NAMES.items()}
_MORE_NAMES: Final = {"int": "int4", "decimal": "numeric", "float": "float8", "string": "text", "char": "bpchar"}


def looked_up(key: Expr, texts: Mapping[int, str]) -> Expr:
    """The text of a number, NULL if it has none."""
    if isinstance(key, Literal):
        number = cast(key, BIGINT)
        assert isinstance(number, Literal)
        found = None if number.value is None else texts.get(number.value)
        return Literal(STRING, found is None, found)
    return Call(STRING, True, "catalog_text", (cast(key, BIGINT), mapping(texts)))


def mapping(texts: Mapping[int, str]) -> Literal:
    """Texts by number, as the kernels read them: a JSON object."""
    return Literal(STRING, False, json.dumps({str(number): text for number, text in texts.items()}))


# ---- numbers by name -------------------------------------------------------------------------------------------------


def number_of(kind: str, text: str, objects: Objects) -> int | None:
    """The number of the object that a name means, for a type such as `regclass`; None if there is none."""
    plain = text.strip()
    if plain.isdigit():
        return int(plain)
    if plain == "-":
        return 0
    if kind == "regtype":
        return _type_number(plain)
    parts = name_parts(plain)
    if not parts or len(parts) > 2:
        return None
    if kind == "regclass":
        return _relation_number(parts, objects)
    if kind == "regnamespace":
        return objects.namespaces.get(canonical(parts[-1]))
    if kind == "regrole":
        return next((number for number, name in role_names(objects).items() if name == parts[-1]), None)
    if kind == "regcollation":
        return {"default": 100, "c": 950, "C": 950}.get(parts[-1])
    name = parts[-1].partition("(")[0]
    numbers = {**{name: oid for oid, name, _, _ in functions()}, **converters()}
    return numbers.get(name)


def _relation_number(parts: list[str], objects: Objects) -> int | None:
    schemas = [canonical(parts[0])] if len(parts) > 1 else objects.searched
    numbers = objects.by_name
    return next((numbers[schema, parts[-1]] for schema in schemas if (schema, parts[-1]) in numbers), None)


def _type_number(text: str) -> int | None:
    name = _SIZE.sub("", text.lower()).strip().removeprefix("pg_catalog.")
    is_array = name.endswith("[]")
    name = name.removesuffix("[]").strip()
    if text.startswith('"') and name.endswith('"'):
        name = name.strip('"')
    else:
        name = _SQL_NAMES.get(name, _MORE_NAMES.get(name, name))
    found = postgres_types().get(f"_{name}" if is_array else name)
    return None if found is None else found.oid


def unknown(kind: str, text: str) -> Exception:
    """The error for a name of no object."""
    what = {"regclass": "table", "regtype": "type", "regnamespace": "schema", "regrole": "role"}.get(kind, "function")
    error = {"function": UnknownFunction, "schema": UnknownSchema}.get(what, UnknownTable)
    return error(f"{what} {text} does not exist")


# ---- texts by number -------------------------------------------------------------------------------------------------


def texts_of(kind: str, objects: Objects) -> Mapping[int, str]:
    """The names by number that a value of a type such as `regclass` is shown as."""
    if kind == "regclass":
        return objects.shown_names
    if kind == "regtype":
        return names_by_oid()
    if kind == "regnamespace":
        return {number: name_text(name) for name, number in objects.namespaces.items()}
    if kind == "regrole":
        return {number: name_text(name) for number, name in role_names(objects).items()}
    if kind == "regcollation":
        return {100: '"default"', 950: '"C"'}
    return {**{oid: name for oid, name, _, _ in functions()}, **{oid: name for name, oid in converters().items()}}


def shown(value: Expr, objects: Objects) -> Expr:
    """A value of a type such as `regclass` as the text that PostgreSQL shows: a name, or the number if it has none."""
    kind = value.type.alias or ""
    texts: Mapping[int, str] = {0: "-", **texts_of(kind, objects)}
    found = looked_up(value, texts)
    number = cast(retyped(value, BIGINT), STRING)
    if isinstance(found, Literal):
        return number if found.value is None else found
    return Call(STRING, value.nullable, "coalesce", (found, number))


def retyped(value: Expr, type_: DataType) -> Expr:
    """The same value under an equal type with another alias."""
    changed: Any = replace(value, type=type_)
    return changed  # type: ignore[no-any-return]


def names_to_numbers(value: Expr, kind: str, objects: Objects) -> Expr:
    """The numbers of objects by texts that are computed row by row; NULL where there is none."""
    names: dict[str, int] = {}
    if kind == "regclass":
        for (schema, name), number in objects.by_name.items():
            names[f"{name_text(schema)}.{name_text(name)}"] = names[f'"{schema}"."{name}"'] = number
            names[f"{schema}.{name}"] = number
            if schema == DEFAULT_NAMESPACE:
                names[f"{DEFAULT_ALIAS}.{name_text(name)}"] = number
        names |= {shown: number for number, shown in objects.shown_names.items()}
    else:
        names = {DEFAULT_ALIAS: objects.namespaces[DEFAULT_NAMESPACE], **objects.namespaces}
    texts = Literal(STRING, False, json.dumps({name: str(number) for name, number in names.items()}))
    return cast(Call(STRING, True, "catalog_text", (value, texts)), BIGINT)
