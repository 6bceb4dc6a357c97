"""The options of `connect`: those that there are, of which kind of store, and their values in plain units."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from .. import errors
from ..errors import InterfaceError
from ..model.observed_time import checked_token
from ..sql.settings import parse_bytes, parse_rate, read_option
from .session import engines
from .stores.cluster_url import TLS_OPTIONS, USER_ENVIRONMENT, tls_options, with_parameters, without_password
from .stores.open_stores import is_cluster

STORE_OPTIONS: Final = ("durability", "history_seconds", "maintenance_io_limit", "store_memory")
"""Options of a directory; for a cluster they are options of its servers."""
_CLUSTER_OPTIONS: Final = (
    "deadline",
    "read_mode",
    "replica_selection",
    "location",
    "commit_wait",
    "speculative_reads",
    "connect_deadline",
    *TLS_OPTIONS,
    *USER_ENVIRONMENT,
)
_DATABASE_NAMES: Final = {"store_memory": "memory_limit_bytes"}
"""Options that `storage.database.Database` calls otherwise."""
SESSION_OPTIONS: Final = ("threads", "memory_limit", "temp_directory", "engine")
_TRANSACTION_OPTIONS: Final = ("autocommit", "isolation_level")
DURABILITIES: Final = ("fsync", "os")


def whole_target(target: str | Path, options: dict[str, Any]) -> str | Path:
    """The target for other processes that open the store, with the TLS files that were passed as options, and without
    a password: theirs is in their environment."""
    if not is_cluster(target):
        return target
    return with_parameters(without_password(str(target)), tls_options(str(target), options))


def check_target(target: object) -> None:
    """`InterfaceError` for what names no place."""
    choices = 'a directory, ":memory:" or nyala://host:port,host:port'
    if not isinstance(target, (str, os.PathLike)):
        raise InterfaceError(f"connect takes {choices}, not {target!r} of type {type(target).__name__}")
    name = os.fspath(target)
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InterfaceError(f"{target!r} names no store: connect takes {choices}; the current directory is '.'")


def store_options(target: str | Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Options to open the store with; `InterfaceError` for an option that is not valid for its kind."""
    wanted: tuple[str, ...] = STORE_OPTIONS
    others: tuple[str, ...] = _CLUSTER_OPTIONS
    kind, who = "a cluster (nyala://)", "a directory has no servers"
    if is_cluster(target):
        wanted, others = others, wanted
        kind, who = "a directory", f"the servers of {target} set it when they start"
    for name in others:
        if name in settings:
            raise InterfaceError(f"{name} is an option of {kind}: {who}")
    return {_DATABASE_NAMES.get(name, name): settings[name] for name in wanted if name in settings}


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, checked and in plain units."""
    known = (*STORE_OPTIONS, *SESSION_OPTIONS, *_TRANSACTION_OPTIONS, *_CLUSTER_OPTIONS, "observed")
    for name in options:
        if name not in known:
            raise InterfaceError(f"connect has no option {name}{errors.did_you_mean(name, known, 'there are')}")
    checked = {name: value for name, value in options.items() if value is not None}
    threads = checked.get("threads", 1)
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InterfaceError(f"threads={threads!r}: a whole number of at least 1 is needed")
    durability = checked.get("durability", "fsync")
    if durability not in DURABILITIES:
        raise InterfaceError(f"durability={durability!r}: there are {' and '.join(map(repr, DURABILITIES))}")
    seconds = checked.get("history_seconds", 0)
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
        raise InterfaceError(f"history_seconds={seconds!r}: a whole number of seconds is needed")
    if "store_memory" in checked:
        checked["store_memory"] = parse_bytes(checked["store_memory"], "store_memory")
    if "maintenance_io_limit" in checked:
        checked["maintenance_io_limit"] = parse_rate(checked["maintenance_io_limit"])
    for name in ("memory_limit", "temp_directory", "engine"):
        if name in checked:
            checked[name] = read_option(name, checked[name])
    if "observed" in checked:
        checked["observed"] = checked_token(checked["observed"])
    if "isolation_level" in checked:
        checked["isolation_level"] = read_option("transaction_isolation", checked["isolation_level"])
    if not isinstance(checked.get("autocommit", True), bool):
        raise InterfaceError(f"autocommit={checked['autocommit']!r}: True or False is needed")
    if "engine" in checked:
        _check_engine(checked["engine"])
    return checked


def _check_engine(name: str) -> None:
    try:
        engines.check(name)
    except errors.StatementError as error:
        raise InterfaceError(str(error)) from None
