"""For tests of writing from Spark, without Spark: tasks that write, a model of what comes of it, stores that crash."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from nyala.driver.connection import Connection
from nyala.driver.session.session import Session
from nyala.driver.stores.open_stores import SharedStore
from nyala.errors import AlreadyPresent, NotFound
from nyala.spark.writing.lease import owner_name
from nyala.spark.writing.operations import Operation
from nyala.spark.writing.staging import STAGING_PREFIX, staging_name
from nyala.spark.writing.tasks import JobPlan, TaskRows, write_task

TABLE = """CREATE TABLE t (k BIGINT NOT NULL, s STRING NOT NULL, v STRING, w INT NOT NULL DEFAULT 7, PRIMARY KEY (k, s))
DISTRIBUTE BY HASH (k) INTO 3 BUCKETS"""
Rows = dict[int, tuple[str | None, int]]
"""The table's rows: (v, w) by k."""
Given = Sequence[tuple[int, str | None]]
"""A task's rows: (k, v)."""


def batches(rows: Given, size: int = 3) -> Iterator[pa.RecordBatch]:
    """A task's rows as Spark gives them."""
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield pa.record_batch(
            {
                "K": pa.array([k for k, _ in part], pa.int32()),
                "s": pa.array([suffix(k) for k, _ in part]),
                "v": pa.array([v for _, v in part], pa.string()),
            }
        )


def suffix(k: int) -> str:
    """The second part of a key."""
    return f"s{k % 2}"


def fill(connection: Connection, rows: Rows) -> None:
    """Make the table hold these rows."""
    connection.execute("DELETE FROM t")
    if rows:
        values = [(k, suffix(k), v, w) for k, (v, w) in rows.items()]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", values)


def table_rows(connection: Connection) -> Rows:
    """Rows of the table by key."""
    found = connection.execute("SELECT k, s, v, w FROM t").fetchall()
    assert all(s == suffix(k) for k, s, _, _ in found)
    return {k: (v, w) for k, _, v, w in found}


def staging_tables(connection: Connection) -> list[str]:
    """The staging tables that there are."""
    return [table.name for table in connection.store.tables() if table.name.startswith(STAGING_PREFIX)]


def dead_owner() -> str:
    """The name of an owner whose process is no more."""
    machine, _, run = owner_name().rsplit("/", 2)
    return f"{machine}/{2**30}/{run}"


def plan(operation: Operation, job: str = "job", **options: Any) -> JobPlan:
    """A run of a job."""
    given = {"batch_rows": 2, **options}
    return JobPlan(job=job, target="t", operation=operation, staging=staging_name(), **given)


def write(connection: Connection, run: JobPlan, tasks: Iterable[Given], first_attempt: int = 100) -> list[TaskRows]:
    """Runs the tasks of a run; returns what they report to its driver."""
    return [
        write_task(connection, run, partition, first_attempt + partition, batches(rows))
        for partition, rows in enumerate(tasks)
    ]


# ---- the model -------------------------------------------------------------------------------------------------------


def expected(operation: Operation, before: Mapping[int, tuple[str | None, int]], tasks: Iterable[Given]) -> Rows:
    """The table's rows after a job. `AlreadyPresent` or `NotFound` where it is refused."""
    rows = [row for task in tasks for row in task]
    found = dict(before)
    seen: set[int] = set()
    for k, v in rows:
        is_there = k in before
        if operation.needs_absent and (is_there or k in seen):
            raise AlreadyPresent(str(k))
        if operation.needs_present and not is_there:
            raise NotFound(str(k))
        if operation.deletes:
            found.pop(k, None)
        elif operation is Operation.OVERWRITE:
            found[k] = (v, 7)
        elif operation in (Operation.UPDATE, Operation.UPDATE_IGNORE):
            if is_there:
                found[k] = (v, found[k][1])
        elif k not in found or operation in (Operation.UPSERT, Operation.UPSERT_IGNORE):
            found[k] = (v, found[k][1] if k in found else 7)
        seen.add(k)
    if operation is Operation.OVERWRITE:
        return {k: row for k, row in found.items() if k in seen}
    return found


# ---- crashes ---------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here; nothing may catch it."""


class CrashingStore:
    """A store whose process ends at its n-th change, just before it is made or just after."""

    def __init__(self, store: Any, at: int, after: bool):
        self._inner = store
        self._left = at
        self._after = after
        self._lock = threading.Lock()
        self._is_dead = False

    def close(self) -> None:
        """Closes nothing: a process that has ended runs no finalizers, and the store is that of another connection.

        Connections that are dropped without `close` release their store in any thread at any time; a `Crash` there
        ends pytest's worker.
        """

    def __getattr__(self, name: str) -> Any:
        if self._is_dead:
            raise Crash
        found = getattr(self._inner, name)
        if name in ("write", "write_row", "create_table", "drop_table"):
            return lambda *args, **kwargs: self._change(lambda: found(*args, **kwargs))
        if name == "bulk_loader":
            return lambda table: _CrashingLoader(found(table), self._change)
        return found

    def _change(self, change: Any) -> Any:
        with self._lock:
            if self._is_dead:
                raise Crash
            self._left -= 1
            if self._left:
                return change()
            self._is_dead = True
            if self._after:
                change()
            raise Crash


class _CrashingLoader:
    def __init__(self, loader: Any, change: Any):
        self._loader, self._change = loader, change

    def __enter__(self) -> _CrashingLoader:
        self._loader.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loader.__exit__(*exc)

    def append(self, rows: Any) -> None:
        self._loader.append(rows)

    def finish(self) -> Any:
        return self._change(self._loader.finish)


def crashing(connection: Connection, at: int, after: bool) -> Connection:
    """Another connection to the same store, whose process ends at a change."""
    store: Any = CrashingStore(connection.store, at, after)
    return Connection(SharedStore(store, None, {}), Session(store, memory_limit=1 << 30))
