"""The audit log of servers: who has done what, without secrets, also after a rotation; an audited server that cannot
log does nothing. The same for clients of PostgreSQL, of Flight SQL, and of the console."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import stat
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import flight_sql_support
import nyala
import pyarrow as pa
import pytest
from http_support import ask, post
from nyala.cli.commands.all_commands import nyala_parser
from nyala.cli.doors import door_options
from nyala.doors.audit import AuditLog
from nyala.doors.flight_sql.protocol.numbers import End
from nyala.doors.http import serve as serve_pages
from nyala.doors.json_lines import reopen_on_hangup
from nyala.errors import DiskError, InterfaceError
from postgres_support import dsn, served, until

psycopg = pytest.importorskip("psycopg")
adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    log = AuditLog(tmp_path / "audit.jsonl")
    yield log
    log.close()


@pytest.fixture
def sighup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def lines(log: AuditLog, event: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.path.read_text().splitlines()]
    return [line for line in found if event in ("", line["event"])]


def statements(log: AuditLog) -> list[tuple[Any, ...]]:
    """Text, rows, sqlstate and role of the statements."""
    return [(line["statement"], line["rows"], line["sqlstate"], line.get("role")) for line in lines(log, "statement")]


# ---- clients of the three protocols ----------------------------------------------------------------------------------


class Postgres:
    """A client by psycopg."""

    door, enters = "postgres", True

    def __init__(self, server: Any, user: str, password: str):
        self._client = psycopg.connect(dsn(server, user=user, password=password), autocommit=True)

    @staticmethod
    def serve(connection: Any, log: AuditLog) -> Any:
        return served(connection, audit=log)

    def run(self, text: str) -> str:
        """The error of a statement whose rows are read; "" if there is none."""
        try:
            self._client.execute(text)
        except psycopg.Error as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._client.close()


class FlightSql:
    """A client by ADBC."""

    door, enters = "flight_sql", True

    def __init__(self, server: Any, user: str, password: str):
        self._client = adbc.connect(server.url, {"username": user, "password": password}, autocommit=True)

    @staticmethod
    def serve(connection: Any, log: AuditLog) -> Any:
        return flight_sql_support.served(connection, audit=log)

    def run(self, text: str) -> str:
        try:
            with self._client.cursor() as cursor:
                cursor.execute(text)
                cursor.fetchall()
        except adbc.Error as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._client.close()


class Console:
    """A client of the pages by http.client."""

    door, enters = "http", False

    def __init__(self, server: Any, user: str, password: str):
        self._server = server
        self._authorization = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
        if ask(server, "/console", Authorization=self._authorization)[0].status == 401:
            raise PermissionError("401")

    @staticmethod
    def serve(connection: Any, log: AuditLog) -> Any:
        return serve_pages(connection, audit=log)

    def run(self, text: str) -> str:
        _, page = post(self._server, "/console", sql=text, token=self._server.token, authorization=self._authorization)
        found = re.search('role="alert">(.*?)</', page, re.DOTALL)
        return "" if found is None else html.unescape(found[1])

    def close(self) -> None:
        pass


CLIENTS = [Postgres, FlightSql, Console]
REFUSED = psycopg.OperationalError, adbc.Error, PermissionError


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.door)
def test_logins_statements_and_refusals_of_each_protocol(log: AuditLog, kind: Any) -> None:
    with nyala.connect(":memory:") as connection, kind.serve(connection, log) as server:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        connection.execute("CREATE USER root SUPERUSER PASSWORD 'hush'")
        with closing(kind(server, "root", "hush")) as client:
            assert client.run("SELECT k FROM t ORDER BY k") == ""
            assert client.run("SELECT k FROM t WHERE k > 7") == ""
            assert "missing" in client.run("SELECT * FROM missing")
            assert client.run("SELEC 1 PASSWORD 'hush'") != ""
        with pytest.raises(REFUSED):
            kind(server, "root", "hush_hush")
        until(lambda: lines(log, "refused") and (lines(log, "logout") or not kind.enters))
    assert statements(log) == [
        ("SELECT k FROM t ORDER BY k", 2, "", None),
        ("SELECT k FROM t WHERE k > 7", 0, "", None),
        ("SELECT * FROM missing", None, "42P01", None),
        ("SELEC 1 PASSWORD ******", None, "42601", None),
    ]
    assert "hush" not in log.path.read_text()
    assert {(line["user"], line["door"]) for line in lines(log)} == {("root", kind.door)}
    assert [line["sqlstate"] for line in lines(log, "refused")] == ["28P01"]
    assert [line["authenticated"] for line in lines(log, "login")] == [True] * kind.enters
    assert len(lines(log, "logout")) == kind.enters
    # Flight does not give the address of a client that is refused.
    known = [line for line in lines(log) if line["event"] != "refused" or kind is not FlightSql]
    assert all(line["from"].startswith("127.0.0.1:") for line in known)
    assert {line.get("session") for line in lines(log, "statement")} == {1 if kind.enters else None}


@needs_full
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.door)
def test_a_log_without_room_fails_the_statement_of_each_protocol(log: AuditLog, kind: Any) -> None:
    with nyala.connect(":memory:") as connection, kind.serve(connection, log) as server:
        connection.execute("CREATE USER root SUPERUSER PASSWORD 'hush'")
        with closing(kind(server, "root", "hush")) as client:
            assert client.run("SELECT 1") == ""
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, log.lines._file._descriptor)  # the disk is full from now on
            os.close(full)
            assert "the audit log cannot be written: No space left on device" in client.run("SELECT 2")
            assert "the audit log cannot be written" in client.run("SELECT * FROM missing")
    assert [line["statement"] for line in lines(log, "statement")] == ["SELECT 1"]


@needs_full
@pytest.mark.parametrize("kind", [Postgres, FlightSql], ids=lambda kind: kind.door)
def test_a_log_without_room_lets_nobody_in(kind: Any) -> None:
    with closing(AuditLog("/dev/full")) as log:
        with pytest.raises(DiskError, match="the audit log cannot be written: No space left on device"):
            log.write("login")
        with nyala.connect(":memory:") as connection, kind.serve(connection, log) as server:
            assert "the audit log cannot be written" in entered(kind, server)
            assert kind is Postgres or len(server.sessions) == 0


def entered(kind: Any, server: Any) -> str:
    """The error that refuses a client: of its connection, or of the statement that begins a session of Flight SQL."""
    try:
        with closing(kind(server, "ann", "")) as client:
            return str(client.run("SELECT 1"))
    except REFUSED as error:
        return str(error)


# ---- PostgreSQL ------------------------------------------------------------------------------------------------------


def test_statements_of_postgres(log: AuditLog) -> None:
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
        until(lambda: lines(log, "logout"))
    assert "hush" not in log.path.read_text()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert statements(log) == [
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
    ]
    assert all(line["milliseconds"] >= 0 and line["time"] for line in lines(log, "statement"))


# ---- Flight SQL ------------------------------------------------------------------------------------------------------


def test_statements_of_flight_sql_by_adbc(log: AuditLog) -> None:
    with nyala.connect(":memory:") as connection, flight_sql_support.served(connection, audit=log) as server:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); CREATE USER ann PASSWORD 'hush'")
        connection.execute("CREATE ROLE readers; GRANT readers TO ann; GRANT INSERT, SELECT ON t TO readers")
        given = {"username": "ann", "password": "hush"}
        with adbc.connect(server.url, given, autocommit=True) as ann, ann.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
            cursor.execute("SELECT v FROM t WHERE k = ?", (1,))
            assert cursor.fetchall() == [(1,)]
            cursor.executemany("INSERT INTO t VALUES (?, ?)", [(3, 3), (4, 4), (5, 5)])
            cursor.execute("SET ROLE readers")
            with pytest.raises(adbc.Error, match="permission denied"):
                cursor.execute("DELETE FROM t")
            cursor.execute("RESET ROLE")
            cursor.execute("ALTER USER ann PASSWORD 'hush 2'")
            cursor.adbc_ingest("t", pa.table({"k": [6, 7], "v": [6, 7]}), mode="append")
            with pytest.raises(adbc.Error):
                cursor.adbc_ingest("t", pa.table({"k": [7], "v": [7]}), mode="create")
        until(lambda: lines(log, "logout"))
    assert "hush" not in log.path.read_text()
    assert statements(log) == [
        ("INSERT INTO t VALUES (1, 1), (2, 2)", 2, "", None),
        ("SELECT v FROM t WHERE k = ?", 1, "", None),
        ("INSERT INTO t VALUES (?, ?)", 3, "", None),
        ("SET ROLE readers", None, "", None),
        ("DELETE FROM t", None, "42501", "readers"),
        ("RESET ROLE", None, "", "readers"),
        ("ALTER USER ann PASSWORD ********", None, "", None),
        ('INGEST "t" (append)', 2, "", None),
        ('INGEST "t" (create)', None, "42P07", None),
    ]


def test_transactions_of_flight_sql(log: AuditLog) -> None:
    with flight_sql_support.served(audit=log) as server, flight_sql_support.Client(server) as client:
        client.update("CREATE TABLE t (k INT PRIMARY KEY)")
        transaction = client.act("BeginTransaction").transaction_id
        client.update("INSERT INTO t VALUES (1)", transaction_id=transaction)
        savepoint = client.act("BeginSavepoint", transaction_id=transaction, name='a"b').savepoint_id
        client.act("EndSavepoint", savepoint_id=savepoint, action=End.ROLLBACK)
        client.act("EndSavepoint", savepoint_id=savepoint, action=End.COMMIT)
        client.act("EndTransaction", transaction_id=transaction, action=End.COMMIT)
        with pytest.raises(pa.ArrowException):
            client.act("EndTransaction", transaction_id=transaction, action=End.ROLLBACK)
        client.act("EndTransaction", transaction_id=client.act("BeginTransaction").transaction_id, action=End.ROLLBACK)
        with pytest.raises(pa.ArrowException):
            client.prepare("SELECT * FROM missing")
    assert statements(log) == [
        ("CREATE TABLE t (k INT PRIMARY KEY)", 0, "", None),
        ("BEGIN", None, "", None),
        ("INSERT INTO t VALUES (1)", 1, "", None),
        ('SAVEPOINT "a""b_1"', None, "", None),
        ('ROLLBACK TO "a""b_1"', None, "", None),
        ('RELEASE SAVEPOINT "a""b_1"', None, "", None),
        ("COMMIT", None, "", None),
        ("ROLLBACK", None, "25P01", None),
        ("BEGIN", None, "", None),
        ("ROLLBACK", None, "", None),
        ("SELECT * FROM missing", None, "42P01", None),
    ]
    assert [line["authenticated"] for line in lines(log, "login")] == [False]
    assert len(lines(log, "logout")) == 1


def test_results_of_flight_sql_that_are_not_read(log: AuditLog) -> None:
    """A change is logged when it is done, a query when its rows were read; else it ends as a cancelled one."""
    with flight_sql_support.served(audit=log) as server, flight_sql_support.Client(server) as client:
        client.query("CREATE TABLE t (k INT PRIMARY KEY)")
        client.info("CommandStatementQuery", query="INSERT INTO t VALUES (1), (2)")
        assert statements(log)[1:] == [("INSERT INTO t VALUES (1), (2)", 2, "", None)]
        query = client.info("CommandStatementQuery", query="SELECT k FROM t")
        other = client.info("CommandStatementQuery", query="SELECT k FROM t ORDER BY k")
        prepared = client.prepare("SELECT k FROM t WHERE k < ?").prepared_statement_handle
        rows = pa.table({"k": pa.array([2, 3, 1])})
        client.put("CommandPreparedStatementQuery", rows, prepared_statement_handle=prepared)
        assert client.get("CommandPreparedStatementQuery", prepared_statement_handle=prepared).num_rows == 3
        assert len(statements(log)) == 3
        assert client.read(query).num_rows == 2
        assert statements(log)[2:] == [("SELECT k FROM t WHERE k < ?", 3, "", None), ("SELECT k FROM t", 2, "", None)]
        client.act("CancelQuery", info=other.serialize())
        client.info("CommandStatementQuery", query="SELECT 7")
    assert statements(log)[4:] == [
        ("SELECT k FROM t ORDER BY k", 0, "57014", None),
        ("SELECT 7", 0, "57014", None),  # the session has ended
    ]
    assert lines(log)[-1]["event"] == "logout"


def test_a_session_of_flight_sql_that_is_one_too_many(log: AuditLog) -> None:
    with (
        flight_sql_support.served(audit=log, sessions=1) as server,
        flight_sql_support.Client(server) as first,
        flight_sql_support.Client(server) as second,
    ):
        first.query("SELECT 1")
        with pytest.raises(pa.ArrowException, match="too many sessions"):
            second.query("SELECT 2")
    (line,) = lines(log, "refused")
    assert line["sqlstate"] == "53300" and line["from"].startswith("127.0.0.1:")
    assert [line["statement"] for line in lines(log, "statement")] == ["SELECT 1"]


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def test_cancelled_statements_of_the_pages(log: AuditLog) -> None:
    with nyala.connect(":memory:") as connection, serve_pages(connection, audit=log) as server:
        assert ask(server, "/")[0].status == 200
        assert post(server, "/statements", cancel=7_000_000, token=server.token)[0].status == 200
        assert post(server, "/statements", cancel=1, token="wrong")[0].status == 403
    (line,) = lines(log)
    assert (line["statement"], line["rows"], line["user"]) == ("CANCEL STATEMENT 7000000", 0, "operator")


# ---- the file and the options ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sighup")
def test_a_renamed_log_is_opened_again(tmp_path: Path) -> None:
    with closing(AuditLog(tmp_path / "audit")) as log:
        reopen_on_hangup([log.lines])
        log.write("login", user="one")
        log.path.rename(tmp_path / "audit.1")
        log.write("login", user="two")
        os.kill(os.getpid(), signal.SIGHUP)
        log.write("login", user="three")
    assert [json.loads(line)["user"] for line in (tmp_path / "audit.1").read_text().splitlines()] == ["one", "two"]
    assert [json.loads(line)["user"] for line in (tmp_path / "audit").read_text().splitlines()] == ["three"]


def test_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="the audit log cannot be opened: No such file or directory"):
        AuditLog(tmp_path / "nowhere" / "audit")


@pytest.mark.usefixtures("sighup")
@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_all_protocols_of_a_command_share_one_log(tmp_path: Path, command: str) -> None:
    path = tmp_path / "audit"
    with pytest.raises(InterfaceError, match=r"--audit is for .* needs --postgres HOST:PORT"):
        door_options(nyala_parser().parse_args([command, "x", "--audit", str(path)]))
    assert not path.exists()
    addresses = [part for door in ("postgres", "flight-sql", "http") for part in (f"--{door}", "127.0.0.1:0")]
    options, http = door_options(nyala_parser().parse_args([command, "x", "--audit", str(path), *addresses]))
    assert options.postgres is not None and options.flight_sql is not None and http is not None
    with closing(options.postgres.audit) as log:
        assert log.path == path and log is options.flight_sql.audit and log is http.audit
    alone, pages = door_options(nyala_parser().parse_args([command, "x", "--http", "127.0.0.1:0"]))
    assert not alone and pages is not None and pages.audit is None
