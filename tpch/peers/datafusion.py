"""Apache DataFusion on the Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ..generate import parquet_file
from ..schema import TABLES
from .peer import missing_module


class DataFusion:
    """DataFusion with its defaults, and as many partitions per operator as there are threads."""

    name = "datafusion-parquet"

    def __init__(self) -> None:
        self._context: Any = None

    @property
    def version(self) -> str:
        import datafusion

        return str(datafusion.__version__)

    def missing(self) -> str | None:
        return missing_module("datafusion", "DataFusion", "tpch")

    def prepare(self, data: Path, threads: int) -> None:
        from datafusion import SessionConfig, SessionContext

        self._context = SessionContext(SessionConfig().with_target_partitions(threads))
        for spec in TABLES:
            self._context.register_parquet(spec.name, str(parquet_file(data, spec.name)))

    def run(self, text: str) -> pa.Table:
        table: pa.Table = self._context.sql(text).to_arrow_table()
        return table

    def close(self) -> None:
        self._context = None
