"""Measures single rows against SQLite and DuckDB in the same run.

The steps are inserts, updates, upserts, deletes and look-ups by primary key among the rows of lineitem.

All three have the whole of lineitem with its primary key, and each statement is a separate transaction:

    nyala    `Database.write_row` and `read_row`, durability "os"
    sqlite   journal_mode WAL, synchronous NORMAL, prepared statements (no SQL text is parsed twice)
    duckdb   prepared by its own cache of statements; every commit is synced, which cannot be turned off

Rates are medians over the rounds. Processor time is measured too: on a machine with other work, it is more significant
than the clock.
"""

from __future__ import annotations

import datetime
import random
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import connect
from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from ..model.store import Op
from ..storage.database import Database
from .arrow import without_string_views
from .work_directory import work_directory

TABLE: Final = "lineitem"
KEY: Final = ("l_orderkey", "l_linenumber")
LOOKED_UP: Final = ("l_quantity", "l_shipdate", "l_shipmode")
CHANGED: Final = ("l_quantity", "l_comment")
STEPS: Final = ("look up", "update", "look up updated", "upsert", "insert", "delete")
ROWS: Final = {"nyala": 20_000, "sqlite": 20_000, "duckdb": 500}
"""Rows per step and round; fewer for the slower engine."""

Row = tuple[Any, ...]


@dataclass(slots=True)
class Rate:
    """Rows per second of one engine in one step, by the clock and by processor time, one number per round."""

    per_second: list[float] = field(default_factory=list)
    per_cpu_second: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.per_second)

    @property
    def cpu_median(self) -> float:
        return statistics.median(self.per_cpu_second)


class Engine(Protocol):
    """One of the three; rows are tuples in the order of lineitem's columns."""

    def look_up(self, key: Row) -> Row | None: ...

    def update(self, key: Row, values: Row) -> None: ...

    def upsert(self, row: Row) -> None: ...

    def insert(self, row: Row) -> None: ...

    def delete(self, key: Row) -> None: ...

    def close(self) -> None: ...


