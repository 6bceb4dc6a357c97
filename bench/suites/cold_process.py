"""A fresh process of one engine, for the suite `cold`:
`python -P cold_process.py ENGINE HOME TASK COUNT THREADS ROWS FIRST`.

A program, not a module of the package: it imports nothing but the engine, so that a process of DuckDB or SQLite pays
for no part of nyala. Prints one JSON object: the measured steps, and the memory.

    first_row     open the store, one aggregate, its row
    texts         COUNT statements of each kind, from number FIRST on, each text a new one; seconds per statement
    busy          grouping, sorting, windows and joins; the memory before and after, processor time at rest
    tables        COUNT new tables with a row each, in a directory of its own
    open_tables   open that directory, read one of its tables
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

RESTING_SECONDS = 1.0
FIRST_ROW = "SELECT count(*), sum(v), min(s), max(s) FROM t WHERE g < 5"
BUSY = (
    "SELECT s, count(*), sum(v) FROM t GROUP BY s ORDER BY 2 DESC, 1 LIMIT 10",
    "SELECT g, count(DISTINCT s), max(s) FROM t GROUP BY g",
    "SELECT count(DISTINCT k), count(DISTINCT s) FROM t",
    "SELECT k, f FROM t ORDER BY f DESC, k LIMIT 100",
    "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY f) AS n FROM t) AS x WHERE n < 10",
    "SELECT count(*) FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v < 500",
    "SELECT count(*) FROM t a JOIN (SELECT DISTINCT s FROM t WHERE v < 100) AS b ON a.s = b.s",
    "SELECT count(*) FROM t WHERE s LIKE '%an%'",
    "SELECT k, s, f FROM t WHERE v < 300",
)


def texts(number: int, rows: int) -> dict[str, str]:
    """A statement of each kind; no two numbers give the same text."""
    key = number * 7919 % rows
    values = ", ".join(str((key + place * 13) % rows) for place in range(1_000))
    sums = ", ".join(f"sum(v + {number * 31 + place})" for place in range(30))
    joins = "JOIN d1 ON t.g = d1.id JOIN d2 ON d1.next = d2.id JOIN d3 ON d2.next = d3.id"
    return {
        "point": f"SELECT v, s FROM t WHERE k = {key}",
        "range": f"SELECT sum(v), count(*) FROM t WHERE k BETWEEN {key} AND {key + 500}",
        "thirty_sums": f"SELECT {sums} FROM t WHERE k < 1000",
        "four_tables": f"SELECT count(*), max(d3.name) FROM t {joins} WHERE t.k < {number + 50} AND t.v <> {number}",
        "long_list": f"SELECT count(*) FROM t WHERE k IN ({values})",
        "update": f"UPDATE t SET v = {number} WHERE k = {key}",
        "insert": f"INSERT INTO t VALUES ({rows + number}, 1, 2, 0.5, 'new {number}')",
    }


CHANGES = frozenset({"update", "insert"})
"""The kinds without rows to fetch."""


def connect(engine: str, home: Path, threads: int) -> Any:
    """A connection with `execute(text).fetchall()`; imports the engine."""
    if engine == "nyala":
        return importlib.import_module("nyala").connect(home, threads=threads)
    if engine == "duckdb":
        return importlib.import_module("duckdb").connect(str(home / "suite.duckdb"), config={"threads": threads})
    return importlib.import_module("sqlite3").connect(home / "suite.sqlite", isolation_level=None)


def memory(name: str) -> float | None:
    """VmRSS or VmHWM in megabytes; None if the system does not report it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / 1e6


def first_row(engine: str, home: Path, threads: int) -> dict[str, Any]:
    connection = connect(engine, home, threads)
    rows = connection.execute(FIRST_ROW).fetchall()
    # Processor time since the start of the process, the interpreter's own included; the parent measures the wall.
    cpu = time.process_time()
    return {"cpu": cpu, "rows": [[str(cell) for cell in row] for row in rows], "memory": memory("VmRSS")}


def run_text(connection: Any, kind: str, text: str) -> None:
    cursor = connection.execute(text)
    if kind not in CHANGES:
        cursor.fetchall()


def run_texts(engine: str, home: Path, threads: int, count: int, rows: int, first: int) -> dict[str, Any]:
    connection = connect(engine, home, threads)
    steps = {}
    for kind, one in texts(first, rows).items():
        run_text(connection, kind, one)
        statements = [texts(number, rows)[kind] for number in range(first + 1, first + count + 1)]
        cpu, wall = time.process_time(), time.perf_counter()
        for statement in statements:
            run_text(connection, kind, statement)
        steps[kind] = [(time.perf_counter() - wall) / count, (time.process_time() - cpu) / count]
    connection.close()
    return {"steps": steps}


def busy(engine: str, home: Path, threads: int) -> dict[str, Any]:
    connection = connect(engine, home, threads)
    connection.execute(FIRST_ROW).fetchall()
    idle = memory("VmRSS")
    cpu, wall = time.process_time(), time.perf_counter()
    for statement in BUSY:
        connection.execute(statement).fetchall()
    step = [time.perf_counter() - wall, time.process_time() - cpu]
    after = memory("VmRSS")
    resting = time.process_time()
    time.sleep(RESTING_SECONDS)
    resting = time.process_time() - resting
    return {"step": step, "idle": idle, "busy": after, "peak": memory("VmHWM"), "resting": resting}


def make_tables(engine: str, home: Path, threads: int, count: int) -> dict[str, Any]:
    connection = connect(engine, home, threads)
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(count):
        connection.execute(f"CREATE TABLE t{number} (k BIGINT PRIMARY KEY, s VARCHAR)")
        connection.execute(f"INSERT INTO t{number} VALUES (1, 'one')")
    step = [time.perf_counter() - wall, time.process_time() - cpu]
    connection.close()
    return {"step": step}


def open_tables(engine: str, home: Path, threads: int, count: int) -> dict[str, Any]:
    connection = connect(engine, home, threads)
    rows = connection.execute(f"SELECT s FROM t{count - 1}").fetchall()
    return {"cpu": time.process_time(), "rows": [[str(cell) for cell in row] for row in rows]}


def main() -> None:
    engine, home, task, count, threads, rows, first = sys.argv[1:]
    place, number = Path(home), int(threads)
    if task == "first_row":
        found = first_row(engine, place, number)
    elif task == "texts":
        found = run_texts(engine, place, number, int(count), int(rows), int(first))
    elif task == "busy":
        found = busy(engine, place, number)
    elif task == "tables":
        found = make_tables(engine, place, number, int(count))
    else:
        found = open_tables(engine, place, number, int(count))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
