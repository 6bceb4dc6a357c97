"""Backups by Spark's workers: `nyala.backup`, with Spark's tasks instead of threads, for large clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...backup.backup import BackupResult, save_store, verify_files
from ...backup.manifest import Backup
from ...backup.places import Place
from ...backup.running import Handler
from ...driver.stores.cluster_url import without_password
from .. import workers
from ..session import check_classic
from .jobs import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def backup(
    spark: SparkSession,
    target: str | Path,
    destination: str | Path,
    tables: Sequence[str] | None = None,
    *,
    full: bool = False,
    progress: Handler | None = None,
) -> BackupResult:
    """Saves tables into a directory of backups; parameters and errors as for `nyala.backup.backup.backup`.

    All workers must reach the destination under its name.
    """
    check_classic(spark, "backup")
    place, run = Place.of(destination), SparkTasks(spark, progress)
    url, client = workers.task_access(target, {}, workers.store(target))
    return save_store(
        without_password(str(target)), partial(workers.store, url, **client), place, run, tables, full=full
    )


def verify(
    spark: SparkSession, destination: str | Path, progress: Handler | None = None
) -> tuple[list[Backup], list[str]]:
    """Reads every file of every backup and compares it with its manifest; returns the backups, and the faults by
    number."""
    check_classic(spark, "verify")
    return verify_files(Place.of(destination), SparkTasks(spark, progress))
