"""Users of the store behind the PostgreSQL protocol: psycopg and psql log in with their passwords, and each has its
own rights; PostgreSQL itself decides on a script of grants in the same way."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from nyala.bench import postgres
from nyala.doors.postgres.server.server import PostgresServer
from nyala.errors import InterfaceError, OperationalError
from postgres_support import dsn, served

psycopg = pytest.importorskip("psycopg")

USERS = """
CREATE TABLE t (k INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1), (2, 2);
CREATE USER ann PASSWORD 'ann''s secret';
CREATE USER root SUPERUSER PASSWORD 'root secret';
CREATE USER late PASSWORD 'late secret' VALID UNTIL '2020-01-01';
CREATE ROLE readers PASSWORD 'group secret';
GRANT SELECT ON t TO readers;
GRANT readers TO ann;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute(USERS)
        with served(connection) as found:
            yield found


def refusal(server: PostgresServer, **who: str) -> str:
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(dsn(server, **who)).close()
    return str(caught.value)


def test_users_log_in_with_their_passwords(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server, user="ann", password=r"'ann\'s secret'")) as ann:
        assert ann.execute("SELECT current_user, session_user, user").fetchone() == ("ann", "ann", "ann")
        assert ann.execute("SELECT v FROM t WHERE k = %s", (1,)).fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            ann.execute("DELETE FROM t WHERE k = %s", (1,))
        assert "permission denied for table t: user ann needs DELETE (GRANT DELETE ON t TO ann)" in str(caught.value)
    with psycopg.connect(dsn(server, user="root", password="'root secret'")) as root:
        assert root.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_whoever_is_no_user_is_refused_in_the_same_words(server: PostgresServer) -> None:
    wrong = {
        name: refusal(server, user=name, password="wrong") for name in ("ann", "nobody", "late", "readers", "nyala")
    }
    assert {
        message.replace(f'"{name}"', "NAME").splitlines()[0].partition("FATAL:")[2] for name, message in wrong.items()
    } == {"  password authentication failed for user NAME"}
    assert "password authentication failed" in refusal(server, user="late", password="'late secret'")
    assert 'role "readers" is not permitted to log in' in refusal(server, user="readers", password="'group secret'")
    assert "fe_sendauth: no password supplied" in refusal(server, user="me")


def test_all_roads_of_the_protocol_need_rights(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server, user="ann", password=r"'ann\'s secret'"), autocommit=True) as ann:
        with ann.cursor() as cursor, cursor.copy("COPY t TO STDOUT") as copy:
            assert b"".join(copy) == b"1\t1\n2\t2\n"
        for binary in ("", " WITH (FORMAT binary)", " WITH (FORMAT csv)"):
            with (
                pytest.raises(psycopg.errors.InsufficientPrivilege),
                ann.cursor() as cursor,
                cursor.copy(f"COPY t FROM STDIN{binary}"),
            ):
                pass
        with pytest.raises(psycopg.errors.InsufficientPrivilege), ann.pipeline():
            ann.execute("INSERT INTO t VALUES (%s, %s)", (7, 7))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("INSERT INTO t VALUES (%s, %s)", (7, 7), prepare=True)


def test_a_kept_statement_of_a_client_loses_its_right(server: PostgresServer) -> None:
    root = psycopg.connect(dsn(server, user="root", password="'root secret'"), autocommit=True)
    ann = psycopg.connect(dsn(server, user="ann", password=r"'ann\'s secret'"), autocommit=True, prepare_threshold=1)
    with root, ann:
        look_up = ("SELECT v FROM t WHERE k = %b", (2,))
        for _ in range(5):
            assert ann.execute(*look_up).fetchone() == (2,)
        root.execute("REVOKE readers FROM ann")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute(*look_up)
        root.execute("GRANT readers TO ann")
        assert ann.execute(*look_up).fetchone() == (2,)


def test_the_first_user_closes_the_door() -> None:
    with nyala.connect(":memory:") as connection, served(connection) as server:
        with (
            psycopg.connect(dsn(server), autocommit=True) as before,
            psycopg.connect(dsn(server), autocommit=True) as other,
        ):
            before.execute("CREATE TABLE t (k INT PRIMARY KEY)")
            other.execute("SELECT * FROM t")
            assert before.execute("CREATE USER ann PASSWORD 'secret'").statusmessage == "CREATE ROLE"
            assert before.execute("GRANT ALL ON t TO ann").statusmessage == "GRANT"
            assert before.execute("SELECT count(*) FROM t").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="connect again as one of them"):
                other.execute("SELECT * FROM t")
            assert "no password supplied" in refusal(server)
            with psycopg.connect(dsn(server, user="ann", password="secret")) as ann:
                assert ann.execute("SELECT count(*) FROM t").fetchone() == (0,)
        connection.execute("DROP TABLE t; DROP USER ann FORCE")
        psycopg.connect(dsn(server)).close()


