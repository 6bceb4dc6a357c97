"""The `nyala` command as a process: exit codes, and what goes where.

Most commands are forks of a process that has imported nyala; those that test how it starts are `started` alone.
"""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from embedded_server_support import ServeProcess
from forked_command import nyala
from nyala.shell import formats
from nyala.shell.commands.commands import COMMANDS

SCRIPT = "CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'one'), (2, NULL);"


def started(*arguments, stdin=""):
    """Run a command in an interpreter of its own."""
    command = [sys.executable, "-m", "nyala", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("shell") / "db"
    done = nyala("shell", path, "-c", SCRIPT)
    assert (done.returncode, done.stderr) == (0, f"nyala: note: {path} holds no store yet; a new one is made\n")
    return path


def test_c_prints_a_table(directory):
    done = nyala("shell", directory, "-c", "SELECT k, v FROM t ORDER BY k")
    assert done.stdout == "k | v\n--+-----\n1 | one\n2 | NULL\n(2 rows)\n".replace("+-----\n", "+-----\n")
    assert done.returncode == 0


def test_f_and_c_run_in_order(directory, tmp_path):
    file = tmp_path / "script.sql"
    file.write_text("SELECT 1 AS a;\nSELECT 2 AS b;\n")
    done = nyala("shell", directory, "-f", file, "-c", "SELECT 3 AS c", "--format", "csv")
    assert done.stdout == "a\n1\nb\n2\nc\n3\n"


def test_formats_can_be_parsed(directory):
    text = "SELECT * FROM t ORDER BY k"
    assert json.loads(nyala("shell", directory, "--format", "json", "-c", text).stdout) == [
        {"k": 1, "v": "one"},
        {"k": 2, "v": None},
    ]
    rows = list(csv.reader(io.StringIO(nyala("shell", directory, "--format", "csv", "-c", text).stdout)))
    assert rows == [["k", "v"], ["1", "one"], ["2", ""]]
    assert "| 1 | one |" in nyala("shell", directory, "--format", "markdown", "-c", text).stdout


def test_a_pipe_runs_statements_and_commands(directory):
    done = started("shell", directory, stdin="\\dt\nSELECT\n  count(*) AS n\nFROM t;\n")
    assert done.returncode == 0
    assert "table | rows | tablets" in done.stdout
    assert "(1 row)" in done.stdout


def test_the_first_error_ends_a_pipe(directory):
    done = started("shell", directory, stdin="SELECT 1 AS a;\nSELECT x\nFROM t;\nSELECT 2 AS never;\n")
    assert done.returncode == 1
    assert "a" in done.stdout
    assert "never" not in done.stdout
    assert "LINE 2: SELECT x" in done.stderr
    assert "Traceback" not in done.stderr


def test_mistakes_are_messages(directory, tmp_path):
    for arguments, message in (
        (("shell", directory, "-f", tmp_path / "missing.sql"), "cannot read"),
        (("shell", "nyala://host:port", "-c", "SELECT 1"), "'host:port' is not a server"),
        (("tpch", "run", tmp_path / "nothing"), "holds no TPC-H tables"),
        (("tpch", "run", directory), "nyala tpch load --sf 1"),
    ):
        done = nyala(*arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_wrong_command_line_shows_the_usage():
    done = nyala("tpch", "load", "--sf", "-1", "x")
    assert done.returncode == 2
    assert "-1 is not above 0" in done.stderr
    assert started().returncode == 2


@pytest.mark.parametrize("command", [[], ["shell"], ["tpch"], ["tpch", "load"], ["tpch", "run"], ["bench", "load"]])
def test_help(command):
    done = started(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: nyala")


def test_version():
    assert started("--version").stdout.startswith("nyala 0.")


def test_without_a_directory_the_store_is_in_memory():
    assert nyala("shell", "-c", "SELECT 6 * 7 AS answer", "--format", "csv").stdout == "answer\n42\n"


def test_output_takes_the_format_from_the_name(directory, tmp_path):
    text = "SELECT * FROM t ORDER BY k"
    for name, expected in (("t.csv", b"k,v\n1,one\n2,\n"), ("t", b"k | v\n--+-----\n1 | one\n2 | NULL\n")):
        done = nyala("shell", directory, "--output", tmp_path / name, "-c", text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / name).read_bytes() == expected
    done = nyala("shell", directory, "--output", tmp_path / "t.csv", "--format", "json", "-c", text)
    assert len(json.loads((tmp_path / "t.csv").read_text())) == 2
    done = nyala("shell", directory, "--output", tmp_path / "missing" / "t.csv", "-c", text)
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_parquet_goes_to_a_file_or_a_pipe(directory, tmp_path):
    done = nyala("shell", directory, "--output", tmp_path / "t.parquet", "-c", "SELECT * FROM t ORDER BY k")
    assert done.returncode == 0
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == [{"k": 1, "v": "one"}, {"k": 2, "v": None}]
    done = nyala("shell", directory, "--output", tmp_path / "t.parquet", "-c", "SELECT 1 AS a; SELECT 2 AS b")
    assert "a Parquet file holds one" in done.stderr
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == [{"a": 1}]
    command = [sys.executable, "-m", "nyala", "shell", directory, "--format", "parquet", "-c", "SELECT 7 AS seven"]
    piped = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    assert pq.read_table(io.BytesIO(piped)).to_pylist() == [{"seven": 7}]


def test_half_a_result_is_no_parquet_file(directory, tmp_path):
    text = "SELECT 1 / (k - 100000) AS x FROM generate_series(0, 200000) AS g (k)"
    done = nyala("shell", directory, "--output", tmp_path / "t.parquet", "-c", text)
    assert done.returncode == 1
    assert "division by zero" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_keep_going_runs_the_rest_and_still_fails(directory):
    done = nyala("shell", directory, "--keep-going", "--format", "csv", stdin="SELECT x;\nSELECT 2 AS two;\n\\nope\n")
    assert done.stdout == "two\n2\n"
    assert done.returncode == 1
    assert done.stderr.count("error:") == 2


def test_files_that_run_files(directory, tmp_path):
    (tmp_path / "inner.sql").write_text("SELECT 1 AS one;\nSELECT oops;\nSELECT 2 AS never;\n")
    (tmp_path / "itself.sql").write_text(f"\\i {tmp_path}/itself.sql\n")
    done = nyala("shell", directory, "--format", "csv", stdin=f"\\i {tmp_path}/inner.sql\nSELECT 3 AS never;\n")
    assert (done.returncode, done.stdout) == (1, "one\n1\n")
    assert "LINE 2: SELECT oops" in done.stderr
    assert f"in {tmp_path}/inner.sql" in done.stderr
    done = nyala("shell", directory, stdin=f"\\i {tmp_path}/itself.sql\n")
    assert done.returncode == 1
    assert "seems to run itself" in done.stderr


@pytest.mark.parametrize("name", ["t.tsv", "t.xlsx", "t.jsonl", "| cat"])
def test_a_file_whose_name_says_no_format_is_refused_before_anything_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    done = nyala("shell", tmp_path / "db", "--output", name, "-c", "CREATE TABLE t (k INT PRIMARY KEY)")
    assert done.returncode == 1
    assert "to a command" in done.stderr if "|" in name else ".csv, .json, .md, .txt and .parquet" in done.stderr
    assert list(tmp_path.iterdir()) == []
    done = nyala("shell", stdin=f"\\o {name}\nSELECT 1 AS a;\n")
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_other_names_take_the_format_that_is_named(tmp_path):
    nyala("shell", "--output", tmp_path / "t.tsv", "--format", "csv", "-c", "SELECT 1 AS a")
    assert (tmp_path / "t.tsv").read_text() == "a\n1\n"
    nyala("shell", stdin=f"\\format csv\n\\o {tmp_path}/s.tsv\nSELECT 1 AS a;\n")
    assert (tmp_path / "s.tsv").read_text() == "a\n1\n"
    nyala("shell", "--output", tmp_path / "t.txt", "-c", "SELECT 1 AS a")
    assert (tmp_path / "t.txt").read_text() == "a\n-\n1\n"


@pytest.mark.parametrize("suffix", ["csv", "json", "md", "txt", "parquet"])
@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (k INT PRIMARY KEY)",
        "SELECT oops",
        "SELECT 1 / (k - 299999) AS x FROM generate_series(1, 300000) AS s (k)",
    ],
)
def test_a_file_stays_as_it_was_without_a_whole_result(tmp_path, suffix, text):
    file = tmp_path / f"old.{suffix}"
    file.write_text("precious")
    file.chmod(0o640)
    nyala("shell", "--output", file, "-c", text)
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]
    done = nyala("shell", "--output", file, "-c", "SELECT 1 AS a")
    assert (done.returncode, done.stderr) == (0, "")
    assert "precious" not in file.read_bytes().decode("latin-1")
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_half_a_result_is_cut_off_behind_a_whole_one(tmp_path):
    bad = "SELECT 1 / (k - 299999) AS x FROM generate_series(1, 300000) AS s (k)"
    nyala("shell", "--output", tmp_path / "t.json", "--keep-going", "-c", f"SELECT 1 AS a; {bad}; SELECT 2 AS b")
    assert [json.loads(line) for line in (tmp_path / "t.json").read_text().splitlines()] == [[{"a": 1}], [{"b": 2}]]


