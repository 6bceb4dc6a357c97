"""Quotas of tables: above its quota a table takes deletions only, until it has become smaller.

The size of a table is that of its rowsets' files, and of the rows and changes in memory. Logs are not counted: their
size depends on the store's options, not on the data. It is measured at most every `MEASURE_SECONDS`, so writers may
exceed a quota by what they write in that time; a bulk load is checked when it begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ...errors import QuotaExceeded
from ...model.schema import Table
from ...model.store import Op
from ...model.vectors.vector import Array
from ..maintenance.maintenance_ops import memory_bytes
from ..tablet.tablet import Tablet

MEASURE_SECONDS = 0.05
_DELETIONS = (Op.DELETE, Op.DELETE_IGNORE)


class Quota:
    """Holds a table against its quota. Threads may measure at the same time; one of the results is kept.

    Parameters
    ----------
    clock : callable
        Seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._measured = float("-inf")
        self._size = 0

    def check(self, table: Table, tablets: Sequence[Tablet], ops: Op | Array) -> None:
        """Raise `QuotaExceeded` if the table has reached its quota and the ops are not deletions alone."""
        if table.quota_bytes is None or is_deletion(ops):
            return
        if (now := self._clock()) - self._measured > MEASURE_SECONDS or self._size >= table.quota_bytes:
            self._size, self._measured = table_bytes(tablets), now
        if self._size >= table.quota_bytes:
            raise quota_exceeded(table.name, self._size, table.quota_bytes)


def quota_exceeded(name: str, size: int, quota: int, measured: str = "", accepted: str = "") -> QuotaExceeded:
    """The error of a write above a quota. `measured` says by what the size is known, `accepted` when writes are
    accepted again."""
    return QuotaExceeded(
        f"table {name} has reached its quota: its data take {size:,} of {quota:,} bytes{measured}; it accepts only "
        "deletions. Delete rows, drop range partitions, or raise the quota: ALTER TABLE ... SET QUOTA. The space of "
        "deleted rows is free when they are older than history_seconds; COMPACT TABLE frees it at once then"
        f"{accepted}"
    )


def table_bytes(tablets: Sequence[Tablet]) -> int:
    """Bytes of a table's data: files of rowsets, rows and changes in memory."""
    size = 0
    for tablet in tablets:
        size += sum(stored.metadata.data_bytes for stored in tablet.state.rowsets) + memory_bytes(tablet)
    return size


def is_deletion(ops: Op | Array) -> bool:
    """True if all rows are deleted.

    >>> is_deletion(Op.DELETE), is_deletion(np.array([Op.DELETE, Op.UPSERT], np.uint8))
    (True, False)
    """
    if isinstance(ops, Op):
        return ops in _DELETIONS
    return bool(np.isin(ops, [int(op) for op in _DELETIONS]).all())
