"""The one exception taxonomy of nyala, cut by what the caller must do about an error.

The top is PEP 249's hierarchy. Below it stand few leaves; each docstring starts with what to do. Every class says

- `sqlstate`: the SQL standard's five characters (PostgreSQL's where the standard has none),
- `retryable`: may the same call succeed later without any change?
- `deterministic`: does it follow from data and statement alone? Only then may a replicated state machine return it;
  any other error of a replica (a full disk, a failing checksum) is that replica's own trouble.

    Error
    ├── InterfaceError             the driver was used wrongly (closed cursor, wrong number of parameters)
    └── DatabaseError
        ├── ProgrammingError       the statement is wrong: syntax, names, types
        ├── DataError              a value is wrong: range, format, division by zero
        ├── IntegrityError         a row is refused: duplicate key, null in NOT NULL, outside all partitions
        ├── OperationalError       the surroundings are at fault: lock, disk, memory, corruption, cancel
        ├── NotSupportedError      a known wish that nyala does not fulfil
        └── InternalError          a bug of nyala
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .error_hints import did_you_mean as did_you_mean
from .error_hints import listed as listed
from .error_hints import quoted_name as quoted_name


class Warning(Exception):  # the name is PEP 249's
    """Something worth a look happened (PEP 249)."""


class NotRolledBackWarning(UserWarning):
    """Call commit() after writes: a rollback was requested, and the rows written before it stay."""


class Error(Exception):
    """The base of all errors that nyala raises (PEP 249)."""

    sqlstate: ClassVar[str] = "XX000"
    retryable: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False


class InterfaceError(Error):
    """Mend the call: the driver was used wrongly (a closed cursor, a missing parameter)."""

    sqlstate = "08000"


class DatabaseError(Error):
    """The base of all errors that come from the database (PEP 249)."""


class DataError(DatabaseError):
    """Mend the value: it is out of range, malformed or impossible to compute."""

    sqlstate = "22000"
    deterministic = True


class OperationalError(DatabaseError):
    """Look at the surroundings: memory, disk, locks, processes."""

    sqlstate = "58000"


class IntegrityError(DatabaseError):
    """Mend the row: it breaks a rule of its table."""

    sqlstate = "23000"
    deterministic = True


class InternalError(DatabaseError):
    """Report it: this is a bug in nyala, not in your statement."""


class ProgrammingError(DatabaseError):
    """Mend the statement."""

    sqlstate = "42000"
    deterministic = True


class NotSupportedError(DatabaseError):
    """Rephrase the statement: nyala knows the feature and does not have it."""

    sqlstate = "0A000"
    deterministic = True


class StatementTooComplex(NotSupportedError):
    """Split the statement: it is nested deeper than it can be read, planned or run."""

    sqlstate = "54001"


# ---- ProgrammingError: the statement ---------------------------------------------------------------------------


class StatementError(ProgrammingError):
    """Mend the statement at the place shown.

    Parameters
    ----------
    message : str
        What is wrong and what exists instead, one sentence.
    statement : str, optional
        The whole SQL text; together with `position` it draws the line and a caret under the place.
    position : int, optional
        0-based offset of the offending token in `statement`, in characters.
    width : int
        Length of the offending token, in characters.
    """

    def __init__(self, message: str, statement: str | None = None, position: int | None = None, width: int = 1):
        super().__init__(message)
        self.message = message
        self.statement = statement
        self.position = position
        self.width = width

    @property
    def line(self) -> int | None:
        """1-based line of the place, or None where it is unknown."""
        if self.statement is None or self.position is None:
            return None
        return self.statement.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int | None:
        """1-based column of the place, or None where it is unknown."""
        if self.statement is None or self.position is None:
            return None
        return self.position - (self.statement.rfind("\n", 0, self.position) + 1) + 1

    def __str__(self) -> str:
        if self.statement is None or self.position is None:
            return self.message
        line, column = self.line, self.column
        assert line is not None and column is not None
        text = self.statement.splitlines()[line - 1] if self.statement.splitlines() else ""
        prefix = f"LINE {line}: "
        width = max(1, min(self.width, len(text) - column + 1))
        # A tab stays a tab under the text, so that the caret lines up on any terminal.
        blank = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        return f"{self.message}\n{prefix}{text}\n{' ' * len(prefix)}{blank}{'^' * width}"


class SqlSyntaxError(StatementError):
    """Mend the syntax at the place shown."""

    sqlstate = "42601"


class UnknownTable(StatementError):
    """Name a table that exists; the message lists close ones."""

    sqlstate = "42P01"


class UnknownColumn(StatementError):
    """Name a column that exists; the message lists close ones."""

    sqlstate = "42703"


class SchemaChanged(UnknownColumn):
    """Try again: the table was altered between the preparation of a read or a write and its execution, and a name does
    not mean the column that it meant before. Statements are bound again by themselves; nothing was written."""

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
    """Add the column to GROUP BY, or put it inside an aggregate function."""

    sqlstate = "42803"


class WindowError(StatementError):
    """Mend the window call, its window or its frame, or move the call into the select list or QUALIFY."""

    sqlstate = "42P20"


class DuplicateTable(StatementError):
    """Choose another name, DROP the table first, or say IF NOT EXISTS."""

    sqlstate = "42P07"


class InvalidTableDefinition(StatementError):
    """Mend the CREATE TABLE: its key, columns or partitions cannot be."""

    sqlstate = "42P16"


# ---- IntegrityError: a row ---------------------------------------------------------------------------------------


class AlreadyPresent(IntegrityError):
    """Use UPSERT or INSERT IGNORE if the row may exist: a row with this primary key is there already."""

    sqlstate = "23505"


class NotFound(IntegrityError):
    """Insert the row first: no row has this primary key."""

    sqlstate = "02000"


class RowChanged(IntegrityError):
    """Read the row again: another write has changed it since it was read."""

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
    """Why one of several rows was refused: its number among those given (from 0; texts count from 1), its primary key
    by column name (as far as it was given), and the error."""

    row: int
    key: Mapping[str, Any]
    error: IntegrityError

    def __str__(self) -> str:
        key = ", ".join(f"{name} = {value!r}" for name, value in self.key.items())
        return f"row {self.row + 1} ({key}): {type(self.error).__name__}: {self.error}"


class RowsRefused(IntegrityError):
    """Mend the rows that `refused` lists, by their numbers; all others were written, unless all or none were asked for.

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
    """Add a range partition that holds the row, or mend the value: no partition of the table covers it."""

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
    """Mend the text: it does not spell a value of the type."""

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
    """Try again: others changed the same rows each time that this statement was about to write them."""

    sqlstate = "40001"
    retryable = True


