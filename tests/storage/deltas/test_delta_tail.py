"""The tail of a DeltaMemStore: its runs equal all deltas sorted, at any time and for any columns."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
)
from nyala.storage.deltas import delta_memstore
from nyala.storage.deltas.append_vector import GrownVector
from nyala.storage.deltas.delta_memstore import DeltaMemStore
from nyala.storage.deltas.deltas import DeltaKind, Deltas
from nyala.storage.deltas.single_deltas import DeltaTail, TailRun, with_all_columns
from nyala.storage.single_rows.row_deltas import RowDelta

LOGICAL = {1: INT, 2: STRING}
TYPES = {column: type_.arrow for column, type_ in LOGICAL.items()}
CHANGES = st.dictionaries(st.sampled_from([1, 2]), st.none() | st.integers(0, 9), max_size=2)
STEPS = st.lists(st.tuples(st.integers(0, 5), CHANGES) | st.sets(st.sampled_from([1, 2, 3])), max_size=40)


def delta(row: int, values: dict[int, int | None], timestamp: int) -> RowDelta:
    given = {c: v if v is None or c == 1 else str(v) for c, v in values.items()}
    return row, DeltaKind.UPDATE if given else DeltaKind.DELETE, given, timestamp


def rows_of(run: Deltas, columns: set[int]) -> list[tuple[int, int, int, dict[int, object]]]:
    cells: list[dict[int, object]] = [{} for _ in range(len(run))]
    for column in columns:
        if column in run.columns:
            found = run.columns[column]
            for place, value in zip(found.places.tolist(), found.values.to_pylist(), strict=True):
                cells[place][column] = value
    return list(zip(run.rows.tolist(), run.timestamps.tolist(), run.kinds.tolist(), cells, strict=True))


def last_values(run: TailRun, column: int) -> dict[int, object]:
    found = run.last_values(column, LOGICAL[column])
    if found is None:
        return {}
    assert (found[0][1:] > found[0][:-1]).all()
    return dict(zip(found[0].tolist(), found[1].to_arrow().to_pylist(), strict=True))


def expected_last(deltas: list[RowDelta], column: int) -> dict[int, object]:
    return {row: values[column] for row, _, values, _ in deltas if column in values}


def expected(deltas: list[RowDelta], columns: set[int]) -> list[tuple[int, int, int, dict[int, object]]]:
    return [
        (row, timestamp, kind, {c: v for c, v in values.items() if c in columns})
        for row, kind, values, timestamp in sorted(deltas, key=lambda one: (one[0], one[3]))
    ]


@given(STEPS)
def test_runs_are_the_deltas_in_order(steps: list[tuple[int, dict[int, int | None]] | set[int]]) -> None:
    tail = DeltaTail(TYPES)
    runs: list[tuple[TailRun, list[RowDelta]]] = []
    for timestamp, step in enumerate(steps, 1):
        if isinstance(step, tuple):
            tail.extend([delta(*step, timestamp)])
        else:
            runs.append((tail.run(), list(tail.deltas)))
            assert rows_of(runs[-1][0], step) == expected(runs[-1][1], step)
            if 1 in step:
                assert last_values(runs[-1][0], 1) == expected_last(runs[-1][1], 1)
    for run, deltas in runs[::-1]:  # they stay the same, also for columns not requested so far
        assert rows_of(run, {1, 2}) == expected(deltas, {1, 2})
        assert [last_values(run, column) for column in (1, 2)] == [expected_last(deltas, column) for column in (1, 2)]
        assert set(run.columns) == set().union(*(d[2] for d in deltas))
        assert rows_of(with_all_columns(run), {1, 2}) == expected(deltas, {1, 2})
    for run, deltas in runs:
        for end in (0, len(deltas) // 2, len(deltas)):
            before = [d for d in deltas if d[3] <= end]
            assert rows_of(run.until(end), {1, 2}) == expected(before, {1, 2})


@given(
    st.lists(st.tuples(st.integers(0, 5), CHANGES), max_size=60),
    st.sets(st.integers(1, 60)),
    st.sets(st.integers(1, 60), max_size=3),
)
def test_nothing_is_lost_where_a_tail_becomes_a_run(
    changes: list[tuple[int, dict[int, int | None]]], read_after: set[int], aborted: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_memstore, "TAIL_ROWS", 7)
        store = DeltaMemStore(Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1))
        store._types |= TYPES
        kept: list[RowDelta] = []
        for timestamp, change in enumerate(changes, 1):
            one = delta(*change, timestamp)
            store.append_row(*one, timestamp)
            kept.append(one)
            if timestamp in aborted:
                store.abort(timestamp)
                kept.pop()
            if timestamp in read_after:
                store.snapshot()
        runs = store.snapshot()
        found = [row for run in runs for row in rows_of(run, {1, 2})]
        assert sorted(found, key=lambda row: row[:2]) == expected(kept, {1, 2})
        assert store.nbytes > 0 or not kept


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), CHANGES), min_size=1, max_size=4), max_size=8),
    st.sets(st.integers(0, 30)),
    st.booleans(),
)
def test_ctrl_c_while_a_column_grows_loses_nothing(
    steps: list[list[tuple[int, dict[int, int | None]]]], broken_off: set[int], before: bool
) -> None:
    put, calls = GrownVector.put, itertools.count()

    def interrupted(self: GrownVector, start: int, values: Sequence[Any]) -> None:
        is_broken_off = next(calls) in broken_off
        if is_broken_off and before:
            raise KeyboardInterrupt
        put(self, start, values)
        if is_broken_off:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrownVector, "put", interrupted)
        tail = DeltaTail(TYPES)
        for step in steps:
            tail.extend([delta(*change, len(tail) + number) for number, change in enumerate(step, 1)])
            for column in (1, 2):
                with contextlib.suppress(KeyboardInterrupt):
                    last_values(tail.run(), column)
        broken_off.clear()
        if steps:
            run = tail.run()
            assert [last_values(run, column) for column in (1, 2)] == [expected_last(tail.deltas, c) for c in (1, 2)]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (BOOLEAN, [True, False]),
        (TINYINT, [-128, 127]),
        (BIGINT, [-(2**63), 2**63 - 1]),
        (FLOAT, [0.5, -0.0]),
        (DOUBLE, [1e300, -0.1]),
        (DATE, [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        (TIMESTAMP, [datetime.datetime(1, 1, 1, 0, 0, 0, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
        (DECIMAL(4, 2), [decimal.Decimal("-99.99"), decimal.Decimal("0.00")]),
        (DECIMAL(18, 6), [decimal.Decimal("999999999999.999999"), decimal.Decimal("-0.000001")]),
        (DECIMAL(38, 2), [decimal.Decimal("-" + 36 * "9" + ".99"), decimal.Decimal("0.01")]),
        (STRING, ["", "text"]),
        (BINARY, [b"", b"\x00\xff"]),
    ],
    ids=str,
)
@given(st.data())
def test_grown_vectors_hold_every_type(type_: DataType, values: list[Any], data: st.DataObject) -> None:
    grown, held, given_before = GrownVector(type_), list[Any](), []
    for more in data.draw(st.lists(st.lists(st.sampled_from([*values, None]), max_size=40), max_size=5)):
        grown.put(len(held), more)
        held += more
        count = data.draw(st.integers(0, len(held)))
        given_before.append((grown.first(count), held[:count]))
    for vector, expected_values in given_before:
        assert vector.to_arrow().to_pylist() == expected_values
        assert vector.to_arrow().type == type_.arrow or not expected_values
