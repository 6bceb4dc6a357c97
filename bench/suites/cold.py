"""Fixed costs: a process to its first row, its memory at rest and after work, statements whose texts are all new.

Every measurement is in a fresh process (`cold_process`), the engines in turn, `runs` times after a first one:

    first_row                   from the start of the process to the first row of a stored table
    point, range, ...           one statement of a new text, in a warm process
    busy                        nine analytical queries
    create_tables, open_tables  100 tables with a row each; a process to the first row of one of them
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ..work_directory import work_directory
from .engines import ENGINES, missing
from .model import REFERENCE, SuiteResult, TableFile, TableSpec, Timing
from .queries.draws import generator, joined, number_texts, phrase, pieces, record_batch, words, zipf
from .runner import Setting, describe, size_text, write_table

SEED: Final = 3
STATEMENTS: Final = 100
TABLES: Final = 100
GROUPS: Final = 50
LIMIT_SECONDS: Final = 600.0
"""A process that takes longer is killed."""
TAKING_PART: Final = frozenset({"nyala", "duckdb", "sqlite"})
_PROGRAM: Final = Path(__file__).with_name("cold_process.py")

T: Final = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("g", pa.int32(), nullable=False),
        pa.field("v", pa.int32(), nullable=False),
        pa.field("f", pa.float64(), nullable=False),
        pa.field("s", pa.string(), nullable=False),
    ]
)
DIMENSION: Final = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("next", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
    ]
)


def tables(rows: int) -> list[TableSpec]:
    """The table `t`, and three dimensions that lead to each other."""
    return [
        TableSpec("t", T, ("k",), lambda: _batches(rows)),
        *(TableSpec(f"d{number}", DIMENSION, ("id",), _dimension) for number in (1, 2, 3)),
    ]


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    vocabulary = words(2_000, SEED)
    for number, first, count in pieces(rows):
        rng = generator(SEED, number)
        ranks = zipf(rng, max(rows // 20, 10), count, 0.7)
        columns: dict[str, pa.Array | np.ndarray] = {
            "k": np.arange(first, first + count),
            "g": rng.integers(0, GROUPS, count),
            "v": rng.integers(0, 1_000, count),
            "f": rng.random(count),
            "s": joined(phrase(ranks, vocabulary, 90, 3), " ", number_texts(ranks)),
        }
        yield record_batch(T, columns)


def _dimension() -> Iterator[pa.RecordBatch]:
    numbers = np.arange(GROUPS)
    names = joined("name ", number_texts(numbers))
    yield record_batch(DIMENSION, {"id": numbers, "next": (numbers * 7 + 3) % GROUPS, "name": names})


_Answers: TypeAlias = dict[str, dict[str, object]]
"""The first answers by step and engine."""


@dataclass(frozen=True, slots=True)
class Cold:
    """The suite.

    Parameters
    ----------
    statements, tables : int
        Statements of each kind, and tables to create.
    """

    statements: int = STATEMENTS
    tables: int = TABLES
    name: str = "cold"
    title: str = "Cold starts, memory and new texts"
    text: str = (
        "Fresh processes: to the first row of a stored table, statements whose texts are all different (a row by key, "
        "a range, 30 sums, four tables, a list of 1,000 values, UPDATE and INSERT of a row), analytical queries with "
        "the memory before and after them, and 100 tables."
    )
    default: int = 500_000

    def missing(self) -> str | None:
        return None

    def run(self, setting: Setting) -> SuiteResult:
        size = setting.size("rows", self.default)
        result = SuiteResult(self.name, size_text("rows", size), setting.runs, setting.threads)
        with work_directory(setting.work) as home:
            names = list(_loaded(home, size.rows, setting, result))
            processes = _Processes(home, setting.threads, size.rows)
            answers: _Answers = {}
            for round_ in range(setting.runs + 1):
                setting.say(f"cold: round {round_ + 1} of {setting.runs + 1}")
                for name in names:
                    self._round(name, round_, processes, result, answers)
            _compare(result, answers)
        return result

    def _round(self, name: str, round_: int, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        for step, task in (("first_row", self._first_row), ("texts", self._texts), ("busy", self._busy)):
            _measured(result.timing(step, name), task, name, processes, result, answers)
        if round_ == 0:  # what it measures takes long enough to be measured once
            _measured(result.timing("create_tables", name), self._create_tables, name, processes, result, answers)
        _measured(result.timing("open_tables", name), self._open_tables, name, processes, result, answers)
        if not result.queries["texts"][name].trouble:
            result.queries["texts"].pop(name)
        if not result.queries["texts"]:
            result.queries.pop("texts")

    def _first_row(self, name: str, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        found, wall = processes.run(name, "first_row")
        result.timing("first_row", name).add(wall, found["cpu"])
        answers.setdefault("first_row", {}).setdefault(name, found["rows"])

    def _texts(self, name: str, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        # Other texts in each round, since inserted rows stay.
        done = len(result.timing("point", name).wall) + (result.timing("point", name).first_wall is not None)
        found, _ = processes.run(name, "texts", self.statements, first=done * (self.statements + 1))
        for kind, (wall, cpu) in found["steps"].items():
            result.timing(kind, name).add(wall, cpu)

    def _busy(self, name: str, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        found, _ = processes.run(name, "busy")
        result.timing("busy", name).add(*found["step"])
        for what in ("idle", "busy", "peak"):
            if found[what] is not None:
                result.figures.setdefault(f"memory, {what}, MB", {})[name] = found[what]
        result.figures.setdefault("processor time at rest, ms per second", {})[name] = 1e3 * found["resting"]

    def _create_tables(self, name: str, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        found, _ = processes.run(name, "tables", self.tables, "tables")
        result.timing("create_tables", name).add(*found["step"])

    def _open_tables(self, name: str, processes: _Processes, result: SuiteResult, answers: _Answers) -> None:
        found, wall = processes.run(name, "open_tables", self.tables, "tables")
        result.timing("open_tables", name).add(wall, found["cpu"])
        answers.setdefault("open_tables", {}).setdefault(name, found["rows"])


def _loaded(home: Path, rows: int, setting: Setting, result: SuiteResult) -> Iterator[str]:
    """Loads the tables into each engine and closes it again."""
    (home / "data").mkdir()
    files: Sequence[TableFile] = [write_table(table, home / "data") for table in tables(rows)]
    for name in setting.engines:
        reason = missing(name) if name in TAKING_PART else "it has no processes of its own here"
        if reason is not None:
            result.left_out[name] = reason
            continue
        for place in ("tables", "store"):
            (home / name / place).mkdir(parents=True)
        engine = ENGINES[name](home / name / "store", setting.threads, setting.buckets)
        try:
            engine.load(files)
            result.versions[name] = engine.version()
        finally:
            engine.close()
        yield name


@dataclass(frozen=True, slots=True)
class _Processes:
    home: Path
    threads: int
    rows: int

    def run(
        self, engine: str, task: str, count: int = 0, place: str = "store", first: int = 0
    ) -> tuple[dict[str, Any], float]:
        """The output of a process, and the seconds from its start to its first line."""
        command = [sys.executable, "-P", str(_PROGRAM), engine, str(self.home / engine / place)]
        command += [task, str(count), str(self.threads), str(self.rows), str(first)]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            wall = time.perf_counter() - began
            try:
                _, errors = process.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise OperationalError(f"not done after {LIMIT_SECONDS:g} s") from None
        if process.returncode or not line:
            raise OperationalError((errors.strip().splitlines() or [f"exit {process.returncode}"])[-1])
        found: dict[str, Any] = json.loads(line)
        return found, wall


def _measured(timing: Timing, task: Any, name: str, *rest: Any) -> None:
    if timing.trouble:
        return
    try:
        task(name, *rest)
    except (OperationalError, OSError, ValueError) as error:
        timing.trouble = f"failed: {describe(error)}"


def _compare(result: SuiteResult, answers: _Answers) -> None:
    """Marks the engines whose first answers differ from DuckDB's."""
    for step, found in answers.items():
        for name, rows in found.items():
            if REFERENCE in found and rows != found[REFERENCE]:
                result.timing(step, name).trouble = f"wrong: {rows} instead of {found[REFERENCE]}"
