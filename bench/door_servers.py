"""The servers of `bench.doors`: nyala and, if it is installed, PostgreSQL, each with a database of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from .postgres import PostgresServer

_STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs.

    Attributes
    ----------
    dsn : str
        For clients of PostgreSQL.
    process : int
        Number of its process; all others that belong to it descend from this one.
    flight_sql : str
        URL for clients of Flight SQL; "" for PostgreSQL.
    """

    dsn: str
    process: int
    flight_sql: str = ""

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


@contextmanager
def nyala_server(home: Path) -> Iterator[Server]:
    """`nyala serve` on a directory, until the end of the block; raises `OperationalError` if it does not start."""
    command = [sys.executable, "-m", "nyala", "serve", str(home), "--postgres", "127.0.0.1:0"]
    log = home.with_suffix(".log")
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [*command, "--flight-sql", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            urls = [line.strip() for _, line in zip(range(3), process.stdout)]  # reads no fourth line
            if len(urls) < 3:
                raise OperationalError(f"nyala serve has ended before it was ready: {log.read_text()[-1000:]}")
            (postgres,) = (url for url in urls if url.startswith("postgresql://"))
            (flight_sql,) = (url for url in urls if url.startswith("grpc"))
            port = postgres.rstrip("/").rpartition(":")[2]
            yield Server(f"host=127.0.0.1 port={port} user=nyala dbname=bench", process.pid, flight_sql)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def postgresql_server(home: Path) -> Iterator[Server]:
    """A server of PostgreSQL, until the end of the block; raises `OperationalError` if it does not start."""
    with PostgresServer(home) as server:
        yield Server(server.dsn, server.process_id)
