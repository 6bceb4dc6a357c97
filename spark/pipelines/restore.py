"""Restores tables from backups by Spark's workers: `nyala.backup`, with Spark's tasks instead of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...backup.places import Place
from ...backup.restore import RestoreResult, Restoring
from ...backup.running import Handler
from ...driver.connection import connect
from ...driver.stores.served_directory import reachable
from ...driver.tables.timestamps import Moment
from .. import workers
from ..session import check_classic
from .jobs import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def restore(
    spark: SparkSession,
    source: str | Path,
    target: str | Path,
    *,
    at: Moment | None = None,
    tables: Sequence[str] | None = None,
    renamed: Mapping[str, str] | None = None,
    progress: Handler | None = None,
) -> RestoreResult:
    """Restores tables from backups; parameters and errors as for `nyala.backup.restore.restore`.

    All workers must reach the source under its name.
    """
    check_classic(spark, "restore")
    run = SparkTasks(spark, progress)
    restoring = Restoring.of(Place.of(source), run, at=at, tables=tables, renamed=renamed)
    url = reachable(target, create=True)
    with connect(url) as connection:
        reached, client = workers.task_access(url, {}, connection.store)
        return restoring.into(connection, target, partial(workers.store, reached, **client), run)
