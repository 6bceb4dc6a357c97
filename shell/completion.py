"""Completion of keywords, functions, settings, tables, views, columns, roles and files.

After FROM, JOIN, INTO and similar words it completes tables, views, names of WITH, and functions that return rows;
after SET and RESET settings; after TO and FROM of GRANT and REVOKE, and similar words, roles; in a quoted text after
FROM or COPY files. Elsewhere columns of the tables that the statement names come first, then keywords, then everything
else. Of several statements only the one under the cursor counts.

Names are offered as a statement has to write them: `"Weird col"` in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from ..driver.connection import Connection
from ..errors import Error
from ..model.namespaces import DEFAULT_ALIAS, DEFAULT_NAMESPACE
from ..sql.syntax.grammar.catalog import SHOWN
from ..sql.syntax.written_names import written_name
from .commands.commands import COMMANDS
from .completion_places import (
    ROLES,
    TABLES,
    VIEWS,
    Cursor,
    cursor_of,
    is_column_wanted,
    is_in_from,
    is_path_wanted,
    is_setting_wanted,
    names_wanted,
)
from .keywords import FROM_FUNCTIONS, FUNCTIONS, KEYWORDS, SETTINGS
from .reader import split

_WITH_NAME: Final = re.compile(r"(?:\bwith(?:\s+recursive)?|,)\s+(\w+)\s*(?:\([^()]*\)\s*)?as\s*\(", re.IGNORECASE)
_SHOW_WORDS: Final = (*sorted(SHOWN), "ALL")


class SqlCompleter(Completer):
    """Completes from the catalog as it is when the key is pressed."""

    def __init__(self, connection: Connection):
        self._connection = connection

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text, before = _statement(document)
        command = re.match(r"\s*(\\\S*)(\s+)?", before)
        if command is None:
            yield from self._sql(text, before, complete_event)
        elif command[2] is None:
            yield from _matching(command[1], [command.name for command in COMMANDS], "command")
        else:
            yield from self._argument(command[1], before[command.end() :], complete_event)

    def _argument(self, name: str, rest: str, event: CompleteEvent) -> Iterator[Completion]:
        takes = next((command.takes for command in COMMANDS if command.name == name), ())
        if takes == "sql":
            yield from self._sql(rest, rest, event)
        elif takes == "files":
            yield from PathCompleter(expanduser=True).get_completions(Document(rest), event)
        elif takes == "tables":
            yield from _named(cursor_of(rest), self._relations(), "table")
        elif not isinstance(takes, str):
            yield from _matching(rest, takes, "")

    def _sql(self, text: str, before: str, event: CompleteEvent) -> Iterator[Completion]:
        cursor = cursor_of(before)
        if cursor.quote == "'" and is_path_wanted(cursor.head):
            yield from PathCompleter().get_completions(Document(cursor.word), event)
        if cursor.quote not in ("", '"'):
            return  # a text, or a comment
        if cursor.quote:  # which is not closed: quotes behind the cursor would pair with it
            text = cursor.head + text[len(before) :]
        if is_setting_wanted(cursor.head):
            yield from self._settings(cursor)
            return
        wanted, is_certain = names_wanted(cursor.head)
        if wanted:
            yield from self._names_wanted(text, cursor, wanted)
            if not is_certain and cursor.word:
                yield from _matching(cursor.word, _in_case(KEYWORDS, cursor.word), "keyword")
        elif cursor.word or before.endswith(".") or is_column_wanted(before):
            yield from self._anything(text, cursor)

    def _settings(self, cursor: Cursor) -> Iterator[Completion]:
        if re.search(r"\bshow\s+$", cursor.head, re.IGNORECASE):
            yield from _matching(cursor.word, _in_case(_SHOW_WORDS, cursor.word), "keyword")
        else:
            yield from _matching(cursor.word, _in_case(("ROLE",), cursor.word), "keyword")
        yield from _matching(cursor.word, SETTINGS, "setting")

    def _names_wanted(self, text: str, cursor: Cursor, wanted: str) -> Iterator[Completion]:
        if wanted == ROLES:
            yield from _named(cursor, self._roles(), "role")
            return
        if wanted != VIEWS and is_in_from(cursor.head):
            yield from _matching(cursor.word, _WITH_NAME.findall(text), "table")
        if wanted != VIEWS:
            yield from _named(cursor, self._tables(cursor.qualifier), "table")
        if wanted != TABLES:
            yield from _named(cursor, self._views(cursor.qualifier), "view")
        if cursor.word and not cursor.qualifier:
            yield from _named(cursor, self._schemas(), "schema")
        if is_in_from(cursor.head) and cursor.word and not cursor.quote:
            yield from _matching(cursor.word, FROM_FUNCTIONS, "function")

    def _anything(self, text: str, cursor: Cursor) -> Iterator[Completion]:
        relations = self._relations()
        yield from self._columns(text, cursor, relations)
        if cursor.word and not cursor.qualifier and not cursor.quote:
            yield from _matching(cursor.word, _in_case(KEYWORDS, cursor.word), "keyword")
            yield from _matching(cursor.word, FUNCTIONS, "function")
        if cursor.word and not cursor.qualifier:
            yield from _named(cursor, self._tables(), "table")
            yield from _named(cursor, self._views(), "view")

    def _columns(self, text: str, cursor: Cursor, relations: Mapping[str, list[str]]) -> Iterator[Completion]:
        """Columns of the tables named anywhere in the statement; behind `table.` of that table alone."""
        qualifier = cursor.qualifier
        if qualifier and qualifier not in relations:
            qualifier = _aliased(text, qualifier, relations)
        if qualifier in relations:
            yield from _named(cursor, relations[qualifier], qualifier)
            return
        words = _names_in(text)
        for table in relations:
            if table in words:
                yield from _named(cursor, relations[table], table)

    # ---- the catalog ----------------------------------------------------------------------------------------------

    def _relations(self) -> dict[str, list[str]]:
        return self._views() | self._tables()

    def _tables(self, schema: str = "") -> dict[str, list[str]]:
        """The columns of tables by the names that they have within their schemas: of one schema, or of all."""
        try:
            found = self._connection.store.tables()
            return {t.local_name: t.schema.names for t in found if schema in ("", t.namespace, _alias(t.namespace))}
        except Error:
            # Completion must never interrupt typing; errors are reported when the statement runs.
            return {}

    def _views(self, schema: str = "") -> dict[str, list[str]]:
        try:
            found = self._connection.store.views()
            return {v.local_name: list(v.columns) for v in found if schema in ("", v.namespace, _alias(v.namespace))}
        except Error:
            return {}

    def _roles(self) -> list[str]:
        try:
            return [role.name for role in self._connection.store.access.all_roles()]
        except Error:
            return []

    def _schemas(self) -> list[str]:
        try:
            return [found.name for found in self._connection.store.namespaces() if found.name != DEFAULT_NAMESPACE]
        except Error:
            return []


def _alias(namespace: str) -> str:
    """Another name of a schema, or its own."""
    return DEFAULT_ALIAS if namespace == DEFAULT_NAMESPACE else namespace


def _statement(document: Document) -> tuple[str, str]:
    """The statement that the cursor is in, and its part before the cursor."""
    spans, _ = split(document.text)
    start = max((stop + 1 for _, stop in spans if stop < document.cursor_position), default=0)
    stop = min((stop for _, stop in spans if stop >= document.cursor_position), default=len(document.text))
    return document.text[start:stop], document.text[start : document.cursor_position]


def _names_in(text: str) -> set[str]:
    """All words of a statement, folded, and its quoted names."""
    quoted = {name.replace('""', '"') for name in re.findall(r'"((?:[^"]|"")+)"', text)}
    return quoted | {name.lower() for name in re.findall(r"\w+", text)}


def _aliased(text: str, alias: str, tables: Iterable[str]) -> str:
    """The table that the statement gives an alias to; else the alias itself."""
    pattern = rf'(?:(\w+)|"((?:[^"]|"")+)")\s+(?:as\s+)?"?{re.escape(alias)}\b'
    for plain, quoted in re.findall(pattern, text, re.IGNORECASE):
        table = quoted.replace('""', '"') or plain.lower()
        if table in tables:
            return str(table)
    return alias


def _named(cursor: Cursor, names: Iterable[str], what: str) -> Iterator[Completion]:
    """Names of the catalog that begin with the word, written as a statement needs them; in quotes where one is open."""
    for name in names:
        if name.lower().startswith(cursor.word.lower()):
            written = written_name(name)
            if cursor.quote and not written.startswith('"'):
                written = f'"{written}"'
            start = -len(cursor.word) - len(cursor.quote)
            yield Completion(written, start_position=start, display_meta=what)


def _matching(word: str, names: Iterable[str], what: str) -> Iterator[Completion]:
    for name in names:
        if name.lower().startswith(word.lower()):
            yield Completion(name, start_position=-len(word), display_meta=what)


def _in_case(keywords: Iterable[str], word: str) -> Iterator[str]:
    """Keywords in the case that the user types in."""
    return (keyword.lower() if word.islower() else keyword for keyword in keywords)
