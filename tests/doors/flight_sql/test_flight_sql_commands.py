"""`nyala serve --flight-sql` and `nyala gateway --flight-sql`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from flight_sql_support import PATIENCE
from nyala.__main__ import main
from nyala.cli.doors import DoorOptions, Doors
from nyala.doors.flight_sql.server.options import FlightSqlOptions
from nyala.doors.postgres.server.options import PostgresOptions

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
psycopg = pytest.importorskip("psycopg")


def test_a_gateway_serves_both_protocols(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        owner.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        doors = Doors(nyala.connect(owner.serve()), DoorOptions(PostgresOptions(), FlightSqlOptions()))
        doors.start()
        try:
            postgres, flight_sql = doors.urls
            with dbapi.connect(flight_sql) as client, client.cursor() as cursor:
                cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "one"), (2, "two")])
                client.commit()
                cursor.adbc_ingest("u", pa.table({"a": [1, 2]}), mode="create")
                client.commit()
            with psycopg.connect(postgres, user="me", autocommit=True) as other:
                assert other.execute("SELECT v FROM t ORDER BY k").fetchall() == [("one",), ("two",)]
                assert other.execute("SELECT count(*) FROM u").fetchone() == (2,)
            assert doors.idle_seconds() >= 0
        finally:
            doors.drain()
            doors.stop()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--flight-sql", "0.0.0.0:0"], "a password and TLS are missing"),
        (["--flight-sql-tls-key", "x"], "needs --flight-sql HOST:PORT"),
        (["--flight-sql", "127.0.0.1:0", "--flight-sql-sessions", "0"], "a number from 1 is needed"),
        (["--flight-sql", "50051"], "HOST:PORT is needed"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_unsafe_options_are_refused(
    command: str, arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "store"), *arguments]) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_served_directory_is_not_opened_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        url = owner.serve()
        assert main(["serve", str(tmp_path / "store"), "--flight-sql", "127.0.0.1:0"]) == 1
        assert f"nyala gateway {url} --flight-sql 127.0.0.1:0" in capsys.readouterr().err


@pytest.mark.slow
def test_serve_prints_both_urls_and_ends_by_a_signal(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n", encoding="utf-8")
    password.chmod(0o600)
    arguments = [
        "--postgres",
        "127.0.0.1:0",
        "--flight-sql",
        "127.0.0.1:0",
        "--flight-sql-password-file",
        str(password),
    ]
    command = [sys.executable, "-m", "nyala", "serve", str(tmp_path / "store"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = [process.stdout.readline().strip() for _ in range(3)]
        assert [url.partition("://")[0] for url in urls] == ["nyala", "postgresql", "grpc"]
        with dbapi.connect(urls[2], {"username": "me", "password": "secret"}) as client, client.cursor() as cursor:
            cursor.execute("SELECT current_user")
            assert cursor.fetchone() == ("me",)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        process.communicate()
