"""Transactions and savepoints of a client by the handles that it got for them.

A session has one transaction at a time, as a connection has: statements with its handle, and those without any, are
part of it. ADBC relies on the latter: it names no transaction when it ingests, and repeats a prepared statement with
the handle of a transaction that has ended.

BeginTransaction turns autocommit off, and the first statement begins the transaction. ADBC calls it right after each
COMMIT: a snapshot of that moment would be old when the next statement comes, and a cluster, which has no CREATE TABLE
inside of transactions, would never have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ....driver.connection import Connection
from ....errors import ActiveTransaction, NoActiveTransaction
from ..metadata.catalogs import quoted
from ..protocol.numbers import End
from .reports import Refused

_MOST_SAVEPOINTS: Final = 1000


class ClientTransactions:
    """The transactions of one session.

    Parameters
    ----------
    connection : Connection
    new_handle : callable
        Makes a handle.
    """

    def __init__(self, connection: Connection, new_handle: Callable[[], bytes]):
        self._connection = connection
        self._new_handle = new_handle
        self._open: bytes | None = None
        self._savepoints: dict[bytes, str] = {}
        """Names in SQL by handle, oldest first."""
        self._count = 0

    @property
    def is_open(self) -> bool:
        """True from BeginTransaction to EndTransaction, and in a transaction that was begun by SQL."""
        return self._open is not None or self._connection.in_transaction

    def begin(self) -> bytes:
        """BeginTransaction; the handle. Raises `ActiveTransaction` if one is in progress."""
        if self.is_open:
            raise ActiveTransaction("a session has one transaction at a time, and one is in progress")
        self._connection.autocommit = False
        self._open = self._new_handle()
        return self._open

    def begin_now(self) -> None:
        """Begins the transaction of BeginTransaction, unless a statement has done so."""
        if self._open is not None and not self._connection.in_transaction:
            self._connection.begin()

    def check(self, handle: bytes | None) -> None:
        """Raises `NoActiveTransaction` if a statement names a transaction that is not in progress."""
        if handle and handle != self._open:
            raise NoActiveTransaction("the transaction that the request names has ended")

    def end(self, handle: bytes, action: int) -> None:
        """EndTransaction. A COMMIT that is refused has ended the transaction, too."""
        if action not in (End.COMMIT, End.ROLLBACK):
            raise Refused(f"EndTransaction: there is no action {action}", "22023")
        if not handle:
            raise Refused("EndTransaction: the request names no transaction", "22023")
        self.check(handle)
        try:
            if action == End.COMMIT:
                self._connection.commit()
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Undoes and ends the transaction, if there is one."""
        self._open = None
        self._savepoints.clear()
        if self._connection.in_transaction:
            self._connection.rollback()
        self._connection.autocommit = True

    def savepoint(self, handle: bytes) -> str:
        """A savepoint's name as it is written in SQL; "" if it does not exist."""
        return quoted(self._savepoints[handle]) if handle in self._savepoints else ""

    def begin_savepoint(self, handle: bytes, name: str) -> bytes:
        """BeginSavepoint; the savepoint's handle. Names may repeat: the one in SQL is made here."""
        if not handle:
            raise Refused("BeginSavepoint: the request names no transaction", "22023")
        self.check(handle)
        if len(self._savepoints) >= _MOST_SAVEPOINTS:
            raise Refused(f"a transaction has at most {_MOST_SAVEPOINTS} savepoints", "54000")
        self.begin_now()
        self._count += 1
        written = f"{name[:40]}_{self._count}"
        self._connection.execute(f"SAVEPOINT {quoted(written)}")
        found = self._new_handle()
        self._savepoints[found] = written
        return found

    def end_savepoint(self, handle: bytes, action: int) -> None:
        """EndSavepoint. ROLLBACK keeps the savepoint, and ends those after it; RELEASE ends it, too."""
        if action not in (End.COMMIT, End.ROLLBACK):
            raise Refused(f"EndSavepoint: there is no action {action}", "22023")
        if handle not in self._savepoints:
            raise Refused("the savepoint that the request names does not exist", "3B001")
        name = quoted(self._savepoints[handle])
        self._connection.execute(f"RELEASE SAVEPOINT {name}" if action == End.COMMIT else f"ROLLBACK TO {name}")
        later = list(self._savepoints)[list(self._savepoints).index(handle) :]
        for found in later if action == End.COMMIT else later[1:]:
            del self._savepoints[found]
