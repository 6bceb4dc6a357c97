"""Beside other engines: answers are checked, what is missing is named, tables and charts say what was measured."""

import json
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import nyala
import pyarrow as pa
import pytest
from examples import few
from nyala.__main__ import main
from nyala.errors import InterfaceError, OperationalError
from nyala.tpch import chart, check, compare, manifest, peers
from nyala.tpch.peers import DuckDB, Store, StorelessNyala, opened
from nyala.tpch.peers.spark import spark_sql
from nyala.tpch.queries import QUERIES, select

INSTALLED = ["duckdb-parquet", "duckdb", "pyarrow-parquet", "datafusion-parquet"]


class Echo:
    """A peer that answers what `change` makes of nyala's own answer on the files."""

    name = "echo"
    version = "1"

    def __init__(self, change=lambda table: table):
        self.change = change
        self.inner = StorelessNyala()
        self.runs = 0
        self.closed = False

    def missing(self):
        return None

    def prepare(self, data, threads):
        self.inner.prepare(data, threads)

    def run(self, text):
        self.runs += 1
        return self.change(self.inner.run(text))

    def close(self):
        self.inner.close()
        self.closed = True


@pytest.fixture(scope="module")
def ours(database):
    with nyala.connect(database, threads=2) as connection:
        yield Store(connection)


def run(ours, database, *engines, queries="6", runs=1, **more):
    return compare.compare(ours, manifest.read(database), select(queries), engines, threads=2, runs=runs, **more)


def no_rows(table):
    return table.slice(0, 0)


def fails(_):
    raise ValueError("no such kernel\nand much more")


@pytest.mark.parametrize("name", few(INSTALLED, 1))
def test_peers_answer_as_nyala_does(name, ours, database):
    (peer,) = peers.parse(name)
    report = run(ours, database, peer, queries=None)
    assert report.troubles == []
    assert len(report.ratios(name)) == len(QUERIES)


def test_every_engine_runs_equally_often(ours, database):
    echo = Echo()
    report = run(ours, database, echo, runs=3, queries="1,6")
    assert echo.runs == 8
    assert echo.closed
    for result in report.results:
        for outcome in result.outcomes.values():
            assert outcome.cold > 0
            assert len(outcome.warm) == 3


def test_the_threads_of_arrow_are_as_before(ours, database):
    before = pa.cpu_count()
    seen = []
    run(ours, database, Echo(lambda table: seen.append(pa.cpu_count()) or table))
    assert set(seen) == {2}
    assert pa.cpu_count() == before


def test_ratios_are_ours_over_theirs():
    outcomes = {compare.US: compare.Outcome(4.0, [1.0, 9.0, 2.0]), "a": compare.Outcome(1.0, [4.0, 3.0, 8.0])}
    result = compare.Comparison(6, outcomes)
    assert [result.ratio("a", measure) for measure in ("median", "best", "cold")] == [0.5, 1 / 3, 4.0]
    outcomes["a"].wrong = "it is"
    assert result.ratio("a") is None


def test_a_wrong_answer_is_told_and_has_no_time(ours, database):
    liar = Echo(no_rows)
    report = run(ours, database, liar, runs=3, queries="1,6")
    assert report.troubles == ["echo, Q1: 0 rows instead of 4", "echo, Q6: 0 rows instead of 1"]
    assert liar.runs == 2
    assert report.mean_ratio("echo") is None


def test_at_scale_factor_1_the_tpc_s_answers_are_the_measure(ours, database, monkeypatch):
    """The tables here are small, so neither the peer nor nyala returns the official answer."""
    whole = manifest.read(database)
    official = manifest.Manifest(1, whole.buckets, whole.data, whole.rows, whole.nyala)
    report = compare.compare(ours, official, select("6"), [Echo()], threads=2)
    assert [trouble.partition(",")[0] for trouble in report.troubles] == ["nyala", "echo"]


