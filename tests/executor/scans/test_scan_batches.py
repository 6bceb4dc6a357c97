"""Small batches of a scan are gathered, in order and unread."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.scans import scan
from nyala.executor.scans.scan import gathered
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat, LazyColumn
from nyala.sql.expressions import Column

COLUMN = Column(BIGINT, False, "n", 1)


def lazy_batches(sizes: list[int]) -> list[Batch]:
    starts = np.cumsum([0, *sizes])

    def column(start: int, size: int) -> LazyColumn:
        values = Flat(BIGINT, np.arange(start, start + size))
        return LazyColumn(lambda rows: values if rows is None else values.take(rows))

    return [Batch([column(int(start), size)], size) for start, size in zip(starts, sizes)]


@given(st.lists(st.sampled_from([0, 1, 7, scan.FEW_ROWS // 2, scan.FEW_ROWS, scan.FEW_ROWS + 5]), max_size=12))
def test_gathered_batches_hold_the_same_rows_in_order(sizes: list[int]) -> None:
    found = list(gathered([COLUMN], iter(lazy_batches(sizes))))
    assert all(batch.length for batch in found)
    assert not any(batch.is_loaded(0) for batch in found)
    # Of two neighbours, at least one has the minimum number of rows.
    assert all(max(a.length, b.length) >= scan.FEW_ROWS for a, b in itertools.pairwise(found))
    values = [batch.column(0).values() for batch in found]
    assert np.concatenate([np.empty(0, np.int64), *values]).tolist() == list(range(sum(sizes)))
