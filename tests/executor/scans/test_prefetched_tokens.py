"""Prefetched tokens: each is read once, in any order, by any thread, and none is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.scans.prefetch import AT_ONCE, PrefetchedTokens
from nyala.model.store import ScanCounters
from nyala.model.vectors.vector import Batch


class Reading:
    """The scan of one token, which gives one batch with as many rows as its number says."""

    def __init__(self, store: Servers, number: int):
        self._store = store
        self._number = number
        self._left = iter([Batch([], number)])
        store.open.add(self)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        found = next(self._left, None)
        if found is None:
            self.close()
            raise StopIteration
        return found

    def close(self) -> None:
        self._store.open.discard(self)


class Servers:
    """A store of tokens that are numbers."""

    def __init__(self) -> None:
        self.open: set[Reading] = set()
        self.asked: list[int] = []
        self.scanned: list[int] = []
        self._lock = threading.Lock()

    def scan_all(self, tokens: Sequence[int], counters: Sequence[ScanCounters]) -> list[Reading]:
        assert len(tokens) == len(counters)
        with self._lock:
            self.asked += tokens
        return [Reading(self, token) for token in tokens]

    def scan(self, token: int, counters: ScanCounters) -> Reading:
        with self._lock:
            self.scanned.append(token)
        return Reading(self, token)


def asking(count: int) -> tuple[Servers, PrefetchedTokens]:
    store, tokens = Servers(), list(range(count))
    found: Any = PrefetchedTokens(store, tokens, [ScanCounters() for _ in tokens])  # type: ignore[arg-type]
    return store, found


def taken(asked: PrefetchedTokens, number: int) -> int:
    (batch,) = asked.take(number, ScanCounters())
    return batch.length


def test_the_first_asks_for_as_many_as_may_be_and_the_next_behind_them_for_more() -> None:
    store, asked = asking(AT_ONCE + 3)
    assert store.asked == [], "nobody has wanted a row"
    assert taken(asked, 0) == 0
    assert store.asked == list(range(AT_ONCE))
    assert [taken(asked, number) for number in range(1, AT_ONCE + 3)] == list(range(1, AT_ONCE + 3))
    assert store.asked == list(range(AT_ONCE + 3))
    assert (store.scanned, store.open) == ([], set())


@given(st.integers(1, 3 * AT_ONCE).flatmap(lambda count: st.lists(st.integers(0, count - 1)).map(lambda t: (count, t))))
def test_whatever_is_taken_is_there_and_what_is_not_is_given_up(case: tuple[int, list[int]]) -> None:
    count, order = case
    store, asked = asking(count)
    assert [taken(asked, number) for number in order] == order
    assert len(store.asked) == len(set(store.asked))
    asked.close()
    assert store.open == set()
    assert taken(asked, count - 1) == count - 1, "who comes later asks anew"
    assert store.open == set()


def test_threads_that_take_at_once_get_one_each() -> None:
    store, asked = asking(4 * AT_ONCE)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: taken(asked, number), range(4 * AT_ONCE))) == list(range(4 * AT_ONCE))
    assert len(store.asked) == len(set(store.asked))
    asked.close()
    assert store.open == set()