def test_an_engine_that_cannot_run_a_query_does_not_stop_the_others(ours, database):
    report = run(ours, database, Echo(fails), DuckDB())
    assert report.troubles == ["echo, Q6: ValueError: no such kernel"]
    assert len(report.ratios("duckdb-parquet")) == 1


def test_a_peer_that_is_missing_is_named_and_skipped(ours, database):
    absent, broken, said = Echo(), Echo(), []
    absent.name, absent.missing = "absent", lambda: "it is not installed; try: pip install absent"
    broken.name, broken.prepare = "broken", lambda *_: fails(None)
    report = run(ours, database, absent, broken, DuckDB(), say=said.append)
    assert report.peers == ["duckdb-parquet"]
    assert said == [
        "skipped absent: it is not installed; try: pip install absent",
        "skipped broken: it does not start: ValueError: no such kernel",
    ]
    assert list(report.skipped) == ["absent", "broken"]
    assert broken.closed
    with pytest.raises(OperationalError, match="no peer to compare with: absent: it is not installed"):
        run(ours, database, absent)


def test_what_is_not_installed_says_how_to_install_it(monkeypatch, parquet_directory):
    monkeypatch.setattr(peers.peer, "find_spec", lambda _: None)
    for name in ("duckdb", "datafusion-parquet", "spark-parquet"):
        (peer,) = peers.parse(name)
        assert "pip install 'nyala[" in peer.missing()
        with pytest.raises(OperationalError, match="is not installed"), opened(peer, parquet_directory, 1):
            pass
    assert peers.parse("pyarrow-parquet")[0].missing() is None


def test_names_of_peers():
    assert [maker().name for maker in peers.PEERS.values()] == list(peers.PEERS)
    assert {peer.name for peer in peers.parse(peers.DEFAULT)} < set(peers.PEERS)
    with pytest.raises(InterfaceError, match=r"there is no peer duckdb-parket; did you mean duckdb-parquet"):
        peers.parse("duckdb-parket")
    with pytest.raises(InterfaceError, match="no peer is named; there are duckdb-parquet"):
        peers.parse(" , ")


