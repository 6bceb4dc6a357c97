"""Statements on single rows in one step: recognized by their bytes, run by the thread that has read them.

    [Parse]  Bind  portal, statement, formats │ values │ result formats  [Describe]  Execute  [Sync]
             └──────────── head ────────────┘ └ new  ┘ └────────────── tail ────────────────┘
    Query    SELECT v FROM t WHERE k = │ 7 │

A driver sends the same bytes for each run of a prepared statement, but for the values. `learn` keeps head and tail of
a group that went message by message, if its statement reads or writes one row by its key; `match` recognizes a group
with the same head and tail. A Query is recognized by its text without literals (`driver.session.literal_shapes`).

    match ─┬─ a look-up ──► read ──► the response
           └─ a write ────► start ─► the log and memory ··· durable ─► finish ─► the response
                              └──► None: `run`, in a thread that may wait

This is the one place that says which statements the reactor's thread runs itself. Whatever differs (another plan, an
open transaction, an audit log) goes message by message in a thread of the pool, as does all else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ....driver.session.executions import RowExecution
from ....driver.session.literal_shapes import Shape, shape_of
from ....driver.session.plan_cache import Prepared
from ....driver.session.session import Session
from ....errors import Error
from ....executor.statements.single_rows import RowRead, RowWrite, SingleRow
from ....model.lazy_dataclass import dataclass
from ....model.store import WriteResult
from ....model.types import DataType
from ....sql.expressions import Column
from ....storage.database import Database
from ....storage.single_rows.row_write import StartedRow
from ..protocol import frontend, replies
from ..values.single_rows import row_encoder
from ..values.types import TEXT
from .bound_values import Values, ValuesMatcher, values_matcher
from .client_settings import ClientSettings
from .descriptions import Descriptions
from .names import decoded
from .portals import Portal, PreparedStatement, formats_for, row_fields
from .results import command_tag
from .statements import StatementText, split
from .transaction import TransactionBlock

LONGEST: Final = 4096
"""Bytes of a group of messages that is handled here."""
_MOST: Final = 200
_LENGTH: Final = struct.Struct("!i")
READY: Final = replies.READY[replies.IDLE]
SYNC: Final = b"S\0\0\0\4"
_BIND, _PARSE, _QUERY = b"BPQ"
_FIRST: Final = 5
"""Place of a message's body."""
_READ: Final = (frontend.Bind, frontend.Execute, frontend.Sync)
_DESCRIBED: Final = (frontend.Bind, frontend.Describe, frontend.Execute, frontend.Sync)
_VERBS: Final = (b"SELECT", b"INSERT", b"UPSERT", b"UPDATE", b"DELETE")
"""First words of a Query that may be about a single row, with the same number of letters."""


@dataclass(frozen=True, slots=True)
class Known:
    """A group of messages as a driver sends it, and the fixed parts of its response."""

    prepared: PreparedStatement | None
    """None: of a Query."""
    statement: StatementText
    """Without literals, if it is a Query."""
    variants: tuple[Prepared, ...]
    writes: bool
    parse: bytes
    """The Parse message in front; b"" for none."""
    match_values: ValuesMatcher
    """With the group's head and tail."""
    tail_bytes: int
    rest: int
    """Bytes of the tail that belong to Bind."""
    encode: Callable[[Sequence[Any]], bytes]
    columns: tuple[Column, ...] | None
    begun: bytes
    """The response up to an error of the statement."""
    before: bytes
    """Bytes in front of a row."""
    found: bytes
    """Behind a row, or one that was written."""
    missing: bytes
    """The response without a row."""

    @property
    def is_query(self) -> bool:
        """True for a Query, False for prepared statements."""
        return self.prepared is None


Match: TypeAlias = tuple[Known, Values, int, bytes]
"""A group, its values, the place behind it, and its ReadyForQuery: b"" if no Sync follows."""


