"""Reads and writes one-dimensional arrays as PostgreSQL's texts: `{1,2}`, `{"a b",NULL}`.

Arrays exist only as such texts: in the system catalogs, in ANY and ALL, and in the functions that read them.

>>> parse_array('{1,"a,b",NULL,"NULL"}')
['1', 'a,b', None, 'NULL']
>>> write_array(["1", "a,b", None, "NULL", ""])
'{1,"a,b",NULL,"NULL",""}'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import InvalidText

_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^",{}\\\s]|\\.|\s+(?![\s,}]))+))\s*([,}])', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r"[^\s\"\\{},]+")


def parse_array(text: str) -> list[str | None]:
    """The elements of an array's text, None for NULL; `InvalidText` if it is none, or has several dimensions.

    The vectors of the catalogs, such as `pg_index.indkey`, are written with spaces and without braces.
    """
    plain = text.strip()
    if not plain.startswith("{"):
        if plain and not re.fullmatch(r"-?\d+(?: -?\d+)*", plain):
            raise InvalidText(f"{text!r} is not an array: it is written {{a,b}}")
        return list(plain.split())
    if not plain[1:-1].strip() and plain.endswith("}"):
        return []
    found: list[str | None] = []
    position, end = 1, ","
    while end == ",":
        match = _ITEM.match(plain, position)
        if match is None:
            raise InvalidText(f"{text!r} is not an array of one dimension: it is written {{a,b}}")
        quoted, bare, end = match.groups()
        if quoted is not None:
            found.append(_ESCAPE.sub(r"\1", quoted))
        else:
            found.append(None if bare.upper() == "NULL" else _ESCAPE.sub(r"\1", bare))
        position = match.end()
    if position != len(plain):
        raise InvalidText(f"{text!r} is not an array of one dimension: it is written {{a,b}}")
    return found


def write_element(value: str | None) -> str:
    """One element as it is written within an array, quoted where that is needed."""
    if value is None:
        return "NULL"
    if _PLAIN.fullmatch(value) and value.upper() != "NULL":
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_array(values: Iterable[str | None]) -> str:
    """The text of an array."""
    return "{" + ",".join(map(write_element, values)) + "}"
