"""The log of slow statements: what a line has, what it never has, and what happens when it cannot be written."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.cli.commands.all_commands import nyala_parser
from nyala.cli.doors import door_options
from nyala.cli.server_command import _around
from nyala.cluster.wire.process.log_files import Retention
from nyala.doors.json_lines import reopen_on_hangup
from nyala.doors.slow_log import SlowLog
from nyala.driver.session import running_work
from nyala.driver.session.statement_records import records
from nyala.errors import DivisionByZero, InterfaceError

pytestmark = pytest.mark.embedded_only("looks into this process")
SECRETS = ("Zanzibar", "918273645", "1999-12-31", "hunter2")


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process's records, and the handler of SIGHUP, are as before."""
    monkeypatch.setattr(running_work, "KEPT_SECONDS", 0.0)
    before, seconds = signal.getsignal(signal.SIGHUP), records().slow_seconds
    yield
    signal.signal(signal.SIGHUP, before)
    records().slow_seconds, records().slow_log = seconds, None


@pytest.fixture
def connection() -> Iterator[Any]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING, d DATE)")
        connection.execute("INSERT INTO t (k, v) SELECT n, 'v' FROM generate_series(1, 100) AS g(n)")
        yield connection


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_what_a_search_needs(connection: Any, tmp_path: Path) -> None:
    with closing(SlowLog(tmp_path / "slow", 0.0)):
        for value in ("a", "b"):
            connection.execute(f"SELECT v, count(*) FROM t WHERE v <> '{value}' GROUP BY v").fetchall()
        with pytest.raises(DivisionByZero):
            connection.execute("SELECT 1 / (k - 50) FROM t").fetchall()
    one, again, failed = lines(tmp_path / "slow")
    assert one.keys() == {
        "time", "user", "client", "seconds", "rows", "memory_bytes", "sqlstate", "plan", "statement", "operators",
    }  # fmt: skip
    assert one["statement"] == again["statement"] == "SELECT v, count(*) FROM t WHERE v <> ? GROUP BY v"
    assert one["plan"] == again["plan"] != failed["plan"]
    assert (one["rows"], one["sqlstate"], one["user"]) == (1, "", "nyala")
    assert one["memory_bytes"] > 0 and one["seconds"] > 0 and one["time"].endswith("Z")
    scan = one["operators"][-1]
    assert (scan["operator"], scan["rows"]) == ("TableScan t", 100) and scan["seconds"] >= 0
    assert failed["sqlstate"] == "22012"
    assert (tmp_path / "slow").stat().st_mode & 0o777 == 0o600


def test_values_and_passwords_are_never_logged(connection: Any, tmp_path: Path) -> None:
    with closing(SlowLog(tmp_path / "slow", 0.0)):
        connection.execute(
            "SELECT k FROM t WHERE v = 'Zanzibar' AND k + 0 < 918273645 AND d > DATE '1999-12-31' -- hunter2"
        ).fetchall()
        connection.execute("SELECT k FROM t WHERE v LIKE ? AND k + 1 <> ?", ("%Zanzibar%", 918273645)).fetchall()
        connection.execute("INSERT INTO t SELECT 918273645, 'Zanzibar', DATE '1999-12-31'")
        connection.execute("CREATE USER ann PASSWORD 'hunter2'")
    text = (tmp_path / "slow").read_text()
    assert len(text.splitlines()) >= 3
    assert [secret for secret in SECRETS if secret in text] == []


def test_fast_statements_are_not_logged_and_others_only_until_it_is_closed(connection: Any, tmp_path: Path) -> None:
    with closing(SlowLog(tmp_path / "slow", 3600.0)):
        connection.execute("SELECT count(*) FROM t").fetchall()
        records().slow_seconds = 0.0
        connection.execute("SELECT sum(k) FROM t").fetchall()
    connection.execute("SELECT max(k) FROM t").fetchall()
    assert [line["statement"] for line in lines(tmp_path / "slow")] == ["SELECT sum(k) FROM t"]