def test_an_average_that_is_cut_is_not_wrong_but_one_that_is_far_off_is():
    def one(text):
        return pa.table({"a": pa.array([text]).cast(pa.decimal128(20, len(text.partition(".")[2])))})

    query = QUERIES[5]
    assert check.compare(query, one("25.575154"), one("25.57515461")) is not None
    assert check.compare(query, one("25.575154"), one("25.57515461"), cut=True) is None
    assert check.compare(query, one("25.575154"), one("25.57515561"), cut=True) is not None
    assert check.compare(query, one("25.57"), one("25.58"), cut=True) is not None


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command(database, tmp_path, capsys):
    options = ["--queries", "1,6", "--runs", "2", "--threads", "2", "--output", f"{tmp_path}/new/"]
    assert main(["tpch", "compare", str(database), "--peers", "duckdb,pyarrow-parquet", *options]) == 0
    printed = capsys.readouterr().out
    assert "geometric mean of nyala / pyarrow-parquet" in printed
    assert "answers equal on all 3 engines" in printed
    assert max(map(len, printed.splitlines())) > 80, "no column may be folded away"
    data = json.loads((tmp_path / "new" / "tpch-compare-sf0.01.json").read_text())
    assert {"scale_factor": 0.01, "buckets": 3, "threads": 2, "runs": 2, "skipped": {}}.items() <= data.items()
    assert list(data["versions"]) == ["nyala", "duckdb", "pyarrow-parquet"]
    assert data["machine"]["processors"] > 0
    assert data["machine"]["memory"] > 1 << 20
    assert list(data["queries"]) == ["1", "6"]
    outcome = data["queries"]["6"]["engines"]["duckdb"]
    assert set(outcome) == {"cold", "warm", "median", "best", "rows", "wrong", "failed"}
    assert outcome["best"] <= outcome["median"] <= max(outcome["warm"])
    ours = data["queries"]["6"]["engines"]["nyala"]
    assert data["queries"]["6"]["ratios"]["duckdb"] == pytest.approx(ours["median"] / outcome["median"])
    assert data["ratios"]["duckdb"]["queries"] == 2
    drawn = tmp_path / "new" / "tpch-compare-sf0.01.png"
    assert drawn.exists() == (find_spec("matplotlib") is not None)
    if drawn.exists():
        assert drawn.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_chart_and_a_word_about_it(database, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(chart, "find_spec", lambda _: None)
    options = ["--queries", "6", "--runs", "1", "--peers", "duckdb-parquet", "--output", str(tmp_path / "monday")]
    assert main(["tpch", "compare", str(database), *options]) == 0
    assert "no chart, because matplotlib is not installed; try: pip install" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["monday.json"]


def test_a_chart_of_an_engine_without_any_time(ours, database, tmp_path):
    pytest.importorskip("matplotlib")
    chart.draw(run(ours, database, Echo(no_rows)), tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 1000


@pytest.mark.parametrize("queries", few([(1,), tuple(range(1, 23)), (1, 6), (1, 3, 6, 9)], 2))
@pytest.mark.parametrize("count", few([8, 5, 2], 1))
def test_title_and_legend_stay_inside_the_picture(queries, count):
    pytest.importorskip("matplotlib")
    known = ["nyala", *peers.PEERS, "another", "one-more-peer"][:count]
    versions = dict.fromkeys(known, "nyala without its store, 1.4.1")
    results = [
        SimpleNamespace(
            number=number,
            outcomes={name: SimpleNamespace(trouble="", median=0.01 * number + 0.001 * len(name)) for name in known},
        )
        for number in queries
    ]
    report = SimpleNamespace(
        results=results, versions=versions, manifest=SimpleNamespace(scale_factor=0.1), threads=2, runs=3
    )
    report.mean_ratio = lambda name: 0.53
    figure = chart.figure_of(report)
    figure.draw_without_rendering()
    for part in (*figure.legends, figure.axes[0].title):
        inside = part.get_window_extent()
        assert inside.x0 >= 0 and inside.y0 >= 0
        assert inside.x1 <= figure.bbox.x1 and inside.y1 <= figure.bbox.y1


def test_a_wrong_answer_ends_the_command_with_1(database, monkeypatch, capsys):
    monkeypatch.setitem(peers.PEERS, "duckdb", lambda: Echo(no_rows))
    assert main(["tpch", "compare", str(database), "--queries", "6", "--runs", "1", "--peers", "duckdb"]) == 1
    printed = capsys.readouterr().out
    assert "WRONG OR FAILED: echo, Q6: 0 rows instead of 1" in printed
    assert "answers equal" not in printed


def test_the_directory_may_be_left_out(parquet_directory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    short = ["--queries", "6", "--runs", "1", "--peers", "duckdb-parquet", "--data-dir", str(parquet_directory)]
    assert main(["tpch", "compare", "--sf", "0.01", *short]) == 0
    assert manifest.read(tmp_path / "tpch-sf0.01").scale_factor == 0.01
    assert main(["tpch", "compare", "tpch-sf0.01", "--sf", "0.1", *short]) == 1
    assert "tpch-sf0.01 holds scale factor 0.01, not 0.1" in capsys.readouterr().err
    assert main(["tpch", "compare", *short]) == 1
    assert "give a directory that `nyala tpch load` filled, or --sf N" in capsys.readouterr().err


# ---- Spark, without starting it --------------------------------------------------------------------------------------


def test_queries_become_spark_s():
    assert all(spark_sql(query.text) for query in QUERIES)
    assert "INTERVAL '3' MONTH" in spark_sql(QUERIES[14].text)


def test_nothing_heavy_is_imported_before_it_is_asked_for():
    heavy = {"pyspark", "datafusion", "matplotlib", "duckdb", "pandas", "prompt_toolkit"}
    check_ = f"import sys, nyala.tpch.command; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check_], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
