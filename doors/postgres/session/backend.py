"""The messages of one client: each is handled by a generator, which yields the bytes of the response.

    Query     ─► statements of the text, each with its rows and its tag ─► ReadyForQuery
    Parse, Bind, Describe, Execute, Close ─► prepared statements and portals      Sync ─► ReadyForQuery
    an error  ─► ErrorResponse; behind an extended message, all is skipped until Sync

`WAIT` among the bytes: the statement is COPY FROM STDIN, and its generator continues when the data is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ....driver.connection import Connection
from ....driver.session.executions import Execution, Halt
from ....errors import Error
from ....model import waiting_time
from ....model.types import DataType
from ...audited import Audited, AuditedStatement
from ..protocol import frontend, replies
from ..values.parameters import parameter_value
from ..values.types import TEXT
from . import commands, statements
from .client_settings import ClientSettings
from .copy_syntax import CopyStatement, parse_copy
from .copying import CopyIn, copy_out
from .descriptions import Descriptions
from .known_groups import KnownGroups
from .named_objects import NamedObjects, refuse_many
from .names import decoded, result_columns, shown
from .one_step import OneStep
from .portals import Portal, PreparedStatement, formats_for, row_fields
from .reports import Refused, report
from .results import RowWriter, command_tag
from .statements import Kind, StatementText
from .transaction import CONTROL, TransactionBlock


class _Wait(bytes):
    """No bytes at all, but another object than other empty bytes."""


WAIT: Final = _Wait()
"""Yielded where the rest of a statement follows the client's data."""
_IMPLICIT: Final = (Kind.CHANGE, Kind.CATALOG, Kind.COPY)
"""Kinds of statements that begin an implicit block if others follow before Sync."""
_ALONE: Final = ("COMPACT", "ANALYZE")
_DATA: Final = (frontend.CopyData, frontend.CopyDone, frontend.CopyFail)


