"""Pauses of the garbage collector: each is counted once, and an interrupt meanwhile is not lost."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from nyala.doors.http.gc_pauses import GcPauses


@pytest.fixture
def pauses() -> Iterator[GcPauses]:
    """Without collections but those of the tests."""
    gc.disable()
    pauses = GcPauses()
    pauses.install()
    try:
        yield pauses
    finally:
        pauses.remove()
        gc.enable()


def count(pauses: GcPauses) -> int:
    (sample,) = pauses.samples()
    value: Any = sample.value
    return int(value.count)


def test_each_collection_is_counted_once(pauses: GcPauses) -> None:
    for number in range(1, 6):
        gc.collect(0)
        assert count(pauses) == number
    gc.collect()
    gc.collect()
    assert count(pauses) == count(pauses) == 7
    (sample,) = pauses.samples()
    assert 0 < sample.value.total < 60  # type: ignore[union-attr]  # seconds, all together


def test_a_reading_in_the_middle_of_a_collection_counts_it_later(pauses: GcPauses) -> None:
    gc.collect(0)
    seen: list[int] = []

    def reads(phase: str, details: dict[str, int]) -> None:
        seen.append(count(pauses))

    gc.callbacks.insert(gc.callbacks.index(pauses._note) + 1, reads)
    try:
        gc.collect(0)
    finally:
        gc.callbacks.remove(reads)
    assert seen == [1, 2], "at its begin and at its end"
    assert count(pauses) == 2


class Installs:
    """Installs pauses when the collector finds it, in a cycle."""

    def __init__(self, pauses: GcPauses):
        self.pauses, self.itself = pauses, self

    def __del__(self) -> None:
        self.pauses.install()


def test_installed_in_the_middle_of_a_collection() -> None:
    pauses = GcPauses()
    gc.disable()
    try:
        Installs(pauses)
        gc.collect()
        assert count(pauses) == 0, "its begin is unknown"
        gc.collect(0)
        assert count(pauses) == 1
    finally:
        pauses.remove()
        gc.enable()


def test_collections_that_nobody_reads_take_no_more_memory(pauses: GcPauses) -> None:
    for _ in range(5000):
        gc.collect(0)
    assert len(pauses._times) == pauses._times.maxlen
    assert 4090 <= count(pauses) <= 4096


INTERRUPTS = """
import gc, signal, time
from nyala.doors.http.gc_pauses import GcPauses

GcPauses().install()
signal.signal(signal.SIGALRM, signal.default_int_handler)
count = 0
for _ in range(500):
    try:
        signal.setitimer(signal.ITIMER_REAL, 20e-6)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            gc.collect(0)
    except KeyboardInterrupt:
        count += 1
print(count)
"""


def test_no_interrupt_is_lost_while_the_collector_runs() -> None:
    """In a process without callbacks of others, such as Hypothesis, which may lose it."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTS], capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout.strip(), done.stderr) == ("500", "")
