"""Statements on single rows in one step: the messages of a prepared statement, compared with those of its previous run.

    Bind  portal, statement, formats │ values │ result formats  Describe  Execute  Sync
          └──────── head ──────────┘ └ new  ┘ └───────────────── tail ─────────────────┘

A driver sends the same bytes for each run of a prepared statement, but for the values. `learn` keeps head and tail of
a group that went message by message, if its statement reads or writes one row by its key; `match` recognizes a group
with the same head and tail, and `run` makes its response. Whatever differs (another plan, an open transaction, a
timeout) goes message by message, as does all else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ....driver.session.executions import RowExecution
from ....driver.session.plan_cache import Prepared
from ....driver.session.session import Session
from ....errors import Error
from ....executor.statements.single_rows import RowWrite
from ....model.lazy_dataclass import dataclass
from ....model.types import DataType
from ....sql.expressions import Column
from ..protocol import frontend, replies
from ..values.parameters import parameter_value
from ..values.single_rows import encode_row
from .client_settings import ClientSettings
from .descriptions import Descriptions
from .portals import Portal, PreparedStatement, formats_for, row_fields
from .results import command_tag
from .statements import StatementText
from .transaction import TransactionBlock

LONGEST: Final = 4096
"""Bytes of a group of messages that is handled here."""
_MOST: Final = 200
_LENGTH: Final = struct.Struct("!i")
_READY: Final = replies.READY[replies.IDLE]
_BIND: Final = ord("B")
_FIRST: Final = 5
"""Place of a message's body."""
_READ: Final = (frontend.Bind, frontend.Execute, frontend.Sync)
_DESCRIBED: Final = (frontend.Bind, frontend.Describe, frontend.Execute, frontend.Sync)


def are_single(variants: Sequence[Prepared] | None) -> bool:
    """True if the plans that are kept of a text read or write single rows by their keys, and there are any."""
    return bool(variants) and all(known.single is not None for known in variants or ())


def is_lookup(variants: Sequence[Prepared] | None) -> bool:
    """True if the plans that are kept of a text read single rows by their keys, and there are any."""
    return are_single(variants) and not any(isinstance(known.single, RowWrite) for known in variants or ())


@dataclass(frozen=True, slots=True)
class Known:
    """A group of messages as a driver sends it, and the fixed parts of its response."""

    prepared: PreparedStatement
    statement: StatementText
    writes: bool
    variants: tuple[Prepared, ...]
    head: bytes
    tail: bytes
    length: int
    """Of the Bind message, without its kind and its values."""
    readers: tuple[Callable[[bytes], Any], ...]
    columns: tuple[Column, ...] | None
    types: tuple[DataType, ...]
    formats: tuple[int, ...]
    before: bytes
    """Bytes in front of a row, or of the error of a write."""
    found: bytes
    """Behind a row."""
    missing: bytes
    """The response without a row."""


