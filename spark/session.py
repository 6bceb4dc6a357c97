"""Spark sessions for commands and tests: local, lean, in UTC, with this Python in the workers.

Programs with their own session do not need this module: `nyala.spark.register(spark)` suffices.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import InterfaceError, NotSupportedError, OperationalError
from ..model.forks import finalize
from . import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS: Final = 3
"""Maximum number of attempts of a task: a tablet server may fail while it reads."""


def session(threads: int | None = None, **conf: object) -> SparkSession:
    """Starts a Spark session in a JVM child process, with the data source `nyala` registered.

    Parameters
    ----------
    threads : int, optional
        Number of concurrent tasks; by default one per processor.
    **conf
        Spark's own settings by their names, `**{"spark.driver.memory": "4g"}`, which override the defaults chosen here:
        a quarter of the machine's memory, as many shuffle partitions as threads, UTC, no user interface, three attempts
        per task, scratch and warehouse in a temporary directory that is deleted with the session.

    Raises
    ------
    OperationalError
        If PySpark or Java is missing; the message says how to install it.
    InterfaceError
        If this process already has a Spark session, which Spark would silently return.
    """
    if find_spec("pyspark") is None:
        raise OperationalError("Spark's Python package is missing; try: pip install 'nyala[spark]'")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise InterfaceError("this process has a Spark session already, with other options; use it, or stop it first")
    count = threads or os.cpu_count() or 1
    scratch = Path(tempfile.mkdtemp(prefix="nyala-spark-"))
    builder = SparkSession.builder
    for name, value in {**_options(count, scratch), **conf}.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    try:
        with java.environment(), _this_python():
            made: SparkSession = builder.getOrCreate()
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finalize(made, shutil.rmtree, scratch, ignore_errors=True)
    from .source.data_source import NyalaDataSource

    made.dataSource.register(NyalaDataSource)
    return made


def check_classic(spark: SparkSession, what: str) -> None:
    """Raises `NotSupportedError` for a session of Spark Connect, whose JVM this process cannot access."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise NotSupportedError(
            f"{what} needs a Spark session in this process, and this one is of Spark Connect; there, "
            'spark.read.format("nyala") with the option query, nyala.spark.table and writes do the work'
        )


def _options(threads: int, scratch: Path) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = {
        "spark.app.name": "nyala",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{max(1024, memory // 4 >> 20)}m",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        "spark.master": f"local[{threads},{ATTEMPTS}]",
        "spark.pyspark.python": sys.executable,
        "spark.python.daemon.module": f"{__package__}.daemon",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    path = _import_path()
    if path:
        found["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(path)
    return found


def _import_path() -> list[str]:
    """The entries of sys.path by which this process found the package and which the workers' Python lacks."""
    # Not resolved: a link in a folder of sys.path may give the package its name.
    parent = str(Path(__file__).absolute().parents[2])
    usual = {str(Path(folder).absolute()) for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    given = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    found = [str(Path(folder).absolute()) for folder in sys.path if folder]
    return [*given, parent] if parent in found and parent not in usual else given


@contextmanager
def _this_python() -> Iterator[None]:
    """Sets PYSPARK_PYTHON to this interpreter while Spark reads it.

    Otherwise the workers run the `python3` of the PATH, which may have neither Arrow nor nyala.
    """
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, sys.executable))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(before)
