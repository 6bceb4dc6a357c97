"""The runner's arithmetic, the report of suites, and the command line, on small or hand-made numbers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from nyala.__main__ import main
from nyala.bench.report.assembled import Report, entry
from nyala.bench.report.markdown import markdown
from nyala.bench.report.page import page
from nyala.bench.report.records import Record
from nyala.bench.suites import overview, runner
from nyala.bench.suites.command import choose, read_saved
from nyala.bench.suites.engines import DuckDB
from nyala.bench.suites.model import Query, SuiteResult, TableSpec, Timing
from nyala.bench.suites.report import GOALS, ratios, section, show, summary, troubles
from nyala.bench.suites.runner import Setting, measure_query, select, size_text
from nyala.errors import InterfaceError, OperationalError
from rich.console import Console


def timing(first, *warm, trouble=""):
    found = Timing(trouble=trouble, rows=1)
    for seconds in (first, *warm):
        found.add(seconds, seconds / 2)
    return found


def result(**queries):
    found = SuiteResult("clickbench", "10 rows", 3, 2, {"nyala": "nyala 1", "duckdb": "DuckDB 2"})
    found.queries = {"load": {"nyala": timing(9.0), "duckdb": timing(1.0)}}
    found.queries |= {name: {"nyala": ours, "duckdb": theirs} for name, (ours, theirs) in queries.items()}
    found.figures = {"on disk after load, MB": {"nyala": 3.0, "duckdb": 2.0}}
    return found.as_json() | {"title": "ClickBench", "text": "Many rows."}


DATA = result(
    q1=(timing(5.0, 1.0, 9.0, 2.0), timing(1.0, 4.0, 4.0, 4.0)),
    q2=(timing(4.0, 8.0), timing(2.0, 1.0)),
    q3=(timing(1.0, trouble="wrong: row 1"), timing(1.0, 1.0)),
)


def test_medians_leave_the_first_run_out():
    assert DATA["queries"]["q1"]["nyala"]["wall"] == 2.0
    assert DATA["queries"]["q1"]["nyala"]["first_wall"] == 5.0
    assert DATA["queries"]["load"]["nyala"]["wall"] == 9.0, "a step that ran once counts with that run"


def test_a_summary_has_geometric_means_of_right_answers():
    assert ratios(DATA, "duckdb", "cpu") == {"q1": 0.5, "q2": 8.0}
    found = summary(DATA)
    assert (found.n, found.wins, found.worst, found.worst_query) == (2, 1, 8.0, "q2")
    assert found.wall == pytest.approx(2.0) and found.cpu == pytest.approx(2.0)
    assert found.first == pytest.approx(10**0.5)
    assert summary(result()).cpu is None and summary(result()).worst_query == ""
    assert list(troubles(DATA)) == ["clickbench q3, nyala: wrong: row 1"]


def test_the_section_has_targets_tables_and_charts():
    found = section({"suites": {"clickbench": DATA}})
    verdicts = {target.what: target.is_met for target in found.targets}
    assert verdicts == {
        "clickbench: cpu / DuckDB, geometric mean": False,
        "clickbench: cpu / DuckDB, worst query": False,
        "clickbench: answers equal to DuckDB's": False,
    }
    for grid in found.grids:
        assert grid.rows and {len(row) for row in grid.rows} == {len(grid.columns)}
    for chart in found.charts:
        assert {len(values) for values in chart.series.values()} == {len(chart.groups)}
    data = {"suites": {"clickbench": DATA}}
    record = Record("suites", "nyala bench suites", "2026-11-22T19:40:00+00:00", "done", data=data)
    report = Report([entry(record, section)])
    assert "ClickBench: Many rows." in page(report) and "## Suites of queries" in markdown(report)
    assert "ClickBench: Many rows." in found.text and set(GOALS) >= {"clickbench"}


def test_two_runs_are_shown_side_by_side(capsys):
    faster = result(q1=(timing(5.0, 0.5), timing(1.0, 4.0)), q9=(timing(1.0), timing(1.0)))
    show({"clickbench": faster}, Console(width=160), {"clickbench": DATA})
    said = capsys.readouterr().out
    assert "before and after" in said and "clickbench, before" in said
    (line,) = [line for line in said.splitlines() if "q1" in line and line.count("│") == 7]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["q1", "1,000", "250", "0.250", "0.500", "0.125"]


class Fake:
    """An engine that answers with a number, or an error."""

    def __init__(self, answer):
        self.answer, self.ran = answer, 0

    def run(self, query):
        self.ran += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return pa.table({"x": [self.answer]})


class FakeReference(Fake, DuckDB):
    pass


def test_wrong_and_failed_engines_are_not_run_again():
    engines = {"nyala": Fake(1), "bad": Fake(2), "broken": Fake(ValueError("no")), "duckdb": FakeReference(1)}
    timings = {}
    measure_query(Query("1", "SELECT x FROM t"), engines, 3, timings)
    assert {name: engine.ran for name, engine in engines.items()} == {"nyala": 4, "bad": 1, "broken": 1, "duckdb": 4}
    assert len(timings["nyala"].wall) == 3 and not timings["nyala"].trouble
    assert timings["bad"].trouble.startswith("wrong: ") and timings["broken"].trouble == "failed: ValueError: no"


def test_slow_queries_run_once(monkeypatch):
    monkeypatch.setattr(runner, "SLOW_SECONDS", 0.0)
    engines = {"nyala": Fake(1), "duckdb": FakeReference(1)}
    measure_query(Query("1", "SELECT x FROM t"), engines, 3, {})
    assert engines["nyala"].ran == 1


def test_queries_are_selected_by_name():
    known = [Query("3", "a"), Query("5", "b")]
    assert [one.name for one in select(known, ["5", "3"])] == ["3", "5"] and select(known, []) == known
    with pytest.raises(InterfaceError, match=r"there is no query 4; .* 3, 5"):
        select(known, ["4"])


def test_sizes_and_tables():
    setting = Setting(["nyala"], rows=7, scale=0.5)
    assert setting.size("rows", 9).rows == 7 and setting.size("scale", 9).scale == 0.5
    assert size_text("scale", Setting([]).size("scale", 2.0)) == "scale factor 2"
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("d", pa.decimal128(9, 2)), ("t", pa.string())])
    spec = TableSpec("t", schema, ("a",), lambda: iter(()))
    text = "CREATE TABLE t (a BIGINT NOT NULL, d DECIMAL(9, 2), t VARCHAR, PRIMARY KEY (a))"
    assert spec.create_table() == text
    assert spec.create_table(4) == f"{text} DISTRIBUTE BY HASH (a) INTO 4 BUCKETS"


def test_the_command_runs_saves_and_compares(tmp_path, capsys):
    saved = tmp_path / "run.json"
    words = ["bench", "suites", "clickbench", "--rows", "300", "--runs", "1", "--queries", "1,30"]
    words += ["--engines", "nyala,duckdb,duckdb-parquet,sqlite", "--work-dir", str(tmp_path), "--json", str(saved)]
    assert main(words) == 0
    data = read_saved(saved)["clickbench"]
    assert list(data["queries"]) == ["load", "1", "30"] and data["size"] == "300 rows"
    assert set(data["versions"]) == {"nyala", "duckdb", "duckdb-parquet", "sqlite"}
    assert not list(troubles(data))
    assert main([*words[:-2], "--before", str(saved)]) == 0
    assert "before and after" in capsys.readouterr().out


def test_wrong_arguments_are_met_with_advice(tmp_path, capsys):
    with pytest.raises(InterfaceError, match=r"there is no suite clickbnch; did you mean clickbench\?"):
        choose(["clickbnch"])
    assert main(["bench", "suites", "--queries", "3"]) == 1
    assert "name the suite" in capsys.readouterr().err
    (tmp_path / "other.json").write_text(json.dumps([1]))
    with pytest.raises(OperationalError, match="is no result"):
        read_saved(tmp_path / "other.json")
    with pytest.raises(OperationalError, match="No such file"):
        read_saved(tmp_path / "none.json")


def test_the_overview_lists_suites_and_slow_queries(tmp_path, capsys):
    machine = {"processor": "EPYC", "processors": 2, "memory": 25e9, "system": "Linux", "python": "3.11", "load": 9}
    paths = [tmp_path / name for name in ("before.json", "after.json")]
    faster = result(q1=(timing(5.0, 2.0), timing(1.0, 4.0)), q2=(timing(4.0, 6.0), timing(2.0, 4.0)))
    for path, data in zip(paths, (DATA, faster), strict=True):
        path.write_text(json.dumps({"machine": machine, "suites": {"clickbench": data}}))
    assert overview.main([str(path) for path in paths]) == 0
    shown = capsys.readouterr().out
    assert "| clickbench | 10 rows | 2 | 0.866 | 1.50 | q2 | 1 | 0 |" in shown, "the last file counts"
    assert "| clickbench | q2 | 3,000 | 2,000 | 1.50 |" in shown and "| clickbench | q1 |" not in shown
    assert "EPYC, 2 processors" in shown and "load" not in shown