def measure(source: Path, create_table: str, *, runs: int, work: Path | None) -> dict[str, dict[str, Rate]]:
    """Measures all steps with all engines, `runs` rounds each; returns rates by engine and step.

    Parameters
    ----------
    source : Path
        The Parquet file of lineitem.
    create_table : str
        Its DDL for nyala.
    work : Path, optional
        The directory for the databases, which are removed; the system's temporary directory by default.
    """
    if not source.exists():
        raise OperationalError(f"there is no file {source}")
    file = pq.ParquetFile(source)
    names = file.schema_arrow.names
    with work_directory(work) as place:
        makers: dict[str, Callable[[], Engine]] = {
            "nyala": lambda: _Nyala(place / "nyala", source, create_table, names),
            "sqlite": lambda: _Sqlite(place / "sqlite.db", file, names),
            "duckdb": lambda: _DuckDB(place / "duckdb.db", source, names),
        }
        sample = _sample(file, runs * max(ROWS.values()))
        found: dict[str, dict[str, Rate]] = {}
        for name, make in makers.items():
            engine = make()
            try:
                rates = found[name] = {step: Rate() for step in STEPS}
                for number in range(runs):
                    count = min(ROWS[name], len(sample) // runs)
                    _round(engine, rates, sample[number * count : (number + 1) * count], names, number)
            finally:
                engine.close()
        return found


def show(found: dict[str, dict[str, Rate]], console: Console) -> None:
    """Prints medians and ratios."""
    table = TextTable(title="single rows of lineitem per second: medians", title_justify="left")
    table.add_column("")
    for engine in found:
        table.add_column(engine, justify="right")
        table.add_column("by CPU", justify="right", style="dim")
    for peer in list(found)[1:]:
        table.add_column(f"/ {peer}", justify="right")
    for step in STEPS:
        rates = [found[engine][step] for engine in found]
        cells = [text for rate in rates for text in (f"{rate.median:,.0f}", f"{rate.cpu_median:,.0f}")]
        ratios = [f"{rates[0].median / rate.median:.2f}" for rate in rates[1:]]
        table.add_row(step, *cells, *ratios)
    console.print(table)


def _sample(file: pq.ParquetFile, count: int) -> list[Row]:
    """Rows from the whole file, in random order."""
    rng = random.Random(1)
    groups = file.num_row_groups
    rows: list[Row] = []
    for group in range(groups):
        table = without_string_views(file.read_row_group(group))
        chosen = rng.sample(range(table.num_rows), min(table.num_rows, -(-count // groups)))
        rows += list(_tuples(table.take(pa.array(chosen))))
    rng.shuffle(rows)
    return rows[:count]


def _tuples(table: pa.Table | pa.RecordBatch) -> Iterator[Row]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _round(engine: Engine, rates: dict[str, Rate], rows: Sequence[Row], names: Sequence[str], number: int) -> None:
    first, second, quantity = (names.index(name) for name in (*KEY, CHANGED[0]))
    keys = [(row[first], row[second]) for row in rows]
    changes = [(row[quantity] + 1, "changed") for row in rows]
    new = [(*row[:first], row[first] + (number + 1) * 1_000_000_000, *row[first + 1 :]) for row in rows]
    for key in keys[: len(keys) // 10]:
        engine.look_up(key)
    timed(rates["look up"], engine.look_up, zip(keys))
    timed(rates["update"], engine.update, zip(keys, changes))
    timed(rates["look up updated"], engine.look_up, zip(keys))
    timed(rates["upsert"], engine.upsert, zip(rows))
    timed(rates["insert"], engine.insert, zip(new))
    timed(rates["delete"], engine.delete, zip(keys))


def timed(rate: Rate, call: Callable[..., Any], arguments: Iterable[Row], rows: int | None = None) -> None:
    """Calls a function once per tuple of arguments, and records the rate; a call is one row, or all calls are `rows`
    in total."""
    everything = list(arguments)
    rows = len(everything) if rows is None else rows
    started, cpu = time.perf_counter(), time.process_time()
    for some in everything:
        call(*some)
    rate.per_cpu_second.append(rows / max(time.process_time() - cpu, 1e-9))
    rate.per_second.append(rows / (time.perf_counter() - started))


class _Nyala:
    def __init__(self, path: Path, source: Path, create_table: str, names: Sequence[str]):
        with connect(str(path)) as connection:
            connection.execute(create_table)
            connection.load(TABLE, source)
        self._database = Database(path, durability="os")
        self._table = self._database.table(TABLE)
        self._names = tuple(names)

    def look_up(self, key: Row) -> Row | None:
        return self._database.read_row(self._table, key, LOOKED_UP)

    def update(self, key: Row, values: Row) -> None:
        row = {KEY[0]: key[0], KEY[1]: key[1], CHANGED[0]: values[0], CHANGED[1]: values[1]}
        self._database.write_row(self._table, Op.UPDATE, row)

    def upsert(self, row: Row) -> None:
        self._database.write_row(self._table, Op.UPSERT, dict(zip(self._names, row)))

    def insert(self, row: Row) -> None:
        self._database.write_row(self._table, Op.INSERT, dict(zip(self._names, row)))

    def delete(self, key: Row) -> None:
        self._database.write_row(self._table, Op.DELETE, {KEY[0]: key[0], KEY[1]: key[1]})

    def close(self) -> None:
        self._database.close()


class _Sql:
    """The common part of SQLite and DuckDB."""

    def __init__(self, execute: Callable[[str, Row], Any], names: Sequence[str]):
        self._execute = execute
        marks = ", ".join("?" * len(names))
        where = " AND ".join(f"{name} = ?" for name in KEY)
        assigned = ", ".join(f"{name} = excluded.{name}" for name in names if name not in KEY)
        self._look_up = f"SELECT {', '.join(LOOKED_UP)} FROM {TABLE} WHERE {where}"
        self._update = f"UPDATE {TABLE} SET {', '.join(f'{name} = ?' for name in CHANGED)} WHERE {where}"
        self._insert = f"INSERT INTO {TABLE} VALUES ({marks})"
        self._upsert = f"{self._insert} ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {assigned}"
        self._delete = f"DELETE FROM {TABLE} WHERE {where}"

    def look_up(self, key: Row) -> Row | None:
        found: Row | None = self._execute(self._look_up, key).fetchone()
        return found

    def update(self, key: Row, values: Row) -> None:
        self._execute(self._update, (*self.converted(values), *key))

    def upsert(self, row: Row) -> None:
        self._execute(self._upsert, self.converted(row))

    def insert(self, row: Row) -> None:
        self._execute(self._insert, self.converted(row))

    def delete(self, key: Row) -> None:
        self._execute(self._delete, key)

    def converted(self, row: Row) -> Row:
        """Values in the engine's types."""
        return row


class _Sqlite(_Sql):
    """SQLite, with decimals as floats and dates as texts: it has neither."""

    def __init__(self, path: Path, file: pq.ParquetFile, names: Sequence[str]):
        self._connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -1000000"):
            self._connection.execute(f"PRAGMA {setting}")
        super().__init__(self._connection.execute, names)
        self._connection.execute(f"CREATE TABLE {TABLE} ({', '.join(names)}, PRIMARY KEY ({', '.join(KEY)}))")
        self._connection.execute("BEGIN")
        for batch in file.iter_batches(1 << 17):
            self._connection.executemany(self._insert, map(self.converted, _tuples(batch)))
        self._connection.execute("COMMIT")

    def converted(self, row: Row) -> Row:
        return tuple([_sqlite_value(value) for value in row])

    def close(self) -> None:
        self._connection.close()


def _sqlite_value(value: Any) -> Any:
    if isinstance(value, (int, str)):
        return value
    return str(value) if isinstance(value, datetime.date) else float(value)


class _DuckDB(_Sql):
    def __init__(self, path: Path, source: Path, names: Sequence[str]):
        import duckdb

        self._connection = duckdb.connect(str(path))
        super().__init__(self._connection.execute, names)
        quoted = str(source).replace("'", "''")
        self._connection.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM read_parquet('{quoted}')")
        self._connection.execute(f"ALTER TABLE {TABLE} ADD PRIMARY KEY ({', '.join(KEY)})")

    def close(self) -> None:
        self._connection.close()
