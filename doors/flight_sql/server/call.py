"""One call: who makes it, and to which session it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

from ....driver.session.executions import Halt
from ....model import tracing
from ...audited import Audited, AuditedStatement
from ..session.client_session import ClientSession
from ..session.reports import sqlstate_of
from .authentication import Caller
from .calls import RunningCalls
from .part_endpoints import PartEndpoints
from .sessions import Sessions

_NOT_AUDITED: Final[AbstractContextManager[None]] = nullcontext()


class Host(Protocol):
    """The server of a call (`server.FlightSqlServer`)."""

    sessions: Sessions
    calls: RunningCalls
    part_endpoints: PartEndpoints

    def note_message(self, address: str, size: int) -> None:
        """Records that a message of this many bytes has arrived completely."""

    def facts(self, session: ClientSession) -> dict[str, Any]:
        """The arguments of `metadata.sql_info.sql_info` for a session."""


class Call:
    """One call of Flight, while it runs.

    Parameters
    ----------
    host : Host
    context : flight.ServerCallContext
    caller : Caller
    address : str
        "host:port" of the other side of the connection.
    """

    def __init__(self, host: Host, context: Any, caller: Caller, address: str):
        self.host = host
        self.context = context
        self._caller = caller
        self._address = address

    def session(self) -> ClientSession:
        """The caller's session; begun if there is none."""
        return self.host.sessions.of(self._caller, self._address)

    def sessions(self) -> list[ClientSession]:
        """All sessions of the caller's user."""
        return [session for session in self.host.sessions.all() if session.user == self._caller.user]

    def session_of(self, handle: bytes) -> ClientSession:
        """The session that a handle belongs to."""
        return self.host.sessions.by_handle(handle, self._caller, self._address)

    @contextmanager
    def running(self) -> Iterator[Halt]:
        """Context manager for a statement: what stops it if the client goes."""
        halt = Halt()
        with self.host.calls.running(self.context, halt), tracing.called_with(self._caller.traceparent):
            yield halt

    def audited(self, session: ClientSession, text: str) -> AbstractContextManager[AuditedStatement | None]:
        """Context manager for a statement in the audit log, which an error ends; after success the caller does. None
        without an audit log."""
        if session.audited is None:
            return _NOT_AUDITED
        return self._audited(session, session.audited, text)

    @contextmanager
    def _audited(self, session: ClientSession, audited: Audited, text: str) -> Iterator[AuditedStatement]:
        statement = session.begin_audited(audited, text, self._address)
        try:
            yield statement
        except BaseException as error:
            statement.end(-1, sqlstate_of(error))
            raise

    def audited_action(self, session: ClientSession, text: str) -> AbstractContextManager[AuditedStatement | None]:
        """`audited` for a statement that ends with the block, and has no rows."""
        return _NOT_AUDITED if session.audited is None else self._audited_action(session, session.audited, text)

    @contextmanager
    def _audited_action(self, session: ClientSession, audited: Audited, text: str) -> Iterator[AuditedStatement]:
        with self._audited(session, audited, text) as statement:
            yield statement
            statement.end()

    def note(self, size: int) -> None:
        """A further message of the call has arrived."""
        self.host.note_message(self._address, size)
