"""A store against a dictionary of versions (`mvcc_machine`): many short runs that hypothesis makes up and shortens, and
a few long ones in which most writes change something.

`NYALA_RUNS`, `NYALA_STEPS` and `NYALA_SEED` make more, longer and other runs.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from examples import cases, examples
from hypothesis import HealthCheck, settings
from mvcc_machine import ADDED, KEYS, LOG_STEPS, SCHEMAS, MvccMachine
from nyala.model.store import Op

TestMvccModel = MvccMachine.TestCase
TestMvccModel.settings = settings(
    max_examples=examples(40), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


# ---- long runs -------------------------------------------------------------------------------------------------------

RUNS = int(os.environ.get("NYALA_RUNS", cases(3)))
STEPS = int(os.environ.get("NYALA_STEPS", "400"))
SEED = int(os.environ.get("NYALA_SEED", "1"))
Step = tuple[str, dict[str, Any]]

WEIGHTS = {
    "write": 40,
    "write_row": 20,
    "failing_write": 4,
    "torn_write": 4,
    "bulk_load": 2,
    "flush": 6,
    "compact_table": 1,
    "maintain": 4,
    "add_column": 1,
    "drop_column": 1,
    "rename_column": 1,
    "set_default": 1,
    "reopen": 2,
    "crash": 3,
    "read_the_past": 6,
    "read_some": 6,
    "read_in_order": 3,
    "read_changes": 3,
    "read_row": 3,
}


def random_step(rng: random.Random) -> Step:
    """One call of a rule; writes are frequent, and most of them find what they look for."""
    (name,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
    codes = [None, *range(8)]

    def given() -> dict[int, int | None]:
        return {rng.randrange(12): rng.choice(codes) for _ in range(rng.randrange(1, 4))}

    def op() -> str:
        ops = [op.name for op in Op]
        return rng.choice([*ops, "UPSERT", "UPSERT", "UPDATE_IGNORE", "INSERT_IGNORE"])

    share = rng.random()
    arguments: dict[str, dict[str, Any]] = {
        "write": {
            "rows": [(op(), rng.randrange(KEYS), given()) for _ in range(rng.choice([1, 3, 10]))],
            "all_or_none": rng.random() < 0.1,
        },
        "failing_write": {
            "rows": [(op(), rng.randrange(KEYS), given()) for _ in range(rng.choice([1, 3, 10]))],
            "operation": rng.choice(LOG_STEPS),
            "nth": rng.choice([1, 1, 2, 3]),
        },
        "torn_write": {
            "rows": [(op(), rng.randrange(KEYS), given()) for _ in range(rng.choice([1, 3, 10]))],
            "nth": rng.randrange(1, 6),
            "keep": rng.choice([0.0, 0.5, 1.0]),
            "seed": rng.randrange(1 << 16),
        },
        "write_row": {"op": op(), "key": rng.randrange(KEYS), "given": given()},
        "bulk_load": {"keys": set(rng.sample(range(KEYS), rng.choice([1, 2]))), "given": given()},
        "add_column": {"kind": rng.choice(list(ADDED)), "code": rng.choice(codes)},
        "drop_column": {"place": rng.randrange(12)},
        "rename_column": {"place": rng.randrange(12)},
        "set_default": {"place": rng.randrange(12), "code": rng.randrange(8)},
        "crash": {"keep": rng.choice([0.0, 0.5, 1.0]), "seed": rng.randrange(1 << 16)},
        "read_the_past": {"share": share},
        "read_some": {
            "place": rng.randrange(13),
            "low": rng.randrange(8),
            "high": rng.randrange(8),
            "form": rng.randrange(5),
            "share": share,
        },
        "read_in_order": {"limit": rng.choice([None, 1, 2, 4]), "share": share},
        "read_changes": {"one": share, "other": rng.random()},
        "read_row": {"key": rng.randrange(KEYS), "share": rng.choice([None, share])},
    }
    return name, arguments.get(name, {})


def play(steps: Sequence[Step]) -> tuple[int, Exception] | None:
    """Run a script; which step failed, and how."""
    machine = MvccMachine()
    for number, (name, arguments) in enumerate(steps):
        try:
            getattr(machine, name)(**arguments)
            machine.rows_are_the_models()
        except Exception as error:
            return number, error
    try:
        machine.teardown()
    except Exception as error:
        return len(steps) - 1, error
    return None


def shortened(steps: list[Step], seconds: float = 120.0) -> list[Step]:
    """A script that still fails, without steps that it does not need."""
    end = time.monotonic() + seconds
    size = len(steps) // 2
    while size and time.monotonic() < end:
        place = len(steps) - size
        while place > 0 and time.monotonic() < end:
            fewer = [*steps[:place], *steps[place + size :]]
            failure = play(fewer)
            if failure is not None:
                steps = fewer[: failure[0] + 1]
            place = min(place, len(steps)) - size
        size //= 2
    return steps


def script(steps: Sequence[Step]) -> str:
    """The steps as the body of a test."""
    calls = (f"    state.{name}({', '.join(f'{k}={v!r}' for k, v in a.items())})" for name, a in steps)
    return "\n".join(["def test_found_by_a_long_run():", "    state = MvccMachine()", *calls, "    state.teardown()"])


@pytest.mark.parametrize("number", range(RUNS))
def test_long_runs(number):
    rng = random.Random(f"{SEED}/{number}")
    opening = {
        "kind": rng.choice(list(SCHEMAS)),
        "buckets": rng.choice([0, 3]),
        "memrowset_bytes": rng.choice([1_500, 1 << 20]),
        "history_seconds": rng.choice([604_800, 0]),
    }
    steps: list[Step] = [("open_store", opening), *(random_step(rng) for _ in range(STEPS))]
    failure = play(steps)
    if failure is not None:
        short = shortened(steps[: failure[0] + 1])
        pytest.fail(f"{failure[1]!r}\n\n{script(short)}", pytrace=False)
