"""Run schedules: `python tests/raft_simulation --seeds 0 100000`, or replay one: `python tests/raft_simulation 4711`.

A replay prints the trace; a run prints each failing seed with its violation, shortest schedules last, and the number of
events of each kind.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from raft_simulation import InvariantViolation, Simulation, simulate


def replay(seed: int) -> bool:
    simulation = Simulation(seed, keeps_trace=True)
    print(simulation.profile)
    try:
        outcome: object = simulation.run()
    except InvariantViolation as violation:
        outcome = violation
    print("\n".join(simulation.trace or ()))
    print(outcome)
    return not isinstance(outcome, InvariantViolation)


def run(first: int, last: int) -> bool:
    started, count, events, healing = time.perf_counter(), Counter[str](), 0, 0
    violations: list[InvariantViolation] = []
    for seed in range(first, last):
        try:
            outcome = simulate(seed)
        except InvariantViolation as violation:
            violations.append(violation)
            print(f"seed {seed} ({violation.events} events): {violation}", flush=True)
            continue
        events += outcome.events
        count += outcome.count
        healing = max(healing, outcome.count["healing"])
    seconds = time.perf_counter() - started
    print(f"{last - first} schedules, {events} events in {seconds:.1f} s; longest recovery {healing} s; {dict(count)}")
    for violation in sorted(violations, key=lambda violation: -violation.events):
        print(f"seed {violation.seed} ({violation.events} events): {violation.invariant.name}")
    return not violations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int, nargs="?", help="replay this seed and print its trace")
    parser.add_argument(
        "--seeds", type=int, nargs=2, metavar=("FIRST", "END"), help="run these seeds, END not included"
    )
    arguments = parser.parse_args()
    if arguments.seeds:
        return 0 if run(*arguments.seeds) else 1
    if arguments.seed is None:
        parser.error("give a seed to replay, or --seeds")
    return 0 if replay(arguments.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
