"""Measures the cost of a statement before execution: cold, from its text; and prepared, with new values only.

    cold       text ─ parse ─ bind ─ rules ─ choose ─► plan           each query of a list, in a warm process
    prepared   text + values ─ plan_cache ─► ready to execute         a look-up by key, and a query with a plan

Times are the best of several rounds, by processor time, because the machine may have other work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import connect
from ..driver.session.bind_values import normalize
from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from ..model.store import Store
from ..planner import plan_query
from ..sql import bind, bound, parse

CALLS: Final = 2000
"""Number of repetitions per round of steps that take microseconds."""
LOOK_UP: Final = "SELECT l_quantity, l_shipdate, l_shipmode FROM lineitem WHERE l_orderkey = ? AND l_linenumber = ?"
PLANNED: Final = "SELECT sum(l_quantity) FROM lineitem WHERE l_orderkey = ? AND l_quantity < ?"


@dataclass(frozen=True, slots=True)
class Planning:
    """Seconds of the steps from one query's text to its plan."""

    name: str
    parse: float
    bind: float
    plan: float

    @property
    def total(self) -> float:
        return self.parse + self.bind + self.plan


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds of one prepared statement before execution."""

    name: str
    seconds: float


def measure(directory: Path, queries: Mapping[str, str], *, runs: int) -> tuple[list[Planning], list[Overhead]]:
    """Plans each query `runs` times against the statistics of a store that has TPC-H in it."""
    if not directory.is_dir():
        raise OperationalError(f"there is no store {directory}; `nyala tpch load` creates one")
    with connect(directory) as connection:
        store = connection.store
        planned = [_planning(name, text, store, runs) for name, text in queries.items()]
        session = connection.session
        overheads = []
        for name, text, values in (("row by key", LOOK_UP, (1, 1)), ("plan", PLANNED, (1, 10))):
            connection.execute(text, values).fetchall()

            def ready(text: str = text, values: tuple[Any, ...] = values) -> None:
                given = normalize(values)
                (prepared,) = session.plans.find(text) or ()
                if prepared.single is not None:
                    prepared.cells(given, store)
                    return
                assert prepared.plan(given, store) is not None

            overheads.append(Overhead(name, min(_timed(ready, CALLS) for _ in range(runs)) / CALLS))
        return planned, overheads


def show(planned: Sequence[Planning], overheads: Sequence[Overhead], console: Console) -> None:
    """Prints milliseconds per query, and microseconds per prepared statement."""
    table = TextTable(title="from text to plan: milliseconds", title_justify="left")
    table.add_column("")
    for column in ("parse", "bind", "plan", "together"):
        table.add_column(column, justify="right")
    for line in planned:
        table.add_row(line.name, *(f"{1e3 * part:.1f}" for part in (line.parse, line.bind, line.plan, line.total)))
    console.print(table)
    for overhead in overheads:
        console.print(f"prepared, {overhead.name}: {1e6 * overhead.seconds:.1f} µs until it can be executed")


def _planning(name: str, text: str, store: Store, runs: int) -> Planning:
    times: list[list[float]] = [[], [], []]
    for _ in range(runs + 1):
        (parsed,) = _kept(times[0], partial(parse, text))
        statement = _kept(times[1], partial(bind, parsed, store))
        assert isinstance(statement, bound.SelectStatement)
        _kept(times[2], partial(plan_query, statement.query, store))
    # The first round fills caches.
    return Planning(name, *(min(found[1:]) for found in times))


def _kept(times: list[float], call: Callable[[], Any]) -> Any:
    started = time.process_time()
    found = call()
    times.append(time.process_time() - started)
    return found


def _timed(call: Callable[[], None], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - started
