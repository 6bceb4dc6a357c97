"""The audit log of servers: who has done what, without secrets, also after a rotation; an audited server that cannot
log does nothing."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.doors.audit import AuditLog, open_audit_log
from nyala.errors import DiskError, InterfaceError
from postgres_support import dsn, served, until

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    log = AuditLog(tmp_path / "audit.jsonl")
    yield log
    log.close()


def lines(log: AuditLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_logins_and_statements_are_logged(log: AuditLog) -> None:
    with nyala.connect(":memory:") as connection, served(connection, audit=log) as server:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE USER ann PASSWORD 'hush'")
        connection.execute("CREATE ROLE readers; GRANT readers TO ann; GRANT INSERT, SELECT ON t TO readers")
        with psycopg.connect(dsn(server, user="ann", password="hush"), autocommit=True) as ann:
            ann.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
            ann.execute("SELECT v FROM t WHERE k = %b", (1,), prepare=True).fetchall()
            ann.execute("SELECT * FROM t; SET ROLE readers")
            ann.execute("SELECT count(*) FROM t")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ann.execute("DELETE FROM t")
            ann.execute("RESET ROLE; ALTER USER ann PASSWORD 'hush 2'")
            with ann.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
                copy.write("3\t3\n")
            with pytest.raises(psycopg.errors.SyntaxError):
                ann.execute("SELEC 1 PASSWORD 'hush'")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn(server, user="eve", password="hush"))
        until(lambda: "refused" in log.path.read_text() and "logout" in log.path.read_text())
    found = lines(log)
    assert "hush" not in log.path.read_text()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert found[0]["event"] == "login" and found[0]["user"] == "ann" and found[0]["authenticated"]
    statements = [
        (line["statement"], line["rows"], line["sqlstate"], line.get("role"))
        for line in found
        if line["event"] == "statement"
    ]
    assert statements == [
        ("INSERT INTO t VALUES (1, 1), (2, 2)", 2, "", None),
        ("SELECT v FROM t WHERE k = $1", 1, "", None),
        ("SELECT * FROM t", 2, "", None),
        ("SET ROLE readers", None, "", None),
        ("SELECT count(*) FROM t", 1, "", "readers"),
        ("DELETE FROM t", None, "42501", "readers"),
        ("RESET ROLE", None, "", "readers"),
        ("ALTER USER ann PASSWORD ********", None, "", None),
        ("DEALLOCATE ALL", None, "", None),  # psycopg drops its prepared statements
        ("COPY t FROM STDIN", 1, "", None),
        ("SELEC 1 PASSWORD ******", None, "42601", None),
    ]
    (refused,) = [line for line in found if line["event"] == "refused"]
    assert (refused["user"], refused["sqlstate"]) == ("eve", "28P01")
    assert all(line["from"].startswith("127.0.0.1:") and line["door"] == "postgres" and line["time"] for line in found)
    assert all(line["milliseconds"] >= 0 and line["session"] == 1 for line in found if line["event"] == "statement")


def test_a_renamed_log_is_opened_again(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    log = open_audit_log(tmp_path / "audit")
    try:
        log.write("login", user="one")
        log.path.rename(tmp_path / "audit.1")
        log.write("login", user="two")
        os.kill(os.getpid(), signal.SIGHUP)
        log.write("login", user="three")
    finally:
        log.close()
        signal.signal(signal.SIGHUP, before)
    assert [json.loads(line)["user"] for line in (tmp_path / "audit.1").read_text().splitlines()] == ["one", "two"]
    assert [json.loads(line)["user"] for line in (tmp_path / "audit").read_text().splitlines()] == ["three"]


def test_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="the audit log cannot be opened: No such file or directory"):
        AuditLog(tmp_path / "nowhere" / "audit")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_without_room_lets_nobody_in() -> None:
    log = AuditLog("/dev/full")
    try:
        with pytest.raises(DiskError, match="the audit log cannot be written: No space left on device"):
            log.write("login")
        with (
            nyala.connect(":memory:") as connection,
            served(connection, audit=log) as server,
            pytest.raises(psycopg.OperationalError, match="the audit log cannot be written"),
        ):
            psycopg.connect(dsn(server))
    finally:
        log.close()
