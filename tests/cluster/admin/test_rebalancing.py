"""Moves of a rebalance: several at once, those of one tablet in order, each reported, and an end in spite of
failures."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.cluster.admin.rebalance import Move
from nyala.cluster.admin.rebalancing import PER_SERVER, MoveRun
from nyala.errors import DeadlineExceeded

SERVERS = [f"s{number}" for number in range(8)]


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(SERVERS), st.sampled_from(SERVERS)).filter(
            lambda m: m[1] != m[2]
        ),
        max_size=40,
    ),
    st.sets(st.integers(0, 40)),
)
def test_all_moves_end_in_order(planned: list[tuple[int, str, str]], failing: set[int]) -> None:
    moves = [Move(f"p{tablet}", source, target) for tablet, source, target in planned]
    numbers = {id(move): number for number, move in enumerate(moves)}
    lock, running, done, lines = threading.Lock(), Counter[str](), [], []

    def work(move: Move) -> None:
        with lock:
            running.update((move.source, move.target, move.tablet))
            assert running[move.tablet] == 1
            assert max(running[move.source], running[move.target]) <= PER_SERVER
        time.sleep(0.0005)
        with lock:
            running.subtract((move.source, move.target, move.tablet))
            done.append(move)
        if numbers[id(move)] in failing:
            raise DeadlineExceeded("it takes too long")

    failures = MoveRun(work, lines.append, lambda move: move.tablet).run(moves)
    assert Counter(map(id, done)) == Counter(map(id, moves))
    for tablet in {move.tablet for move in moves}:
        assert [id(m) for m in done if m.tablet == tablet] == [id(m) for m in moves if m.tablet == tablet]
    assert {numbers[id(failure.move)] for failure in failures} == failing & set(range(len(moves)))
    assert len(lines) == 2 * len(moves)
    if moves:
        assert lines[-1].endswith("; 0 left")


def test_moves_wait_at_the_same_time() -> None:
    """75 replicas of empty tablets took more than 80 s, one after the other; each waits for some heartbeats."""
    moves = [Move(f"p{number}", SERVERS[number % 7], "s7") for number in range(6 * PER_SERVER)]
    together = threading.Barrier(PER_SERVER, timeout=90.0)
    assert MoveRun(lambda move: together.wait(), lambda line: None, str).run(moves) == []


def test_an_interrupt_begins_no_other() -> None:
    begun: list[Move] = []

    def work(move: Move) -> None:
        begun.append(move)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MoveRun(work, lambda line: None, str, at_once=1).run([Move(f"p{n}", "a", "b") for n in range(9)])
    assert len(begun) == 1
