"""Background work of a tablet between its prepared writes (`prepared`).

    nothing_prepared        a moment under `write_lock`: for a cut
    between_transactions    longer, without it: the new metadata and the new state, which must not be interrupted
    applying                the other side: a replica applies log entries, PREPARE entries only outside of the latter

An outcome may take as long as another tablet has no majority. So nothing here waits for one for longer than `PATIENCE`
seconds: the work is `Postponed`, with nothing changed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from ...errors import DeadlineExceeded
from .prepared import PreparedWrites

if TYPE_CHECKING:
    from ...model.schema import Table

PATIENCE = 1.0
"""Seconds for which background work waits for the outcomes of prepared writes."""

REQUESTED_SECONDS = 60.0
"""The same for work that a caller waits for."""
R = TypeVar("R")


class Postponed(DeadlineExceeded):
    """Background work has ended, with nothing changed, because a transaction has no outcome yet."""


def again_if_postponed(act: Callable[[], R], check: Callable[[], object]) -> R:
    """Do work that a caller waits for, again while it is `Postponed`, for `REQUESTED_SECONDS`; `check` is called before
    each further attempt."""
    until = time.monotonic() + REQUESTED_SECONDS
    while True:
        try:
            return act()
        except Postponed:
            if time.monotonic() >= until:
                raise
            check()


class BetweenTransactions:
    """Base class of `tablet.Tablet`."""

    id: str
    table: Table
    prepared: PreparedWrites
    write_lock: threading.Lock

    def settle(self) -> None:
        """See `Tablet.settle`."""
        raise NotImplementedError

    @contextlib.contextmanager
    def nothing_prepared(self) -> Iterator[None]:
        """Hold `write_lock` while no transaction has prepared a write: what is in memory then is decided, in flight, or
        undone by its own log entry. Blocks until the outcomes are known, for `PATIENCE` seconds, and keeps new writes
        from being prepared meanwhile. `Postponed` if they are not known then, `StoreClosed` if the tablet is closed
        first."""
        with self.prepared.closed():
            until = time.monotonic() + PATIENCE
            while True:
                self.prepared.wait(max(0.0, until - time.monotonic()))  # without the lock, which an outcome needs
                with self.write_lock:
                    if self.prepared:
                        self.settle()
                    if not self.prepared:
                        yield
                        return
                if time.monotonic() >= until:
                    raise Postponed(
                        f"transactions have prepared rows of tablet {self.id} of table {self.table.name}, and have no "
                        "outcome yet: try again later"
                    )

    @contextlib.contextmanager
    def between_transactions(self) -> Iterator[None]:
        """Keep writes from being prepared meanwhile, at this replica too where another one leads. Raises as
        `nothing_prepared` before it begins; `Tablet.swap` and `nothing_prepared` do not block inside. Needs
        `flush_lock`."""
        with self.prepared.closed():
            with self.nothing_prepared():
                self.prepared.hold_back()
            try:
                yield
            finally:
                self.prepared.resume()

    @contextlib.contextmanager
    def applying(self, prepares: bool) -> Iterator[None]:
        """Hold `write_lock`, to apply log entries; with `prepares`, if some of them prepare a write, only outside of
        `between_transactions`."""
        while True:
            if prepares:
                self.prepared.wait_resumed()
            with self.write_lock:
                if not prepares or not self.prepared.is_held_back:
                    yield
                    return

    @contextlib.contextmanager
    def free_of_prepared(self) -> Iterator[bool]:
        """Keep new writes from being prepared meanwhile. Yields True if nothing is prepared: `nothing_prepared` then
        does not block. For threads that must not wait for an outcome, as that which applies it."""
        with self.prepared.closed():
            with self.write_lock:  # under which a write is prepared, or finds the tablet closed
                if self.prepared:
                    self.settle()
                is_free = not self.prepared
            yield is_free
