"""Merging compactions against rows that are followed version by version."""

from __future__ import annotations

import numpy as np
from compaction_support import History, deltas_of, keys_of
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.keys.keys import Keys
from nyala.model.types import BIGINT
from nyala.storage.deltas.deltas import DeltaKind, Deltas
from nyala.storage.deltas.version_merge import (
    combined,
    implied_insertion,
    plan_merge,
    with_insertions,
    without_insertions,
)
from nyala.storage.maintenance import rowset_compaction


def build(data, seed) -> History:
    history = History(seed)
    for _ in range(data.draw(st.integers(1, 5))):
        history.write(data.draw(st.integers(1, 12)))
        for stored in history.rowsets:
            if data.draw(st.booleans()):
                history.flush_deltas(stored)
        history.flush()
    return history


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_all_states_stay_readable(seed, data):
    history = build(data, seed)
    tablet = history.tablet
    wait_for = tablet.wait_for
    for _ in range(3):
        chosen = [stored for stored in history.rowsets if data.draw(st.booleans())]
        mark = data.draw(st.one_of(st.just(0), st.integers(0, history.time)))
        # What is written while the compaction reads, behind its cut.
        tablet.wait_for = lambda cut: (wait_for(cut), history.write(data.draw(st.integers(0, 4))))
        rowset_compaction.compact_rowsets(tablet, chosen, mark)
        tablet.wait_for = wait_for
        history.flush()
        history.check(some=8)
    history.check()


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_what_was_written_is_read_again_from_the_files(seed, data):
    history = build(data, seed)
    rowset_compaction.compact_rowsets(history.tablet, history.rowsets)
    history.reopen()
    history.check()
    keys = [key for stored in history.rowsets for key in keys_of(stored)]
    assert len(set(keys)) == len(keys), "a key has one row after all rowsets were merged"
    files = set(history.tablet.fs.list(history.tablet.rowset_directory))
    assert files == {
        name
        for stored in history.rowsets
        for m in [stored.metadata]
        for name in (*m.column_files.values(), m.bloom_file, *m.undo_files, *m.redo_files)
    }


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_nothing_ancient_stays(seed, data):
    history = build(data, seed)
    rowset_compaction.compact_rowsets(history.tablet, history.rowsets, history.time)
    history.check()
    for stored in history.rowsets:
        assert (stored.undo, stored.redo, stored.metadata.inserted) == ((), (), 0)
    keys = sorted(key for stored in history.rowsets for key in keys_of(stored))
    assert keys == [row[0] for row in history.expected(history.time)]


# ---- the arithmetic ----------------------------------------------------------------------------------------------


def test_a_plan_puts_the_version_that_lived_last_on_top():
    keys = Keys.from_values((BIGINT,), [(5,), (7,), (9,), (5,), (7,), (8,)])
    plan = plan_merge(keys, np.array([0, 30, 20, 40, 90, 0], np.uint64), mark=25)
    assert plan.sources.tolist() == [3, 0, 1, 4, 5, 2]
    assert plan.targets.tolist() == [0, 0, 1, 1, 2, -1]
    assert plan.is_base.tolist() == [False, True, False, True, True, False]
    assert plan.row_count == 3


def test_deltas_of_different_columns_become_one():
    one = deltas_of([(0, 5, DeltaKind.UPDATE, {1: 1}), (3, 5, DeltaKind.UPDATE, {1: 2})])
    other = deltas_of([(0, 5, DeltaKind.UPDATE, {2: "a"}), (3, 6, DeltaKind.UPDATE, {2: "b"})])
    both = combined([one, other])
    assert list(zip(both.rows.tolist(), both.timestamps.tolist())) == [(0, 5), (3, 5), (3, 6)]
    assert both.columns[1].places.tolist() == [0, 1]
    assert both.columns[2].places.tolist() == [0, 2]


def test_one_number_stands_for_insertions_at_one_time():
    updates = deltas_of([(1, 9, DeltaKind.UPDATE, {1: 1})])
    dated = with_insertions(updates, 0, 3, 7)
    rest, inserted = without_insertions(dated, 3)
    assert inserted == 7
    assert rest.rows.tolist() == [1]
    twice = with_insertions(deltas_of([(1, 8, DeltaKind.DELETE, {})]), 0, 3, 7)
    assert twice.timestamps.tolist() == [7, 8, 7]
    assert without_insertions(twice, 3) == (twice, 0)


def test_the_oldest_insertion_needs_no_deltas():
    later = deltas_of([(0, 8, DeltaKind.DELETE, {}), (1, 9, DeltaKind.DELETE, {})])
    assert implied_insertion([(Deltas.empty(), 7, 4), (later, 0, 2)]) == 7
    assert implied_insertion([(Deltas.empty(), 7, 4), (Deltas.empty(), 6, 4)]) == 6
    assert implied_insertion([(Deltas.empty(), 9, 4), (later, 0, 2)]) == 0, "one at 8 would seem to be of 9"
    assert implied_insertion([(Deltas.empty(), 7, 4), (later, 0, 3)]) == 0, "of one row it is forgotten"
    assert implied_insertion([(later, 0, 2)]) == 0
