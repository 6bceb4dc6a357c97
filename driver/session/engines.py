"""Engines: what can run a connection's queries in the place of nyala's own executor, by name.

    front door ── register("spark", loader) ──► name: loader      nothing is imported
    connect(..., engine="spark"), SET engine = spark ──► check
    the first query of a session ── opened ──► Engine             loader(target)

An engine is given what the planner made of a query, and gives rows back (`elsewhere`). Parsing, binding, planning, and
every statement that is no query stay as they are, so this room needs to know of no engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ...errors import InterfaceError, NotSupportedError, StatementError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from ...executor import ExecutionContext
    from ...model.store import Transaction
    from ...planner import Plan

LOCAL: Final = "nyala"
"""nyala's own executor."""


class Engine(Protocol):
    """Runs planned queries. Threads may share it."""

    def batches(self, plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
        """The rows of a plan, whose columns have the Arrow types of the plan's, under their names.

        The context has the snapshot, the cancel event (`Cancelled` is raised then), and the progress handler.
        """

    def explain(self, plan: Plan, context: ExecutionContext) -> str:
        """Text of the engine's plan, for EXPLAIN."""

    def close(self) -> None:
        """The session has ended. May be repeated."""


Loader: TypeAlias = Callable[[str | Path], Engine]
"""Makes an engine for a target of `connect`; cheap, so slow steps are left to the first query."""

_loaders: dict[str, Loader] = {}


def register(name: str, loader: Loader) -> None:
    """From now on there is an engine of this name."""
    _loaders[name] = loader


def names() -> list[str]:
    """All engines, nyala's own first."""
    return [LOCAL, *sorted(_loaders)]


def check(name: str) -> None:
    """Raise `StatementError` where there is no engine of this name."""
    if name not in names():
        raise StatementError(f"there is no engine {name}{did_you_mean(name, names(), 'there are')}")


def opened(name: str, target: str | Path | None) -> Engine:
    """An engine for a target; `InterfaceError` where there is no target that it could reach the store by."""
    check(name)
    if target is None:
        raise InterfaceError(f"engine {name} needs a directory or a URL by which it can reach the store")
    return _loaders[name](target)


def refuse_writes_of(transaction: Transaction | None, name: str) -> None:
    """Raise `NotSupportedError` if an engine would not see the writes of a transaction."""
    if transaction is not None and name != LOCAL and transaction.has_writes:
        raise NotSupportedError(
            f"the engine {name} does not read the writes of the transaction in progress: COMMIT first, or "
            f"SET engine = {LOCAL}"
        )


class SessionEngines:
    """The engines that one session has opened, for a target of `connect`. Threads may share it."""

    def __init__(self, target: str | Path | None):
        self._target = target
        self._lock = threading.Lock()
        self._opened: dict[str, Engine] = {}

    def opened(self, name: str, transaction: Transaction | None) -> Engine:
        """An engine, opened at its first use; refused as by `refuse_writes_of`."""
        refuse_writes_of(transaction, name)
        with self._lock:
            if name not in self._opened:
                self._opened[name] = opened(name, self._target)
            return self._opened[name]

    def close(self) -> None:
        """Close all of them."""
        for engine in self._opened.values():
            engine.close()