def test_several_results_are_lines_of_json_with_nothing_else(directory, tmp_path):
    text = (
        "CREATE TABLE u (k INT PRIMARY KEY); INSERT INTO u VALUES (1), (2); SELECT k FROM u ORDER BY k; SELECT 'a' AS v"
    )
    done = nyala("shell", "--format", "json", "--timing", "-c", text)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[{"k": 1}, {"k": 2}], [{"v": "a"}]]
    assert "Time:" in done.stderr
    nyala("shell", "--output", tmp_path / "o.json", "-c", text)
    assert (tmp_path / "o.json").read_text() == done.stdout


def test_asof_speaks_of_itself(directory):
    done = nyala("shell", directory, "--keep-going", stdin="\\asof yesterday\n\\asof 2026-13-01\n\\asof now(\n")
    assert done.stderr.count("error: \\asof ") == 3
    assert done.stderr.count("a time is written 2026-05-01 12:00") == 3
    assert "CAST" not in done.stderr and "SELECT" not in done.stderr
    lines = "\\asof 2026-05-01 12:00\nINSERT INTO t VALUES (7, 'x');\n"
    done = nyala("shell", directory, stdin=lines)
    assert "as of 2026-05-01 12:00:00.000000 UTC and changes nothing" in done.stderr
    assert "a statement that writes runs after \\asof off" in done.stderr


