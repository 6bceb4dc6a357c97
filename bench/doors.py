"""Measures the doors of nyala against PostgreSQL, both as servers of this machine.

    look up     prepared SELECT of a row by its key      1 and 8 clients, psycopg, each in a process of its own
    insert      prepared INSERT of a row, durable        the same
    transfers   results and loads of many rows           `door_transfers`
    queries     TPC-H by psycopg against embedded        `door_queries`
    spark       Spark's roads to lineitem, on request    `spark_doors`

Rounds alternate between the servers, and the best one counts: other programs only take time away. The processor time
of the server is measured too, with all of its processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.table import Table as TextTable

from ..errors import InterfaceError, did_you_mean
from ..model.lazy_dataclass import dataclass
from ..tpch.generate import generate, parquet_file
from . import door_queries, door_transfers, spark_doors
from .door_clients import Work, per_second
from .door_queries import QueryTimes
from .door_servers import Server, nyala_server, postgresql_server
from .door_transfers import CREATE, DECIMALS, NUMBERS, NUMBERS_BYTES
from .postgres import connect, is_installed
from .work_directory import work_directory

CLIENTS: Final = 8
PARTS: Final = ("rows", "transfers", "queries")
"""Parts of the measurement: single rows, many rows, TPC-H."""
SPARK: Final = "spark"
"""A part that needs Java and Maven Central, and is measured only where it is named."""
SELECT, SELECT_DECIMAL, FLIGHT_SQL = "select", "select, DECIMAL", "select, Flight SQL"
COPY_OUT, COPY_IN = "copy out", "copy in"
COPY_LINEITEM, COPY_IN_BLOCK = "copy in, lineitem", "copy in, lineitem, in a block"
_SETTLE_SECONDS: Final = 0.3
"""Processes of PostgreSQL end a moment after their clients, and their times count then."""

Run: TypeAlias = Callable[[Server], tuple[float, float, float]]
"""Returns the rate, the count of what was done, and the client's processor seconds for each."""


@dataclass(slots=True)
class Step:
    """One step with one server: per second, and processor seconds of server and clients for each, by round."""

    per_second: list[float] = field(default_factory=list)
    server_seconds: list[float] = field(default_factory=list)
    client_seconds: list[float] = field(default_factory=list)

    def note(self, rate: float, server: float, client: float) -> None:
        """Records a round."""
        self.per_second.append(rate)
        self.server_seconds.append(server)
        self.client_seconds.append(client)

    @property
    def best(self) -> float:
        """Per second, in the best round."""
        return max(self.per_second)


