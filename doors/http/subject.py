"""The server or store that the pages describe, through all of its life.

STARTING ── attach ──► READY ── stop ──► STOPPING      /readyz: 503, 200, 503; /healthz: 200 in all three
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import Error, ServerUnavailable
from ...model import metrics, observations

if TYPE_CHECKING:
    from ...cluster.admin.view import ClusterView
    from ...driver.connection import Connection


class Phase(enum.StrEnum):
    """Of a server's life."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class Subject:
    """A store or a server.

    Parameters
    ----------
    kind : {"store", "gateway", "tserver", "master"}
    name : str
        Directory or URL.
    connect : callable
        Returns a connection for pages and the console, of the server that was attached. Called when the first page
        needs one.
    look : callable, optional
        Returns the view of the whole cluster, of the server that was attached; None: there is none.
    options : mapping of str to str
        Options of the command line, for the page of settings; without secrets.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        connect: Callable[[Any], Connection],
        *,
        look: Callable[[Any], ClusterView] | None = None,
        options: Mapping[str, str] | None = None,
    ):
        self.kind, self.name, self._look = kind, name, look
        self.options = dict(options or {})
        self.started = time.time()
        self.phase = Phase.STARTING
        self._connect = connect
        self._server: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        metrics.register(self.samples)

    # ---- life ------------------------------------------------------------------------------------------------------

    def attach(self, server: object = None) -> None:
        """The server is open and serves clients. It may have `not_ready()`, `status()` and `observations(kind)`."""
        self._server, self.phase = server, Phase.READY

    def stop(self) -> None:
        """The server accepts no new work."""
        self.phase = Phase.STOPPING

    def close(self) -> None:
        """Closes the connection."""
        self.phase = Phase.STOPPING
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def not_ready(self) -> str:
        """The reason for which clients should go elsewhere; "" if there is none."""
        if self.phase is not Phase.READY:
            return f"the server is {self.phase}"
        check = getattr(self._server, "not_ready", None)
        return "" if check is None else str(check())

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`."""
        yield metrics.Sample("nyala_ready", int(not self.not_ready()))

    # ---- for pages -------------------------------------------------------------------------------------------------

    def connection(self) -> Connection:
        """A connection of the pages' own. Raises `ServerUnavailable` while the server starts or stops."""
        if self.phase is not Phase.READY:
            raise ServerUnavailable(f"the server is {self.phase}: there is nothing to read yet, or any more")
        with self._lock:
            if self._connection is None:
                self._connection = self._connect(self._server)
            return self._connection

    @property
    def look(self) -> Callable[[], ClusterView] | None:
        """Returns the view of the whole cluster when it is called; None: there is none."""
        return None if self._look is None else partial(self._look, self._server)

    def rows(self, kind: str) -> list[Mapping[str, Any]]:
        """Rows of `nyala_catalog.<kind>`: those of this server, if it has any, else those of its store."""
        found: Iterable[Mapping[str, Any]]
        if isinstance(self._server, observations.Observable):
            found = self._server.observations(kind)
        else:
            found = observations.rows_of(kind, self.connection().store)
        return list(found)

    def reports(self) -> Sequence[Any] | None:
        """The `TabletReport`s of this server's replicas; None of a store or a gateway."""
        reports = getattr(self._server, "reports", None)
        return None if reports is None else list(reports())

    def status(self) -> Any:
        """The server's `ServerStatus`; None of a store or a gateway."""
        with suppress(Error):
            if hasattr(self._server, "status"):
                return self._server.status()
        return None