class KnownGroups:
    """The groups of messages of one client that have been handled one by one.

    Parameters
    ----------
    session : Session
    settings : ClientSettings
    block : TransactionBlock
    statements, portals : mapping
        Those of the client; a Parse message replaces the unnamed statement.
    descriptions : Descriptions
    """

    def __init__(
        self,
        session: Session,
        settings: ClientSettings,
        block: TransactionBlock,
        statements: MutableMapping[bytes, PreparedStatement],
        portals: MutableMapping[bytes, Portal],
        descriptions: Descriptions,
    ):
        self._session = session
        self._settings = settings
        self._block = block
        self._statements = statements
        self._portals = portals
        self._descriptions = descriptions
        self._learnt: dict[bytes, Known] = {}
        """By the name of the statement, or by the Parse message."""
        self._texts: dict[str, Known] = {}
        """Of Query messages, by the text without literals."""

    # ---- recognizing -----------------------------------------------------------------------------------------------

    def match(self, data: bytes, place: int) -> Match | None:
        """The group that begins at a place of these bytes; None if its messages must be handled one by one."""
        if self._block.is_open or self._portals or not self._settings.are_settled or len(data) < place + _FIRST:
            return None
        kind = data[place]
        if kind == _BIND:
            return self._prepared(data, place, None)
        if kind == _PARSE:
            end = _end(data, place)
            if end is None or end - place > LONGEST:
                return None
            known = self._learnt.get(data[place:end])
            return None if known is None else self._prepared(data, end, known)
        return self._query(data, place) if kind == _QUERY else None

    def _prepared(self, data: bytes, place: int, known: Known | None) -> Match | None:
        """The group with the Bind message at a place; `known` is that of the Parse message in front of it."""
        start = place + _FIRST
        if known is None:
            # The name of the portal is empty, that of the statement follows.
            name = data[start + 1 : data.find(b"\0", start + 1)]
            known = self._learnt.get(name)
            if known is None or self._statements.get(name) is not known.prepared:
                return None
        found = known.match_values(data, start)
        if found is None or data[place] != _BIND:
            return None
        values, end = found
        if _LENGTH.unpack_from(data, place + 1)[0] != end + known.rest - place - 1:
            return None
        if self._session.plans.find(known.statement.text) is not known.variants:
            return None
        end += known.tail_bytes
        if data.startswith(SYNC, end):
            return known, values, end + len(SYNC), READY
        return None if known.writes else (known, values, end, b"")  # a write would be a part of a transaction

    def _query(self, data: bytes, place: int) -> Match | None:
        end = _end(data, place)
        if end is None or end - place > LONGEST or data[place + _FIRST : place + 11].upper() not in _VERBS:
            return None
        try:
            text = data[place + _FIRST : end - 1].decode().rstrip("; \t\r\n")
        except UnicodeDecodeError:
            return None
        if ";" in text or "\0" in text or data[end - 1]:
            return None
        shape = shape_of(text)
        variants = None if shape is None else self._session.plans.find(shape.text)
        if shape is None or not variants:
            return None
        known = self._texts.get(shape.text)
        if known is None or known.variants is not variants:
            known = self._learn_text(shape, variants)
        return None if known is None else (known, shape.values, end, READY)

    # ---- running ---------------------------------------------------------------------------------------------------

    def _cells(self, known: Known, values: Values) -> tuple[SingleRow, Sequence[Any]] | None:
        """The row path for these values; None if there is none."""
        if known.parse and known.prepared is not None:
            self._statements[b""] = known.prepared
        for prepared in known.variants:
            if prepared.single is not None:
                cells = prepared.cells(values, self._session.store)
                if cells is not None:
                    return prepared.single, cells
        return None

    def read(self, known: Known, values: Values) -> bytes | None:
        """The response to a look-up, without ReadyForQuery; None if its messages must be handled one by one.

        Raises as the statement does.
        """
        found, session = self._cells(known, values), self._session
        if found is None:
            return None
        single, cells = found
        if not isinstance(single, RowRead):
            return None
        if single.columns is not known.columns and single.columns != known.columns:
            return None  # other types of values have a plan of their own
        try:
            row = single.run(session.store, cells, session.moment)
        except Error as error:
            session.activity.fail(error)
            raise
        session.activity.by_row += 1
        return known.missing if row is None else known.before + known.encode(row) + known.found

    def start(self, known: Known, values: Values) -> StartedRow | None:
        """Enters the row of a write into memory and log. None, with nothing done, if the statement reads the row first,
        would have to wait before that, or fails."""
        store = self._session.store
        found = self._cells(known, values) if isinstance(store, Database) and self._session.moment is None else None
        if found is None:
            return None
        single, cells = found
        if not isinstance(single, RowWrite) or not single.is_blind or not isinstance(store, Database):
            return None
        try:
            return store.start_python_row(single.table, single.op, single.row(cells))
        except Error:
            return None  # run as any other, it has the error, too

    def finish(self, known: Known, outcome: WriteResult | Exception) -> bytes:
        """The response to a write of `start`, without ReadyForQuery. Raises its error."""
        session = self._session
        if isinstance(outcome, Exception):
            if isinstance(outcome, Error):
                session.activity.fail(outcome)
            raise outcome
        session.activity.by_row += 1
        session.note_write(outcome.timestamp)
        return known.before + known.found

    def run(self, known: Known, values: Values) -> bytes:
        """Runs a prepared write as a statement of the session, which may wait; returns as `finish`."""
        execution = self._session.run(known.statement.text, values or None)
        execution.drain()
        return known.before + replies.command_complete(command_tag(known.statement, execution, 0))

    # ---- learning --------------------------------------------------------------------------------------------------

    def learn(self, data: bytes, messages: Sequence[Any]) -> None:
        """Keeps a group of messages that will be handled one by one, if its statement is about single rows and has run
        before."""
        parse = b""
        if messages and type(messages[0]) is frontend.Parse:
            # The same bytes do not come again for a name, which is taken.
            if messages[0].name or not self._is_repeated(messages[0]):
                return
            end = _end(data, 0) or 0
            parse, data, messages = data[:end], data[end:], messages[1:]
        kinds = tuple(map(type, messages))
        if kinds not in (_READ, _DESCRIBED) or len(data) + len(parse) > LONGEST:
            return
        bind, execute = messages[0], messages[-2]
        is_described = kinds == _DESCRIBED
        named = [bind.portal, execute.portal, *([messages[1].name] if is_described else [])]
        prepared = self._statements.get(bind.statement)
        if any(named) or execute.rows or (is_described and messages[1].kind != b"P") or (parse and bind.statement):
            return
        if prepared is None or prepared.statement is None:
            return
        variants = self._session.plans.find(prepared.statement.text)
        if not variants or not are_single(variants):
            return
        single = variants[0].single
        columns = single.columns if isinstance(single, RowRead) else None
        try:
            parts = _parts(data, bind)
            matcher = self._matcher(parts, bind, prepared)
            formats = () if columns is None else formats_for(bind.result_formats, len(columns))
        except Error:
            return
        begun = (replies.PARSE_COMPLETE if parse else b"") + replies.BIND_COMPLETE
        described = b""
        if is_described:
            described = replies.NO_DATA if columns is None else replies.row_description(row_fields(columns, formats))
        known = _known(prepared, prepared.statement, variants, parse, matcher, parts, formats, begun, described)
        self._keep(self._learnt, parse or bind.statement, known)

    def _is_repeated(self, message: frontend.Parse) -> bool:
        """True if a Parse message that has not been handled makes the unnamed statement that there is already."""
        prepared = self._statements.get(b"")
        if prepared is None or prepared.oids != message.types:
            return False
        try:
            return split(decoded(message.text)) == (prepared.statement,)
        except Error:
            return False

    def _learn_text(self, shape: Shape, variants: tuple[Prepared, ...]) -> Known | None:
        """Keeps a text without its literals; None if it is not about single rows."""
        if not are_single(variants):
            return None
        (statement,) = split(shape.text)
        single = variants[0].single
        columns = single.columns if isinstance(single, RowRead) else ()
        formats = (TEXT,) * len(columns)
        described = replies.row_description(row_fields(columns, formats)) if columns else b""
        known = _known(None, statement, variants, b"", _no_values, _Parts(b"", b"", 0), formats, b"", described)
        self._keep(self._texts, shape.text, known)
        return known

    def _keep(self, kept: dict[Any, Known], key: bytes | str, known: Known) -> None:
        if len(kept) >= _MOST:
            kept.clear()
        kept[key] = known

    def _matcher(self, parts: _Parts, bind: frontend.Bind, prepared: PreparedStatement) -> ValuesMatcher:
        count = len(bind.values)
        oids = (*prepared.oids, *[0] * count)[:count]
        inferred: tuple[DataType | None, ...] = ()
        if not all(oids) and prepared.statement is not None:
            inferred = self._descriptions.of(prepared, prepared.statement).parameters
        types = (*inferred, *[None] * count)[:count]
        return values_matcher(parts.head, parts.tail, oids, formats_for(bind.formats, count), types)


