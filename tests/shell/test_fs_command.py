"""`nyala fs`: what goes where, and exit codes. What is said is tested where it is made, in tests/storage."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import nyala
import pytest
from nyala.__main__ import main
from nyala.storage.database import Database


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "db"
    with nyala.connect(path) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(k, f"v{k}") for k in range(50)])
    with Database(path) as db:
        db.flush()
    return path


@pytest.fixture
def column(directory):
    return directory / "tables" / "t000001" / "t000001-p0000" / "rowsets" / "rowset-00000001-column-0001.col"


def damage(path):
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)


def test_a_healthy_store_ends_with_0(directory, capsys):
    assert main(["fs", "check", str(directory)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("checked 1 table, 1 tablet, 1 rowset with 50 rows, 2 column files with 2 pages")
    assert out.endswith(": 0 errors, 0 notes\n")  # and no line about a repair


def test_damage_ends_with_1_a_line_each(directory, column, capsys):
    damage(column)
    (directory / "stranger").write_text("")
    assert main(["fs", "check", str(directory)]) == 1
    note, error, summary, advice = capsys.readouterr().out.splitlines()
    assert note == f"note: {directory}/stranger: whole file: is no file of the store; it is left alone"
    assert error.startswith(f"error: {column}: page 0 at offset 16: checksum ")
    assert summary.endswith("1 error, 1 note")
    assert advice.startswith("repair: would save the readable rows of tablet t000001-p0000 of table t;")


def test_findings_as_json(directory, column, capsys):
    assert main(["fs", "check", str(directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    damage(column)
    assert main(["fs", "check", "--json", str(directory)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["directory"]) == (False, str(directory))
    (found,) = report["findings"]
    assert (found["severity"], found["path"], found["place"]) == ("error", str(column), "page 0 at offset 16")
    assert report["checked"]["rows"] == 50


def test_an_open_store_and_a_wrong_directory_are_messages(directory, tmp_path, capsys):
    with Database(directory):
        assert main(["fs", "check", str(directory)]) == 1
    assert "is open in this process" in capsys.readouterr().err
    assert main(["fs", "check", str(tmp_path)]) == 1
    assert "is no nyala store" in capsys.readouterr().err


def test_dump(directory, column, capsys, monkeypatch):
    monkeypatch.chdir(column.parent)
    assert main(["fs", "dump", column.name, "--rows", "2"]) == 0
    out = capsys.readouterr().out
    assert "column       v of table t (id 1)" in out  # found from the folder that we are in
    assert out.endswith("first 2 rows\nrow  value\n  0  'v0'\n  1  'v1'\n")
    assert main(["fs", "dump", str(directory / "LOCK")]) == 1
    assert "is no file of a nyala store" in capsys.readouterr().err
    assert main(["fs", "dump", "nothing"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_layout_fits_the_terminal_and_the_store_may_be_open(directory, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    picture = tmp_path / "t.svg"
    with Database(directory):
        assert main(["fs", "layout", str(directory), "t", "--svg", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("table t: 1 tablet, 1 rowset, 50 rows")
    assert max(map(len, lines[-2:])) == 60
    assert "█" * 20 in lines[-1]
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    assert main(["fs", "layout", str(directory), "tt"]) == 1
    assert "table tt does not exist" in capsys.readouterr().err
    assert main(["fs", "layout", str(directory), "t", "--svg", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["check"], ["dump"], ["layout"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fs", *command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: nyala fs")


def test_a_negative_number_of_rows_shows_the_usage(column, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fs", "dump", str(column), "--rows", "-1"])
    assert ended.value.code == 2
    assert "-1 is below 0" in capsys.readouterr().err


def test_as_a_process(directory, column):
    damage(column)
    command = [sys.executable, "-m", "nyala", "fs", "check", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"error: {column}: page 0 at offset 16" in done.stdout
    assert done.stderr == ""
