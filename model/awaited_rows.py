"""Single rows for asyncio: calls of servers that are awaited on the running event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .schema import Table
from .store import Op, Store, Timestamp, WriteResult

InThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function that may wait in another thread; its result is awaited."""


class AwaitedRows(Protocol):
    """The rows of a store that has servers. The rare operations that may wait otherwise, such as a call of the masters,
    run `in_thread`."""

    async def read_row(
        self,
        table: Table,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        in_thread: InThread,
    ) -> tuple[Any, ...] | None:
        """As `Store.read_row`."""

    async def write_row(self, table: Table, op: Op, row: Mapping[str, Any], in_thread: InThread) -> WriteResult:
        """As `Store.write_row`. A write whose task is cancelled is applied as a whole, or not at all."""


@runtime_checkable
class HasAwaitedRows(Protocol):
    """A store with such rows."""

    @property
    def awaited_rows(self) -> AwaitedRows:
        """The rows."""


def awaited_rows_of(store: Store) -> AwaitedRows | None:
    """Returns the rows of a store that has servers; None for the embedded store and for transactions."""
    return store.awaited_rows if isinstance(store, HasAwaitedRows) else None
