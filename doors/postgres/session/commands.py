"""Statements that concern the connection alone: settings, DEALLOCATE, DISCARD, CLOSE, LISTEN."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

from ....driver.session.session import Session
from ....errors import NotSupportedError, SqlSyntaxError
from ....model.types import STRING
from ....sql.expressions import Column
from ..protocol import replies
from ..values.single_rows import encode_row
from ..values.types import TEXT
from .client_settings import ClientSettings
from .copy_syntax import folded
from .portals import row_fields
from .reports import Refused
from .statements import StatementText

_NAMED: Final = re.compile(r"(?:DEALLOCATE(?:\s+PREPARE)?|CLOSE)\s+(\"(?:[^\"]|\"\")+\"|\w+)", re.I)


class Desk(Protocol):
    """The client's prepared statements and portals (`backend.Backend`)."""

    settings: ClientSettings

    @property
    def is_in_block(self) -> bool:
        """True in a transaction of any kind."""

    def deallocate(self, name: str | None) -> bool:
        """Discards prepared statements."""

    def close_cursor(self, name: str) -> bool:
        """Closes a portal."""

    def discard(self, portals: bool) -> None:
        """Discards prepared statements, and portals."""

    def run_in_session(self, text: str) -> None:
        """Runs a statement about the names that SQL has given: PREPARE, DECLARE."""


def setting(
    settings: ClientSettings, session: Session, statement: StatementText, describes: bool
) -> Iterator[bytes] | None:
    """The response to a statement about a setting of the client; None if it is one of the session's.

    `describes`: SHOW is preceded by its column.
    """
    if statement.text.upper().split() == ["RESET", "ALL"]:
        session.run(statement.text)
        return iter((replies.parameter_statuses(settings.reset()), replies.command_complete("RESET")))
    outcome = settings.run(statement.text)
    if outcome is None:
        return None
    parts = [replies.parameter_statuses(outcome.reported or {})]
    if outcome.shown is not None:
        name, value = outcome.shown
        columns = _shown(name)
        if describes:
            parts.append(replies.row_description(row_fields(columns, (TEXT,))))
        parts.append(encode_row((value,), (STRING,), (TEXT,)))
    parts.append(replies.command_complete(outcome.tag))
    return iter(parts)


def shown_columns(settings: ClientSettings, session: Session, statement: StatementText) -> tuple[Column, ...] | None:
    """The columns of a statement about settings; None if it has none."""
    if statement.words[0] != "SHOW":
        return None
    outcome = settings.run(statement.text)
    if outcome is not None and outcome.shown is not None:
        return _shown(outcome.shown[0])
    execution = session.run(statement.text)
    columns = execution.columns
    execution.close()
    return columns


def _shown(name: str) -> tuple[Column, ...]:
    return (Column(STRING, True, -1, name),)


def session(desk: Desk, statement: StatementText) -> Iterator[bytes]:
    """The response to a statement about the connection."""
    verb, *rest = statement.words
    if verb in ("LISTEN", "NOTIFY"):
        raise NotSupportedError(f"{verb} is not supported: nyala sends no notifications")
    if verb == "UNLISTEN":
        yield replies.command_complete(verb)
    elif verb == "DISCARD":
        yield from _discard(desk, rest[0] if rest else "")
    elif verb == "DEALLOCATE":
        yield from _deallocate(desk, statement, rest)
    else:
        if rest[:1] == ["ALL"] or not desk.close_cursor(_name(statement.text)):
            desk.run_in_session(statement.text)
        yield replies.command_complete("CLOSE CURSOR ALL" if rest[:1] == ["ALL"] else "CLOSE CURSOR")


def _deallocate(desk: Desk, statement: StatementText, rest: list[str]) -> Iterator[bytes]:
    if rest[-1:] == ["ALL"]:
        desk.deallocate(None)
        desk.run_in_session(statement.text)
        yield replies.command_complete("DEALLOCATE ALL")
        return
    if not desk.deallocate(_name(statement.text)):
        desk.run_in_session(statement.text)
    yield replies.command_complete("DEALLOCATE")


def _name(text: str) -> str:
    match = _NAMED.match(text)
    if match is None:
        raise SqlSyntaxError("a name expected", text, len(text))
    return folded(match[1])


def _discard(desk: Desk, what: str) -> Iterator[bytes]:
    if what not in ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"):
        raise Refused("DISCARD takes ALL, PLANS, SEQUENCES or TEMP", "42601")
    if what == "ALL":
        if desk.is_in_block:
            raise Refused("DISCARD ALL cannot run inside a transaction block", "25001")
        desk.discard(portals=True)
        desk.run_in_session("DISCARD ALL")
        yield replies.parameter_statuses(desk.settings.reset())
    if what.startswith("TEMP"):
        desk.run_in_session("DISCARD TEMP")
    yield replies.command_complete(f"DISCARD {'TEMP' if what == 'TEMPORARY' else what}")
