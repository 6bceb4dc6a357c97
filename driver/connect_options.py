"""The types of `connect`'s options, for type checkers and editors; `connection.connect` describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

Durability: TypeAlias = Literal["fsync", "os"]


class ConnectOptions(TypedDict, total=False):
    """The options of `nyala.connect`; None means that the option is not given."""

    # Of each connection.
    threads: int | None
    memory_limit: int | str | None
    temp_directory: str | Path | None
    engine: Literal["nyala", "spark"] | str | None
    autocommit: bool | None
    isolation_level: (
        Literal["SNAPSHOT", "SERIALIZABLE", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ"] | str | None
    )
    observed: int | None
    # Of a directory.
    durability: Durability | None
    history_seconds: int | None
    maintenance_io_limit: int | str | None
    store_memory: int | str | None
    # Of a cluster.
    deadline: float | None
    read_mode: Literal["READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT"] | None
    replica_selection: Literal["auto", "leader", "closest", "any"] | None
    location: str | None
    commit_wait: bool | None
    speculative_reads: Literal["off", "snapshots", "recent"] | None
    connect_deadline: float | None
    tls_ca: str | Path | None
    tls_cert: str | Path | None
    tls_key: str | Path | None
    user: str | None
    password: str | None
