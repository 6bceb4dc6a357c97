"""All exceptions of nyala, classified by what the caller must do.

The top is PEP 249's hierarchy. Below it are few leaves; each docstring starts with the action to take. Every class has

- `sqlstate`: the SQL standard's five characters (PostgreSQL's where the standard has none),
- `retryable`: True if the same call may succeed later without any change,
- `deterministic`: True if it follows from data and statement alone. Only then may a replicated state machine return it;
  other errors of a replica (a full disk, a failing checksum) concern only that replica.

    Error
    ├── InterfaceError             the driver was used wrongly (closed cursor, wrong number of parameters)
    └── DatabaseError
        ├── ProgrammingError       the statement is wrong: syntax, names, types
        ├── DataError              a value is wrong: range, format, division by zero
        ├── IntegrityError         a row is refused: duplicate key, null in NOT NULL, outside all partitions
        ├── OperationalError       the environment: lock, disk, memory, corruption, cancel
        ├── NotSupportedError      a known feature that nyala does not have
        └── InternalError          a bug of nyala
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .error_access import DependentObjects as DependentObjects
from .error_access import DuplicateRole as DuplicateRole
from .error_access import InvalidGrant as InvalidGrant
from .error_access import InvalidPassword as InvalidPassword
from .error_access import LastUser as LastUser
from .error_access import LoginExpired as LoginExpired
from .error_access import LoginNeeded as LoginNeeded
from .error_access import PermissionDenied as PermissionDenied
from .error_access import UnknownRole as UnknownRole
from .error_bases import DatabaseError as DatabaseError
from .error_bases import DataError as DataError
from .error_bases import Error as Error
from .error_bases import ImplicitCommitWarning as ImplicitCommitWarning
from .error_bases import IntegrityError as IntegrityError
from .error_bases import InterfaceError as InterfaceError
from .error_bases import InternalError as InternalError
from .error_bases import NotRolledBackWarning as NotRolledBackWarning
from .error_bases import NotSupportedError as NotSupportedError
from .error_bases import OperationalError as OperationalError
from .error_bases import ProgrammingError as ProgrammingError
from .error_bases import StatementError as StatementError
from .error_bases import StatementTooComplex as StatementTooComplex
from .error_bases import Warning as Warning
from .error_bases import hide_passwords as hide_passwords
from .error_hints import did_you_mean as did_you_mean
from .error_hints import listed as listed
from .error_hints import quoted_name as quoted_name

for _base in (
    DatabaseError,
    DataError,
    DependentObjects,
    DuplicateRole,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    InvalidGrant,
    InvalidPassword,
    LastUser,
    ImplicitCommitWarning,
    NotRolledBackWarning,
    NotSupportedError,
    OperationalError,
    PermissionDenied,
    ProgrammingError,
    StatementError,
    StatementTooComplex,
    UnknownRole,
    Warning,
):
    _base.__module__ = __name__  # as tracebacks and pickles name it


# ---- ProgrammingError: the statement ---------------------------------------------------------------------------


class SqlSyntaxError(StatementError):
    """Correct the syntax at the place shown."""

    sqlstate = "42601"


class UnknownTable(StatementError):
    """Name a table that exists; the message lists close ones."""

    sqlstate = "42P01"


class UnknownSchema(UnknownTable):
    """Name a schema that exists, or CREATE SCHEMA first."""

    sqlstate = "3F000"


class UnknownColumn(StatementError):
    """Name a column that exists; the message lists close ones."""

    sqlstate = "42703"


class SchemaChanged(UnknownColumn):
    """Retry: the table was altered between the preparation of a read or a write and its execution, and a name refers to
    another column. Statements are bound again automatically; nothing was written."""

    sqlstate = "55000"
    retryable = True
    deterministic = False


class AmbiguousColumn(StatementError):
    """Qualify the column with its table's name or alias."""

    sqlstate = "42702"


class UnknownFunction(StatementError):
    """Name a function that exists, with the right number of arguments."""

    sqlstate = "42883"


