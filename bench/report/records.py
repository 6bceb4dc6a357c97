"""The record of one run of a benchmark: its numbers, and their circumstances.

    {"name": "points", "command": "nyala bench points --sf 1", "date": "2026-11-22T19:40:00+00:00", "seconds": 64.2,
     "status": "done", "reason": "", "log": [], "machine": {...}, "versions": {...}, "data": ...}

`data` is the unchanged output of the benchmark. A failed run is recorded as well, with the end of its log, and with its
numbers if there are any.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ...model.version import __version__
from ...tpch import machine

Status: TypeAlias = Literal["done", "failed", "skipped"]

PACKAGES: Final = {
    "numpy": "numpy",
    "pyarrow": "PyArrow",
    "duckdb": "DuckDB",
    "datafusion": "DataFusion",
    "rocksdict": "rocksdict (RocksDB)",
    "psycopg": "psycopg",
    "pyspark": "PySpark",
}
"""The peers whose versions are reported if they are installed: distribution and name."""


@dataclass(slots=True)
class Record:
    """One run."""

    name: str
    command: str
    """The command as a user would type it, with placeholders for directories: STORE, PARQUET."""
    date: str
    """The start of the run: UTC, ISO 8601."""
    status: Status
    seconds: float = 0.0
    reason: str = ""
    """The reason why it failed or was skipped."""
    log: Sequence[str] = ()
    """The last lines of a run that failed."""
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    data: Any = None
    quick: bool = False
    """True for a trial (`--quick`), whose numbers are not significant."""

    def save(self, path: Path) -> None:
        """Writes it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read(path: Path) -> Record | None:
    """The record written by `Record.save`; None if there is none.

    Raises
    ------
    OperationalError
        If the file holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return Record(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise OperationalError(f"{path} is not a result of `nyala bench all`: {error}; remove it") from None


def begin(name: str, command: str, versions: dict[str, str], *, status: Status = "done", reason: str = "") -> Record:
    """A record of a run that starts now, on this machine."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(name, command, now, status, reason=reason, machine=machine.describe(), versions=versions)


def versions(postgresql: str | None) -> dict[str, str]:
    """The versions of nyala and of all installed peers; `postgresql` is the server's version."""
    versions_by_name = {"nyala": __version__}
    for distribution, name in PACKAGES.items():
        try:
            versions_by_name[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    versions_by_name["SQLite"] = sqlite3.sqlite_version
    if postgresql is not None:
        versions_by_name["PostgreSQL"] = postgresql
    return versions_by_name


def duration(seconds: float) -> str:
    """A duration for display.

    >>> duration(75.2), duration(4.04), duration(7300)
    ('1 min 15 s', '4.0 s', '2 h 1 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def machine_in_words(found: dict[str, Any]) -> str:
    """The machine in one line.

    >>> machine_in_words({"processor": "Xeon", "processors": 2, "memory": 25e9, "system": "Linux", "python": "3.11"})
    'Xeon, 2 processors, 25 GB, Linux, Python 3.11'
    """
    if not found:
        return "an unknown machine"
    words = (
        f"{found.get('processor')}, {found.get('processors')} processors, {found.get('memory', 0) / 1e9:.0f} GB, "
        f"{found.get('system')}, Python {found.get('python')}"
    )
    load = found.get("load")
    return words if load is None else f"{words}, load {load:g} at the start"
