"""The background thread of a store: flushes MemRowSets, syncs logs, removes the files of dropped tables.

Each round does the most pressing flush first: the largest MemRowSet among those that are due. A failing disk stops
nothing: what failed is tried again in the next round, and a writer whose MemRowSet has grown to twice its size
flushes it itself and gets the `DiskError`.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable

from ..errors import DiskError
from .tablet import Tablet
from .tablet_flush import flush, needs_flush

INTERVAL = 1.0
"""Seconds between rounds; with durability "os" a power failure costs about so much."""
MEMORY_FACTOR = 4
"""All MemRowSets together may take this many times the size of one; then the largest is flushed although not full."""


class Maintenance:
    """Runs rounds until it is stopped; `wake` starts one at once.

    Parameters
    ----------
    round_ : bound method without arguments
        Held weakly: a store that nobody refers to any more ends its thread.
    """

    def __init__(self, round_: Callable[[], None]):
        self._round = weakref.WeakMethod(round_)
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="nyala-maintenance", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Start a round soon."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; returns when its round is over."""
        self._stopped = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait(INTERVAL)
            self._wake.clear()
            if self._stopped:
                return
            run = self._round()
            if run is None:
                return
            run()
            del run


def pick_flush(tablets: Iterable[Tablet], memrowset_bytes: int) -> Tablet | None:
    """The tablet to flush next; None where none is due."""
    known = list(tablets)
    if not known:
        return None
    largest = max(known, key=lambda tablet: tablet.state.memrowset.nbytes)
    if needs_flush(largest):
        return largest
    total = sum(memrowset.nbytes for tablet in known for memrowset in tablet.state.memrowsets)
    if total > MEMORY_FACTOR * memrowset_bytes:
        return largest
    return next((tablet for tablet in known if needs_flush(tablet)), None)


def flush_due(tablets: Callable[[], Iterable[Tablet]], memrowset_bytes: int) -> None:
    """Flush until no tablet is due; a failing disk ends the round."""
    with contextlib.suppress(DiskError):
        while (tablet := pick_flush(tablets(), memrowset_bytes)) is not None:
            flush(tablet)


def sync_logs(tablets: Iterable[Tablet]) -> None:
    """Make all logs durable (durability "os")."""
    for tablet in tablets:
        with contextlib.suppress(DiskError):
            tablet.log.sync_now()
