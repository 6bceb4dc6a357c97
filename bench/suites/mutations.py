"""Bulk changes: loads, upserts, UPDATE of all rows, DELETE by predicate, and scans after each of them.

Each engine goes through the same steps on the same rows, one step on all engines before the next:

    load                        `rows` rows with even keys, in random order
    upsert_random_1, _10, _100  a tenth of the rows, of which 1, 10 or 100 % exist; the others have odd keys in between
    upsert_sorted_10            the same with ascending keys of one range
    append                      a tenth of the rows, beyond the last key
    update_all, update_tenth    one column of all rows; of a tenth, by a predicate
    delete_tenth                a tenth, by a predicate
    compact                     COMPACT TABLE; CHECKPOINT; VACUUM; optimize
    small_loads                 20 loads of 200 rows each, beyond the last key
    scan_NAME                   a grouped scan after each step, `runs` times
    rows                        number and sums of all rows at the end

Upserts are Arrow tables for nyala and delta-rs, Arrow tables by SQL for DuckDB, and rows of Python values for SQLite.
All engines make each step durable. An answer of a scan that differs from DuckDB's is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..work_directory import work_directory
from . import answers
from .model import REFERENCE, SuiteResult, TableSpec, Timing
from .mutation_engines import MUTATION_ENGINES, Changes, missing
from .queries.draws import by_rank, generator, identifiers, joined, number_texts, phrase, record_batch, words
from .runner import Setting, describe, size_text, stopwatch

SEED: Final = 400
SMALL_LOADS: Final = 20
SMALL_ROWS: Final = 200
GROUPS: Final = 10
KEY: Final = "k"
SCHEMA: Final = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("grp", pa.int32(), nullable=False),
        pa.field("a", pa.int32(), nullable=False),
        pa.field("b", pa.float64(), nullable=False),
        pa.field("c", pa.decimal128(12, 2), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("ts", pa.timestamp("us"), nullable=False),
    ]
)
SCAN: Final = "SELECT grp, count(*), sum(a), sum(c), max(name) FROM m GROUP BY grp ORDER BY grp"
ROWS: Final = "SELECT count(*), sum(k), sum(a), sum(c), min(text), max(ts) FROM m"


def rows_of(keys: np.ndarray, version: int) -> pa.Table:
    """Rows with these keys; their other columns follow from key and version."""
    rng = generator(SEED, version)
    count = len(keys)
    names = by_rank(rng.integers(0, 1_000, count), lambda ranks: phrase(ranks, words(500, SEED), 80, 2))
    cents = pa.array(rng.integers(0, 10**6, count)).cast(pa.decimal128(19, 0))
    columns: dict[str, pa.Array | np.ndarray] = {
        "k": keys,
        "grp": identifiers(keys, 1) % GROUPS,
        "a": rng.integers(0, 1_000, count),
        "b": rng.random(count) * 100,
        "c": pc.divide(cents, pa.scalar(100, pa.decimal128(3, 0))).cast(pa.decimal128(12, 2), safe=False),
        "name": names,
        "text": joined("row ", number_texts(identifiers(keys, 2 + version))),
        "ts": pa.array(1_767_225_600_000_000 + keys * 1_000, pa.timestamp("us")),
    }
    return pa.Table.from_batches([record_batch(SCHEMA, columns)])


def table(rows: int) -> TableSpec:
    """The table with the rows of the load."""
    keys = np.random.default_rng(SEED).permutation(rows) * 2
    return TableSpec("m", SCHEMA, (KEY,), lambda: iter(rows_of(keys, 0).to_batches()))


def upsert_keys(rows: int, overlap: int, version: int, is_sorted: bool = False) -> np.ndarray:
    """A tenth of `rows` keys, of which `overlap` percent are in the table; distinct."""
    rng = np.random.default_rng([SEED, version])
    count = max(rows // 10, 100)
    known = count * overlap // 100
    first = rows // 3 if is_sorted else 0
    range_ = min(2 * count, rows - first) if is_sorted else rows
    old = (first + rng.choice(range_, known, replace=False)) * 2
    # Odd keys of another version differ, so that a later upsert finds as many known keys as it declares.
    new = (first + rng.choice(range_, count - known, replace=False)) * 2 + 1
    keys = np.concatenate([old, new])
    return np.sort(keys) if is_sorted else rng.permutation(keys)


class Mutations:
    """The suite."""

    name = "mutations"
    title = "Bulk changes and scans after them"
    text = (
        "Loads, upserts of a tenth of the rows with 1, 10 and 100 % of known keys, appends, UPDATE of all rows, DELETE "
        "of a tenth by predicate, compaction, loads of 200 rows; after each a grouped scan. DuckDB has a primary key "
        "and INSERT ... ON CONFLICT, or no key and MERGE."
    )
    default = 1_000_000

    def missing(self) -> str | None:
        return None

    def run(self, setting: Setting) -> SuiteResult:
        size = setting.size("rows", self.default)
        result = SuiteResult(self.name, size_text("rows", size), setting.runs, setting.threads)
        with work_directory(setting.work) as directory, ExitStack() as stack:
            engines = dict(_opened(directory, setting, result, stack))
            _Course(engines, setting, result).run(size.rows)
        return result


def _opened(home: Path, setting: Setting, result: SuiteResult, stack: ExitStack) -> Iterator[tuple[str, Changes]]:
    """The engines; DuckDB takes part with a key, and without one."""
    names = [one for name in setting.engines for one in ((name, "duckdb-merge") if name == REFERENCE else (name,))]
    for name in names:
        if (reason := missing(name)) is not None:
            result.left_out[name] = reason
            continue
        (home / name).mkdir()
        engine = MUTATION_ENGINES[name](home / name, setting.threads)
        stack.callback(engine.close)
        result.versions[name] = engine.version()
        yield name, engine


class _Course:
    """One pass through the steps."""

    def __init__(self, engines: dict[str, Changes], setting: Setting, result: SuiteResult) -> None:
        self._engines = engines
        self._setting = setting
        self._result = result

    def run(self, rows: int) -> None:
        spec = table(rows)
        loaded = spec.read()
        self._step("load", lambda engine: engine.load(spec, loaded))
        self._disk("load")
        version = 0
        for name, overlap, is_sorted in (
            ("upsert_random_1", 1, False),
            ("upsert_random_10", 10, False),
            ("upsert_random_100", 100, False),
            ("upsert_sorted_10", 10, True),
        ):
            version += 1
            batch = rows_of(upsert_keys(rows, overlap, version, is_sorted), version)
            self._step(name, lambda engine, batch=batch: engine.upsert(batch))  # type: ignore[misc]
        added = rows_of(2 * rows + np.arange(max(rows // 10, 100)), version + 1)
        self._step("append", lambda engine: engine.append(added))
        self._disk("upserts")
        self._step("update_all", lambda engine: engine.execute("UPDATE m SET a = a + 1"))
        self._disk("update_all")
        self._step("update_tenth", lambda engine: engine.execute("UPDATE m SET c = c + 1, name = 'new' WHERE grp = 3"))
        self._step("delete_tenth", lambda engine: engine.execute("DELETE FROM m WHERE grp = 7"))
        self._step("compact", lambda engine: engine.compact())
        self._disk("compact")
        beyond = 4 * rows + np.arange(SMALL_ROWS)
        small = [rows_of(beyond + number * SMALL_ROWS, version + 2) for number in range(SMALL_LOADS)]
        self._step("small_loads", partial(_append_each, small))
        self._scan("rows", ROWS)

    def _step(self, name: str, work: Callable[[Changes], object]) -> None:
        self._setting.say(f"mutations: {name}")
        for engine_name, engine in list(self._engines.items()):
            timing = self._result.timing(name, engine_name)
            try:
                with stopwatch(timing):
                    work(engine)
            except Exception as error:  # engines may raise any exception; all of them are reported
                timing.trouble = f"failed: {describe(error)}"
                # Its later answers would differ from the others'.
                del self._engines[engine_name]
        self._scan(f"scan_{name}", SCAN)

    def _scan(self, name: str, text: str) -> None:
        timings = {engine: self._result.timing(name, engine) for engine in self._engines}
        expected: pa.Table | None = None
        for number in range(self._setting.runs + 1):
            for engine_name in sorted(self._engines, key=lambda each: each != REFERENCE):
                timing = timings[engine_name]
                if timing.trouble:
                    continue
                answer = _timed_scan(self._engines[engine_name], text, timing)
                if number == 0 and answer is not None:
                    timing.rows = answer.num_rows
                    expected = answer if engine_name == REFERENCE else expected
                    timing.trouble = _difference(text, answer, expected)

    def _disk(self, after: str) -> None:
        figures = self._result.figures.setdefault(f"on disk after {after}, MB", {})
        for name, engine in self._engines.items():
            figures[name] = engine.disk_bytes() / 1e6


def _append_each(batches: list[pa.Table], engine: Changes) -> None:
    for rows in batches:
        engine.append(rows)


def _timed_scan(engine: Changes, text: str, timing: Timing) -> pa.Table | None:
    try:
        with stopwatch(timing):
            return engine.query(text)
    except Exception as error:  # engines may raise any exception; all of them are reported
        timing.trouble = f"failed: {describe(error)}"
        return None


def _difference(text: str, answer: pa.Table, expected: pa.Table | None) -> str:
    if expected is None or answer is expected:
        return ""
    wrong = answers.difference(answers.take_apart(text), _loose(answer), _loose(expected))
    return "" if wrong is None else f"wrong: {wrong}"


def _loose(answer: pa.Table) -> list[tuple[object, ...]]:
    """Rows with times as texts and decimals as doubles, as SQLite has them."""
    columns = []
    for column in answer.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.string())
        elif pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))
