"""The thread that finishes a write whose entry is decided."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from nyala.cluster.tserver.completions import Completions


@pytest.fixture
def completions() -> Iterator[Completions]:
    made = Completions()
    yield made
    made.close()


class Done:
    """Records which threads did its jobs, in their order."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []
        self.changed = threading.Semaphore(0)

    def job(self, name: str):
        def do() -> None:
            self.names.append((name, threading.get_ident()))
            self.changed.release()

        return do


def test_a_thread_that_decides_does_what_does_not_wait_at_the_end(completions: Completions) -> None:
    done, me = Done(), threading.get_ident()
    with completions.here():
        with completions.here():
            completions.submit(done.job("a"), False)
        completions.submit(done.job("b"), False)
        assert not done.names
    assert done.names == [("a", me), ("b", me)]


def test_what_waits_is_left_to_the_own_thread_at_once(completions: Completions) -> None:
    done, me = Done(), threading.get_ident()
    with completions.here():
        completions.submit(done.job("a"), True)
        assert done.changed.acquire(timeout=90)
    assert [name for name, thread in done.names if thread != me] == ["a"]


def test_elsewhere_everything_is_left_to_the_own_thread(completions: Completions) -> None:
    done, me = Done(), threading.get_ident()
    completions.submit(done.job("a"), False)
    assert done.changed.acquire(timeout=90)
    with completions.here():
        other = threading.Thread(target=completions.submit, args=(done.job("b"), False))
        other.start()
        other.join()
        assert done.changed.acquire(timeout=90)
    assert [name for name, thread in done.names if thread != me] == ["a", "b"]


def test_an_error_keeps_no_other_job_back(completions: Completions) -> None:
    done = Done()

    def fail() -> None:
        raise ValueError("no")

    with completions.here():
        completions.submit(fail, False)
        completions.submit(done.job("a"), False)
    with pytest.raises(KeyError), completions.here():
        completions.submit(done.job("b"), False)
        raise KeyError
    assert [name for name, _ in done.names] == ["a", "b"]
