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
