"""The one decision on a write over several tablets, which its parts wait for."""

from __future__ import annotations

import threading


class Decision:
    """Open at first, then committed or aborted, once and for all. Safe for several threads.

    Examples
    --------
    >>> decision = Decision()
    >>> decision.is_decided
    False
    >>> decision.commit()
    >>> decision.is_decided, decision.is_aborted
    (True, False)
    """

    def __init__(self) -> None:
        self._decided = threading.Event()
        self._is_committed = False

    @property
    def is_decided(self) -> bool:
        """True once it is committed or aborted."""
        return self._decided.is_set()

    @property
    def is_aborted(self) -> bool:
        """True once it is aborted: the parts are to be undone."""
        return self._decided.is_set() and not self._is_committed

    def commit(self) -> None:
        """Decide that all parts count: the commit record is durable."""
        self._is_committed = True
        self._decided.set()

    def abort(self) -> None:
        """Decide that no part counts: there is no commit record, and there will be none."""
        self._decided.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is decided: at most about two fsyncs, in a cluster until `timeout` seconds have passed. True
        if it is decided."""
        return self._decided.wait(timeout)
