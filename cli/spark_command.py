"""`nyala spark`: the pipelines of `spark.pipelines` as commands. Here is their command line, and what they print.

The result goes to standard output, lines for people or JSON; progress goes to standard error: one line that is redrawn
at a terminal, otherwise a line per step and one every ten seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from ..errors import InterfaceError, OperationalError
from ..spark.pipelines.jobs import Handler, Outcome, Pipeline, Progress
from ..storage.inspect.text import table_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINE_SECONDS: Final = 10.0
_ERASE: Final = "\r\x1b[K"


# ---- running ---------------------------------------------------------------------------------------------------------


def run_pipeline(arguments: argparse.Namespace, work: Pipeline) -> int:
    """Do the work with a Spark session and print what came of it; 1 where it says that something is wrong."""
    if find_spec("pyspark") is None:
        raise OperationalError("this command runs on Spark, which is not installed; try: pip install 'nyala[spark]'")
    if arguments.threads is not None and arguments.threads < 1:
        raise InterfaceError(f"--threads {arguments.threads}: at least 1 is needed")
    with _session(arguments.threads) as spark, Reporter(sys.stderr) as report:
        outcome = work(spark, report)
    if arguments.json:
        print(json.dumps(outcome.plain, indent=2, default=str))
    else:
        print("\n".join(outcome.lines))
    return 0 if outcome.is_well else 1


@contextmanager
def _session(threads: int | None) -> Iterator[SparkSession]:
    """The session that this process has, or one for this command."""
    from ..spark import session, workers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own imports
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        if active is not None:
            yield active
            return
        made = session(threads, **{"spark.log.level": "OFF"})  # the command reports errors, once
    try:
        yield made
    finally:
        workers.close()
        made.stop()


class Reporter:
    """A progress handler that writes to a stream; a context manager that leaves it clean.

    Parameters
    ----------
    out : text stream
        Where it is a terminal, one line is redrawn.
    """

    def __init__(self, out: TextIO):
        self._out = out
        self._is_terminal = out.isatty()
        self._lock = threading.Lock()
        self._drawn = False
        self._step = ""
        self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        """Prints the progress; called from any thread."""
        with self._lock:
            if self._is_terminal:
                width = shutil.get_terminal_size().columns - 1
                self._out.write(_ERASE + describe(progress)[:width])
                self._drawn = True
            elif self._is_due(progress):
                self._out.write(describe(progress) + "\n")
            self._out.flush()

    def _is_due(self, progress: Progress) -> bool:
        if progress.step != self._step:
            self._step, self._told = progress.step, 0.0
        if not progress.is_over and progress.seconds - self._told < _LINE_SECONDS:
            return False
        self._told = progress.seconds
        return True

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            if self._drawn:
                self._out.write(_ERASE)
                self._out.flush()


def describe(progress: Progress) -> str:
    """A line about it.

    >>> describe(Progress("saving rows", 3, 8, 120_000, 4.25))
    'saving rows: 3 of 8 tasks, 120,000 rows, 4.2 s'
    """
    facts = [f"{progress.tasks_done} of {progress.tasks} tasks"] if progress.tasks else []
    facts += [f"{progress.rows:,} rows"] if progress.rows else []
    return f"{progress.step}: " + ", ".join([*facts, f"{progress.seconds:.1f} s"])


# ---- the commands ----------------------------------------------------------------------------------------------------


def tpch_etl_command(arguments: argparse.Namespace) -> int:
    """`nyala spark tpch-etl`."""
    from ..tpch.etl import etl_pipeline

    return run_pipeline(arguments, etl_pipeline(arguments))


def ingest_command(arguments: argparse.Namespace) -> int:
    """`nyala spark ingest`."""
    from ..spark.pipelines.ingest import ingest
    from ..spark.pipelines.ingest_plan import NewTable

    create = None
    if arguments.create:
        if not arguments.primary_key:
            raise InterfaceError("--create makes the table, and needs its --primary-key")
        create = NewTable(names(arguments.primary_key), arguments.distribute_by)
    elif arguments.primary_key or arguments.distribute_by:
        raise InterfaceError("--primary-key and --distribute-by are for a table that is made: --create")

    def work(spark: SparkSession, report: Handler) -> Outcome:
        result = ingest(
            spark,
            arguments.source,
            arguments.to,
            arguments.table,
            format=arguments.format,
            options=pairs(arguments.option, "--option"),
            mapping=pairs(arguments.map, "--map"),
            skip=[name for given in arguments.skip for name in names(given)],
            create=create,
            operation=arguments.operation,
            job=arguments.job,
            rejects=arguments.rejects,
            max_rejects=arguments.max_rejects,
            sort=arguments.sort,
            progress=report,
        )
        return Outcome(result.to_dict(), result.describe())

    return run_pipeline(arguments, work)


def export_command(arguments: argparse.Namespace) -> int:
    """`nyala spark export`."""
    from ..spark.pipelines.export import export

    def work(spark: SparkSession, report: Handler) -> Outcome:
        result = export(
            spark,
            arguments.store,
            arguments.table,
            arguments.destination,
            format=arguments.format,
            columns=names(arguments.columns) if arguments.columns else None,
            where=arguments.where,
            as_of=moment(arguments.as_of),
            overwrite=arguments.overwrite,
            progress=report,
        )
        line = f"{result.rows:,} rows in {len(result.files)} files, {result.bytes:,} bytes, {result.seconds:.1f} s"
        return Outcome(result.to_dict(), [line])

    return run_pipeline(arguments, work)


def backup_command(arguments: argparse.Namespace) -> int:
    """`nyala spark backup`, `--list` and `--verify`."""
    if arguments.listed is not None:
        return _list(arguments)
    if arguments.verify is not None:
        return run_pipeline(arguments, _verifying(arguments.verify))
    if arguments.store is None or arguments.destination is None:
        raise InterfaceError("nyala spark backup STORE DEST: the store and the directory of the backups are needed")
    from ..spark.pipelines.backup import backup

    def work(spark: SparkSession, report: Handler) -> Outcome:
        result = backup(
            spark,
            arguments.store,
            arguments.destination,
            arguments.tables or None,
            full=arguments.full,
            progress=report,
        )
        made = result.to_dict()
        lines = [
            f"backup {made['number']}, {made['kind']}, of {made['snapshot_time']}: {len(made['tables'])} tables, "
            f"{made['rows']:,} {'rows' if made['since'] is None else 'changes'}, {made['bytes']:,} bytes, "
            f"{made['seconds']:.1f} s"
        ]
        return Outcome(made, lines)

    return run_pipeline(arguments, work)


def _list(arguments: argparse.Namespace) -> int:
    """Needs no Spark."""
    from ..spark.pipelines.backup import describe as plain
    from ..spark.pipelines.backups.manifest import read_all

    backups = [plain(backup) for backup in read_all(Path(arguments.listed).expanduser())]
    if arguments.json:
        print(json.dumps(backups, indent=2))
        return 0
    head = ("backup", "kind", "moment", "tables", "rows", "bytes")
    rows = [
        (f"{b['number']}", b["kind"], b["snapshot_time"], f"{len(b['tables'])}", f"{b['rows']:,}", f"{b['bytes']:,}")
        for b in backups
    ]
    print("\n".join(table_lines(head, rows)) if rows else f"there are no backups in {arguments.listed}")
    return 0


def _verifying(destination: str) -> Pipeline:
    def work(spark: SparkSession, report: Handler) -> Outcome:
        from ..spark.pipelines.backup import verify

        backups, wrong = verify(spark, destination, report)
        files = sum(1 for backup in backups for _ in backup.files)
        plain = {"backups": [backup.number for backup in backups], "files": files, "wrong": wrong}
        lines = [*wrong, f"{len(backups)} backups, {files} files, {len(wrong)} wrong"]
        return Outcome(plain, lines, not wrong)

    return work


def restore_command(arguments: argparse.Namespace) -> int:
    """`nyala spark restore`."""
    from ..spark.pipelines.restore import restore

    tables = names(arguments.tables) if arguments.tables else None

    def work(spark: SparkSession, report: Handler) -> Outcome:
        result = restore(
            spark,
            arguments.source,
            arguments.store,
            at=moment(arguments.at),
            tables=tables,
            renamed=_renamed(arguments.renamed, tables),
            progress=report,
        )
        told = result.to_dict()
        rows = [(name, f"{count:,}") for name, count in sorted(result.tables.items())]
        made = f"{told['rows']:,} rows of {len(rows)} tables as of {told['time']}, {result.seconds:.1f} s"
        return Outcome(told, [*table_lines(("table", "rows"), rows), made])

    return run_pipeline(arguments, work)


# ---- arguments -------------------------------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    """Names with commas between them.

    >>> names("a, b")
    ['a', 'b']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` as a mapping.

    >>> pairs(["k=id", "day=to_date(t, 'd=M')"], "--map")
    {'k': 'id', 'day': "to_date(t, 'd=M')"}
    """
    by_name: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InterfaceError(f"{option} {text}: expected NAME=VALUE")
        if name.strip() in by_name:
            raise InterfaceError(f"{option} {name.strip()} is given twice")
        by_name[name.strip()] = value
    return by_name


def moment(text: str | None) -> str | int | None:
    """A hybrid timestamp (digits), or what spells a point in time."""
    if text is None:
        return None
    plain = text.strip().removesuffix(" UTC")
    return int(plain) if plain.isdigit() else plain


def _renamed(given: Sequence[str], tables: Sequence[str] | None) -> dict[str, str]:
    names = {}
    for text in given:
        old, sign, new = text.partition("=")
        if not sign:
            if tables is None or len(tables) != 1:
                raise InterfaceError(f"--as {text}: of which table? Write --as OLD={text}, or name one with --tables")
            old, new = tables[0], text
        names[old.strip()] = new.strip()
    return names
