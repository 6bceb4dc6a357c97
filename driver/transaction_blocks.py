"""Transactions as context managers, and functions that are retried as transactions.

    with connection.transaction():            BEGIN ... COMMIT, or ROLLBACK if an exception leaves the block
        with connection.transaction():        SAVEPOINT ... RELEASE, or ROLLBACK TO

A conflict rolls the whole transaction back, so only a whole one can be retried: `retried` calls its function again. It
sleeps before, for a random time below a limit that doubles ("full jitter"): of transactions that conflict, those that
retry at the same time would conflict again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ..errors import ActiveTransaction, InterfaceError, SerializationFailure, WriteConflict
from .open_connection import OpenConnection

if TYPE_CHECKING:
    from .tables.write_session import WriteSession


class TransactionalConnection(OpenConnection, Protocol):
    """A connection with the methods that a block needs."""

    @property
    def in_transaction(self) -> bool:
        """See `driver.connection.Connection.in_transaction`."""

    def begin(self, isolation_level: str | None = None, read_only: bool = False) -> None:
        """See `driver.connection.Connection.begin`."""

    def commit(self) -> None:
        """See `driver.connection.Connection.commit`."""

    def rollback(self) -> None:
        """See `driver.connection.Connection.rollback`."""


C = TypeVar("C", bound=TransactionalConnection)
T = TypeVar("T")
RETRIES: Final = 10
FIRST_SLEEP: Final = 0.001
LONGEST_SLEEP: Final = 1.0
"""Seconds."""
RETRYABLE: Final = (SerializationFailure, WriteConflict)
_SAVEPOINT: Final = "nyala block"
"""Name of a block's savepoint. A nested block hides that of the outer one until it ends."""


class TransactionBlock(Generic[C]):
    """A transaction, or a savepoint of the open one, as a context manager. Made by `Connection.transaction`."""

    def __init__(self, connection: C, isolation_level: str | None = None, read_only: bool = False):
        self._connection = connection
        self._isolation_level = isolation_level
        self._read_only = read_only
        self._is_nested: bool | None = None

    def __enter__(self) -> C:
        if self._is_nested is not None:
            raise InterfaceError("the block was entered before: each needs its own transaction()")
        connection = self._connection
        self._is_nested = connection.in_transaction
        if not self._is_nested:
            connection.begin(self._isolation_level, self._read_only)
        elif self._isolation_level is not None or self._read_only:
            raise ActiveTransaction("a nested block is a savepoint: it has the characteristics of its transaction")
        else:
            connection.session.transactions.savepoint(_SAVEPOINT)
        return connection

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        connection = self._connection
        try:
            transactions = connection.session.transactions
        except InterfaceError:
            if kind is None:
                raise
            return  # closed in the block, which has rolled back; the error of the block comes out
        if not transactions.is_open:
            return  # the block has ended it itself
        if not self._is_nested:
            if kind is None:
                connection.commit()
            else:
                connection.rollback()
        elif not transactions.is_failed:  # otherwise the outermost block rolls back
            if kind is not None:
                transactions.rollback_to(_SAVEPOINT)
            transactions.release(_SAVEPOINT)


def retried(
    connection: C,
    function: Callable[[C], T],
    retries: int,
    isolation_level: str | None = None,
    read_only: bool = False,
) -> T:
    """Call `function` in a transaction until that commits; the parameters are described at `Connection.run`."""
    check_retries(connection, retries)
    for attempt in range(retries + 1):
        try:
            with TransactionBlock(connection, isolation_level, read_only):
                return function(connection)
        except RETRYABLE as error:
            if attempt == retries:
                note_attempts(error, retries)
                raise
            time.sleep(sleep_before(attempt))
    raise AssertionError


def check_retries(connection: TransactionalConnection, retries: int) -> None:
    """Raise `InterfaceError` for a wrong number, `ActiveTransaction` in a transaction."""
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise InterfaceError(f"retries={retries!r}: a whole number of at least 0 is needed")
    if connection.in_transaction:
        raise ActiveTransaction("run() retries a whole transaction, and one is open: COMMIT or ROLLBACK first")


def note_attempts(error: Exception, retries: int) -> None:
    """Add the number of attempts to the error of the last one."""
    if retries:
        error.add_note(f"in each of {retries + 1} attempts")


def sleep_before(attempt: int) -> float:
    """Random number of seconds before the next attempt, after the one of this number (from 0)."""
    return random.uniform(0, min(LONGEST_SLEEP, FIRST_SLEEP * 2**attempt))


def flush_buffered(sessions: Iterable[WriteSession], commits: bool) -> None:
    """Write the buffered rows of write sessions, which belong to the transaction that ends."""
    for session in list(sessions):
        session.flush_here()
        if commits:
            session.raise_pending()
