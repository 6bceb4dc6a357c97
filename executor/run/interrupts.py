"""Changes of a store are not to be torn by Ctrl-C.

Python raises `KeyboardInterrupt` between any two instructions of the main thread. While it reads, that is harmless; in
the middle of a write, a timestamp might never be committed, or a lock's holder lose its place. So the signal waits
while the store is at work. It sets the statement's cancel event at once, so that long work ends at its next step, and
takes effect when the store is done.
"""

from __future__ import annotations

# Not `signal`: its wrappers make enumerations of everything, at ten times the price, which writes of one row would pay.
import _signal as signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType
from typing import Any


class Deferred:
    """A context manager inside which an interrupt of the main thread waits. In other threads it does nothing."""

    __slots__ = ("_before", "_cancel", "_noted")

    def __init__(self, cancel: threading.Event | None = None):
        self._cancel = cancel
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Deferred:
        if threading.get_ident() == threading.main_thread().ident:
            handler = signal.getsignal(signal.SIGINT)
            # Handlers that are not Python's own (ignored, the system's default) interrupt nothing in the middle.
            if callable(handler):
                self._before = handler
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_first = self._noted is None
        self._noted = number, frame
        # Not twice: a second signal may come while the first one's handler is in `Event.set`, with its lock.
        if is_first and self._cancel is not None:
            self._cancel.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            return
        signal.signal(signal.SIGINT, self._before)
        if self._noted is not None:
            self._before(*self._noted)
