"""Bytes that are no messages, and messages that are no use: errors, no crash, and no session that stays."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from flight_sql_support import Client, command, served
from hypothesis import example, given
from hypothesis import strategies as st
from nyala.doors.flight_sql.protocol.declarations import FLIGHT_SQL
from nyala.doors.flight_sql.protocol.messages import _classes, from_any, in_any, message
from nyala.doors.flight_sql.server.actions import ACTIONS
from nyala.doors.flight_sql.server.server import FlightSqlServer
from nyala.doors.flight_sql.server.streams import checked
from nyala.errors import NotSupportedError, ProtocolError
from pyarrow import flight

NAMES = sorted(line.split()[0] for line in FLIGHT_SQL.replace("\n  ", " ").splitlines() if line)
REFUSED = (flight.FlightError, pa.ArrowException)


@pytest.fixture(scope="module")
def server() -> Iterator[FlightSqlServer]:
    with served(sessions=50) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: FlightSqlServer) -> Iterator[Client]:
    with Client(server) as client:
        yield client
        assert len(server.sessions) == 1, "the client's own session, and no other"
        assert client.query("SELECT 1") == [(1,)]
        assert len(server.calls) == 0


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Bytes of any kind: random ones, cut and changed messages, and messages with random contents."""
    name = draw(st.sampled_from(NAMES))
    body = draw(st.binary(max_size=40))
    if draw(st.booleans()):
        fields = {
            field.name: draw(st.binary(max_size=30) if field.type == field.TYPE_BYTES else st.text(max_size=30))
            for field in _classes()[name].DESCRIPTOR.fields
            if field.type in (field.TYPE_BYTES, field.TYPE_STRING) and not field.is_repeated
        }
        body = message(name, **fields).SerializeToString()
    data = bytearray(in_any(message(name))[:2] + b"" if draw(st.booleans()) else _enclosed(name, body))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


def _enclosed(name: str, body: bytes) -> bytes:
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(body) % 128]) + body


@given(hostile() | st.binary(max_size=200))
@example(b"")
@example(b"\xff" * 50)
@example(b"\x12" + b"\xff\xff\xff\xff\x0f")
def test_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        name, _ = from_any(data)
    except (ProtocolError, NotSupportedError):
        return
    assert name in _classes()


@given(hostile(), st.sampled_from(["info", "schema", "ticket", "put"]))
def test_hostile_descriptors_and_tickets(client: Client, data: bytes, kind: str) -> None:
    descriptor = flight.FlightDescriptor.for_command(data)
    try:
        if kind == "info":
            client.flight.get_flight_info(descriptor, client.options)
        elif kind == "schema":
            client.flight.get_schema(descriptor, client.options)
        elif kind == "ticket":
            client.flight.do_get(flight.Ticket(data), client.options).read_all()
        else:
            writer, reader = client.flight.do_put(descriptor, pa.schema([]), client.options)
            with writer:
                writer.done_writing()
                reader.read()
    except REFUSED as error:
        # pyarrow's server puts the traceback into errors of GetSchema, whatever their class.
        assert kind == "schema" or "Traceback" not in str(error)
        assert "a bug in nyala" not in str(error)


@given(hostile(), st.sampled_from([*ACTIONS, "Unknown", ""]))
def test_hostile_actions(client: Client, data: bytes, kind: str) -> None:
    try:
        client.action(kind, data)
    except REFUSED as error:
        assert "Traceback" not in str(error) and "a bug in nyala" not in str(error)


@pytest.mark.parametrize("path", [("a",), (), ("\0", "x" * 1000)])
def test_descriptors_with_a_path_are_refused(client: Client, path: tuple[str, ...]) -> None:
    with pytest.raises(flight.FlightServerError, match=r"Flight SQL uses commands|no command"):
        client.flight.get_flight_info(flight.FlightDescriptor.for_path(*path), client.options)


def test_calls_that_are_none_of_flight_sql(client: Client) -> None:
    with pytest.raises(flight.FlightServerError, match="GetTables lists"):
        list(client.flight.list_flights(options=client.options))
    assert {action.type for action in client.flight.list_actions(client.options)} <= set(ACTIONS)


def test_rows_with_offsets_outside_of_their_buffers_are_refused(client: Client) -> None:
    offsets = pa.py_buffer(b"\0\0\0\0\xff\xff\xff\x7f\3\0\0\0")
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    rows = pa.RecordBatch.from_arrays([broken], ["a"])
    with pytest.raises(ProtocolError, match="not valid Arrow data"):
        checked(rows)
    handle = client.prepare("SELECT length(?)").prepared_statement_handle
    with pytest.raises(flight.FlightServerError, match="not valid Arrow data"):
        client.put("CommandPreparedStatementQuery", rows, prepared_statement_handle=handle)


def test_rows_with_bytes_that_are_no_text_are_refused(client: Client) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    rows = pa.RecordBatch.from_arrays([bad], ["a"])
    with pytest.raises(flight.FlightServerError, match="not valid Arrow data"):
        client.put("CommandStatementIngest", rows, table="fresh")


def test_types_that_no_column_has_are_refused(client: Client) -> None:
    for values in (pa.array([[1]]), pa.array([{"a": 1}]), pa.array([None]), pa.array([1], pa.duration("s"))):
        with pytest.raises(flight.FlightServerError):
            client.put("CommandStatementIngest", pa.table({"a": values}), table="fresh")


def test_handles_are_those_of_one_kind(client: Client) -> None:
    handle = client.prepare("SELECT 1").prepared_statement_handle
    for name, fields in (
        ("CommandStatementQuery", {"query": "SELECT 1", "transaction_id": handle}),
        ("CommandPreparedStatementQuery", {"prepared_statement_handle": handle[:-1]}),
    ):
        with pytest.raises(flight.FlightServerError):
            client.flight.get_flight_info(command(name, **fields), client.options)
    with pytest.raises(flight.FlightServerError):
        client.flight.do_get(flight.Ticket(in_any(message("TicketStatementQuery", statement_handle=handle)))).read_all()