def test_the_servers_password_is_that_of_its_own_role() -> None:
    with nyala.connect(":memory:") as connection, served(connection, password="server secret") as server:
        psycopg.connect(dsn(server, user="anyone", password="'server secret'")).close()
        connection.execute("CREATE USER ann PASSWORD 'x'")
        assert "password authentication failed" in refusal(server, user="ann", password="'server secret'")
        with psycopg.connect(dsn(server, user="nyala", password="'server secret'")) as own:
            own.execute("ALTER USER nyala PASSWORD 'own secret'")
        assert "password authentication failed" in refusal(server, user="nyala", password="'server secret'")
        psycopg.connect(dsn(server, user="nyala", password="'own secret'")).close()


def test_an_address_of_other_machines_needs_users_or_a_password(tls: dict[str, str]) -> None:
    with nyala.connect(":memory:") as connection:
        with pytest.raises(InterfaceError, match=r"a password is missing.*or CREATE USER in the store"):
            connection.serve(postgres="0.0.0.0:0", **tls)
        connection.execute("CREATE USER ann PASSWORD 'x'")
        with served(connection, address="0.0.0.0:0", tls_cert=tls["tls_cert"], tls_key=tls["tls_key"]) as server:
            psycopg.connect(dsn(server, user="ann", password="x", sslmode="require")).close()
            assert "only encrypted connections" in refusal(server, user="ann", password="x", sslmode="disable")
            connection.execute("DROP USER ann FORCE")
            assert "password authentication failed" in refusal(server, user="ann", password="x", sslmode="require")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from tls_support import HOST, Pki

    files = Pki(tmp_path_factory.mktemp("pki")).files(HOST)
    return {"tls_cert": str(files.certificate), "tls_key": str(files.key)}


def test_no_password_is_shown_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    statements = [
        "CREATE USER eve PASSWORD 'hush-1'",
        "CREATE USER eve PASSWORD 'hush-1' PASSWORD 'hush-2'",
        "CREATE USER bob PASSWORD hush",
        "CREATE USER bob 'hush-3'",
        "CREATE USER bob PASSWORD 'hush",
        "ALTER USER x PASSWORD $$hush$$",
        "CREAT USER bob PASSWORD 'hush-4'",
        "ALTER USER eve PASSWORD E'hush\\'5'; SELEC 1",
        "SELECT 1; ALTER USER eve WITH PASSWORD 'hush-6' x",
        "/* 'hush' */ ALTER /* a */ USER eve PASSWORD 'hush-7' NOSUCH",
        "PREPARE p AS ALTER USER eve PASSWORD 'hush-8'",
        "EXPLAIN ALTER USER eve PASSWORD 'hush-9'",
        'CREATE USER "bob" PASSWORD "hush-10"',
        "ALTER ROLE eve PASSWORD 'hush-11' VALID UNTIL '2030-99-99'",
    ]
    with (
        nyala.connect(":memory:") as connection,
        served(connection) as server,
        psycopg.connect(dsn(server), autocommit=True) as client,
    ):
        for text in statements:
            try:
                client.execute(text)
            except psycopg.Error as error:
                parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
                assert "hush" not in repr(parts).replace("/* 'hush' */", ""), text
            try:
                connection.execute(text)
            except nyala.Error as error:
                assert "hush" not in str(error).replace("/* 'hush' */", ""), text
        shown = client.execute("SELECT * FROM pg_stat_activity").fetchall()
        shown += client.execute("SELECT * FROM nyala_catalog.statements").fetchall()
        shown += client.execute("SELECT * FROM pg_authid").fetchall()
        shown += client.execute("SHOW ROLES").fetchall()
    assert "hush" not in (caplog.text + repr(shown)).replace("/* 'hush' */", "")
    assert "SCRAM-SHA-256$" not in repr(shown)


