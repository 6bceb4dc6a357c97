"""nyala twice: the store that is compared, and the same executor without it, on the Parquet files.

The second is the comparison of the Kudu paper (its Table 1): one engine above two storages. The difference between the
two is due to the store: encodings, lazy materialisation, predicates on codes, keys in order.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ...driver.connection import Connection, connect
from ...model.version import __version__
from ..generate import parquet_file
from ..schema import TABLES
from .peer import quoted


class Store:
    """The tables that `nyala tpch load` filled, through a connection that the caller owns."""

    name = "nyala"
    version = __version__

    def __init__(self, connection: Connection):
        self._connection = connection

    def missing(self) -> str | None:
        return None

    def prepare(self, data: Path, threads: int) -> None:
        """Does nothing; the connection has its threads already."""

    def run(self, text: str) -> pa.Table:
        return self._connection.execute(text).arrow()

    def close(self) -> None:
        """Does nothing; the caller closes its connection."""


class StorelessNyala:
    """Views over `read_parquet` in an otherwise empty store. pyarrow reads the files."""

    name = "pyarrow-parquet"

    def __init__(self) -> None:
        self._connection: Connection | None = None

    @property
    def version(self) -> str:
        return f"nyala {__version__}, pyarrow {pa.__version__}"

    def missing(self) -> str | None:
        return None

    def prepare(self, data: Path, threads: int) -> None:
        self._connection = connect(":memory:", threads=threads)
        for spec in TABLES:
            source = quoted(parquet_file(data, spec.name))
            self._connection.execute(f"CREATE VIEW {spec.name} AS SELECT * FROM read_parquet({source})")

    def run(self, text: str) -> pa.Table:
        assert self._connection is not None, "prepare must be called first"
        return self._connection.execute(text).arrow()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
