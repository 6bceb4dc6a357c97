"""A client of an embedded server compared with the same store embedded: the same calls have the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala import errors
from nyala.cluster.client.writes import routing
from nyala.model.alterations import AddColumn, AddRangePartition, DropColumn, DropRangePartition, RenameColumn
from nyala.model.predicates import Range
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
    View,
)
from nyala.model.store import ChangeRange, Op, ScanSpec, Store, Timestamp, WriteBatch
from nyala.model.types import DECIMAL, INT, STRING
from nyala.storage.database import Database

MONEY = DECIMAL(30, 2)
SCHEMA = Schema(
    (
        ColumnSchema("k", INT, False),
        ColumnSchema("v", STRING, True),
        ColumnSchema("n", INT, False, default=7),
        ColumnSchema("fixed", INT, True, immutable=True),
    ),
    1,
)
RANGES = RangeRule(("k",), (RangePartition((0,), (10,)), RangePartition((10,), (30,))))
DEFINITION = TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("k",), 2),), RANGES))
MORE = RangePartition((30,), (40,))
ALTERATIONS = (
    AddColumn(ColumnSchema("m", MONEY, True)),
    RenameColumn("v", "w"),
    RenameColumn("w", "v"),
    DropColumn("m"),
    AddRangePartition(MORE),
    DropRangePartition(MORE),
)

KEYS = st.integers(0, 32)
BATCH = st.tuples(
    st.just("write"),
    st.lists(st.tuples(KEYS, st.sampled_from(list(Op)), st.integers(0, 3)), min_size=1, max_size=12),
    st.booleans(),
)
STEP = st.one_of(
    BATCH,
    BATCH,
    st.tuples(st.just("row"), st.sampled_from(list(Op)), KEYS),
    st.tuples(st.just("read"), KEYS),
    st.tuples(st.just("alter"), st.sampled_from(ALTERATIONS)),
    st.tuples(st.just("work"), st.sampled_from(["flush", "compact", "analyze"])),
    st.tuples(st.just("remember")),
    st.tuples(st.just("again")),
    st.tuples(st.just("view"), st.booleans()),
)


class Side:
    """One of the two stores, with its remembered timestamps."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table: Table = store.create_table(DEFINITION)
        self.times: list[Timestamp] = []

    def answer(self, step: tuple[Any, ...]) -> Any:
        """Returns the result of a step: the same on both sides."""
        try:
            return getattr(self, f"_{step[0]}")(*step[1:])
        except errors.Error as error:
            return type(error), str(error)

    def _write(self, rows: list[tuple[int, Op, int]], all_or_none: bool) -> Any:
        data = {
            "k": pa.array([k for k, _, _ in rows], pa.int32()),
            "n": pa.array([n for _, _, n in rows], pa.int32()),
        }
        ops = np.array([op for _, op, _ in rows], np.uint8)
        isset = {"n": np.array([n > 0 for _, _, n in rows])}
        return _told(self.store.write(self.table, WriteBatch(pa.record_batch(data), ops, all_or_none, isset)))

    def _row(self, op: Op, key: int) -> Any:
        row = {"k": key} if op in (Op.DELETE, Op.DELETE_IGNORE) else {"k": key, "fixed": key % 3}
        return _told(self.store.write_row(self.table, op, row))

    def _read(self, key: int) -> Any:
        names = self.table.schema.names
        times = [None, *self.times[-2:]]
        return [self.store.read_row(self.table, (key,), names, time) for time in times]

    def _alter(self, alteration: Any) -> Any:
        self.table = self.store.alter_table("t", [alteration])
        return self.table.version, self.table.schema, self.store.tablet_count(self.table)

    def _work(self, work: str) -> Any:
        if work == "flush":
            return self.store.flush(self.table)  # type: ignore[attr-defined]
        if work == "analyze":
            return self.store.analyze_table(self.table)
        self.store.compact_table(self.table)
        return None

    def _remember(self) -> None:
        self.times.append(self.store.now())

    def _again(self) -> Any:
        self.store.drop_table("t")
        self.table = self.store.create_table(DEFINITION)
        self.times.clear()
        return self.table

    def _view(self, replace: bool) -> Any:
        self.store.create_view(View("seen", "SELECT 1", ("x",)), replace)
        return self.store.views()

    def state(self) -> Any:
        """Returns everything that can be read now, and as of the remembered timestamps."""
        names = tuple(self.table.schema.names)
        specs = [
            ScanSpec(names),
            ScanSpec(names, (Range("k", lower=5, upper=20),), limit=3, ordered=True),
            *(ScanSpec(("k", "n"), snapshot=time) for time in self.times[-2:]),
            *(ScanSpec((*names, "_change"), changes=ChangeRange(time)) for time in self.times[-2:]),
            *(ScanSpec((*names, "_change"), changes=ChangeRange(time, history=True)) for time in self.times[-1:]),
        ]
        counted = self.store.statistics(self.table).row_count
        return counted, self.store.tables(), [self.scan(spec) for spec in specs]

    def scan(self, spec: ScanSpec) -> list[Any]:
        found = []
        for token in self.store.scan_tokens(self.table, spec):
            rows = []
            for batch in self.store.scan(token):
                rows += [tuple(row.values()) for row in batch.to_arrow(spec.columns).to_pylist()]
            is_in_order = spec.ordered or spec.changes is not None
            found += rows if is_in_order else sorted(rows, key=repr)
        return found if spec.ordered or spec.changes is not None else sorted(found, key=repr)


def _told(result: Any) -> Any:
    return result.applied, [(e.row, type(e.error).__name__, str(e.error)) for e in result.errors]


@settings(max_examples=examples(40))
@given(steps=st.lists(STEP, max_size=14), piece_rows=st.sampled_from([2, 5, 1 << 17]))
def test_a_client_gets_the_answers_of_the_embedded_store(steps, piece_rows):
    """Also if a batch takes several messages: errors, row numbers and timestamps are those of one write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "PIECE_ROWS", piece_rows)
        compare(steps)


def compare(steps: list[tuple[Any, ...]]) -> None:
    with ServedStore(background=False) as served_store, Database(":memory:", background=False) as same:
        served, embedded = Side(served_store.client()), Side(same)
        for step in steps:
            assert served.answer(step) == embedded.answer(step), step
            assert served.state() == embedded.state(), step
