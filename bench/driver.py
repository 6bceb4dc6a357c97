"""Measures statements through PEP 249, against SQLite and DuckDB in the same run.

The steps are prepared look-ups and changes of single rows, many rows of parameters, results as tuples, and the import.

All three have a table of `ROWS` rows with a whole number as key, a text and a number. Every statement is a separate
transaction with the same text and new values:

    nyala    durability "os"
    sqlite   journal_mode WAL, synchronous NORMAL, the same guarantee
    duckdb   every commit is synced, which cannot be turned off

Each round begins with the reads, after the writes of the previous round were settled (COMPACT TABLE, or a checkpoint).
The engines alternate, step by step. Rates are medians over the rounds. Processor time, including flushes in the
background, is measured too: on a machine with other work, it is more significant than the clock.
"""

from __future__ import annotations

import resource
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import connect
from ..model.lazy_dataclass import dataclass
from .points import Rate, timed
from .work_directory import work_directory

ROWS: Final = 100_000
FEW: Final = {"nyala": 20_000, "sqlite": 20_000, "duckdb": 500}
"""Single rows per step and round; fewer for the slower engine."""
MANY: Final = {"nyala": ROWS, "sqlite": ROWS, "duckdb": 2_000}
"""Rows of `executemany` per round."""
TARGETS: Final = {
    "select by key": 10_000,
    "fetchall": 0,
    "insert": 8_000,
    "upsert": 8_000,
    "update": 8_000,
    "delete": 8_000,
    "executemany": 200_000,
}
"""The steps, and nyala's minimum rate per second."""
IMPORT_SECONDS: Final = 0.35
"""Maximum seconds of `import nyala`."""
IMPORTS: Final = {
    "nyala": "import nyala",
    "nyala, connected": "import nyala; nyala.connect()",
    "sqlite": "import sqlite3",
    "duckdb": "import duckdb",
}
_CREATE = "CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR, n INT)"
_INSERT = "INSERT INTO t VALUES (?, ?, ?)"
_ON_CONFLICT = f"{_INSERT} ON CONFLICT (k) DO UPDATE SET v = excluded.v, n = excluded.n"
_CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
_STATEMENTS: Final = {
    "select by key": "SELECT v, n FROM t WHERE k = ?",
    "insert": _INSERT,
    "update": "UPDATE t SET n = ? WHERE k = ?",
    "delete": "DELETE FROM t WHERE k = ?",
}
_STRIDE = 7919
"""A prime, so that keys are visited in a scattered order."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DriverResult:
    """Rates by engine and step, and seconds of processor time by import."""

    rates: dict[str, dict[str, Rate]]
    imports: dict[str, float]


def measure(*, runs: int, work: Path | None) -> DriverResult:
    """Measures all steps with all engines, `runs` rounds each.

    The databases are created in `work` (by default in the system's temporary directory) and removed.
    """
    with work_directory(work) as directory:
        engines = [_nyala(directory), _sqlite(directory), _duckdb(directory)]
        try:
            rates = {engine.name: {step: Rate() for step in TARGETS} for engine in engines}
            for engine in engines:
                engine.fill()
            for number in range(runs):
                for engine in engines:
                    engine.execute(engine.settle, ())
                for step in TARGETS:
                    for engine in engines:
                        engine.measure(step, number, rates[engine.name][step])
        finally:
            for engine in engines:
                engine.close()
    return DriverResult(rates, {name: _import_seconds(code, runs) for name, code in IMPORTS.items()})


def show(found: DriverResult, console: Console) -> None:
    """Prints medians, ratios and targets."""
    table = TextTable(title="statements per second through PEP 249; rows, of fetchall and executemany")
    table.title_justify = "left"
    table.add_column("")
    for engine in found.rates:
        table.add_column(engine, justify="right")
        table.add_column("by CPU", justify="right", style="dim")
    for peer in list(found.rates)[1:]:
        table.add_column(f"/ {peer}", justify="right")
    table.add_column("required", justify="right")
    for step, wanted in TARGETS.items():
        rates = [steps[step] for steps in found.rates.values()]
        cells = [text for rate in rates for text in (f"{rate.median:,.0f}", f"{rate.cpu_median:,.0f}")]
        ratios = [f"{rates[0].cpu_median / rate.cpu_median:.2f}" for rate in rates[1:]]
        table.add_row(step, *cells, *ratios, f"{wanted:,}" if wanted else "")
    console.print(table)
    for name, seconds in found.imports.items():
        limit = f" (at most {IMPORT_SECONDS:.2f})" if name == "nyala" else ""
        console.print(f"import, {name}: {seconds:.3f} s of processor time{limit}")


@dataclass(frozen=True, slots=True)
class _Engine:
    """One of the three: functions to execute a statement, to fetch rows, and to close it."""

    name: str
    execute: Callable[[str, Row], Any]
    executemany: Callable[[str, Sequence[Row]], Any]
    upsert: str
    settle: str
    close: Callable[[], None]

    def fill(self) -> None:
        """Inserts the initial rows."""
        self.execute(_CREATE, ())
        self.execute("INSERT INTO t " + _series(self.name), ())

    def measure(self, step: str, number: int, rate: Rate) -> None:
        """Measures one step of one round."""
        new = (number + 1) * 10_000_000
        if step == "executemany":
            rows = [(new * 10 + k, f"value {k}", k % 100) for k in range(MANY[self.name])]
            timed(rate, self.executemany, [(_INSERT, rows)], len(rows))
            return
        if step == "fetchall":
            timed(rate, self._fetch_all, [("SELECT k, v, n FROM t WHERE k < ?", (ROWS,))], ROWS)
            return
        keys = [k * _STRIDE % ROWS for k in range(FEW[self.name])]
        given: Iterable[Row]
        if step == "select by key":
            given = [(k,) for k in keys]
        elif step == "insert":
            given = [(new + k, "new", 1) for k in keys]
        elif step == "upsert":
            given = [(k, f"value {k}", number) for k in keys]
        elif step == "update":
            given = [(number, k) for k in keys]
        else:
            given = [(new + k,) for k in keys]
        text = self.upsert if step == "upsert" else _STATEMENTS[step]
        call = self._fetch_one if step == "select by key" else self.execute
        timed(rate, call, [(text, values) for values in given])

    def _fetch_one(self, text: str, values: Row) -> None:
        if self.execute(text, values).fetchone() is None:
            raise AssertionError(f"{self.name} has lost row {values[0]}")

    def _fetch_all(self, text: str, values: Row) -> None:
        if len(self.execute(text, values).fetchall()) != ROWS:
            raise AssertionError(f"{self.name} has lost rows")


def _series(engine: str) -> str:
    if engine == "sqlite":
        return (
            f"WITH RECURSIVE s(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM s WHERE k < {ROWS - 1}) "
            "SELECT k, 'value ' || k, k % 100 FROM s"
        )
    return f"SELECT k, 'value ' || k, k % 100 FROM generate_series(0, {ROWS - 1}) AS s(k)"


def _nyala(directory: Path) -> _Engine:
    connection = connect(directory / "nyala", durability="os")
    cursor = connection.cursor()
    upsert, settle = "UPSERT INTO t VALUES (?, ?, ?)", "COMPACT TABLE t"
    return _Engine("nyala", cursor.execute, cursor.executemany, upsert, settle, connection.close)


def _sqlite(directory: Path) -> _Engine:
    connection = sqlite3.connect(directory / "sqlite.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")

    def executemany(text: str, rows: Sequence[Row]) -> None:
        connection.execute("BEGIN")
        connection.executemany(text, rows)
        connection.execute("COMMIT")

    return _Engine("sqlite", connection.execute, executemany, _ON_CONFLICT, _CHECKPOINT, connection.close)


def _duckdb(directory: Path) -> _Engine:
    import duckdb

    connection = duckdb.connect(str(directory / "duckdb.db"))

    def executemany(text: str, rows: Sequence[Row]) -> None:
        connection.execute("BEGIN")
        connection.executemany(text, rows)
        connection.execute("COMMIT")

    return _Engine("duckdb", connection.execute, executemany, _ON_CONFLICT, "CHECKPOINT", connection.close)


def _import_seconds(code: str, runs: int) -> float:
    """Processor time of a Python process that runs `code`, less that of an empty one: the median."""
    return statistics.median(max(0.0, _process_seconds(code) - _process_seconds("pass")) for _ in range(runs))


def _process_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
