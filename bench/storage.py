"""Measures the storage engine alone: loads, scans and updates of lineitem, against DuckDB and Parquet in the same run.

    load      from one Arrow table in memory        DuckDB: CREATE TABLE AS into a file
    disk      afterwards                            Parquet with Snappy
    scans     Q6's predicates and its sum; four     pyarrow.dataset over one Parquet file
              numeric columns in full
    writes    batches of 10,000 rows, through log   rows per second
              and MemRowSet
    updates   Q6's scan after updates of 1 % of     the same scan before
              the rows, after a compaction, and
              after 200,000 updates of 1,000 rows

All with the same number of threads; scans are medians of warm runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import connect
from ..model.lazy_dataclass import dataclass
from ..model.predicates import ColumnPredicate, Range
from ..model.schema import Table
from ..model.store import Op, ScanSpec, WriteBatch
from ..model.vectors.vector import Batch, physical_to_arrow
from ..storage.database import Database
from . import load
from .files import disk_bytes
from .work_directory import work_directory

Q6 = (
    Range("l_shipdate", 8766, 9131, upper_inclusive=False),  # 1994
    Range("l_discount", 5, 7),
    Range("l_quantity", None, 2400, upper_inclusive=False),
)
Q6_COLUMNS = ("l_extendedprice", "l_discount")
NUMBERS = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
MORSEL_ROWS = 262_144
BATCH_ROWS = 10_000
BATCHES = 100


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the report: `ours` and `theirs` in `unit`; `wanted` is the target of the ratio or of the number."""

    name: str
    ours: float
    theirs: float | None
    unit: str
    peer: str
    wanted: str

    @property
    def ratio(self) -> float | None:
        """`ours` over `theirs`."""
        return None if not self.theirs else self.ours / self.theirs


def measure(source: Path, create_table: str, *, runs: int, threads: int, work: Path | None) -> list[Measure]:
    """Measures everything, from the Parquet file `source` of lineitem."""
    found = _loads(source, create_table, runs, threads, work)
    with work_directory(work) as place:
        found += _disk_and_scans(source, create_table, place, runs, threads)
        found += _batches(place, source, create_table, threads)
    return found


# ---- loads -----------------------------------------------------------------------------------------------------------


def _loads(source: Path, create_table: str, runs: int, threads: int, work: Path | None) -> list[Measure]:
    outcomes = load.compare(source, "lineitem", create_table, runs=runs, threads=threads, work=work, arrow=True)
    middle = {
        (engine, field): statistics.median(getattr(outcome, field) for outcome in outcomes[engine])
        for engine in load.ENGINES
        for field in ("seconds", "peak_memory")
    }
    ours, theirs = middle["nyala", "peak_memory"] / 1e6, middle["duckdb", "peak_memory"] / 1e6
    return [
        Measure("load", middle["nyala", "seconds"], middle["duckdb", "seconds"], "s", "DuckDB", "at most 2x"),
        Measure("its memory beyond the input", ours, theirs, "MB", "DuckDB", "under 1,500 MB"),
    ]


# ---- scans and updates -----------------------------------------------------------------------------------------------


def _disk_and_scans(source: Path, create_table: str, place: Path, runs: int, threads: int) -> list[Measure]:
    rows = pq.read_table(source)
    parquet = place / "lineitem.parquet"
    pq.write_table(rows, parquet, compression="snappy")
    target = place / "store"
    with connect(str(target), threads=threads) as connection:
        connection.execute(create_table)
        connection.load("lineitem", rows)
    found = [Measure("disk", disk_bytes(target) / 1e6, parquet.stat().st_size / 1e6, "MB", "Parquet", "at most 1.1x")]
    with Database(target, durability="os", threads=threads, background=False) as store:
        found += _scans(store, parquet, runs, threads)
        found += _updates(store, rows, runs, threads)
    return found


def _scans(store: Database, parquet: Path, runs: int, threads: int) -> list[Measure]:
    table = store.table("lineitem")
    pa.set_cpu_count(threads)
    theirs_sum, ours_sum = _parquet_q6(parquet), scan_q6(store, table, threads)
    if ours_sum != theirs_sum:
        raise AssertionError(f"Q6 gives {ours_sum}, Parquet {theirs_sum}")
    ours = timed(lambda: scan_q6(store, table, threads), runs)
    theirs = timed(lambda: _parquet_q6(parquet), runs)
    found = [Measure("Q6's scan", ours, theirs, "ms", "pyarrow.dataset", "at most 0.167x")]
    ours = timed(lambda: _scan_all(store, table, threads), runs)
    theirs = timed(lambda: ds.dataset(parquet).to_table(columns=list(NUMBERS)), runs)
    return [*found, Measure("four numeric columns", ours, theirs, "ms", "pyarrow.dataset", "at most 0.5x")]


def scan(
    store: Database, table: Table, columns: Sequence[str], predicates: Sequence[ColumnPredicate], threads: int, use: Any
) -> list[Any]:
    """Calls `use(batch)` for every batch of a scan, with `threads` threads."""
    tokens = store.scan_tokens(table, ScanSpec(tuple(columns), tuple(predicates), split_rows=MORSEL_ROWS))
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(lambda token: [use(batch) for batch in store.scan(token)], tokens)
        return [result for part in parts for result in part]


