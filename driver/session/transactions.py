"""The transaction of a session: its state, its savepoints, one statement at a time.

    | state | event | next state |
    |---|---|---|
    | IDLE | BEGIN, or without autocommit the first statement | ACTIVE |
    | ACTIVE | COMMIT, done or refused; ROLLBACK | IDLE |
    | ACTIVE | a statement meets a conflict | FAILED |
    | FAILED | ROLLBACK, or COMMIT, which raises | IDLE |

The session's store is the `Transaction` while one is open, so that all statements, tables and loads go through it.
Statements outside of transactions read one attribute of the session (`is_transactional`), and nothing of this module.

A statement that fails undoes itself alone: one that may write several rows has a savepoint around it. Only a conflict
ends the transaction. Statements of several threads wait for each other, because the savepoint of one must not undo the
rows of another; they do not hold the lock while their rows are fetched.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any, Final, TypeVar

from ...errors import (
    ActiveTransaction,
    CatalogInTransaction,
    FailedTransaction,
    ImplicitCommitWarning,
    InvalidSavepoint,
    NoActiveTransaction,
    NotRolledBackWarning,
    NotSupportedError,
    ReadOnlyTransaction,
    SerializationFailure,
    did_you_mean,
)
from ...executor.run.interrupts import DeferInterrupts
from ...model import waiting_time
from ...model.state_table import StateTable
from ...model.store import Store, Timestamp, Transaction
from ...model.transactions import Isolation, TransactionOptions
from ...sql import bound
from ...sql.binding.transactions import TRANSACTION_STATEMENTS
from ...sql.syntax import nodes
from .settings import Settings

T = TypeVar("T")
_LOOK_SECONDS: Final = 0.1
_CONTROL: Final = (
    *TRANSACTION_STATEMENTS,
    *(nodes.SetSetting, nodes.ResetSetting, nodes.ShowSettings, nodes.SetRole),
    *(nodes.CloseCursor, nodes.DeallocateStatement, nodes.DiscardSession, nodes.PrepareStatement, nodes.Unlisten),
)
_CATALOG: Final = (
    nodes.CreateTable,
    nodes.DropTable,
    nodes.CreateView,
    nodes.DropView,
    nodes.AlterView,
    nodes.CreateSchema,
    nodes.DropSchema,
    nodes.AlterSchema,
    nodes.AlterTable,
    *(nodes.CreateRole, nodes.AlterRole, nodes.DropRole),
    *(nodes.GrantRight, nodes.RevokeRight, nodes.GrantRole, nodes.RevokeRole),
)
_MAINTENANCE: Final = (nodes.CompactTable, nodes.AnalyzeTable)
_BEGINS: Final = re.compile(r"\s*(?:SELECT|INSERT|UPSERT|UPDATE|DELETE|WITH|VALUES|EXPLAIN|COPY|TRUNCATE)\b", re.I)
_MOST_KNOWN: Final = 100


class State(Enum):
    """State of a session's transaction; the table is on the module's page."""

    IDLE = "idle"
    ACTIVE = "active"
    FAILED = "failed"


_S = State
STATES = StateTable(
    _S.IDLE,
    {
        (_S.IDLE, "BEGIN, or without autocommit the first statement"): _S.ACTIVE,
        (_S.ACTIVE, "COMMIT, done or refused; ROLLBACK"): _S.IDLE,
        (_S.ACTIVE, "a statement meets a conflict"): _S.FAILED,
        (_S.FAILED, "ROLLBACK, or COMMIT, which raises"): _S.IDLE,
    },
)


def _warn(text: str) -> None:
    warnings.warn(text, ImplicitCommitWarning, stacklevel=2)


class Kind(Enum):
    """Kinds of statements, by what they need of a transaction."""

    CONTROL = "about the transaction or a setting"
    CATALOG = "changes the catalog"
    MAINTENANCE = "changes how the rows of a table are stored"
    QUERY = "reads or writes rows"


def kind_of(tree: Any) -> Kind:
    """The kind of a parsed statement."""
    if isinstance(tree, _CONTROL):
        return Kind.CONTROL
    if isinstance(tree, _MAINTENANCE):
        return Kind.MAINTENANCE
    return Kind.CATALOG if isinstance(tree, _CATALOG) else Kind.QUERY


def begins_with_query(text: str) -> bool:
    """True if the first statement of a text is known to be of `Kind.QUERY`, without parsing it."""
    return _BEGINS.match(text) is not None


class Turn:
    """`SessionTransactions.turn`. A generator would take four times as long, for each statement in a transaction."""

    __slots__ = ("_check", "_kind", "_transactions")

    def __init__(self, transactions: SessionTransactions, kind: Kind | None, check: Callable[[], None]):
        self._transactions, self._kind, self._check = transactions, kind, check

    def __enter__(self) -> None:
        self._transactions.begin_turn(self._kind, self._check)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._transactions.end_turn(error)


class SessionTransactions:
    """The transactions of one session, one after the other. Threads may share it.

    Parameters
    ----------
    store : Store
        The store below the transactions.
    settings : Settings
        Has the defaults of the characteristics.
    switch : callable
        Called with the store for statements from now on, and with True if they belong to transactions.
    past : bool
        True for a session as of a timestamp, whose transactions are READ ONLY.

    Attributes
    ----------
    transaction : Transaction, optional
        The open one.
    before_end : callable
        Called before COMMIT (with True: errors are raised), ROLLBACK and BEGIN: rows that are still buffered belong to
        what ends then.
    on_commit : callable
        Called with the timestamp of each COMMIT that wrote something.
    note_implicit_commit : callable
        Called with a text when a statement has committed its transaction.
    """

    def __init__(
        self, store: Store, settings: Settings, switch: Callable[[Store, bool], None], past: bool = False
    ) -> None:
        self.store = store
        self.transaction: Transaction | None = None
        self.before_end: Callable[[bool], None] = lambda commits: None
        self.on_commit: Callable[[Timestamp], None] = lambda at: None
        self.note_implicit_commit: Callable[[str], None] = _warn
        self.known: dict[str, bound.TransactionStatement] = {}
        """Bound statements of this module by their texts."""
        self._settings = settings
        self._switch = switch
        self._past = past
        self._lock = threading.RLock()
        self._state = STATES.first
        self._autocommit = True
        self._is_implicit = False
        self._has_run = False
        """True if a statement has read or written in the open transaction."""
        self.has_written_outside = False
        """True if rows were written outside of transactions since the latest COMMIT or ROLLBACK."""
        self._savepoints: list[tuple[str, int]] = []

    def lay_over(self, store: Store, wrapped: Callable[[Transaction], Transaction]) -> None:
        """Use another store over the same one from now on, and another transaction over the open one."""
        with self._lock:
            self.store = store
            if self.transaction is None:
                self._switch(store, not self._autocommit)
            else:
                self.transaction = wrapped(self.transaction)
                self._switch(self.transaction, True)

    # ---- state -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True between BEGIN and COMMIT or ROLLBACK, also after a conflict."""
        return self._state is not State.IDLE

    @property
    def is_failed(self) -> bool:
        """True after a conflict, until the transaction is ended."""
        return self._state is State.FAILED

    @property
    def autocommit(self) -> bool:
        """True: a statement outside of a transaction is durable when it returns. False: it begins one."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        with self._lock:
            if value and not self._autocommit:
                self.commit()
            self._autocommit = value
            if not self.is_open:
                self._switch(self.store, not value)

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    def remember(self, text: str, statement: bound.TransactionStatement) -> None:
        """Keep the bound statement of a text that is likely to come again."""
        if len(self.known) < _MOST_KNOWN:
            self.known[text] = statement

    # ---- statements in a transaction ---------------------------------------------------------------------------------

    def turn(self, kind: Kind | None, check: Callable[[], None] = lambda: None) -> Turn:
        """Context manager for one statement: begins a transaction if it needs one, and records a conflict in it.

        `kind` None: not known yet; an inner context manager has it. `check` is called while another thread's statement
        runs; what it raises ends the wait.
        """
        return Turn(self, kind, check)

    def begin_turn(self, kind: Kind | None, check: Callable[[], None]) -> None:
        """The begin of `turn`."""
        while not self._lock.acquire(timeout=_LOOK_SECONDS):
            check()
        if kind is None:
            return
        try:
            self._enter(kind)
        except BaseException as error:
            self.end_turn(error)
            raise

    def end_turn(self, error: BaseException | None) -> None:
        """The end of `turn`, by an error or without one."""
        if isinstance(error, SerializationFailure) and self._state is State.ACTIVE:
            self._to(State.FAILED)
        self._lock.release()

    def _enter(self, kind: Kind) -> None:
        if kind is Kind.CONTROL:
            return
        self.check_usable()
        is_part = kind is Kind.QUERY or (kind is Kind.CATALOG and self.store.transactional_ddl)
        if not is_part and not self._autocommit:
            # As in MySQL, what cannot be part of a transaction ends one that has only read.
            if self.transaction is not None and self._is_implicit and not self.transaction.has_writes:
                self._end(commits=False)
            return
        if not self.is_open and not self._autocommit:
            self._begin(bound.TransactionModes(), is_implicit=True)
        self._has_run = True

    def with_ddl(self, run: Callable[[], T]) -> T:
        """Runs a statement. One that changes the catalog of a store whose transactions cannot is refused in a
        transaction; with the setting `ddl_commits = on`, the transaction is committed, and another one with
        its characteristics begun when the statement has ended."""
        try:
            return run()
        except CatalogInTransaction:
            if self.transaction is None or not self._settings.get("ddl_commits"):
                raise
        if self._savepoints:
            raise CatalogInTransaction("a transaction with savepoints cannot be committed for DDL: RELEASE them first")
        options, is_implicit = self.transaction.options, self._is_implicit
        self.before_end(True)
        self._end(commits=True)
        self.note_implicit_commit(IMPLICIT_COMMIT)
        try:
            return run()
        finally:
            self._begin(bound.TransactionModes(options.isolation, options.read_only), is_implicit)

    def check_usable(self) -> None:
        """Raise `FailedTransaction` after a conflict."""
        if self.is_failed:
            raise FailedTransaction(
                "the transaction has met a conflict with another one and can only be rolled back: ROLLBACK, then retry "
                "it from its BEGIN"
            )

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Context manager for one statement that writes: undoes its writes if it fails."""
        transaction = self.transaction
        if transaction is None:
            yield
            return
        if transaction.options.read_only:
            raise ReadOnlyTransaction(READ_ONLY)
        mark = transaction.savepoint()
        try:
            yield
        except BaseException:
            if transaction.is_open:
                transaction.rollback_to(mark)
            raise
        finally:
            if transaction.is_open:
                transaction.release(mark)

    # ---- BEGIN, COMMIT, ROLLBACK -------------------------------------------------------------------------------------

    def run(self, statement: bound.TransactionStatement) -> None:
        """Run a statement about transactions."""
        with self._lock:
            _HANDLERS[type(statement)](self, statement)

    def begin(self, isolation: Isolation | None = None, read_only: bool | None = None) -> None:
        """Begin a transaction; characteristics that are None are those of the settings. `ActiveTransaction` in one."""
        with self._lock:
            if self.is_open:
                raise ActiveTransaction(
                    "there is a transaction in progress: COMMIT or ROLLBACK ends it, SAVEPOINT makes a part of it that "
                    "can be undone"
                )
            self.before_end(False)
            self.has_written_outside = False
            self._begin(bound.TransactionModes(isolation, read_only))

    def _begin(self, modes: bound.TransactionModes, is_implicit: bool = False) -> None:
        transaction = self.store.begin(self._options(modes))
        self.transaction = transaction
        self._is_implicit, self._has_run = is_implicit, False
        self._settings.transaction = transaction.options
        self._to(State.ACTIVE)
        self._switch(transaction, True)

    def _options(self, modes: bound.TransactionModes) -> TransactionOptions:
        isolation, read_only = modes.isolation, modes.read_only
        if isolation is None:
            isolation = self._settings.get("default_transaction_isolation") or Isolation.SNAPSHOT
        if self._past:
            if read_only is False:
                raise NotSupportedError("a connection as of a timestamp has READ ONLY transactions: it changes nothing")
            read_only = True
        if read_only is None:
            read_only = bool(self._settings.get("default_transaction_read_only"))
        folder = self._settings.get("temp_directory") or None
        return TransactionOptions(isolation, read_only, temporary_directory=folder)

    def commit(self) -> Timestamp | None:
        """Commit the open transaction; the commit timestamp, None without one, or if nothing was written.

        Raises
        ------
        SerializationFailure
            Another transaction has changed something that this one wrote or relied on. It is rolled back, and ended.
        RowsRefused
            Rows of a write session were refused when they were flushed into the transaction, which stays open.
        """
        with self._lock:
            if self.is_failed:
                self._end(commits=False)
                raise SerializationFailure(
                    "the transaction had met a conflict with another one, and is rolled back; retry it from its BEGIN"
                )
            if self.is_open or not self._autocommit:
                self.before_end(True)
            self.has_written_outside = False
            if not self.is_open:
                return None
            if waiting_time.exporter is None:
                return self._end(commits=True)
            from ...model import tracing  # few processes have an exporter

            with tracing.child("commit"):
                return self._end(commits=True)

    def rollback(self) -> None:
        """Roll the open transaction back. No effect outside of one, with a `NotRolledBackWarning` if rows were written
        since the latest COMMIT or ROLLBACK: they stay."""
        with self._lock:
            if self.is_open or not self._autocommit:
                self.before_end(False)
            if self.is_open:
                self._end(commits=False)
            elif self.has_written_outside:
                warnings.warn(_NOT_ROLLED_BACK, NotRolledBackWarning, stacklevel=3)
            self.has_written_outside = False

    def _end(self, commits: bool) -> Timestamp | None:
        transaction = self.transaction
        assert transaction is not None
        at: Timestamp | None = None
        try:
            with DeferInterrupts():
                if commits:
                    has_written = transaction.has_writes
                    at = transaction.commit()
                    at = at if has_written else None
                else:
                    transaction.rollback()
        finally:
            self.transaction = self._settings.transaction = None
            self._savepoints.clear()
            self._to(State.IDLE)
            self._switch(self.store, not self._autocommit)
        if at is not None:
            self.on_commit(at)
        return at

    def close(self) -> None:
        """Roll an open transaction back, as the end of its session."""
        with self._lock:
            if self.is_open:
                self._end(commits=False)

    def _commit_statement(self, statement: bound.CommitTransaction) -> None:
        if not self.is_open and self._autocommit:
            raise NoActiveTransaction("there is no transaction in progress: BEGIN begins one")
        self.commit()

    def _begin_statement(self, statement: bound.BeginTransaction) -> None:
        self.begin(statement.modes.isolation, statement.modes.read_only)

    def _set_transaction(self, statement: bound.SetTransaction) -> None:
        modes = statement.modes
        if not self.is_open:
            if self._autocommit:
                raise NoActiveTransaction(
                    "SET TRANSACTION is for the open transaction, and there is none; SET SESSION CHARACTERISTICS AS "
                    "TRANSACTION is for later ones"
                )
            self._begin(modes, is_implicit=True)
            return
        self.check_usable()
        transaction = self._needed("SET TRANSACTION")
        if self._has_run or self._savepoints:
            raise ActiveTransaction("SET TRANSACTION must come before the transaction's first query and savepoint")
        before = transaction.options
        options = self._options(
            replace(
                modes,
                isolation=modes.isolation or before.isolation,
                read_only=before.read_only if modes.read_only is None else modes.read_only,
            )
        )
        transaction.rollback()  # nothing has read its snapshot
        self.transaction = self.store.begin(options)
        self._settings.transaction = options
        self._switch(self.transaction, True)

    def _set_defaults(self, statement: bound.SetSessionCharacteristics) -> None:
        modes = statement.modes
        if modes.isolation is not None:
            self._settings.run(bound.SetSetting("default_transaction_isolation", modes.isolation))
        if modes.read_only is not None:
            self._settings.run(bound.SetSetting("default_transaction_read_only", modes.read_only))

    # ---- savepoints --------------------------------------------------------------------------------------------------

    def _needed(self, what: str) -> Transaction:
        """The open transaction, begun if statements begin one."""
        self.check_usable()
        if not self.is_open and not self._autocommit:
            self._begin(bound.TransactionModes(), is_implicit=True)
        if self.transaction is None:
            raise NoActiveTransaction(f"{what} is for transactions, and there is none in progress: BEGIN begins one")
        return self.transaction

    def savepoint(self, name: str) -> None:
        """Set a savepoint; one of the same name is hidden until this one is released."""
        with self._lock:
            transaction = self._needed("SAVEPOINT")
            self._savepoints.append((name, transaction.savepoint()))

    def release(self, name: str) -> None:
        """Discard a savepoint and later ones; `InvalidSavepoint` if there is none of that name."""
        with self._lock:
            transaction = self._needed("RELEASE SAVEPOINT")
            place = self._place(name)
            transaction.release(self._savepoints[place][1])
            del self._savepoints[place:]

    def rollback_to(self, name: str) -> None:
        """Undo what was written after a savepoint, which stays; `InvalidSavepoint` if there is none of that name."""
        with self._lock:
            transaction = self._needed("ROLLBACK TO SAVEPOINT")
            self.before_end(False)
            place = self._place(name)
            transaction.rollback_to(self._savepoints[place][1])
            del self._savepoints[place + 1 :]

    def _place(self, name: str) -> int:
        names = [known for known, _ in self._savepoints]
        if name not in names:
            known = did_you_mean(name, names, "there are") if names else "; none is set"
            raise InvalidSavepoint(f"savepoint {name} does not exist{known}")
        return len(names) - 1 - names[::-1].index(name)


READ_ONLY: Final = "the transaction is READ ONLY: a statement that writes needs BEGIN READ WRITE"
IMPLICIT_COMMIT: Final = (
    "the transaction is committed, and another one begun: a change of the catalog cannot be part of it here "
    "(ddl_commits = on)"
)
_NOT_ROLLED_BACK: Final = (
    "nothing is rolled back: the rows were written outside of a transaction, so each statement was durable when it "
    "returned; BEGIN, Connection.begin() or autocommit=False begins one"
)
_HANDLERS: Final[dict[type[Any], Callable[[SessionTransactions, Any], None]]] = {
    bound.BeginTransaction: SessionTransactions._begin_statement,
    bound.CommitTransaction: SessionTransactions._commit_statement,
    bound.RollbackTransaction: lambda self, statement: self.rollback(),
    bound.SetSavepoint: lambda self, statement: self.savepoint(statement.name),
    bound.ReleaseSavepoint: lambda self, statement: self.release(statement.name),
    bound.RollbackToSavepoint: lambda self, statement: self.rollback_to(statement.name),
    bound.SetTransaction: SessionTransactions._set_transaction,
    bound.SetSessionCharacteristics: SessionTransactions._set_defaults,
}
