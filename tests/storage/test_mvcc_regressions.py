"""Runs of `test_mvcc_model` that once failed, as they were printed."""

from __future__ import annotations

from mvcc_machine import MvccMachine


def test_an_altered_memrowset_takes_values_of_new_columns():
    state = MvccMachine()
    state.open_store(kind="small", buckets=3, memrowset_bytes=1048576)
    state.write(rows=[("UPSERT", 6, {8: 2})], all_or_none=False)
    state.add_column(kind="STRING", code=4)
    state.write_row(op="UPDATE_IGNORE", key=6, given={11: 2, 4: 6, 6: 7})
    state.rows_are_the_models()
    state.flush()
    state.rows_are_the_models()
    state.teardown()


def test_an_alteration_after_a_failed_write_keeps_later_entries_of_the_log():
    state = MvccMachine()
    state.open_store(kind="small", buckets=3, memrowset_bytes=1500, history_seconds=0)
    state.write(rows=[("UPSERT", 4, {})], all_or_none=False)
    state.write(rows=[("UPDATE_IGNORE", 4, {0: 1})], all_or_none=False)
    state.failing_write(rows=[("INSERT_IGNORE", 0, {})], operation=("sync", "*/wal/*"), nth=2)
    state.flush()
    state.set_default(place=10, code=5)
    state.write(rows=[("UPSERT_IGNORE", 0, {})], all_or_none=False)
    state.maintain()
    state.crash(keep=1.0, seed=46718)
    state.rows_are_the_models()
    state.teardown()
