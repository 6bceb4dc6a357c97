"""Lines of the audit log for one client: its login, its statements, its end."""

from __future__ import annotations

import time
from typing import Any, Final

from ...audit import AuditLog

_DOOR: Final = "postgres"


class Audited:
    """The audit log for one client.

    Parameters
    ----------
    log : AuditLog
    user : str
        The name under which it has connected.
    address : str
    session : int
        Its number in the server.
    """

    def __init__(self, log: AuditLog, user: str, address: str, session: int):
        self._log = log
        self._common: dict[str, Any] = {"door": _DOOR, "user": user, "from": address, "session": session}
        self._statement = ""
        self._role = user
        self._began = 0.0

    def enter(self, authenticated: bool) -> None:
        """The client has logged in."""
        self._log.write("login", **self._common, authenticated=authenticated)

    def begin(self, statement: str, role: str) -> None:
        """A statement begins, or what the client does with it next; one that has not ended was only described."""
        self._statement, self._role, self._began = statement, role, time.perf_counter()

    def end(self, rows: int = -1, sqlstate: str = "") -> None:
        """The statement has ended; without one, this has no effect. `rows` below 0: it has none."""
        if not self._statement:
            return
        statement, self._statement = self._statement, ""
        fields: dict[str, Any] = {"role": self._role} if self._role != self._common["user"] else {}
        fields["statement"] = statement
        fields["milliseconds"] = round((time.perf_counter() - self._began) * 1000, 3)
        fields["rows"] = None if rows < 0 else rows
        self._log.write("statement", **self._common, **fields, sqlstate=sqlstate)

    def leave(self) -> None:
        """The connection has ended."""
        self._log.write("logout", **self._common)


def log_refused(log: AuditLog, user: str, address: str, sqlstate: str, reason: str) -> None:
    """A client was refused."""
    log.write("refused", **{"door": _DOOR, "user": user, "from": address, "sqlstate": sqlstate, "reason": reason})
