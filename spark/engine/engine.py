"""The engine `spark`, which executes queries for `connect(..., engine="spark")` and `SET engine = spark`.

    Plan ── prepare ──► Query ── views, spark.sql ──► DataFrame ── a Spark job in a thread ──► Arrow ──► nyala's types
                       (here)                (py4j)                            └ polls cancellation, progress

The result is returned when the job has ended, as Spark's `toArrow` returns it: Spark cannot wait for a slow reader
without delaying other jobs. So the process must have memory for a query's result.

An engine has its own session on this process's Spark (`newSession`): the user's settings and views are unchanged, and
the settings that the translation requires are set once.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from ...driver.stores.served_directory import reachable
from ...errors import InternalError
from ...executor import ExecutionContext
from ...executor.run.progress import Progress
from ...planner import Plan
from ...sql.expressions import Column
from .. import workers
from ..session import check_classic
from .failures import as_ours
from .query import Query, prepare
from .relations.views import views
from .translate.translation import SETTINGS, Translation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

LOOK_SECONDS: Final = 0.02
"""Seconds between two checks of a running job for cancellation and progress."""
TELL_SECONDS: Final = 0.2
"""Seconds between two progress reports: querying Spark takes some calls to the JVM."""
_OWN_SETTINGS: Final = {**SETTINGS, "spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Disables Spark's size estimates, which assume that relations from Python are tiny; joins have hints instead."""
_starting = threading.Lock()


class SparkEngine:
    """Executes queries of one store on Spark. Thread-safe.

    Parameters
    ----------
    target : str or Path
        The target that the store was opened with: a directory, which other processes reach through this one, or a
        cluster's URL.
    """

    def __init__(self, target: str | Path):
        self._target = target
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()

    def batches(self, plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
        """The rows of a plan, as one table's batches.

        Raises `NotSupportedError` if Spark SQL cannot express a part of the query, `Cancelled`, and the errors of tasks
        as nyala's own executor would raise them.
        """
        context = timed(context)
        url, client = workers.task_access(self._target, {}, context.store)
        spark = self._session(context.threads)
        query = prepare(plan, context, url, spark.sparkContext.defaultParallelism, client)
        context.check()
        translation = query.translation()
        frame = frame_of(spark, query, translation)
        table = _Job(spark, context, query.tasks).run(frame.toArrow)
        yield from in_our_types(table, translation.columns, plan.columns)

    def explain(self, plan: Plan, context: ExecutionContext) -> str:
        """The Spark SQL, and the scan of each relation. Reads the keys of small build sides."""
        context = timed(context)
        return prepare(plan, context, reachable(self._target), context.threads).explain()

    def close(self) -> None:
        """Releases the session; Spark itself keeps running for its other users."""
        self._spark = None

    def _session(self, threads: int) -> SparkSession:
        with self._lock:
            if self._spark is None:
                active = active_session(threads)
                check_classic(active, "engine = spark")
                self._spark = active.newSession()
                for name, value in _OWN_SETTINGS.items():
                    self._spark.conf.set(name, value)
            return self._spark


def timed(context: ExecutionContext) -> ExecutionContext:
    """The context with a snapshot timestamp: tasks read at different times, and must read the same state."""
    return context if context.snapshot is not None else replace(context, snapshot=context.store.now())


def active_session(threads: int) -> SparkSession:
    """The Spark session of this process, or a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from ..session import session

    with _starting:
        if SparkContext._active_spark_context is not None:
            return SparkSession.builder.getOrCreate()
        return session(threads)


def frame_of(spark: SparkSession, query: Query, translation: Translation) -> DataFrame:
    """The query as a DataFrame, whose columns have the translation's names."""
    with as_ours(), views(spark, query.relations):
        return spark.sql(translation.text)


def in_our_types(table: pa.Table, names: tuple[str, ...], columns: tuple[Column, ...]) -> Iterator[pa.RecordBatch]:
    """Spark's result with the names and types of a plan's columns."""
    schema = pa.schema([pa.field(column.name, column.type.arrow) for column in columns])
    found = []
    for name, column in zip(names, columns, strict=True):
        values = table.column(name)
        found.append(values if values.type == column.type.arrow else values.cast(column.type.arrow))
    return iter(pa.Table.from_arrays(found, schema=schema).to_batches())


class _Job:
    """A Spark action in a separate thread, while the calling thread polls for cancellation."""

    def __init__(self, spark: SparkSession, context: ExecutionContext, tasks: int):
        self._context = context
        self._spark_context = spark.sparkContext
        self._tasks = tasks
        self._done = 0
        self._due = time.monotonic() + TELL_SECONDS
        self._tag = f"nyala-{uuid.uuid4().hex}"

    def run(self, action: Callable[[], T]) -> T:
        """The action's result; its errors are translated to nyala's."""
        done = threading.Event()
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self._spark_context.addJobTag(self._tag)
                self._spark_context.setJobGroup(self._tag, "a nyala query")
                results.append(action())
            except BaseException as error:
                errors.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=work, name="nyala-spark-job", daemon=True)
        thread.start()
        try:
            while not done.wait(LOOK_SECONDS):
                self._context.check()
                self._look()
        except BaseException:
            self._cancel(done)
            raise
        finally:
            thread.join()
        self._context.check()
        if errors:
            with as_ours():
                raise errors[0]
        if not results:
            raise InternalError("a Spark job has ended without a result")
        self._tell(self._tasks, self._tasks)
        return results[0]

    def _cancel(self, done: threading.Event) -> None:
        """Cancels the job, also one that has not started yet."""
        while not done.is_set():
            self._spark_context.cancelJobsWithTag(self._tag)
            done.wait(LOOK_SECONDS)

    def _look(self) -> None:
        """Reports the job's progress if the caller requested it."""
        if self._context.progress is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TELL_SECONDS
        tracker = self._spark_context.statusTracker()
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(self._tag)]
        stages = {number for job in jobs if job is not None for number in job.stageIds}
        infos = [info for number in stages if (info := tracker.getStageInfo(number)) is not None]
        self._tasks = max(self._tasks, sum(info.numTasks for info in infos))
        self._tell(sum(info.numCompletedTasks for info in infos), self._tasks)

    def _tell(self, tasks_done: int, tasks: int) -> None:
        if self._context.progress is None:
            return
        self._done = max(self._done, min(tasks_done, tasks))
        expected = 0 if self._done == tasks else None
        if self._context.progress(Progress(0, expected, self._done, tasks)):
            self._context.cancel.set()
