"""The suite of fixed costs: its texts, and one round of small processes."""

from __future__ import annotations

import pytest
from nyala.bench.suites import cold, cold_process
from nyala.bench.suites.cold import Cold
from nyala.bench.suites.model import SuiteResult
from nyala.bench.suites.runner import Setting


def test_no_two_texts_are_equal():
    made = [text for number in range(300) for text in cold_process.texts(number, 100_000).values()]
    assert len(set(made)) == len(made) == 300 * 7


def test_a_round_measures_every_step(tmp_path):
    suite = Cold(statements=2, tables=2)
    found = suite.run(Setting(["nyala", "sqlite", "chdb"], runs=0, rows=1_000, work=tmp_path))
    assert found.left_out == {"chdb": "it has no processes of its own here"}
    wrong = {(name, engine): t.trouble for name, by in found.queries.items() for engine, t in by.items() if t.trouble}
    assert not wrong
    assert {"first_row", "busy", "create_tables", "open_tables", *cold_process.texts(0, 10)} == set(found.queries)
    assert all(timing.first_cpu > 0 for by in found.queries.values() for timing in by.values())
    assert set(found.figures) >= {"processor time at rest, ms per second"}


def test_other_first_answers_are_wrong():
    result = SuiteResult("cold", "1 row", 1, 2)
    cold._compare(result, {"first_row": {"nyala": [["1"]], "duckdb": [["2"]], "sqlite": [["2"]]}})
    assert result.timing("first_row", "nyala").trouble == "wrong: [['1']] instead of [['2']]"
    assert not result.timing("first_row", "sqlite").trouble


def test_a_process_that_fails_is_reported_with_its_error(tmp_path):
    processes = cold._Processes(tmp_path, 1, 10)
    with pytest.raises(cold.OperationalError, match="unable to open database file"):
        processes.run("sqlite", "first_row")
