"""Queries with several endpoints: which ones are cut, what their parts show, and who may read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import nyala
import pyarrow as pa
import pytest
from flight_sql_support import Client, served, until
from nyala.cli.doors import DoorOptions, Doors
from nyala.doors.flight_sql.protocol.messages import message, read
from nyala.doors.flight_sql.protocol.numbers import CancelStatus
from nyala.doors.flight_sql.server.options import FlightSqlOptions
from nyala.doors.flight_sql.server.server import FlightSqlServer
from nyala.doors.flight_sql.session.client_session import SessionLimits
from nyala.doors.flight_sql.session.part_tickets import MAGIC
from nyala.doors.flight_sql.session.parts import PartLimits
from nyala.errors import InterfaceError
from nyala.testing import MiniCluster
from pyarrow import flight

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

TABLETS = 4
ROWS = 1000
EACH_TABLET = SessionLimits(parts=PartLimits(rows=0))
KEY = b"a key that gateways share"
PASSWORD = "of ann"


def fill(connection: nyala.Connection) -> None:
    connection.execute(f"CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) PARTITIONS {TABLETS}")
    connection.load("t", pa.table({"k": pa.array(range(ROWS), pa.int32()), "v": pa.array([7] * ROWS, pa.int32())}))
    connection.execute("CREATE TABLE small (k INT PRIMARY KEY, v INT)")
    connection.execute("INSERT INTO small VALUES (1, 1)")
    connection.execute("CREATE VIEW odd AS SELECT k AS n, v FROM t WHERE k % 2 = 1")


@pytest.fixture
def store() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        fill(connection)
        yield connection


@pytest.fixture
def server(store: nyala.Connection) -> Iterator[FlightSqlServer]:
    with served(store, limits=EACH_TABLET) as server:
        yield server


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[Client]:
    with Client(server) as client:
        yield client


def rows(tables: list[pa.Table]) -> list[tuple[Any, ...]]:
    return sorted(row for table in tables for row in zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT v, k + 1 AS n FROM t WHERE k < 100 OR k BETWEEN 500 AND 600",
        "SELECT n FROM odd AS o WHERE n > 10",
        "SELECT k FROM (SELECT k, v + 1 AS w FROM t) AS s WHERE w = 8",
        "WITH s AS (SELECT * FROM t) SELECT k FROM s;",
        "SELECT k FROM t WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
    ],
)
def test_the_parts_of_a_scan_are_its_rows(text: str, store: nyala.Connection, client: Client) -> None:
    info = client.parts(text)
    assert len(info.endpoints) == TABLETS and not any(endpoint.locations for endpoint in info.endpoints)
    tables = client.read_parts(info)
    assert all(table.schema.equals(info.schema) for table in tables)
    assert rows(tables) == sorted(store.execute(text).fetchall())
    assert rows(client.read_parts(info)) == rows(tables)  # any number of times
    handle = client.prepare(text).prepared_statement_handle
    assert len(client.info("CommandPreparedStatementQuery", prepared_statement_handle=handle).endpoints) == TABLETS


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM t",
        "SELECT DISTINCT v FROM t",
        "SELECT k FROM t ORDER BY k LIMIT 3",
        "SELECT k FROM t ORDER BY k",
        "SELECT t.k FROM t JOIN small ON t.k = small.k",
        "SELECT k FROM t UNION ALL SELECT k FROM small",
        "SELECT k FROM t WHERE k = 5",
        "SELECT * FROM small",
        "SELECT 't' AS name",
        "SELECT k FROM t FOR SYSTEM_TIME AS OF now() WHERE k = 1 OR k = 2",
        "SELECT k FROM t WHERE k < 3 AND current_timestamp > TIMESTAMP '2020-01-01 00:00:00'",
    ],
)
def test_other_statements_have_one_endpoint(text: str, store: nyala.Connection, client: Client) -> None:
    info = client.parts(text)
    assert len(info.endpoints) == 1
    assert rows(client.read_parts(info)) == sorted(store.execute(text).fetchall())


def test_errors_are_those_of_the_statement(client: Client) -> None:
    for text, why in (
        ("SELECT nothing FROM t", "column nothing"),
        ("SELEC k FROM t", "SQLSTATE 42601"),
        ("SELECT k FROM t; SELECT x FROM t", "column x"),
    ):
        with pytest.raises(flight.FlightServerError, match=why):
            client.parts(text)


def test_parts_show_one_snapshot(store: nyala.Connection, client: Client) -> None:
    info = client.parts("SELECT k, v FROM t")
    store.execute("UPDATE t SET v = 8; DELETE FROM t WHERE k < 10; INSERT INTO t VALUES (-1, 0)")
    assert rows(client.read_parts(info)) == [(k, 7) for k in range(ROWS)]
    assert rows(client.read_parts(client.parts("SELECT k, v FROM t")))[0] == (-1, 0)


def test_small_scans_have_one_endpoint(store: nyala.Connection) -> None:
    for least, count in ((ROWS, 1), (ROWS // 2, 2), (ROWS // 3, 3), (1, TABLETS)):
        limits = SessionLimits(parts=PartLimits(rows=least))
        with served(store, limits=limits) as server, Client(server) as client:
            info = client.parts("SELECT k FROM t")
            assert len(info.endpoints) == count
            assert rows(client.read_parts(info)) == [(k,) for k in range(ROWS)]


def test_a_transaction_is_cut_until_it_writes(client: Client, store: nyala.Connection) -> None:
    transaction = client.act("BeginTransaction").transaction_id
    assert client.query("SELECT v FROM small", transaction_id=transaction) == [(1,)]  # the snapshot
    store.execute("DELETE FROM t WHERE k < 500")
    text = "SELECT k FROM t"
    info = client.parts(text)
    assert len(info.endpoints) == TABLETS and rows(client.read_parts(info)) == [(k,) for k in range(ROWS)]
    client.update("DELETE FROM t WHERE k >= 500", transaction_id=transaction)
    assert rows(client.read_parts(info)) == [(k,) for k in range(ROWS)]
    info = client.parts(text)
    assert len(info.endpoints) == 1 and rows(client.read_parts(info)) == [(k,) for k in range(500)]


def test_serializable_reads_are_not_cut(client: Client) -> None:
    client.update("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert len(client.parts("SELECT k FROM t").endpoints) == 1
    client.update("ROLLBACK")
    assert len(client.parts("SELECT k FROM t").endpoints) == TABLETS


def test_a_temporary_table_belongs_to_its_session(client: Client) -> None:
    client.update(f"CREATE TEMPORARY TABLE own (k INT PRIMARY KEY) PARTITION BY HASH (k) PARTITIONS {TABLETS}")
    client.update("INSERT INTO own VALUES (1), (2), (3)")
    info = client.parts("SELECT k FROM own")
    assert len(info.endpoints) == 1 and rows(client.read_parts(info)) == [(1,), (2,), (3,)]
    client.update(f"CREATE TEMPORARY TABLE t (k INT PRIMARY KEY) PARTITION BY HASH (k) PARTITIONS {TABLETS}")
    assert rows(client.read_parts(client.parts("SELECT k FROM t"))) == []


def test_the_path_and_the_schema_of_a_ticket_hold(client: Client, store: nyala.Connection) -> None:
    store.execute("CREATE SCHEMA s")
    store.execute(
        "CREATE TABLE s.t (k INT PRIMARY KEY) PARTITION BY HASH (k) PARTITIONS 2; INSERT INTO s.t VALUES (1), (2), (3)"
    )
    client.query("SET search_path = s")
    info = client.parts("SELECT k FROM t")
    client.query("SET search_path = public")
    assert len(info.endpoints) == 2 and rows(client.read_parts(info)) == [(1,), (2,), (3,)]


# ---- tickets ---------------------------------------------------------------------------------------------------------


def test_tickets_are_signed_and_expire(store: nyala.Connection, client: Client) -> None:
    ticket = client.parts("SELECT k FROM t").endpoints[0].ticket.ticket
    for place in (0, len(MAGIC) - 1, len(MAGIC), len(MAGIC) + 31, len(MAGIC) + 40, len(ticket) - 1):
        forged = bytearray(ticket)
        forged[place] ^= 1
        with pytest.raises(flight.FlightServerError):
            client.flight.do_get(flight.Ticket(bytes(forged)), client.options).read_all()
    for end in (len(MAGIC), len(MAGIC) + 32, len(ticket) - 1):
        with pytest.raises(flight.FlightServerError, match="not issued by this server"):
            client.flight.do_get(flight.Ticket(ticket[:end]), client.options).read_all()
    limits = SessionLimits(parts=PartLimits(rows=0, seconds=0.0))
    with served(store, limits=limits) as short, Client(short) as other:
        with pytest.raises(flight.FlightServerError, match="not issued by this server"):
            other.flight.do_get(flight.Ticket(ticket), other.options).read_all()
        info = other.parts("SELECT k FROM t")
        assert info.endpoints[0].expiration_time is not None
        with pytest.raises(flight.FlightServerError, match="has expired"):
            other.read_parts(info)


def test_a_table_that_was_replaced_is_not_read(store: nyala.Connection, client: Client) -> None:
    info, of_view = client.parts("SELECT k FROM t"), client.parts("SELECT n FROM odd")
    store.execute("CREATE OR REPLACE VIEW odd AS SELECT k AS n FROM small")
    with pytest.raises(flight.FlightServerError, match="other tables than when its ticket was issued"):
        client.read_parts(of_view)
    store.execute("ALTER TABLE t ADD COLUMN more INT")
    assert rows(client.read_parts(info)) == [(k,) for k in range(ROWS)]
    store.execute("DROP TABLE t")
    with pytest.raises(flight.FlightServerError, match="table t does not exist"):
        client.read_parts(info)


def test_readers_need_the_rights_of_the_query(store: nyala.Connection) -> None:
    store.execute(f"CREATE USER ann PASSWORD '{PASSWORD}'; CREATE USER bob PASSWORD '{PASSWORD}'; CREATE ROLE readers")
    store.execute("GRANT SELECT ON t TO readers; GRANT SELECT ON odd TO ann; GRANT readers TO ann")
    with served(store, limits=EACH_TABLET) as server, ExitStack() as opened:
        ann, again, bob = (opened.enter_context(Client(server)) for _ in range(3))
        for client, user in ((ann, b"ann"), (again, b"ann"), (bob, b"bob")):
            client.headers = [client.flight.authenticate_basic_token(user, PASSWORD)]
        ann.query("SET ROLE readers")
        info = ann.parts("SELECT k FROM t")
        assert rows(again.read_parts(info)) == [(k,) for k in range(ROWS)]  # another session of the same user
        with pytest.raises(flight.FlightUnauthorizedError, match="issued to another user"):
            bob.read_parts(info)
        ann.query("RESET ROLE")
        of_view = ann.parts("SELECT n FROM odd")
        assert len(rows(again.read_parts(of_view))) == ROWS // 2
        store.execute("REVOKE readers FROM ann")
        with pytest.raises(flight.FlightUnauthorizedError, match="no member of role readers"):
            again.read_parts(info)
        # The view lends the rights of its owner, until it may not be read itself.
        assert len(rows(again.read_parts(of_view))) == ROWS // 2
        store.execute("REVOKE SELECT ON odd FROM ann")
        with pytest.raises(flight.FlightUnauthorizedError, match="user ann needs SELECT"):
            again.read_parts(of_view)


def test_readers_of_parts_are_cancelled(store: nyala.Connection) -> None:
    text = "SELECT k, repeat('x', 1000000) AS x FROM t"  # much more than gRPC sends ahead
    with served(store, limits=EACH_TABLET) as server, Client(server) as client, Client(server) as other:
        info = client.parts(text)
        reader = client.flight.do_get(info.endpoints[0].ticket, client.options)
        reader.read_chunk()
        sent = read("FlightInfo", info.serialize())
        body = message("CancelFlightInfoRequest", info=sent).SerializeToString()
        assert (
            read("CancelFlightInfoResult", other.action("CancelFlightInfo", body)[0]).status == CancelStatus.CANCELLED
        )
        # Not read_all: pyarrow takes a cancelled stream for Ctrl-C there.
        with pytest.raises(flight.FlightCancelledError):
            while True:
                reader.read_chunk()
        until(lambda: not any(session.is_busy for session in server.sessions.all()))
        status = read("CancelFlightInfoResult", other.action("CancelFlightInfo", body)[0]).status
        assert status == CancelStatus.NOT_CANCELLABLE


def test_servers_with_one_key_answer_each_others_tickets(store: nyala.Connection) -> None:
    with served(store, ticket_key=KEY) as second:
        locations = (second.url, "grpc://127.0.0.1:1")
        with served(store, ticket_key=KEY, locations=locations, limits=EACH_TABLET) as first, Client(first) as client:
            info = client.parts("SELECT k FROM t")
            found = [[location.uri.decode() for location in endpoint.locations] for endpoint in info.endpoints]
            assert found == [list(locations), list(reversed(locations))] * 2
            with dbapi.connect(first.url) as adbc, adbc.cursor() as cursor:
                parts, _ = cursor.adbc_execute_partitions("SELECT k FROM t")
                known = len(second.sessions)
                tables = []
                for part in parts:  # of half of them the first location does not listen
                    cursor.adbc_read_partition(part)
                    tables.append(cursor.fetch_arrow_table())
                assert rows(tables) == [(k,) for k in range(ROWS)] and len(second.sessions) > known


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"locations": ("grpc://127.0.0.1:1",)}, "give all of them one key"),
        ({"locations": ("127.0.0.1:1",), "ticket_key": KEY}, "the URL of a server of Flight SQL is needed"),
        ({"ticket_key": b"short"}, "at least 16 bytes"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, Any], why: str) -> None:
    with (
        nyala.connect(":memory:") as connection,
        pytest.raises(InterfaceError, match=why),
        served(connection, **options),
    ):
        pass


# ---- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_is_read_in_parallel_while_rows_move_and_a_server_dies() -> None:
    with MiniCluster(tservers=3, options={"durability": "os"}) as cluster, nyala.connect(cluster.url) as owner:
        fill(owner)
        doors = Doors(nyala.connect(cluster.url), DoorOptions(None, FlightSqlOptions(limits=EACH_TABLET)))
        doors.start()
        with closing(doors), dbapi.connect(doors.urls[0]) as client, client.cursor() as cursor, moving(cluster.url):
            for dies in (False, True):
                parts, _ = cursor.adbc_execute_partitions("SELECT k, v FROM t")
                of_view, _ = cursor.adbc_execute_partitions("SELECT n AS k, v FROM odd")
                assert len(parts) == len(of_view) == TABLETS
                if dies:
                    cluster.kill(cluster.tservers[0])
                found = pa.concat_tables(in_parallel(doors.urls[0], parts))
                assert len(set(found["k"].to_pylist())) == found.num_rows == ROWS
                assert sum(found["v"].to_pylist()) == 7 * ROWS  # of each transfer both sides or none
                assert pa.concat_tables(in_parallel(doors.urls[0], of_view)).num_rows == ROWS // 2
                client.commit()


class moving:
    """Transfers between rows of other tablets, as long as it is entered."""

    def __init__(self, url: str):
        self._url = url
        self._ended = threading.Event()
        self._moved = threading.Event()
        self._thread = threading.Thread(target=self._move)
        self._errors: list[Exception] = []

    def __enter__(self) -> None:
        self._thread.start()
        assert self._moved.wait(60)

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()
        assert not self._errors

    def _move(self) -> None:
        def transfer(connection: nyala.Connection, number: int) -> None:
            connection.execute("UPDATE t SET v = v - 1 WHERE k = ?", [number % ROWS])
            connection.execute("UPDATE t SET v = v + 1 WHERE k = ?", [number * 7 % ROWS])

        try:
            with nyala.connect(self._url) as connection:
                number = 1
                while not self._ended.is_set():
                    connection.run(lambda connection, number=number: transfer(connection, number))
                    self._moved.set()
                    number += 1
        except Exception as error:
            self._errors.append(error)
            self._moved.set()


def in_parallel(url: str, parts: list[bytes]) -> list[pa.Table]:
    """Each part by a client of its own, as tasks of Spark read them."""
    found: list[pa.Table] = []
    errors: list[Exception] = []

    def read_one(part: bytes) -> None:
        try:
            with dbapi.connect(url) as client, client.cursor() as cursor:
                cursor.adbc_read_partition(part)
                found.append(cursor.fetch_arrow_table())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read_one, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return found
