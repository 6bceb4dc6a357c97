"""Scans of DiskRowSets whose rows were updated and deleted, against plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import arrow_array, holds, make_table, write
from delta_support import VALUES, deltas_of, predicates, python_row, state_at
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.predicates import BitmapFilter, InList, IsNull, Range
from nyala.model.schema import ColumnSchema, Encoding, Schema
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT, DATE, DECIMAL, INT, STRING, DataType
from nyala.model.vectors.vector import Batch, Dict, Flat, Narrow
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas
from nyala.storage.deltas.latest_state import Layer, RowSetPatches, VectorPatch
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.rowsets import changed_rows_apart as set_aside
from nyala.storage.rowsets import patched_columns, row_group
from nyala.storage.rowsets.disk_rowset import DiskRowSet

NOW = 2**64 - 1


def patches_of(*runs: Deltas) -> RowSetPatches:
    return RowSetPatches([Layer.of(run, 0) for run in runs])


def tuples(batches: list[Batch], width: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        for vector in batch.columns():
            if isinstance(vector, Flat):  # the contract of `Flat`
                dtype, own = vector.values().dtype, vector.type.dtype
                assert dtype == own or (dtype.kind == own.kind == "i" and dtype.itemsize > own.itemsize)
        columns = batch.to_arrow([str(i) for i in range(width)]).columns if width else []
        rows += zip(*[c.to_pylist() for c in columns]) if width else [()] * batch.length
    return rows


# ---- any rows, any deltas, any predicates ------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[ColumnSchema], list[Any], list[dict[int, Any]]]:
    """(stored schema, columns of which some came later, strategies of their values, rows by column id)."""
    chosen = draw(st.lists(st.sampled_from(range(len(VALUES))), min_size=1, max_size=4))
    columns, strategies = [ColumnSchema("k", INT, False, 0)], [st.none()]
    for number, place in enumerate(chosen, 1):
        type_, encoding, values = VALUES[place]
        initial = draw(st.none() | values) if draw(st.integers(0, 3)) == 0 else None
        columns.append(ColumnSchema(f"c{number}", type_, True, number, encoding=encoding, initial=initial))
        strategies.append(values)
    later = {c.id for c in columns[1:] if c.initial is not None or draw(st.integers(0, 5)) == 0}
    nulls = draw(st.sampled_from([0, 1, 4]))
    rows = []
    for key in range(draw(st.integers(1, 12))):
        row = {0: key}
        for column, values in zip(columns[1:], strategies[1:]):
            is_null = nulls and draw(st.integers(0, nulls)) == 0
            row[column.id] = column.initial if column.id in later else None if is_null else draw(values)
        rows.append(row)
    return Schema(tuple(c for c in columns if c.id not in later), 1), columns, strategies, rows


@settings(max_examples=examples(120))
@given(tables(), st.data())
def test_a_scan_shows_the_state_at_its_time(table: Any, data: st.DataObject) -> None:
    stored, columns, strategies, rows = table
    schema = Schema(tuple(columns), 1)
    (rowset,) = write(
        MemoryFileSystem(), stored, make_table(stored, {c.name: [r[c.id] for r in rows] for c in stored.columns})
    )
    records = []
    for timestamp in range(data.draw(st.integers(0, 10))):
        row = data.draw(st.integers(0, len(rows) - 1))
        if data.draw(st.integers(0, 4)) == 0:
            records.append((row, timestamp, DeltaKind.DELETE, {}))
        else:
            ids = data.draw(st.sets(st.sampled_from([c.id for c in columns[1:]]), min_size=1))
            given_ = {i: data.draw(st.none() | strategies[i]) for i in sorted(ids)}
            records.append((row, timestamp, DeltaKind.UPDATE, given_))
    if data.draw(st.booleans()):  # an UPDATE of all rows: base data are not read
        column = data.draw(st.sampled_from(columns[1:]))
        values = [{column.id: data.draw(st.none() | strategies[column.id])} for _ in rows]
        records += [(row, 10, DeltaKind.UPDATE, value) for row, value in enumerate(values)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=2)))
    bounds = [0, *cuts, len(records)]
    runs = [deltas_of(columns, records[a:b]) for a, b in pairwise(bounds)]
    asked = data.draw(st.lists(st.sampled_from(columns[1:]), max_size=2))
    conjunction = [data.draw(predicates(c, strategies[c.id])) for c in asked]
    if data.draw(st.integers(0, 3)) == 0:
        conjunction.append(Range("k", data.draw(st.integers(0, 4)), data.draw(st.integers(3, 12))))
    start, stop = data.draw(st.just((0, 99)) | st.tuples(st.integers(0, 5), st.integers(3, 12)))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # also row groups as small as these are freed of missing rows by a filter
            patch.setattr(row_group, "FILTER_SHARE", 1)
        patches = patches_of(*runs)
        found = list(rowset.scan(columns, conjunction, start, stop, ScanCounters(), patches, schema))
        patch.setattr(set_aside, "ASIDE_LEAST", 1)
        patch.setattr(set_aside, "ASIDE_SHARE", data.draw(st.sampled_from([0, 0, 2])))
        beside = list(rowset.scan(columns, conjunction, start, stop, ScanCounters(), patches, schema, in_order=False))
    expected = [
        python_row(columns, row)
        for row in state_at(rows, records, NOW)[start:stop]
        if row is not None and all(holds(p, row[schema.column(p.column).id]) for p in conjunction)
    ]
    assert sorted(map(repr, tuples(beside, len(columns)))) == sorted(map(repr, expected))
    some = data.draw(st.booleans())  # columns read for some of the rows first, in any order
    for batch in found if some else []:
        chosen = data.draw(st.lists(st.integers(0, batch.length - 1), max_size=5))
        part = tuples([batch.select(np.array(chosen, np.intp))], len(columns))
        assert list(map(repr, part)) == [repr(expected[i]) for i in chosen]
    assert list(map(repr, tuples(found, len(columns)))) == list(map(repr, expected))  # NaN is no equal of itself


# ---- three row groups --------------------------------------------------------------------------------------------

ROWS = 2 * ROW_GROUP_ROWS + 20_000
SCHEMA = Schema(
    (
        ColumnSchema("id", BIGINT, False, 0),
        ColumnSchema("day", DATE, True, 1),
        ColumnSchema("mode", STRING, True, 2),
        ColumnSchema("price", DECIMAL(15, 2), True, 3),
        ColumnSchema("note", STRING, True, 4, encoding=Encoding.PLAIN),
        ColumnSchema("wide", DECIMAL(30, 2), True, 5),
    ),
    1,
)
DAY, MODE, PRICE, NOTE, WIDE = SCHEMA.columns[1:]
_random = np.random.default_rng(5)
BASE: dict[str, list[Any]] = {
    "id": list(range(ROWS)),
    "day": (np.arange(ROWS) // 1000).tolist(),  # so that whole row groups are ruled out
    "mode": [["AIR", "RAIL", "SHIP", None][i] for i in _random.integers(0, 4, ROWS)],
    "price": _random.integers(-500, 500, ROWS).tolist(),
    "note": [f"note {i % 977}" for i in range(ROWS)],
    "wide": [int(v) * 10**20 for v in _random.integers(-9, 9, ROWS)],
}


def updates(column: ColumnSchema, rows: Any, values: list[Any], timestamp: int) -> Deltas:
    arrow = pa.array([column.type.to_python(v) for v in values], column.type.arrow)
    run = Deltas.at(timestamp, rows, DeltaKind.UPDATE)
    return Deltas(run.rows, run.timestamps, run.kinds, {column.id: DeltaColumn(np.arange(len(rows)), arrow)})


def some_rows(count: int) -> Any:
    return np.sort(_random.choice(ROWS, count, replace=False)).astype(np.int64)


NEW_VALUES: dict[str, list[Any]] = {
    "day": [None, 3, 150, 270, 999],
    "mode": [None, "AIR", "SHIP", "TRUCK", "MAIL"],
    "price": [None, 7, -499, 40_000, -(10**12)],
    "note": [None, "note 1", "other"],
    "wide": [None, 5, 10**29],
}


@pytest.fixture(scope="module")
def changed() -> tuple[DiskRowSet, RowSetPatches, list[dict[str, Any] | None]]:
    """A rowset with patches in all columns, and its rows as they are then."""
    (rowset,) = write(MemoryFileSystem(), SCHEMA, make_table(SCHEMA, BASE))
    runs, now = [], {name: list(values) for name, values in BASE.items()}
    for timestamp, column in enumerate(SCHEMA.columns[1:], 1):
        rows = some_rows(3000)
        values = [NEW_VALUES[column.name][i] for i in _random.integers(0, len(NEW_VALUES[column.name]), len(rows))]
        runs.append(updates(column, rows, values, timestamp))
        for row, value in zip(rows.tolist(), values):
            now[column.name][row] = value
    deleted = some_rows(2000)
    runs.append(Deltas.at(9, deleted, DeltaKind.DELETE))
    table: list[dict[str, Any] | None] = [dict(zip(now, values)) for values in zip(*now.values())]
    for row in deleted.tolist():
        table[row] = None
    return rowset, patches_of(*runs), table


CASES: dict[str, list[Any]] = {
    "nothing": [],
    "what page statistics rule out in two row groups": [Range.equal("day", 3)],
    "what they rule out in all": [Range.equal("day", 999)],
    "what they take for granted": [Range("day", 0, 400)],
    "two columns, both ruled out": [Range.equal("day", 999), Range("price", 10_000, None)],
    "ruled out, and a selective one": [Range.equal("day", 270), Range.equal("mode", "TRUCK")],
    "a value that only patches have": [Range.equal("mode", "TRUCK")],
    "texts": [Range("note", "note 1", "note 2"), InList("mode", ("MAIL", "RAIL"))],
    "null": [IsNull("day")],
    "not null": [IsNull("price", negated=True), IsNull("day", negated=True)],
    "wide": [Range("wide", 10**28, None)],
    "bitmap": [BitmapFilter("day", 100, np.arange(100) % 3 == 0), Range("price", 0, None)],
    "key range": [Range("id", ROW_GROUP_ROWS - 500, ROW_GROUP_ROWS + 9000), Range("price", None, 7)],
    "key point": [Range.equal("id", 5)],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_row_groups_that_page_statistics_decide(changed: Any, case: str) -> None:
    rowset, patches, table = changed
    names = ["id", "mode", "price", "day"] if case != "null" else SCHEMA.names
    columns = [SCHEMA.column(n) for n in names]
    expected = [r for r in table if r is not None and all(holds(p, r[p.column]) for p in CASES[case])]
    counters = ScanCounters()
    found = tuples(list(rowset.scan(columns, CASES[case], 0, ROWS, counters, patches)), len(names))
    physical = [arrow_array(column.type, [r[column.name] for r in expected]) for column in columns]
    rows = list(zip(*[p.to_pylist() for p in physical]))
    assert found == rows
    assert counters.rows_returned == len(found)
    counters = ScanCounters()
    beside = rowset.scan(columns, CASES[case], 0, ROWS, counters, patches, in_order=False)
    assert Counter(tuples(list(beside), len(names))) == Counter(rows)
    assert counters.rows_returned == len(found)


def test_vectors_stay_encoded_and_share_a_dictionary(changed: Any) -> None:
    rowset, patches, _ = changed
    batches = list(rowset.scan([DAY, MODE, PRICE], [], 0, ROWS, ScanCounters(), patches))
    assert len(batches) == 3
    modes = [batch.column(1) for batch in batches]
    assert all(isinstance(batch.column(0), Narrow) for batch in batches)
    assert all(isinstance(mode, Dict) and mode.dictionary is modes[0].dictionary for mode in modes)
    again = next(rowset.scan([MODE], [], 0, ROWS, ScanCounters(), patches)).column(0)
    assert again.dictionary is modes[0].dictionary
    assert sorted(again.dictionary.to_pylist()) == ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"]


def test_patches_within_the_codes_leave_their_width(changed: Any) -> None:
    rowset, _, _ = changed
    rows = np.array([5, 900, ROW_GROUP_ROWS + 1])
    patches = patches_of(updates(DAY, rows, [0, 100, 140], 1), updates(MODE, rows, ["AIR", "SHIP", "RAIL"], 2))
    base = list(rowset.scan([DAY, MODE], [], 0, ROWS, ScanCounters()))
    patched = list(rowset.scan([DAY, MODE], [], 0, ROWS, ScanCounters(), patches))
    for one, other in zip(base, patched):
        assert one.column(0).codes.dtype == other.column(0).codes.dtype
        assert other.column(1).dictionary is one.column(1).dictionary
        assert other.column(1).ordered


class Watched(RowSetPatches):
    """Notes which columns are resolved."""

    def vector(self, column: int, type_: DataType) -> VectorPatch | None:
        self.kept.setdefault("asked", set()).add(column)
        return super().vector(column, type_)


def test_work_that_does_not_happen(changed: Any) -> None:
    rowset, patches, _ = changed
    untouched = patches_of(updates(NOTE, np.array([7]), ["x"], 1))
    counters = ScanCounters()
    assert list(rowset.scan([NOTE], [Range.equal("day", 999)], 0, ROWS, counters, untouched)) == []
    assert (counters.rowgroups_skipped, counters.pages_read) == (3, 0)
    counters = ScanCounters()
    assert sum(b.length for b in rowset.scan([], [], 0, ROWS, counters, untouched)) == ROWS
    assert counters.pages_read == 0
    watched = Watched(patches.layers)
    first = next(rowset.scan([MODE, NOTE], [Range("price", 0, None)], 0, ROWS, ScanCounters(), watched, in_order=False))
    assert isinstance(first.column(0), Dict)
    assert watched.kept.get("asked") is None  # the patched rows are separate, and come later
    counters = ScanCounters()
    days = updates(NOTE, np.array([7, ROWS - 1]), ["x", "y"], 1)
    assert (
        list(rowset.scan([NOTE], [Range.equal("day", 999)], 0, ROWS, counters, patches_of(days), in_order=False)) == []
    )
    assert (counters.rowgroups_skipped, counters.pages_read) == (3, 0)
    batch = next(rowset.scan([MODE, NOTE], [Range("price", 0, None)], 0, ROWS, ScanCounters(), watched))
    assert watched.kept["asked"] == {PRICE.id}
    batch.column(0)
    assert watched.kept["asked"] == {PRICE.id, MODE.id}
    gone = patches_of(Deltas.at(1, np.arange(ROWS), DeltaKind.DELETE))
    counters = ScanCounters()
    assert list(rowset.scan([MODE], [], 0, ROWS, counters, gone)) == []
    assert counters.pages_read == 0


@pytest.mark.slow
def test_a_scan_of_many_deleted_rows_builds_no_union_of_changed_rows(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rowset, _, _ = changed
    deleted = np.arange(0, ROWS, 10)
    patches = patches_of(updates(NOTE, np.array([7]), ["x"], 1), Deltas.at(2, deleted, DeltaKind.DELETE))
    monkeypatch.setattr(set_aside, "SetAside", None)  # calling it fails
    found = list(rowset.scan([NOTE], [], 0, ROWS, ScanCounters(), patches, in_order=False))
    assert sum(batch.length for batch in found) == ROWS - len(deleted)


@pytest.mark.slow
def test_base_values_are_not_read_where_every_row_has_a_patch(changed: Any) -> None:
    rowset, _, _ = changed
    rows = np.arange(ROW_GROUP_ROWS + 1)
    values = [None if i % 5 == 0 else int(i) % 7 for i in rows]
    patches = patches_of(updates(DAY, rows, values, 1), Deltas.at(2, np.array([1]), DeltaKind.DELETE))
    counters = ScanCounters()
    batches = list(rowset.scan([DAY], [], 0, ROW_GROUP_ROWS, counters, patches))
    physical = arrow_array(DAY.type, [value for i, value in enumerate(values[:ROW_GROUP_ROWS]) if i != 1])
    assert tuples(batches, 1) == [(value,) for value in physical.to_pylist()]
    assert counters.pages_read == 0
    later = tuples(list(rowset.scan([DAY], [], ROW_GROUP_ROWS, ROWS, counters, patches)), 1)
    assert counters.pages_read > 0
    base = arrow_array(DAY.type, BASE["day"][ROW_GROUP_ROWS + 1 :]).to_pylist()
    assert [row[0] for row in later][1:] == base


@pytest.mark.parametrize("share", [0.0001, 0.02, 0.5, 1.0])
def test_patches_of_chosen_rows_are_those_of_all_rows(share: float) -> None:
    length = 20_000
    random = np.random.default_rng(4)
    for count in (1, 300, 9_000, length):
        places = np.sort(random.choice(length, count, replace=False))
        rows = np.flatnonzero(random.random(length) < share)
        for ascending in (True, False):
            chosen = rows if ascending else random.permutation(rows)
            found, which = patched_columns._in_rows(places, chosen, length, ascending)
            expected = {row: place for place, row in enumerate(places.tolist())}
            assert dict(zip(chosen[found].tolist(), which.tolist())) == {
                row: expected[row] for row in chosen.tolist() if row in expected
            }
