"""Functions of the system catalogs: arrays as texts, texts by number, names of types.

Catalogs are small and repeat their values, so each function is computed once per distinct combination of arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ....errors import InvalidText
from ....model.vectors.vector import Vector
from ....sql.array_text import parse_array, write_array, write_element
from ....sql.written_identifiers import name_parts
from ..distinct import per_distinct

_SIZES: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_HEADER: Final = 4
_MAPPINGS: Final = 64
"""Number of mappings that are kept parsed."""


@lru_cache(_MAPPINGS)
def _mapping(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text)
    return found


def catalog_text(key: int, mapping: str) -> str | None:
    """The text of a number in a JSON object; None if it has none."""
    return _mapping(mapping).get(str(key))


def type_name(oid: int | None, modifier: int | None, names: str) -> str | None:
    """The name of a type with its modifier, as `format_type` writes it.

    >>> names = '{"1043": "character varying", "1700": "numeric", "1015": "character varying[]"}'
    >>> type_name(1043, 24, names), type_name(1700, 786438, names), type_name(1015, 24, names), type_name(7, -1, names)
    ('character varying(20)', 'numeric(12,2)', 'character varying(20)[]', '???')
    """
    if oid is None:
        return None
    name = _mapping(names).get(str(oid), "-" if oid == 0 else "???")
    if modifier is None or modifier < _HEADER:
        return name
    plain = name.removesuffix("[]")
    size = modifier - _HEADER
    if plain == "numeric":
        shown = f"({size >> 16},{size & 0xFFFF})"
    elif plain in ("character varying", "character"):
        shown = f"({size})"
    else:
        return name
    return plain + shown + name[len(plain) :]


def array_element(array: str, place: int) -> str | None:
    """The element at a place. Those of arrays count from 1, those of the catalogs' vectors from 0."""
    found = parse_array(array)
    place -= array.lstrip().startswith("{")
    return found[place] if 0 <= place < len(found) else None


def array_length(array: str, dimension: int) -> int | None:
    """The number of elements; None for an empty array, as PostgreSQL has it, and for a second dimension."""
    return len(parse_array(array)) or None if dimension == 1 else None


def array_upper(array: str, dimension: int) -> int | None:
    """The last subscript."""
    length = array_length(array, dimension)
    return None if length is None else length - 1 + array_lowest(array)


def array_lower(array: str, dimension: int) -> int | None:
    """The first subscript."""
    return None if array_length(array, dimension) is None else array_lowest(array)


def array_lowest(array: str) -> int:
    """The first subscript that elements of a kind of array have: 1, or 0 for a vector of the catalogs."""
    return int(array.lstrip().startswith("{"))


def array_to_string(array: str | None, separator: str | None, missing: str | None = None) -> str | None:
    """The elements joined by a separator; NULLs as `missing`, or left out."""
    if array is None or separator is None:
        return None
    shown = (missing if element is None else element for element in parse_array(array))
    return separator.join(element for element in shown if element is not None)


def string_to_array(text: str | None, separator: str | None, missing: str | None = None) -> str | None:
    """The parts of a text between separators, each character without one; parts equal to `missing` are NULL."""
    if text is None:
        return None
    parts: list[str] = list(text) if separator is None else text.split(separator) if separator else [text]
    return write_array(None if part == missing else part for part in (parts if text else []))


def array_join(*values: str | None) -> str:
    """An array of the values."""
    return write_array(values)


def array_cat(left: str | None, right: str | None) -> str | None:
    """Two arrays as one; NULL is an empty one, unless both are."""
    if left is None or right is None:
        return right if left is None else left
    return write_array([*parse_array(left), *parse_array(right)])


def array_contains(array: str | None, value: str | None) -> bool | None:
    """`value = ANY (array)`: None if the array has no such element, and NULLs."""
    if array is None:
        return None
    found = parse_array(array)
    if value is None:
        return None if found else False
    return True if value in found else None if None in found else False


def array_position(array: str | None, value: str | None) -> int | None:
    """The subscript of the first element that equals a value."""
    found = [] if array is None else parse_array(array)
    return found.index(value) + array_lowest(array or "{") if value in found else None


def array_remove(array: str | None, value: str | None) -> str | None:
    """An array without the elements that equal a value."""
    return None if array is None else write_array(each for each in parse_array(array) if each != value)


def parse_ident(text: str) -> str:
    """`parse_ident`: the parts of a name, folded."""
    parts = name_parts(text)
    if not parts:
        raise InvalidText(f"{text!r} is not a name")
    return write_array(parts)


def record_field(record: str, place: int) -> str | None:
    """A field of a record, by its place from 1.

    >>> record_field("(3,1)", 1)
    '3'
    """
    fields = record.strip("()").split(",")
    return fields[place - 1] if 0 < place <= len(fields) else None


def size_pretty(size: int) -> str:
    """A number of bytes in the largest unit of which there are at least ten.

    >>> size_pretty(10239), size_pretty(10240), size_pretty(123456789)
    ('10239 bytes', '10 kB', '118 MB')
    """
    value, unit = size, 0
    while abs(value) >= (10 << 10 if unit == 0 else 20 << 10) and unit < len(_SIZES) - 1:
        # PostgreSQL keeps one bit more than it shows, to round by.
        value, unit = value >> (9 if unit == 0 else 10), unit + 1
    return f"{value if unit == 0 else (value + 1) >> 1} {_SIZES[unit]}"


def json_object(*parts: Any) -> str:
    """`json_build_object(name, value, ...)`."""
    pairs = zip(parts[::2], parts[1::2])  # the binder has checked that there are as many of both
    return "{" + ", ".join(f"{json.dumps(str(k))} : {json.dumps(v, default=str)}" for k, v in pairs) + "}"


def _each(function: Callable[..., Any], strict: bool = True) -> Callable[..., Vector]:
    """Make a kernel of a function of Python values."""
    return lambda type_, *args: per_distinct(function, type_, args, strict)


KERNELS: dict[str, Callable[..., Vector]] = {
    "array_cat": _each(array_cat, strict=False),
    "array_contains": _each(array_contains, strict=False),
    "array_element": _each(array_element),
    "array_join": _each(array_join, strict=False),
    "array_length": _each(array_length),
    "array_lower": _each(array_lower),
    "array_position": _each(array_position, strict=False),
    "array_quote": _each(write_element, strict=False),
    "array_remove": _each(array_remove, strict=False),
    "array_to_string": _each(array_to_string, strict=False),
    "array_upper": _each(array_upper),
    "catalog_text": _each(catalog_text),
    "format_type": _each(type_name, strict=False),
    "json_build_object": _each(json_object, strict=False),
    "parse_ident": _each(parse_ident),
    "pg_size_pretty": _each(size_pretty),
    "record_field": _each(record_field),
    "string_to_array": _each(string_to_array, strict=False),
}