class Cancelled(OperationalError):
    """Nothing to mend: the statement was cancelled on request."""

    sqlstate = "57014"


class TabletGone(OperationalError):
    """Ask for new scan tokens: the tablet was dropped, with its table or its range partition."""

    sqlstate = "55000"


class StaleScanToken(OperationalError):
    """Ask for new scan tokens: the table was dropped, or altered so that the token cannot be read any more."""

    sqlstate = "55000"


class WriteBufferFull(OperationalError):
    """Flush the session and apply the rows again: they were not taken, as its buffer has no room for them."""

    sqlstate = "53000"


class ClockOutOfRange(OperationalError):
    """Set the machine's clock right: it shows a time that timestamps of writes cannot have."""

    sqlstate = "22008"


class HistoryGone(OperationalError):
    """Read at a later time: the history of the table is not kept for so long."""

    sqlstate = "72000"


class MemoryLimitExceeded(OperationalError):
    """Look at the disk, or raise `store_memory` (of `Database`: `memory_limit_bytes`): rows in memory fill it,
    and could not be written to disk. Nothing of the write was done."""

    sqlstate = "53200"
    retryable = True


class WriteTooLarge(OperationalError):
    """Write fewer rows at a time, or give the servers more memory: a batch takes more than a server has for rows and
    pages. Nothing of the write was done, and doing it again is no use."""

    sqlstate = "54000"


class DiskError(OperationalError):
    """Look at the disk (hardware, mounts, limits of open files); what was acknowledged is safe.

    Parameters
    ----------
    message : str
        What could not be done, with which file, and the system's reason.
    errno : int
        The system's number of the reason; 0 where there is none.
    """

    sqlstate = "58030"
    retryable = True

    def __init__(self, message: str = "", errno: int = 0):
        super().__init__(message)
        self.errno = errno

    def repeated(self) -> DiskError:
        """The same failure, to be raised for another caller that it stops."""
        return type(self)(str(self), self.errno)


