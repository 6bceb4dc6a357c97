"""The tokens of one scan at servers, which are asked for before their turn.

    take(0)   asks for 0 to 15 at once, one message per server     the reader of 0 waits, the others' answers come
    take(1)   is there already, or on its way
    take(16)  asks for 16 to 31

So one thread that reads token after token waits about as long as many threads would, each for its own. What was asked
for and is not taken (a LIMIT was reached, a statement failed) is given up when the statement ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice

from ...model.store import ScanBatches, ScanCounters, ScanToken, Store
from ...model.vectors.vector import Batch

AT_ONCE = 16
"""Tokens that are asked for at once; each may bring a message of 2 MiB before it is wanted."""


class AskedScans:
    """Safe for several threads.

    Parameters
    ----------
    store : Store
    tokens : sequence of ScanToken
    counters : sequence of ScanCounters
        Of each.
    """

    def __init__(self, store: Store, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]):
        self._store = store
        self._tokens = tokens
        self._counters = counters
        self._lock = threading.Lock()
        """Guards what follows."""
        self._asked: dict[int, ScanBatches] = {}
        """By number, those that nobody has taken."""
        self._next = 0
        """The first that nobody has asked for."""
        self._is_closed = False

    def take(self, number: int, counters: ScanCounters) -> Iterator[Batch]:
        """The batches of a token. The first time, with the counters that it was asked with; later with those that are
        given."""
        with self._lock:
            if number >= self._next and not self._is_closed:
                self._ask(number)
            asked = self._asked.pop(number, None)
        return self._store.scan(self._tokens[number], counters) if asked is None else iter(asked)

    def _ask(self, number: int) -> None:
        stop = number + AT_ONCE
        self._have_asked(number, self._store.scan_all(self._tokens[number:stop], self._counters[number:stop]))

    def _have_asked(self, number: int, found: Sequence[ScanBatches]) -> None:
        self._asked.update(enumerate(found, number))
        self._next = number + AT_ONCE

    def close(self) -> None:
        """Give up what nobody has taken; it can still be taken, and is asked for anew then."""
        with self._lock:
            left, self._asked, self._is_closed = self._asked, {}, True
        for batches in left.values():
            batches.close()


def ask_together(scans: Sequence[AskedScans], store: Store) -> None:
    """Ask for the first tokens of several scans, of which none has been taken, with one message per server."""
    firsts = [(scan._tokens[:AT_ONCE], scan._counters[:AT_ONCE]) for scan in scans]
    found = iter(store.scan_all([t for tokens, _ in firsts for t in tokens], [c for _, cs in firsts for c in cs]))
    for scan, (tokens, _) in zip(scans, firsts):
        scan._have_asked(0, list(islice(found, len(tokens))))
