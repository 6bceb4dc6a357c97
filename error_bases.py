"""The top of the exceptions, which are all in `errors`: PEP 249's classes, and what every class has."""

from __future__ import annotations

from typing import ClassVar


class Warning(Exception):  # the name is PEP 249's
    """A condition worth attention (PEP 249)."""


class NotRolledBackWarning(UserWarning):
    """Begin a transaction before rows are written: a rollback was requested outside of one, and they stay."""


class Error(Exception):
    """The base of all errors that nyala raises (PEP 249)."""

    sqlstate: ClassVar[str] = "XX000"
    retryable: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False


class InterfaceError(Error):
    """Correct the call: the driver was used wrongly (a closed cursor, a missing parameter)."""

    sqlstate = "08000"


class DatabaseError(Error):
    """The base of all errors that come from the database (PEP 249)."""


class DataError(DatabaseError):
    """Correct the value: it is out of range, malformed or impossible to compute."""

    sqlstate = "22000"
    deterministic = True


class OperationalError(DatabaseError):
    """Check the environment: memory, disk, locks, processes."""

    sqlstate = "58000"


class IntegrityError(DatabaseError):
    """Correct the row: it breaks a rule of its table."""

    sqlstate = "23000"
    deterministic = True


class InternalError(DatabaseError):
    """Report it: this is a bug in nyala, not in your statement."""


class ProgrammingError(DatabaseError):
    """Correct the statement."""

    sqlstate = "42000"
    deterministic = True


class NotSupportedError(DatabaseError):
    """Rephrase the statement: nyala does not support the feature."""

    sqlstate = "0A000"
    deterministic = True


class StatementTooComplex(NotSupportedError):
    """Split the statement: it is nested deeper than it can be read, planned or run."""

    sqlstate = "54001"