class TypeMismatch(StatementError):
    """Cast one side, or write the literal in the other's type."""

    sqlstate = "42804"


class GroupingError(StatementError):
    """Add the column to GROUP BY, or use it inside an aggregate function."""

    sqlstate = "42803"


class WindowError(StatementError):
    """Correct the window call, its window or its frame, or move the call into the select list or QUALIFY."""

    sqlstate = "42P20"


class DuplicateTable(StatementError):
    """Choose another name, DROP the table first, or use IF NOT EXISTS."""

    sqlstate = "42P07"


class DuplicateSchema(StatementError):
    """Choose another name, DROP the schema first, or use IF NOT EXISTS."""

    sqlstate = "42P06"


class InvalidTableDefinition(StatementError):
    """Correct the CREATE TABLE: its key, columns or partitions are invalid."""

    sqlstate = "42P16"


# ---- IntegrityError: a row ---------------------------------------------------------------------------------------


class AlreadyPresent(IntegrityError):
    """Use UPSERT or INSERT IGNORE if the row may exist: a row with this primary key exists already."""

    sqlstate = "23505"


class NotFound(IntegrityError):
    """Insert the row first: no row has this primary key."""

    sqlstate = "02000"


class RowChanged(IntegrityError):
    """Read the row again: another write has changed it since the read."""

    sqlstate = "40001"


class NotNullViolation(IntegrityError):
    """Give the column a value: it is NOT NULL (primary key columns always are)."""

    sqlstate = "23502"


class ImmutableColumn(IntegrityError):
    """Leave the column out, or use the IGNORE form: it is IMMUTABLE, and the row keeps the value it was inserted
    with."""

    sqlstate = "23001"


