"""Loads the data: creates the tables, streams the Parquet files through the bulk loader, writes the manifest."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..driver.connection import Connection, connect
from ..driver.process import peak_memory
from ..errors import InterfaceError, ProgrammingError
from ..model.lazy_dataclass import dataclass
from ..model.version import __version__
from . import manifest
from .generate import default_data_directory, generate, parquet_file, row_counts
from .schema import TABLES, TableSpec


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load. Times in seconds without the generation of the files, memory in bytes (the process's
    peak)."""

    rows: dict[str, int]
    seconds: dict[str, float]
    peak_memory: int

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def total_rows(self) -> int:
        return sum(self.rows.values())


def load(
    database: manifest.Target,
    scale_factor: float,
    *,
    buckets: int = 4,
    data: Path | None = None,
    replace: bool = False,
    console: Console | None = None,
    **options: Any,
) -> LoadReport:
    """Loads TPC-H into a directory.

    Parameters
    ----------
    database : Path or str
        A directory, created if it does not exist, or the URL of a cluster.
    scale_factor : float
    buckets : int
        Tablets per large table.
    data : Path, optional
        The directory of the Parquet files, existing or to be created; by default next to the database (for a cluster:
        in the working directory).
    replace : bool
        Drops tables of an earlier load instead of raising an error.
    console : rich Console, optional
        The output for progress; None: no output.
    **options
        As `nyala.connect` takes them.
    """
    if buckets < 1:
        raise InterfaceError(f"--buckets {buckets}: at least 1 is needed")
    console = console or Console(quiet=True)
    directory = data or default_data_directory(database, scale_factor)
    generate(scale_factor, directory.resolve(), lambda text: console.print(text, highlight=False, soft_wrap=True))
    counts = row_counts(directory)
    with connect(database, **options) as connection:
        _make_room(connection, database, replace)
        seconds = _load_tables(connection, directory, counts, buckets, console)
        loaded = manifest.Manifest(scale_factor, buckets, str(directory.resolve()), counts, __version__)
        loaded.write(database, connection)
    return LoadReport(counts, seconds, peak_memory())


def _make_room(connection: Connection, database: manifest.Target, replace: bool) -> None:
    """Rejects or drops existing tables; the manifest is removed first, because it certifies all of them."""
    there = {table.name for table in connection.store.tables()}
    present = [spec.name for spec in TABLES if spec.name in there]
    if present and not replace:
        raise ProgrammingError(
            f"{database} has the TPC-H table{'s' if len(present) > 1 else ''} {', '.join(present)} already; "
            "use --replace to load again"
        )
    manifest.remove(database, connection)
    for name in present:
        connection.execute(f"DROP TABLE {name}")


def _load_tables(
    connection: Connection, directory: Path, counts: dict[str, int], buckets: int, console: Console
) -> dict[str, float]:
    seconds: dict[str, float] = {}
    with LoadProgress(console, sum(counts.values())) as progress:
        for spec in TABLES:
            started = time.perf_counter()
            connection.execute(spec.create_table(buckets))
            _load_table(connection, spec, directory, counts[spec.name], progress)
            seconds[spec.name] = time.perf_counter() - started
    return seconds


def _load_table(
    connection: Connection, spec: TableSpec, directory: Path, expected: int, progress: LoadProgress
) -> None:
    progress.start(spec.name, expected)
    loaded = connection.load(spec.name, parquet_file(directory, spec.name), progress.update)
    assert loaded == expected, f"{spec.name}: {expected} rows in the file, {loaded} loaded"


class LoadProgress:
    """A bar for the whole load, and the name of the current table."""

    def __init__(self, console: Console, total: int):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self._progress.add_task("", total=total)
        self._before = 0
        self._expected = 0

    def start(self, table: str, expected: int) -> None:
        """Starts the next table."""
        self._before += self._expected
        self._expected = expected
        self._progress.update(self._task, description=f"{table:<8}", completed=self._before)

    def update(self, rows: int) -> None:
        """Updates the number of rows read from this table."""
        self._progress.update(self._task, completed=self._before + rows)

    def __enter__(self) -> LoadProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
