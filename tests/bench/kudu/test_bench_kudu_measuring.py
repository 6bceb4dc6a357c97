"""Rounds of both sides: they alternate, a failed step costs only itself, and different answers are noted."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from nyala.bench.kudu.measuring import measure
from nyala.bench.kudu.model import Compared, Operated, Plan, Query, Step
from nyala.bench.kudu.report import missed, ratio, section
from nyala.bench.ycsb.model import Setting, Workload
from nyala.bench.ycsb.workloads import WORKLOADS
from nyala.errors import OperationalError


def _plan(lineitem: Path | None = None) -> Plan:
    setting = Setting(records=10, operations=10, threads=2)
    return Plan(3, "fsync", 2, 1, 10, 10, 10, setting, (WORKLOADS["C"],), lineitem, 0.1, 4)


class FakeSide:
    """A side whose every rate is `factor`; `fails` is a step that raises an error."""

    def __init__(self, name: str, factor: float, log: list[str], fails: str = "", total: int = 7) -> None:
        self.name = name
        self._factor = factor
        self._log = log
        self._fails = fails
        self._total = total

    def _rate(self, step: str) -> float:
        self._log.append(f"{self.name} {step}")
        if step == self._fails:
            raise OperationalError("no such luck")
        return self._factor

    def start(self) -> None:
        self._rate("start")

    def ingest(self) -> float:
        return self._rate("ingest")

    def single(self, step: Step) -> float:
        return self._rate(step)

    def beside(self) -> tuple[float, float]:
        return self._rate("beside"), self._factor

    def load(self) -> float:
        return self._rate("load")

    def operate(self, workload: Workload) -> Operated:
        failed = 1 if self._fails == "operations" else 0
        return Operated(self._rate(workload.name), failed, 1.0, 2.0, 3.0 / self._factor, "one failed")

    def load_lineitem(self, parquet: Path) -> float:
        return self._rate("lineitem")

    def scan(self, query: Query) -> tuple[float, int, int]:
        return 1 / self._rate(query), 5, self._total

    def fail_over(self) -> float:
        return 1 / self._rate("fail-over")

    def restart(self) -> float:
        return 1 / self._rate("restart")

    def idle(self, tablets: int, seconds: float) -> float:
        return 1 / self._rate(f"idle {tablets}")

    def disk_bytes(self) -> int:
        return 1000

    def memory_bytes(self) -> int:
        return 1000

    def processor_seconds(self) -> float:
        return float(len(self._log))

    def stop(self) -> None:
        self._rate("stop")

    def version(self) -> str:
        return self.name


def _measured(*, fails: str = "", total: int = 7, runs: int = 2) -> tuple[Compared, list[str]]:
    log: list[str] = []
    sides = {
        "kudu": lambda home, plan: FakeSide("kudu", 1.0, log),
        "nyala": lambda home, plan: FakeSide("nyala", 2.0, log, fails, total),
    }
    return measure(sides, _plan(Path("lineitem.parquet")), runs=runs, work=None), log


def test_sides_alternate_and_are_stopped() -> None:
    _, log = _measured()
    ends = [line for line in log if line.endswith((" start", " stop"))]
    assert ends == ["kudu start", "kudu stop", "nyala start", "nyala stop"] * 2


def test_ratios_are_above_one_where_nyala_is_better() -> None:
    compared, _ = _measured()
    for name in ("ingest", "look up", "YCSB load", "C", "C, p99", "scan Q6", "restart", "idle", "fail-over"):
        assert ratio(compared, name) == pytest.approx(2.0), name
    assert compared.values["nyala"]["ingest"] == [2.0, 2.0]
    assert missed(compared) == []
    assert compared.notes == []


def test_a_failed_step_is_noted_and_the_others_are_measured() -> None:
    compared, _ = _measured(fails="update", runs=1)
    assert compared.notes == ["nyala: update: OperationalError: no such luck"]
    assert "update" not in compared.values["nyala"]
    assert compared.values["nyala"]["restart"] == [0.5]
    assert ratio(compared, "update") is None


def test_failed_operations_are_noted() -> None:
    compared, _ = _measured(fails="operations", runs=1)
    assert compared.notes == ["nyala: C: OperationalError: 1 operations failed, the first with one failed"]


def test_a_side_that_does_not_start_is_left_out() -> None:
    compared, log = _measured(fails="start", runs=1)
    assert compared.notes == ["nyala: OperationalError: no such luck"]
    assert compared.values["kudu"]["ingest"] == [1.0]
    assert log[-1] == "nyala stop"


def test_different_answers_are_noted() -> None:
    compared, _ = _measured(total=8, runs=1)
    assert compared.notes == [f"different answers to {query}" for query in ("count", "all", "Q1", "Q6")]


def test_goals_that_are_missed_are_listed() -> None:
    compared = Compared({}, values={"nyala": {"look up": [150.0]}, "kudu": {"look up": [100.0]}})
    assert missed(compared) == ["look up: 1.50 of Kudu's rate, goal 2"]


def test_the_section_is_made_of_saved_numbers() -> None:
    compared, _ = _measured(runs=1)
    told = section(json.loads(json.dumps(dataclasses.asdict(compared))))
    rows = {row[0]: row for row in told.grids[0].rows}
    assert rows["ingest"] == ("ingest", "per second", 2.0, 1.0, 2.0)
    assert rows["scan Q1"] == ("scan Q1", "ms", 500.0, 1000.0, 2.0)
    assert all(target.is_met for target in told.targets if target.is_measured)


def test_the_clients_in_processes_have_a_column_of_their_own() -> None:
    compared, _ = _measured(runs=1)
    compared.values["processes"] = {"ingest": [3.0]}
    told = section(json.loads(json.dumps(dataclasses.asdict(compared))))
    assert told.grids[0].columns == ("", "unit", "nyala", "nyala, a process per thread", "Kudu", "ratio")
    rows = {row[0]: row for row in told.grids[0].rows}
    assert rows["ingest"] == ("ingest", "per second", 2.0, 3.0, 1.0, 2.0)
    assert rows["C"] == ("C", "per second", 2.0, None, 1.0, 2.0)
