"""A server of Flight SQL, and a client of pyarrow that speaks its messages, for tests of doors/flight_sql."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nyala
import pyarrow as pa
from nyala.doors.flight_sql import serve
from nyala.doors.flight_sql.protocol.messages import from_any, in_any, message, read
from nyala.doors.flight_sql.server.server import FlightSqlServer
from pyarrow import flight

PATIENCE = 60.0
with nyala.connect(":memory:") as _connection:
    SCHEMA = str(_connection.execute("SELECT current_schema()").fetchall()[0][0])
    """The schema of tables that are created without one."""
SLOW = "SELECT count(*) FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(m) WHERE n * m % 7 = 3"


def until(condition: Callable[[], Any]) -> None:
    """Waits for a condition; fails at a timeout."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)


@contextmanager
def served(connection: nyala.driver.connection.Connection | None = None, **options: Any) -> Iterator[FlightSqlServer]:
    """A server of a store, in memory if none is given."""
    own = nyala.connect(":memory:") if connection is None else connection
    try:
        with serve(own, **options) as server:
            yield server
    finally:
        if connection is None:
            own.close()


class Client:
    """A client without cookies: its session is that of its connection, or of a token in `headers`."""

    def __init__(self, server: FlightSqlServer, **options: Any):
        self.flight = flight.FlightClient(server.url, **options)
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def options(self) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(headers=self.headers, timeout=PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flight.close()

    # ---- queries

    def info(self, name: str, **fields: Any) -> flight.FlightInfo:
        """GetFlightInfo of a command."""
        return self.flight.get_flight_info(command(name, **fields), self.options)

    def read(self, info: flight.FlightInfo) -> pa.Table:
        """DoGet of the only ticket."""
        (endpoint,) = info.endpoints
        return self.flight.do_get(endpoint.ticket, self.options).read_all()

    def parts(self, text: str) -> flight.FlightInfo:
        """GetFlightInfo of a query, which may have several endpoints."""
        return self.info("CommandStatementQuery", query=text)

    def read_parts(self, info: flight.FlightInfo) -> list[pa.Table]:
        """DoGet of each ticket."""
        return [self.flight.do_get(endpoint.ticket, self.options).read_all() for endpoint in info.endpoints]

    def get(self, name: str, **fields: Any) -> pa.Table:
        """The rows of a command."""
        return self.read(self.info(name, **fields))

    def query(self, text: str, **fields: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        table = self.get("CommandStatementQuery", query=text, **fields)
        return list(zip(*table.to_pydict().values(), strict=True))

    # ---- DoPut

    def put(self, name: str, rows: pa.Table | pa.RecordBatch | None = None, **fields: Any) -> Any:
        """DoPut of a command with rows; the message of the reply."""
        rows = pa.table({}) if rows is None else rows
        writer, reader = self.flight.do_put(command(name, **fields), rows.schema, self.options)
        with writer:
            if rows.num_columns:
                writer.write(rows)
            writer.done_writing()
            reply = reader.read()
        kind = "DoPutPreparedStatementResult" if name == "CommandPreparedStatementQuery" else "DoPutUpdateResult"
        return read(kind, reply.to_pybytes())

    def update(self, text: str, **fields: Any) -> int:
        """CommandStatementUpdate; the number of rows."""
        return int(self.put("CommandStatementUpdate", query=text, **fields).record_count)

    # ---- actions

    def action(self, kind: str, body: bytes = b"") -> list[bytes]:
        """The replies to an action."""
        replies = self.flight.do_action(flight.Action(kind, body), self.options)
        return [reply.body.to_pybytes() for reply in replies]

    def act(self, kind: str, **fields: Any) -> Any:
        """An action of Flight SQL with its message; the message of the reply, if there is one."""
        replies = self.action(kind, in_any(message(f"Action{kind}Request", **fields)))
        return from_any(replies[0])[1] if replies else None

    def prepare(self, text: str) -> Any:
        """The reply to CreatePreparedStatement."""
        return self.act("CreatePreparedStatement", query=text)


def command(name: str, **fields: Any) -> flight.FlightDescriptor:
    """The descriptor of a command."""
    return flight.FlightDescriptor.for_command(in_any(message(name, **fields)))