class KnownGroups:
    """The groups of messages of one client that have been handled one by one, by the name of their statement.

    Parameters
    ----------
    session : Session
    settings : ClientSettings
    block : TransactionBlock
    statements, portals : mapping
        Those of the client.
    descriptions : Descriptions
    """

    def __init__(
        self,
        session: Session,
        settings: ClientSettings,
        block: TransactionBlock,
        statements: Mapping[bytes, PreparedStatement],
        portals: Mapping[bytes, Portal],
        descriptions: Descriptions,
    ):
        self._session = session
        self._settings = settings
        self._block = block
        self._statements = statements
        self._portals = portals
        self._descriptions = descriptions
        self._learnt: dict[bytes, Known] = {}

    def match(self, data: bytes) -> tuple[Known, tuple[Any, ...]] | None:
        """The group of these bytes, and its values; None if its messages must be handled one by one."""
        if len(data) <= _FIRST or data[0] != _BIND or data[_FIRST]:
            return None
        name = data[_FIRST + 1 : data.find(b"\0", _FIRST + 1)]
        known = self._learnt.get(name)
        if known is None or not (data.startswith(known.head, _FIRST) and data.endswith(known.tail)):
            return None
        if self._statements.get(name) is not known.prepared or self._block.is_open or self._portals:
            return None
        if self._session.plans.find(known.statement.text) is not known.variants or not self._settings.are_plain:
            return None
        values = _values(data, known)
        return None if values is None else (known, values)

    def run(self, known: Known, values: tuple[Any, ...]) -> bytes | None:
        """The response to a group; None if its messages must be handled one by one, which a write never needs.

        Raises as the statement does.
        """
        execution = self._session.run(known.statement.text, values or None)
        if known.writes:
            execution.drain()
            return known.before + replies.command_complete(command_tag(known.statement, execution, 0)) + _READY
        if not isinstance(execution, RowExecution) or not _are_same(execution.columns, known.columns):
            execution.close()
            return None
        rows = execution.next_rows()
        if rows is None:
            return known.missing
        return known.before + encode_row(rows[0][0], known.types, known.formats) + known.found

    def learn(self, data: bytes, messages: Sequence[Any]) -> None:
        """Keeps a group of messages that has been handled, if its statement is about single rows."""
        kinds = tuple(map(type, messages))
        if kinds not in (_READ, _DESCRIBED) or len(data) > LONGEST:
            return
        bind, execute = messages[0], messages[-2]
        is_described = kinds == _DESCRIBED
        named = [bind.portal, execute.portal, *([messages[1].name] if is_described else [])]
        prepared = self._statements.get(bind.statement)
        if any(named) or execute.rows or (is_described and messages[1].kind != b"P"):
            return
        if prepared is None or prepared.statement is None:
            return
        variants = self._session.plans.find(prepared.statement.text)
        if not variants or variants[0].single is None or not are_single(variants):
            return
        execution = RowExecution(variants[0].single)
        columns = execution.columns
        try:
            readers = self._readers(bind, prepared)
            formats = () if columns is None else formats_for(bind.result_formats, len(columns))
        except Error:
            return
        before = replies.BIND_COMPLETE
        if is_described:
            described = columns and replies.row_description(row_fields(columns, formats))
            before += described or replies.NO_DATA
        found, missing = (
            replies.command_complete(command_tag(prepared.statement, execution, rows)) + _READY for rows in (1, 0)
        )
        if len(self._learnt) >= _MOST:
            self._learnt.clear()
        self._learnt[bind.statement] = Known(
            prepared,
            prepared.statement,
            columns is None,
            variants,
            *_parts(data, bind),
            readers,
            columns,
            tuple(column.type for column in columns or ()),
            formats,
            before,
            found,
            before + missing,
        )

    def _readers(self, bind: frontend.Bind, prepared: PreparedStatement) -> tuple[Callable[[bytes], Any], ...]:
        """Of each parameter, its bytes to its value."""
        count = len(bind.values)
        oids = (*prepared.oids, *[0] * count)[:count]
        inferred: tuple[DataType | None, ...] = ()
        if not all(oids) and prepared.statement is not None:
            inferred = self._descriptions.of(prepared, prepared.statement).parameters
        types = (*inferred, *[None] * count)[:count]
        return tuple(
            partial(parameter_value, oid=oid, format_=format_, inferred=type_)
            for oid, format_, type_ in zip(oids, formats_for(bind.formats, count), types, strict=True)
        )


def _are_same(columns: tuple[Column, ...] | None, known: tuple[Column, ...] | None) -> bool:
    """True if plans for other types of values have these columns, too."""
    return columns is known or columns == known


def _parts(data: bytes, bind: frontend.Bind) -> tuple[bytes, bytes, int]:
    """Head and tail of a group, and the length of its Bind message without the values."""
    head = len(bind.portal) + len(bind.statement) + 2 + 2 + 2 * len(bind.formats) + 2
    size = sum(4 + len(value or b"") for value in bind.values)
    (length,) = _LENGTH.unpack_from(data, 1)
    return data[_FIRST : _FIRST + head], data[_FIRST + head + size :], length - size


def _values(data: bytes, known: Known) -> tuple[Any, ...] | None:
    """The values of a group; None if its bytes are not those of a Bind message, or no values of their types."""
    place = _FIRST + len(known.head)
    end = len(data) - len(known.tail)
    if _LENGTH.unpack_from(data, 1)[0] != known.length + end - place:
        return None
    values: list[Any] = []
    for reader in known.readers:
        if place + 4 > end:
            return None
        (size,) = _LENGTH.unpack_from(data, place)
        place += 4
        if size < 0:
            if size != -1:
                return None
            values.append(None)
            continue
        if place + size > end:
            return None
        try:
            values.append(reader(data[place : place + size]))
        except Error:
            return None  # handled again, where errors are reported
        place += size
    return tuple(values) if place == end else None
