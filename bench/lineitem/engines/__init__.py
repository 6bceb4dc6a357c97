"""The stores under test, by their names in `--engines`.

A store's module is imported only where the store is used, so that no process loads the client of another store.
One module a store, such as `sqlite`.
"""

from __future__ import annotations

from typing import Final

from ....errors import InterfaceError, did_you_mean
from ..model import Engine

NAMES: Final = ("nyala", "nyala-parquet", "duckdb", "postgres", "sqlite")


def engine_class(name: str) -> type[Engine]:
    """The engine of a name; raises `InterfaceError` if there is none."""
    match name:
        case "nyala":
            from .nyala import Nyala

            return Nyala
        case "nyala-parquet":
            from .nyala import NyalaParquet

            return NyalaParquet
        case "duckdb":
            from .duckdb import DuckDB

            return DuckDB
        case "postgres":
            from .postgres import Postgres

            return Postgres
        case "sqlite":
            from .sqlite import SQLite

            return SQLite
    raise InterfaceError(f"there is no engine {name}{did_you_mean(name, NAMES)}")
