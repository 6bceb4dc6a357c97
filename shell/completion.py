"""Completion of keywords, functions, settings, tables, views and columns.

Behind FROM, JOIN, INTO and the like a table or view is wanted, one of WITH, or a function that gives rows; behind SET
and RESET a setting. Elsewhere columns of the tables that the statement names come first, then keywords, then everything
else. Of several statements only the one under the cursor counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from ..driver.connection import Connection
from ..errors import Error
from .commands import COMMANDS
from .reader import split
from .words import FROM_FUNCTIONS, FUNCTIONS, KEYWORDS, SETTINGS

_TABLE_WANTED: Final = re.compile(r"\b(from|join|into|table|view|describe|copy|upsert)\s+[\w.]*$", re.IGNORECASE)
_TABLE_POSSIBLE: Final = re.compile(
    r"\b(using|update|desc|truncate|analyze|partitions|stats(\s+for)?)\s+[\w.]*$", re.IGNORECASE
)
"""Words behind which a table may come, and other words as well: `DO UPDATE SET`, `k DESC LIMIT`, `USING (`."""
_NEXT_TABLE: Final = re.compile(r"\b(from|join|using)\s+[\w.]+(\s+(as\s+)?\w+)?\s*(,[^()]*)?,\s*\w*$", re.IGNORECASE)
"""Behind a comma of FROM."""
_COLUMN_WANTED: Final = re.compile(
    r"(\b(select|distinct|where|and|or|not|on|by|having|set|returning|case|when|then|else|between)|[,(=<>+*/-])\s*$",
    re.IGNORECASE,
)
"""Behind these a name comes, so that Tab shows the columns before a letter is typed."""
_WITH_NAME: Final = re.compile(r"(?:\bwith(?:\s+recursive)?|,)\s+(\w+)\s*(?:\([^()]*\)\s*)?as\s*\(", re.IGNORECASE)
_ROWS_WANTED: Final = re.compile(r"\b(from|join|using|lateral)\s+\w+$", re.IGNORECASE)
_SETTING_WANTED: Final = re.compile(r"(^|;)\s*(set|reset|show)\s+\w*$", re.IGNORECASE)
_WORD: Final = re.compile(r"[\w]+$")


class SqlCompleter(Completer):
    """Completes from the catalog as it is when the key is pressed."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text, before = _statement(document)
        command = re.match(r"\s*(\\\S*)(\s+)?", before)
        if command is None:
            yield from self._sql(text, before)
        elif command[2] is None:
            yield from _matching(command[1], [command.name for command in COMMANDS], "command")
        else:
            yield from self._argument(command[1], before[command.end() :], complete_event)

    def _argument(self, name: str, rest: str, event: CompleteEvent) -> Iterator[Completion]:
        takes = next((command.takes for command in COMMANDS if command.name == name), ())
        if takes == "sql":
            yield from self._sql(rest, rest)
        elif takes == "files":
            yield from PathCompleter(expanduser=True).get_completions(Document(rest), event)
        elif takes == "tables":
            yield from _matching(rest, self._tables(), "table")
        elif not isinstance(takes, str):
            yield from _matching(rest, takes, "")

    def _sql(self, text: str, before: str) -> Iterator[Completion]:
        match = _WORD.search(before)
        word = match[0] if match else ""
        tables = self._tables()
        if _SETTING_WANTED.search(before):
            yield from _matching(word, SETTINGS, "setting")
        possible = _TABLE_POSSIBLE.search(before)
        if possible or _TABLE_WANTED.search(before) or _in_from(before):
            yield from _matching(word, [*_WITH_NAME.findall(text), *tables], "table")
            if _ROWS_WANTED.search(before):
                yield from _matching(word, FROM_FUNCTIONS, "function")
            if possible and word:
                yield from _matching(word, _in_case(KEYWORDS, word), "keyword")
        elif word or before.endswith(".") or _COLUMN_WANTED.search(before):
            yield from self._columns(text, before, word, tables)
            if word and not _qualified(before, word):
                yield from _matching(word, _in_case(KEYWORDS, word), "keyword")
                yield from _matching(word, FUNCTIONS, "function")
                yield from _matching(word, tables, "table")

    def _columns(self, text: str, before: str, word: str, tables: dict[str, list[str]]) -> Iterator[Completion]:
        """Columns of the tables named anywhere in the statement; behind `table.` of that table alone."""
        qualifier = _qualified(before, word)
        if qualifier and qualifier not in tables:
            qualifier = _aliased(text, qualifier, tables)
        if qualifier in tables:
            yield from _matching(word, tables[qualifier], qualifier)
            return
        words = {name.lower() for name in re.findall(r"\w+", text)}
        for table in tables:
            if table in words:
                yield from _matching(word, tables[table], table)

    def _tables(self) -> dict[str, list[str]]:
        try:
            store = self._connection.store
            views = {view.name: list(view.columns) for view in store.views()}
            return views | {table.name: table.schema.names for table in store.tables()}
        except Error:
            # Completion must never interrupt typing; the statement itself will tell what is wrong.
            return {}


def _statement(document: Document) -> tuple[str, str]:
    """The statement that the cursor is in, and its part before the cursor."""
    spans, _ = split(document.text)
    start = max((stop + 1 for _, stop in spans if stop < document.cursor_position), default=0)
    stop = min((stop for _, stop in spans if stop >= document.cursor_position), default=len(document.text))
    return document.text[start:stop], document.text[start : document.cursor_position]


def _in_from(before: str) -> bool:
    """Is a table wanted behind a comma: of FROM, and of no clause behind it?"""
    found = _NEXT_TABLE.search(before)
    return found is not None and not re.search(
        r"\b(where|group|order|having|limit|on|select|set|values)\b", found[0], re.IGNORECASE
    )


def _qualified(before: str, word: str) -> str:
    match = re.search(r"(\w+)\.$", before[: len(before) - len(word)])
    return match[1].lower() if match else ""


def _aliased(text: str, alias: str, tables: Iterable[str]) -> str:
    """The table that the statement gives an alias to; else the alias itself."""
    for table in re.findall(rf"(\w+)\s+(?:as\s+)?{re.escape(alias)}\b", text, re.IGNORECASE):
        if table.lower() in tables:
            return str(table.lower())
    return alias


def _matching(word: str, names: Iterable[str], what: str) -> Iterator[Completion]:
    for name in names:
        if name.lower().startswith(word.lower()):
            yield Completion(name, start_position=-len(word), display_meta=what)


def _in_case(keywords: Iterable[str], word: str) -> Iterator[str]:
    """Keywords in the case that the user types in."""
    return (keyword.lower() if word.islower() else keyword for keyword in keywords)
