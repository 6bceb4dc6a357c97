"""Context of one execution of a statement: its store, threads, limits, and cancellation.

Threads: the *coordinating thread*, which pulls the results, opens operators and runs pipeline breakers; a shared pool
runs morsels. A morsel never waits for another one, so the pool cannot deadlock, however many statements share it.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import field, replace
from functools import cache, partial
from time import perf_counter
from typing import Any, TypeVar

from ...errors import Cancelled
from ...model.forks import renew_in_child
from ...model.lazy_dataclass import dataclass
from ...model.store import ScanCounters, ScanToken, Store, Timestamp, Transaction
from ...model.vectors.vector import Batch
from ...model.waiting_time import carried
from ...planner.algebra.physical import PhysicalNode
from ...storage.files.spill_file import SpillFile
from ..scans.prefetch import PrefetchedTokens
from .adaptive_threads import LARGE_ROWS, LONG, REMEMBERED, WORTH_SHARING, Crew
from .memory import Account, Memory
from .operator_stats import Actuals
from .progress import Handler, Tracker
from .shared_tasks import SharedTasks, timed
from .stream import Morsel, Stream

T = TypeVar("T")

READ_AHEAD = 2
"""Morsels per thread that may be ready before the consumer pulls them: enough to keep the threads busy, a bound on
memory."""

AT_ONCE = 8
"""Batches that a thread produces of one morsel before it waits for the consumer; scans have half as many."""

WAITING_THREADS = 2
"""Threads for each of the statement's if servers scan: these threads mostly wait. (TPC-H over three servers took 0.88
times as long as with one for each.)"""


class _Thread(threading.local):
    """State of a thread that works for statements."""

    is_worker = False
    stop: threading.Event | None = None
    """Ends the thread's work once it is set; None in coordinating threads."""


_thread = _Thread()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One pool per width for the whole process: starting threads costs more than a point query."""
    return ThreadPoolExecutor(threads, f"nyala-executor-{threads}", initializer=_mark_worker)


def _mark_worker() -> None:
    _thread.is_worker = True


renew_in_child(_pool.cache_clear)  # a child has none of its parent's threads


def _inline(work: Callable[[], T]) -> T:
    """Do work in the calling thread, which is not a pool thread. Like in a pool thread, tasks nested in it run
    inline."""
    _thread.is_worker = True
    try:
        return work()
    finally:
        _thread.is_worker = False


def _in_turn(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks one after the other in the calling thread, see `_inline`."""
    return _inline(lambda: [task() for task in tasks])


def _always() -> bool:
    return True


def _started(morsel: Morsel) -> Iterator[Batch]:
    """Yield the morsel's batches; the morsel is started when the first is requested."""
    yield from morsel.run()


