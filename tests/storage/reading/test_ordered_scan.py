"""Merging in key order: against sorting, and the sources that must not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.predicates import Range
from nyala.model.schema import PartitionSchema, Table
from nyala.model.store import Op, ScanCounters, ScanSpec, WriteBatch
from nyala.model.types import BIGINT, INT, STRING
from nyala.model.vectors.vector import Batch, Flat, LazyColumn, Text
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.database import Database
from nyala.storage.reading.ordered_scan import KeyColumns, OrderedSource, merged
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, load

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
    for part in batches:
        assert 0 < part.length <= ROW_GROUP_ROWS
        texts, numbers, payload = (column.to_arrow().to_pylist() for column in part.columns())
        assert payload == [n * 1000 + len(t) for n, t in zip(numbers, texts)]
        found += zip(numbers, texts)
    return found


@settings(max_examples=examples(300), deadline=None)
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


# ---- through a store ---------------------------------------------------------------------------------------------


def ordered(db: Database, table: Table, columns: tuple[str, ...], **spec: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each token, in the order in which they come."""
    found = []
    for token in db.scan_tokens(table, ScanSpec(columns, ordered=True, **spec)):
        rows: list[tuple[Any, ...]] = []
        for part in db.scan(token):
            rows += zip(*(column.to_arrow().to_pylist() for column in part.columns()))
        found.append(rows)
    return found


@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED], ids=["one", "three"])
def test_rowsets_with_deltas_and_memory_come_in_key_order(partitions: PartitionSchema) -> None:
    random = np.random.default_rng(5)
    with Database(":memory:") as db:
        table = db.create_table(definition(partitions=partitions))
        keys = random.permutation(3000)
        for round_, part in enumerate(np.array_split(keys, 6)):
            if round_ % 2:
                load(db, table, part.tolist())
            else:
                insert(db, table, part.tolist())
            if round_ < 4:
                db.flush()
        before = db.now()
        db.write(table, WriteBatch(batch(range(0, 3000, 7), "new"), Op.UPDATE))
        db.write(table, WriteBatch(pa.record_batch({"k": list(range(0, 3000, 5))}), Op.DELETE))
        insert(db, table, range(0, 3000, 15), "again")
        now = {k: f"{'new' if k % 7 == 0 else 'v'}{k}" for k in range(3000) if k % 5}
        now |= {k: f"again{k}" for k in range(0, 3000, 15)}
        then = {k: f"v{k}" for k in range(3000)}
        for _ in range(2):
            for expected, snapshot in ((now, None), (then, before)):
                tokens = ordered(db, table, ("v", "k"), snapshot=snapshot)
                assert len(tokens) == db.tablet_count(table)
                for rows in tokens:
                    assert [k for _, k in rows] == sorted(k for _, k in rows)
                assert sorted((k, v) for rows in tokens for v, k in rows) == sorted(expected.items())
            wanted = [v for k, v in sorted(now.items()) if k >= 100]
            few = ordered(db, table, ("v",), predicates=(Range("k", 100, None),), limit=9)
            assert all(len(rows) == 9 for rows in few)
            if len(few) == 1:
                assert [v for (v,) in few[0]] == wanted[:9]
            db.flush()


def test_ten_rows_of_a_large_table_cost_a_few_pages() -> None:
    with Database(":memory:", rowset_bytes=200_000) as db:
        table = db.create_table(definition())
        load(db, table, range(6 * ROW_GROUP_ROWS))
        insert(db, table, [-5, 10**9])
        (token,) = db.scan_tokens(table, ScanSpec(("k", "v"), ordered=True, limit=10))
        assert len(token.part[0].rowsets) > 2
        counters = ScanCounters()
        keys = [k for found in db.scan(token, counters) for k in found.column(0).to_arrow().to_pylist()]
        assert keys == [-5, *range(9)]
        assert counters.pages_read <= 3
