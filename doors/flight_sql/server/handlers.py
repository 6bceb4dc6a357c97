"""The calls of Flight, each with the commands of Flight SQL that may come with it.

| call | carries | does |
|---|---|---|
| GetFlightInfo | a query, a command about metadata | runs the query or cuts it; returns schema, tickets |
| GetSchema | the same | returns the schema alone |
| DoGet | a ticket | streams the rows of a result, or of a part of a query |
| DoPut | parameters, updates, rows to ingest | reads the stream, then writes |
| DoAction | prepared statements, transactions, cancel, options of the session | see `actions` |

Every error leaves as one of Flight's (`session.reports`): any other would carry a traceback to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from ....cluster.wire.security.access import address_of
from ....driver.session.executions import Halt
from ....errors import Cancelled, NotSupportedError, ProtocolError
from ...audited import AuditedStatement
from ..metadata import commands
from ..protocol.messages import from_any, given, in_any, message
from ..session.client_session import ClientSession
from ..session.ingestion import described_ingestion
from ..session.part_tickets import MAGIC
from ..session.parts import Parts
from ..session.reports import Refused, flight_error
from ..session.results import Result
from .actions import ACTIONS, DESCRIPTIONS
from .authentication import MIDDLEWARE
from .call import Call, Host
from .streams import BoundRows, ReceivedRows, ResultStream

_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_EVERYWHERE: Final[list[str]] = []
"""The locations of a ticket: the connection that has requested it."""
_SUBSTRAIT: Final = ("CommandStatementSubstraitPlan",)


def _reported(handler: _Handler) -> _Handler:
    """The handler with all its errors as errors of Flight."""

    @wraps(handler)
    def call(*arguments: Any) -> Any:
        try:
            return handler(*arguments)
        except Exception as error:
            raise flight_error(error) from None

    return call  # type: ignore[return-value]


class FlightHandlers(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Flight's server. It listens from its birth; `serve()` is never called: it would handle the process's signals.

    Parameters
    ----------
    host : Host
    location : str
        URL to listen at.
    options
        Arguments of `flight.FlightServerBase`.
    """

    def __init__(self, host: Host, location: str, **options: Any):
        self._host = host
        super().__init__(location, **options)

    def _call(self, context: Any, size: int) -> Call:
        """The call of a context, with a message of this many bytes."""
        address = address_of(context)
        self._host.note_message(address, size)
        return Call(self._host, context, context.get_middleware(MIDDLEWARE).caller, address)

    # ---- queries -----------------------------------------------------------------------------------------------------

    @_reported
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        """See `flight.FlightServerBase`."""
        call, name, command = self._command(context, descriptor)
        if name in commands.SCHEMAS:
            return _info(commands.schema_for(name, command), descriptor, descriptor.command)
        if name == "CommandStatementQuery":
            with (
                call.session() as session,
                call.audited(session, command.query) as audited,
                call.running() as halt,
            ):
                transaction = given(command, "transaction_id")
                parts = session.parts(command.query, transaction)
                if parts is not None:
                    return self._parts_info(parts, descriptor, audited)
                result = session.query(command.query, transaction, halt, audited)
        elif name == "CommandPreparedStatementQuery":
            handle = command.prepared_statement_handle
            with (
                call.session_of(handle) as session,
                call.audited(session, session.prepared(handle).text) as audited,
                call.running() as halt,
            ):
                parts = session.parts_of_prepared(handle)
                if parts is not None:
                    return self._parts_info(parts, descriptor, audited)
                result = session.query_prepared(handle, halt, audited)
        else:
            raise _unexpected(name, "GetFlightInfo")
        ticket = in_any(message("TicketStatementQuery", statement_handle=result.handle))
        return _info(result.schema, descriptor, ticket, result.rowcount)

    def _parts_info(self, parts: Parts, descriptor: Any, audited: AuditedStatement | None) -> flight.FlightInfo:
        """The reply for a query that several readers may share: nothing has run yet."""
        if audited is not None:
            audited.end()
        endpoints = [self._host.part_endpoints.endpoint(number, part) for number, part in enumerate(parts.tickets)]
        return flight.FlightInfo(parts.schema, descriptor, endpoints, -1, -1)

    @_reported
    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        """See `flight.FlightServerBase`."""
        call, name, command = self._command(context, descriptor)
        if name in commands.SCHEMAS:
            return flight.SchemaResult(commands.schema_for(name, command))
        if name == "CommandStatementQuery":
            with call.session() as session, call.audited(session, command.query), call.running():
                return flight.SchemaResult(session.schema(command.query))
        if name == "CommandPreparedStatementQuery":
            handle = command.prepared_statement_handle
            with call.session_of(handle) as session:
                return flight.SchemaResult(session.prepared(handle).schema)
        raise _unexpected(name, "GetSchema")

    def _command(self, context: Any, descriptor: Any) -> tuple[Call, str, Any]:
        """The call, and name and content of the command in a descriptor."""
        data = descriptor.command
        if descriptor.descriptor_type != flight.DescriptorType.CMD or data is None:
            raise ProtocolError("the descriptor is a path; Flight SQL uses commands")
        call = self._call(context, len(data))
        return call, *from_any(data)

    @_reported
    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        """See `flight.FlightServerBase`."""
        call = self._call(context, len(ticket.ticket))
        if ticket.ticket.startswith(MAGIC):
            return self._read_part(call, ticket.ticket)
        name, command = from_any(ticket.ticket)
        if name == "TicketStatementQuery":
            session = call.session_of(command.statement_handle)
            return _streamed(call, session.take(command.statement_handle))
        if name in commands.SCHEMAS:
            with call.session() as session, call.running():
                table = commands.table_for(name, command, session.rows, session.describe, **self._host.facts(session))
            return flight.RecordBatchStream(table)
        raise _unexpected(name, "DoGet")

    def _read_part(self, call: Call, data: bytes) -> flight.FlightDataStream:
        with call.session() as session:
            ticket = self._host.part_endpoints.read(data, session.connection.session)
            with call.audited(session, ticket.text) as audited, call.running() as halt:
                return _streamed(call, session.read_part(ticket, data, halt, audited))

    # ---- writes ------------------------------------------------------------------------------------------------------

    @_reported
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """See `flight.FlightServerBase`."""
        call, name, command = self._command(context, descriptor)
        if name == "CommandPreparedStatementQuery":
            handle = command.prepared_statement_handle
            with call.session_of(handle) as session:
                session.bind(handle, BoundRows(call, reader).all())
            _reply(writer, message("DoPutPreparedStatementResult", prepared_statement_handle=handle))
            return
        with (
            self._writing(call, name, command) as session,
            _audited(call, session, name, command) as audited,
            call.running() as halt,
        ):
            rows = _written(session, call, name, command, reader, halt)
            if audited is not None:
                audited.end(rows)
        _reply(writer, message("DoPutUpdateResult", record_count=rows))

    def _writing(self, call: Call, name: str, command: Any) -> ClientSession:
        """The session of a command of DoPut."""
        if name == "CommandPreparedStatementUpdate":
            return call.session_of(command.prepared_statement_handle)
        if name in ("CommandStatementUpdate", "CommandStatementIngest"):
            return call.session()
        raise _unexpected(name, "DoPut")

    # ---- actions -----------------------------------------------------------------------------------------------------

    @_reported
    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        """See `flight.FlightServerBase`."""
        body = action.body.to_pybytes()
        call = self._call(context, len(body))
        handler = ACTIONS.get(action.type)
        if handler is None:
            raise NotSupportedError(f"the action {action.type[:100]} is not supported")
        return iter([flight.Result(pa.py_buffer(reply)) for reply in handler(call, body)])

    @_reported
    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """See `flight.FlightServerBase`."""
        return list(DESCRIPTIONS.items())

    @_reported
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """See `flight.FlightServerBase`."""
        raise NotSupportedError("ListFlights is not supported: GetTables lists the tables")