@dataclass(eq=False)
class ExecutionContext:
    """State that operators share while a statement runs.

    Parameters
    ----------
    store : Store
    threads : int
        Number of morsels that run concurrently; by default one per processor.
    memory_limit : int, optional
        Bytes that hash tables, sorts and buffered rows may take together; operators spill what does not fit. None: no
        limit.
    temporary_directory : str, optional
        Directory for spilled data; None: the system's directory for temporary files.
    cancel : threading.Event
        Once set, by any thread, the statement ends with `Cancelled` at its next batch.
    progress : callable, optional
        Called periodically, and at the end, with the statement's progress: `executor.run.progress`.
    collect : bool
        Keep `actuals` per operator, for EXPLAIN ANALYZE.
    snapshot : Timestamp, optional
        Snapshot timestamp of the reads; None: the latest committed state.
    by_row : bool
        True if statements about one row take the row path (`statements.single_rows`), which EXPLAIN then names.
    transaction : Transaction, optional
        The store, if it is a transaction.
    is_deep : bool
        True if the plan is nested by hundreds of levels: everything runs in the calling thread, which has a deep stack.
    """

    store: Store
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_limit: int | None = None
    temporary_directory: str | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    progress: Handler | None = None
    collect: bool = False
    snapshot: Timestamp | None = None
    by_row: bool = True
    transaction: Transaction | None = None
    is_deep: bool = False
    actuals: Actuals = field(default_factory=Actuals)
    shared: dict[int, tuple[Morsel, ...]] = field(default_factory=dict)
    """The rows of each `Shared` subplan that has run, by its key."""
    serial_runs: dict[int, int] = field(default_factory=dict)
    """By number of the call of `parallel`: further executions of the plan that run its tasks in one thread. Kept with
    a prepared statement between its executions (`adaptive_threads`)."""
    working: dict[int, Batch] = field(default_factory=dict)
    """The rows of the last round of each recursive query, by its key."""
    opening: list[PhysicalNode] = field(init=False, default_factory=list)
    """Operators that are being opened, outermost first; with `collect`, the last one owns new accounts."""
    prefetched: dict[int, Any] = field(init=False, default_factory=dict)
    """Scans that were requested when the statement began, by the numbers of their nodes: `scans.prefetch`."""
    tracker: Tracker | None = None
    """Counts the progress for `progress`; made by the context itself."""
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.memory_limit)
        if self.tracker is None and self.progress is not None:
            self.tracker = Tracker(self.progress, self.cancel)
        self._kept: list[Account] = []
        self._prefetched_tokens: list[PrefetchedTokens] = []
        self._calls = itertools.count()
        self._files: weakref.WeakSet[SpillFile] = weakref.WeakSet()

    def again(self) -> ExecutionContext:
        """Return a context for the statement to be executed again, at a new snapshot."""
        now = self.store.now()
        return replace(self, snapshot=now, shared={}, actuals=Actuals())

    def check(self) -> None:
        """Raise `Cancelled` if the statement was cancelled, and in a thread whose results are no longer needed."""
        if self.cancel.is_set():
            raise Cancelled("the statement was cancelled")
        if _thread.stop is not None and _thread.stop.is_set():
            raise Cancelled("the rows are not wanted any more")
        if self.tracker is not None:
            self.tracker.look()

    def watch(self, rows: int) -> None:
        """Check the cancel event and count the progress; scans call this before each row group, with its rows."""
        self.check()
        if self.tracker is not None:
            self.tracker.passed(rows)

    def finish(self) -> None:
        """Report the progress a last time at the end of the statement's work."""
        if self.tracker is not None:
            self.tracker.finish()

    def account(self, what: str) -> Account:
        """New account for the state of the operator that is being opened; `what` names it in errors: "a sort"."""
        account = self.memory.account(what)
        if self.collect and self.opening:
            self.actuals.of(self.opening[-1]).usages.append(account.usage)
        return account

    def reserve(self, size: int, what: str) -> None:
        """Account for `size` bytes of state that cannot be spilled, until the statement ends."""
        account = self.account(what)
        account.hold(size)
        self._kept.append(account)

    def spill_file(self, node: PhysicalNode | None = None) -> SpillFile:
        """New temporary file for an operator; None: for the one that is being opened."""
        file = SpillFile(self.temporary_directory)
        self._files.add(file)
        owner = node if node is not None or not self.opening else self.opening[-1]
        if self.collect and owner is not None:
            self.actuals.of(owner).spill_files.append(file)
        return file

    def prefetch(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> PrefetchedTokens:
        """Tokens of one scan that are requested together, once the first is read."""
        prefetched = PrefetchedTokens(self.store, tokens, counters)
        self._prefetched_tokens.append(prefetched)
        return prefetched

    def close_scans(self) -> None:
        """Cancel requested scans that were not read: the work is over."""
        while self._prefetched_tokens:
            self._prefetched_tokens.pop().close()

    def close_files(self) -> None:
        """Close the temporary files that are still open: the work is over."""
        for file in list(self._files):
            file.close()

    # ---- running ------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of threads that work on morsels concurrently."""
        return self.threads * WAITING_THREADS if self.store.runs_fragments and self.threads > 1 else self.threads

    @property
    def is_worker(self) -> bool:
        """True in pool threads, and while the coordinator runs tasks inline."""
        return _thread.is_worker

    def parallel(
        self,
        tasks: Sequence[Callable[[], T]],
        are_asked: bool = False,
        are_large: bool = False,
        are_long: bool = False,
    ) -> list[T]:
        """Run all tasks concurrently and return their results in order. The first error ends the others and is raised.

        `are_asked`: the tasks read data that servers were already requested to send, see `Morsel`. `are_large`: they
        work on enough rows for other threads to be ready before the first task is done. `are_long`: their kernels take
        milliseconds, so they need no trial with one thread.
        """
        workers = min(self.workers, len(tasks))
        if workers <= 1 or self.is_worker:
            return [task() for task in tasks]
        if self.store.runs_fragments:
            share_out = self._shared_out_if_long if are_asked else self._shared_out
            return share_out(tasks, workers)
        if are_long:
            return self._shared_out(tasks, workers)
        return self._tried(tasks, workers, are_large)

    def _tried(self, tasks: Sequence[Callable[[], T]], workers: int, are_large: bool) -> list[T]:
        """Run tasks that use this machine's processors. Several threads are used if a trial with one thread, then with
        the first that join it, shows a speed-up, or without a trial once the first task has taken `LONG` seconds."""
        number = next(self._calls)
        if runs := self.serial_runs.get(number, 0):
            self.serial_runs[number] = runs - 1
            return _in_turn(tasks)
        shared = SharedTasks(tasks)
        is_tried = threading.Event()
        joining: list[Future[None]] = []
        if are_large:

            def join() -> None:
                if not is_tried.wait(LONG):
                    self._draw(shared, None)

            pool, share = _pool(self.workers), carried(join)
            joining = [pool.submit(share) for _ in range(workers - 1)]
        began = perf_counter()
        try:
            _inline(lambda: shared.draw(lambda: False))
        finally:
            is_tried.set()
        seconds = perf_counter() - began
        if seconds * (len(tasks) - 1) < WORTH_SHARING:
            _inline(lambda: self._draw(shared, None))
            return self._finish(shared, joining)
        crew = Crew(workers, seconds)
        n_joined = 0 if seconds < LONG else sum(not future.done() for future in joining)
        found = self._shared_out(tasks, workers, crew, shared, joining, n_joined)
        if crew.is_given_up:
            self.serial_runs[number] = REMEMBERED
        return found

    def _shared_out_if_long(self, tasks: Sequence[Callable[[], T]], workers: int) -> list[T]:
        """Run tasks for which servers work: while they do, one waiting thread is as good as many."""
        found: list[T] = []
        end = perf_counter() + WORTH_SHARING
        while tasks and perf_counter() < end:
            found += _in_turn(tasks[:1])
            tasks = tasks[1:]
        return found + (self._shared_out(tasks, min(workers, len(tasks))) if tasks else [])

    def _shared_out(
        self,
        tasks: Sequence[Callable[[], T]],
        workers: int,
        crew: Crew | None = None,
        shared: SharedTasks[T] | None = None,
        joining: Sequence[Future[None]] = (),
        n_joined: int = 0,
    ) -> list[T]:
        """Run all tasks in `workers` threads, as long as the adaptive thread count keeps them. `shared` are the tasks
        if some have run already, `joining` are threads that may work on them, `n_joined` how many of these do."""
        shared = SharedTasks(tasks) if shared is None else shared
        pool, share = _pool(self.workers), carried(partial(self._draw, shared, crew))
        return self._finish(shared, [*joining, *(pool.submit(share) for _ in range(workers - n_joined))])

    def _draw(self, shared: SharedTasks[Any], crew: Crew | None) -> None:
        """Work on tasks in the calling thread."""
        _thread.stop = shared.stop
        try:
            shared.draw(_always if crew is None else timed(crew, perf_counter))
        finally:
            _thread.stop = None

    def _finish(self, shared: SharedTasks[T], futures: Sequence[Future[None]]) -> list[T]:
        """Wait for the threads that work on tasks, and return the results."""
        try:
            wait(futures)
        except BaseException:
            # An interrupt while waiting: the threads must end before their data is released.
            shared.stop.set()
            self.cancel.set()
            wait(futures)
            raise
        for future in futures:
            future.result()
        return shared.finished()

    def run_all(self, stream: Stream, work: Callable[[Iterator[Batch], Morsel], T]) -> list[T]:
        """Apply `work` to every morsel of a stream, several concurrently; return the results in the morsels' order."""
        if stream.serial:
            return [work(self.checked(morsel.run()), morsel) for morsel in stream.morsels]

        def task(morsel: Morsel) -> Callable[[], T]:
            return lambda: work(self.checked(morsel.run()), morsel)

        morsels = stream.morsels
        are_large = sum(morsel.rows for morsel in morsels) >= LARGE_ROWS
        return self.parallel([task(morsel) for morsel in morsels], all(m.is_asked for m in morsels), are_large)

    def checked(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches that have rows, checking the cancel event before each."""
        self.check()
        for batch in batches:
            self.check()
            if batch.length:
                yield batch

    def iterate(self, stream: Stream, finish: Callable[[Batch], T]) -> Iterator[T]:
        """Yield each batch of a stream, in order, after `finish` (which runs in the threads too)."""
        inline = stream.serial or self.threads <= 1 or len(stream.morsels) <= 1
        if inline or self.is_worker:
            for morsel in stream.morsels:
                for batch in self.checked(morsel.run()):
                    yield finish(batch)
            return
        yield from self._read_ahead(stream.morsels, finish)

    def _read_ahead(self, morsels: Sequence[Morsel], finish: Callable[[Batch], T]) -> Iterator[T]:
        stop = threading.Event()

        def work(batches: Iterator[Batch]) -> tuple[list[T], Iterator[Batch] | None]:
            """Return a morsel's next results, and the morsel if it may have more: a morsel with very many rows pauses
            until its consumer catches up."""
            _thread.stop = stop
            try:
                found = [finish(batch) for batch in itertools.islice(batches, AT_ONCE)]
                return found, batches if len(found) == AT_ONCE else None
            finally:
                _thread.stop = None

        pool, go_on = _pool(self.workers), carried(work)
        running: deque[Future[tuple[list[T], Iterator[Batch] | None]]] = deque()
        waiting = (self.checked(_started(morsel)) for morsel in morsels)
        try:
            for batches in itertools.islice(waiting, self.threads * READ_AHEAD):
                running.append(pool.submit(go_on, batches))
            while running:
                ready, more = running.popleft().result()
                if more is not None:
                    running.appendleft(pool.submit(go_on, more))
                else:
                    for batches in itertools.islice(waiting, 1):
                        running.append(pool.submit(go_on, batches))
                yield from ready
        finally:
            stop.set()
            for future in running:
                future.cancel()
            wait(running)

    def collect_batches(self, stream: Stream) -> list[Batch]:
        """Collect all batches of a stream in order; columns that no operator read stay unread."""
        return [batch for batches in self.run_all(stream, lambda b, _: list(b)) for batch in batches]
