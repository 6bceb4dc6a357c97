"""A stored rowset as compactions read it: base columns as Arrow arrays, and its deltas up to a cut.

Columns are found by their permanent ids; one that came after the rowset was written reads as its initial value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, concat
from ..columns.column_file import INDEX_ROWS
from ..deltas.deltas import Deltas, merge
from ..deltas.inversion import as_one
from ..deltas.version_merge import deaths
from .stored_rowset import StoredRowSet


@dataclass(eq=False)
class RowSetSource:
    """A rowset whose writes up to the timestamp `cut` are decided.

    Deltas in files are all of before the cut; those in memory count up to it.
    """

    stored: StoredRowSet
    cut: int

    @property
    def row_count(self) -> int:
        return self.stored.row_count

    @cached_property
    def in_memory(self) -> Deltas:
        """The deltas of the DeltaMemStores up to the cut."""
        runs = [run for memstore in self.stored.memstores for run in memstore.snapshot()]
        return merge([run.until(self.cut) for run in runs])

    def in_memory_after(self) -> Deltas:
        """The deltas of the DeltaMemStores after the cut."""
        runs = [run for memstore in self.stored.memstores for run in memstore.snapshot()]
        return merge([run.select(run.timestamps > np.uint64(self.cut)) for run in runs])

    def redo(self, start: int, stop: int, columns: Collection[int]) -> Deltas:
        """The REDO deltas of some rows about existence or these columns."""
        runs = [file.read(start, stop, columns) for file in self.stored.redo]
        return merge([*runs, self.in_memory.between(start, stop)]).only_columns(columns)

    def undo(self, start: int, stop: int, columns: Collection[int]) -> Deltas:
        """The UNDO deltas of some rows, likewise."""
        return merge([file.read(start, stop, columns) for file in self.stored.undo]).only_columns(columns)

    def deaths(self) -> Array:
        """When each row was deleted for good, 0 where it lives at the cut: ndarray of uint64, shape (n_rows,)."""
        files = [file.existence() for file in self.stored.redo if file.statistics.deletes]
        return deaths(merge([*files, self.in_memory]), self.row_count)

    def base(self, column: ColumnSchema, start: int, stop: int) -> pa.Array:
        """A column's base values of the rows `start` to `stop` (exclusive), without deltas."""
        return as_one(self.base_groups(column, start, stop), column.type.arrow)

    def base_groups(self, column: ColumnSchema, start: int, stop: int) -> list[pa.Array]:
        """The same, one array per row group."""
        batches = self.stored.rowset.scan((column,), (), start, stop, ScanCounters())
        return [batch.column(0).to_arrow() for batch in batches]

    def keys(self, schema: Schema, start: int, stop: int) -> Keys:
        """The keys of some rows, in order."""
        types = tuple(column.type for column in schema.key)
        batches = list(self.stored.rowset.scan(schema.key, (), start, stop, ScanCounters()))
        return Keys(types, tuple(concat([batch.column(i) for batch in batches]) for i in range(len(types))))


def stretches(sources: Sequence[RowSetSource], rows: int) -> list[list[tuple[int, int]]]:
    """Divide rowsets at common keys into pieces of about `rows` rows of all rowsets together: per piece, the rows
    (start, stop) of each source. One key of 4,096 is known without reading; cuts are made at these."""
    if sum(source.row_count for source in sources) <= rows:
        return [[(0, source.row_count) for source in sources]]
    samples = sorted(sample for source in sources for sample in source.stored.rowset.key_samples)
    cuts = samples[max(rows // INDEX_ROWS, 1) :: max(rows // INDEX_ROWS, 1)]
    bounds = [[0] * len(sources)]
    bounds += [[source.stored.rowset.rows_below(key) for source in sources] for key in cuts]
    bounds.append([source.row_count for source in sources])
    return [list(zip(low, high)) for low, high in pairwise(bounds) if low != high]


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """The keys of several runs, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    columns = tuple(concat([part.columns[i] for part in parts]) for i in range(len(parts[0].types)))
    return Keys(parts[0].types, columns)
