"""The actions by name: what each gets, does and replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ....errors import Error, NotSupportedError, ProtocolError
from ..protocol.messages import from_any, in_any, message, read
from ..protocol.numbers import CLOSED, CancelStatus, End
from ..session import session_options
from ..session.part_tickets import MAGIC
from .call import Call


def _request(name: str, body: bytes) -> Any:
    """The message of an action of Flight SQL. Raises `ProtocolError` if it is another one."""
    found, content = from_any(body)
    if found != name:
        raise ProtocolError(f"the action needs {name}, not {found}")
    return content


def _create_prepared(call: Call, body: bytes) -> Iterator[bytes]:
    request = _request("ActionCreatePreparedStatementRequest", body)
    # A statement that is only prepared is not logged, unless that fails: its executions are.
    with call.session() as session, call.audited(session, request.query), call.running():
        found = session.prepare(request.query)
    schemas = [schema.serialize().to_pybytes() for schema in (found.schema, found.parameters)]
    yield in_any(
        message(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=found.handle,
            dataset_schema=schemas[0],
            parameter_schema=schemas[1],
        )
    )


def _close_prepared(call: Call, body: bytes) -> Iterator[bytes]:
    handle = _request("ActionClosePreparedStatementRequest", body).prepared_statement_handle
    with call.session_of(handle) as session:
        session.unprepare(handle)
    yield from ()


def _create_prepared_substrait(call: Call, body: bytes) -> Iterator[bytes]:
    raise NotSupportedError("Substrait plans are not supported; send SQL")


def _begin_transaction(call: Call, body: bytes) -> Iterator[bytes]:
    _request("ActionBeginTransactionRequest", body)
    with call.session() as session, call.audited_action(session, "BEGIN"):
        handle = session.transactions.begin()
    yield in_any(message("ActionBeginTransactionResult", transaction_id=handle))


def _end_transaction(call: Call, body: bytes) -> Iterator[bytes]:
    request = _request("ActionEndTransactionRequest", body)
    text = "COMMIT" if request.action == End.COMMIT else "ROLLBACK"
    with call.session_of(request.transaction_id) as session, call.audited_action(session, text), call.running():
        session.transactions.end(request.transaction_id, request.action)
    yield from ()


def _begin_savepoint(call: Call, body: bytes) -> Iterator[bytes]:
    request = _request("ActionBeginSavepointRequest", body)
    with (
        call.session_of(request.transaction_id) as session,
        call.audited_action(session, f"SAVEPOINT {request.name}") as audited,
    ):
        handle = session.transactions.begin_savepoint(request.transaction_id, request.name)
        if audited is not None:
            audited.text = f"SAVEPOINT {session.transactions.savepoint(handle)}"  # unique, unlike the client's name
    yield in_any(message("ActionBeginSavepointResult", savepoint_id=handle))


def _end_savepoint(call: Call, body: bytes) -> Iterator[bytes]:
    request = _request("ActionEndSavepointRequest", body)
    verb = "RELEASE SAVEPOINT" if request.action == End.COMMIT else "ROLLBACK TO"
    with call.session_of(request.savepoint_id) as session:
        text = f"{verb} {session.transactions.savepoint(request.savepoint_id)}"
        with call.audited_action(session, text):
            session.transactions.end_savepoint(request.savepoint_id, request.action)
    yield from ()


def _cancel_flight_info(call: Call, body: bytes) -> Iterator[bytes]:
    status = _cancel(call, read("CancelFlightInfoRequest", body).info)
    yield message("CancelFlightInfoResult", status=status).SerializeToString()


def _cancel_query(call: Call, body: bytes) -> Iterator[bytes]:
    info = read("FlightInfo", _request("ActionCancelQueryRequest", body).info)
    yield in_any(message("ActionCancelQueryResult", result=_cancel(call, info)))


def _cancel(call: Call, info: Any) -> CancelStatus:
    """Stops the statements of the tickets in a FlightInfo."""
    cancelled = False
    for endpoint in info.endpoint:
        data = endpoint.ticket.ticket
        if data.startswith(MAGIC):
            for session in call.sessions():
                cancelled |= session.cancel_part(data)
            continue
        try:
            name, ticket = from_any(data)
        except Error:
            continue
        if name == "TicketStatementQuery":
            with call.session_of(ticket.statement_handle) as session:
                cancelled |= session.cancel(ticket.statement_handle)
    return CancelStatus.CANCELLED if cancelled else CancelStatus.NOT_CANCELLABLE


def _close_session(call: Call, body: bytes) -> Iterator[bytes]:
    read("CloseSessionRequest", body)
    call.host.sessions.end(call.session())
    yield message("CloseSessionResult", status=CLOSED).SerializeToString()


def _set_session_options(call: Call, body: bytes) -> Iterator[bytes]:
    request = read("SetSessionOptionsRequest", body)
    with call.session() as session:
        yield session_options.set_options(session.connection, request).SerializeToString()


def _get_session_options(call: Call, body: bytes) -> Iterator[bytes]:
    read("GetSessionOptionsRequest", body)
    with call.session() as session:
        yield session_options.options(session.connection).SerializeToString()


ACTIONS: Final[dict[str, Callable[[Call, bytes], Iterator[bytes]]]] = {
    "CreatePreparedStatement": _create_prepared,
    "ClosePreparedStatement": _close_prepared,
    "CreatePreparedSubstraitPlan": _create_prepared_substrait,
    "BeginTransaction": _begin_transaction,
    "EndTransaction": _end_transaction,
    "BeginSavepoint": _begin_savepoint,
    "EndSavepoint": _end_savepoint,
    "CancelFlightInfo": _cancel_flight_info,
    "CancelQuery": _cancel_query,
    "CloseSession": _close_session,
    "SetSessionOptions": _set_session_options,
    "GetSessionOptions": _get_session_options,
}
DESCRIPTIONS: Final = {
    "CreatePreparedStatement": "ActionCreatePreparedStatementRequest; ActionCreatePreparedStatementResult",
    "ClosePreparedStatement": "ActionClosePreparedStatementRequest; nothing",
    "BeginTransaction": "ActionBeginTransactionRequest; ActionBeginTransactionResult",
    "EndTransaction": "ActionEndTransactionRequest; nothing",
    "BeginSavepoint": "ActionBeginSavepointRequest; ActionBeginSavepointResult",
    "EndSavepoint": "ActionEndSavepointRequest; nothing",
    "CancelFlightInfo": "CancelFlightInfoRequest; CancelFlightInfoResult",
    "CancelQuery": "ActionCancelQueryRequest; ActionCancelQueryResult",
    "CloseSession": "CloseSessionRequest; CloseSessionResult",
    "SetSessionOptions": "SetSessionOptionsRequest; SetSessionOptionsResult",
    "GetSessionOptions": "GetSessionOptionsRequest; GetSessionOptionsResult",
}
"""Request and reply of each, for ListActions."""