# ---- psql ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: apt-get install postgresql-client")
def test_psql_shows_roles_and_rights(server: PostgresServer) -> None:
    def psql(*arguments: str) -> str:
        environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": "C", "PGPASSWORD": "root secret"}
        done = subprocess.run(
            ["psql", "-X", "-At", "-h", "127.0.0.1", "-p", str(server.port), "-U", "root", "store", *arguments],
            capture_output=True, text=True, timeout=120, env=environment, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    assert "public|t|table|nyala=arwdD/nyala\nreaders=r/nyala||" in psql("-c", "\\dp t").replace("main|", "public|")
    assert "|t|table|nyala" in psql("-c", "\\dt t")
    roles = psql("-c", "\\du")
    assert "ann||{readers}" in roles and "readers|Cannot login" in roles and "root|Superuser" in roles
    assert (
        psql("-c", "SELECT has_table_privilege('ann', 't', 'SELECT'), has_table_privilege('ann', 't', 'DELETE')")
        == "t|f\n"
    )


# ---- PostgreSQL as the oracle ----------------------------------------------------------------------------------------

SCRIPT = """
CREATE TABLE t (k INT PRIMARY KEY, v INT)
INSERT INTO t VALUES (1, 1)
CREATE TABLE o (k INT PRIMARY KEY)
CREATE ROLE ann LOGIN
CREATE USER ben
CREATE USER ben
CREATE ROLE staff
CREATE ROLE boss
GRANT staff TO ann
GRANT ann TO staff
GRANT boss TO staff WITH ADMIN OPTION
GRANT SELECT ON t TO staff WITH GRANT OPTION
GRANT SELECT ON nothing TO staff
GRANT SELECT ON t TO nobody
GRANT USAGE ON t TO staff
GRANT SELECT ON t TO PUBLIC WITH GRANT OPTION
SET ROLE ann
SELECT v FROM t
SELECT v FROM t WHERE k = 1
UPDATE t SET v = 2
DELETE FROM t
TRUNCATE t
INSERT INTO t VALUES (2, 2)
CREATE TABLE n (k INT PRIMARY KEY)
DROP TABLE t
ALTER TABLE t ADD COLUMN x INT
GRANT SELECT ON t TO ben
GRANT INSERT ON t TO ben
GRANT boss TO ben
CREATE ROLE other
SET ROLE ben
SELECT v FROM t
GRANT SELECT ON t TO PUBLIC
RESET ROLE
REVOKE SELECT ON t FROM staff
REVOKE GRANT OPTION FOR SELECT ON t FROM staff
REVOKE SELECT ON t FROM staff CASCADE
SET ROLE ben
SELECT v FROM t
RESET ROLE
GRANT UPDATE, INSERT, DELETE ON t TO ann
SET ROLE ann
UPDATE t SET v = 3
UPDATE t SET v = v + 3
UPDATE t SET v = 3 WHERE k = 1
UPDATE t SET v = 3 RETURNING k
DELETE FROM t WHERE k = 9
INSERT INTO t VALUES (3, 3)
INSERT INTO t VALUES (4, 4) RETURNING v
INSERT INTO t VALUES (3, 3) ON CONFLICT DO NOTHING
INSERT INTO t VALUES (3, 3) ON CONFLICT (k) DO UPDATE SET v = 9
INSERT INTO t SELECT k, k FROM o
SELECT k FROM t FOR UPDATE
DELETE FROM t
RESET ROLE
GRANT SELECT ON ALL TABLES IN SCHEMA public TO ben
SET ROLE ben
SELECT count(*) FROM t, o
SELECT has_table_privilege('t', 'SELECT'), has_table_privilege('ann', 't', 'SELECT'), has_table_privilege('t', 'INSERT, SELECT')
SELECT pg_has_role('ann', 'staff', 'MEMBER'), pg_has_role('ann', 'boss', 'MEMBER'), pg_has_role('ben', 'boss', 'MEMBER')
RESET ROLE
CREATE VIEW w AS SELECT v FROM t
GRANT SELECT ON w TO ann
SET ROLE ann
SELECT * FROM w
RESET ROLE
GRANT CREATE ON SCHEMA public TO ann
SET ROLE ann
CREATE TABLE n (k INT PRIMARY KEY)
INSERT INTO n VALUES (1)
GRANT SELECT ON n TO ben
ALTER TABLE n OWNER TO ben
ALTER TABLE n OWNER TO staff
RESET ROLE
DROP ROLE ann
DROP ROLE staff
GRANT CREATE ON SCHEMA public TO staff
ALTER TABLE n OWNER TO staff
SET ROLE ben
SELECT * FROM n
RESET ROLE
REVOKE ALL ON n FROM ben
SET ROLE ben
SELECT * FROM n
RESET ROLE
ALTER ROLE ben SUPERUSER
SET ROLE ben
SELECT * FROM n
CREATE ROLE made
DROP ROLE made
DROP ROLE made
DROP ROLE IF EXISTS made
RESET ROLE
REVOKE boss FROM staff
REVOKE boss FROM staff
SET ROLE nobody
ALTER ROLE nobody LOGIN
ALTER ROLE ben NOSUPERUSER
SELECT rolname, rolcanlogin, rolsuper FROM pg_roles WHERE rolname IN ('ann', 'ben', 'staff') ORDER BY 1
SELECT grantee, privilege_type, is_grantable FROM information_schema.table_privileges WHERE table_name = 't' AND grantee IN ('ann', 'ben', 'PUBLIC') ORDER BY 1, 2
RESET ROLE
CREATE USER sue
CREATE USER tim
CREATE SCHEMA s
CREATE SCHEMA z AUTHORIZATION sue
CREATE TABLE s.a (k INT PRIMARY KEY, v INT)
INSERT INTO s.a VALUES (2, 2)
CREATE VIEW s.w AS SELECT k FROM s.a
GRANT SELECT ON ALL TABLES IN SCHEMA s TO sue
SET search_path = s, z, public
SET ROLE sue
SELECT * FROM s.a
SELECT * FROM s.missing
SELECT v FROM a
SELECT current_schema(), has_schema_privilege('s', 'USAGE'), has_schema_privilege('z', 'CREATE')
SELECT has_schema_privilege('missing', 'USAGE')
CREATE SCHEMA more
DROP SCHEMA s
CREATE TABLE m (k INT PRIMARY KEY)
ALTER TABLE z.m SET SCHEMA s
RESET ROLE
GRANT USAGE ON SCHEMA s TO sue
SET ROLE sue
SELECT * FROM a
SELECT * FROM w
INSERT INTO a VALUES (3, 3)
CREATE VIEW above AS SELECT v FROM a
CREATE VIEW z.above AS SELECT v FROM a
GRANT SELECT ON z.above TO tim
GRANT USAGE ON SCHEMA z TO tim
RESET ROLE
SET ROLE tim
SELECT * FROM z.above
SELECT * FROM z.m
SELECT * FROM s.a
RESET ROLE
CREATE TABLE s.u (k INT PRIMARY KEY)
GRANT SELECT ON s.u TO tim
ALTER TABLE s.u SET SCHEMA z
CREATE TABLE s.u (k INT PRIMARY KEY)
GRANT USAGE ON SCHEMA s TO tim
SET ROLE tim
SELECT * FROM z.u
SELECT * FROM s.u
CREATE TEMP TABLE q (k INT PRIMARY KEY)
SELECT * FROM q
RESET ROLE
SET ROLE sue
SELECT * FROM q
DROP SCHEMA z CASCADE
RESET ROLE
DROP SCHEMA s CASCADE
CREATE SCHEMA s
CREATE TABLE s.u (k INT PRIMARY KEY)
SET ROLE tim
SELECT * FROM s.u
"""  # noqa: E501


DIFFERENT = {
    # PostgreSQL warns that nothing was granted, and goes on.
    "GRANT INSERT ON t TO ben": "42501",
    "GRANT SELECT ON t TO PUBLIC": "42501",
    "SET ROLE nobody": "42704",
    # PostgreSQL says that there is no such table: the only one is in a schema of the path that the role may not use.
    "SELECT v FROM a": "42501",
}
"""Outcomes that differ on purpose."""


def outcomes(connection: psycopg.Connection) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for text in SCRIPT.strip().splitlines():
        try:
            cursor = connection.execute(text)
            found.append((text, cursor.fetchall() if cursor.description else cursor.statusmessage))
        except psycopg.Error as error:
            found.append((text, error.sqlstate))
    return found


@pytest.mark.slow
def test_grants_are_those_of_postgresql(tmp_path: Path) -> None:
    try:
        oracle = postgres.PostgresServer(tmp_path, "os")
        oracle.start()
    except OperationalError as error:
        pytest.skip(f"needs PostgreSQL 15: {error}")
    try:
        with psycopg.connect(oracle.dsn, autocommit=True) as connection:
            theirs = outcomes(connection)
    finally:
        oracle.stop()
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE USER root SUPERUSER PASSWORD 'x'")
        with (
            served(connection) as server,
            psycopg.connect(dsn(server, user="root", password="x"), autocommit=True) as ours,
        ):
            assert outcomes(ours) == [(text, DIFFERENT.get(text, outcome)) for text, outcome in theirs]
