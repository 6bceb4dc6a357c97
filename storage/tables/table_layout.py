"""A table and its tablets at one time, and the routing of rows to these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...errors import NoPartition
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.store import RowError
from ..tablet.tablet import Tablet
from ..writing.incoming_rows import IncomingRows, no_partition, rows_without
from ..writing.tablet_write import TabletWrite


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """A table and its tablets, one per partition and in their order: what one statement goes by, whatever is altered
    meanwhile."""

    table: Table
    partitioner: Partitioner
    tablets: tuple[Tablet, ...]

    @classmethod
    def of(cls, table: Table, tablets: Sequence[Tablet]) -> TableLayout:
        """The layout of a table with these tablets."""
        return cls(table, Partitioner(table.schema, table.partitions), tuple(tablets))

    def no_partition(self, rows: pa.RecordBatch, row: int) -> NoPartition:
        """The error of a row that no range covers."""
        return no_partition(self.table, self.partitioner, rows, row)

    def route(self, rows: IncomingRows, errors: list[RowError], snapshot: int | None = None) -> list[TabletWrite]:
        """A batch by tablet, in the order of tablets, without the rows that have errors; adds to these. `snapshot` as
        for `TabletWrite`."""
        numbers = rows_without(len(rows), errors)
        rows = rows.take(numbers)
        if not len(rows):
            return []
        places = self.partitioner.route(rows.rows)
        if places[0] >= 0 and (places == places[0]).all():
            return [TabletWrite(self.tablets[int(places[0])], self.table, rows, numbers, snapshot=snapshot)]
        for row in np.flatnonzero(places < 0).tolist():
            errors.append(RowError(int(numbers[row]), self.no_partition(rows.rows, row)))
        parts: list[TabletWrite] = []
        for place in np.unique(places).tolist():
            if place >= 0:
                mine = np.flatnonzero(places == place)
                part = TabletWrite(self.tablets[place], self.table, rows.take(mine), numbers[mine], snapshot=snapshot)
                parts.append(part)
        return parts
