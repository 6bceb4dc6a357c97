"""The ceiling of I/O: how much passes in any time, in which order threads are served, and what is never delayed."""

from __future__ import annotations

import threading

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import InterfaceError
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.io_limit import BURST, LEAST_RATE, STEP, IoLimit, counted_file, note_read, spend
from nyala.storage.files.memory_filesystem import MemoryFileSystem

MIB = 1 << 20


class Time:
    """A clock that advances by waits alone, and so by exactly what was waited for."""

    def __init__(self):
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= STEP
        self.waits.append(seconds)
        self.now += seconds


def limited(rate: int | None = LEAST_RATE) -> tuple[IoLimit, Time]:
    clock = Time()
    return IoLimit(rate, clock, clock.wait), clock


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 3 * MIB), st.integers(0, 3 * MIB), st.floats(0, 2)), max_size=30))
def test_no_more_than_the_rate_and_one_burst_passes_in_any_time(steps):
    limit, clock = limited()
    passed: list[tuple[float, int]] = []
    """When each step began and how much it read and wrote."""
    with limit.counted():
        for read, written, rest in steps:
            passed.append((clock.now, read + written))
            spend(read, written)
            clock.now += rest
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            # The last step is let through before it is paid for: it delays the next one.
            size = sum(size for _, size in passed[first:last])
            assert size <= LEAST_RATE * (passed[last][0] - passed[first][0] + BURST) + 1
    assert limit.read_bytes == sum(read for read, _, _ in steps)
    assert limit.written_bytes == sum(written for _, written, _ in steps)
    assert limit.waited_seconds == pytest.approx(sum(clock.waits))


def test_reads_are_paid_for_at_the_next_write():
    limit, clock = limited()
    with limit.counted():
        note_read(2 * MIB)
        assert not clock.waits
        spend(written=1)
    assert clock.now - 100.0 == pytest.approx(2.0 - BURST + 1 / LEAST_RATE, abs=STEP)


def test_urgent_work_is_not_delayed_but_the_work_after_it_is():
    limit, clock = limited()
    with limit.counted(is_urgent=lambda: True):
        spend(written=3 * MIB)
    assert not clock.waits
    with limit.counted():
        spend(written=MIB)
    assert sum(clock.waits) == pytest.approx(4.0 - BURST)


def test_work_that_becomes_urgent_stops_waiting():
    limit, clock = limited()
    with limit.counted(is_urgent=lambda: len(clock.waits) == 3):
        spend(written=100 * MIB)
    assert len(clock.waits) == 3


def test_a_wait_has_a_longest_time():
    limit, clock = limited()
    with limit.counted(longest=1.0):
        spend(written=100 * MIB)
    assert sum(clock.waits) == pytest.approx(1.0)


def test_a_new_rate_holds_at_once_for_what_waits():
    limit, clock = limited()

    def raise_rate() -> bool:
        limit.rate = 100 * MIB
        return False

    with limit.counted(is_urgent=raise_rate):
        spend(written=100 * MIB)
    assert sum(clock.waits) == pytest.approx(1.0, abs=2 * STEP)
    limit.rate = None
    with limit.counted():
        spend(written=1000 * MIB)
    assert sum(clock.waits) == pytest.approx(1.0, abs=2 * STEP)


def test_without_a_rate_bytes_are_only_counted():
    limit, clock = limited(None)
    with limit.counted():
        spend(5, 7)
    assert (limit.read_bytes, limit.written_bytes, clock.waits) == (5, 7, [])
    assert {s.name: s.value for s in limit.samples() if not s.labels} == {
        "nyala_maintenance_io_limit_bytes": 0,
        "nyala_maintenance_io_wait_seconds_total": 0.0,
    }


@pytest.mark.parametrize("rate", [0, -1, LEAST_RATE - 1])
def test_a_rate_that_would_stop_flushes_is_refused(rate):
    with pytest.raises(InterfaceError, match="bytes per second, from 1048576"):
        IoLimit(rate)
    limit = IoLimit(LEAST_RATE)
    with pytest.raises(InterfaceError):
        limit.rate = rate
    assert limit.rate == LEAST_RATE


def test_stop_ends_all_waits():
    limit = IoLimit(LEAST_RATE)
    ended = []

    def work() -> None:
        with limit.counted():
            spend(written=1000 * MIB)
        ended.append(True)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while limit.waiting < len(threads):
        threading.Event().wait(0.001)
    limit.stop()
    for thread in threads:
        thread.join(60)
    assert ended == [True] * 3


def test_only_data_files_of_threads_that_do_background_work_are_charged():
    limit, fs = IoLimit(), MemoryFileSystem()
    fs.make_directory("/d")

    def write(path: str) -> None:
        file = counted_file(fs.create(path))
        file.write(bytes(100))
        file.write(memoryview(bytes(80)).cast("d"))
        assert file.size == 180
        file.sync()
        file.close()

    handles = FileHandles(fs)
    with limit.counted():
        other = threading.Thread(target=write, args=("/d/other",))
        other.start()
        other.join()
        fs.create("/d/log").write(bytes(1000))
        assert limit.written_bytes == 0
        write("/d/one")
        with IoLimit().counted():  # work within work is charged to its own limit
            write("/d/two")
        handles.read_at("/d/one", 0, 30)
    write("/d/three")
    handles.read_at("/d/one", 0, 30)
    assert (limit.read_bytes, limit.written_bytes) == (30, 180)
