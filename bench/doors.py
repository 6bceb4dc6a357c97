"""Measures the PostgreSQL protocol of nyala against PostgreSQL itself, both as servers of this machine.

    look up     prepared SELECT of a row by its key      1 and 8 clients, psycopg, each in a process of its own
    insert      prepared INSERT of a row, durable        the same
    select      all rows by ADBC's driver
    copy out    all rows in the binary format            into memory
    copy in     the same bytes                           into an empty table

Rounds alternate between the servers, and the best one counts: other programs only take time away. The processor time
of the server is measured too, with all of its processes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from .door_clients import Work, per_second
from .postgres import PostgresServer, connect, is_installed

CLIENTS: Final = 8
_CREATE: Final = "CREATE TABLE {} (k BIGINT PRIMARY KEY, big BIGINT, x DOUBLE PRECISION, price DECIMAL(15, 2))"
_FILL: Final = (
    "INSERT INTO points SELECT n - 1, n::bigint * 7919, n / 3.0, n % 100000 FROM generate_series(1, {}) AS g(n)"
)
_STOP_SECONDS: Final = 30.0
_SETTLE_SECONDS: Final = 0.3
"""Processes of PostgreSQL end a moment after their clients, and their times count then."""


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


Found = dict[str, dict[str, Step]]
"""By server and step."""


@dataclass(frozen=True, slots=True)
class _Server:
    dsn: str
    process: int

    def processor_seconds(self) -> float:
        """Of all its processes, also of those that have ended."""
        import psutil

        process = psutil.Process(self.process)
        times = process.cpu_times()
        total: float = times.user + times.system + times.children_user + times.children_system
        for child in process.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total


def measure(*, rows: int, runs: int, seconds: float, work: Path | None) -> Found:
    """Measures all steps.

    Parameters
    ----------
    rows : int
        Of the tables that are read and copied.
    runs : int
        Rounds.
    seconds : float
        Of each step with single rows.
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.

    Raises `OperationalError` if a server does not start. Without PostgreSQL only nyala is measured.
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work, prefix="nyala-bench-")))
        servers = {"nyala": stack.enter_context(_nyala(place / "nyala"))}
        if is_installed():
            servers["postgresql"] = stack.enter_context(_postgresql(place / "postgresql"))
        for server in servers.values():
            with connect(server.dsn, autocommit=True) as connection:
                for name in ("points", "written"):
                    connection.execute(_CREATE.format(name))
                connection.execute(_FILL.format(rows))
                connection.execute("ANALYZE points")
        found: Found = {name: {} for name in servers}
        for _ in range(runs):
            for step, run in _steps(rows, seconds).items():
                for name, server in servers.items():
                    before = server.processor_seconds()
                    rate, count, client = run(server)
                    time.sleep(_SETTLE_SECONDS)
                    used = server.processor_seconds() - before
                    found[name].setdefault(step, Step()).note(rate, used / count, client)
        return found


def _steps(rows: int, seconds: float) -> dict[str, Callable[[_Server], tuple[float, float, float]]]:
    """Functions that return the rate, the count of what was done, and the clients' processor seconds for each."""

    def single(step: str, clients: int) -> Callable[[_Server], tuple[float, float, float]]:
        def run(server: _Server) -> tuple[float, float, float]:
            rate, client = per_second(Work(server.dsn, step, rows, seconds), clients)
            return rate, rate * seconds, client

        return run

    def whole(read: Callable[[_Server], float]) -> Callable[[_Server], tuple[float, float, float]]:
        def run(server: _Server) -> tuple[float, float, float]:
            cpu = time.process_time()
            taken = read(server)
            return rows / taken, rows, (time.process_time() - cpu) / rows

        return run

    found = {
        f"{step}, {clients} client{'s'[: clients > 1]}": single(step, clients)
        for step in ("look up", "insert")
        for clients in (1, CLIENTS)
    }
    return {**found, "select": whole(_select), "copy out": whole(_copy_out), "copy in": whole(_copy_in)}


def _select(server: _Server) -> float:
    import adbc_driver_postgresql.dbapi as adbc

    with adbc.connect(server.dsn) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        cursor.execute("SELECT k, big, x, big AS again FROM points")
        cursor.fetch_arrow_table()
        return time.perf_counter() - began


def _copy_out(server: _Server) -> float:
    return _copied(server)[0]


def _copied(server: _Server) -> tuple[float, list[bytes]]:
    with connect(server.dsn) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        with cursor.copy("COPY points TO STDOUT (FORMAT binary)") as copy:
            pieces = [bytes(piece) for piece in copy]
        return time.perf_counter() - began, pieces


def _copy_in(server: _Server) -> float:
    data = b"".join(_copied(server)[1])
    with connect(server.dsn) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS copied")
        cursor.execute(_CREATE.format("copied"))
        connection.commit()
        began = time.perf_counter()
        with cursor.copy("COPY copied FROM STDIN (FORMAT binary)") as copy:
            for place in range(0, len(data), 1 << 18):
                copy.write(data[place : place + (1 << 18)])
        connection.commit()
        return time.perf_counter() - began


@contextmanager
def _nyala(home: Path) -> Iterator[_Server]:
    command = [sys.executable, "-m", "nyala", "serve", str(home), "--postgres", "127.0.0.1:0"]
    log = home.with_suffix(".log")
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("postgresql://"):
                    port = line.strip().rstrip("/").rpartition(":")[2]
                    yield _Server(f"host=127.0.0.1 port={port} user=nyala dbname=bench", process.pid)
                    return
            raise OperationalError(f"nyala serve has ended before it was ready: {log.read_text()[-1000:]}")
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _postgresql(home: Path) -> Iterator[_Server]:
    with PostgresServer(home) as server:
        yield _Server(server.dsn, server.process_id)


def show(found: Found, console: Console) -> None:
    """Prints rates, processor times and ratios."""
    table = TextTable(
        title="the PostgreSQL protocol: the best round, statements or rows per second", title_justify="left"
    )
    table.add_column("")
    for server in found:
        table.add_column(server, justify="right")
        table.add_column("server us", justify="right", style="dim")
        table.add_column("client us", justify="right", style="dim")
    for peer in list(found)[1:]:
        table.add_column(f"/ {peer}", justify="right")
    for step in next(iter(found.values())):
        steps = [found[server][step] for server in found]
        cells: list[str] = []
        for one in steps:
            cells.append(f"{one.best:,.0f}")
            cells += [f"{min(part) * 1e6:,.2f}" for part in (one.server_seconds, one.client_seconds)]
        ratios = [f"{steps[0].best / one.best:.2f}" for one in steps[1:]]
        table.add_row(step, *cells, *ratios)
    console.print(table)


def plain(found: Found) -> dict[str, Any]:
    """For JSON."""
    return {
        server: {
            step: {
                "per_second": one.per_second,
                "server_seconds": one.server_seconds,
                "client_seconds": one.client_seconds,
            }
            for step, one in steps.items()
        }
        for server, steps in found.items()
    }
