"""Reading ahead of a stream: nothing is lost, nothing comes twice, memory is bounded, slow readers block no thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from nyala.cluster.tserver.scans.scan_production import AHEAD_BATCHES, Budget, Production
from nyala.cluster.tserver.scans.scanners import KEPT_BATCHES, Scanner, Scanners
from nyala.cluster.wire.messages.methods import ScanEnd
from nyala.errors import Cancelled, DiskError, ProtocolError, ReplicaUnavailable, ScannerExpired
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat
from tserver_support import wait_for


def never() -> bool:
    return False


def batch(number: int) -> Batch:
    return Batch([Flat(BIGINT, np.array([number], np.int64))], 1)


def number(item: Batch | ScanEnd) -> int:
    assert isinstance(item, Batch)
    return int(item.column(0).values()[0])


class Source:
    """Yields the batches `first` to `stop`; records how many were made, and whether it was closed."""

    def __init__(self, first: int, stop: int, between: Callable[[], None] = lambda: None):
        self.made = 0
        self.ended = threading.Event()
        self.batches = self._batches(first, stop, between)

    def _batches(self, first: int, stop: int, between: Callable[[], None]) -> Iterator[Batch]:
        try:
            for n in range(first, stop):
                between()
                self.made += 1
                yield batch(n)
        finally:
            self.ended.set()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def read(production: Production) -> list[int]:
    found = []
    while (made := production.next(never)) is not None:
        found.append(number(made[0]))
    return found


def test_several_sources_give_every_batch_once(threads: ThreadPoolExecutor) -> None:
    production = Production(Budget(1 << 30))
    production.begin((Source(0, 300).batches, Source(300, 500).batches, Source(500, 501).batches), threads)
    assert sorted(read(production)) == list(range(501))
    assert production.budget.used == 0


def test_one_source_keeps_its_order(threads: ThreadPoolExecutor) -> None:
    production = Production(Budget(1 << 30))
    production.begin((Source(0, 500).batches,), threads)
    assert read(production) == list(range(500))


def test_what_comes_next_is_read_while_the_reader_is_busy(threads: ThreadPoolExecutor) -> None:
    source = Source(0, 10)
    production = Production(Budget(1 << 30))
    production.begin((source.batches,), threads)
    assert production.next(never) is not None
    wait_for(lambda: source.made > AHEAD_BATCHES)


def test_a_slow_reader_holds_no_thread_and_little_memory(threads: ThreadPoolExecutor) -> None:
    slow = [Source(0, 1000) for _ in range(8)]
    productions = [Production(Budget(1 << 30)) for _ in slow]
    for production, source in zip(productions, slow, strict=True):
        production.begin((source.batches,), threads)
        assert production.next(never) is not None
    quick = Production(Budget(1 << 30))
    quick.begin((Source(0, 100).batches,), threads)
    assert len(read(quick)) == 100
    threads.submit(lambda: None).result(10)
    assert all(source.made <= AHEAD_BATCHES + 2 for source in slow)


def test_a_stream_reads_its_sources_itself_where_no_thread_is_free() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(gate.wait, 60)
        production = Production(Budget(1 << 30))
        production.begin((Source(0, 50).batches, Source(50, 100).batches), pool)
        assert sorted(read(production)) == list(range(100))
        gate.set()


def test_nothing_is_read_ahead_where_the_budget_is_spent(threads: ThreadPoolExecutor) -> None:
    budget = Budget(100)
    budget.add(101)
    source = Source(0, 100)
    production = Production(budget)
    production.begin((source.batches,), threads)
    for done in range(1, 100):
        assert production.next(never) is not None
        assert source.made == done


def test_an_error_of_a_source_reaches_the_reader(threads: ThreadPoolExecutor) -> None:
    def fail() -> None:
        raise DiskError("the disk is gone")

    production = Production(Budget(1 << 30))
    production.begin((Source(0, 3).batches, Source(0, 1, fail).batches), threads)
    with pytest.raises(DiskError, match="gone"):
        read(production)


def test_stopping_ends_idle_and_working_sources(threads: ThreadPoolExecutor) -> None:
    working, goes_on = threading.Event(), threading.Event()

    def between() -> None:
        working.set()
        goes_on.wait(60)

    production = Production(Budget(1 << 30))
    idle, busy = Source(0, 10), Source(10, 20, between)
    production.begin((idle.batches, busy.batches), threads)
    assert production.next(never) is not None
    assert working.wait(60)
    production.stop()
    assert idle.ended.wait(60)
    assert not production.wait_stopped(0.01)
    goes_on.set()
    assert production.wait_stopped(60)
    assert busy.ended.is_set()
    with pytest.raises(Cancelled):
        production.next(never)
    with pytest.raises(Cancelled):
        production.watch(1)
    assert production.budget.used == 0


# ---- scanners ----------------------------------------------------------------------------------------------------


def scanners(*sources: Source, ttl: float = 60.0, budget: int = 1 << 30) -> tuple[Scanners, Callable[[], Scanner]]:
    registry = Scanners(Budget(budget), ttl)

    def begin() -> Scanner:
        production = Production(registry.budget)
        production.begin([source.batches for source in sources], None)
        return Scanner("s", "t", production, (ScanCounters(rows_returned=7), ScanCounters(rows_returned=1)))

    return registry, begin


def test_a_stream_that_broke_goes_on_with_any_batch_that_is_kept() -> None:
    registry, begin = scanners(Source(0, 10))
    first = registry.stream("s", 0, never, begin)
    assert [number(next(first)) for _ in range(5)] == [0, 1, 2, 3, 4]
    first.close()
    again = registry.stream("s", 3, never, begin)
    *batches, end = again
    assert [number(item) for item in batches] == [3, 4, 5, 6, 7, 8, 9]
    assert end == ScanEnd(batches=10, rows_returned=8)
    *repeated, end = registry.stream("s", 8, never, begin)
    assert [number(item) for item in repeated] == [8, 9]
    assert isinstance(end, ScanEnd)
    with pytest.raises(ScannerExpired):
        registry.stream("s", 2, never, begin)
    with pytest.raises(ProtocolError):
        registry.stream("s", 11, never, begin)


def test_a_new_stream_takes_the_scan_from_the_old_one() -> None:
    registry, begin = scanners(Source(0, 10))
    first = registry.stream("s", 0, never, begin)
    assert number(next(first)) == 0
    second = registry.stream("s", 1, never, begin)
    assert number(next(second)) == 1
    with pytest.raises(ScannerExpired, match="another stream"):
        next(first)
    assert [number(item) for item in list(second)[:-1]] == list(range(2, 10))


def test_only_so_many_batches_are_kept() -> None:
    registry, begin = scanners(Source(0, 100))
    first = registry.stream("s", 0, never, begin)
    for _ in range(50):
        next(first)
    first.close()
    with pytest.raises(ScannerExpired):
        registry.stream("s", 50 - KEPT_BATCHES - 1, never, begin)
    assert number(next(registry.stream("s", 50 - KEPT_BATCHES, never, begin))) == 50 - KEPT_BATCHES


def test_where_the_budget_is_spent_the_last_batch_alone_is_kept() -> None:
    registry, begin = scanners(Source(0, 100), budget=8)
    first = registry.stream("s", 0, never, begin)
    for _ in range(5):
        next(first)
    first.close()
    with pytest.raises(ScannerExpired):
        registry.stream("s", 3, never, begin)
    assert number(next(registry.stream("s", 4, never, begin))) == 4


def test_scans_that_nobody_reads_are_forgotten_unless_they_are_kept_alive() -> None:
    source = Source(0, 10)
    registry, begin = scanners(source, ttl=60.0)
    stream = registry.stream("s", 0, never, begin)
    next(stream)
    registry.expire(time.monotonic() + 59)
    registry.keep_alive("s")
    assert registry.count == 1
    registry.expire(time.monotonic() + 61)
    assert registry.count == 0
    assert source.ended.is_set()
    with pytest.raises(ScannerExpired):
        next(stream)
    with pytest.raises(ScannerExpired):
        registry.keep_alive("s")
    with pytest.raises(ScannerExpired):
        registry.stream("s", 1, never, begin)
    assert registry.budget.used == 0


def test_a_scan_that_was_read_is_kept_for_a_moment() -> None:
    registry, begin = scanners(Source(0, 2))
    assert len(list(registry.stream("s", 0, never, begin))) == 3
    assert registry.count == 0
    registry.expire(time.monotonic() + 5)
    assert len(list(registry.stream("s", 2, never, begin))) == 1
    registry.expire(time.monotonic() + 11)
    with pytest.raises(ScannerExpired):
        registry.stream("s", 2, never, begin)
    assert registry.budget.used == 0


def test_an_error_ends_the_scan_and_a_lost_reader_does_not() -> None:
    is_gone = False

    def fail() -> None:
        raise DiskError("the disk is gone")

    failing, begin = scanners(Source(0, 1, fail))
    with pytest.raises(DiskError):
        next(failing.stream("s", 0, never, begin))
    assert failing.count == 0
    registry, begin = scanners(Source(0, 3))
    stream = registry.stream("s", 0, lambda: is_gone, begin)
    next(stream)
    is_gone = True
    stream.close()
    assert [number(item) for item in list(registry.stream("s", 1, never, begin))[:-1]] == [1, 2]


def test_a_scan_that_was_closed_before_it_began_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.cluster.tserver.scans.scanners.CLOSED_SCANS", 2)
    source = Source(0, 3)
    registry, begin = scanners(source)
    registry.close("s")
    for start in (
        lambda: next(registry.stream("s", 0, never, begin)),
        lambda: registry.start("s", 1 << 20, time.monotonic() + 30, never, begin),
    ):
        with pytest.raises(ScannerExpired, match="scan s has been closed"):
            start()
    assert (registry.count, registry.budget.used) == (0, 0)
    for other in "tu":
        registry.close(other)
    next(registry.stream("s", 0, never, begin))  # the oldest are not remembered


def test_a_scan_that_is_closed_while_it_begins_ends_at_once() -> None:
    source = Source(0, 3)
    registry, begin = scanners(source)

    def begin_late() -> Scanner:
        begun = begin()
        registry.close("s")
        return begun

    with pytest.raises(ScannerExpired, match="scan s has been closed"):
        registry.start("s", 1 << 20, time.monotonic() + 30, never, begin_late)
    assert (registry.count, registry.budget.used) == (0, 0)
    assert next(source.batches, None) is None, "it is closed"


def test_a_scan_counts_while_it_is_being_begun() -> None:
    """A server that quiesces may have accepted it before."""
    registry, begin = scanners(Source(0, 3))
    counts = []

    def begin_and_count() -> Scanner:
        counts.append(registry.count)
        return begin()

    registry.start("s", 1 << 20, time.monotonic() + 30, never, begin_and_count)
    assert (counts, registry.count) == ([1], 0)

    def refuse() -> Scanner:
        raise ReplicaUnavailable("it is quiescing")

    with pytest.raises(ReplicaUnavailable):
        registry.start("r", 1 << 20, time.monotonic() + 30, never, refuse)
    assert registry.count == 0


def test_a_tablets_scans_are_released_unless_a_stream_reads_them() -> None:
    registry, begin = scanners(Source(0, 5))
    stream = registry.stream("s", 0, never, begin)
    next(stream)
    registry.release("t")
    assert registry.count == 1
    stream.close()
    registry.release("t")
    assert registry.count == 0


def test_a_scan_that_is_closed_while_a_batch_is_made_leaves_nothing_in_the_budget() -> None:
    found: list[Scanner] = []
    registry, begin = scanners(Source(0, 10, lambda: found[0].close()))

    def begun() -> Scanner:
        found.append(begin())
        return found[0]

    stream = registry.stream("s", 0, never, begun)
    with pytest.raises((ScannerExpired, Cancelled)):
        list(stream)
    assert registry.budget.used == 0