def test_o_switches_between_a_file_and_the_output(directory, tmp_path):
    lines = f"\\format csv\n\\o {tmp_path}/o.json\nSELECT 1 AS a;\n\\o\nSELECT 2 AS b;\n"
    assert nyala("shell", directory, stdin=lines).stdout == "b\n2\n"
    assert json.loads((tmp_path / "o.json").read_text()) == [{"a": 1}]


def test_asof_reads_the_past_and_keeps_settings(directory):
    lines = "\\asof 2020-01-01\nSELECT count(*) AS n FROM t;\nSET threads = 1;\n\\asof off\nSHOW threads;\n"
    done = nyala("shell", directory, "--format", "csv", stdin=lines)
    assert "n\n0\n" in done.stdout
    assert done.stdout.endswith("threads\n1\n")
    assert "2020-01-01 00:00:00.000000 UTC" in done.stdout


def test_plan_tells_shares_and_places_of_errors(directory):
    done = nyala("shell", directory, "--keep-going", stdin="\\plan SELECT sum(k) FROM t\n\\plan SELECT oops FROM t\n")
    assert "TableScan t" in done.stdout
    assert " % " in done.stdout
    assert "LINE 1: SELECT oops FROM t\n               ^^^^\n" in done.stderr


def test_the_document_has_every_command_and_option(directory):
    text = (Path(formats.__file__).parents[1] / "docs" / "shell.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\\.*?)` \| (.*) \|$", text, re.MULTILINE)
    assert [(usage.replace("\\|", "|"), effect) for usage, effect in rows] == [(c.usage, c.text) for c in COMMANDS]
    printed = nyala("shell", directory, stdin="\\?\n").stdout
    assert all(c.usage in printed and c.text in printed for c in COMMANDS)
    options = set(re.findall(r"--[a-z-]+", nyala("shell", "--help").stdout)) - {"--help", "--command", "--file"}
    assert options <= set(re.findall(r"--[a-z-]+", text))
    assert all(f"`{name}`" in text for name in formats.NAMES)


def test_a_mistyped_directory_is_noted_on_standard_error(directory, tmp_path):
    done = nyala("shell", tmp_path / "wether", "--format", "json", "-c", "SELECT 1 AS a")
    assert json.loads(done.stdout) == [{"a": 1}]
    assert done.stderr == f"nyala: note: {tmp_path}/wether holds no store yet; a new one is made\n"
    for target in (directory, tmp_path / "wether", ":memory:"):
        assert nyala("shell", target, "-c", "SELECT 1 AS a").stderr == ""


def test_serve_of_a_served_directory_prints_its_url(tmp_path):
    with ServeProcess(tmp_path / "db", "--history-seconds", "77", "--store-memory", "64MB") as owner:
        done = nyala("serve", tmp_path / "db")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{owner.url}\n", "")
        for option in (("--history-seconds", "5"), ("--store-memory", "1GB")):
            done = nyala("serve", tmp_path / "db", *option)
            assert done.returncode == 1
            assert done.stderr.startswith(f"nyala: error: {option[0]}: ") and "is served by process" in done.stderr
    shown = nyala("shell", tmp_path / "db", "--format", "csv", "-c", "SHOW history_seconds")
    assert "77" in shown.stdout
    done = nyala("serve", tmp_path / "db", "--history-seconds", "-1")
    assert (done.returncode, done.stdout) == (1, "")