class LimitExceeded(IntegrityError):
    """Shorten the value: it passes a limit of the store, which the message names."""

    sqlstate = "54000"


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Error of one of several rows: its number among the given rows (from 0; texts count from 1), the given columns of
    its primary key by name, and the exception."""

    row: int
    key: Mapping[str, Any]
    error: IntegrityError

    def __str__(self) -> str:
        key = ", ".join(f"{name} = {value!r}" for name, value in self.key.items())
        return f"row {self.row + 1} ({key}): {type(self.error).__name__}: {self.error}"


class RowsRefused(IntegrityError):
    """Correct the rows that `refused` lists, by their numbers; all others were written, unless `all_or_none` was set.

    Parameters
    ----------
    message : str
    refused : sequence of RefusedRow
        By row number, ascending.
    applied : int
        How many of the other rows changed the table.
    """

    def __init__(self, message: str, refused: Sequence[RefusedRow] = (), applied: int = 0):
        super().__init__(message)
        self.refused = tuple(refused)
        self.applied = applied


class NoPartition(IntegrityError):
    """Add a range partition that holds the row, or correct the value: no partition of the table covers it."""

    sqlstate = "23514"


# ---- DataError: a value ------------------------------------------------------------------------------------------


class NumericOutOfRange(DataError):
    """Use a wider type: the value does not fit."""

    sqlstate = "22003"


class TextTooLong(DataError):
    """Shorten the text or widen the column: it has more characters than its VARCHAR(n) or CHAR(n) takes."""

    sqlstate = "22001"


class DivisionByZero(DataError):
    """Guard the divisor, for instance with NULLIF(x, 0)."""

    sqlstate = "22012"


class InvalidText(DataError):
    """Correct the text: it does not spell a value of the type."""

    sqlstate = "22P02"


class CardinalityViolation(DataError):
    """Make the scalar subquery return at most one row."""

    sqlstate = "21000"


# ---- OperationalError: the surroundings ---------------------------------------------------------------------------


class StoreLocked(OperationalError):
    """Close the other process first (the message names it): a directory has one opener at a time."""

    sqlstate = "55006"
    retryable = True


class StoreClosed(OperationalError):
    """Open the store again: it has been closed."""

    sqlstate = "08003"


class WriteConflict(OperationalError):
    """Retry: concurrent statements changed the same rows before each attempt to write them."""

    sqlstate = "40001"
    retryable = True


class SerializationFailure(OperationalError):
    """Retry the whole transaction: another one has changed rows that this one wrote, or relied on, and committed first.
    It is rolled back."""

    sqlstate = "40001"
    retryable = True


class FailedTransaction(SerializationFailure):
    """Roll back and retry the whole transaction: an earlier statement of it has met a conflict."""

    sqlstate = "25P02"


class CatalogInTransaction(NotSupportedError):
    """COMMIT or ROLLBACK first: the store cannot change its catalog as a part of a transaction."""


class NoActiveTransaction(OperationalError):
    """Begin a transaction first: COMMIT, ROLLBACK or SAVEPOINT was called outside of one."""

    sqlstate = "25P01"


class ActiveTransaction(OperationalError):
    """End the transaction first: the call is not possible inside one, or one has begun already."""

    sqlstate = "25001"


class ReadOnlyTransaction(OperationalError):
    """Write in a transaction that is READ WRITE."""

    sqlstate = "25006"


class UnknownPreparedStatement(ProgrammingError):
    """PREPARE the statement first, in the same session."""

    sqlstate = "26000"


class UnknownCursor(ProgrammingError):
    """DECLARE the cursor first, in the same transaction."""

    sqlstate = "34000"


class InvalidSavepoint(OperationalError):
    """Name a savepoint that the transaction has set and not released."""

    sqlstate = "3B001"


class Cancelled(OperationalError):
    """No action needed: the statement was cancelled on request."""

    sqlstate = "57014"


class TabletGone(OperationalError):
    """Request new scan tokens: the tablet was dropped, with its table or its range partition."""

    sqlstate = "55000"


class StaleScanToken(OperationalError):
    """Request new scan tokens: the table was dropped, or altered so that the token cannot be read any more."""

    sqlstate = "55000"


class WriteBufferFull(OperationalError):
    """Flush the session and apply the rows again: they were not accepted, because its buffer has no space for them."""

    sqlstate = "53000"


class ClockOutOfRange(OperationalError):
    """Correct the machine's clock: it shows a time that timestamps of writes cannot have."""

    sqlstate = "22008"


class HistoryGone(OperationalError):
    """Read at a later time: the history of the table is not kept for so long."""

    sqlstate = "72000"


class MemoryLimitExceeded(OperationalError):
    """Check the disk, or raise `store_memory` (of `Database`: `memory_limit_bytes`): rows in memory fill it, and could
    not be written to disk. Nothing was written."""

    sqlstate = "53200"
    retryable = True


class WriteTooLarge(OperationalError):
    """Write fewer rows at a time, or give the servers more memory: a batch needs more memory than a server has for rows
    and pages. Nothing was written, and a retry fails again."""

    sqlstate = "54000"


class DiskError(OperationalError):
    """Check the disk (hardware, mounts, limits of open files); acknowledged writes are safe.

    Parameters
    ----------
    message : str
        The failed operation, the file, and the system's reason.
    errno : int
        The system's error number; 0 if there is none.
    """

    sqlstate = "58030"
    retryable = True

    def __init__(self, message: str = "", errno: int = 0):
        super().__init__(message)
        self.errno = errno

    def repeated(self) -> DiskError:
        """Returns the same failure, to be raised for another caller that it stops."""
        return type(self)(str(self), self.errno)


class DiskFull(DiskError):
    """Free space on the disk, or raise the quota; acknowledged writes are safe, and the store need not be reopened."""

    sqlstate = "53100"


class QuotaExceeded(DiskFull):
    """Delete rows or drop partitions, or raise the quota of the table: ALTER TABLE ... SET QUOTA. Space of deleted rows
    is free when they are older than history_seconds and have been compacted."""

    retryable = False


