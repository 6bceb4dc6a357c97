"""Merging in key order: against sorting, and the sources that must not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.storage.column_file import ROW_GROUP_ROWS
from nyala.storage.ordered_scan import KeyColumns, OrderedSource, merged
from nyala.storage.types import BIGINT, INT, STRING
from nyala.storage.vector import Batch, Flat, LazyColumn, Text

KEY = KeyColumns((INT, STRING), (1, 0))
Row = tuple[int, str]


class Source:
    """A made-up rowset: sorted rows in batches; notes what was read."""

    def __init__(self, rows: Sequence[Row], size: int):
        self.rows = list(rows)
        self.size = size
        self.batches_read = 0
        self.columns_read = 0

    def open(self) -> Iterator[Batch]:
        for start in range(0, len(self.rows), self.size):
            self.batches_read += 1
            yield self._batch(self.rows[start : start + self.size])

    def _batch(self, rows: list[Row]) -> Batch:
        texts = Text(STRING, pa.array([text for _, text in rows], pa.string()))
        numbers = Flat(INT, np.array([number for number, _ in rows], np.int32))
        payload = Flat(BIGINT, np.array([number * 1000 + len(text) for number, text in rows], np.int64))

        def lazy(vector: Any) -> LazyColumn:
            def load(chosen: Any) -> Any:
                self.columns_read += 1
                return vector if chosen is None else vector.take(chosen)

            return LazyColumn(load)

        return Batch([lazy(texts), lazy(numbers), lazy(payload)], len(rows))

    def ordered(self, slack: int = 0) -> OrderedSource:
        """Bounds may be wider than the rows: predicates have dropped some."""
        low, high = (self.rows[0], self.rows[-1]) if self.rows else ((0, ""), (0, ""))
        return OrderedSource(self.open, (low[0] - slack, low[1]), (high[0] + slack, high[1]))


def rows_of(batches: Iterator[Batch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        assert 0 < batch.length <= ROW_GROUP_ROWS
        texts, numbers, payload = (column.to_arrow().to_pylist() for column in batch.columns())
        assert payload == [n * 1000 + len(t) for n, t in zip(numbers, texts)]
        found += zip(numbers, texts)
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.sets(st.tuples(st.integers(-5, 30), st.text("ab\0é", max_size=2)), max_size=60),
    st.lists(st.integers(0, 4), min_size=60, max_size=60),
    st.integers(1, 5),
    st.integers(0, 3),
    st.none() | st.integers(0, 30),
)
def test_the_merge_of_any_sources_is_sorted(
    keys: set[Row], homes: list[int], size: int, slack: int, limit: int | None
) -> None:
    rows = sorted(keys)
    sources = [Source([row for row, home in zip(rows, homes) if home == mine], size) for mine in range(3)]
    loose = [Source([row for row, home in zip(rows, homes) if home == mine][::-1], size) for mine in (3, 4)]
    found = rows_of(merged([s.ordered(slack) for s in sources], [s.open() for s in loose], KEY, limit))
    assert found == rows[:limit]


def test_rowsets_apart_are_neither_merged_nor_opened_early() -> None:
    apart = [Source([(number, "x") for number in range(start, start + 100)], 10) for start in (200, 0, 100)]
    batches = merged([s.ordered() for s in apart], [], KEY)
    first = next(batches)
    assert (first.length, [s.batches_read for s in apart], apart[1].columns_read) == (10, [0, 1, 0], 0)
    assert rows_of(batches) == [(number, "x") for number in range(10, 300)]


def test_a_limit_reads_the_first_batch_only() -> None:
    source = Source([(number, "x") for number in range(100)], 20)
    other = Source([(number, "y") for number in range(50, 150)], 20)
    found = rows_of(merged([source.ordered(), other.ordered()], [], KEY, 7))
    assert found == [(number, "x") for number in range(7)]
    assert (source.batches_read, other.batches_read) == (1, 0)


def test_a_source_that_predicates_emptied_ends_nothing() -> None:
    empty, full = Source([], 5), Source([(1, "a"), (2, "b")], 1)
    wide = OrderedSource(empty.open, (0, ""), (9, ""))
    assert rows_of(merged([wide, full.ordered()], [], KEY)) == [(1, "a"), (2, "b")]


def test_columns_are_read_when_they_are_touched() -> None:
    one, other = Source([(1, "a"), (3, "a")], 2), Source([(2, "b"), (4, "b")], 2)
    batch = next(merged([one.ordered(), other.ordered()], [], KEY))
    assert batch.length == 3
    assert not batch.is_loaded(2)
    before = one.columns_read
    assert batch.column(2).to_arrow().to_pylist() == [1001, 2001, 3001]
    assert one.columns_read == before + 1
