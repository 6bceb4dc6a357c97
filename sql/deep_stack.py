"""Deep stacks for deeply nested statements: parsing, binding, planning and executing them recurses.

Python allows about 1,000 nested calls, which is 40 parentheses for a parser with a function for each level of
operators. Generated statements are nested deeper, and PostgreSQL accepts them: it limits bytes of stack (2 MB), not
calls. Work on such a statement is done in a thread with a larger stack:

    on_deep_stack(work)  in such a thread, while this one waits
    deeply(work)         here; after a RecursionError, again in such a thread
    require()            RecursionError unless this is such a thread

Python's limit holds for all threads of the process, so it is raised only while such a thread works. Statements known to
be deep go to such a thread at once: elsewhere, under the raised limit, they might recurse beyond the thread's stack.
The limit is lowered again when no deep thread is left: on Python 3.11 a thread far beyond it ends the process.

`STACK_BYTES` suffice for `MOST_CALLS` calls of any kind. On Python 3.11 a call through C takes some hundred bytes of
the thread's stack, a call inside `sorted` 3 kB. Later versions limit calls through C by themselves.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

MOST_CALLS: Final = 24_000
"""500 levels of parentheses take 10,000 calls, of NOT in parentheses 18,000."""
STACK_BYTES: Final = 128 << 20
"""Address space: unused pages take no memory."""


class _Limit:
    """Python's recursion limit, raised while at least one thread needs it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holders = 0
        self._before: int | None = None
        """The limit before it was raised; None while it is not raised."""

    def hold_up(self) -> None:
        with self._lock:
            self._holders += 1
            if self._before is None and sys.getrecursionlimit() < MOST_CALLS:
                self._before = sys.getrecursionlimit()
                sys.setrecursionlimit(MOST_CALLS)

    def let_down(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders or self._before is None:
                return
            if sys.getrecursionlimit() != MOST_CALLS:
                self._before = None  # the program has set another one meanwhile
            elif not any(_is_deeper(frame, self._before // 2) for frame in sys._current_frames().values()):
                sys.setrecursionlimit(self._before)
                self._before = None
            # Otherwise it stays raised until the next thread lowers it.


_limit = _Limit()


def _is_deeper(frame: FrameType | None, calls: int) -> bool:
    while frame is not None and calls:
        frame, calls = frame.f_back, calls - 1
    return frame is not None


class _Here(threading.local):
    """True in threads with a deep stack."""

    is_deep = False


_here = _Here()
_starting = threading.Lock()
"""Held while the default stack size of new threads is changed."""


def require() -> None:
    """Raises RecursionError unless this thread has a deep stack; `deeply` then retries in one."""
    if not _here.is_deep:
        raise RecursionError("a deep stack is needed")


def deeply(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Calls `work()`, and again on a deep stack if it raises RecursionError: it must not have had an effect by then.

    Raises RecursionError if a deep stack does not suffice either.
    """
    try:
        return work()
    except RecursionError:
        if _here.is_deep:
            raise
    return on_deep_stack(work, stop)


def on_deep_stack(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Calls `work()` in a thread with a stack for `MOST_CALLS` calls, and waits for it.

    An interrupt of the calling thread calls `stop` and is raised after the work has ended.
    """
    if _here.is_deep:
        return work()
    done: list[T] = []
    failed: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        _here.is_deep = True
        try:
            done.append(context.run(work))
        except BaseException as error:
            failed.append(error)

    _limit.hold_up()
    try:
        interrupt = _joined(_started(run), stop)
    finally:
        _limit.let_down()
    if interrupt is not None:
        raise interrupt
    if failed:
        raise failed[0]
    return done[0]


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="nyala-deep-statement", daemon=True)
    with _starting:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        except RuntimeError:  # no address space for it
            raise RecursionError("there is no memory for a deeper stack") from None
        finally:
            threading.stack_size(before)
    return thread


def _joined(thread: threading.Thread, stop: Callable[[], None] | None) -> BaseException | None:
    """Waits for a thread; returns the interrupt that arrived meanwhile."""
    interrupt: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:  # Ctrl-C, or an exception raised by a signal handler
            interrupt = interrupt or error
            if stop is not None:
                stop()
    return interrupt
