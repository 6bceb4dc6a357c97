"""The calls in progress of one connection at its client, without I/O: numbers, frames out, replies in.

    begin, cancel ─► outbox ─► `outgoing` ─► whatever writes
    whatever reads ─► FrameReader ─► `replies` ─► the calls that are done

Both kinds of connections keep their calls here: that of threads (`client_connection`), under its lock, and that of an
event loop (`loop_connection`), in the loop's thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from .. import errors
from .frames import CALL, CANCEL, REPLY, Frame, frame_head

_MOST_NUMBER: Final = 0xFFFF_FFFF

C = TypeVar("C")


class CallTable(Generic[C]):
    """Calls without a reply, each an object of the connection above. Not thread-safe.

    Attributes
    ----------
    refusal : str
        Reason for which the server has ended the connection; "" if it has not.
    """

    __slots__ = ("_calls", "_numbers", "_outbox", "refusal")

    def __init__(self) -> None:
        self.refusal = ""
        self._calls: dict[int, C] = {}
        self._numbers = itertools.count(1)
        self._outbox: list[bytes] = []

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[tuple[int, C]]:
        """Iterates over numbers and calls, in the order of `begin`."""
        return iter(self._calls.items())

    def begin(self, call: C, body: bytes) -> int:
        """Adds a call, and its frame to the outbox; returns its number."""
        number = next(self._numbers)
        if number >= _MOST_NUMBER:
            self._numbers = itertools.count(1)  # the calls with these numbers have ended long ago
        self._calls[number] = call
        self._outbox += frame_head(CALL, number, len(body)), body
        return number

    def cancel(self, number: int) -> bool:
        """Removes a call whose reply is not needed any more, and adds the frame that reports that; False if it is
        done."""
        if self._calls.pop(number, None) is None:
            return False
        self._outbox.append(frame_head(CANCEL, number, 0))
        return True

    def outgoing(self) -> list[bytes]:
        """Removes and returns the bytes to send, in parts."""
        parts, self._outbox = self._outbox, []
        return parts

    def replies(self, frames: Iterable[Frame]) -> list[tuple[C, bytes]]:
        """Removes the calls that these frames answer, and returns them with their replies."""
        found = []
        for kind, number, body in frames:
            if kind != REPLY:
                self.refusal = body.decode("utf-8", "replace") or "an unexpected frame"
                continue
            call = self._calls.pop(number, None)
            if call is not None:
                found.append((call, body))
        return found

    def abandon(self) -> list[C]:
        """Removes and returns all calls, and discards the outbox: the connection is over."""
        calls, self._calls = list(self._calls.values()), {}
        self._outbox.clear()
        return calls


def copied(error: errors.Error) -> errors.Error:
    """Returns a copy to raise: the original may have been raised for another call."""
    return type(error)(*error.args)


def error_text(error: BaseException) -> str:
    """Returns the system's own words for an error, where it has some."""
    return str(getattr(error, "strerror", "") or error)
