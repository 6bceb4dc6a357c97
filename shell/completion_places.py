"""Kinds of words allowed at the cursor, derived from the text before it, which is seldom a whole statement."""

from __future__ import annotations

import re
from typing import Final

from ..model.lazy_dataclass import dataclass
from .reader import open_quote

TABLES: Final = "tables"
VIEWS: Final = "views"
BOTH: Final = "both"
ROLES: Final = "roles"

_SCHEMA: Final = r"(?:(?:\w+|\"[^\"]+\")\s*\.\s*)?$"


def _granted(words: str) -> re.Pattern[str]:
    """Behind words of GRANT or REVOKE, whose FROM and ON are not those of a query."""
    return re.compile(rf"^\s*(?:grant|revoke)\s.*\s(?:{words})\s+{_SCHEMA}", re.IGNORECASE | re.DOTALL)


def _behind(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\s+{_SCHEMA}", re.IGNORECASE)


_PLACES: Final = (
    (_behind(r"(?:drop|alter)\s+(?:user|role)(?:\s+if\s+exists)?|set(?:\s+session)?\s+role"), ROLES, False),
    (_behind(r"grants\s+for|owner\s+to|in\s+role"), ROLES, False),
    (_granted("to|from"), ROLES, False),
    (_granted("on"), BOTH, False),
    (_behind(r"grants\s+on"), BOTH, True),
    (_behind(r"(?:drop|alter)\s+view(?:\s+if\s+exists)?|(?:create|replace)\s+view"), VIEWS, True),
    (
        _behind(r"(?:drop|alter)\s+table(?:\s+if\s+exists)?|truncate\s+table|compact\s+table|analyze\s+table"),
        TABLES,
        True,
    ),
    (_behind(r"delete\s+from|into|upsert|partitions|stats\s+for"), TABLES, True),
    (_behind(r"from|join|table|view|describe|copy|like|columns\s+in"), BOTH, True),
    (_behind(r"update|truncate|analyze|stats"), TABLES, False),
    (_behind(r"using|desc"), BOTH, False),
)
"""Words followed by a relation or a role: its kinds, and whether no other word can follow (`DO UPDATE SET`,
`k DESC LIMIT`, `USING (`). The first match counts."""
_IN_FROM: Final = _behind(r"(?<!delete )from|join|using|lateral")
_NEXT_TABLE: Final = re.compile(r'\b(from|join|using)\s+[\w."]+(\s+(as\s+)?[\w"]+)?\s*(,[^()]*)?,\s*$', re.IGNORECASE)
"""Behind a comma of FROM."""
_COLUMN_WANTED: Final = re.compile(
    r"(\b(select|distinct|where|and|or|not|on|by|having|set|returning|case|when|then|else|between)|[,(=<>+*/-])\s*$",
    re.IGNORECASE,
)
"""Behind these a name comes, so that Tab shows the columns before a letter is typed."""
_SETTING_WANTED: Final = re.compile(r"(^|;)\s*(set|reset|show)\s+$", re.IGNORECASE)
_PATH_WANTED: Final = re.compile(
    r"(\b(from|join)\s*|\bcopy\b.*\b(from|to)\s*|\bread_(csv|parquet)\s*\(\s*(\[\s*)?)$", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The word under the cursor and what stands before it.

    Parameters
    ----------
    head : str
        The statement up to the word, and up to the quote that is open before it.
    word : str
        The part of the word before the cursor, without a quote.
    quote : str
        The quote that is open: `"` in a name, `'` in a text, `-` or `/` in a comment; empty outside.
    qualifier : str
        The name before the point in front of the word; empty where there is none.
    """

    head: str
    word: str
    quote: str = ""
    qualifier: str = ""


def cursor_of(before: str) -> Cursor:
    """The word at the end of a text.

    >>> cursor_of('select t."We')
    Cursor(head='select t.', word='We', quote='"', qualifier='t')
    """
    quote, position = open_quote(before)
    if quote:
        head, word = before[:position], before[position + 1 :]
    else:
        found = re.search(r"\w*$", before)
        assert found is not None
        head, word = before[: found.start()], found[0]
    return Cursor(head, word, quote, _qualifier(head))


def _qualifier(head: str) -> str:
    match = re.search(r'(?:(\w+)|"((?:[^"]|"")+)")\.$', head)
    if match is None:
        return ""
    return match[2].replace('""', '"') if match[2] else match[1].lower()


def names_wanted(head: str) -> tuple[str, bool]:
    """The names that come next (`TABLES`, `VIEWS`, `BOTH`, `ROLES`, or "" for none), and whether nothing else can.

    >>> names_wanted("DROP VIEW "), names_wanted("SELECT 1 FROM "), names_wanted("UPDATE ")
    (('views', True), ('both', True), ('tables', False))
    """
    for pattern, kinds, is_certain in _PLACES:
        if pattern.search(head):
            return kinds, is_certain
    return (BOTH, True) if _is_behind_comma(head) else ("", True)


def is_in_from(head: str) -> bool:
    """True if the next relation belongs to FROM, so that names of WITH and functions are allowed."""
    return _IN_FROM.search(head) is not None or _is_behind_comma(head)


def _is_behind_comma(head: str) -> bool:
    """True after a comma of FROM, where a table follows, unless another clause has begun."""
    match = _NEXT_TABLE.search(head)
    return match is not None and not re.search(
        r"\b(where|group|order|having|limit|on|select|set|values)\b", match[0], re.IGNORECASE
    )


def is_column_wanted(before: str) -> bool:
    """True if a column may come next, without a letter of it."""
    return _COLUMN_WANTED.search(before) is not None


def is_setting_wanted(head: str) -> bool:
    """True if the name of a setting may come next, or of another thing that SHOW shows."""
    return _SETTING_WANTED.search(head) is not None


def is_path_wanted(head: str) -> bool:
    """True if a quoted text that begins here is the path of a file."""
    return _PATH_WANTED.search(head) is not None
