"""nyala: a columnar SQL store for fast analytics on fast-changing data.

>>> import nyala
>>> with nyala.connect(":memory:") as connection:
...     connection.execute("SELECT 6 * 7 AS answer").fetchone()
(42,)

This module is PEP 249's: `connect`, its exceptions, type objects and constructors. `nyala.aio` is the same for asyncio;
`col` and `ScanToken` are for tables without SQL (`nyala.driver.tables.table_handle`).
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Unpack

from .driver import doors as driver_doors
from .driver.dbapi_types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from .driver.session import engines
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from .model.blas_threads import short_spinning
from .model.collector import paused_collector
from .model.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from .driver import aio
    from .driver.connect_options import ConnectOptions
    from .driver.connection import Connection
    from .driver.tables.conditions import col
    from .driver.tables.scan_tokens import ScanToken

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections (PEP 249)."""
paramstyle = "qmark"
"""`?` with a sequence; `$1` with a sequence and `:name` with a mapping are understood too."""

_LOADED_LATER = {"aio": ".driver.aio", "col": ".driver.tables.conditions", "ScanToken": ".driver.tables.scan_tokens"}

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ScanToken",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "aio",
    "apilevel",
    "col",
    "connect",
    "paramstyle",
    "threadsafety",
]


def connect(target: str | Path = ":memory:", **options: Unpack[ConnectOptions]) -> Connection:
    """Open a store: a directory, or ":memory:". See `nyala.driver.connection.connect` for options and errors.

    Arrow, numpy and the parser are loaded here and not with `import nyala`, which takes a few milliseconds so.
    """
    if f"{__name__}.driver.connection" not in sys.modules:
        with paused_collector(), short_spinning():
            importlib.import_module(".driver.connection", __name__)
    from .driver import connection

    return connection.connect(target, **options)


def _spark(target: str | Path) -> engines.Engine:
    from .spark.engine.engine import SparkEngine

    return SparkEngine(target)


engines.register("spark", _spark)


def _postgres(connection: Connection, address: str, **options: Any) -> driver_doors.Door:
    from .doors.postgres import serve

    return serve(connection, address, **options)


def _flight_sql(connection: Connection, address: str, **options: Any) -> driver_doors.Door:
    from .doors.flight_sql import serve

    return serve(connection, address, **options)


def _http(connection: Connection, address: str, **options: Any) -> driver_doors.Door:
    from .doors.http import serve

    return serve(connection, address, **options)


driver_doors.register("postgres", _postgres)
driver_doors.register("http", _http)
driver_doors.register("flight_sql", _flight_sql)


def __getattr__(name: str) -> Any:
    """Imports names that need Arrow and numpy at their first use."""
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LOADED_LATER[name], __name__)
    return module if name == "aio" else getattr(module, name)
