"""One client's session: its connection to the store, and what it has open.

Calls of one client may come at the same time, in threads of gRPC. Statements of a `driver.session.session.Session` may
run at the same time, too, unless a transaction is in progress: then they wait for each other.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from ....driver.connection import Connection
from ....driver.session.bind_values import Normalized
from ....driver.session.executions import Execution, Halt
from ....errors import Error
from ....model.lazy_dataclass import dataclass
from ....sql.expressions import Column
from ...audited import Audited, AuditedStatement
from .ingestion import Ingestion
from .part_tickets import PartTicket
from .parts import PartLimits, Parts, QueryParts, open_part
from .prepared import PreparedStatement, described, result_columns
from .reports import Refused
from .results import Result
from .transactions import ClientTransactions
from .updates import run_rows, run_update

_logger = logging.getLogger("nyala.doors.flight_sql")

ID_BYTES: Final = 16
"""Bytes of a session's id, with which all handles of the session begin."""
_HANDLE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits of one session.

    Parameters
    ----------
    results : int
        Results that are not read to their end.
    prepared : int
        Prepared statements.
    result_seconds : float
        Seconds after which a result that was not requested is dropped.
    idle_seconds : float
        Seconds without a call after which the session ends, and without progress after which a reader gets no more.
    transaction_seconds : float
        Seconds without a call after which a transaction is rolled back.
    parts : PartLimits
        Of queries that several readers share.
    """

    results: int = 100
    prepared: int = 1000
    result_seconds: float = 60.0
    idle_seconds: float = 3600.0
    transaction_seconds: float = 600.0
    parts: PartLimits = PartLimits()


class ClientSession:
    """See the module's page.

    Parameters
    ----------
    session_id : bytes
        Random; not to be guessed.
    connection : Connection
        Its own; closed with the session.
    user : str
    limits : SessionLimits
    """

    def __init__(self, session_id: bytes, connection: Connection, user: str, limits: SessionLimits):
        self.id = session_id
        self.user = user
        self.connection = connection
        self._session = connection.session
        self._session.files = None
        self._session.transactions.note_implicit_commit = _logger.info  # the protocol has no notices
        self._session.facts = (
            replace(self._session.facts, user=user, session_user=user) if user else self._session.facts
        )
        self._limits = limits
        self.transactions = ClientTransactions(connection, self.new_handle)
        self._parts = QueryParts(self._session, limits.parts)
        # Guards the dictionaries and the counts.
        self._lock = threading.Lock()
        self._results: dict[bytes, Result] = {}
        self._prepared: dict[bytes, PreparedStatement] = {}
        self._calls = 0
        self._is_closed = False
        self.used = time.monotonic()
        """When a call last began or ended."""
        self.audited: Audited | None = None
        """Logs the statements; set once, after the login was logged."""
        self.peers: set[str] = set()
        """Addresses of the connections that have used it."""

    def new_handle(self) -> bytes:
        """A handle: the session's id, and random bytes."""
        return self.id + secrets.token_bytes(_HANDLE_BYTES)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> ClientSession:
        """A call begins: the session is not idle until it ends."""
        with self._lock:
            if self._is_closed:
                raise Refused("the session has ended", "08003")
            self._calls += 1
            self.used = time.monotonic()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._calls -= 1
            self.used = time.monotonic()

    # ---- queries -----------------------------------------------------------------------------------------------------

    def begin_audited(self, audited: Audited, text: str, address: str) -> AuditedStatement:
        """A statement of a client at an address begins, for the audit log."""
        return audited.begin(text, self._session.facts.user, address)

    def query(
        self, text: str, transaction: bytes | None, halt: Halt, audited: AuditedStatement | None = None
    ) -> Result:
        """Runs a text of one or more statements; the result of the last one."""
        self.transactions.check(transaction)
        return self._started(iter([(text, None)]), halt, audited, True)

    def parts(self, text: str, transaction: bytes | None) -> Parts | None:
        """The parts of a query that several readers may share; None for a text that is to be run."""
        self.transactions.check(transaction)
        return self._parts.of(text)

    def parts_of_prepared(self, handle: bytes) -> Parts | None:
        """`parts` of a prepared statement; None for one with parameters."""
        prepared = self.prepared(handle)
        return None if len(prepared.parameters) else self._parts.of(prepared.text)

    def read_part(self, ticket: PartTicket, data: bytes, halt: Halt, audited: AuditedStatement | None = None) -> Result:
        """The rows of a part, which are read from now on; `data` is the ticket as the client has it."""
        result = self._kept(open_part(self._session, ticket, halt), halt, audited, data)
        result.begin_reading()
        return result

    def query_prepared(self, handle: bytes, halt: Halt, audited: AuditedStatement | None = None) -> Result:
        """Runs a prepared statement with its bound values: once for each row of them."""
        prepared = self.prepared(handle)
        is_single = prepared.values is None or prepared.values.num_rows < 2
        return self._started(((prepared.text, row) for row in prepared.rows()), halt, audited, is_single)

    def _started(
        self,
        runs: Iterator[tuple[str, Normalized | None]],
        halt: Halt,
        audited: AuditedStatement | None,
        is_single: bool,
    ) -> Result:
        """The result of texts, each with a row of values; `is_single`: there is one text, or one row, in all."""
        result = self._kept((self._session.run(text, row, halt) for text, row in runs), halt, audited)
        if audited is not None and is_single:
            result.end_changed()
        return result

    def _kept(
        self, executions: Iterator[Execution], halt: Halt, audited: AuditedStatement | None, ticket: bytes = b""
    ) -> Result:
        """The result of executions, from now on one of the session's."""
        self._refuse_many_results()
        result = Result(self.new_handle(), executions, halt, self._forget, audited, ticket)
        with self._lock:
            self._results[result.handle] = result
        if self._is_closed:
            result.close()
        return result

    def _refuse_many_results(self) -> None:
        if len(self._results) >= self._limits.results:
            raise Refused(
                f"a session has at most {self._limits.results} results that are not read to their end", "53400", True
            )

    def _forget(self, result: Result) -> None:
        with self._lock:
            self._results.pop(result.handle, None)

    def take(self, handle: bytes) -> Result:
        """The result of a ticket, which is read from now on. Raises `Refused` if it has ended."""
        result = self._results.get(handle)
        if result is None:
            raise Refused("the result of this ticket has been read, or has ended", "24000")
        result.begin_reading()
        return result

    def cancel(self, handle: bytes) -> bool:
        """Stops a statement; False if it has ended."""
        result = self._results.get(handle)
        if result is None:
            return False
        result.cancel()
        return True

    def cancel_part(self, ticket: bytes) -> bool:
        """Stops all readers of a part; False if there are none."""
        readers: list[Result] = []
        self.each_result(lambda result: readers.append(result) if result.ticket == ticket else None)
        for result in readers:
            result.cancel()
        return bool(readers)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query about the catalog."""
        cursor = self.connection.execute(query)
        try:
            return cursor.fetchall()
        finally:
            cursor.close()

    def describe(self, query: str) -> tuple[Column, ...]:
        """The columns of a query, which is not run."""
        (parsed,) = self._session.parse(query)
        return result_columns(self._session.bind(parsed)) or ()

    def schema(self, text: str) -> pa.Schema:
        """The columns of a statement's result, as they would be now."""
        return described(self._session, text)[0]

    # ---- prepared statements -----------------------------------------------------------------------------------------

    def prepare(self, text: str) -> PreparedStatement:
        """CreatePreparedStatement."""
        if len(self._prepared) >= self._limits.prepared:
            raise Refused(f"a session has at most {self._limits.prepared} prepared statements", "54000")
        schema, parameters = described(self._session, text)
        found = PreparedStatement(self.new_handle(), text, schema, parameters, used=time.monotonic())
        with self._lock:
            self._prepared[found.handle] = found
        return found

    def prepared(self, handle: bytes) -> PreparedStatement:
        """The statement of a handle. Raises `Refused` if it does not exist."""
        found = self._prepared.get(handle)
        if found is None:
            raise Refused("the prepared statement does not exist, or was closed", "26000")
        found.used = time.monotonic()
        return found

    def unprepare(self, handle: bytes) -> None:
        """ClosePreparedStatement; no effect if it does not exist."""
        with self._lock:
            self._prepared.pop(handle, None)

    def bind(self, handle: bytes, values: pa.RecordBatch) -> None:
        """Rows of parameters for the next executions. Raises `Refused` if their number of columns is wrong."""
        prepared = self.prepared(handle)
        count = len(prepared.parameters)
        if values.num_columns != count:
            raise Refused(f"the statement has {count} parameters, and the rows have {values.num_columns}", "08P01")
        prepared.values = values

    # ---- writes ------------------------------------------------------------------------------------------------------

    def update(self, text: str, transaction: bytes | None, halt: Halt) -> int:
        """CommandStatementUpdate; the number of changed rows."""
        self.transactions.check(transaction)
        return run_update(self.connection, text, halt)

    def update_prepared(self, handle: bytes, values: pa.RecordBatch | None, halt: Halt) -> int:
        """CommandPreparedStatementUpdate, once for each row of parameters; the number of changed rows."""
        prepared = self.prepared(handle)
        if values is None or not values.num_columns:
            values = prepared.values
        if not len(prepared.parameters):
            return run_update(self.connection, prepared.text, halt)
        if values is None:
            raise Refused(f"the statement has {len(prepared.parameters)} parameters, and none are bound", "08P01")
        return run_rows(self.connection, prepared.text, values, len(prepared.parameters), halt)

    def ingest(self, command: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch], halt: Halt) -> int:
        """CommandStatementIngest; the number of rows."""
        self.transactions.check(command.transaction_id or None)
        stop = threading.Event()
        halt.adopt(stop)
        if self.connection.transactional_ddl:
            self.transactions.begin_now()
        return Ingestion(self.connection, command, schema).run(batches, stop)

    # ---- life --------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True while a call runs, or a result is read."""
        with self._lock:
            return self._calls > 0 or any(not result.is_waiting for result in self._results.values())

    def end_idle(self, now: float) -> bool:
        """Drops what has been left for too long: results, a transaction; True if the session itself is to end."""
        self.each_result(partial(self._drop_unread, now))
        if self.is_busy:
            return False
        idle = now - self.used
        if idle > self._limits.transaction_seconds and self.transactions.is_open:
            _logger.info("an idle transaction is rolled back")
            self.transactions.roll_back()
        return idle > self._limits.idle_seconds

    def _drop_unread(self, now: float, result: Result) -> None:
        """Closes a result that was not requested for too long, or whose reader has stopped in the middle."""
        limit = self._limits.result_seconds if result.is_waiting else self._limits.idle_seconds
        if now - result.used > limit:
            _logger.info("a result is not read, and is dropped")
            result.close()

    def cancel_all(self) -> None:
        """Stops everything that runs."""
        self.connection.cancel()

    def each_result(self, action: Callable[[Result], object]) -> None:
        """Calls a function with each result."""
        with self._lock:
            found = list(self._results.values())
        for result in found:
            action(result)

    def close(self) -> None:
        """Ends everything; an open transaction is rolled back. May be repeated, from any thread."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._prepared.clear()
        self.cancel_all()
        self.each_result(Result.close)
        self.connection.close()
        if self.audited is not None:
            with contextlib.suppress(Error):
                self.audited.leave()