class Backend(NamedObjects):
    """One client behind its start-up. One thread at a time; `cancel` and `time_out` from any.

    Parameters
    ----------
    connection : Connection
        Its own.
    settings : ClientSettings
    following : callable
        Returns the class of the message that is waiting behind the present one; None if none has arrived.
    arm : callable
        Called with a number of seconds and a `Halt` when a statement with a timeout begins: `time_out` is due then.
    audited : Audited, optional
        Logs the statements.
    database : str
        The name under which the client knows the store; "" for the store's own.
    """

    def __init__(
        self,
        connection: Connection,
        settings: ClientSettings,
        following: Callable[[], type | None] = lambda: None,
        arm: Callable[[float, Halt], object] = lambda seconds, halt: None,
        audited: Audited | None = None,
        database: str = "",
    ):
        self.connection = connection
        self.settings = settings
        self._session = connection.session
        self._session.files = None
        self._is_local = not self._session.store.runs_fragments
        self._following = following
        self._arm = arm
        self._audited = audited
        self._audited_statement: AuditedStatement | None = None
        self._database = database
        self._block = TransactionBlock(self._session)
        super().__init__()
        self._descriptions = Descriptions(self._session, settings, self._run)
        self._known = KnownGroups(
            self._session, settings, self._block, self._statements, self._portals, self._descriptions
        )
        self.one_step = OneStep(self, self._known)
        self._skips = False
        self._in_extended = False
        """True from an extended message up to Sync or a simple query."""
        self._copy: CopyIn | None = None
        self._waiting: Iterator[bytes] | None = None
        """The statement that waits for the client's data."""
        self._offset = 0
        """Place of the running statement in the client's text."""
        self._halt: Halt | None = None
        self._timed_out = False

    # ---- for the server --------------------------------------------------------------------------------------------

    @property
    def is_in_transaction(self) -> bool:
        """True between BEGIN and its end."""
        return self._block.is_explicit

    def opening(self, process: int, key: bytes) -> bytes:
        """The messages that follow authentication."""
        session = self._session
        session.facts = replace(
            session.facts,
            user=self.settings.values()["session_authorization"],
            session_user=self.settings.values()["session_authorization"],
            process=process,
            of_postgres=True,
            database=self._database or session.facts.database,
            settings=lambda: session.settings.texts() | self.settings.values(),
        )
        values = {**self.settings.reported(), "TimeZone": "UTC"}
        return b"".join(
            (
                replies.parameter_statuses(values),
                replies.backend_key(process, key),
                replies.READY[self._block.status],
            )
        )

    def cancel(self) -> None:
        """Stops the running statement, if any."""
        halt = self._halt
        if halt is not None:
            halt.set()

    def time_out(self, halt: Halt) -> None:
        """Stops a statement that has run for too long, if it is still running."""
        if self._halt is halt:
            self._timed_out = True
            halt.set()

    def close(self) -> None:
        """Ends everything; an open transaction is rolled back."""
        if self._waiting is not None:
            getattr(self._waiting, "close", lambda: None)()
        self._close_portals()
        if self._copy is not None:
            self._copy.close()
        self.connection.close()

    @property
    def takes_groups(self) -> bool:
        """See `one_step.Conversation`."""
        # A statement is logged by itself, and has a span of its own, which it gets in the session.
        is_seen = self._audited is not None or waiting_time.exporter is not None
        return not self._skips and self._waiting is None and not is_seen and self._is_local

    def fail(self, error: Exception, kind: type) -> bytes:
        """See `one_step.Conversation`."""
        self._offset = 0
        return b"".join(self._failed(error, kind))

    def sync(self) -> bytes:
        """See `one_step.Conversation`."""
        return b"".join(self.handle(frontend.Sync()))

    def learn(self, data: bytes, messages: Sequence[Any]) -> None:
        """Keeps messages for `one_step`, if their statement is about a single row."""
        if self._is_local and self._audited is None:
            self._known.learn(data, messages)

    def handle(self, message: Any) -> Iterator[bytes]:
        """Yields the response to a message, piece by piece."""
        kind = type(message)
        if self._waiting is not None and kind is not frontend.Terminate:
            steps = self._take_data(message)
            if steps is None:
                return
        elif self._skips and kind is not frontend.Sync:
            return
        else:
            handler = _HANDLERS.get(kind)
            if handler is None:  # data of a COPY that has failed
                return
            if kind is frontend.Query or kind in _EXTENDED:
                self._in_extended = kind is not frontend.Query
                self._offset = 0
            steps = handler(self, message)  # a generator: it has not begun
        try:
            for piece in steps:
                if piece is WAIT:
                    self._waiting = steps
                    return
                yield piece
        except Exception as error:
            yield from self._failed(error, kind)
        finally:
            self._halt = None

    def _take_data(self, message: Any) -> Iterator[bytes] | None:
        """Data of COPY; the statement that continues, None if more is to come."""
        copy, waiting = self._copy, self._waiting
        assert copy is not None and waiting is not None
        if isinstance(message, frontend.CopyData):
            copy.feed(message.data)
            return None
        if isinstance(message, frontend.Sync | frontend.Flush):
            return None
        if isinstance(message, frontend.CopyFail):
            copy.failure = message.reason.decode(errors="replace")
        elif not isinstance(message, frontend.CopyDone):
            copy.failure = f"unexpected message {type(message).__name__} during COPY from stdin"
        self._waiting = None
        return waiting

    def _failed(self, error: Exception, kind: type) -> Iterator[bytes]:
        timed_out, self._timed_out = self._timed_out, False
        found = report(error, self._offset, timed_out)
        try:
            self._note_end(-1, found.sqlstate)
        except Error as second:
            found = report(second)
        if self._copy is not None:
            self._copy.close()
            self._copy = None
        try:
            self._block.fail()
        except Error as second:
            found = report(second)
        if not self._block.is_explicit:
            self._close_portals()
        yield replies.error_response(found)
        is_extended = kind in _EXTENDED or (kind in _DATA and self._in_extended)
        if is_extended:
            self._skips = True
        else:
            yield from self._ready()

    def _ready(self) -> Iterator[bytes]:
        if not self._block.is_open:
            yield replies.parameter_statuses(self.settings.end_transaction())
        yield self._block.notices() + replies.READY[self._block.status]

    def run_in_session(self, text: str) -> None:
        """A statement about the names that SQL has given in the session."""
        self._session.run(text).drain()

    @property
    def is_in_block(self) -> bool:
        """True in a transaction of any kind."""
        return self._block.is_open

    # ---- simple query ----------------------------------------------------------------------------------------------

    def _query(self, message: frontend.Query) -> Iterator[bytes]:
        self._close_portal(b"")
        found = statements.split(decoded(message.text))
        if not found:
            yield replies.EMPTY_QUERY
        shares = len(found) > 1 and self._can_share(found)
        for statement in found:
            self._offset = statement.start
            if shares and statement.kind not in CONTROL and statement.kind is not Kind.SESSION:
                self._block.begin_implicit()
            yield from self._simple(statement)
        self._block.end_implicit()
        yield from self._ready()

    def _can_share(self, found: tuple[StatementText, ...]) -> bool:
        """True if the statements of a text can be one transaction: not if the store changes tables outside of them."""
        if any(statement.words[:1] and statement.words[0] in _ALONE for statement in found):
            return False
        ddl = any(statement.kind is Kind.CATALOG for statement in found)
        return not ddl or self.connection.transactional_ddl

    def _simple(self, statement: StatementText) -> Iterator[bytes]:
        self._note(statement)
        self._block.check(statement)
        special = self._special(statement, True)
        if special is not None:
            yield from special
            self._note_end()
            return
        portal = Portal(PreparedStatement(statement, ()), (), ())
        self._start(portal)
        assert portal.execution is not None
        try:
            columns = portal.execution.columns
            if columns is not None:
                yield replies.row_description(row_fields(columns, (TEXT,) * len(columns)))
            yield from self._rows(portal, columns is not None, 0)
        finally:
            portal.close()

    def _note(self, statement: StatementText) -> None:
        """A statement begins, for the audit log; one that has not ended by now was only described."""
        if self._audited is not None:
            self._audited_statement = self._audited.begin(statement.text, self._session.facts.user)

    def _note_end(self, rows: int = -1, sqlstate: str = "") -> None:
        audited, self._audited_statement = self._audited_statement, None
        if audited is not None:
            audited.end(rows, sqlstate)

    def _special(self, statement: StatementText, describes: bool) -> Iterator[bytes] | None:
        """The response to a statement that the session does not run itself; None if it does."""
        if statement.kind in CONTROL:
            return self._control(statement)
        if statement.kind is Kind.SETTING:
            return commands.setting(self.settings, self._session, statement, describes)
        if statement.kind is Kind.SESSION:
            return commands.session(self, statement)
        if statement.kind is Kind.COPY:
            return self._copy_statement(statement, parse_copy(statement.text))
        return None

    def _control(self, statement: StatementText) -> Iterator[bytes]:
        tag, notice = self._block.control(statement)
        if notice is not None:
            yield replies.notice_response(notice)
        if not self._block.is_open:
            self._close_portals()
            yield replies.parameter_statuses(self.settings.end_transaction())
        yield replies.command_complete(tag)

    # ---- statements ------------------------------------------------------------------------------------------------

    def _run(self, text: str, values: tuple[object, ...] = (), halt: Halt | None = None) -> Execution:
        self._halt = halt = halt or Halt()
        self._begin_timer(halt)
        return self._session.run(text, values or None, halt)

    def _begin_timer(self, halt: Halt) -> None:
        self._timed_out = False
        seconds = self.settings.seconds("statement_timeout")
        if seconds:
            self._arm(seconds, halt)

    def _start(self, portal: Portal) -> None:
        statement = portal.prepared.statement
        assert statement is not None
        portal.execution = self._run(statement.text, portal.values, portal.halt)
        if portal.columns is None:
            portal.columns = portal.execution.columns

    def _rows(self, portal: Portal, has_rows: bool, limit: int) -> Iterator[bytes]:
        """The rows of a portal that has begun, and what ends them. `has_rows`: the client knows of columns."""
        statement, execution = portal.prepared.statement, portal.execution
        assert statement is not None and execution is not None
        self._halt = portal.halt
        rows = 0
        if execution.columns is None:
            portal.is_done = True
        elif has_rows and portal.columns is not None:
            writer = RowWriter(portal.columns, formats_for(portal.result_formats, len(portal.columns)))
            yield from writer.write(portal, limit)
            rows = writer.count
            if not portal.is_done:
                self._note_end(rows)
                yield replies.PORTAL_SUSPENDED
                return
        else:
            execution.drain()
            portal.is_done = True
        self._note_end(rows if execution.columns is not None else execution.rowcount)
        yield replies.command_complete(command_tag(statement, execution, rows))

    def _copy_statement(self, statement: StatementText, copy: CopyStatement) -> Iterator[bytes]:
        if not copy.is_from:
            execution = self._run(copy.source())
            try:
                count = yield from copy_out(execution, copy)
            finally:
                execution.close()
            self._note_end(count)
            yield replies.command_complete(f"COPY {count}")
            return
        self._copy = CopyIn(self.connection, copy)
        yield replies.copy_response(b"G", copy.is_binary, self._copy.column_count)
        yield WAIT
        stop = threading.Event()
        self._halt = Halt()
        self._halt.adopt(stop)
        self._begin_timer(self._halt)
        rows = self._copy.load(stop)
        self._copy = None
        self._note_end(rows)
        yield replies.command_complete(f"COPY {rows}")

    # ---- extended query --------------------------------------------------------------------------------------------

    def _parse(self, message: frontend.Parse) -> Iterator[bytes]:
        found = statements.split(decoded(message.text))
        if len(found) > 1:
            raise Refused("cannot insert multiple commands into a prepared statement", "42601")
        if message.name:
            if message.name in self._statements:
                raise Refused(f'prepared statement "{shown(message.name)}" already exists', "42P05")
            refuse_many(len(self._statements))
        if found:
            self._block.check(found[0])
        self._statements[message.name] = PreparedStatement(found[0] if found else None, message.types)
        yield replies.PARSE_COMPLETE

    def _statement(self, name: bytes) -> PreparedStatement:
        found = self._statements.get(name)
        if found is None:
            raise Refused(f'prepared statement "{shown(name)}" does not exist', "26000")
        return found

    def _portal(self, name: bytes) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise Refused(f'portal "{shown(name)}" does not exist', "34000")
        return found

    def _bind(self, message: frontend.Bind) -> Iterator[bytes]:
        prepared = self._statement(message.statement)
        if prepared.statement is not None:
            self._block.check(prepared.statement)
        if message.portal and message.portal in self._portals:
            raise Refused(f'portal "{shown(message.portal)}" already exists', "42P03")
        refuse_many(len(self._portals))
        self._close_portal(message.portal)
        described = prepared.description
        portal = Portal(prepared, self._values(message, prepared), message.result_formats)
        if described is not None and described.columns is not None:
            portal.columns = described.columns
        self._portals[message.portal] = portal
        yield replies.BIND_COMPLETE

    def _values(self, message: frontend.Bind, prepared: PreparedStatement) -> tuple[object, ...]:
        given = message.values
        if not given:
            return ()
        formats = formats_for(message.formats, len(given))
        oids = prepared.oids
        untyped = [format_ for place, format_ in enumerate(formats) if not (place < len(oids) and oids[place])]
        inferred: tuple[DataType | None, ...] = ()
        if untyped and prepared.statement is not None:
            try:
                inferred = self._descriptions.of(prepared, prepared.statement).parameters
            except Error:
                if any(format_ != TEXT for format_ in untyped):
                    raise
                # A statement may need its values to be bound: texts take their types from the context then.
        values: list[object] = []
        for place, (data, format_) in enumerate(zip(given, formats, strict=True)):
            oid = oids[place] if place < len(oids) else 0
            type_ = inferred[place] if place < len(inferred) else None
            values.append(None if data is None else parameter_value(data, oid, format_, type_))
        return tuple(values)

    def _describe(self, message: frontend.Describe) -> Iterator[bytes]:
        if message.kind == b"S":
            prepared = self._statement(message.name)
            if prepared.statement is None:
                yield replies.parameter_description(()) + replies.NO_DATA
                return
            self._block.check(prepared.statement)
            self._note(prepared.statement)
            found = self._descriptions.of(prepared, prepared.statement)
            yield replies.parameter_description(prepared.parameter_oids(found.parameters))
            yield self._row_description(found.columns, ())
            return
        cursor = self._session.named_statements().columns(decoded(message.name))  # drivers take it for a portal
        if message.name not in self._portals and cursor is not None:
            yield self._row_description(cursor, ())
            return
        portal = self._portal(message.name)
        statement = portal.prepared.statement
        if statement is None:
            yield replies.NO_DATA
            return
        self._note(statement)
        self._block.check(statement)
        if portal.columns is None and portal.execution is None:
            self._describe_portal(portal, statement)
        if portal.columns is None:
            yield replies.NO_DATA
            return
        # A prepared look-up has the same columns each time.
        known = portal.prepared.row_description
        if known is None or known[0] is not portal.columns or known[1] != portal.result_formats:
            described = self._row_description(portal.columns, portal.result_formats)
            known = portal.prepared.row_description = (portal.columns, portal.result_formats, described)
        yield known[2]

    def _row_description(self, columns: Any, formats: tuple[int, ...]) -> bytes:
        if columns is None:
            return replies.NO_DATA
        return replies.row_description(row_fields(columns, formats_for(formats, len(columns))))

    def _describe_portal(self, portal: Portal, statement: StatementText) -> None:
        """Finds the columns of a portal; a query begins with that, as its first rows are made anyway."""
        if statement.kind in (Kind.QUERY, Kind.OTHER):
            self._start(portal)
        elif statement.kind is Kind.SETTING:
            portal.columns = commands.shown_columns(self.settings, self._session, statement)
        elif statement.kind is Kind.CHANGE and "RETURNING" in statement.text.upper():
            (parsed,) = self._session.parse(statement.text)
            portal.columns = result_columns(self._session.bind(parsed, portal.values or None))

    def _execute(self, message: frontend.Execute) -> Iterator[bytes]:
        portal = self._portal(message.portal)
        statement = portal.prepared.statement
        if statement is None:
            yield replies.EMPTY_QUERY
            return
        self._note(statement)
        self._block.check(statement)
        if portal.execution is None and not portal.is_done:
            self._begin_group(statement)
            special = self._special(statement, False)
            if special is not None:
                portal.is_done = True
                yield from special
                self._note_end()
                return
            self._start(portal)
        if portal.execution is None or (portal.is_done and portal.columns is None):
            raise Refused(f'portal "{shown(message.portal)}" cannot be run', "55000")
        yield from self._rows(portal, True, message.rows)

    def _begin_group(self, statement: StatementText) -> None:
        """Statements up to Sync are one transaction. One that Sync follows is one by itself, without a block."""
        if statement.kind not in _IMPLICIT or self._block.is_open or self._following() is frontend.Sync:
            return
        if statement.words[0] in _ALONE or (statement.kind is Kind.CATALOG and not self.connection.transactional_ddl):
            return
        self._block.begin_implicit()

    def _close_message(self, message: frontend.Close) -> Iterator[bytes]:
        if message.kind == b"S":
            self._statements.pop(message.name, None)
        else:
            self._close_portal(message.name)
        yield replies.CLOSE_COMPLETE

    def _sync(self, message: frontend.Sync) -> Iterator[bytes]:
        self._skips = False
        self._in_extended = False
        try:
            self._block.end_implicit()
        except Error as error:
            yield replies.error_response(report(error))
        if not self._block.is_open:
            self._close_portals()
        yield from self._ready()

    def _flush(self, message: frontend.Flush) -> Iterator[bytes]:
        yield b""  # what is ready is sent anyway

    def _call(self, message: frontend.FunctionCall) -> Iterator[bytes]:
        yield b""
        raise Refused("calls of functions by their oid are not supported", "0A000")


_HANDLERS: Final[Mapping[type, Callable[[Backend, Any], Iterator[bytes]]]] = {
    frontend.Query: Backend._query,
    frontend.Parse: Backend._parse,
    frontend.Bind: Backend._bind,
    frontend.Describe: Backend._describe,
    frontend.Execute: Backend._execute,
    frontend.Close: Backend._close_message,
    frontend.Sync: Backend._sync,
    frontend.Flush: Backend._flush,
    frontend.FunctionCall: Backend._call,
}
_EXTENDED: Final = (frontend.Parse, frontend.Bind, frontend.Describe, frontend.Execute, frontend.Close, frontend.Flush)