class DiskFull(DiskError):
    """Free space on the disk, or raise the quota; what was acknowledged is safe, and nothing need be closed."""

    sqlstate = "53100"


class FileAccessError(DiskError):
    """Mend the path or its permissions: the system refuses the file, and will refuse it again."""

    sqlstate = "58000"
    retryable = False


class OutcomeUnknown(DiskError):
    """Look whether the rows are there before writing them again: the disk failed at a moment at which it cannot be said
    whether the write will have happened after a restart. Until then it has not, and all of it has or nothing."""

    sqlstate = "40003"
    retryable = False


class UnsupportedFormat(OperationalError):
    """Open the store with the nyala version that wrote it, or a newer one: a file has an unknown format version."""

    sqlstate = "58P01"


class CorruptionError(OperationalError):
    """Restore the file from a replica or a backup: its bytes are not what was written.

    Parameters
    ----------
    message : str
        What was expected and what was found.
    path : str
        The damaged file.
    place : str
        Where in the file: "page 3 at offset 8192", "footer", "entry 17 at offset 411".
    """

    sqlstate = "XX001"

    def __init__(self, message: str, path: str, place: str):
        super().__init__(f"{path}: {place}: {message}")
        self.path = path
        self.place = place


# ---- OperationalError: a cluster ------------------------------------------------------------------------------------


class ClusterError(OperationalError):
    """Look at the cluster (`nyala cluster ksck`): what was asked of its servers could not be done."""

    sqlstate = "58000"


class ServerUnavailable(ClusterError):
    """Try again, or look at the server: it cannot be reached, is starting, or is shutting down."""

    sqlstate = "08001"
    retryable = True


class ConnectionRefused(ServerUnavailable):
    """Start the server, or look at its address: nobody listens there, or its host is not known."""


class DeadlineExceeded(ClusterError):
    """Try again with more time, or look at the cluster: no answer came in time. What a write with an exactly-once call
    did is told by repeating it."""

    sqlstate = "57014"
    retryable = True


class PartlyWritten(ClusterError):
    """Look which rows are there before doing the statement again: its rows go to several tablets, of which some have
    written theirs, or may have, and others failed. The message says how many."""

    sqlstate = "40003"


class ClockTooFarAhead(ClusterError):
    """Set the clock right of the machine that is wrong; the message names both times. Nothing was done. A process whose
    clock was ahead once keeps that time until it is restarted."""

    sqlstate = "22008"


class AuthenticationFailed(ClusterError):
    """Mend the certificates, or the TLS options: one of the two sides does not trust the other, or only one of them
    speaks TLS."""

    sqlstate = "28000"


class AccessDenied(ClusterError):
    """Use a certificate of the role that the message names: this one's holder may not do that."""

    sqlstate = "42501"


class ServerOverloaded(ClusterError):
    """Try again a little later: the server has no memory or no hands left for the request, and did nothing of it."""

    sqlstate = "53300"
    retryable = True


class NotTheLeader(ClusterError):
    """Ask the leader: another replica is, or none yet.

    Parameters
    ----------
    message : str
    leader : str
        The address of the leader as far as the replica knows; "" otherwise.
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
    """Ask another replica, or ask for the tablet's new locations: this server has none, or one that is not running."""

    sqlstate = "58000"
    retryable = True


class StaleSchema(ClusterError):
    """Ask for the table again: it was altered since the caller looked at it, and nothing was done."""

    sqlstate = "55000"
    retryable = True


class ScannerExpired(ClusterError):
    """Begin the scan again: the server has given up what it held ready, as nobody asked for it."""

    sqlstate = "34000"
    retryable = True


class ConfigurationRefused(ClusterError):
    """Look at the tablet's replicas (`nyala tablet`), and ask again: they cannot be changed so, or not now."""

    sqlstate = "55000"


class ProtocolError(ClusterError):
    """Use matching versions of nyala: the message is none of this protocol, or of another version of it."""

    sqlstate = "08P01"
