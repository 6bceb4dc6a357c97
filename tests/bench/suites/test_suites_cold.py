"""The suite of fixed costs: its texts, and one round of small processes."""

from __future__ import annotations

import pytest
from nyala.bench.suites import cold, cold_process
from nyala.bench.suites.cold import Cold
from nyala.bench.suites.engines import ENGINES
from nyala.bench.suites.model import SuiteResult
from nyala.bench.suites.runner import Setting, write_table


def test_no_two_texts_are_equal():
    made = [text for number in range(300) for text in cold_process.texts(number, 100_000).values()]
    assert len(set(made)) == len(made) == 300 * 7


def test_a_round_measures_every_step(tmp_path):
    """On SQLite, whose processes start at once."""
    suite = Cold(statements=2, tables=2)
    found = suite.run(Setting(["sqlite", "chdb"], runs=1, rows=1_000, work=tmp_path))
    assert found.left_out == {"chdb": "it has no processes of its own here"}
    wrong = {(name, engine): t.trouble for name, by in found.queries.items() for engine, t in by.items() if t.trouble}
    assert not wrong
    assert {"first_row", "busy", "create_tables", "open_tables", *cold_process.texts(0, 10)} == set(found.queries)
    assert all(timing.first_cpu > 0 for by in found.queries.values() for timing in by.values())
    assert len(found.queries["insert"]["sqlite"].wall) == 1 and not found.queries["create_tables"]["sqlite"].wall
    assert set(found.figures) >= {"processor time at rest, ms per second"}


def test_nyala_and_duckdb_run_every_text_and_query(tmp_path):
    (tmp_path / "data").mkdir()
    files = [write_table(table, tmp_path / "data") for table in cold.tables(1_000)]
    answers = {}
    for name in ("nyala", "duckdb"):
        (tmp_path / name).mkdir()
        engine = ENGINES[name](tmp_path / name, 2, 1)
        engine.load(files)
        engine.close()
        assert (
            cold_process.run_texts(name, tmp_path / name, 2, 2, 1_000, 0)["steps"].keys()
            == cold_process.texts(0, 9).keys()
        )
        connection = cold_process.connect(name, tmp_path / name, 2)
        queries = [cold_process.FIRST_ROW, *cold_process.BUSY, *cold_process.texts(7, 1_000).values()]
        answers[name] = [sorted(map(repr, connection.execute(text).fetchall())) for text in queries[:-2]]
        connection.close()
    assert [len(rows) for rows in answers["nyala"]] == [len(rows) for rows in answers["duckdb"]]


def test_other_first_answers_are_wrong():
    result = SuiteResult("cold", "1 row", 1, 2)
    cold._compare(result, {"first_row": {"nyala": [["1"]], "duckdb": [["2"]], "sqlite": [["2"]]}})
    assert result.timing("first_row", "nyala").trouble == "wrong: [['1']] instead of [['2']]"
    assert not result.timing("first_row", "sqlite").trouble


def test_a_process_that_fails_is_reported_with_its_error(tmp_path):
    processes = cold._Processes(tmp_path, 1, 10)
    with pytest.raises(cold.OperationalError, match="unable to open database file"):
        processes.run("sqlite", "first_row")
