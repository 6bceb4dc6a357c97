"""Threads that wait until their log entries are decided, each with a lock of its own.

A condition that is told to all makes every thread that wakes take the condition's lock, one behind the other, each with
two switches of threads. Here whoever decided the entries lets go exactly those threads that have nothing more to wait
for, and they go on without taking any lock; and of those that must wait on, one: the next leader (see `wal`).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class Decidable(Protocol):
    """What a thread waits for: a `LogTicket`."""

    @property
    def is_decided(self) -> bool: ...


class CommitQueue:
    """Who waits for a ticket, in the order in which they came. Needs a lock of the owner's around every call, but for
    the waiting itself."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Decidable, threading.Lock]] = deque()

    def join(self, ticket: Decidable) -> threading.Lock:
        """A lock to be acquired, without the owner's: it is free when the ticket is decided, or when nobody leads and
        it is this thread's turn. Which of them, the ticket tells."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append((ticket, turn))
        return turn

    def wake(self) -> None:
        """Let go the threads whose tickets are decided, and the first of the others, which is to look what can be done.
        To be called whenever tickets were decided, and when somebody stops to lead."""
        waiting = self._waiting
        if not waiting:
            return
        still: deque[tuple[Decidable, threading.Lock]] = deque()
        for ticket, turn in waiting:
            if ticket.is_decided:
                turn.release()
            else:
                still.append((ticket, turn))
        if still:
            still.popleft()[1].release()
        self._waiting = still
