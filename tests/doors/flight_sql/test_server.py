"""The server over sockets: sessions, passwords, TLS, limits, slow readers, shutdown."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import psutil
import pyarrow as pa
import pytest
from flight_sql_support import PATIENCE, SCHEMA, SLOW, Client, command, served, until
from nyala.doors.authentication import Authentication
from nyala.doors.flight_sql.protocol.messages import in_any, message, read
from nyala.doors.flight_sql.server import sessions as sessions_module
from nyala.doors.flight_sql.server.authentication import COOKIE
from nyala.doors.flight_sql.server.options import FlightSqlOptions
from nyala.doors.flight_sql.server.server import FlightSqlServer
from nyala.doors.flight_sql.session.client_session import SessionLimits
from nyala.errors import InterfaceError, InvalidPassword, ServerUnavailable
from nyala.model.access.roles import Access
from pyarrow import flight
from tls_support import HOST, Pki

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    files = Pki(tmp_path_factory.mktemp("pki")).files(HOST)
    return {"ca": str(files.ca), "cert": str(files.certificate), "key": str(files.key)}


@pytest.fixture(scope="module")
def server() -> Iterator[FlightSqlServer]:
    with served() as server:
        yield server


def as_user(client: Client, user: str = "me", password: str = PASSWORD) -> Client:
    """The client with a token of its own."""
    client.headers = [client.flight.authenticate_basic_token(user, password)]
    return client


# ---- sessions --------------------------------------------------------------------------------------------------------


class Cookies(flight.ClientMiddlewareFactory):  # type: ignore[misc]
    """Stores the cookie of the session, as the JDBC driver does."""

    def __init__(self) -> None:
        super().__init__()
        self.value = ""

    def start_call(self, info: Any) -> Any:
        jar = self

        class One(flight.ClientMiddleware):  # type: ignore[misc]
            def sending_headers(self) -> dict[str, str]:
                return {"cookie": f"other=1; {jar.value}"} if jar.value else {}

            def received_headers(self, headers: dict[str, list[str]]) -> None:
                for header in headers.get("set-cookie", []):
                    jar.value = header.partition(";")[0]

        return One()


def test_a_session_is_that_of_its_connection(server: FlightSqlServer) -> None:
    with Client(server) as one, Client(server) as other:
        one.update("SET threads = 1")
        assert one.query("SHOW threads") != other.query("SHOW threads")


def test_a_session_goes_on_by_its_cookie(server: FlightSqlServer) -> None:
    jar = Cookies()
    with Client(server, middleware=[jar]) as one:
        one.update("SET threads = 1")
        shown = one.query("SHOW threads")
        assert jar.value.startswith(COOKIE)
        before = jar.value
        handle = one.prepare("SELECT 7 AS n").prepared_statement_handle
        with Client(server, middleware=[jar]) as again, Client(server) as stranger:
            assert again.query("SHOW threads") == shown != stranger.query("SHOW threads")
            assert jar.value == before
            # A handle leads to its session from everywhere.
            found = stranger.get("CommandPreparedStatementQuery", prepared_statement_handle=handle)
            assert found.to_pydict() == {"n": [7]}
        (reply,) = one.action("CloseSession")
        assert read("CloseSessionResult", reply).status == 1
        with pytest.raises(flight.FlightServerError):
            one.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)


@pytest.mark.parametrize("cookie", ["", "x", f"{COOKIE}=zz", f"{COOKIE}=00", f"{COOKIE}=" + "ab" * 16, ";;="])
def test_cookies_that_name_no_session(server: FlightSqlServer, cookie: str) -> None:
    with Client(server) as client:
        client.headers = [(b"cookie", cookie.encode("latin-1"))]
        assert client.query("SELECT 1") == [(1,)]


def test_a_session_ends_with_its_last_connection(server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "GRACE_SECONDS", 0.5)
    with Client(server) as owner:
        owner.update("CREATE TABLE left_alone (k INT PRIMARY KEY)")
        with Client(server) as client:
            transaction = client.act("BeginTransaction").transaction_id
            client.update("INSERT INTO left_alone VALUES (1)", transaction_id=transaction)
            (session,) = [found for found in server.sessions.all() if found.transactions.is_open]
        until(lambda: session not in server.sessions.all())
        owner.update("INSERT INTO left_alone VALUES (1)")


def test_what_is_idle_ends() -> None:
    limits = SessionLimits(result_seconds=0.1, transaction_seconds=0.1, idle_seconds=1.5)
    with served(limits=limits) as server, Client(server) as client:
        info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 10000000) AS g(n)")
        transaction = client.act("BeginTransaction").transaction_id
        (session,) = server.sessions.all()
        until(lambda: not session.transactions.is_open and not session._results)
        with pytest.raises(flight.FlightServerError, match="has ended"):
            client.query("SELECT 1", transaction_id=transaction)
        with pytest.raises(flight.FlightServerError, match="has ended"):
            client.read(info)
        until(lambda: not server.sessions.all())
        assert client.query("SELECT 1") == [(1,)]  # in a new session


def test_a_reader_that_stops_in_the_middle_gets_no_more() -> None:
    with served(limits=SessionLimits(idle_seconds=0.5)) as server, Client(server) as client:
        info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 1000000000) AS g(n)")
        reader = client.flight.do_get(info.endpoints[0].ticket, client.options)
        reader.read_chunk()
        (session,) = server.sessions.all()
        until(lambda: not session._results)
        with pytest.raises(flight.FlightCancelledError, match="closed while it was read"):
            for _ in reader:
                pass
        until(lambda: len(server.calls) == 0)


def test_options_of_a_session(server: FlightSqlServer) -> None:
    def value(**kind: Any) -> Any:
        return message("OptionValue", **kind)

    with Client(server) as client:
        given = {
            "timezone": value(string_value="UTC"),
            "threads": value(int64_value=1),
            "default_transaction_read_only": value(bool_value=True),
            "catalog": value(string_value="nyala"),
            "schema": value(string_value=SCHEMA),
            "no_such": value(string_value="x"),
            "threads; DROP": value(string_value="x"),
            "memory_limit": value(string_value="much"),
        }
        entries = [message("OptionEntry", key=key, value=found) for key, found in given.items()]
        request = message("SetSessionOptionsRequest", session_options=entries)
        (reply,) = client.action("SetSessionOptions", request.SerializeToString())
        errors = {entry.key: entry.value.value for entry in read("SetSessionOptionsResult", reply).errors}
        assert errors == {"no_such": 1, "threads; DROP": 1, "memory_limit": 2}
        (reply,) = client.action("GetSessionOptions")
        found = {e.key: e.value.string_value for e in read("GetSessionOptionsResult", reply).session_options}
        assert (found["threads"], found["schema"], found["catalog"]) == ("1", SCHEMA, "nyala")
        assert client.query("SHOW default_transaction_read_only") == [("on",)]
        reset = message("SetSessionOptionsRequest", session_options=[message("OptionEntry", key="threads")])
        client.action("SetSessionOptions", reset.SerializeToString())
        assert client.query("SHOW threads") == [("default",)]


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_limits_of_sessions_results_and_prepared_statements() -> None:
    limits = SessionLimits(results=2, prepared=2)
    with served(sessions=2, limits=limits) as server, Client(server) as one, Client(server) as two:
        for client in (one, two):
            client.query("SELECT 1")
        with Client(server) as three, pytest.raises(flight.FlightServerError, match="too many sessions") as error:
            three.query("SELECT 1")
        assert b'"53300"' in error.value.extra_info and b'"retryable": true' in error.value.extra_info
        infos = [one.info("CommandStatementQuery", query="SELECT 1") for _ in range(2)]
        with pytest.raises(flight.FlightServerError, match="at most 2 results"):
            one.query("SELECT 1")
        one.read(infos[0])
        assert one.query("SELECT 1") == [(1,)]
        handles = [two.prepare("SELECT 1").prepared_statement_handle for _ in range(2)]
        with pytest.raises(flight.FlightServerError, match="at most 2 prepared"):
            two.prepare("SELECT 1")
        two.act("ClosePreparedStatement", prepared_statement_handle=handles[0])
        two.prepare("SELECT 1")


def test_the_limit_of_running_statements() -> None:
    with served(statements=1) as server, Client(server) as busy, Client(server) as other:
        info = busy.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 100000000) AS g(n)")
        stream = busy.flight.do_get(info.endpoints[0].ticket, busy.options)
        stream.read_chunk()
        with pytest.raises(flight.FlightServerError, match="1 running statements already"):
            other.query("SELECT 1")
        stream.cancel()
        until(lambda: len(server.calls) == 0)
        assert other.query("SELECT 1") == [(1,)]


@pytest.mark.slow
def test_a_slow_reader_of_a_huge_result_needs_little_memory(server: FlightSqlServer) -> None:
    with Client(server) as client:
        text = "SELECT n, repeat('x', 100) AS x FROM generate_series(1, 20000000) AS g(n)"  # 2 GB
        info = client.info("CommandStatementQuery", query=text)
        before = psutil.Process().memory_info().rss
        reader = client.flight.do_get(info.endpoints[0].ticket, client.options)
        rows = sum(reader.read_chunk().data.num_rows for _ in range(3))
        (session,) = [found for found in server.sessions.all() if found.is_busy]
        ((_, result),) = session._results.items()
        seen = [result.used]

        def stands() -> bool:
            threading.Event().wait(0.3)
            seen.append(result.used)
            return seen[-1] == seen[-2]

        until(stands)  # gRPC's windows are full
        assert psutil.Process().memory_info().rss - before < 300 << 20
        assert 0 < rows < 20_000_000
        reader.cancel()
        until(lambda: not session.is_busy)


# ---- passwords and TLS -----------------------------------------------------------------------------------------------


def test_a_password_is_exchanged_for_a_token() -> None:
    with served(password=PASSWORD) as server, Client(server) as client:
        with pytest.raises(flight.FlightUnauthenticatedError, match="needs a user and a password"):
            client.query("SELECT 1")
        for user, wrong in (("me", "wrong"), ("me", ""), ("", PASSWORD + " ")):
            with pytest.raises(flight.FlightUnauthenticatedError, match="password authentication failed"):
                as_user(client, user, wrong)
        assert as_user(client).query("SELECT current_user") == [("me",)]
        client.headers = [(b"authorization", b"Bearer forged")]
        with pytest.raises(flight.FlightUnauthenticatedError, match="authenticate again"):
            client.query("SELECT 1")


def test_basic_credentials_with_each_call() -> None:
    with served(password=PASSWORD) as server, Client(server) as client:
        credentials = base64.b64encode(f"me:{PASSWORD}".encode()).rstrip(b"=")
        client.headers = [(b"authorization", b"Basic " + credentials)]
        transaction = client.act("BeginTransaction").transaction_id
        assert client.query("SELECT 1", transaction_id=transaction) == [(1,)]
        assert len(server.sessions) == 1
        for broken in (b"Basic \xff", b"Basic !!!", b"Basic " + base64.b64encode(b"\xff\xfe"), b"Basic"):
            client.headers = [(b"authorization", broken)]
            with pytest.raises((flight.FlightUnauthenticatedError, flight.FlightInternalError)):
                client.query("SELECT 1")


def test_tokens_have_sessions_of_their_own_and_handles_belong_to_users() -> None:
    with served(password=PASSWORD) as server, Client(server) as client, Client(server) as other:
        as_user(client)
        handle = client.prepare("SELECT 1 AS n").prepared_statement_handle
        first = client.headers
        as_user(client)  # the same connection
        client.act("BeginTransaction")
        client.headers = first
        client.act("BeginTransaction")
        assert len(server.sessions) == 2
        as_user(other, "you")
        with pytest.raises(flight.FlightUnauthorizedError, match="another user"):
            other.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)
        client.action("CloseSession")
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.query("SELECT 1")


def test_tls(tls_files: dict[str, str]) -> None:
    files = {"tls_cert": tls_files["cert"], "tls_key": tls_files["key"]}
    with served(password=PASSWORD, **files) as server:
        assert server.url.startswith("grpc+tls://")
        with Client(server, tls_root_certs=Path(tls_files["ca"]).read_bytes()) as client:
            assert as_user(client).query("SELECT 1") == [(1,)]
        with Client(server) as stranger, pytest.raises(flight.FlightUnavailableError):
            stranger.query("SELECT 1")


def test_the_password_is_not_kept() -> None:
    authenticator = Authentication(Access, "pass\u00adword")  # SASLprep drops the soft hyphen
    authenticator.check("anyone", "password")
    with pytest.raises(InvalidPassword):
        authenticator.check("anyone", "")
    assert "password" not in repr(authenticator) + repr(vars(authenticator))


def test_users_of_the_store() -> None:
    with nyala.connect(":memory:") as store, served(store) as server, Client(server) as client, Client(server) as other:
        store.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE TABLE o (k INT PRIMARY KEY)")
        before = as_user(client, "ann", "anything").headers
        assert client.query("SELECT count(*) FROM t") == [(0,)]
        store.execute(f"CREATE USER ann PASSWORD '{PASSWORD}'; GRANT SELECT ON t TO ann; CREATE ROLE readers")
        for headers in (before, []):
            client.headers = headers
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.query("SELECT count(*) FROM t")
        for user, password in (("ann", "wrong"), ("eve", PASSWORD), ("readers", PASSWORD), ("", "")):
            with pytest.raises(flight.FlightUnauthenticatedError, match="password authentication failed"):
                as_user(other, user, password)
        as_user(other, "ann")
        assert other.query("SELECT current_user, session_user FROM t RIGHT JOIN (SELECT 1) AS one ON true") == [
            ("ann", "ann")
        ]
        with pytest.raises(flight.FlightUnauthorizedError, match="user ann needs SELECT"):
            other.query("SELECT * FROM o")
        store.execute("REVOKE SELECT ON t FROM ann")
        with pytest.raises(flight.FlightUnauthorizedError, match="user ann needs SELECT"):
            other.query("SELECT count(*) FROM t")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"address": "0.0.0.0:0"}, "a password and TLS are missing"),
        ({"address": "0.0.0.0:0", "password": "x"}, "TLS is missing"),
        ({"address": "127.0.0.1"}, "HOST:PORT is needed"),
        ({"tls_cert": "x"}, "one of the two is missing"),
        ({"tls_cert": "/none", "tls_key": "/none"}, "no certificate and its key"),
        ({"password": ""}, "the password is empty"),
    ],
)
def test_unsafe_options_are_refused(options: dict[str, str], why: str) -> None:
    with nyala.connect(":memory:") as connection, pytest.raises(InterfaceError, match=why):
        FlightSqlServer(connection, FlightSqlOptions(**options))


def test_an_address_in_use_and_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    with nyala.connect(":memory:") as connection, served() as server:
        for options in (
            {
                "address": "192.0.2.1:1",
                "password": "x",
                "tls_cert": str(tmp_path / "key"),
                "tls_key": str(tmp_path / "key"),
            },
            {"tls_cert": str(tmp_path / "key"), "tls_key": str(tmp_path / "key")},
        ):
            with pytest.raises(ServerUnavailable):
                FlightSqlServer(connection, FlightSqlOptions(**options))
        assert server.address.startswith("127.0.0.1:")


# ---- shutdown --------------------------------------------------------------------------------------------------------


def test_shutdown_cancels_statements_and_unread_streams() -> None:
    with nyala.connect(":memory:") as connection:
        server = FlightSqlServer(connection, FlightSqlOptions(drain_seconds=0.0))
        server.start()
        with Client(server) as client, Client(server) as busy:
            info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 1000000000) AS g(n)")
            reader = client.flight.do_get(info.endpoints[0].ticket, client.options)
            reader.read_chunk()
            errors: list[Exception] = []

            def run() -> None:
                try:
                    busy.query(SLOW)
                except Exception as error:
                    errors.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            until(lambda: len(server.calls) == 2)
            server.close()
            server.close()
            thread.join(PATIENCE)
            assert len(errors) == 1 and isinstance(errors[0], flight.FlightError)
            with pytest.raises((flight.FlightError, pa.ArrowException)):
                client.query("SELECT 1")
        assert len(server.sessions) == 0 and len(server.calls) == 0
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_draining_lets_statements_end() -> None:
    with nyala.connect(":memory:") as connection:
        server = FlightSqlServer(connection, FlightSqlOptions(drain_seconds=PATIENCE))
        server.start()
        with Client(server) as client:
            info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 1000000) AS g(n)")
            stream = client.flight.do_get(info.endpoints[0].ticket, client.options)
            closing = threading.Thread(target=server.close)
            closing.start()
            until(lambda: server.calls._is_closing)
            with pytest.raises(flight.FlightServerError, match="shutting down"):
                client.flight.get_flight_info(command("CommandStatementQuery", query="SELECT 1"), client.options)
            assert stream.read_all().num_rows == 1_000_000
            closing.join(PATIENCE)
            assert not closing.is_alive()


def test_a_connection_serves_itself_until_it_is_closed() -> None:
    with nyala.connect(":memory:") as connection:
        url = connection.serve(flight_sql="127.0.0.1:0")
        client = flight.FlightClient(url)
        descriptor = flight.FlightDescriptor.for_command(in_any(message("CommandGetCatalogs")))
        assert client.get_flight_info(descriptor).schema.names == ["catalog_name"]
        with pytest.raises(InterfaceError, match="one protocol at a time"):
            connection.serve(flight_sql="127.0.0.1:0", postgres="127.0.0.1:0")
        with pytest.raises(InterfaceError, match="unexpected keyword argument"):
            connection.serve(flight_sql="127.0.0.1:0", passwort="x")
    with pytest.raises((flight.FlightError, pa.ArrowException)):
        client.get_flight_info(descriptor)
    client.close()
