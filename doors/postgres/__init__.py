"""The protocol of PostgreSQL, versions 3.0 and 3.2, in front of a store.

    protocol/   messages in bytes and out of them; start-up; no I/O, no threads, no SQL
    values/     types and their oids; columns to DataRow and COPY bytes; parameters and COPY data to values
    session/    one client's conversation: statements, portals, transactions, COPY, errors; a generator of bytes
    server/     sockets, threads, limits, cancel, passwords, shutdown

The life of a statement:

1. `net.connection.Connection` reads bytes, in the reactor's thread; `protocol.reader.MessageReader` cuts them into
   messages, `server.client.PostgresClient` queues them.
2. A thread of the pool takes the client's messages in order. `session.backend.Backend.handle` returns a generator,
   which yields the bytes of the response while it runs the statement with the client's own
   `driver.connection.Connection`.
3. Rows come as Arrow batches. `values.rows.encode_rows` makes of a batch the bytes of all its DataRow messages at once.
4. The thread passes the bytes to the socket. If the client reads slowly, the generator is left where it is, without a
   thread, and continues when the socket has drained: a result of any size needs the memory of some batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...driver.connection import Connection
    from .server.server import PostgresServer


def serve(connection: Connection, address: str = "127.0.0.1:0", **options: Any) -> PostgresServer:
    """Serves the store of a connection by the protocol of PostgreSQL, until `PostgresServer.close`.

    Parameters
    ----------
    connection : Connection
        Stays open as long as the server; each client gets another one to the same store.
    address : str
        "host:port"; port 0 takes any free one.
    options
        `password`, `tls_cert`, `tls_key` and others of `server.options.PostgresOptions`.

    Raises `InterfaceError` if the options are invalid, `ServerUnavailable` if the address cannot be used.

    >>> import nyala
    >>> connection = nyala.connect(":memory:")
    >>> with serve(connection) as server:
    ...     server.url.startswith("postgresql://127.0.0.1:")
    True
    >>> connection.close()
    """
    from .server.options import PostgresOptions
    from .server.server import PostgresServer

    server = PostgresServer(connection, PostgresOptions(address=address, **options))
    server.start()
    return server
