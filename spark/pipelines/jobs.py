"""Runs work on Spark with progress reports: a list of tasks in the workers, or any action of a DataFrame.

run_tasks(spark, tasks, work)      one Spark task each: `work(task)` in a worker's Python, its results here
with watched(spark, ...):          reports the progress of every Spark job within the block
"""

from __future__ import annotations

import pickle
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from ... import errors
from ...backup.running import Handler, Progress
from ...command_line import Outcome
from ...errors import Error, OperationalError

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
POLL_SECONDS: Final = 0.25
_RAISED: Final = re.compile(
    r"(nyala\.errors\.\w+|\w[\w.]*(?<!PythonException)(?:Error|Exception|Invalid|Interrupt))(: |$)"
)
"""The line of a Python traceback that names the exception."""
_CAUSED: Final = re.compile(r"(?:Caused by)?: [\w.$]+(?:Exception|Error): (.+)")
"""The line of a Java traceback that names an exception, among those that PySpark passes on unchanged."""


@contextmanager
def watched(
    spark: SparkSession, step: str, handler: Handler | None = None, rows: Accumulator[int] | None = None
) -> Iterator[None]:
    """Reports the progress of the Spark jobs that this thread starts in the block to `handler`, and once at the end.

    Running jobs are cancelled if the block raises an exception (Ctrl-C).
    """
    context = spark.sparkContext
    group = f"nyala-{uuid.uuid4().hex}"
    before = context.getLocalProperty("spark.jobGroup.id")
    described = context.getLocalProperty("spark.job.description")
    context.setJobGroup(group, step)
    watch = _Watch(context, group, step, handler or _nobody, rows)
    watch.start()
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the JVM itself may have failed
            context.cancelJobGroup(group)
        raise
    finally:
        watch.end()
        with suppress(Exception):
            context.setLocalProperty("spark.jobGroup.id", before)
            context.setLocalProperty("spark.job.description", described)


def _nobody(_: Progress) -> None:
    """The default handler, which ignores progress."""


class _Watch:
    """A thread that polls Spark for the number of finished tasks of a job group."""

    def __init__(self, context: Any, group: str, step: str, handler: Handler, rows: Accumulator[int] | None):
        self._tracker = context.statusTracker()
        self._group = group
        self._step = step
        self._handler = handler
        self._rows = rows
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nyala-spark-progress", daemon=True)

    def start(self) -> None:
        self._handler(Progress(self._step))
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._handler(self._look(is_over=True))

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._handler(self._look())

    def _look(self, is_over: bool = False) -> Progress:
        done = tasks = 0
        with suppress(Exception):  # Spark may discard a finished job between two polls
            for job in self._tracker.getJobIdsForGroup(self._group):
                info = self._tracker.getJobInfo(job)
                for stage in [] if info is None else info.stageIds:
                    told = self._tracker.getStageInfo(stage)
                    if told is not None:
                        done += told.numCompletedTasks
                        tasks += told.numTasks
        rows = None if self._rows is None else self._rows.value
        return Progress(self._step, done, tasks, rows, time.monotonic() - self._started, is_over)


# ---- tasks -----------------------------------------------------------------------------------------------------------


def run_tasks(
    spark: SparkSession,
    step: str,
    tasks: Sequence[T],
    work: Callable[[T], R],
    handler: Handler | None = None,
    rows_of: Callable[[R], int] | None = None,
) -> list[R]:
    """The results of `work` for each task, in order; each runs as a Spark task, retried if it fails.

    Parameters
    ----------
    step : str
        The name of the step, for display.
    tasks : sequence
        Picklable objects; the first ones are started first.
    work : callable
        A module-level function, so that the workers find it. It may be called twice for a task.
    rows_of : callable, optional
        The number of rows of a result, for the progress.

    Raises
    ------
    Error
        The error that `work` raised, if retrying is of no use; `OperationalError` if all attempts of a task failed.
    """
    if not tasks:
        return []
    counter = spark.sparkContext.accumulator(0)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                outcome = _outcome(work, tasks[number])
                if rows_of is not None and not isinstance(outcome, Error):
                    counter.add(rows_of(outcome))
                yield pa.RecordBatch.from_pydict({"number": [number], "outcome": [pickle.dumps(outcome)]})

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(each, "number long, outcome binary")
    try:
        with watched(spark, step, handler, None if rows_of is None else counter):
            outcomes = {row["number"]: pickle.loads(row["outcome"]) for row in frame.collect()}
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise OperationalError(f"{step}: {reason(error)}") from error
    for number in sorted(outcomes):
        if isinstance(outcomes[number], Error):
            raise outcomes[number]
    return [outcomes[number] for number in range(len(tasks))]


class SparkTasks:
    """Executes the tasks of a step as Spark tasks: `backup.running.Run`."""

    def __init__(self, spark: SparkSession, handler: Handler | None = None):
        self._spark = spark
        self._handler = handler

    def __call__(
        self, step: str, tasks: Sequence[T], work: Callable[[T], R], rows_of: Callable[[R], int] | None = None
    ) -> list[R]:
        """Implements `Run`."""
        return run_tasks(self._spark, step, tasks, work, self._handler, rows_of)


def _outcome(work: Callable[[T], R], task: T) -> R | Error:
    """A result, or an error that would recur at every attempt."""
    try:
        return work(task)
    except Error as error:
        if error.retryable:
            raise
        try:
            copy = pickle.loads(pickle.dumps(error))
            return copy if str(copy) == str(error) else OperationalError(str(error))
        except Exception:  # an error with another constructor
            return OperationalError(str(error))


def is_of_spark(error: BaseException) -> bool:
    """True for exceptions from Spark: PySpark's own, and those of Java that PySpark has no class for."""
    return any(kind.__module__.partition(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__)


@contextmanager
def own_errors() -> Iterator[None]:
    """Converts exceptions of Spark in the block to a nyala error in one line: the one that a worker raised, else an
    `OperationalError`."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise as_error(error) from error


def as_error(error: BaseException) -> Error:
    """The nyala error that a worker raised, or an `OperationalError`."""
    text = reason(error)
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, Error):
        with suppress(TypeError):
            return kind(message)
    return OperationalError(text)


def reason(error: BaseException) -> str:
    """The cause in one line, without the tracebacks of worker and JVM that Spark adds."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    causes = [caused[1] for line in lines if (caused := _CAUSED.match(line))]
    found = raised or causes or lines[:1] or [type(error).__name__]
    return found[-1].removeprefix("nyala.errors.").strip()


# ---- for commands ----------------------------------------------------------------------------------------------------

Pipeline: TypeAlias = "Callable[[SparkSession, Handler], Outcome]"
