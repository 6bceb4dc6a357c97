"""Spark sessions for commands and tests: local, lean, in UTC, with this Python in the workers.

A user who has a session of their own needs none of this: `nyala.spark.register(spark)` is enough.
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
"""How often a task is tried: a tablet server may die while it reads."""


def session(threads: int | None = None, **conf: object) -> SparkSession:
    """A Spark session in a JVM beside this process, with the data source `nyala` registered.

    Parameters
    ----------
    threads : int, optional
        Tasks that run at once; by default one per processor.
    **conf
        Spark's own settings by their names, `**{"spark.driver.memory": "4g"}`, in place of those chosen here: a quarter
        of the machine's memory, as many shuffle partitions as threads, UTC, no user interface, tasks tried three times,
        scratch and warehouse in a temporary directory that goes with the session.

    Raises
    ------
    OperationalError
        PySpark or Java is missing; the message says how to get it.
    InterfaceError
        This process has a Spark session already: Spark would quietly give that one.
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
    from . import register

    register(made)
    return made


def check_classic(spark: SparkSession, what: str) -> None:
    """Raise `NotSupportedError` for a session of Spark Connect, whose JVM this process does not reach."""
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
    """Where the workers' Python would not look by itself, and this one has found the package."""
    # Not resolved: a link in a folder of sys.path may be what makes it a package of this name.
    parent = str(Path(__file__).absolute().parents[2])
    usual = {str(Path(folder).absolute()) for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    given = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    found = [str(Path(folder).absolute()) for folder in sys.path if folder]
    return [*given, parent] if parent in found and parent not in usual else given


@contextmanager
def _this_python() -> Iterator[None]:
    """PYSPARK_PYTHON set to this interpreter while Spark takes note of it: otherwise the workers run the `python3` of
    the PATH, which may know neither Arrow nor nyala."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, sys.executable))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(before)
