"""`nyala spark`: the pipelines of `spark.pipelines` as commands. Here is their command line, and what they print."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..backup.running import Handler
from ..command_line import Outcome
from ..errors import InterfaceError, OperationalError
from ..spark.pipelines.jobs import Pipeline
from .arguments import moment, names
from .backup_command import (
    backup_outcome,
    check_given,
    print_backups,
    restore_outcome,
    restored_tables,
    verify_outcome,
)
from .progress import Reporter, print_outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# ---- running ---------------------------------------------------------------------------------------------------------


def run_pipeline(arguments: argparse.Namespace, work: Pipeline) -> int:
    """Do the work with a Spark session and print what came of it; 1 where it says that something is wrong."""
    if find_spec("pyspark") is None:
        raise OperationalError("this command runs on Spark, which is not installed; try: pip install 'nyala[spark]'")
    if arguments.threads is not None and arguments.threads < 1:
        raise InterfaceError(f"--threads {arguments.threads}: at least 1 is needed")
    with _session(arguments.threads) as spark, Reporter(sys.stderr) as report:
        outcome = work(spark, report)
    return print_outcome(outcome, arguments.json)


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
        return print_backups(arguments)
    if arguments.verify is not None:
        return run_pipeline(arguments, _verifying(arguments.verify))
    check_given(arguments)
    from ..spark.pipelines.backup import backup

    def work(spark: SparkSession, report: Handler) -> Outcome:
        tables = arguments.tables or None
        return backup_outcome(
            backup(spark, arguments.store, arguments.destination, tables, full=arguments.full, progress=report)
        )

    return run_pipeline(arguments, work)


def _verifying(destination: str) -> Pipeline:
    def work(spark: SparkSession, report: Handler) -> Outcome:
        from ..spark.pipelines.backup import verify

        return verify_outcome(*verify(spark, destination, report))

    return work


def restore_command(arguments: argparse.Namespace) -> int:
    """`nyala spark restore`."""
    from ..spark.pipelines.restore import restore

    at, choice = moment(arguments.at), restored_tables(arguments)

    def work(spark: SparkSession, report: Handler) -> Outcome:
        return restore_outcome(restore(spark, arguments.source, arguments.store, at=at, progress=report, **choice))

    return run_pipeline(arguments, work)


# ---- arguments -------------------------------------------------------------------------------------------------------


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
