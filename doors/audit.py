"""The audit log of servers: who has done what, a JSON line for each event.

{"time": "2026-11-27T19:20:01.123456Z", "event": "statement", "door": "postgres", "user": "ann", "from":
 "10.0.0.7:51234", "session": 12, "statement": "SELECT * FROM hosts", "milliseconds": 1.482, "rows": 2, "sqlstate": ""}

| event | when |
|---|---|
| `login` | a client has entered; `authenticated` is false in a store without users and password |
| `refused` | it has not: `sqlstate` and `reason` |
| `statement` | a statement, or a part of its rows that the client fetched, has ended; `sqlstate` is that of its error |
| `logout` | the connection of PostgreSQL, or the session of Flight SQL, has ended |

`door` is "postgres", "flight_sql", or "http" for the pages, which have no sessions: neither logins nor logouts.

Statements are as the client has written them, with asterisks in place of passwords; values of parameters are not
logged. The file is for its owner alone (mode 600), and each line is one write at its end. `request_reopening`, which
SIGHUP calls, has the next line open the path again, so that the file can be renamed away first. A full file is rotated
(`cluster.wire.process.log_files`); a line that cannot be written for that is refused as on a full disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ..cluster.wire.process.log_files import Retention
from ..errors import DiskError, hide_passwords
from .json_lines import JsonLines, time_text

TEXT_CHARACTERS: Final = 10_000
"""Of a statement's text, beyond which it is cut."""


class AuditLog:
    """An open audit log. Safe for several threads.

    Parameters
    ----------
    path : str or Path
        Created if it does not exist; lines are added at its end.
    retention : Retention, optional
        When the file is rotated, and what is kept.

    Raises `InterfaceError` if it cannot be opened.
    """

    def __init__(self, path: str | Path, retention: Retention | None = None):
        self.lines = JsonLines("audit", "audit log", path, retention)
        self.path = self.lines.path

    def write(self, event: str, **fields: Any) -> None:
        """Adds a line. Raises `DiskError` if that fails: nothing may be done that is not logged."""
        if "statement" in fields:
            fields["statement"] = hide_passwords(str(fields["statement"]))[:TEXT_CHARACTERS]
        try:
            is_written = self.lines.write({"time": time_text(), "event": event, **fields})
        except OSError as error:
            raise DiskError(f"{self.path}: the audit log cannot be written: {error.strerror}") from None
        if not is_written:
            raise DiskError(f"{self.path}: the audit log has no room")

    def request_reopening(self) -> None:
        """Has the next line open the path again; from a signal's handler, too."""
        self.lines.request_reopening()

    def close(self) -> None:
        """Closes the file. May be repeated."""
        self.lines.close()
