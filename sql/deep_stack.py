"""Room for statements that are nested deeply: parsing, binding, planning and running them recurses.

Python refuses more than some 1,000 calls inside each other, which is 40 parentheses for a parser that has a function
for each level of operators. Statements of programs are nested deeper, and PostgreSQL takes them: it counts bytes of
stack (2 MB), not calls. So work that ends in RecursionError is done again in a thread with a stack of its own size:

    deeply(work)        in this thread; where that is too little, again on a deep stack
    on_deep_stack(work) at once
    Room                the limit stays raised between several such calls

Python's limit holds for all threads of the process, so it is raised only as long as such a statement is at work.
`STACK_BYTES` are enough for `MOST_CALLS` calls whatever they are: on Python 3.11 a call that goes through C takes some
hundred bytes of the thread's stack, a call inside `sorted` 3 kB. Later versions limit calls through C by themselves.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

MOST_CALLS: Final = 50_000
STACK_BYTES: Final = 256 << 20
"""Address space: what is not used takes no memory."""


class Room:
    """Raises Python's recursion limit from its making to its first `close`, or longer while statements are at work.

    Python 3.11 ends the process ("Cannot recover from stack overflow") if a thread is deeper than a limit that another
    thread lowers. A statement on an ordinary stack may be that deep while a room is open, so the limit stays as long as
    any is at work (`at_work`).
    """

    _lock: Final = threading.Lock()
    _open = 0
    _at_work = 0
    _before = 0
    _is_raised = False

    def __init__(self) -> None:
        self._is_open = True
        with Room._lock:
            if not Room._is_raised:
                Room._before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(Room._before, MOST_CALLS))
                Room._is_raised = True
            Room._open += 1

    def close(self) -> None:
        """Lower the limit again if no other room is open and no statement is at work."""
        with Room._lock:
            if not self._is_open:
                return
            self._is_open = False
            Room._open -= 1
            Room._lower()

    @staticmethod
    def _lower() -> None:
        if Room._is_raised and Room._open == 0 and Room._at_work == 0:
            Room._is_raised = False
            # A limit that the program has set meanwhile stays.
            if sys.getrecursionlimit() == max(Room._before, MOST_CALLS):
                sys.setrecursionlimit(Room._before)

    @staticmethod
    @contextlib.contextmanager
    def at_work() -> Iterator[None]:
        """Keep a raised limit while work is done that may have become deep under it."""
        with Room._lock:
            Room._at_work += 1
        try:
            yield
        finally:
            with Room._lock:
                Room._at_work -= 1
                Room._lower()

    def __del__(self) -> None:
        self.close()


class _Here(threading.local):
    """True in threads with a deep stack."""

    is_deep = False


_here = _Here()
_starting = threading.Lock()
"""Held while the stack size of new threads is another one than the process wants."""


def deeply(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """`work()`, once more on a deep stack where it ends in RecursionError: it must not have done anything by then.

    Raises RecursionError where a deep stack is not enough either.
    """
    try:
        with Room.at_work():
            return work()
    except RecursionError:
        if _here.is_deep:
            raise
    return on_deep_stack(work, stop)


def on_deep_stack(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """`work()` in a thread with a stack for `MOST_CALLS` calls, while this one waits.

    An interrupt of this thread calls `stop` and is raised when the work has ended.
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

    room = Room()
    try:
        thread = _started(run)
        interrupt = _joined(thread, stop)
    finally:
        room.close()
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
    """Wait for a thread; the interrupt that came meanwhile."""
    interrupt: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:  # Ctrl-C, or whatever a signal's handler raises
            interrupt = interrupt or error
            if stop is not None:
                stop()
    return interrupt
