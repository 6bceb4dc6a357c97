"""The stores that YCSB runs against, by their names in `--bindings`.

A maker imports its store's module with its dependencies: no binding needs another's packages, and a package that is not
installed is an error of the maker only. One module a store, such as `rocksdb`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ..model import Binding

Maker: TypeAlias = Callable[[], type[Binding]]


def _nyala() -> type[Binding]:
    from .nyala import NyalaBinding

    return NyalaBinding


def _nyala_sql() -> type[Binding]:
    from .nyala_sql import NyalaSqlBinding

    return NyalaSqlBinding


def _cluster() -> type[Binding]:
    from .cluster import ClusterBinding

    return ClusterBinding


def _sqlite() -> type[Binding]:
    from .sqlite import SqliteBinding

    return SqliteBinding


def _duckdb() -> type[Binding]:
    from .duckdb import DuckdbBinding

    return DuckdbBinding


def _postgres() -> type[Binding]:
    from .postgres import PostgresBinding

    return PostgresBinding


def _rocksdb() -> type[Binding]:
    from .rocksdb import RocksdbBinding

    return RocksdbBinding


BINDINGS: Final[dict[str, Maker]] = {
    "nyala": _nyala,
    "nyala-sql": _nyala_sql,
    "cluster": _cluster,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "postgres": _postgres,
    "rocksdb": _rocksdb,
}
"""The embedded store first: reports compare the others with it."""