Found: TypeAlias = dict[str, dict[str, Step]]
"""By server and step."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurements.

    Attributes
    ----------
    rows : int
        Of the tables that are read and copied.
    sf : float
        The scale factor of lineitem and of TPC-H.
    runs : int
        Rounds.
    seconds : float
        Of each step with single rows.
    """

    rows: int
    sf: float
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All results."""

    steps: Found
    queries: list[QueryTimes]
    spark: spark_doors.Times


def parts_of(text: str | None) -> Collection[str]:
    """The parts of a list such as "rows,queries"; `PARTS` for None. Raises `InterfaceError` for another name."""
    if text is None:
        return PARTS
    chosen = [name.strip() for name in text.split(",")]
    for name in chosen:
        if name not in (*PARTS, SPARK):
            raise InterfaceError(f"there is no part {name!r} of the doors{did_you_mean(name, (*PARTS, SPARK))}")
    return chosen


def measure(sizes: Sizes, *, work: Path | None, data: Path | None = None, parts: Collection[str] = PARTS) -> Measured:
    """Measures the steps of some parts: of `PARTS`, and `SPARK`.

    Parameters
    ----------
    sizes : Sizes
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.
    data : Path, optional
        The directory with TPC-H's Parquet files, which are generated if they are missing; one in `work` by default.
    parts : collection of str

    Raises `OperationalError` if a server does not start. Without PostgreSQL only nyala is measured.
    """
    with ExitStack() as stack:
        place = stack.enter_context(work_directory(work))
        parquet = data or place / "parquet"
        if {"transfers", "queries", SPARK} & set(parts):
            generate(sizes.sf, parquet, print)
        found = _steps_of_servers(sizes, place, parquet, parts) if {"rows", "transfers"} & set(parts) else {}
        queries = door_queries.measure(sizes.sf, parquet, place, sizes.runs) if "queries" in parts else []
        spark = spark_doors.measure(place, parquet, sizes.runs) if SPARK in parts else {}
        return Measured(found, queries, spark)


def _steps_of_servers(sizes: Sizes, place: Path, parquet: Path, parts: Collection[str]) -> Found:
    with ExitStack() as stack:
        servers = {"nyala": stack.enter_context(nyala_server(place / "nyala"))}
        if is_installed():
            servers["postgresql"] = stack.enter_context(postgresql_server(place / "postgresql"))
        for server in servers.values():
            with connect(server.dsn, autocommit=True) as connection:
                for name in ("points", "written"):
                    connection.execute(CREATE.format(name))
                door_transfers.fill_points(connection, sizes.rows)
                connection.execute("ANALYZE points")
        steps = _single_rows(sizes) if "rows" in parts else {}
        if "transfers" in parts:
            steps |= _transfers(sizes.rows, parquet, place)
        found: Found = {name: {} for name in servers}
        for _ in range(sizes.runs):
            for step, run in steps.items():
                for name, server in servers.items():
                    if step == FLIGHT_SQL and not server.flight_sql:
                        continue
                    before = server.processor_seconds()
                    rate, count, client = run(server)
                    time.sleep(_SETTLE_SECONDS)
                    used = server.processor_seconds() - before
                    found[name].setdefault(step, Step()).note(rate, used / count, client)
        return found


def _single_rows(sizes: Sizes) -> dict[str, Run]:
    def single(step: str, clients: int) -> Run:
        def run(server: Server) -> tuple[float, float, float]:
            rate, client = per_second(Work(server.dsn, step, sizes.rows, sizes.seconds), clients)
            return rate, rate * sizes.seconds, client

        return run

    return {
        f"{step}, {clients} client{'s'[: clients > 1]}": single(step, clients)
        for step in ("look up", "insert")
        for clients in (1, CLIENTS)
    }


def _transfers(rows: int, parquet: Path, place: Path) -> dict[str, Run]:
    lineitem = place / "lineitem.copy"
    lines = door_transfers.write_lineitem(parquet_file(parquet, "lineitem"), lineitem)

    def whole(count: int, transfer: Callable[[Server], float]) -> Run:
        def run(server: Server) -> tuple[float, float, float]:
            cpu = time.process_time()
            taken = transfer(server)
            return count / taken, count, (time.process_time() - cpu) / count

        return run

    return {
        SELECT: whole(rows, lambda server: door_transfers.select(server, NUMBERS)),
        SELECT_DECIMAL: whole(rows, lambda server: door_transfers.select(server, DECIMALS)),
        FLIGHT_SQL: whole(rows, lambda server: door_transfers.select_by_flight(server, NUMBERS)),
        COPY_OUT: whole(rows, lambda server: door_transfers.copy_out(server)[0]),
        COPY_IN: whole(rows, door_transfers.copy_points_in),
        COPY_LINEITEM: whole(lines, lambda server: door_transfers.copy_lineitem_in(server, lineitem)),
        COPY_IN_BLOCK: whole(lines, lambda server: door_transfers.copy_lineitem_in(server, lineitem, in_block=True)),
    }


def show(found: Measured, console: Console) -> None:
    """Prints rates, processor times and ratios."""
    if found.steps:
        console.print(_table_of_steps(found.steps))
    flight = found.steps.get("nyala", {}).get(FLIGHT_SQL)
    if flight is not None:
        console.print(f"{FLIGHT_SQL}: {flight.best * NUMBERS_BYTES / 1e9:.2f} GB/s")
    if found.queries:
        console.print(_table_of_queries(found.queries))
        worst = max(found.queries, key=lambda query: query.ratio)
        mean = door_queries.mean_ratio(found.queries)
        console.print(f"geometric mean {mean:.3f}, worst {worst.name} {worst.ratio:.2f}")
    if found.spark:
        spark_doors.show(found.spark, console)


def _table_of_steps(found: Found) -> TextTable:
    table = TextTable(title="the doors: the best round, statements or rows per second", title_justify="left")
    table.add_column("")
    for server in found:
        table.add_column(server, justify="right")
        table.add_column("server us", justify="right", style="dim")
        table.add_column("client us", justify="right", style="dim")
    for peer in list(found)[1:]:
        table.add_column(f"/ {peer}", justify="right")
    for step in next(iter(found.values())):
        steps = [steps.get(step) for steps in found.values()]
        cells: list[str] = []
        for one in steps:
            parts: Sequence[str] = ("", "", "")
            if one is not None:
                used = (min(seconds) * 1e6 for seconds in (one.server_seconds, one.client_seconds))
                parts = (f"{one.best:,.0f}", *(f"{micros:,.2f}" for micros in used))
            cells += parts
        ours = steps[0]
        ratios = ["" if one is None or ours is None else f"{ours.best / one.best:.2f}" for one in steps[1:]]
        table.add_row(step, *cells, *ratios)
    return table


def _table_of_queries(found: Sequence[QueryTimes]) -> TextTable:
    table = TextTable(title="TPC-H by psycopg: milliseconds, the best round", title_justify="left")
    for name in ("query", "psycopg", "embedded", "ratio of medians", "rows", ""):
        table.add_column(name, justify="left" if name in ("query", "") else "right")
    for query in found:
        best = [f"{min(seconds) * 1e3:,.1f}" for seconds in (query.psycopg, query.embedded)]
        told = "" if query.is_equal else "other rows"
        table.add_row(query.name, *best, f"{query.ratio:.2f}", f"{query.rows:,}", told)
    return table


def plain(found: Measured) -> dict[str, Any]:
    """For JSON."""
    return {
        "steps": {
            server: {
                step: {
                    "per_second": one.per_second,
                    "server_seconds": one.server_seconds,
                    "client_seconds": one.client_seconds,
                }
                for step, one in steps.items()
            }
            for server, steps in found.steps.items()
        },
        "queries": [
            {
                "name": one.name,
                "psycopg": one.psycopg,
                "embedded": one.embedded,
                "rows": one.rows,
                "is_equal": one.is_equal,
            }
            for one in found.queries
        ],
        "spark": found.spark,
    }
