"""Deferral of Ctrl-C, so that changes of a store are not interrupted in the middle.

Python raises `KeyboardInterrupt` between any two instructions of the main thread. During a read, that is harmless. In
the middle of a write, a timestamp might never be committed, or a lock might never be released. So the signal is
deferred while the store is at work. It sets the statement's cancel event at once, so that long work ends at its next
step, and takes effect when the store call returns.
"""

from __future__ import annotations

# Not `signal`: its wrappers convert everything to enumerations, at ten times the cost, which writes of one row would
# pay.
import _signal as signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType
from typing import Any


class DeferInterrupts:
    """A context manager inside which an interrupt of the main thread waits. In other threads it does nothing."""

    __slots__ = ("_before", "_cancel", "_noted")

    def __init__(self, cancel: threading.Event | None = None):
        self._cancel = cancel
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> DeferInterrupts:
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
        # Not twice: a second signal may arrive while the first one's handler is in `Event.set`, holding its lock.
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
