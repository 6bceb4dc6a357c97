"""Transactions as all rooms know them: options, what was read, and what a COMMIT writes.

    BEGIN                `Store.begin` takes a snapshot and returns a `Transaction`, which is itself a `Store`
    statements           read the snapshot merged with the transaction's own rows; writes stay in the transaction
    COMMIT               one `TransactionChanges` for `Store.commit_transaction`: all of it at one timestamp, or nothing

Isolation is snapshot isolation with first-committer-wins (Berenson et al., "A Critique of ANSI SQL Isolation Levels",
1995): a COMMIT is refused with `SerializationFailure` where another write has changed one of its keys since the
snapshot. SERIALIZABLE also refuses it where rows that the transaction has read were changed, or rows that it would have
read were inserted (backward validation of the reads; Kung and Robinson, "On Optimistic Methods for Concurrency
Control", 1981). No lock is held between the statements.
"""

from __future__ import annotations

import enum

import pyarrow as pa

from .lazy_dataclass import dataclass
from .predicates import ColumnPredicate
from .schema import Table


class Isolation(enum.Enum):
    """Isolation level, by its SQL name. Only SERIALIZABLE differs from the others, which are all snapshot isolation:
    at least what the SQL standard requires of them."""

    READ_UNCOMMITTED = "READ UNCOMMITTED"
    READ_COMMITTED = "READ COMMITTED"
    REPEATABLE_READ = "REPEATABLE READ"
    SNAPSHOT = "SNAPSHOT"
    SERIALIZABLE = "SERIALIZABLE"


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """Characteristics of a transaction.

    Parameters
    ----------
    isolation : Isolation
    read_only : bool
        Writes are refused with `ReadOnlyTransaction`.
    memory_limit : int, optional
        Bytes of own rows in memory; beyond, they are in temporary files. None: 256 MiB.
    temporary_directory : str, optional
        Folder of these files; None: the store's, or the machine's.
    """

    isolation: Isolation = Isolation.SNAPSHOT
    read_only: bool = False
    memory_limit: int | None = None
    temporary_directory: str | None = None


DEFAULT_OPTIONS = TransactionOptions()


@dataclass(frozen=True, slots=True)
class TableRead:
    """Rows that a transaction has read, or has found missing; validated by COMMIT.

    Parameters
    ----------
    table : Table
    predicates : tuple of ColumnPredicate
        A conjunction: all rows that satisfy it were read. Empty: the whole table.
    keys : pa.RecordBatch, optional
        With the key columns by name: only rows with these keys were read (look-ups, FOR UPDATE).
    """

    table: Table
    predicates: tuple[ColumnPredicate, ...] = ()
    keys: pa.RecordBatch | None = None
