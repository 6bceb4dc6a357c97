"""The server: listens, hands statements to a pool of threads, and shuts down in order.

reactor's thread   accepts, reads, parses messages, start-up, cancel requests, timeouts
                   statements on single rows that have run before (`session.known_groups`)
committers         sync the log for the rows that those have written; the reactor's thread replies
pool               `options.threads` threads: all other statements, one client's at a time in order
senders            rows are written by the thread that made them, as far as the socket takes them
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ....driver.connection import Connection
from ....driver.session.identity import as_user
from ....errors import Error
from ....model import metrics
from ....model.forks import stay_with_process
from ....model.store import WriteResult
from ....net.listener import Listener
from ....net.reactor import Reactor
from ....net.turn_batching import TurnBatch
from ....storage.database import Database
from ....storage.single_rows.committers import Committers, Done, Entered
from ....storage.single_rows.row_write import StartedRow
from ...authentication import entrance
from ...endpoints import resolves_to_loopback
from ..session.reports import Refused
from .client import PostgresClient
from .options import PostgresOptions

_logger = logging.getLogger("nyala.doors.postgres")

_SPARE: Final = 64
"""Connections beyond the limit of clients: for cancel requests, and for errors that say why."""
_SMALL: Final = 1 << 20
_POLL_SECONDS: Final = 0.01
_PATIENCE: Final = 2.0
"""Seconds to wait for the reactor when the server stops."""


class PostgresServer:
    """Serves the store of a connection by the protocol of PostgreSQL, from `start` to `close`.

    Parameters
    ----------
    connection : Connection
        Each client gets a connection of its own to the same store; this one is not used, and stays open.
    options : PostgresOptions

    Raises `InterfaceError` if the options are invalid, `ServerUnavailable` if the address cannot be used.
    """

    def __init__(self, connection: Connection, options: PostgresOptions):
        host, port, self.authenticator = entrance(connection, options)
        self.options = options
        self.tls = options.tls()
        self.needs_tls = not resolves_to_loopback(host)
        self._connection = connection
        self._reactor = Reactor("nyala-postgres")
        self._listener = Listener(
            self._reactor, host, port, lambda: PostgresClient(self), most=options.connections + _SPARE, evicts=False
        )
        self.host = host
        self.port = self._listener.port
        self._pool = ThreadPoolExecutor(options.threads, thread_name_prefix="nyala-postgres-worker")
        self._committing = 0
        """Rows that committers have, or will get at the end of this round."""
        self._outcomes: TurnBatch[Callable[[], object]] = TurnBatch(self._pass_on)
        self._committers = Committers(self._finish_row, self._outcomes.turn)
        self._entered: TurnBatch[Entered] = TurnBatch(self._committers.put_all)
        self._reactor.around = self._entered.turn
        self._processes = itertools.count(1)
        # Guards the two dictionaries.
        self._lock = threading.Lock()
        self._clients: dict[int, PostgresClient] = {}
        self._bytes: dict[PostgresClient, int] = {}
        """Bytes of incomplete and waiting messages, of clients with many of them."""
        self._is_closing = False
        self._is_closed = False
        self.used = time.monotonic()
        """When a client last sent something."""
        self.lookups = 0
        """Look-ups in one step (`session.known_groups`)."""
        self.writes = 0
        """Writes of single rows in one step."""
        metrics.register(self.samples)
        stay_with_process(self)

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """URL for clients, without a user."""
        return f"postgresql://{self.address}/"

    @property
    def client_count(self) -> int:
        """Number of clients that have entered."""
        return len(self._clients)

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`."""
        yield metrics.Sample("nyala_postgres_clients", len(self._clients))
        yield metrics.Sample("nyala_postgres_single_rows_total", self.lookups, ("read",))
        yield metrics.Sample("nyala_postgres_single_rows_total", self.writes, ("write",))

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Accepts clients."""
        self._reactor.start()
        self._listener.start()
        _logger.info("the PostgreSQL protocol is served", extra={"fields": {"address": self.address}})

    def drain(self, grace: float | None = None) -> None:
        """Accepts no new clients, ends idle ones, and lets running statements end, for `grace` seconds at most."""
        if self._is_closing:
            return
        self._is_closing = True
        self._in_reactor(self._listener.stop_accepting)
        deadline = time.monotonic() + (self.options.drain_seconds if grace is None else grace)
        while True:
            clients = self._known()
            for client in clients:
                self._reactor.call_soon(client.shut_down)
            if not clients or time.monotonic() >= deadline:
                return
            time.sleep(_POLL_SECONDS)

    def close(self, grace: float | None = None) -> None:
        """Drains, cancels what still runs, and closes all connections. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.drain(grace)
        for client in self._known():
            client.cancel()
        self._in_reactor(self._listener.close)
        self._committers.close()
        self._reactor.close()
        self._pool.shutdown(wait=True)

    def _in_reactor(self, job: Callable[[], None]) -> None:
        """Runs a job in the reactor's thread, and waits for it."""
        done = threading.Event()

        def run() -> None:
            try:
                job()
            finally:
                done.set()

        self._reactor.call_soon(run)
        done.wait(_PATIENCE)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def idle_seconds(self) -> float:
        """Seconds since a client last sent something; 0 while one is connected."""
        return 0.0 if self._clients else time.monotonic() - self.used

    def _known(self) -> list[PostgresClient]:
        with self._lock:
            return list(self._clients.values())

    # ---- for clients -----------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Raises `Refused` if there are too many clients, or the server is stopping."""
        if self._is_closing:
            raise Refused("the database system is shutting down", "57P03")
        if len(self._clients) >= self.options.connections:
            raise Refused("sorry, too many clients already", "53300")

    def open_session(self, user: str, settings: Mapping[str, str]) -> Connection:
        """A connection for a client that has proved to be a user, if it needs to. `settings` are values for the
        session from its start-up message; those that the session refuses are ignored, since drivers send what
        PostgreSQL would accept."""
        connection = as_user(self._connection, user, is_authenticated=self.authenticator.admits_as_user(user))
        connection.autocommit = True
        session = connection.session
        for name, value in settings.items():
            if name.isidentifier():
                try:
                    session.run(f"SET {name} = '" + value.replace("'", "''") + "'")
                except Error as error:
                    _logger.debug("a setting is ignored", extra={"fields": {"name": name, "error": str(error)}})
        return connection

    def register(self, client: PostgresClient, key_bytes: int) -> tuple[int, bytes]:
        """Number and secret key of a client that has entered."""
        self.used = time.monotonic()
        process = next(self._processes)
        with self._lock:
            self._clients[process] = client
        return process, secrets.token_bytes(key_bytes)

    def forget(self, client: PostgresClient) -> None:
        """A client is lost."""
        self.used = time.monotonic()
        with self._lock:
            self._clients.pop(client.process, None)
            self._bytes.pop(client, None)

    def cancel(self, process: int, key: bytes) -> None:
        """Cancels the statement of a client, if the key is right. The request gets no reply in any case."""
        client = self._clients.get(process)
        if client is not None and secrets.compare_digest(client.key, key):
            client.cancel()

    def commit(self, started: StartedRow, done: Done) -> None:
        """Has a row committed; `done` is called with the outcome. Both in the reactor's thread.

        A row that finds no other one under way is passed on at once: it is synced while the others of this round are
        entered. Those follow together, at the end of the round.
        """
        self._committing += 1
        row = Entered(started, lambda outcome: self._outcomes.add(lambda: done(outcome)))
        if self._committing == 1 or not self._entered.add(row):
            self._committers.put_all((row,))

    def _pass_on(self, jobs: Collection[Callable[[], object]]) -> None:
        """Passes on the outcomes of rows that were committed together; in a committer's thread."""

        def run() -> None:
            self._committing -= len(jobs)
            for job in jobs:
                job()

        self._reactor.call_soon(run)

    def _finish_row(self, started: StartedRow) -> WriteResult:
        store = self._connection.session.transactions.store
        assert isinstance(store, Database)
        return store.finish_row(started)

    def submit(self, job: Callable[[], None]) -> None:
        """Runs a job in the pool; at once in the caller's thread if the server has stopped."""
        try:
            self._pool.submit(job)
        except RuntimeError:
            job()

    def call_later(self, seconds: float, job: Callable[[], object]) -> None:
        """Runs a job in the reactor's thread after a time; from any thread."""
        self._reactor.call_soon(lambda: self._reactor.call_later(seconds, job))

    def note_bytes(self, client: PostgresClient, size: int) -> None:
        """Records the bytes that a client's messages take; the largest is disconnected if all take too many."""
        if size <= _SMALL:
            self._bytes.pop(client, None)
            return
        self._bytes[client] = size
        if sum(self._bytes.values()) > self.options.incomplete_bytes:
            largest = max(self._bytes, key=lambda client: self._bytes[client])
            del self._bytes[largest]
            largest.connection.abort("the server has no memory for its messages")
            _logger.error("a client is disconnected: too many bytes of messages")

    def _abandon(self) -> None:
        """In a forked child: nothing to do, the reactor and the listener close their descriptors."""
