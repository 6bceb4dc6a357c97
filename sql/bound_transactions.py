"""Bound statements about transactions. The others are in `bound`."""

from __future__ import annotations

from typing import TypeAlias

from ..model.lazy_dataclass import dataclass
from ..model.schema import Table
from ..model.transactions import Isolation


@dataclass(frozen=True, slots=True)
class TransactionModes:
    """Characteristics that a statement gives to a transaction; None: not given."""

    isolation: Isolation | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """BEGIN, START TRANSACTION."""

    modes: TransactionModes = TransactionModes()


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """COMMIT, END."""


@dataclass(frozen=True, slots=True)
class RollbackTransaction:
    """ROLLBACK, ABORT."""


@dataclass(frozen=True, slots=True)
class SetSavepoint:
    """SAVEPOINT name."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint:
    """RELEASE [SAVEPOINT] name."""

    name: str


@dataclass(frozen=True, slots=True)
class RollbackToSavepoint:
    """ROLLBACK TO [SAVEPOINT] name."""

    name: str


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """SET TRANSACTION modes; SET transaction_isolation = level."""

    modes: TransactionModes


@dataclass(frozen=True, slots=True)
class SetSessionCharacteristics:
    """SET SESSION CHARACTERISTICS AS TRANSACTION modes: the defaults of later transactions."""

    modes: TransactionModes


@dataclass(frozen=True, slots=True)
class RowLocks:
    """The rows of one table of a query that FOR UPDATE names: their primary keys are the query's columns from position
    `first` on, in key order."""

    table: Table
    first: int


TransactionStatement: TypeAlias = (
    BeginTransaction
    | CommitTransaction
    | RollbackTransaction
    | SetSavepoint
    | ReleaseSavepoint
    | RollbackToSavepoint
    | SetTransaction
    | SetSessionCharacteristics
)
