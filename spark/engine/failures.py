"""Translates errors of Spark to nyala's.

A task that fails in Python ends its job with the text of the worker's traceback, whose last line names nyala's error.
Errors of Spark's own operators have an error class with an SQLSTATE. Both become the error that nyala's executor would
have raised. Any other is an `OperationalError` with Spark's message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ... import errors

_OURS: Final = re.compile(r"^(?:nyala\.errors\.)(\w+): (.*)$", re.MULTILINE)
_STATES: Final = {
    "22012": errors.DivisionByZero,
    "22003": errors.NumericOutOfRange,
    "22001": errors.TextTooLong,
    "21000": errors.CardinalityViolation,
    "22018": errors.InvalidText,
    "22007": errors.InvalidText,
}
"""Spark's SQLSTATEs that have a corresponding class; others of class 22 become `DataError`."""


@contextmanager
def as_ours() -> Iterator[None]:
    """Translates errors of PySpark and of the JVM to nyala's."""
    try:
        yield
    except errors.Error:
        raise
    except Exception as error:
        ours = translated(error)
        if ours is None:
            raise
        raise ours from error


def translated(error: Exception) -> errors.Error | None:
    """The translated error; None for one that is not from Spark."""
    module = type(error).__module__ or ""
    if not module.startswith(("pyspark", "py4j")):
        return None
    text = str(error)
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, errors.Error):
            return _made(kind, message)
    state = _state(error)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    made = _STATES.get(state, errors.DataError if state.startswith("22") else errors.OperationalError)
    return made(first if made is not errors.OperationalError else f"Spark: {first}")


def _made(kind: type[errors.Error], message: str) -> errors.Error:
    try:
        return kind(message)
    except TypeError:  # its constructor takes more than a text
        return errors.OperationalError(message)


def _state(error: Exception) -> str:
    """The SQLSTATE of a PySpark error, or of one of its causes."""
    getter: Any = getattr(error, "getSqlState", None)
    try:
        state = None if getter is None else getter()
    except Exception:  # the JVM may have terminated
        state = None
    if not state:
        match = re.search(r"SQLSTATE: (\w{5})", str(error))
        state = match[1] if match else ""
    return str(state)
