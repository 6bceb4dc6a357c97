"""The shared types of all suites: tables, queries, suites, and the measurements that a run produces."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...model.lazy_dataclass import dataclass

US: Final = "nyala"
REFERENCE: Final = "duckdb"
"""The engine whose answers and times the others are compared with."""

Row: TypeAlias = tuple[Any, ...]

_SQL_TYPES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table of a suite.

    Parameters
    ----------
    name : str
    schema : pa.Schema
        The columns of the key come first, in the order of the key, and are not nullable.
    key : sequence of str
        The columns of the primary key.
    batches : callable
        Called without arguments; yields the rows, the same ones each time.
    """

    name: str
    schema: pa.Schema
    key: Sequence[str]
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def create_table(self, buckets: int = 1) -> str:
        """The CREATE TABLE statement for nyala; `buckets` above 1 hashes the last column of the key."""
        lines = [
            f"{column.name} {sql_type(column.type)}{'' if column.nullable else ' NOT NULL'}" for column in self.schema
        ]
        text = f"CREATE TABLE {self.name} ({', '.join(lines)}, PRIMARY KEY ({', '.join(self.key)}))"
        if buckets > 1:
            text += f" DISTRIBUTE BY HASH ({self.key[-1]}) INTO {buckets} BUCKETS"
        return text

    def read(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)


def sql_type(type_: pa.DataType) -> str:
    """The type of a column in SQL.

    >>> sql_type(pa.int16()), sql_type(pa.string()), sql_type(pa.decimal128(12, 2))
    ('SMALLINT', 'VARCHAR', 'DECIMAL(12, 2)')
    """
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _SQL_TYPES.get(type_, "VARCHAR")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table whose rows are in the Parquet file `path`."""

    spec: TableSpec
    path: Path


@dataclass(frozen=True, slots=True)
class Query:
    """A query in nyala's dialect, and its text for DuckDB where the dialects differ."""

    name: str
    text: str
    duckdb: str = ""

    @property
    def reference_text(self) -> str:
        """The text for DuckDB."""
        return self.duckdb or self.text


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a suite's data: `rows` for tables of one size, `scale` for those with a scale factor."""

    rows: int
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class QuerySuite:
    """A suite of queries over generated tables.

    Parameters
    ----------
    name : str
        The name in the command line.
    title, text : str
        The heading, and a description of the data and the queries, for the report.
    unit : str
        "rows" or "scale": the part of `Size` that counts.
    default : float
        The default number of rows, or scale factor.
    tables : callable
        Returns the tables of a size.
    queries : callable
        Returns the queries of a size.
    missing : callable
        Returns the installation advice for a missing package; None if the suite can run.
    """

    name: str
    title: str
    text: str
    unit: str
    default: float
    tables: Callable[[Size, Path], Sequence[TableSpec | TableFile]]
    queries: Callable[[Size], Sequence[Query]]
    missing: Callable[[], str | None] = lambda: None


@dataclass(slots=True)
class Timing:
    """The times of one query, or step, on one engine; `trouble` is the fault if it failed or its answer is wrong.

    Attributes
    ----------
    first_wall, first_cpu : float, optional
        Seconds of the first run in the process, and of all its threads.
    wall, cpu : list of float
        The same of each warm run.
    """

    first_wall: float | None = None
    first_cpu: float | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rows: int | None = None
    trouble: str = ""

    def add(self, wall: float, cpu: float) -> None:
        """Adds a run; the first one is kept apart."""
        if self.first_wall is None:
            self.first_wall, self.first_cpu = wall, cpu
        else:
            self.wall.append(wall)
            self.cpu.append(cpu)

    def as_json(self) -> dict[str, Any]:
        """Plain data with the medians; a query that ran once counts with its first run."""
        return {
            "first_wall": self.first_wall,
            "first_cpu": self.first_cpu,
            "wall": statistics.median(self.wall) if self.wall else self.first_wall,
            "cpu": statistics.median(self.cpu) if self.cpu else self.first_cpu,
            "runs": {"wall": self.wall, "cpu": self.cpu},
            "rows": self.rows,
            "trouble": self.trouble,
        }


@dataclass(slots=True)
class SuiteResult:
    """The measurements of one suite.

    Attributes
    ----------
    size : str
        For example "2,000,000 rows".
    queries : dict
        By query, or step, and engine.
    figures : dict
        Other numbers by name and engine, for example "on disk after load, MB".
    left_out : dict
        The reasons for engines that did not take part.
    """

    name: str
    size: str
    runs: int
    threads: int
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    queries: dict[str, dict[str, Timing]] = field(default_factory=dict)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def timing(self, query: str, engine: str) -> Timing:
        """The times of a query on an engine, empty at first."""
        return self.queries.setdefault(query, {}).setdefault(engine, Timing())

    def as_json(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "name": self.name,
            "size": self.size,
            "runs": self.runs,
            "threads": self.threads,
            "versions": self.versions,
            "left_out": self.left_out,
            "queries": {
                query: {engine: timing.as_json() for engine, timing in timings.items()}
                for query, timings in self.queries.items()
            },
            "figures": self.figures,
        }


def named_queries(text: str, values: Mapping[str, object] | None = None) -> list[Query]:
    """The queries of a file of `texts/`: each follows a line `-- NAME`; `-- NAME duckdb` gives its text for DuckDB.

    >>> named_queries("-- 1\\nSELECT {n}\\n-- 2\\nSELECT 2;\\n-- 2 duckdb\\nSELECT 3", {"n": 7})
    [Query(name='1', text='SELECT 7', duckdb=''), Query(name='2', text='SELECT 2', duckdb='SELECT 3')]
    """
    texts: dict[str, dict[str, str]] = {}
    for part in f"\n{text}".split("\n-- ")[1:]:
        heading, _, body = part.partition("\n")
        name, _, engine = heading.strip().partition(" ")
        for key, value in (values or {}).items():
            body = body.replace("{" + key + "}", str(value))
        texts.setdefault(name, {})[engine] = body.strip().rstrip(";")
    return [Query(name, by_engine[""], by_engine.get("duckdb", "")) for name, by_engine in texts.items()]


def queries_of(file: str, values: Mapping[str, object] | None = None) -> list[Query]:
    """The queries of `texts/FILE`."""
    return named_queries((Path(__file__).parent / "queries" / "texts" / file).read_text(encoding="utf-8"), values)