def are_single(variants: Sequence[Prepared]) -> bool:
    """True if the plans that are kept of a text read or write single rows by their keys."""
    return all(known.single is not None for known in variants)


def _end(data: bytes, place: int) -> int | None:
    """The place behind a message; None if it is not complete."""
    end: int = place + 1 + _LENGTH.unpack_from(data, place + 1)[0]
    return end if place + _FIRST < end <= len(data) else None


class _Parts(NamedTuple):
    """Of a group; `rest` as in `Known`."""

    head: bytes
    tail: bytes
    rest: int


def _parts(data: bytes, bind: frontend.Bind) -> _Parts:
    """The parts of a group that begins with Bind and ends with Sync."""
    start = _FIRST + len(bind.portal) + len(bind.statement) + 2 + 2 + 2 * len(bind.formats) + 2
    end = start + sum(4 + len(value or b"") for value in bind.values)
    return _Parts(data[_FIRST:start], data[end : -len(SYNC)], 2 + 2 * len(bind.result_formats))


def _no_values(data: bytes, place: int) -> None:
    """Those of a Query, which are in its text."""


def _known(
    prepared: PreparedStatement | None,
    statement: StatementText,
    variants: tuple[Prepared, ...],
    parse: bytes,
    match_values: ValuesMatcher,
    parts: _Parts,
    formats: tuple[int, ...],
    begun: bytes,
    described: bytes,
) -> Known:
    single = variants[0].single
    assert single is not None
    columns = single.columns if isinstance(single, RowRead) else None
    found, missing = (
        replies.command_complete(command_tag(statement, RowExecution(single, rowcount=rows), rows)) for rows in (1, 0)
    )
    before = begun + described
    return Known(
        prepared=prepared,
        statement=statement,
        variants=variants,
        writes=columns is None,
        parse=parse,
        match_values=match_values,
        tail_bytes=len(parts.tail),
        rest=parts.rest,
        encode=row_encoder(tuple(column.type for column in columns or ()), formats),
        columns=columns,
        # A look-up that fails does so before its columns are described.
        begun=before if columns is None else begun,
        before=before,
        found=found,
        missing=before + missing,
    )
