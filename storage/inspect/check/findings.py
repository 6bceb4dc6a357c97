"""Findings of a check and statistics of the files read; one line per finding, a line of summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, field
from typing import Any

from ....errors import CorruptionError, OperationalError
from ....model.lazy_dataclass import dataclass
from ..text import format_bytes, plural

ERROR, NOTE = "error", "note"
WHOLE_FILE = "whole file"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Parameters
    ----------
    severity : {"error", "note"}
        "note": harmless, such as what a crash left and opening the store removes.
    path : str
        The file or directory.
    place : str
        Where in it: "page 3 at offset 8192", "entry 17 at offset 411", "whole file".
    message : str
    """

    severity: str
    path: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path}: {self.place}: {self.message}"


@dataclass(slots=True)
class Checked:
    """Counts of the checked items."""

    tables: int = 0
    tablets: int = 0
    rowsets: int = 0
    rows: int = 0
    column_files: int = 0
    pages: int = 0
    bloom_filters: int = 0
    delta_files: int = 0
    deltas: int = 0
    log_segments: int = 0
    log_entries: int = 0
    logged_rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Report:
    """The outcome of a check of the store in `directory`."""

    directory: str
    findings: list[Finding] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)
    _seen: set[Finding] = field(default_factory=set)

    @property
    def errors(self) -> list[Finding]:
        """Findings that are errors, without notes."""
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def is_clean(self) -> bool:
        """True if there are no errors."""
        return not self.errors

    def error(self, path: str, place: str, message: str) -> None:
        """Something is wrong."""
        self._add(Finding(ERROR, path, place, message))

    def note(self, path: str, place: str, message: str) -> None:
        """Something is worth knowing and does no harm."""
        self._add(Finding(NOTE, path, place, message))

    def _add(self, finding: Finding) -> None:
        # The same damage shows to several readers of a file: a dictionary's, to every page.
        if finding not in self._seen:
            self._seen.add(finding)
            self.findings.append(finding)

    @contextmanager
    def reading(self, path: str, place: str = WHOLE_FILE) -> Iterator[None]:
        """Turn what goes wrong within into a finding; the check goes on behind it."""
        try:
            yield
        except CorruptionError as error:
            self.error(error.path, error.place, str(error).removeprefix(f"{error.path}: {error.place}: "))
        except OperationalError as error:
            self.error(path, place, str(error))
        except Exception as error:
            # Bytes with good checksums that the reader chokes on all the same. It is the check's business to say so,
            # whatever the reader calls it, and to look at the rest.
            self.error(path, place, f"cannot be read: {type(error).__name__}: {error}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "directory": self.directory,
            "ok": self.is_clean,
            "findings": [asdict(finding) for finding in self.findings],
            "checked": asdict(self.checked),
        }

    def summary(self) -> str:
        """The checked items in one line."""
        done = self.checked
        parts = [
            plural(done.tables, "table"),
            plural(done.tablets, "tablet"),
            f"{plural(done.rowsets, 'rowset')} with {plural(done.rows, 'row')}",
            f"{plural(done.column_files, 'column file')} with {plural(done.pages, 'page')}",
            plural(done.bloom_filters, "Bloom filter"),
            f"{plural(done.delta_files, 'delta file')} with {plural(done.deltas, 'delta')}",
            f"{plural(done.log_segments, 'log segment')} with {plural(done.log_entries, 'entry', 'entries')} and "
            f"{plural(done.logged_rows, 'row')}",
        ]
        errors = len(self.errors)
        counts = f"{plural(errors, 'error')}, {plural(len(self.findings) - errors, 'note')}"
        return f"checked {', '.join(parts)}; {format_bytes(done.bytes)}: {counts}"


def describe_report(report: Report) -> str:
    """A line per finding, then the summary."""
    return "\n".join([*map(str, report.findings), report.summary()])
