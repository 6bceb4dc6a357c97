"""The row path of a table, for one version of its schema: data computed once for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...model.clock import HybridClock
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.store import WriteBatch, WriteResult
from ..tablet.tablet import Tablet
from .row_codec import RowCodec
from .row_read import RowReader
from .row_write import RowWriter


class RowAccess:
    """Reads and writes single rows; the parameters are those of `RowReader` and `RowWriter`, which goes by
    `is_writable` instead of `is_current`. Safe for several threads."""

    def __init__(
        self,
        table: Table,
        partitioner: Partitioner,
        tablets: Sequence[Tablet],
        clock: HybridClock,
        is_current: Callable[[], bool],
        write_batch: Callable[[WriteBatch], WriteResult],
        is_writable: Callable[[], bool],
    ):
        codec = RowCodec(table)
        self.is_current = is_current
        self.reader = RowReader(codec, partitioner, tablets, is_current)
        self.writer = RowWriter(codec, partitioner, tablets, clock, is_writable, write_batch)
