"""Runs all steps on each side in turn, with new stores in every round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ...errors import OperationalError
from ..work_directory import work_directory
from ..ycsb.measured import described
from ..ycsb.model import Workload
from .model import QUERIES, SINGLE, Compared, Plan, Query, Side

MakeSide: TypeAlias = Callable[[Path, Plan], Side]
Say: TypeAlias = Callable[[str], None]
_SCANS = 3


def measure(
    sides: Mapping[str, MakeSide],
    plan: Plan,
    *,
    runs: int,
    work: Path | None,
    say: Say = lambda line: None,
    keep: Callable[[Compared], None] = lambda compared: None,
) -> Compared:
    """Runs `runs` rounds of all sides, which alternate; each has the machine to itself.

    A step that fails is noted, and the following ones are done all the same, as far as they can be.

    Parameters
    ----------
    sides : mapping of str to callable
        By name: a function of an empty directory and the plan.
    work : Path, optional
        The directory for the stores, which are removed; the system's temporary directory by default.
    say : callable
        Called with a line of progress after each step.
    keep : callable
        Called after each side of each round with all results so far.
    """
    compared = Compared(_described(plan))
    for number in range(runs):
        for name, make in sides.items():
            with work_directory(work, ignore_cleanup_errors=True) as directory:
                side = make(directory, plan)
                try:
                    side.start()
                    compared.versions[name] = side.version()
                    _round(side, name, plan, compared, partial(_say_in_round, say, number + 1))
                except OperationalError as error:
                    compared.notes.append(f"{name}: {described(error)}")
                    say(compared.notes[-1])
                finally:
                    with suppress(OperationalError):
                        side.stop()
            keep(compared)
    compared.notes += [f"different answers to {query}" for query in compared.wrong_answers()]
    return compared


def _say_in_round(say: Say, number: int, line: str) -> None:
    say(f"round {number}: {line}")


def _round(side: Side, name: str, plan: Plan, compared: Compared, say: Say) -> None:
    for step, run in _steps(side, name, plan, compared):
        try:
            before = side.processor_seconds()
            for measured, value in run():
                compared.add(name, measured, value)
                say(f"{name}: {measured}: {value:,.4g}")
            if step in (*SINGLE, "ingest"):
                used = side.processor_seconds() - before
                count = plan.rows if step == "ingest" else plan.singles
                compared.add(name, f"{step}, servers' processor time", 1e6 * used / count)
        except Exception as error:
            # The clients' errors are of many kinds; whichever it is, the step has no number.
            compared.notes.append(f"{name}: {step}: {described(error)}")
            say(compared.notes[-1])


_Run: TypeAlias = Callable[[], Iterator[tuple[str, float]]]


def _steps(side: Side, name: str, plan: Plan, compared: Compared) -> Iterator[tuple[str, _Run]]:
    """(name, function that yields measurements) of all steps, in order."""
    yield _step("ingest", side.ingest)
    for step in SINGLE:
        yield _step(step, partial(side.single, step))
    yield "look up beside a load", partial(_beside, side)
    if plan.workloads:
        yield _step("YCSB load", side.load)
    for workload in plan.workloads:
        yield workload.name, partial(_operate, side, workload)
    if plan.lineitem is not None:
        yield _step("load lineitem", partial(side.load_lineitem, plan.lineitem))
        for query in QUERIES:
            yield query, partial(_scans, side, name, query, compared)
    yield _step("disk", side.disk_bytes)
    yield _step("memory", side.memory_bytes)
    yield _step("fail-over", side.fail_over)
    yield _step("restart", side.restart)
    if plan.idle_tablets:
        yield _step("idle", partial(side.idle, plan.idle_tablets, plan.seconds))


def _step(name: str, measure: Callable[[], float]) -> tuple[str, _Run]:
    """A step with one measurement, of the same name."""

    def run() -> Iterator[tuple[str, float]]:
        yield name, measure()

    return name, run


def _beside(side: Side) -> Iterator[tuple[str, float]]:
    looked_up, written = side.beside()
    yield "look up beside a load", looked_up
    yield "load beside look-ups", written


def _operate(side: Side, workload: Workload) -> Iterator[tuple[str, float]]:
    done = side.operate(workload)
    yield workload.name, done.per_second
    yield f"{workload.name}, p99", done.p99
    if done.failed:
        raise OperationalError(f"{done.failed} operations failed, the first with {done.error}")


def _scans(side: Side, name: str, query: Query, compared: Compared) -> Iterator[tuple[str, float]]:
    for _ in range(_SCANS):
        seconds, rows, total = side.scan(query)
        compared.answers.setdefault(name, {})[query] = (rows, total)
        yield f"scan {query}", seconds


def _described(plan: Plan) -> dict[str, object]:
    """The plan as JSON has it."""
    return asdict(replace(plan, lineitem=None, workloads=())) | {
        "workloads": [workload.name for workload in plan.workloads],
        "scans": plan.lineitem is not None,
    }