def test_it_is_rotated_and_opened_again(connection: Any, tmp_path: Path) -> None:
    path = tmp_path / "slow"
    with closing(SlowLog(path, 0.0, Retention(1000, 2))) as log:
        for _ in range(12):
            connection.execute("SELECT count(*) FROM t").fetchall()
        assert {file.name for file in tmp_path.iterdir()} == {"slow", "slow.1", "slow.2"}
        assert all(lines(file) for file in tmp_path.iterdir())
        reopen_on_hangup([log])
        path.rename(tmp_path / "moved")
        os.kill(os.getpid(), signal.SIGHUP)
        connection.execute("SELECT count(*) FROM t").fetchall()
        assert len(lines(path)) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_statements_end_well_without_room_for_a_line(connection: Any, caplog: pytest.LogCaptureFixture) -> None:
    with closing(SlowLog("/dev/full", 0.0)), caplog.at_level(logging.WARNING, "nyala.doors.slow"):
        for _ in range(3):
            assert connection.execute("SELECT count(*) FROM t").fetchall() == [(100,)]
    assert len([record for record in caplog.records if "slow statements cannot be logged" in record.message]) == 1


def test_the_lines_are_those_of_the_clients_of_a_door(connection: Any, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with closing(SlowLog(tmp_path / "slow", 0.0)):
        url = connection.serve(postgres="127.0.0.1:0")
        with psycopg.connect(url.replace("//", "//ana@"), autocommit=True) as client:
            client.execute("SELECT count(*) FROM t WHERE k + 0 > %s", (918273645,)).fetchall()
    (line,) = [line for line in lines(tmp_path / "slow") if "k + ?" in line["statement"]]
    assert line["client"].startswith("127.0.0.1:") and "918273645" not in json.dumps(line)


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_the_options_of_servers(tmp_path: Path, command: str) -> None:
    def made(*words: str) -> None:
        door_options(nyala_parser().parse_args([command, "x", *words]))

    path = tmp_path / "slow"
    with pytest.raises(InterfaceError, match=r"--slow-log is for .* needs --postgres HOST:PORT"):
        made("--slow-log", str(path))
    with pytest.raises(InterfaceError, match=r"-1 is no number of seconds"):
        made("--slow-log", str(path), "--slow-seconds", "-1", "--http", "127.0.0.1:0")
    with pytest.raises(InterfaceError, match="the log of slow statements cannot be opened: No such file"):
        made("--slow-log", str(tmp_path / "none" / "slow"), "--http", "127.0.0.1:0")
    assert not path.exists()
    made("--slow-seconds", "0.25", "--http", "127.0.0.1:0")
    assert records().slow_seconds == 0.25 and records().slow_log is None
    made("--slow-log", str(path), "--slow-seconds", "0.5", "--http", "127.0.0.1:0")
    assert records().slow_seconds == 0.5
    log = records().slow_log.__self__  # type: ignore[union-attr]
    with closing(log):
        assert isinstance(log, SlowLog) and log.path == path


@pytest.mark.parametrize("command", ["master", "tserver"])
def test_the_options_of_servers_of_a_cluster(tmp_path: Path, command: str) -> None:
    def made(*words: str) -> None:
        _around(command, nyala_parser().parse_args([command, "--dir", str(tmp_path / "d"), *words]))

    path = tmp_path / "slow"
    with pytest.raises(InterfaceError, match=r"--slow-log is for .* console of its pages; it needs --http HOST:PORT"):
        made("--slow-log", str(path))
    assert not path.exists()
    made("--slow-seconds", "0.25", "--http", "127.0.0.1:0")
    assert records().slow_seconds == 0.25 and records().slow_log is None
    made("--slow-log", str(path), "--slow-seconds", "0.5", "--http", "127.0.0.1:0")
    assert records().slow_seconds == 0.5
    log = records().slow_log.__self__  # type: ignore[union-attr]
    with closing(log):
        assert isinstance(log, SlowLog) and log.path == path
