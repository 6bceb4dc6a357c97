"""Overlays of a session's store and of its transactions, and how a session gets them.

A transaction with temporary objects is one of the connection's store and one of the temporary store. COMMIT commits the
former first: if that is refused, the latter is rolled back. The other way about is not possible, as the session alone
writes its temporary objects, so nothing conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...model.namespaces import TEMPORARY_NAMESPACE, Namespace
from ...model.schema import Table
from ...model.store import Store, Timestamp, Transaction
from ...model.transactions import DEFAULT_OPTIONS, TransactionOptions
from ..stores.open_stores import of_temporary_objects
from .overlay import OverlaidTables


class OverlayTransaction(OverlaidTables[Transaction]):
    """A transaction of a session that has temporary objects (`model.store.Transaction`)."""

    def __init__(self, base: Transaction, temporary: Transaction):
        super().__init__(base, temporary)
        self._first = temporary.savepoint()
        """The mark of before all that the transaction has done with temporary objects."""
        self._marks: dict[int, int] = {}
        """The mark in the temporary store for each mark in the base."""

    @property
    def options(self) -> TransactionOptions:
        return self.base.options

    @property
    def snapshot(self) -> Timestamp:
        return self.base.snapshot

    @property
    def is_open(self) -> bool:
        return self.base.is_open

    @property
    def has_writes(self) -> bool:
        return self.base.has_writes or self.temporary.has_writes

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> Transaction:
        """Raises `ActiveTransaction`."""
        return self.base.begin(options)

    def own_rows(self, table: Table) -> int:
        return self._of(table).own_rows(table)

    def lock_rows(self, table: Table, keys: pa.RecordBatch) -> None:
        self._of(table).lock_rows(table, keys)

    def lock_row(self, table: Table, key: Sequence[Any]) -> None:
        self._of(table).lock_row(table, key)

    def savepoint(self) -> int:
        mark = self.base.savepoint()
        self._marks[mark] = self.temporary.savepoint()
        return mark

    def rollback_to(self, savepoint: int) -> None:
        self.base.rollback_to(savepoint)
        # A mark without another one is from before the session had temporary objects.
        self.temporary.rollback_to(self._marks.get(savepoint, self._first))
        self._marks = {mark: own for mark, own in self._marks.items() if mark <= savepoint}

    def release(self, savepoint: int) -> None:
        self.base.release(savepoint)
        own = self._marks.get(savepoint)
        self._marks = {mark: known for mark, known in self._marks.items() if mark < savepoint}
        if own is not None:
            self.temporary.release(own)

    def commit(self) -> Timestamp:
        try:
            timestamp = self.base.commit()
        except BaseException:
            self.temporary.rollback()
            raise
        self.temporary.commit()
        return timestamp

    def rollback(self) -> None:
        self.base.rollback()
        self.temporary.rollback()

    def close(self) -> None:
        self.rollback()


class OverlayStore(OverlaidTables[Store]):
    """The store of a session that has temporary objects (`model.store.Store`)."""

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> Transaction:
        return OverlayTransaction(self.base.begin(options), self.temporary.begin(_own(options)))


def _own(options: TransactionOptions) -> TransactionOptions:
    """The options of the transaction of the temporary store: it has no other user, so nothing is to be validated."""
    return TransactionOptions(read_only=options.read_only, temporary_directory=options.temporary_directory)


def overlay(base: Store) -> OverlayStore:
    """A store with room for temporary objects over another one."""
    temporary = of_temporary_objects()
    temporary.create_namespace(Namespace(TEMPORARY_NAMESPACE))
    return OverlayStore(base, temporary)


def overlay_transaction(store: OverlayStore, transaction: Transaction) -> Transaction:
    """An open transaction of the base, with one of the temporary store of a new overlay."""
    return OverlayTransaction(transaction, store.temporary.begin(_own(transaction.options)))
