"""HTTP: probes, metrics and pages for those who operate a store.

    access       who may read: Host, password, tokens of forms      options   addresses, TLS
    server       socket, threads, limits      handler   one request: probe, metrics, stacks or page
    subject      the store or server that is described, from its start to its end
    exposition   metrics as OpenMetrics       log_tail, stacks   the log's end; stacks and the profiler
    beside       a server of a process with its HTTP server beside it
    pages/       HTML, made on the server

    GET /healthz   200 while the process answers      GET /readyz   200 when it is ready for clients, else 503
    GET /metrics   OpenMetrics or Prometheus' format  GET /         the first page

Pages only read; the one form that changes something cancels a statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...driver.connection import Connection
    from .server import HttpServer


def serve(connection: Connection, address: str = "127.0.0.1:0", **options: Any) -> HttpServer:
    """Serves pages and metrics of a connection's store, until `HttpServer.close`.

    Parameters
    ----------
    connection : Connection
        Stays open as long as the server.
    address : str
        "host:port"; port 0 takes any free one.
    options
        `password`, `tls_cert`, `tls_key`, `profiler`, `connections` of `options.HttpOptions`.

    Raises `InterfaceError` if the options are invalid, `ServerUnavailable` if the address cannot be used.

    >>> import nyala, urllib.request
    >>> connection = nyala.connect(":memory:")
    >>> with serve(connection) as server:
    ...     with urllib.request.urlopen(server.url + "readyz") as response:
    ...         response.read()
    b'ready\\n'
    >>> connection.close()
    """
    from .options import HttpOptions
    from .server import HttpServer
    from .subject import Subject

    subject = Subject("store", str(connection.session.target), lambda _: connection.duplicate())
    server = HttpServer(subject, HttpOptions(address=address, **options))
    server.start()
    subject.attach()
    return server