class FileAccessError(DiskError):
    """Correct the path or its permissions: the system refuses the file, and will refuse it again."""

    sqlstate = "58000"
    retryable = False


class OutcomeUnknown(DiskError):
    """Check whether the rows exist before writing them again: the disk failed at a step after which the write may or
    may not be in the log. It is not visible before a restart; after one, either all of it is visible or nothing."""

    sqlstate = "40003"
    retryable = False


class UnsupportedFormat(OperationalError):
    """Open the store with the nyala version that wrote it, or a newer one: a file has an unknown format version."""

    sqlstate = "58P01"


class CorruptionError(OperationalError):
    """Restore the file from a replica or a backup: its bytes are not those that were written.

    Parameters
    ----------
    message : str
        The expected and the actual value.
    path : str
        The damaged file.
    place : str
        Position in the file: "page 3 at offset 8192", "footer", "entry 17 at offset 411".
    """

    sqlstate = "XX001"

    def __init__(self, message: str, path: str, place: str):
        super().__init__(f"{path}: {place}: {message}")
        self.path = path
        self.place = place


# ---- OperationalError: a cluster ------------------------------------------------------------------------------------


class ClusterError(OperationalError):
    """Check the cluster (`nyala cluster ksck`): its servers could not execute the request."""

    sqlstate = "58000"


class ServerUnavailable(ClusterError):
    """Retry, or check the server: it cannot be reached, is starting, or is shutting down."""

    sqlstate = "08001"
    retryable = True


class ConnectionRefused(ServerUnavailable):
    """Start the server, or check its address: no process listens there, or its host is unknown."""


class DeadlineExceeded(ClusterError):
    """Retry with more time, or check the cluster: no response came in time. To learn the result of a write with an
    exactly-once call, repeat the call."""

    sqlstate = "57014"
    retryable = True


class PartlyWritten(ClusterError):
    """Check which rows exist before repeating the statement: some of its tablets have written their rows, or may have,
    and others failed. The message has the numbers."""

    sqlstate = "40003"


class ClockTooFarAhead(ClusterError):
    """Correct the clock of the wrong machine; the message names both times. Nothing was changed. A process whose clock
    was ahead keeps that time until it is restarted."""

    sqlstate = "22008"


class AuthenticationFailed(ClusterError):
    """Correct the certificates, or the TLS options: one of the two sides does not trust the other, or only one of them
    speaks TLS."""

    sqlstate = "28000"


class AccessDenied(ClusterError):
    """Use a certificate of the role that the message names: this certificate's role does not permit the call."""

    sqlstate = "42501"


class ServerOverloaded(ClusterError):
    """Retry later: the server has no memory or no thread for the request, and did not begin it."""

    sqlstate = "53300"
    retryable = True


class NotTheLeader(ClusterError):
    """Send the request to the leader: another replica leads, or none yet.

    Parameters
    ----------
    message : str
    leader : str
        Address of the leader; "" if the replica does not have it.
    term : int
        The replica's term.
    """

    sqlstate = "58000"
    retryable = True

    def __init__(self, message: str, leader: str = "", term: int = 0):
        super().__init__(message)
        self.leader = leader
        self.term = term


class ReplicaUnavailable(ClusterError):
    """Use another replica, or look up the tablet's locations again: this server has no running replica of it."""

    sqlstate = "58000"
    retryable = True


class StaleSchema(ClusterError):
    """Fetch the table again: it was altered since the caller read its schema; nothing was changed."""

    sqlstate = "55000"
    retryable = True


class ScannerExpired(ClusterError):
    """Begin the scan again: the server has closed the idle scanner."""

    sqlstate = "34000"
    retryable = True


class ConfigurationRefused(ClusterError):
    """Check the tablet's replicas (`nyala tablet`) and retry: they cannot be changed this way, or not now."""

    sqlstate = "55000"


class ProtocolError(ClusterError):
    """Use matching versions of nyala: the message is not of this protocol, or of another version of it."""

    sqlstate = "08P01"
