"""Names and texts that come as bytes, and the columns that a bound statement's result has."""

from __future__ import annotations

from typing import Any

from ....sql import bound
from .reports import Refused


def decoded(text: bytes) -> str:
    """The text of bytes. Raises `Refused` if they are not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Refused(f'invalid byte sequence for encoding "UTF8": 0x{text[error.start]:02x}', "22021") from None


def shown(name: bytes) -> str:
    """A name for messages, whatever its bytes."""
    return name.decode(errors="replace")


def result_columns(statement: bound.Statement) -> Any:
    """The columns of a bound statement's result; None if it has none."""
    if isinstance(statement, bound.SelectStatement):
        return statement.query.columns[: statement.visible]
    return getattr(statement, "returning", None)
