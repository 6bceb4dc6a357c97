"""YCSB's report shows what was found, says which targets were missed, and the command does what its options say."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import asdict

import pytest
from nyala.__main__ import main
from nyala.bench.files import save_json
from nyala.bench.ycsb import report
from nyala.bench.ycsb.bindings import BINDINGS
from nyala.bench.ycsb.model import Distribution, Kind, Latencies, Outcome, Setting
from nyala.bench.ycsb.runner import YcsbResult
from nyala.cli.commands.all_commands import nyala_parser
from rich.console import Console

SETTING = Setting(records=230, operations=301, threads=3)


def outcome(binding, workload, per_second, distribution: Distribution | None = None, failed=0) -> Outcome:
    took = {Kind.READ: Latencies(10, 1.5, 1.0, 2.0, 3.0, 4.0, 5.0)}
    first = "Broken: not today" if failed else None
    return Outcome(binding, workload, distribution, 10 * per_second, 10.0, 1.0, 5_000_000, took, failed, first)


def found_of(*outcomes) -> YcsbResult:
    return YcsbResult(
        SETTING, list(outcomes), {"nyala": "nyala 1"}, {"postgres": "not installed"}, {"processors": 2}, 1.5
    )


def targets(*outcomes) -> dict[str, tuple[bool, str]]:
    return {one.what: (one.is_met, one.found) for one in report.section(found_of(*outcomes)).targets}


def test_json_is_read_back_as_it_was(tmp_path):
    found = found_of(outcome("nyala", "load", 200), outcome("nyala", "D", 80, "latest", failed=3))
    save_json(asdict(found), tmp_path / "found.json")
    data = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert YcsbResult.from_data(data) == found
    assert report.section(data) == report.section(found)


def test_targets_are_met_or_missed():
    on_duckdb = "nyala ahead of DuckDB on every workload"
    on_postgres = "nyala ahead of PostgreSQL over loopback on A, B, C, D and F"
    skew = "nyala with zipfian keys, relative to uniform ones"
    ours = [outcome("nyala", "load", 200), outcome("nyala", "A", 80, "zipfian"), outcome("nyala", "E", 5, "zipfian")]
    ours.append(outcome("nyala", "A", 100, "uniform"))
    assert targets(*ours) == {skew: (True, "A 0.80x")}
    theirs = [outcome("duckdb", "load", 100), outcome("duckdb", "A", 40, "zipfian")]
    theirs += [outcome("postgres", "A", 100, "zipfian"), outcome("postgres", "E", 1, "zipfian")]
    assert targets(*ours, *theirs) == {
        on_duckdb: (True, "load 2.00x, A 2.00x"),
        on_postgres: (False, "A 0.80x"),
        skew: (True, "A 0.80x"),
    }
    even = outcome("duckdb", "E", 5, "zipfian")
    assert targets(*ours, *theirs, even)[on_duckdb] == (False, "load 2.00x, A 2.00x, E 1.00x")
    slow = outcome("nyala", "B", 79, "zipfian"), outcome("nyala", "B", 100, "uniform")
    assert targets(*ours, *slow)[skew] == (False, "A 0.80x, B 0.79x")
    failing = outcome("nyala", "A", 1000, "zipfian", failed=1)
    assert targets(failing, outcome("duckdb", "A", 1, "zipfian")) == {on_duckdb: (False, "A 1000.00x with failures")}


def test_tables_and_charts_have_what_was_found(tmp_path):
    found = found_of(
        outcome("nyala", "load", 20_000),
        outcome("duckdb", "load", 10_000),
        outcome("nyala", "A", 123.5, "zipfian", failed=7),
        outcome("nyala", "A", 247, "uniform"),
    )
    section = report.section(found)
    grids = {grid.title: grid for grid in section.grids}
    assert grids["Throughput"].columns == ["workload", "nyala", "duckdb"]
    assert grids["Throughput"].rows[:2] == [["load", 20_000, 10_000], ["A", pytest.approx(123.5), None]]
    assert grids["Throughput of nyala, as a multiple of another store's"].rows[0] == ["load", 2.0]
    assert list(grids["Failed operations"].rows) == [["nyala", "A", 7, "Broken: not today"]]
    assert list(grids["Left out"].rows) == [["postgres", "not installed"]]
    assert [(list(one.groups), dict(one.series)) for one in section.charts] == [
        (["load", "A"], {"nyala": [20_000, 123.5], "duckdb": [10_000, None]}),
        (["A"], {"nyala": [247], "duckdb": [None]}),
    ]
    assert all(len(row) == len(grid.columns) for grid in section.grids for row in grid.rows)

    out = io.StringIO()
    report.show(found, Console(file=out, width=80))
    for words in ("20,000", "124", "A uniform", "p99.9", "not installed", "met: nyala ahead of DuckDB"):
        assert words in out.getvalue()

    pytest.importorskip("matplotlib")
    report.draw(found, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


# ---- command ---------------------------------------------------------------------------------------------------------


def test_the_command_measures_and_saves(tmp_path, capsys):
    options = ["--records", "500", "--ops", "120", "--threads", "4", "--durability", "os"]
    files = ["--json", str(tmp_path / "found.json"), "--work-dir", str(tmp_path)]
    assert main(["bench", "ycsb", "--bindings", "sqlite,nyala", *options, *files]) == 0
    printed = capsys.readouterr()
    assert "sqlite: load" in printed.err and "Throughput, operations/s" in printed.out
    found = YcsbResult.from_data(json.loads((tmp_path / "found.json").read_text(encoding="utf-8")))
    assert found.left_out == {}
    assert [(one.binding, one.workload) for one in found.outcomes] == [
        (binding, workload) for binding in ("sqlite", "nyala") for workload in ("load", *"ABCFDE")
    ]
    assert all(one.failed == 0 and one.operations in (120, 500) for one in found.outcomes)
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bindings", "nyla"], "there is no binding nyla; did you mean nyala?"),
        (["--workloads", "A,G"], "there is no workload G; there are A"),
        (["--json", "/nonexistent/found.json"], "there is no directory /nonexistent for found.json"),
        (["--work-dir", "/dev/null"], "/dev/null is no directory"),
    ],
)
def test_the_command_refuses_what_cannot_be(options, message, capsys):
    assert main(["bench", "ycsb", *options]) == 1
    assert message in capsys.readouterr().err


def test_the_default_bindings_are_all_there_are():
    (action,) = [one for one in _ycsb_parser()._actions if "--bindings" in one.option_strings]
    assert action.default.split(",") == list(BINDINGS)


def _ycsb_parser():
    parser = nyala_parser()
    for name in ("bench", "ycsb"):
        (subparsers,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        parser = subparsers.choices[name]
    return parser
