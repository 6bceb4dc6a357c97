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
from mvcc_transactions import OPEN
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
    "transact": 12,
    "begin": 8,
    "write_in": 16,
    "write_row_in": 12,
    "save": 3,
    "go_back": 3,
    "roll_back": 1,
    "commit": 6,
    "failing_commit": 1,
    "torn_commit": 1,
    "read_in": 6,
    "read_the_past_in": 2,
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
    place = rng.randrange(OPEN)
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
        "transact": {
            "parts": [
                [(op(), rng.randrange(KEYS), given()) for _ in range(rng.choice([1, 3, 10]))]
                for _ in range(rng.choice([1, 1, 2]))
            ],
            "saves": rng.random() < 0.4,
            "serializable": rng.random() < 0.3,
            "ending": rng.choice(["commits", "commits", "fails", "torn"]),
            "number": rng.randrange(1, 9),
        },
        "begin": {"serializable": rng.random() < 0.3, "spills": rng.random() < 0.3},
        "write_in": {
            "place": place,
            "rows": [(op(), rng.randrange(KEYS), given()) for _ in range(rng.choice([1, 3, 10]))],
            "all_or_none": rng.random() < 0.1,
        },
        "write_row_in": {"place": place, "op": op(), "key": rng.randrange(KEYS), "given": given()},
        "save": {"place": place},
        "go_back": {"place": place, "number": rng.randrange(3), "releases": rng.random() < 0.3},
        "roll_back": {"place": place},
        "commit": {"place": place},
        "failing_commit": {"place": place, "operation": rng.randrange(6), "nth": rng.choice([1, 1, 2, 3])},
        "torn_commit": {
            "place": place,
            "nth": rng.randrange(1, 6),
            "keep": rng.choice([0.0, 0.5, 1.0]),
            "seed": rng.randrange(1 << 16),
        },
        "read_in": {"place": place, "ordered": rng.random() < 0.5, "key": rng.randrange(KEYS)},
        "read_the_past_in": {"place": place, "share": share},
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
