"""Adaptive threads: all threads are kept as long as they are faster together; every task runs exactly once."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from executor_support import MemoryStore
from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.run import context as module
from nyala.executor.run.adaptive_threads import Crew
from nyala.executor.run.context import ExecutionContext

ALONE = 0.004
SECONDS = st.floats(0.0, 100.0)


def left(crew: Crew, threads: int, seconds: list[float]) -> int:
    """Return the number of threads left after tasks of these durations."""
    for one in seconds:
        threads -= not crew.keeps(one)
    return threads


@given(st.integers(2, 8), SECONDS, st.lists(SECONDS, max_size=60))
def test_one_thread_always_stays(threads: int, alone: float, seconds: list[float]) -> None:
    assert left(Crew(threads, alone), threads, seconds) >= 1


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_that_hinder_each_other_leave_the_work_to_one(threads: int) -> None:
    # Each task takes as many times as long as there are threads, and slightly longer.
    assert left(Crew(threads, ALONE), threads, [1.1 * ALONE * threads] * (2 * threads - 1)) == threads
    assert left(Crew(threads, ALONE), threads, [1.1 * ALONE * threads] * 4 * threads) == 1
    assert left(Crew(threads, ALONE), threads, [1.5 * ALONE * threads] * 2 * threads) == 1, "soon, where it is clear"


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_long_tasks_are_shared(threads: int) -> None:
    assert left(Crew(threads, 0.1), threads, [9.9] * 10 * threads) == threads


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_that_gain_stay(threads: int) -> None:
    assert left(Crew(threads, ALONE), threads, [1.2 * ALONE] * 10 * threads) == threads
    # Later measurements, when the tasks have changed, are ignored.
    assert left(Crew(threads, ALONE), threads, [1.2 * ALONE] * 2 * threads + [99.0] * 50) == threads


@pytest.mark.parametrize(("worth", "gains"), [(0.0, True), (0.0, False), (1e9, True)])
def test_every_task_is_done_once(monkeypatch: pytest.MonkeyPatch, worth: float, gains: bool) -> None:
    class Decided(Crew):
        def keeps(self, seconds: float) -> bool:
            return super().keeps(0.0 if gains else 1e9)

    monkeypatch.setattr(module, "WORTH_SHARING", worth)
    monkeypatch.setattr(module, "Crew", Decided)
    done: list[int] = []
    lock = threading.Lock()

    def task(number: int) -> int:
        with lock:
            done.append(number)
        return number * number

    tasks = [partial(task, number) for number in range(50)]
    assert ExecutionContext(MemoryStore(), threads=3).parallel(tasks) == [number * number for number in range(50)]
    assert sorted(done) == list(range(50))


def test_threads_join_a_long_first_task_before_it_is_done() -> None:
    """Of two tasks, the first used to be the trial, after which nothing was left to share."""
    has_begun = threading.Event()

    def first() -> bool:
        return has_begun.wait(20)

    def second() -> bool:
        has_begun.set()
        return True

    assert ExecutionContext(MemoryStore(), threads=2).parallel([first, second], are_large=True) == [True, True]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_ends_the_tasks_that_threads_share_from_the_start(failing: int) -> None:
    has_joined = threading.Event()

    def task(number: int) -> int:
        if number:
            has_joined.set()
        else:
            assert has_joined.wait(20)
        if number == failing:
            raise ValueError(str(number))
        return number

    context = ExecutionContext(MemoryStore(), threads=3)
    with pytest.raises(ValueError, match=str(failing)):
        context.parallel([partial(task, number) for number in range(3)], are_large=True)
    assert not context.is_worker
    assert context.parallel([lambda: 1, lambda: 2], are_large=True) == [1, 2]
