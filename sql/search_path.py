"""The setting `search_path`: the schemas in which a name without one is searched, in order.

>>> parse_path('"$user", Public, "Mixed"')
('$user', 'public', 'Mixed')
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..errors import StatementError
from ..model.namespaces import DEFAULT_NAMESPACE

USER_SCHEMA: Final = "$user"
"""The entry that stands for the schema with the name of the session's user."""
DEFAULT_PATH: Final = (USER_SCHEMA, DEFAULT_NAMESPACE)
DEFAULT_TEXT: Final = f'"{USER_SCHEMA}", {DEFAULT_NAMESPACE}'
_ENTRY: Final = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",\s]+))\s*(,|$)')


def parse_path(text: str) -> tuple[str, ...]:
    """The names in a value of the setting, folded; empty names and repetitions are left out. Raises `StatementError`
    where it is no list of names."""
    if not text.strip():
        return ()
    found: dict[str, None] = {}
    position, end = 0, ","
    while end == ",":
        match = _ENTRY.match(text, position)
        if match is None:
            raise StatementError(f"search_path is a list of schemas such as {DEFAULT_TEXT}, not {text}")
        quoted, plain, end = match.groups()
        name = plain.lower() if quoted is None else quoted.replace('""', '"')
        if name:
            found[name] = None
        position = match.end()
    return tuple(found)


def read_path(value: Any) -> str:
    """A value of the setting as it is kept: the text that was given."""
    if not isinstance(value, str):
        raise StatementError(f"search_path is a list of schemas such as {DEFAULT_TEXT}, not {value}")
    parse_path(value)
    return value
