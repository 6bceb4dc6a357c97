"""The engines that `nyala tpch compare` runs, each a small class that implements the protocol `Peer`.

    duckdb-parquet      DuckDB reading the Parquet files
    duckdb              DuckDB's own tables, in memory
    pyarrow-parquet     nyala's own executor reading the Parquet files, without the store
    datafusion-parquet  DataFusion reading the Parquet files
    spark-parquet       Spark reading the Parquet files, in a JVM child process
    spark-nyala         Spark over the store's tablets (`engine="spark"`), in the same JVM

Every peer's package is an optional extra: `Peer.missing` returns the installation advice. A new peer is a class, and a
line in `PEERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .datafusion import DataFusion
from .duckdb import DuckDB
from .ours import Store, StorelessNyala
from .peer import Peer, names_among, opened
from .spark import Spark, SparkOverStore

__all__ = [
    "DEFAULT",
    "PEERS",
    "DataFusion",
    "DuckDB",
    "Peer",
    "Spark",
    "SparkOverStore",
    "Store",
    "StorelessNyala",
    "opened",
    "parse",
]

PEERS: Final[dict[str, Callable[[], Peer]]] = {
    "duckdb-parquet": DuckDB,
    "duckdb": lambda: DuckDB(native=True),
    "pyarrow-parquet": StorelessNyala,
    "datafusion-parquet": DataFusion,
    "spark-parquet": Spark,
    "spark-nyala": SparkOverStore,
}
"""Constructors of peers by name. Construction starts nothing."""

DEFAULT: Final = "duckdb-parquet,duckdb,pyarrow-parquet"
"""The default peers."""


def parse(text: str) -> list[Peer]:
    """The peers of a list such as "duckdb-parquet,duckdb", each once.

    >>> [peer.name for peer in parse("duckdb, spark-parquet,duckdb")]
    ['duckdb', 'spark-parquet']
    """
    return [PEERS[name]() for name in names_among(text, PEERS, "peer")]