def scan_q6(store: Database, table: Table, threads: int) -> int:
    """Q6's answer, times 10,000."""

    def total(batch: Batch) -> int:
        price, discount = batch.column(0).values(), batch.column(1).values()
        return int(np.dot(price.astype(np.int64), discount.astype(np.int64)))

    return sum(scan(store, table, Q6_COLUMNS, Q6, threads, total))


def _scan_all(store: Database, table: Table, threads: int) -> None:
    scan(store, table, NUMBERS, (), threads, lambda batch: [column.values() for column in batch.columns()])


def _parquet_q6(parquet: Path) -> int:
    field = pc.field
    wanted = (
        (field("l_shipdate") >= pa.scalar(8766, pa.int32()).cast(pa.date32()))
        & (field("l_shipdate") < pa.scalar(9131, pa.int32()).cast(pa.date32()))
        & (field("l_discount") >= pa.scalar("0.05").cast(pa.decimal128(15, 2)))
        & (field("l_discount") <= pa.scalar("0.07").cast(pa.decimal128(15, 2)))
        & (field("l_quantity") < pa.scalar("24.00").cast(pa.decimal128(15, 2)))
    )
    rows = ds.dataset(parquet).to_table(columns=list(Q6_COLUMNS), filter=wanted)
    return int(pc.sum(pc.multiply(rows["l_extendedprice"], rows["l_discount"])).as_py() * 10_000)


def _updates(store: Database, rows: pa.Table, runs: int, threads: int) -> list[Measure]:
    table = store.table("lineitem")

    def q6() -> float:
        return timed(lambda: scan_q6(store, table, threads), runs)

    before = q6()
    rng = np.random.default_rng(1)
    seconds = _update(store, table, rows, rng.choice(rows.num_rows, rows.num_rows // 100, replace=False), rng)
    found = [
        Measure("1 % of the rows updated, in batches", rows.num_rows // 100 / seconds, None, "rows/s", "", ""),
        Measure("Q6's scan after it", q6(), before, "ms", "itself before", "at most 1.5x"),
    ]
    store.compact_table(table)
    found.append(Measure("Q6's scan after compaction", q6(), before, "ms", "itself before", "at most 1.05x"))
    hot = rng.choice(rows.num_rows, 1_000, replace=False)
    _update(store, table, rows, np.tile(hot, 200), rng)
    found.append(
        Measure("Q6's scan after 200,000 updates of 1,000 rows", q6(), before, "ms", "itself before", "at most 2x")
    )
    return found


def _update(store: Database, table: Table, rows: pa.Table, chosen: Any, rng: np.random.Generator) -> float:
    """Assigns other quantities and discounts to the chosen rows, in batches; returns the duration in seconds."""
    keys = rows.select(["l_orderkey", "l_linenumber"])
    started = time.perf_counter()
    for start in range(0, len(chosen), BATCH_ROWS):
        mine = keys.take(pa.array(chosen[start : start + BATCH_ROWS])).combine_chunks()
        columns = dict(zip(mine.column_names, (c.combine_chunks() for c in mine.columns)))
        for name, hundredths in (("l_quantity", np.arange(100, 5_001, 100)), ("l_discount", np.arange(11))):
            columns[name] = physical_to_arrow(table.schema.column(name).type, rng.choice(hundredths, mine.num_rows))
        batch = pa.record_batch({n: c.cast(table.schema.column(n).type.arrow) for n, c in columns.items()})
        result = store.write(table, WriteBatch(batch, Op.UPDATE))
        if result.errors:
            raise result.errors[0].error
    return time.perf_counter() - started


# ---- batches ---------------------------------------------------------------------------------------------------------


def _batches(place: Path, source: Path, create_table: str, threads: int) -> list[Measure]:
    """Inserts lineitem's first million rows in batches of 10,000, with the log."""
    with connect(str(place / "batches"), threads=threads) as connection:
        connection.execute(create_table)
    found = []
    for durability in ("fsync", "os"):
        with Database(place / "batches", durability=durability, threads=threads) as store:
            table = store.table("lineitem")
            rows = pq.read_table(source).slice(0 if durability == "os" else BATCHES * BATCH_ROWS, BATCHES * BATCH_ROWS)
            rows = rows.select(table.schema.names).cast(table.schema.arrow).combine_chunks()
            started = time.perf_counter()
            for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
                store.write(table, WriteBatch(batch, Op.INSERT))
            speed = rows.num_rows / (time.perf_counter() - started)
            name = f"batches of {BATCH_ROWS:,} rows, durability {durability}"
            found.append(Measure(name, speed, None, "rows/s", "", "at least 250,000"))
    return found


# ---- time ------------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], object], runs: int) -> float:
    """The median of some runs in milliseconds, after a warm-up run."""
    work()
    seconds = []
    for _ in range(max(runs, 3)):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e3


def show(measures: Sequence[Measure], console: Console) -> None:
    """Prints all measures."""
    table = TextTable(title="the storage engine, lineitem", title_justify="left")
    for name, justify in (("", "left"), ("nyala", "right"), ("peer", "right"), ("", "left"), ("ratio", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("wanted")
    for line in measures:
        theirs = "" if line.theirs is None else f"{line.theirs:,.1f} {line.unit}"
        ratio = "" if line.ratio is None else f"{line.ratio:.3f}"
        table.add_row(line.name, f"{line.ours:,.1f} {line.unit}", theirs, line.peer, ratio, line.wanted)
    console.print(table)
