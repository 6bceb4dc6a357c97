"""The last lines of this process's log, kept for a page."""

from __future__ import annotations

import datetime
import logging
from collections import deque
from typing import Final

from ...model.lazy_dataclass import dataclass

KEPT: Final = 500
"""Lines."""
_CHARACTERS: Final = 4_000
"""Of a line, beyond which it is cut."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log; `fields` and the traceback are part of `text`."""

    time: str
    level: str
    logger: str
    text: str


class LogTail(logging.Handler):
    """Keeps the last lines of the loggers below "nyala" while it is installed."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._exceptions = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        text = record.getMessage()
        fields = getattr(record, "fields", None) or {}
        text += "".join(f" {name}={value}" for name, value in fields.items())
        if record.exc_info:
            text += "\n" + self._exceptions.formatException(record.exc_info)
        self._lines.append(
            LogLine(moment.isoformat(" ", "milliseconds")[:23], record.levelname, record.name, text[:_CHARACTERS])
        )

    def lines(self) -> list[LogLine]:
        """The lines, newest first."""
        return list(reversed(self._lines.copy()))

    def install(self) -> None:
        """From now on lines are kept."""
        logging.getLogger("nyala").addHandler(self)

    def remove(self) -> None:
        """No more lines are kept."""
        logging.getLogger("nyala").removeHandler(self)
