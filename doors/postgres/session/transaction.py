"""The transaction block of a client as PostgreSQL has it, above the transactions of its session.

    | state | event | next state |
    |---|---|---|
    | IDLE | BEGIN | OPEN |
    | IDLE | a text of several statements, or messages without Sync, begin to write | IMPLICIT |
    | IMPLICIT | BEGIN | OPEN |
    | IMPLICIT | the end of the text, Sync, or an error | IDLE |
    | OPEN | COMMIT, ROLLBACK | IDLE |
    | OPEN | a statement fails | FAILED |
    | FAILED | ROLLBACK, or COMMIT, which rolls back | IDLE |
    | FAILED | ROLLBACK TO | OPEN |

nyala itself undoes a statement that fails alone, and lets its transaction go on. Clients of PostgreSQL rely on the
opposite: a script that runs on behind an error must not commit the rest. So a failed block refuses all statements.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ....driver.session.session import Session
from ....errors import NoActiveTransaction
from ....model.state_table import StateTable
from ..protocol.replies import FAILED, IDLE, IN_TRANSACTION, Report, notice_response
from .reports import Refused
from .statements import Kind, StatementText


class State(Enum):
    """State of a block; the table is on the module's page."""

    IDLE = "idle"
    IMPLICIT = "implicit"
    OPEN = "open"
    FAILED = "failed"


_S = State
STATES = StateTable(
    _S.IDLE,
    {
        (_S.IDLE, "BEGIN"): _S.OPEN,
        (_S.IDLE, "a text of several statements, or messages without Sync, begin to write"): _S.IMPLICIT,
        (_S.IMPLICIT, "BEGIN"): _S.OPEN,
        (_S.IMPLICIT, "the end of the text, Sync, or an error"): _S.IDLE,
        (_S.OPEN, "COMMIT, ROLLBACK"): _S.IDLE,
        (_S.OPEN, "a statement fails"): _S.FAILED,
        (_S.FAILED, "ROLLBACK, or COMMIT, which rolls back"): _S.IDLE,
        (_S.FAILED, "ROLLBACK TO"): _S.OPEN,
    },
)
_STATUS: Final = {_S.IDLE: IDLE, _S.IMPLICIT: IN_TRANSACTION, _S.OPEN: IN_TRANSACTION, _S.FAILED: FAILED}
_ENDING: Final = (Kind.COMMIT, Kind.ROLLBACK, Kind.ROLLBACK_TO)
CONTROL: Final = (Kind.BEGIN, *_ENDING)
"""Kinds of statements that this module runs."""
NO_TRANSACTION: Final = Report("WARNING", "25P01", "there is no transaction in progress")
_IN_PROGRESS: Final = Report("WARNING", "25001", "there is already a transaction in progress")
_IDLE: Final = State.IDLE
"""An attribute of an Enum costs as much as five comparisons, and `is_open` is read for each look-up."""


class TransactionBlock:
    """The block of one client. The session has autocommit, and its transactions are begun and ended here alone."""

    def __init__(self, session: Session):
        self._session = session
        self._state = STATES.first
        self._notices: list[str] = []
        session.transactions.note_implicit_commit = self._notices.append

    @property
    def status(self) -> bytes:
        """For ReadyForQuery."""
        return _STATUS[self._state]

    @property
    def is_open(self) -> bool:
        """True in a block of any kind."""
        return self._state is not _IDLE

    @property
    def is_explicit(self) -> bool:
        """True between BEGIN and its end."""
        return self._state in (State.OPEN, State.FAILED)

    def notices(self) -> bytes:
        """The warnings that have not been sent yet, as messages."""
        texts, self._notices[:] = tuple(self._notices), ()
        return b"".join(notice_response(Report("WARNING", "01000", text)) for text in texts)

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    def check(self, statement: StatementText) -> None:
        """Raises `Refused` for a statement that a failed block does not allow."""
        if self._state is State.FAILED and statement.kind not in _ENDING:
            raise Refused(
                "current transaction is aborted, commands ignored until end of transaction block",
                "25P02",
                "ROLLBACK ends the block, ROLLBACK TO a savepoint continues it",
            )

    def begin_implicit(self) -> None:
        """Begins an implicit block, unless there is a block."""
        if self._state is State.IDLE:
            self._session.transactions.begin()
            self._to(State.IMPLICIT)

    def end_implicit(self) -> None:
        """Commits an implicit block, if there is one."""
        if self._state is State.IMPLICIT:
            self._to(State.IDLE)
            self._session.transactions.commit()

    def fail(self) -> None:
        """A statement has failed: an implicit block is rolled back, an explicit one waits for its end."""
        if self._state is State.IMPLICIT:
            self._to(State.IDLE)
            self._session.transactions.rollback()
        elif self._state is State.OPEN:
            # A COMMIT that is refused has ended the transaction.
            self._to(State.FAILED if self._session.transactions.is_open else State.IDLE)

    def control(self, statement: StatementText) -> tuple[str, Report | None]:
        """Runs a statement of `CONTROL`; returns the tag of the command, and a notice."""
        return {
            Kind.BEGIN: self._begin,
            Kind.COMMIT: self._commit,
            Kind.ROLLBACK: self._rollback,
            Kind.ROLLBACK_TO: self._rollback_to,
        }[statement.kind](statement)

    def _begin(self, statement: StatementText) -> tuple[str, Report | None]:
        tag = "START TRANSACTION" if statement.words[0] == "START" else "BEGIN"
        if self._state is State.OPEN:
            return tag, _IN_PROGRESS
        if self._state is State.IDLE:
            self._session.run(statement.text)
        self._to(State.OPEN)
        return tag, None

    def _commit(self, statement: StatementText) -> tuple[str, Report | None]:
        if self._state is State.FAILED:
            self._roll_back()
            return "ROLLBACK", None
        if self._state is State.IDLE:
            return "COMMIT", NO_TRANSACTION
        was_implicit = self._state is State.IMPLICIT
        self._end(statement, "COMMIT")
        return "COMMIT", NO_TRANSACTION if was_implicit else None

    def _rollback(self, statement: StatementText) -> tuple[str, Report | None]:
        if self._state is State.IDLE:
            return "ROLLBACK", NO_TRANSACTION
        was_implicit = self._state is State.IMPLICIT
        if self._state is State.FAILED:
            self._roll_back()
        else:
            self._end(statement, "ROLLBACK")
        return "ROLLBACK", NO_TRANSACTION if was_implicit else None

    def _end(self, statement: StatementText, plain: str) -> None:
        """Ends the transaction; END and ABORT are other words for it."""
        self._session.run(statement.text if "CHAIN" in statement.text.upper() else plain)
        if not self._session.transactions.is_open:
            self._to(State.IDLE)

    def _roll_back(self) -> None:
        self._session.transactions.rollback()
        self._to(State.IDLE)

    def _rollback_to(self, statement: StatementText) -> tuple[str, Report | None]:
        if not self.is_explicit:
            raise NoActiveTransaction("ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
        self._session.run(statement.text)
        if self._state is State.FAILED:
            self._to(State.OPEN)
        return "ROLLBACK", None
