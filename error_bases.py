"""The top of the exceptions, which are all in `errors`: PEP 249's classes, and what every class has."""

from __future__ import annotations

import re
from typing import ClassVar


class Warning(Exception):  # the name is PEP 249's
    """A condition worth attention (PEP 249)."""


class ImplicitCommitWarning(UserWarning):
    """Check that the changes may stay: a statement has committed the transaction that it was executed in."""


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


_SECRETIVE = re.compile(r"\b(?:(?:CREATE|ALTER)(?:\s|--[^\n]*\n|/\*.*?\*/)+(?:USER|ROLE)|PASSWORD)\b", re.I | re.S)
_QUOTED = re.compile(
    r"""
    [eE]'(?:[^'\\]|''|\\.)*(?:'|\\?\Z)     # with backslashes
  | '(?:[^']|'')*(?:'|\Z)
  | "(?:[^"]|"")*(?:"|\Z)
  | \$(\w*)\$.*?(?:\$\1\$|\Z)
  | (?<=\bPASSWORD)\s+[^\s'"$;,)=]+           # a word in place of a text
""",
    re.I | re.S | re.X,
)


def hide_passwords(text: str) -> str:
    """Returns an SQL text with asterisks in place of what may be a password, as long as before: all quoted texts behind
    CREATE USER, or behind the word PASSWORD.

    >>> hide_passwords("ALTER USER ann PASSWORD 'it''s'")
    'ALTER USER ann PASSWORD *******'
    >>> hide_passwords("SELECT 'x'")
    "SELECT 'x'"
    """
    match = _SECRETIVE.search(text)
    if match is None:
        return text
    start = match.start()
    return text[:start] + _QUOTED.sub(lambda found: re.sub(r"[^\n]", "*", found[0]), text[start:])


class StatementError(ProgrammingError):
    """Correct the statement at the place shown.

    Parameters
    ----------
    message : str
        The error and the names that exist instead, one sentence.
    statement : str, optional
        The whole SQL text; together with `position` it shows the line and a caret under the position.
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
        """1-based line of the position, or None if it is unknown."""
        if self.statement is None or self.position is None:
            return None
        return self.statement.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int | None:
        """1-based column of the position, or None if it is unknown."""
        if self.statement is None or self.position is None:
            return None
        return self.position - (self.statement.rfind("\n", 0, self.position) + 1) + 1

    def __str__(self) -> str:
        if self.statement is None or self.position is None:
            return self.message
        line, column = self.line, self.column
        assert line is not None and column is not None
        lines = hide_passwords(self.statement).splitlines()
        text = lines[line - 1] if lines else ""
        prefix = f"LINE {line}: "
        width = max(1, min(self.width, len(text) - column + 1))
        # A tab stays a tab under the text, so that the caret lines up on any terminal.
        blank = "".join("\t" if char == "\t" else " " for char in text[: column - 1])
        return f"{self.message}\n{prefix}{text}\n{' ' * len(prefix)}{blank}{'^' * width}"
