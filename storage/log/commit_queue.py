"""Threads that wait until their log entries are decided, each with a lock of its own.

`Condition.notify_all` makes every woken thread acquire the condition's lock, one after the other, each with two
switches of threads. Here the thread that decided the entries wakes exactly the threads whose entries are decided, which
continue without acquiring a lock; and of the others one, the next leader (see `wal`).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class Decidable(Protocol):
    """Object that a thread waits for: a `LogTicket`."""

    @property
    def is_decided(self) -> bool: ...


class CommitQueue:
    """Threads that wait for a ticket, in order of arrival. Every call needs the log's mutex, except the waiting
    itself."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Decidable, threading.Lock]] = deque()

    def join(self, ticket: Decidable) -> threading.Lock:
        """Returns a lock to acquire without the log's mutex: it is released when the ticket is decided, or when this
        thread becomes the next leader. The ticket shows which."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append((ticket, turn))
        return turn

    def wake(self) -> None:
        """Wake the threads whose tickets are decided, and the first of the others, which then checks for work. To be
        called whenever tickets were decided, and when a leader stops leading."""
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
