"""Lines of the audit log for one client: its login, its statements, its end.

    Audited ── enter ──► login      begin ──► AuditedStatement ── end ──► statement      leave ──► logout

Statements of one client may run at the same time: each has its own `AuditedStatement`.
"""

from __future__ import annotations

import time
from typing import Any, Final

from .audit import AuditLog

_USER_CHARACTERS: Final = 200
"""Of the name in a refused login, which may be as long as a message."""


class Audited:
    """The audit log for one client.

    Parameters
    ----------
    log : AuditLog
    door : str
        The protocol: "postgres", "flight_sql" or "http".
    user : str
        The name under which it has connected.
    address : str
        "host:port" of the client.
    session : int, optional
        Its number in the server; None for a protocol without sessions.
    """

    def __init__(self, log: AuditLog, door: str, user: str, address: str, session: int | None = None):
        self.log = log
        self.common: dict[str, Any] = {"door": door, "user": user, "from": address}
        if session is not None:
            self.common["session"] = session

    def enter(self, authenticated: bool) -> None:
        """The client has logged in."""
        self.log.write("login", **self.common, authenticated=authenticated)

    def begin(self, text: str, role: str = "", address: str = "") -> AuditedStatement:
        """A statement begins. `role`: that of its rights, "" for the user's; `address`: of the client, if it is not the
        one that has logged in."""
        common = self.common | {"from": address} if address else self.common
        return AuditedStatement(self.log, common, text, role)

    def leave(self) -> None:
        """The connection has ended."""
        self.log.write("logout", **self.common)


class AuditedStatement:
    """A statement of a client, from its creation to `end`. One that does not end is not logged.

    Attributes
    ----------
    text : str
        As it is logged; may be replaced until the end.
    """

    def __init__(self, log: AuditLog, common: dict[str, Any], text: str, role: str):
        self.text = text
        self._log = log
        self._common = common
        self._role = role
        self._began = time.perf_counter()
        self._is_ended = False

    def end(self, rows: int = -1, sqlstate: str = "") -> None:
        """The statement has ended; repeated calls have no effect. `rows` below 0: it has none.

        Raises `DiskError` if the line cannot be written; the statement has ended then, too.
        """
        if self._is_ended:
            return
        self._is_ended = True
        fields: dict[str, Any] = {"role": self._role} if self._role not in ("", self._common["user"]) else {}
        fields["statement"] = self.text
        fields["milliseconds"] = round((time.perf_counter() - self._began) * 1000, 3)
        fields["rows"] = None if rows < 0 else rows
        self._log.write("statement", **self._common, **fields, sqlstate=sqlstate)


def log_refused(log: AuditLog, door: str, user: str, address: str, sqlstate: str, reason: str) -> None:
    """A client was refused. Raises `DiskError` if the line cannot be written."""
    fields = {"user": user[:_USER_CHARACTERS], "from": address, "sqlstate": sqlstate, "reason": reason}
    log.write("refused", door=door, **fields)
