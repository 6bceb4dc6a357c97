"""Runs suites: the data as Parquet files, loaded into each engine, then each query on all engines in turn.

    data       one Parquet file per table
    load       nyala | duckdb | ...                            wall and processor time, bytes on disk
    query 1    nyala  duckdb  ...  duckdb  nyala  ...          the first run, then `runs` warm runs; the order rotates
    query 2    alike

Processor time is that of all threads of the process. The medians of the warm runs count. Each engine's first answer is
compared with DuckDB's (`answers`); a wrong or failed query has no further runs and no ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import Error, InterfaceError, did_you_mean
from ...model.lazy_dataclass import dataclass
from ..work_directory import work_directory
from . import answers
from .engines import ENGINES, DuckDB, Engine, missing
from .model import REFERENCE, Query, QuerySuite, Size, SuiteResult, TableFile, TableSpec, Timing

SLOW_SECONDS: Final = 20.0
"""A query whose first run took longer is not run again: its first run counts."""
_ROW_GROUP: Final = 1 << 17


@dataclass(slots=True)
class Setting:
    """The parameters of a run.

    Attributes
    ----------
    engines : sequence of str
        In the order of the first round; `engines.ENGINES` has the names.
    runs : int
        Number of warm runs.
    queries : sequence of str
        Names of the queries to run; all if empty.
    rows, scale : number, optional
        Replace the suites' default sizes.
    work : Path, optional
        The directory for data and databases, which are removed; the system's temporary directory by default.
    """

    engines: Sequence[str]
    runs: int = 5
    threads: int = 2
    buckets: int = 1
    queries: Sequence[str] = ()
    rows: int | None = None
    scale: float | None = None
    work: Path | None = None
    say: Callable[[str], None] = field(default=lambda text: None)

    def size(self, suite_unit: str, default: float) -> Size:
        """The size for a suite that counts in `suite_unit`."""
        if suite_unit == "scale":
            return Size(0, self.scale if self.scale is not None else default)
        return Size(self.rows if self.rows is not None else int(default))


def size_text(unit: str, size: Size) -> str:
    """The size for display.

    >>> size_text("rows", Size(2_000_000)), size_text("scale", Size(0, 0.1))
    ('2,000,000 rows', 'scale factor 0.1')
    """
    return f"scale factor {size.scale:g}" if unit == "scale" else f"{size.rows:,} rows"


def run_suite(suite: QuerySuite, setting: Setting) -> SuiteResult:
    """Measures all queries of a suite on all engines.

    Raises
    ------
    InterfaceError
        If there is no query of a requested name.
    """
    size = setting.size(suite.unit, suite.default)
    queries = select(suite.queries(size), setting.queries)
    result = SuiteResult(suite.name, size_text(suite.unit, size), setting.runs, setting.threads)
    with work_directory(setting.work) as home, ExitStack() as stack:
        setting.say(f"{suite.name}: generating {result.size}")
        (home / "data").mkdir()
        tables = [write_table(table, home / "data") for table in suite.tables(size, home / "data")]
        engines = dict(_loaded(tables, home, setting, result, stack))
        parquet = sum(table.path.stat().st_size for table in tables) / 1e6
        result.figures["Parquet files, MB"] = dict.fromkeys(engines, parquet)
        for query in queries:
            setting.say(f"{suite.name} {query.name}")
            measure_query(query, engines, setting.runs, result.queries.setdefault(query.name, {}))
    return result


def select(queries: Sequence[Query], names: Sequence[str]) -> list[Query]:
    """The queries of these names, in the suite's order; all for no names."""
    known = [query.name for query in queries]
    for name in names:
        if name not in known:
            raise InterfaceError(f"there is no query {name}{did_you_mean(name, known)}; there are {', '.join(known)}")
    return [query for query in queries if not names or query.name in names]


def write_table(table: TableSpec | TableFile, directory: Path) -> TableFile:
    """The table as a Parquet file, written from its batches unless it is one."""
    if isinstance(table, TableFile):
        return table
    path = directory / f"{table.name}.parquet"
    with pq.ParquetWriter(path, table.schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch, _ROW_GROUP)
    return TableFile(table, path)


def _loaded(
    tables: Sequence[TableFile], home: Path, setting: Setting, result: SuiteResult, stack: ExitStack
) -> Iterator[tuple[str, Engine]]:
    """Each engine with its tables; one that is not installed, or cannot load, is left out."""
    for name in setting.engines:
        if (reason := missing(name)) is not None:
            result.left_out[name] = reason
            continue
        setting.say(f"{result.name}: loading {name}")
        (home / name).mkdir()
        engine = ENGINES[name](home / name, setting.threads, setting.buckets)
        stack.callback(engine.close)
        try:
            with stopwatch(result.timing("load", name)):
                engine.load(tables)
        except Exception as error:  # engines may raise any exception; all of them are reported
            result.left_out[name] = f"cannot load: {describe(error)}"
            result.queries["load"].pop(name)
            continue
        result.versions[name] = engine.version()
        result.figures.setdefault("on disk after load, MB", {})[name] = engine.disk_bytes() / 1e6
        yield name, engine


@contextmanager
def stopwatch(timing: Timing) -> Iterator[None]:
    """Adds the wall and processor time of the block to `timing` if it ends well."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    timing.add(time.perf_counter() - wall, time.process_time() - cpu)


def measure_query(query: Query, engines: dict[str, Engine], runs: int, timings: dict[str, Timing]) -> None:
    """Runs a query once and then `runs` times more on each engine in turn, into `timings` by engine.

    The engine that begins a round is the second of the next round, so that none always follows the same other one.
    """
    names = list(engines)
    for name in names:
        timings[name] = Timing()
    first: dict[str, pa.Table] = {}
    for name in names:
        answer = _run(engines[name], query, timings[name])
        if answer is not None:
            first[name] = answer
    expected = first.pop(REFERENCE, None)
    reference = engines.get(REFERENCE)
    if expected is not None and isinstance(reference, DuckDB):
        for name, answer in first.items():
            wrong = _difference(query, name, answer, expected, reference)
            if wrong is not None:
                timings[name].trouble = f"wrong: {wrong}"
    first.clear()
    for number in range(runs):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            timing = timings[name]
            if not timing.trouble and (timing.first_wall or 0.0) < SLOW_SECONDS:
                _run(engines[name], query, timing)


def _run(engine: Engine, query: Query, timing: Timing) -> pa.Table | None:
    try:
        with stopwatch(timing):
            answer = engine.run(query)
    except Exception as error:  # engines may raise any exception; all of them are reported
        timing.trouble = f"failed: {describe(error)}"
        return None
    timing.rows = answer.num_rows
    return answer


def _difference(query: Query, name: str, answer: pa.Table, expected: pa.Table, reference: DuckDB) -> str | None:
    if name in LOOSE_TYPES:
        return None if answer.num_rows == expected.num_rows else f"{answer.num_rows} rows, not {expected.num_rows}"
    try:
        return answers.compare(query.reference_text, answer, expected, reference.run_text)
    except (Error, pa.ArrowException, ValueError, TypeError) as error:
        return f"the answers cannot be compared: {describe(error)}"


LOOSE_TYPES: Final = frozenset({"sqlite", "chdb", "deltalake"})
"""Engines with other types for dates, decimals or booleans: only the number of rows of an answer is compared."""


def describe(error: BaseException) -> str:
    """The first line of an error, with its class."""
    lines: Any = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