def _audited(
    call: Call, session: ClientSession, name: str, command: Any
) -> AbstractContextManager[AuditedStatement | None]:
    """A command of `_written` in the audit log."""
    if session.audited is None:
        text = ""
    elif name == "CommandStatementIngest":
        text = described_ingestion(command)
    elif name == "CommandPreparedStatementUpdate":
        text = session.prepared(command.prepared_statement_handle).text
    else:
        text = command.query
    return call.audited(session, text)


def _written(session: ClientSession, call: Call, name: str, command: Any, reader: Any, halt: Halt) -> int:
    """Runs a command of DoPut that writes; the number of rows."""
    if name == "CommandStatementIngest":
        rows = ReceivedRows(call, reader)
        return session.ingest(command, rows.schema, rows, halt)
    if name == "CommandPreparedStatementUpdate":
        values = BoundRows(call, reader).all()
        return session.update_prepared(command.prepared_statement_handle, values, halt)
    BoundRows(call, reader).all()
    return session.update(command.query, given(command, "transaction_id"), halt)


def _streamed(call: Call, result: Result) -> flight.FlightDataStream:
    try:
        stream = ResultStream(call, result)
    except BaseException:
        result.close()
        raise
    return flight.GeneratorStream(result.schema, stream)


def _info(schema: pa.Schema, descriptor: Any, ticket: bytes, rows: int = -1) -> flight.FlightInfo:
    return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, _EVERYWHERE)], rows, -1)


def _reply(writer: Any, content: Any) -> None:
    try:
        writer.write(pa.py_buffer(content.SerializeToString()))
    except pa.ArrowException as error:
        raise Cancelled(f"the client has gone before its reply: {error}") from None


def _unexpected(name: str, call: str) -> Exception:
    if name in _SUBSTRAIT:
        return NotSupportedError("Substrait plans are not supported; send SQL")
    return Refused(f"the command {name} is not one of {call}", "08P01")
