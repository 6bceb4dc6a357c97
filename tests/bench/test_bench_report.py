"""The report of all benchmarks: sections of hand-made numbers, both pages, and the runs that they come from."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from nyala.bench import all as bench_all
from nyala.bench.report import bars, records, sections, sections_cluster, sections_sql
from nyala.bench.report.assembled import Entry, Report, counted, entry
from nyala.bench.report.cells import at_least, at_most
from nyala.bench.report.markdown import markdown
from nyala.bench.report.model import Chart, Grid, Section, Target
from nyala.bench.report.page import page
from nyala.bench.report.records import Record
from nyala.bench.report.runner import Runner
from nyala.bench.report.suite import SUITE, Benchmark, Settings
from nyala.errors import InterfaceError, OperationalError

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Tags must nest; keeps text, ids, and everything that a browser would load."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.loads, self.ids, self.links, self.texts, self.tags = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append(tag)
        self.loads += [named[a] for a in ("src", "data", "action", "srcset") if a in named]
        self.loads += [named["href"]] if tag == "link" else []
        self.links += [named["href"]] if tag == "a" else []
        self.ids += [named["id"]] if "id" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> inside {self.open}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


# ---- sections --------------------------------------------------------------------------------------------------------


def rates(*numbers):
    return {"per_second": list(numbers), "per_cpu_second": [2 * n for n in numbers]}


def outcome(cold, *warm, wrong=None):
    middle = sorted(warm)[len(warm) // 2] if warm else None
    return {"cold": cold, "warm": warm, "median": middle, "best": middle, "rows": 4, "wrong": wrong, "failed": None}


def compared(versions, queries, ratios):
    return {
        "scale_factor": 0.5,
        "threads": 2,
        "runs": 3,
        "versions": versions,
        "skipped": {"datafusion-parquet": "not installed"},
        "queries": queries,
        "ratios": {peer: {"median": ratio} for peer, ratio in ratios.items()},
    }


DATA = {
    "load": {
        "nyala": [{"seconds": s, "peak_memory": 200e6, "disk": 10e6, "rows": 1000} for s in (3.0, 4.0, 9.0)],
        "duckdb": [{"seconds": s, "peak_memory": 100e6, "disk": 20e6, "rows": 1000} for s in (1.0, 2.5, 2.0)],
    },
    "storage": [
        {
            "name": "load",
            "ours": 9.0,
            "theirs": 4.0,
            "unit": "s",
            "peer": "DuckDB",
            "wanted": "at most 2x",
            "ratio": 2.25,
        },
        {"name": "memory", "ours": 900.0, "theirs": 1.0, "unit": "MB", "peer": "DuckDB", "wanted": "under 1,500 MB"}
        | {"ratio": 900.0},
        {"name": "batches", "ours": 300000.0, "theirs": None, "unit": "rows/s", "peer": "", "ratio": None}
        | {"wanted": "at least 250,000"},
        {"name": "updates", "ours": 3.0, "theirs": None, "unit": "rows/s", "peer": "", "ratio": None, "wanted": ""},
        {
            "name": "scan",
            "ours": 3.0,
            "theirs": 30.0,
            "unit": "ms",
            "peer": "Arrow",
            "ratio": 0.1,
            "wanted": "at most 0.167x",
        },
    ],
    "points": {
        "nyala": {"look up": rates(10.0, 30.0, 20.0), "insert": rates(5.0)},
        "sqlite": {"look up": rates(40.0), "insert": rates(10.0)},
    },
    "driver": {
        "rates": {
            "nyala": {"select by key": rates(9_000.0), "insert": rates(9_000.0)},
            "duckdb": {"select by key": rates(900.0), "insert": rates(90.0)},
        },
        "imports": {"nyala": 0.5, "sqlite": 0.01},
    },
    "maintenance": {
        "uniform": [
            {"seconds": 1800 * n, "bytes": 1e9, "rowsets": 3, "height": 1.5, "redo_files": 0.0}
            | {"space_amplification": 1.0, "write_amplification": 2.0 * n}
            for n in (1, 2)
        ]
    },
    "plan": {
        "cold": [
            {"name": "q1", "parse": 0.001, "bind": 0.002, "plan": 0.003},
            {"name": "q2", "parse": 0.010, "bind": 0.002, "plan": 0.004},
        ],
        "prepared": [{"name": "row by key", "seconds": 2e-6}, {"name": "plan", "seconds": 30e-6}],
    },
    "tpch": compared(
        {"nyala": "1", "duckdb-parquet": "2", "pyarrow-parquet": "3"},
        {
            "1": {
                "engines": {
                    "nyala": outcome(0.5, 0.2, 0.1, 0.3),
                    "duckdb-parquet": outcome(0.5, 0.1),
                    "pyarrow-parquet": outcome(0.5, 0.4),
                },
                "ratios": {"duckdb-parquet": 2.5, "pyarrow-parquet": 0.5},
            },
            "6": {
                "engines": {
                    "nyala": outcome(0.5, 0.1),
                    "duckdb-parquet": outcome(0.5, 0.4),
                    "pyarrow-parquet": outcome(None, wrong="one row more"),
                },
                "ratios": {"duckdb-parquet": 0.25, "pyarrow-parquet": None},
            },
        },
        {"duckdb-parquet": 0.7, "pyarrow-parquet": 0.5},
    ),
    "cluster": {
        "rates": {
            "cluster": {"ingest": [70_000.0, 50_000.0, 61_000.0], "insert": [1_000.0], "update": [1_600.0]}
            | {"look up": [4_000.0]},
            "embedded": {"ingest": [500_000.0], "insert": [5_000.0], "update": [5_000.0], "look up": [9_000.0]},
        },
        "resumed": [1.5, 6.0],
    },
    "cluster-tpch": {
        "load_seconds": 2.0,
        "rows": 1000,
        "queries": [
            {"name": "q1", "cluster": [0.1, 0.3, 0.2], "embedded": [0.1], "is_equal": True},
            {"name": "q2", "cluster": [0.5], "embedded": [0.1], "is_equal": False},
        ],
    },
    "spark": {
        "reads": {
            "filter": {"parquet": [1.0], "table()": [1.5], "format": [2.0]},
            "numbers": {"parquet": [1.0], "table()": [2.0], "format": [2.0]},
        },
        "ingest_rows": 300_000,
        "ingest_seconds": [2.0],
    },
    "spark-tpch": compared(
        {"nyala": "1", "spark-nyala": "4", "spark-parquet": "4"},
        {
            "1": {
                "engines": {
                    "nyala": outcome(0.2, 0.1),
                    "spark-nyala": outcome(1.0, 1.0),
                    "spark-parquet": outcome(2.0, 2.0),
                },
                "ratios": {"spark-nyala": 0.1, "spark-parquet": 0.05},
            }
        },
        {"spark-nyala": 0.1, "spark-parquet": 0.05},
    ),
}
MADE = {one.name: one.section for one in SUITE}


def step(*numbers, server, client=1e-6):
    return {"per_second": list(numbers), "server_seconds": [server] * len(numbers), "client_seconds": [client]}


DATA["doors"] = {
    "steps": {
        "nyala": {
            "look up, 8 clients": step(900.0, 1000.0, server=2e-6),
            "insert, 8 clients": step(4000.0, server=3e-6),
            "select": step(4e6, 5e6, server=1e-7),
            "select, Flight SQL": step(5e7, server=1e-8),
            "copy in, lineitem": step(3e5, server=1e-6),
        },
        "postgresql": {
            "look up, 8 clients": step(2000.0, server=1e-6),
            "insert, 8 clients": step(8000.0, server=1e-6),
            "select": step(1e6, server=5e-7),
            "copy in, lineitem": step(1e5, server=4e-6),
        },
    },
    "queries": [
        {"name": "q1", "psycopg": [0.2, 0.3, 0.1], "embedded": [0.2], "rows": 4, "is_equal": True},
        {"name": "q2", "psycopg": [0.13], "embedded": [0.1], "rows": 9, "is_equal": False},
    ],
}


def test_targets_of_the_doors():
    assert verdicts("doors") == {
        "the doors: select of four numeric columns / PostgreSQL": ("5.00x", True),
        "Flight SQL: four numeric columns": ("1.60 GB/s", True),
        "the doors: binary COPY of lineitem / PostgreSQL": ("3.00x", True),
        "the doors: look-ups by 8 clients / PostgreSQL": ("0.500x", False),
        "the doors: inserts by 8 clients": ("4,000 per second", False),
        "TPC-H by psycopg / embedded, geometric mean (worst: Q2)": ("1.14x", False),
        "TPC-H by psycopg: answers equal to the embedded store's": ("Q2 are not", False),
    }
    grids = MADE["doors"](DATA["doors"]).grids
    assert [row[0] for row in grids[0].rows] == ["look up, 8 clients", "insert, 8 clients"]
    assert grids[1].rows[1] == ("select, Flight SQL", 5e7, None, None, pytest.approx(0.01), None, pytest.approx(1.0))
    some = MADE["doors"]({"steps": {}, "queries": DATA["doors"]["queries"]})
    assert len(some.grids) == 1 and sum(target.is_measured for target in some.targets) == 2


def verdicts(name):
    return {target.what: (target.found, target.is_met) for target in MADE[name](DATA[name]).targets}


@pytest.mark.parametrize("name", DATA)
def test_a_section_is_whole_and_its_pages_are_well_formed(name):
    section = MADE[name](DATA[name])
    assert section.title and section.text and section.grids and section.charts
    for grid in section.grids:
        assert grid.rows and {len(row) for row in grid.rows} == {len(grid.columns)}
    for chart in section.charts:
        assert {len(values) for values in chart.series.values()} == {len(chart.groups)}
    done = Record(name, f"nyala bench {name}", "2026-11-22T19:40:00+00:00", "done", data=DATA[name])
    report = Report([entry(done, MADE[name])])
    assert section.title in Reader(page(report)).text
    assert f"## {section.title}" in markdown(report)


def test_load_takes_medians_and_holds_the_ratio_against_its_target():
    assert verdicts("load") == {"time of a bulk load / DuckDB's": ("2.00x", True)}
    assert sections.load(DATA["load"]).grids[0].rows[1] == ("peak memory, MB", 200.0, 100.0, 2.0)


def test_targets_of_the_storage_engine_are_read_from_their_words():
    assert verdicts("storage") == {
        "storage: load / DuckDB": ("2.25x", False),
        "storage: memory": ("900 MB", True),
        "storage: batches": ("300,000 rows/s", True),
        "storage: scan / Arrow": ("0.100x", True),
    }


def test_rates_are_medians_with_ratios_to_each_peer():
    grid = sections.points(DATA["points"]).grids[0]
    assert grid.columns == ("", "nyala", "SQLite", "nyala / SQLite")
    assert list(grid.rows) == [("look up", 20.0, 40.0, 0.5), ("insert", 5.0, 10.0, 0.5)]


def test_targets_of_the_driver():
    assert verdicts("driver") == {
        "PEP 249: select by key": ("9,000 per second", False),
        "PEP 249: insert": ("9,000 per second", True),
        "import nyala, processor time": ("0.500 s", False),
    }


def test_planning_is_judged_by_its_slowest_query():
    found = verdicts("plan")
    assert found["from text to plan, slowest of TPC-H"] == ("16.0 ms", False)
    assert (found["prepared, row by key"][1], found["prepared, plan"][1]) == (True, False)


def test_tpch_says_what_went_wrong_and_misses_the_targets_for_it():
    section = sections_sql.tpch(DATA["tpch"])
    found = verdicts("tpch")
    assert found["TPC-H: nyala / DuckDB on Parquet, geometric mean"] == ("0.700x", True)
    assert found["TPC-H: nyala / DuckDB on Parquet, worst query"] == ("2.50x", False)
    assert found["TPC-H: answers of nyala, duckdb-parquet, pyarrow-parquet equal"] == ("1 are not", False)
    assert "Q6 of nyala's executor on Parquet went wrong: one row more." in section.text
    assert "DataFusion on Parquet is left out: not installed." in section.text
    medians = next(grid for grid in section.grids if grid.title == "Medians of warm runs")
    assert medians.rows[0] == ("Q1", 200.0, 100.0, 400.0)
    assert medians.rows[1] == ("Q6", 100.0, 400.0, None)


def test_targets_of_the_cluster():
    found = verdicts("cluster")
    assert found["cluster: ingest"] == ("61,000 per second", True)
    assert found["cluster: insert"] == ("1,000 per second", False)
    assert found["cluster: from a leader's SIGKILL to the next write, slowest"] == ("6.00 s", False)
    queries = verdicts("cluster-tpch")
    assert queries["TPC-H on a cluster / embedded, worst query (Q2; 1 of 2 above)"] == ("5.00x", False)
    assert "Other rows than embedded: Q2." in sections_cluster.cluster_tpch(DATA["cluster-tpch"]).text


def test_targets_of_spark():
    assert verdicts("spark") == {
        "Spark: filter by table() / Spark on Parquet": ("1.50x", False),
        "Spark: numbers by table() / Spark on Parquet": ("2.00x", True),
        "Spark: ingest of lineitem": ("150,000 rows/s", True),
    }
    found = verdicts("spark-tpch")
    assert found["TPC-H on Spark: over nyala / on Parquet, geometric mean"] == ("0.500x", True)
    assert found["TPC-H: times as fast as Spark on Parquet"] == ("20.0x", True)


def test_a_target_without_a_number_is_neither_met_nor_missed():
    assert at_most("x", 2, None).is_measured is False
    found = at_least("x", 2, None, "s")
    assert found == Target("x", "at least 2 s", "not measured", False, False)
    record = records.begin("x", "nyala bench x", {})
    report = Report([Entry(record, Section("x", "X", "A text.", targets=[found, at_most("y", 1, 1)]))])
    assert counted(report) == (1, 1)
    html, text = page(report), markdown(report)
    assert "missed" not in text and "| not measured |" in text and "1 of 1 targets met" in text
    assert "✗" not in html and "pill not-measured" in html and "targets not measured" in html
    assert "trial" not in html and "trial" not in text
    trial = Report([replace(report.entries[0], record=replace(record, quick=True))])
    assert "nothing of how fast" in page(trial) and "nothing of how fast" in markdown(trial)
    assert at_most("x", 2, 2.0001, "x") == Target("x", "at most 2x", "2.0001x", False)


# ---- pages -----------------------------------------------------------------------------------------------------------

NASTY = "<script>alert('x')</script> & \"q\" | `code` *star*"


def nasty_report():
    section = Section(
        "x",
        NASTY,
        NASTY,
        [Grid(NASTY, ("a|b", NASTY), [(NASTY, 1234567.0), ("row\nbroken", None)], NASTY)],
        [Chart(NASTY, NASTY, [NASTY, "b"], {NASTY: [1.0, None], "nyala": [2.0, 3.0]})],
        [Target(NASTY, "at most 1", "2", False), Target("good", "1", "1", True)],
    )
    facts = {"machine": {"processor": NASTY, "processors": 2}, "versions": {NASTY: NASTY}}
    done = Record("first", f"nyala bench x {NASTY}", "2026-11-22T19:40:00+00:00", "done", 61.0, **facts)
    failed = Record(
        "second", "nyala bench y", "2026-11-22T19:50:00+00:00", "failed", 1.0, NASTY, (NASTY, "```"), **facts
    )
    skipped = Record("third", "nyala bench z", "2026-11-22T19:51:00+00:00", "skipped", 0.0, "no Spark", **facts)
    return Report([Entry(done, section), Entry(failed, None), Entry(skipped, None)], ["fourth"])


def test_the_page_needs_nothing_else_and_runs_nothing():
    text = page(nasty_report())
    read = Reader(text)
    assert read.loads == ["data:,"]
    assert "script" not in read.tags and "iframe" not in read.tags
    assert not re.search(r"https?:|@import|url\(", text)
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids)) and {"summary", "first", "second", "third"} <= set(read.ids)
    assert "<script>alert" in read.text  # as text


def test_the_page_says_what_each_number_stands_for_and_what_is_missing():
    read = Reader(page(nasty_report()))
    assert "nyala bench x" in read.text and "2026-11-22 19:40 UTC, took 1 min 1 s" in read.text
    assert "1 of 2 targets met" in read.text and "1 failed" in read.text and "1 skipped" in read.text
    assert "Not run: fourth." in read.text
    assert "no Spark" in read.text and "The end of its log" in read.text
    assert read.text.index("✗ missed") < read.text.index("✓ met"), "what was missed comes first"
    assert "1,234,567" in read.text


def test_markdown_keeps_its_tables_whole():
    text = markdown(nasty_report())
    code = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
    assert "<script>" not in code.sub("", text)
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "| ---" in text and "--: |" in text and "**missed**" in text and "1,234,567" in text
    assert text.count("```") == 2, "a log cannot end its own block"


def test_charts_of_few_groups_are_panels_and_of_many_are_columns():
    few = bars.drawn(Chart("t", "s", ["a", "b"], {"nyala": [1.0, 4.0], "DuckDB": [2.0, None]}))
    assert few.count('<div class="panel">') == 2
    assert 'width="50.00%"' in few and 'width="100.00%"' in few
    groups = [f"Q{n}" for n in range(22)]
    many = bars.drawn(Chart("t", "ms", groups, {"nyala": [1.0] * 22, "x": [None, *[250.0] * 21]}, "log"))
    Reader(many)
    assert many.count("<title>") == 43
    assert ">1,000</text>" in many and ">Q21</text>" in many
    assert bars.drawn(Chart("t", "s", ["a"], {"nyala": [None]})) == ""


def test_columns_lie_within_the_axis():
    values = [0.0, 0.3, 7.0, 12.0, 10_000.0] * 3
    for scale in ("linear", "log"):
        drawn = bars.drawn(Chart("t", "", [str(n) for n in range(15)], {"a": values}, scale))
        heights = [
            float(h)
            for h in re.findall(r'<rect class="c\d" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="([\d.-]+)"', drawn)
        ]
        assert len(heights) == 15 and min(heights) >= 0 and max(heights) <= 260
        assert heights[4] == max(heights) and sorted(heights[:5]) == heights[:5]


def test_series_have_their_colours_everywhere_and_none_twice():
    names = ["postgres", "nyala", "DuckDB on Parquet", "DuckDB's tables", "nyala-sql", "cluster", "other", "sqlite"]
    found = bars.colours(names)
    assert len(set(found.values())) == len(names)
    assert found["nyala"] == bars.colours(["x", "nyala"])["nyala"] == 0
    assert len(bars.colours([f"s{n}" for n in range(25)])) == 25


def test_numbers_that_a_section_does_not_know_fail_it_instead_of_the_report():
    record = Record("load", "nyala bench load", "2026-11-22T19:40:00+00:00", "done", data={"nyala": []})
    found = entry(record, sections.load)
    assert found.section is None and found.record.status == "failed" and "run it again" in found.record.reason


# ---- runs ------------------------------------------------------------------------------------------------------------

WRITE = "import json, sys; json.dump({'n': 7}, open(sys.argv[-1], 'w'))"


def fake(name, program=WRITE, **options):
    """A benchmark that is a line of Python; its section has the number that it saved."""

    def section(data):
        return Section(name, f"Title of {name}", "text", [Grid("g", ("a", "b"), [("n", data["n"])])])

    return Benchmark(name, lambda settings: (sys.executable, "-c", program), section, **options)


def asked(out, **options):
    given = {
        "only": None,
        "skip": None,
        "again": False,
        "quick": True,
        "sf": None,
        "keep": False,
        "limit": 1.0,
        "records": 10,
        "seconds": 1.0,
    }
    return argparse.Namespace(out=out, work_dir=None, kudu=None, **(given | options))


def test_all_runs_in_order_and_goes_on_where_it_was(tmp_path, capsys):
    noting = f"open({str(tmp_path / 'order')!r}, 'a').write(NAME); "
    suite = [fake(name, f"NAME = {name!r}; {noting}{WRITE}") for name in ("b", "a", "c")]
    out = tmp_path / "out"
    assert bench_all.all_command(asked(out, only="c,b"), suite) == 0
    assert (tmp_path / "order").read_text() == "bc"
    assert bench_all.all_command(asked(out), suite) == 0
    assert (tmp_path / "order").read_text() == "bca"
    assert bench_all.all_command(asked(out, skip="a,b", again=True), suite) == 0
    assert (tmp_path / "order").read_text() == "bcac"
    read = Reader((out / "index.html").read_text())
    assert read.text.index("Title of b") < read.text.index("Title of a") < read.text.index("Title of c")
    assert "## Title of c" in (out / "benchmarks.md").read_text()
    assert not (out / "work").exists(), "nothing is left of it"
    assert "there already" in capsys.readouterr().out


def test_what_another_command_has_found_does_not_count(tmp_path):
    suite = [fake("x")]
    assert bench_all.all_command(asked(tmp_path), suite) == 0
    larger = [replace(suite[0], command=lambda settings: (sys.executable, "-c", WRITE.replace("7", "8")))]
    assert bench_all.all_command(asked(tmp_path), larger) == 0
    assert records.read(tmp_path / "x.json").data == {"n": 8}


def test_a_result_has_command_date_machine_versions_and_the_numbers(tmp_path):
    bench_all.all_command(asked(tmp_path), [fake("x")])
    saved = json.loads((tmp_path / "x.json").read_text())
    assert saved["data"] == {"n": 7} and saved["status"] == "done" and saved["seconds"] >= 0
    assert saved["command"].startswith("python -c") and str(tmp_path) not in saved["command"]
    assert saved["date"].endswith("+00:00") and saved["machine"]["processors"] and "nyala" in saved["versions"]


def test_a_benchmark_that_fails_costs_the_others_nothing_and_is_tried_again(tmp_path, capsys):
    flag = tmp_path / "mended"
    program = f"import os, sys; print('told so'); os.path.exists({str(flag)!r}) or sys.exit(3); {WRITE}"
    suite = [fake("bad", program), fake("good")]
    assert bench_all.all_command(asked(tmp_path / "out"), suite) == 1
    failed = records.read(tmp_path / "out/bad.json")
    assert (failed.status, failed.reason, list(failed.log)) == ("failed", "exit code 3", ["told so"])
    text = Reader((tmp_path / "out/index.html").read_text()).text
    assert "exit code 3" in text and "The end of its log told so" in text and "Title of good" in text
    assert "FAILED, exit code 3" in capsys.readouterr().out
    flag.touch()
    assert bench_all.all_command(asked(tmp_path / "out"), suite) == 0
    assert "The end of its log" not in (tmp_path / "out/index.html").read_text()


def test_numbers_of_a_benchmark_that_failed_are_shown_with_the_failure(tmp_path):
    assert bench_all.all_command(asked(tmp_path), [fake("x", f"{WRITE}; sys.exit(1)")]) == 1
    text = Reader((tmp_path / "index.html").read_text()).text
    assert "Title of x" in text and "exit code 1" in text


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("pass", "saved no numbers"),
        ("import sys; open(sys.argv[-1], 'w').write('{')", "saved no numbers"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import time; time.sleep(60)", "not done after 0.3 s"),
    ],
)
def test_ways_to_fail(program, reason, tmp_path):
    assert bench_all.all_command(asked(tmp_path, limit=0.3 / 60), [fake("x", program)]) == 1
    assert reason in records.read(tmp_path / "x.json").reason


def test_what_is_missing_is_said_and_no_failure(tmp_path):
    suite = [fake("x", missing=lambda settings: "no Spark here")]
    assert bench_all.all_command(asked(tmp_path), suite) == 0
    assert "no Spark here" in Reader((tmp_path / "index.html").read_text()).text


@pytest.mark.parametrize("options", ["", ", start_new_session=True"], ids=["child", "server"])
def test_nothing_of_a_benchmark_outlives_it(options, tmp_path, monkeypatch):
    monkeypatch.setattr("nyala.bench.report.runner.STRAGGLER_SECONDS", 0.1)
    leaving = (
        "import os, subprocess, sys, tempfile; tempfile.mkdtemp(); "
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']{options}); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); {WRITE}"
    )
    bench_all.all_command(asked(tmp_path / "out", keep=True), [fake("x", leaving)])
    assert list((tmp_path / "out/work").iterdir()) == []
    _wait(lambda: not _runs(int((tmp_path / "pid").read_text())))


@pytest.mark.slow
def test_an_end_by_sigterm_ends_the_benchmark_first(tmp_path):
    noting = (
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "try: time.sleep(60)\n"
        f"finally: open({str(tmp_path / 'tidied')!r}, 'w').close()"
    )
    program = (
        "import argparse, sys; from pathlib import Path; from nyala.bench import all as a; "
        "from nyala.bench.report.suite import Benchmark; "
        f"b = Benchmark('x', lambda s: (sys.executable, '-c', {noting!r}), None); "
        f"a.all_command(argparse.Namespace(out=Path({str(tmp_path)!r}), work_dir=None, only=None, skip=None, "
        "again=False, quick=True, sf=None, keep=False, limit=1.0, records=10, seconds=1.0, kudu=None), [b])"
    )
    ours = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        ours.send_signal(signal.SIGTERM)
        assert ours.wait(30) != 0
    finally:
        ours.kill()
        ours.wait()
    assert (tmp_path / "tidied").exists()
    assert not _runs(int((tmp_path / "pid").read_text()))
    assert not (tmp_path / "x.json").exists(), "it is run again"


def _runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait(condition):
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_data_are_made_once_and_their_failure_is_told(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    making = f"import os, sys; open({str(calls)!r}, 'a').write('x'); sys.exit(os.path.exists({str(tmp_path / 'no')!r}))"
    monkeypatch.setattr("nyala.bench.report.runner.data_command", lambda s: (sys.executable, "-c", making))
    said = []
    work = tmp_path / "work"
    work.mkdir()

    def runner():
        return Runner(tmp_path, Settings(0.01, 2, work), {}, 60.0, said.append)

    (tmp_path / "no").touch()
    failing = runner()
    found = [failing.run(fake(name, needs="store")) for name in ("a", "b")]
    assert [one.status for one in found] == ["failed"] * 2 and "could not be created: exit code 1" in found[0].reason
    assert calls.read_text() == "x"
    (tmp_path / "no").unlink()
    assert runner().run(fake("a", needs="parquet")).status == "done"
    assert calls.read_text() == "xx"
    store = Settings(0.01, 2, work).store
    store.mkdir()
    (store / "tpch.json").touch()
    assert runner().run(fake("b", needs="store")).status == "done"
    assert calls.read_text() == "xx"


def test_wrong_names_are_met_with_a_guess(tmp_path):
    with pytest.raises(InterfaceError, match=r"there is no benchmark 'pionts'; did you mean points\?"):
        bench_all.choose(SUITE, "pionts", None)
    with pytest.raises(InterfaceError, match="leave no benchmark"):
        bench_all.choose(SUITE, "load", "load")
    assert [one.name for one in bench_all.choose(SUITE, "tpch, load", None)] == ["load", "tpch"]


def test_a_file_that_is_no_result_is_named(tmp_path):
    (tmp_path / "x.json").write_text('{"other": 1}')
    with pytest.raises(OperationalError, match=r"x\.json is not a result"):
        bench_all.all_command(asked(tmp_path), [fake("x")])


def test_command_lines_of_the_suite_are_commands(tmp_path):
    from nyala.cli.commands.all_commands import nyala_parser
    from nyala.command_line import find_handler

    for quick in (False, True):
        settings = Settings(0.5, 2, tmp_path, quick)
        runner = Runner(tmp_path, settings, {}, 60.0, print)
        for benchmark in SUITE:
            words = list(benchmark.command(settings))
            parsed = nyala_parser().parse_args([*words[1:], "--json", "x.json"])
            assert parsed.json == Path("x.json") and callable(find_handler(parsed.run))
            assert str(tmp_path) not in runner.shown(words)


def test_the_help_names_every_benchmark(capsys):
    from nyala.__main__ import main

    with pytest.raises(SystemExit):
        main(["bench", "all", "--help"])
    said = capsys.readouterr().out
    assert all(re.search(rf"\b{one.name}\b", said) for one in SUITE) and "--again" in said
