"""YCSB's operations as SQL: the same statements for every SQL store, except for the mark of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import NotFound
from ....model.lazy_dataclass import dataclass
from ..model import COLUMNS, FIELD_NAMES, KEY, TABLE, Fields

_FIELDS = ", ".join(FIELD_NAMES)


@dataclass(frozen=True, slots=True)
class Statements:
    """The texts of the statements, or their prepared form; of `updates` one for each field.

    Parameters: the key; first key and count; key and fields; value and key.
    """

    read: Any
    scan: Any
    insert: Any
    updates: Sequence[Any]


def statements(mark: str) -> Statements:
    """The statements with this mark for a parameter: `?` or `%s`."""
    return Statements(
        read=f"SELECT {_FIELDS} FROM {TABLE} WHERE {KEY} = {mark}",
        scan=f"SELECT {_FIELDS} FROM {TABLE} WHERE {KEY} >= {mark} ORDER BY {KEY} LIMIT {mark}",
        insert=f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(mark for _ in COLUMNS)})",
        updates=tuple(f"UPDATE {TABLE} SET {name} = {mark} WHERE {KEY} = {mark}" for name in FIELD_NAMES),
    )


class CursorClient:
    """The operations on a cursor of PEP 249 whose every statement is a transaction. A load is the store's own."""

    def __init__(self, cursor: Any, statements: Statements) -> None:
        self._cursor = cursor
        self._statements = statements

    def read(self, key: str) -> Fields:
        """SELECT of all fields by the key."""
        row: Fields | None = self._cursor.execute(self._statements.read, (key,)).fetchone()
        if row is None:
            raise NotFound(f"there is no row with key {key}")
        return row

    def update(self, key: str, field: int, value: str) -> None:
        """UPDATE of one field by the key; a missing key is an error."""
        if self._cursor.execute(self._statements.updates[field], (value, key)).rowcount != 1:
            raise NotFound(f"there is no row with key {key}")

    def insert(self, key: str, fields: Fields) -> None:
        """INSERT of one row; the store rejects an existing key."""
        self._cursor.execute(self._statements.insert, (key, *fields))

    def scan(self, first: str, count: int) -> Sequence[Fields]:
        """SELECT with a lower bound, ORDER BY and LIMIT."""
        rows: Sequence[Fields] = self._cursor.execute(self._statements.scan, (first, count)).fetchall()
        return rows
