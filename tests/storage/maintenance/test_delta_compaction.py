"""Minor and major delta compactions against rows that are followed version by version."""

from __future__ import annotations

from compaction_support import History
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.storage.maintenance import delta_compaction, rowset_compaction


def updated(seed: int, files: int, writes: int = 6) -> History:
    """One rowset with several REDO files."""
    history = History(seed)
    history.write(16)
    history.flush()
    for _ in range(files):
        history.write(writes)
        for stored in history.rowsets:
            history.flush_deltas(stored)
    history.write(2)
    history.flush()
    return history


def compact(history: History, kind: str, first: int) -> None:
    stored = history.rng.choice(history.rowsets)
    if kind == "minor":
        delta_compaction.compact_minor(history.tablet, stored, first, first + 2)
    elif kind == "major":
        delta_compaction.compact_major(history.tablet, stored)
    elif kind == "one column":
        delta_compaction.compact_major(history.tablet, stored, {history.rng.choice([1, 2])})
    elif kind == "rowsets":
        rowset_compaction.compact_rowsets(history.tablet, history.rowsets)
    else:
        history.flush_deltas(stored)


KINDS = st.sampled_from(["minor", "major", "one column", "rowsets", "deltas"])


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.lists(st.tuples(KINDS, st.integers(0, 2)), max_size=5))
def test_all_states_stay_readable(seed, files, steps):
    history = updated(seed, files, writes=4)
    for kind, first in steps:
        compact(history, kind, first)
        history.check(some=6)
        history.write(history.rng.randint(0, 4))
        history.flush()
    history.check()
    for stored in history.rowsets:
        history.flush_deltas(stored)
    history.reopen()
    history.check(some=6)


def test_a_minor_compaction_joins_the_files_that_it_is_given():
    history = updated(3, files=4)
    (stored, *_) = history.rowsets
    names = stored.metadata.redo_files
    assert len(names) == 4
    written = delta_compaction.compact_minor(history.tablet, stored, 1, 3)
    (stored, *_) = history.rowsets
    found = stored.metadata.redo_files
    assert (found[0], found[2]) == (names[0], names[3])
    assert found[1] not in names
    assert written > 0
    assert [s.statistics.newest for s in stored.redo] == sorted(s.statistics.newest for s in stored.redo)
    history.check()


def test_a_major_compaction_rewrites_the_columns_that_it_is_given_alone():
    history = updated(3, files=3)
    (stored, *_) = history.rowsets
    before = stored.metadata
    assert delta_compaction.compact_major(history.tablet, stored, {1})
    (stored, *_) = history.rowsets
    after = stored.metadata
    assert {c for c in before.column_files if before.column_files[c] != after.column_files[c]} == {1}
    assert not any(file.statistics.updates.get(1) for file in stored.redo)
    assert len(stored.redo) == 1
    assert delta_compaction.compact_major(history.tablet, stored, {1}) == 0, "there is nothing left to do"
    assert delta_compaction.compact_major(history.tablet, stored)
    (stored, *_) = history.rowsets
    assert not any(sum(file.statistics.updates.values()) for file in stored.redo)
    history.check()


def test_the_bytes_of_a_rowset_are_those_of_its_files():
    history = updated(5, files=3)
    for step in (delta_compaction.compact_minor, delta_compaction.compact_major):
        history.reopen()
        (stored, *_) = history.rowsets
        before, size = stored.metadata.data_bytes, files_size(history, stored)
        step(history.tablet, stored)
        (stored, *_) = history.rowsets
        assert stored.metadata.data_bytes - before == files_size(history, stored) - size


def files_size(history: History, stored) -> int:
    metadata = stored.metadata
    names = [*metadata.column_files.values(), metadata.bloom_file, *metadata.undo_files, *metadata.redo_files]
    fs = history.tablet.fs
    return sum(fs.open(f"{history.tablet.rowset_directory}/{name}").size for name in names)


def test_a_scan_that_runs_keeps_the_files_it_reads():
    history = updated(3, files=3)
    tablet = history.tablet
    view = tablet.view(history.time)
    names = set(tablet.fs.list(tablet.rowset_directory))
    delta_compaction.compact_major(tablet, history.rowsets[0])
    assert names < set(tablet.fs.list(tablet.rowset_directory))
    del view
    tablet.remove_retired()
    kept = names & set(tablet.fs.list(tablet.rowset_directory))
    assert kept < names
    history.check()
