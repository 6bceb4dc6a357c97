"""DiskRowSets with UNDO files, REDO files and DeltaMemStores at any time, against rows followed step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from columnar_support import WatchedFileSystem, arrow_array, holds, make_table, write
from delta_support import deltas_of, predicates, python_row, records_of
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.keys.keys import Keys
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.deltas.delta_file import write_delta_file
from nyala.storage.deltas.delta_memstore import DeltaMemStore
from nyala.storage.deltas.deltas import DeltaKind, Deltas, apply_patch, merge
from nyala.storage.deltas.inversion import insertions, invert
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.rowsets.stored_rowset import DeletedRows, StoredRowSet, open_rowset

SCHEMA = Schema((ColumnSchema("k", INT, False, 0), ColumnSchema("n", BIGINT, id=1), ColumnSchema("t", STRING, id=2)), 1)
COLUMNS = SCHEMA.columns
KNOWN: dict[int, st.SearchStrategy[Any]] = {1: st.integers(-3, 9), 2: st.sampled_from(["a", "b", "", "zz"])}
VALUES = {column: st.none() | values for column, values in KNOWN.items()}
ROWS = 5


@st.composite
def histories(draw: st.DrawFn) -> Any:
    """(insertion times, first values, records, where base data, each of two REDO files and `flushing` end)."""
    initial = [{0: row} | {c: draw(values) for c, values in VALUES.items()} for row in range(ROWS)]
    ends = sorted(draw(st.lists(st.integers(0, 25), min_size=4, max_size=4)))
    timestamp, records, alive = 10, [], [True] * ROWS
    for row in draw(st.lists(st.integers(0, ROWS - 1), max_size=25)):
        timestamp += draw(st.integers(1, 2))
        if not alive[row]:
            if len(records) >= ends[0]:
                continue  # a row that lies on disk is never reinserted
            kind, given = DeltaKind.REINSERT, {c: draw(values) for c, values in VALUES.items()}
        elif draw(st.integers(0, 3)) == 0:
            kind, given = DeltaKind.DELETE, {}
        else:
            chosen = draw(st.sets(st.sampled_from([1, 2]), min_size=1))
            kind, given = DeltaKind.UPDATE, {c: draw(VALUES[c]) for c in sorted(chosen)}
        alive[row] = kind != DeltaKind.DELETE
        records.append((row, timestamp, kind, given))
    stamps = [5] * ROWS if draw(st.booleans()) else [draw(st.integers(1, 10)) for _ in range(ROWS)]
    return stamps, initial, records, ends


def states(stamps: list[int], initial: Any, records: Any, time: int) -> list[dict[int, Any] | None]:
    """Row by row: None where it does not exist at `time`, else its values."""
    found = []
    for row in range(ROWS):
        kept = dict(initial[row])
        state = kept if stamps[row] <= time else None
        for r, timestamp, kind, new in records:
            if r == row and timestamp <= time:
                kept = {**kept, **new}
                state = None if kind == DeltaKind.DELETE else kept
        found.append(state)
    return found


def stored_as(fs: MemoryFileSystem, history: Any) -> StoredRowSet:
    """The history as a rowset: what came first as base data and UNDO, then REDO files, then in memory."""
    stamps, initial, records, ends = history
    parts = [deltas_of(COLUMNS, records[a:b]) for a, b in zip([0, *ends], [*ends, len(records)])]
    turned = invert(COLUMNS, {c.id: arrow_array(c.type, [r[c.id] for r in initial]) for c in COLUMNS}, parts[0])
    base = pa.table([turned.columns[c.id] for c in COLUMNS], schema=SCHEMA.arrow)
    (written,) = write(fs, SCHEMA, base)
    undo, inserted = [turned.undo], max(stamps)
    if len(set(stamps)) > 1:
        undo.insert(0, insertions(np.array(stamps, np.uint64)))
        inserted = 0
    names: dict[str, list[str]] = {"undo": [], "redo": []}
    for way, runs in (("undo", undo), ("redo", [merge([turned.deletes, parts[1]]), parts[2]])):
        for run in runs:
            if len(run):
                names[way].append(f"{way}{len(names[way])}")
                write_delta_file(fs, f"rowsets/{names[way][-1]}", SCHEMA, run)
    metadata = replace(
        written.metadata,
        undo_files=tuple(names["undo"]),
        redo_files=tuple(names["redo"]),
        newest_undo=max(run.newest for run in undo),
        inserted=inserted,
    )
    stored = open_rowset(fs, "rowsets", SCHEMA, metadata, PageCache(1 << 20))
    flushing, memstore = DeltaMemStore(SCHEMA), DeltaMemStore(SCHEMA)
    for store, part in ((flushing, parts[3]), (memstore, parts[4])):
        store.append(part, 1)
        stored.deleted.add(part.rows[part.kinds == DeltaKind.DELETE])
    return replace(stored, flushing=flushing, memstore=memstore)


def seen(stored: StoredRowSet, time: int) -> list[dict[int, Any] | None]:
    """The same as `states`, of base data and patches."""
    patches = stored.patches(time, 0, ROWS)
    (batch,) = stored.rowset.scan(COLUMNS, (), 0, ROWS, ScanCounters())
    columns = {}
    for place, column in enumerate(COLUMNS):
        values = batch.column(place).to_arrow()
        patch = patches.columns.get(column.id)
        columns[column.id] = (values if patch is None else apply_patch(values, patch)).to_pylist()
    hidden = set(patches.hidden.tolist())
    return [None if row in hidden else {c: v[row] for c, v in columns.items()} for row in range(ROWS)]


@settings(max_examples=examples(80))
@given(histories(), st.data())
def test_the_state_at_any_time(history: Any, data: st.DataObject) -> None:
    stored = stored_as(MemoryFileSystem(), history)
    stamps, initial, records, _ = history
    for time in data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=4)):
        expected = states(stamps, initial, records, time)
        assert seen(stored, time) == expected
        conjunction = [data.draw(predicates(c, KNOWN[c.id])) for c in COLUMNS[1:]]
        view = stored.view(time)
        batches = view.rowset.scan(COLUMNS, conjunction, 0, ROWS, ScanCounters(), view.all_patches)
        found = [tuple(row.values()) for b in batches for row in b.to_arrow(SCHEMA.names).to_pylist()]
        assert found == [
            python_row(COLUMNS, row)
            for row in expected
            if row is not None and all(holds(p, row[SCHEMA.column(p.column).id]) for p in conjunction)
        ]
        if not stored.is_visible(time):
            assert not any(expected)


@given(histories(), st.integers(0, ROWS), st.integers(0, ROWS))
def test_its_deltas_and_its_living_rows(history: Any, one: int, other: int) -> None:
    stored = stored_as(MemoryFileSystem(), history)
    stamps, initial, records, ends = history
    living = [row is not None for row in states(stamps, initial, records, 2**62)]
    assert stored.live_count == sum(living)
    keys = Keys.from_values((INT,), [(k,) for k in (*range(ROWS), 77)])
    assert stored.find_live(keys).tolist() == [row if alive else -1 for row, alive in enumerate(living)] + [-1]
    assert [not stored.deleted.has(row) for row in range(ROWS)] == living
    start, stop = min(one, other), max(one, other)
    _, redo = stored.deltas(start, stop)
    later = [(r, t, int(k), v) for r, t, k, v in records[ends[0] :] if start <= r < stop]
    deletes_that_hide = [d for d in records_of(redo) if d[:2] not in [r[:2] for r in later]]
    assert [d for d in records_of(redo) if d not in deletes_that_hide] == sorted(later, key=lambda r: r[:2])
    assert all(kind == DeltaKind.DELETE for _, _, kind, _ in deletes_that_hide)


# ---- views -------------------------------------------------------------------------------------------------------


def plain(fs: MemoryFileSystem, rows: int = 10, redo: Deltas | None = None) -> StoredRowSet:
    (written,) = write(fs, SCHEMA, make_table(SCHEMA, {"k": list(range(rows)), "n": [0] * rows, "t": ["a"] * rows}))
    files = ()
    if redo is not None:
        write_delta_file(fs, "rowsets/redo", SCHEMA, redo)
        files = ("redo",)
    metadata = replace(written.metadata, redo_files=files, newest_undo=0)
    return open_rowset(fs, "rowsets", SCHEMA, metadata, PageCache(1 << 20))


def updated(*records: Any) -> Deltas:
    return deltas_of(COLUMNS, [(row, time, DeltaKind.UPDATE, given) for row, time, given in records])


def test_a_view_stays_as_it_is_while_writes_and_a_flush_go_on() -> None:
    fs = MemoryFileSystem()
    stored = plain(fs)
    stored.memstore.append(updated((1, 100, {1: 5})), 1)
    view = stored.view(100)
    stored.memstore.append_row(1, DeltaKind.UPDATE, {1: 6}, 101, 2)
    write_delta_file(fs, "rowsets/redo", SCHEMA, merge(stored.memstore.snapshot()))
    flushed = replace(stored.metadata, redo_files=("redo",))
    after = open_rowset(fs, "rowsets", SCHEMA, flushed, PageCache(1 << 20))
    after.memstore.append_row(1, DeltaKind.UPDATE, {1: 7}, 102, 3)
    assert view.patches(0, 10).columns[1].values.to_pylist() == [5]
    assert [after.patches(t, 0, 10).columns[1].values.to_pylist() for t in (100, 101, 102)] == [[5], [6], [7]]


def test_patches_are_kept_until_the_next_write() -> None:
    stored = plain(MemoryFileSystem())
    assert stored.view(10**6).all_patches is None
    stored.memstore.append(updated(*[(row, 100, {1: 5}) for row in range(8)]), 1)
    first = stored.view(200).all_patches
    assert first is not None
    assert stored.view(300).all_patches is first
    stored.memstore.append_row(9, DeltaKind.UPDATE, {1: 6}, 301, 2)
    second = stored.view(400).all_patches
    assert second is not first
    # The run that was there is not looked at again.
    assert second.layers[0] is first.layers[0]
    assert stored.view(300).patches(0, 10).columns[1].rows.tolist() == list(range(8))


def test_after_an_alteration_columns_are_known_by_their_ids() -> None:
    stored = plain(MemoryFileSystem())
    stored.memstore.append(updated((1, 100, {1: 5}), (2, 100, {2: "b"})), 1)
    columns = (
        COLUMNS[0],
        replace(COLUMNS[1], name="renamed"),
        ColumnSchema("added", STRING, id=7, initial="x", default="y"),
    )
    schema = Schema(columns, 1)
    altered = stored.with_schema(schema)
    altered.memstore.append_row(3, DeltaKind.UPDATE, {7: "z"}, 101, 2)
    view = altered.view(200)
    batches = view.rowset.scan(columns, (), 0, 4, ScanCounters(), view.all_patches)
    rows = [tuple(row.values()) for b in batches for row in b.to_arrow(schema.names).to_pylist()]
    assert rows == [(0, 0, "x"), (1, 5, "x"), (2, 0, "x"), (3, 0, "z")]


# ---- what is not read --------------------------------------------------------------------------------------------


def test_opening_reads_nothing_and_only_existence_is_read_for_keys() -> None:
    fs = WatchedFileSystem()
    redo = merge([Deltas.at(50, np.array([3]), DeltaKind.DELETE), updated((4, 50, {1: 5, 2: "b"}))])
    stored = plain(fs, redo=redo)
    fs.reads.clear()
    again = open_rowset(fs, "rowsets", SCHEMA, stored.metadata, PageCache(1 << 20))
    assert fs.reads == []
    assert again.deleted.has(3)
    assert again.live_count == 9
    assert {path for path, _, _ in fs.reads} == {"rowsets/redo"}


def test_deleted_rows_survive_the_removal_of_the_files_that_told_of_them() -> None:
    stored = plain(MemoryFileSystem(), redo=Deltas.at(50, np.array([3]), DeltaKind.DELETE))
    compacted = replace(stored, redo=())
    for file in stored.redo:
        file.close()
    assert compacted.deleted.has(3)


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 40), max_size=5))), st.integers(0, 20))
def test_deleted_rows_are_a_set(steps: Any, rows: int) -> None:
    deleted, model = DeletedRows(rows), set()
    for adds, chosen in steps:
        array = np.array(sorted(chosen), np.int64)
        if len(chosen) == 1:
            (deleted.add_row if adds else deleted.remove_row)(*chosen)
        else:
            (deleted.add if adds else deleted.remove)(array)
        model = model | chosen if adds else model - chosen
        assert deleted.count == len(model)
    assert [deleted.has(row) for row in range(45)] == [row in model for row in range(45)]
    assert deleted.contains(np.arange(44, -1, -1)).tolist() == [row in model for row in range(44, -1, -1)]
