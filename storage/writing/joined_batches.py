"""Several batches as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...errors import LimitExceeded
from ...model.store import Op, TableWrite, WriteBatch
from ...model.vectors.vector import Array


def joined_batch(batches: Sequence[WriteBatch]) -> WriteBatch:
    """The rows of some batches (at least one) in their order, with their own ops and columns, as one batch. It has
    `all_or_none` and `unchanged_since` of the last."""
    last = batches[-1]
    if len(batches) == 1:
        return last
    names = list(dict.fromkeys(name for batch in batches for name in batch.rows.schema.names))
    tables = [pa.Table.from_batches([batch.rows]) for batch in batches]
    # Columns that a batch leaves out become NULL, and count as not set.
    rows = pa.concat_tables(tables, promote_options="default").select(names).combine_chunks()
    isset = {}
    for name in names:
        given = [_given(batch, name) for batch in batches]
        if not all(mask is True for mask in given):
            isset[name] = np.concatenate([np.broadcast_to(m, b.rows.num_rows) for m, b in zip(given, batches)])
    merged = rows.to_batches()
    if len(merged) > 1:
        raise LimitExceeded("the rows of one table have more than 2 GiB in a column; write fewer in one transaction")
    merged = merged or [pa.RecordBatch.from_arrays([c.combine_chunks() for c in rows.columns], names)]
    return WriteBatch(merged[0], joined_ops(batches), last.all_or_none, isset, last.unchanged_since)


def joined_writes(writes: Sequence[TableWrite]) -> list[TableWrite]:
    """The rows of a transaction as one write for each table, in the order of their first ones."""
    by_table: dict[str, list[TableWrite]] = defaultdict(list)
    for write in writes:
        by_table[write.table.id].append(write)
    return [TableWrite(some[-1].table, joined_batch([write.batch for write in some])) for some in by_table.values()]


def _given(batch: WriteBatch, name: str) -> bool | Array:
    """Which rows of a batch give a column."""
    if name not in batch.rows.schema.names:
        return False
    return batch.isset.get(name, True)


def joined_ops(batches: Sequence[WriteBatch]) -> Op | Array:
    """The ops of some batches: one for all rows, where it is the same, or one each."""
    ops = [batch.ops for batch in batches]
    if isinstance(ops[0], Op) and all(other is ops[0] for other in ops):
        return ops[0]
    return np.concatenate([np.broadcast_to(np.asarray(b.ops, np.uint8), b.rows.num_rows) for b in batches])
