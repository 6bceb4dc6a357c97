"""Arrow Flight SQL in front of a store: ADBC, the JDBC driver of Arrow, polars, pyarrow.

    protocol/   the messages of Flight SQL as protobuf classes; no I/O, no SQL
    metadata/   what clients read about the server and its catalog: SqlInfo, tables, keys, types, as Arrow tables
    session/    one client's conversation: statements, parameters, transactions, ingestion, errors
    server/     Flight's calls, the sessions by cookie, token or connection, passwords, limits, shutdown

The life of a query:

1. `server.handlers` receives GetFlightInfo with a command in protobuf; `protocol.messages` decodes it, and
   `server.sessions` finds the session of the client.
2. `session.client_session` runs the statement with the client's own `driver.connection.Connection` until its first
   batch is made, and keeps it as a `session.results.Result`. The reply has its schema and a ticket.
3. DoGet with the ticket streams the rest, a batch at a time: gRPC requests the next one when the client has read. So a
   result of any size needs the memory of some batches.
4. A scan of a table with several tablets may be cut instead (`session.parts`): each of several tickets reads some
   tablets, all at one snapshot.
5. `server.server.FlightSqlServer` stops statements whose clients have gone, and ends what is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...driver.connection import Connection
    from .server.server import FlightSqlServer


def serve(connection: Connection, address: str = "127.0.0.1:0", **options: Any) -> FlightSqlServer:
    """Serves the store of a connection by Flight SQL, until `FlightSqlServer.close`.

    Parameters
    ----------
    connection : Connection
        Stays open as long as the server; each client gets another one to the same store.
    address : str
        "host:port"; port 0 takes any free one.
    options
        `password`, `tls_cert`, `tls_key` and others of `server.options.FlightSqlOptions`.

    Raises
    ------
    InterfaceError
        The options are invalid.
    NotSupportedError
        The package protobuf is not installed.
    ServerUnavailable
        The address cannot be used.

    >>> import nyala
    >>> connection = nyala.connect(":memory:")
    >>> with serve(connection) as server:
    ...     server.url.startswith("grpc://127.0.0.1:")
    True
    >>> connection.close()
    """
    from .server.options import FlightSqlOptions
    from .server.server import FlightSqlServer

    server = FlightSqlServer(connection, FlightSqlOptions(address=address, **options))
    server.start()
    return server
