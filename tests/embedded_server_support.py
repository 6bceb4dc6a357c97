"""An embedded server in the test's own process, with clients of it, and processes that serve a directory."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from forked_processes import start_nyala
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import client_options
from nyala.cluster.embedded_server.server import EmbeddedServer
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages.methods import Reply, Request
from nyala.driver.connection import Connection
from nyala.driver.session.session import Session
from nyala.driver.stores.cluster_url import servers
from nyala.driver.stores.open_stores import SharedStore
from nyala.executor.fragments.evaluate import table_evaluator
from nyala.model.clock import HybridClock
from nyala.storage.database import Database
from nyala.storage.files.filesystem import FileSystem


class ServedStore:
    """A store, its server, and whatever uses them; a context manager that closes all."""

    def __init__(
        self, directory: Path | None = None, bind: str = "127.0.0.1:0", fs: FileSystem | None = None, **options: Any
    ) -> None:
        path = (":memory:" if fs is None else "db") if directory is None else str(directory)
        if fs is not None:
            options["fs"] = fs
        self._stack = ExitStack()
        self.database = Database(path, **options)
        self._stack.callback(self.database.close)
        named = None if directory is None else path
        self.server = EmbeddedServer(self.database, directory=named, fragments=table_evaluator, bind=bind)
        self._stack.callback(self.server.close, 0.0)
        self.server.start()

    def client(self, **options: Any) -> Client:
        """A new client."""
        client = Client(servers(self.server.url), client_options(**{"deadline": 10.0, **options}))
        self._stack.callback(client.close)
        return client

    def connection(self, **options: Any) -> Connection:
        """SQL over a new client."""
        client = self.client(**options)
        connection = Connection(SharedStore(client, None, {}), Session(client, threads=2))
        self._stack.callback(connection.close)
        return connection

    def embedded(self) -> Connection:
        """SQL as the server's own process runs it."""
        shared = SharedStore(self.database, None, {}, holders=2)
        connection = Connection(shared, Session(self.database, threads=2))
        self._stack.callback(connection.close)
        return connection

    def call(self, request: Request) -> Reply:
        """One request without a client."""
        channel = Channel(self.server.address, HybridClock())
        try:
            return channel.call(request)  # type: ignore[no-any-return]
        finally:
            channel.close()

    def __enter__(self) -> ServedStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class ServeProcess:
    """`nyala serve`, from its URL on; a context manager that kills it."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        read, write = os.pipe()
        self._printed = os.fdopen(read, encoding="utf-8")
        with Path(os.devnull).open("r+b") as nothing:
            self.process = start_nyala(["serve", directory, *arguments], [nothing.fileno(), write, nothing.fileno()])
        os.close(write)
        self.url = self._printed.readline().strip()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._printed.close()
