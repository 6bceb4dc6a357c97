"""The log of slow statements: a JSON line for each that took as long as `Records.slow_seconds`.

{"time": "2026-11-27T19:20:01.123456Z", "user": "ann", "client": "10.0.0.7:51234", "seconds": 2.482, "rows": 2,
 "memory_bytes": 1048576, "sqlstate": "", "plan": "394a5a94c3388cb7", "statement": "SELECT * FROM t WHERE k > ?",
 "operators": [{"depth": 0, "operator": "Filter t.k > ?", "rows": 2, "seconds": 0.311}]}

`time` is that of its begin. Statement and operators have `?` in place of values, so the log has no secret, and
statements that differ in values have equal texts; `plan` is equal for equal plans. Operators are those of a plan whose
time was measured (`driver.session.running_work`). Statements about single rows by key are in no log.

A line that cannot be written is lost, with a warning in the server's log once: the statement has ended well.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.wire.process.log_files import Retention
from ..driver.session.statement_records import StatementRecord, records
from ..errors import InterfaceError
from ..sql.masked_text import mask_plan, mask_statement
from .json_lines import JsonLines, time_text

if TYPE_CHECKING:
    from ..planner.explaining.operator_lines import OperatorLine

_logger = logging.getLogger("nyala.doors.slow")


class SlowLog(JsonLines):
    """An open log of slow statements of this process, from its creation to `close`.

    Parameters
    ----------
    path : str or Path
        Created if it does not exist; lines are added at its end.
    seconds : float
        Statements that take as long are slow, from now on also for pages and metrics.
    retention : Retention, optional
        When the file is rotated, and what is kept.

    Raises `InterfaceError` if the file cannot be opened, or the time is negative.
    """

    def __init__(self, path: str | Path, seconds: float, retention: Retention | None = None):
        if not seconds >= 0:
            raise InterfaceError(f"slow statements: {seconds:g} is no number of seconds")
        super().__init__("slow", "log of slow statements", path, retention)
        self._has_failed = False
        found = records()
        found.slow_seconds, found.slow_log = seconds, self.note

    def note(self, record: StatementRecord) -> None:
        """Adds the line of a statement that has ended."""
        try:
            is_written = self.write(line_of(record))
            reason = "" if is_written else "the disk has no room"
        except Exception as error:  # whatever it is, the statement has ended well
            reason = str(error)
        if reason and not self._has_failed:
            _logger.warning("%s: slow statements cannot be logged: %s", self.path, reason)
        self._has_failed = bool(reason)

    def close(self) -> None:
        """Ends the log."""
        found = records()
        if found.slow_log == self.note:
            found.slow_log = None
        super().close()


def line_of(record: StatementRecord) -> dict[str, Any]:
    """The line of a statement that has ended."""
    return {
        "time": time_text(datetime.fromtimestamp(record.started, UTC)),
        "user": record.user,
        "client": record.client,
        "seconds": round(record.seconds, 6),
        "rows": record.rows,
        "memory_bytes": record.memory_bytes,
        "sqlstate": record.sqlstate,
        "plan": record.digest,
        "statement": mask_statement(record.text),
        "operators": [_operator(line) for line in record.operators()],
    }


def _operator(line: OperatorLine) -> dict[str, Any]:
    found: dict[str, Any] = {"depth": line.depth, "operator": mask_plan(line.text)}
    if (actual := line.actual) is not None:
        found |= {"rows": actual.rows, "seconds": round(actual.seconds, 6)}
    return found
