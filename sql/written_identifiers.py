"""Names in texts: `main."T"`, as functions and casts of the system catalogs take them."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^".\s]+))\s*(\.|$)')


def qualified(schema: str, name: str) -> str:
    """The written name of a table or view of a schema, which means it whatever the search path is.

    >>> qualified("public", 'a"b')
    '"public"."a""b"'
    """
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in (schema, name))


def name_parts(text: str, folded: bool = True) -> list[str]:
    """The parts of a written name: `Main."T"` is `main`, `T`; empty if it is none. Names without quotes are `folded` to
    lower case.

    >>> name_parts('Main."T"'), name_parts("Main . T", folded=False), name_parts("1")
    (['main', 'T'], ['Main', 'T'], ['1'])
    """
    parts, position, end = [], 0, "."
    while end == ".":
        match = _PART.match(text, position)
        if match is None:
            return []
        quoted, plain, end = match.groups()
        parts.append(quoted.replace('""', '"') if quoted is not None else plain.lower() if folded else plain)
        position = match.end()
    return parts
