"""`nyala bench transactions`: the same workloads on every engine, and their invariants."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
from nyala.bench.transactions.engines import ENGINES
from nyala.bench.transactions.measuring import WORKLOADS, measure
from nyala.bench.transactions.report import faults, section
from rich.console import Console

pytestmark = pytest.mark.slow


def test_every_workload_keeps_its_invariants_on_every_engine_here(tmp_path: Path) -> None:
    found = measure(
        ["nyala", "sqlite", "duckdb"], list(WORKLOADS), [2], seconds=0.3, runs=1, durability="os", work_dir=tmp_path
    )
    assert faults(found) == []
    for by_count in found.runs.values():
        for engine, (run,) in by_count[2].items():
            assert run.transactions > 0, engine
    told = section(json.loads(json.dumps(dataclasses.asdict(found))))
    assert len(told.grids[0].rows) == len(WORKLOADS)
    Console(width=140).print(told.text)


@pytest.mark.parametrize(
    ("workload", "damage"),
    [
        ("tens", "UPDATE counters SET n = 1 WHERE k = 3"),
        ("bank", "UPDATE accounts SET balance = balance + 1 WHERE k = 3"),
        ("tpcc", "DELETE FROM new_order"),
        ("tpcc", "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1"),
    ],
)
def test_what_a_lost_update_would_leave_is_noticed(tmp_path: Path, workload: str, damage: str) -> None:
    engine = ENGINES["nyala"](tmp_path, "os")
    load = WORKLOADS[workload]()
    client = engine.client()
    for table in load.tables():
        client.execute(table)
    load.load(client)
    chosen = random.Random(1)
    for _ in range(20):
        client.transact(load.transaction(chosen))
    assert load.check(client) == []
    client.execute(damage)
    assert load.check(client)
    client.close()
    engine.close()
