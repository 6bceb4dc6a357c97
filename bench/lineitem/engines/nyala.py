"""Embedded nyala, and the same executor on a Parquet file, which is the paper's own comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa

from ....driver.connection import Connection, connect
from ....model.version import __version__
from ....tpch.peers.peer import quoted
from ...files import disk_bytes
from ..model import TABLE, EngineJob, Query, Row


class _Executor(ABC):
    """nyala's SQL over a table of that name."""

    def __init__(self, job: EngineJob) -> None:
        self._job = job
        self._connection: Connection | None = None

    @abstractmethod
    def open(self) -> None:
        """Connects."""

    def run(self, query: Query) -> list[Row]:
        assert self._connection is not None, "open comes first"
        return [tuple(row) for row in self._connection.execute(query.text).fetchall()]

    def converted(self, query: Query, rows: list[Row]) -> list[Row]:
        return rows

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Nyala(_Executor):
    """The table with `--buckets` tablets, and the defaults of `nyala.connect`; a bulk load is always synced."""

    name: ClassVar[str] = "nyala"
    settings: ClassVar[str] = "embedded, defaults; primary key checked while loading"

    def load(self) -> bool:
        assert self._connection is not None, "open comes first"
        self._connection.execute(self._job.create_table)
        self._connection.load(TABLE, self._job.source)
        return True

    def open(self) -> None:
        self._connection = connect(self._job.home / "store", threads=self._job.threads)

    def disk_bytes(self) -> int:
        return disk_bytes(self._job.home)

    def version(self) -> str:
        return f"nyala {__version__}"


class NyalaParquet(_Executor):
    """A view over the source file in place, so that there is nothing to load."""

    name: ClassVar[str] = "nyala-parquet"
    settings: ClassVar[str] = "nyala's executor over the Parquet file that the others load; pyarrow reads it"

    def load(self) -> bool:
        return False

    def open(self) -> None:
        self._connection = connect(":memory:", threads=self._job.threads)
        self._connection.execute(f"CREATE VIEW {TABLE} AS SELECT * FROM read_parquet({quoted(self._job.source)})")

    def disk_bytes(self) -> int:
        return self._job.source.stat().st_size

    def version(self) -> str:
        return f"nyala {__version__}, pyarrow {pa.__version__}"
