"""The suite of bulk changes: its keys, and one pass on small data with equal answers of all engines."""

from __future__ import annotations

import numpy as np
import pytest
from nyala.bench.suites import mutations
from nyala.bench.suites.mutation_engines import DuckDBChanges, NyalaChanges, missing
from nyala.bench.suites.mutations import Mutations, rows_of, upsert_keys
from nyala.bench.suites.report import section
from nyala.bench.suites.runner import Setting


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("overlap", [1, 10, 100])
def test_keys_of_an_upsert_overlap_as_declared(overlap, is_sorted):
    keys = upsert_keys(20_000, overlap, 1, is_sorted)
    assert len(keys) == len(np.unique(keys)) == 2_000
    assert (keys % 2 == 0).sum() == 20 * overlap and keys.min() >= 0 and keys.max() < 40_001
    assert (np.diff(keys) > 0).all() == is_sorted
    assert (keys == upsert_keys(20_000, overlap, 1, is_sorted)).all()


def test_rows_are_those_of_the_table_each_time():
    keys = np.array([4, 2, 9])
    assert rows_of(keys, 3).equals(rows_of(keys, 3)) and not rows_of(keys, 3).equals(rows_of(keys, 4))
    loaded = mutations.table(500).read()["k"].to_pylist()
    assert sorted(loaded) == list(range(0, 1000, 2)) != loaded


@pytest.mark.slow
def test_all_engines_end_with_the_same_rows(tmp_path):
    found = Mutations().run(Setting(["nyala", "duckdb", "sqlite"], runs=1, rows=2_000, work=tmp_path))
    assert set(found.versions) == {"nyala", "duckdb", "duckdb-merge", "sqlite"}
    wrong = {(name, engine): t.trouble for name, by in found.queries.items() for engine, t in by.items() if t.trouble}
    assert not wrong
    assert len(found.queries["scan_delete_tenth"]["nyala"].wall) == 1 and not found.queries["update_all"]["nyala"].wall
    assert set(found.figures) == {f"on disk after {step}, MB" for step in ("load", "upserts", "update_all", "compact")}
    made = section({"suites": {"mutations": found.as_json() | {"title": "t", "text": "x"}}})
    assert [target.is_met for target in made.targets] == [True]


def test_an_engine_that_fails_or_answers_wrongly_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(NyalaChanges, "execute", lambda self, text: None)
    monkeypatch.setattr(DuckDBChanges, "compact", lambda self: 1 / 0)
    found = Mutations().run(Setting(["nyala", "duckdb"], runs=0, rows=500, work=tmp_path))
    assert found.queries["scan_update_all"]["nyala"].trouble.startswith("wrong: ")
    assert found.queries["compact"]["duckdb"].trouble == "failed: ZeroDivisionError: division by zero"
    assert "duckdb" not in found.queries["scan_compact"]
    assert missing("chdb") == "it takes no part in changes"
