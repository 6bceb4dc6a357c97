"""nyala's clients in processes: each executes a share of a step in threads, all of which begin together.

    with NyalaClients(url, processes=2) as clients:
        seconds = clients.run(Job("insert", first=0, count=6_000, rows=400_000, batch=1), threads=16)

Each thread has a connection of its own and prepared statements, as threads of programs have.
"""

from __future__ import annotations

import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from ...driver.connection import Connection, connect
from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ..narrow_rows import narrow_rows
from ..ycsb.measured import described

Kind: TypeAlias = Literal["ingest", "insert", "update", "look up", "beside"]
_STRIDE: Final = 61
"""Look-ups and updates take every 61st row, as those of Kudu's client."""


@dataclass(frozen=True, slots=True)
class Job:
    """A step: `count` rows or statements from row `first` on, or all that can be done within `seconds`.

    `rows` is the number of rows among which updates and look-ups choose. `share` of `shares` is the part of a process.
    """

    kind: Kind
    first: int
    count: int
    rows: int
    batch: int = 1
    seconds: float = 0.0
    load_from: int = 0
    """The first row of threads that load beside the others."""
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Done:
    """Look-ups or statements, written rows, and the time of the end by `time.perf_counter`."""

    statements: int
    rows: int
    ended: float


class NyalaClients:
    """Client processes, started once and used for every step."""

    def __init__(self, url: str, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers: list[tuple[Any, Pipe]] = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(url, theirs), daemon=True)
            process.start()
            theirs.close()
            self._workers.append((process, ours))

    def __enter__(self) -> NyalaClients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        for process, pipe in self._workers:
            pipe.close()
            process.join()

    def run(self, job: Job, threads: int, loaders: int = 0) -> tuple[float, int, int]:
        """Executes a job in `threads` threads in all, and `loaders` more that load beside it.

        Returns
        -------
        tuple of (float, int, int)
            Seconds until the last thread has ended, statements, and written rows.
        """
        count = len(self._workers)
        for number, (_, pipe) in enumerate(self._workers):
            own = threads // count + (number < threads % count)
            loading = loaders if number == count - 1 else 0
            pipe.send((replace(job, share=number, shares=count), own, loading))
        self._received()
        began = time.perf_counter()
        for _, pipe in self._workers:
            pipe.send(None)
        done = self._received()
        ended = max(one.ended for one in done)
        return ended - began, sum(one.statements for one in done), sum(one.rows for one in done)

    def _received(self) -> list[Any]:
        answers = []
        for _, pipe in self._workers:
            try:
                answers.append(pipe.recv())
            except EOFError:
                raise OperationalError("a client process of nyala has ended") from None
        for answer in answers:
            if isinstance(answer, str):
                raise OperationalError(f"a client process of nyala failed: {answer}")
        return answers


def _serve(url: str, pipe: Pipe) -> None:
    connections: list[Connection] = []
    try:
        while True:
            job, threads, loaders = pipe.recv()
            while len(connections) < threads + loaders:
                connections.append(connect(url))
            pipe.send(None)
            pipe.recv()
            try:
                pipe.send(_done(job, connections[: threads + loaders], threads))
            except Exception as error:
                pipe.send(described(error))
    except EOFError:
        return
    finally:
        for connection in connections:
            connection.close()


def _done(job: Job, connections: Sequence[Connection], threads: int) -> Done:
    statements, rows = itertools.count(), itertools.count()
    errors: list[Exception] = []
    # Which statement is next is known to all threads of the process; a step of `count` is atomic.
    numbers = itertools.count(job.share, job.shares)
    deadline = time.perf_counter() + job.seconds

    def work(connection: Connection, is_loader: bool) -> None:
        try:
            if is_loader:
                _ingest(replace(job, first=job.load_from), connection, itertools.count(), deadline, rows)
            elif job.kind == "ingest":
                _ingest(job, connection, numbers, deadline, rows)
            else:
                _statements(job, connection, numbers, deadline, statements)
        except Exception as error:
            errors.append(error)

    workers = [
        threading.Thread(target=work, args=(connection, number >= threads))
        for number, connection in enumerate(connections)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    ended = time.perf_counter()
    if errors:
        raise errors[0]
    return Done(next(statements), next(rows) * job.batch, ended)


def _ingest(
    job: Job, connection: Connection, numbers: itertools.count[int], deadline: float, batches: itertools.count[int]
) -> None:
    table = connection.table("t")
    session = connection.new_session(flush_mode="MANUAL_FLUSH", buffer_bytes=64 << 20)
    for number in numbers:
        start = job.first + number * job.batch
        if (time.perf_counter() >= deadline) if job.seconds else (start >= job.first + job.count):
            return
        session.insert(table, narrow_rows(start, job.batch))
        session.flush()
        next(batches)


def _statements(
    job: Job, connection: Connection, numbers: itertools.count[int], deadline: float, done: itertools.count[int]
) -> None:
    execute = _statement(job, connection)
    for number in numbers:
        if (time.perf_counter() >= deadline) if job.seconds else (number >= job.count):
            return
        execute(number)
        next(done)


def _statement(job: Job, connection: Connection) -> Callable[[int], object]:
    cursor = connection.cursor()
    if job.kind == "insert":
        return lambda number: cursor.execute("INSERT INTO t VALUES (?, 1, 0.5, ?, ?)", _row(job, number))
    if job.kind == "update":
        text = "UPDATE t SET a = ? WHERE k = ?"
        return lambda number: cursor.execute(text, (7, job.first + number * _STRIDE % job.rows))

    def look_up(number: int) -> None:
        key = job.first + number * _STRIDE % job.rows
        row = cursor.execute("SELECT a, b, c FROM t WHERE k = ?", (key,)).fetchone()
        if row is None or row[2] != str(key):
            raise OperationalError(f"another row than that of key {key}: {row}")

    return look_up


def _row(job: Job, number: int) -> tuple[int, str, int]:
    key = job.first + number
    return key, str(key), key
