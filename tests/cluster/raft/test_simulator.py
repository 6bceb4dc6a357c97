"""Random schedules of a Raft group: whatever fails, the invariants hold (`raft_simulation.invariants`).

NYALA_RAFT_SEED=4711 run this schedule alone, and print its trace if it fails NYALA_RAFT_SCHEDULES=100000 run this
number of schedules instead of 10,000 NYALA_RAFT_FIRST_SEED=10000 begin with this seed
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from examples import cases
from raft_simulation import InvariantViolation, Simulation, simulate
from raft_simulation.profile import Profile

SCHEDULES = int(os.environ.get("NYALA_RAFT_SCHEDULES", cases(10_000)))
FIRST_SEED = int(os.environ.get("NYALA_RAFT_FIRST_SEED", "0"))
CHUNKS = 8
TESTS = Path(__file__).resolve().parents[2]
TRACE_LINES = 60


def _run(seed: int) -> Counter[str]:
    try:
        return simulate(seed).count
    except InvariantViolation as violation:
        trace = _trace(seed)[-TRACE_LINES:]
        pytest.fail(
            f"seed {seed}: {violation}\n\nThe last steps of its schedule:\n" + "\n".join(trace) + "\n\nReplay: "
            f"NYALA_RAFT_SEED={seed} pytest tests/cluster/raft/test_simulator.py -k one_seed, or for the whole trace "
            f"python tests/raft_simulation {seed}",
            pytrace=False,
        )


def _trace(seed: int) -> list[str]:
    simulation = Simulation(seed, keeps_trace=True)
    with suppress(InvariantViolation):
        simulation.run()
    return simulation.trace or []


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_invariants_hold_in_random_schedules(chunk: int) -> None:
    count: Counter[str] = Counter()
    size = -(-SCHEDULES // CHUNKS)
    for seed in range(FIRST_SEED + chunk * size, FIRST_SEED + (chunk + 1) * size):
        count += _run(seed)
    assert count["acknowledged"] > size, "most schedules commit several entries"


@pytest.mark.slow
def test_invariants_hold_while_peers_are_replaced() -> None:
    """As masters are: one becomes several, dead ones are removed, removed ones return."""
    count: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for seed in range(cases(200)):
        simulation = Simulation(seed, profile=Profile.changing(random.Random(seed)))
        try:
            count += simulation.run().count
        except InvariantViolation as violation:
            pytest.fail(f"seed {seed} of Profile.changing: {violation}", pytrace=False)
        if simulation.profile.voters == 1:
            sizes[len(simulation.invariants.configuration.voters)] += 1
    assert count["acknowledged"] and count["change"] and count["bootstrap"] and count["replace"]
    assert sum(number for size, number in sizes.items() if size >= 3) > sum(sizes.values()) // 3, sizes


@pytest.mark.skipif("NYALA_RAFT_SEED" not in os.environ, reason="replays the schedule of NYALA_RAFT_SEED")
def test_one_seed() -> None:
    _run(int(os.environ["NYALA_RAFT_SEED"]))


def test_schedules_are_rough_and_yet_get_somewhere() -> None:
    count: Counter[str] = Counter()
    schedules = 200
    for seed in range(1_000_000, 1_000_000 + schedules):
        count += _run(seed)
    everything = (
        "acknowledged", "elected", "leader read", "follower read", "crash", "change", "configuration", "bootstrap",
        "transfer", "trim", "deleted", "partition", "pause", "quiesce",
    )  # fmt: skip
    rare = {what: count[what] for what in everything if count[what] < schedules // 40}
    assert not rare, f"hardly ever in {schedules} schedules: {rare}"


def test_a_seed_replays_to_the_byte() -> None:
    for seed in range(5):
        hashes = {simulate(seed, keeps_trace=True).trace_hash for _ in range(2)}
        assert len(hashes) == 1


def test_a_seed_replays_in_another_process() -> None:
    """If the order of a set or of hashes matters, another process has another history."""
    script = (
        "from raft_simulation import simulate; print(*(simulate(s, keeps_trace=True).trace_hash for s in range(3)))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_keeping_a_trace_changes_nothing() -> None:
    for seed in range(20):
        with_trace, without = simulate(seed, keeps_trace=True), simulate(seed)
        assert (with_trace.events, with_trace.count) == (without.events, without.count)
