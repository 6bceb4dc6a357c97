"""Histories of single-row reads and writes, and whether they are linearizable (Herlihy and Wing, 1990).

    one client      ├── write 1 ──┤      ├──── read ► 1 ────┤
    another                   ├── write 2 ──┤

An operation takes effect at one moment between its start and its end. One that was never answered may have taken effect
at any moment after its start, or not at all. `is_linearizable` looks for an order of moments that explains what all
reads saw (Wing and Gong's search, with the states that were tried remembered, as Lowe does).

A read with only its session's guarantees may show the past, but none from before the session's own last operation: it
stands at `behind`, and its start says nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Operation:
    """`value` is what was written, or what was read once `end` is known (None: no row). `behind` is one of the same
    key, and known, that took effect before this one did."""

    key: Any
    is_write: bool
    value: Any
    start: float
    end: float = math.inf
    is_known: bool = False
    behind: Operation | None = None


@dataclass(eq=False)
class History:
    """Operations of several threads as they happen."""

    operations: list[Operation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def write(self, key: Any, value: Any) -> Iterator[Operation]:
        """A write; if the body raises, its outcome is unknown."""
        operation = self._begin(Operation(key, True, value, time.monotonic()))
        yield operation
        operation.end, operation.is_known = time.monotonic(), True

    def read(self, key: Any, value: Any, start: float) -> Operation:
        """A read that was begun at `start` and has just been answered."""
        return self._begin(Operation(key, False, value, start, time.monotonic(), True))

    def session_read(self, key: Any, value: Any, behind: Operation | None) -> Operation:
        """A read that has just been answered, by a session that last wrote or read the key with `behind`."""
        start = -math.inf if behind is None else behind.start
        return self._begin(Operation(key, False, value, start, time.monotonic(), True, behind))

    def _begin(self, operation: Operation) -> Operation:
        with self._lock:
            self.operations.append(operation)
        return operation

    def by_key(self) -> dict[Any, list[Operation]]:
        """The operations of each key."""
        found: dict[Any, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            found[operation.key].append(operation)
        return found

    def check(self) -> None:
        """Assert that the history is linearizable, key by key."""
        for key, operations in self.by_key().items():
            assert is_linearizable(operations), f"the history of key {key} has no order: {operations}"


def is_linearizable(operations: Sequence[Operation], first: Any = None) -> bool:
    """True if some order of moments explains all reads of one register, which holds `first` at the start."""
    waiting = sorted(operations, key=lambda operation: operation.start)
    ends = [operation.end for operation in waiting]
    places = {id(operation): place for place, operation in enumerate(waiting)}
    needed = [0 if o.behind is None else 1 << places[id(o.behind)] for o in waiting]
    known = sum(1 << i for i, operation in enumerate(waiting) if operation.is_known)
    tried: set[tuple[int, Any]] = set()
    stack = [(0, first)]
    while stack:
        done, value = stack.pop()
        if done & known == known:
            return True
        if (done, value) in tried:
            continue
        tried.add((done, value))
        horizon = math.inf
        begin = _first_zero(done)
        for place in range(begin, len(waiting)):
            operation = waiting[place]
            if operation.start > horizon:
                break  # something that is still to be ordered ended before this began
            if done >> place & 1:
                continue
            if needed[place] & ~done == 0:
                if operation.is_write:
                    stack.append((done | 1 << place, operation.value))
                elif operation.value == value:
                    stack.append((done | 1 << place, value))
            horizon = min(horizon, ends[place])
    return False


def _first_zero(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1
