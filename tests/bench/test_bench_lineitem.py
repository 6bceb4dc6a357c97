"""The paper's tables 2 and 3: all engines return the same results, failures are reported, and so are the figures."""

import argparse
import io
import json
from dataclasses import asdict
from decimal import Decimal

import pytest
from nyala.bench import postgres
from nyala.bench.lineitem import engines as stores
from nyala.bench.lineitem import measuring
from nyala.bench.lineitem.command import compare_on
from nyala.bench.lineitem.measuring import measure
from nyala.bench.lineitem.model import QUERIES, EngineJob, LineitemResult, Outcome, Timing, difference
from nyala.bench.lineitem.report import section, show
from nyala.bench.lineitem.worker import Answer, Worker
from nyala.errors import InterfaceError, OperationalError
from nyala.tpch.generate import generate, parquet_file
from nyala.tpch.schema import LINEITEM
from rich.console import Console

pytestmark = pytest.mark.slow

SCALE_FACTOR = 0.002
NAMES = [query.name for query in QUERIES]
CREATE = LINEITEM.create_table(2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return parquet_file(generate(SCALE_FACTOR, tmp_path_factory.mktemp("tpch") / "parquet"), "lineitem")


def _printed(found):
    out = io.StringIO()
    show(found, Console(file=out, width=240))
    return out.getvalue()


def test_all_engines_agree(source, tmp_path):
    engines = [name for name in stores.NAMES if name != "postgres" or postgres.is_installed()]
    found = measure(source, CREATE, engines=engines, runs=2, threads=2, work=tmp_path)
    assert (found.left_out, found.troubles) == ({}, [])
    assert list(found.engines) == engines
    assert list(tmp_path.iterdir()) == []
    for name, outcome in found.engines.items():
        assert (outcome.load_seconds is None) == (name == "nyala-parquet")
        assert outcome.disk_bytes > 100_000
        assert [len(outcome.queries[query].seconds) for query in NAMES] == [2] * len(NAMES)
    printed = _printed(found)
    assert all(name in printed for name in (*engines, *NAMES, "/ duckdb"))


def test_the_look_up_finds_an_order(source, tmp_path):
    with Worker("sqlite", EngineJob(source, CREATE, tmp_path, 1)) as worker:
        worker.open()
        worker.load()
        counts = [worker.run(query).rows[0][0] for query in QUERIES[1:]]
    assert counts[0] > counts[1] > counts[3] > counts[2] == 0
    assert counts[3] <= 7


def test_an_engine_that_does_not_start_is_left_out(source, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "binaries", _no_server)
    found = measure(source, CREATE, engines=["postgres", "sqlite"], runs=1, work=tmp_path)
    assert found.left_out == {"postgres": postgres.MISSING}
    assert list(found.engines) == ["sqlite"]
    assert f"postgres is left out: {postgres.MISSING}" in _printed(found)
    assert "postgres is left out" in section(asdict(found)).text


def _no_server():
    raise OperationalError(postgres.MISSING)


def test_a_load_that_fails_is_told_in_the_engine_s_words(source, tmp_path):
    create = "CREATE TABLE lineitem (l_orderkey BIGINT PRIMARY KEY)"
    found = measure(source, create, engines=["nyala"], runs=1, work=tmp_path)
    assert found.engines == {}
    assert "is not in table lineitem" in found.left_out["nyala"]


def test_a_process_that_ends_is_an_error(source, tmp_path):
    with Worker("sqlite", EngineJob(source, CREATE, tmp_path, 1)) as worker:
        worker.open()
        worker._process.kill()
        with pytest.raises(OperationalError, match=r"the process of sqlite ended \(exit -9\)"):
            worker.run(QUERIES[1])


def test_wrong_engine_and_missing_file(source, tmp_path):
    with pytest.raises(InterfaceError, match=r"there is no engine duckbd.*duckdb"):
        measure(source, CREATE, engines=["duckbd"])
    with pytest.raises(OperationalError, match="there is no file"):
        measure(tmp_path / "x.parquet", CREATE)


class _Answering:
    """A worker that has its answers, or an error for each."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def run(self, query):
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            raise OperationalError(answer)
        return Answer([(answer,)], 0.001)


def test_an_engine_with_another_answer_has_no_time():
    workers = {"nyala": _Answering(7, 7, 7), "duckdb": _Answering(7, 8), "sqlite": _Answering("gone")}
    found = LineitemResult(10, 2, 3, {name: Outcome("", "", 1.0, 1) for name in workers})
    measuring._measure_query(QUERIES[1], workers, found)
    assert [outcome.queries["Q2"].median for outcome in found.engines.values()] == [0.001, None, None]
    assert found.troubles == [
        "duckdb, Q2: not the answer of nyala: row 1, column 1: 8 instead of 7",
        "sqlite, Q2: failed: gone",
    ]


def test_differences():
    q1, count = QUERIES[0], QUERIES[1]
    row = ("A", "F", Decimal("1.00"), Decimal(2), Decimal(3), Decimal(4), 0.1, 0.2, 0.3, 7)
    assert difference(q1, [row], [row]) is None
    assert difference(q1, [(*row[:6], Decimal("0.1000000000000001"), *row[7:])], [row]) is None
    assert difference(q1, [(*row[:6], 0.1000001, *row[7:])], [row]) == "row 1, column 7: 0.1000001 instead of 0.1"
    assert difference(q1, [(*row[:2], Decimal("1.01"), *row[3:])], [row]) == "row 1, column 3: 1.01 instead of 1.00"
    assert difference(count, [(3,)], [(3,), (4,)]) == "1 rows instead of 2"
    assert difference(count, [(3, 1)], [(3,)]) == "2 columns instead of 1"


def test_numbers_become_a_section():
    outcomes = {
        "nyala": Outcome("nyala 1", "", 2.0, 10_000_000, {name: Timing([0.004, 0.002, 0.003]) for name in NAMES}),
        "sqlite": Outcome("SQLite 3", "", 4.0, 30_000_000, {name: Timing([0.006]) for name in NAMES}),
    }
    outcomes["sqlite"].queries["Q2"] = Timing([0.001], "not the answer of nyala: 3 instead of 4")
    made = section(json.loads(json.dumps(asdict(LineitemResult(100, 2, 3, outcomes, {"duckdb": "gone"})))))
    medians, ratios, runs, engines, paper = made.grids
    assert [list(row) for row in medians.rows] == [["nyala", 3, 3, 3, 3, 3], ["sqlite", 6, None, 6, 6, 6]]
    assert [list(row) for row in ratios.rows] == [["/ sqlite", 0.5, 0.5, None, 0.5, 0.5, 0.5]]
    assert list(runs.rows[0]) == ["nyala, first", 4, 4, 4, 4, 4]
    assert list(runs.rows[1]) == ["nyala, fastest", 2, 2, 2, 2, 2]
    assert list(engines.rows[1][:3]) == ["sqlite", 4.0, 30.0]
    assert list(paper.rows[1]) == ["Impala-Kudu", 1918, 13.2, 1.7, 0.7, 0.15]
    for grid in made.grids:
        assert all(len(row) == len(grid.columns) for row in grid.rows)
    for chart in made.charts:
        assert all(len(values) == len(chart.groups) for values in chart.series.values())
    assert "duckdb is left out: gone." in made.text
    assert "Error: sqlite, Q2: not the answer of nyala: 3 instead of 4." in made.text


@pytest.mark.parametrize(("engines", "code"), [("sqlite", 0), ("postgres", 1)])
def test_the_command_saves_what_the_section_reads(engines, code, source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(postgres, "binaries", _no_server)
    file = tmp_path / "found.json"
    given = argparse.Namespace(engines=engines, runs=1, threads=1, work_dir=tmp_path, json=file)
    assert compare_on(given, source, CREATE) == code
    assert section(json.loads(file.read_text())).name == "lineitem"
    assert "Q1, 1 times" in capsys.readouterr().out
