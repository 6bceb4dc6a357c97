"""A server's process: its log, the file with its address, signals, an orderly end.

    make ──► start ──► address file ──► wait ──SIGTERM, SIGINT──► drain ──► stop ──► exit 0
                                                    └── grace over, or a second signal ──► exit at once

The log has one JSON object per line: `time` (UTC), `level`, `server`, `logger`, `event`, `fields` (from the caller's
`extra={"fields": {...}}`), and `error` with a traceback, if any. An uncaught error in one of the server's threads ends
the process at once, with the status `FAILED_STATUS`. SIGUSR1 writes the stacks of all threads to stderr.
"""

from __future__ import annotations

import datetime
import faulthandler
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from .... import errors
from ....storage.files.os_filesystem import OsFileSystem
from ....storage.malloc import configure_heap
from .log_files import Retention, RotatingLogHandler
from .pandas_import import keep_pandas_out

_logger = logging.getLogger("nyala.cluster.process")

GRACE_SECONDS = 25.0
"""Seconds for drain and stop together; then the process ends at once."""
_ENDING = signal.SIGTERM, signal.SIGINT
_THREADS = "nyala-"
"""Prefix of the names of all threads of a server."""
_COLLECTIONS = 50_000, 20, 20
"""Thresholds of the garbage collector. Messages and rows make no cycles: reference counts free them. Searching for
cycles after each 700 new objects, as Python does by default, takes every thread's time. The few cycles can wait."""
FAILED_STATUS = 4
"""The exit status of a server one of whose threads has died."""
KILLED_STATUS = 3
"""The exit status of a server that did not end in time."""


class Server(Protocol):
    """The server of a process."""

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""

    def start(self) -> None: ...

    def drain(self) -> Any:
        """Accepts no new calls, and lets running ones end."""

    def stop(self) -> Any: ...


Around: TypeAlias = Callable[[Callable[[], Server]], Callable[[], Server]]
"""From a function that makes a server to one that makes it with something beside it, such as pages."""


def itself(make: Callable[[], Server]) -> Callable[[], Server]:
    """Nothing beside the server."""
    return make


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object."""

    def __init__(self, server: str):
        super().__init__()
        self.server = server

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="microseconds"),
            "level": record.levelname,
            "server": self.server,
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_json(
    server: str, *, path: str | None = None, retention: Retention | None = None, level: int = logging.INFO
) -> None:
    """Sends nyala's log lines to a file (appended to, rotated by `retention`), or to stderr, as JSON; errors of threads
    too. Raises `InterfaceError` if the file cannot be opened."""
    handler: logging.Handler = logging.StreamHandler()
    if path is not None:
        try:
            handler = RotatingLogHandler(path, retention or Retention())
        except OSError as error:
            raise errors.InterfaceError(f"{path}: the log cannot be opened: {error.strerror}") from None
    handler.setFormatter(JsonFormatter(server))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_thread_error
    logging.captureWarnings(True)


def run_server(
    make: Callable[[], Server],
    *,
    name: str = "server",
    address_file: str | None = None,
    log_file: str | None = None,
    retention: Retention | None = None,
    grace: float = GRACE_SECONDS,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Runs a server until SIGTERM or SIGINT; returns the process's exit status. Must be called by the main thread.

    Parameters
    ----------
    make : callable
        Makes the server. An error of nyala here or at its start ends the process with status 1, and a line in the log.
    name : str
        Name of the server in the log.
    address_file : str, optional
        File to which "host:port" is written, atomically, as soon as the server serves calls.
    log_file : str, optional
        File of the log; None: stderr.
    retention : Retention, optional
        When this file is rotated, and what is kept.
    grace : float
        Seconds from the signal until the process ends, even with running calls.
    ready : callable, optional
        Called with the address when the server serves calls.
    """
    log_as_json(name, path=log_file, retention=retention)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    configure_heap()
    keep_pandas_out()
    ended = _until_signalled(grace)
    try:
        server = make()
        server.start()
    except errors.Error as error:
        _logger.error("the server cannot start: %s", error, extra={"fields": {"class": type(error).__name__}})
        return 1
    # Objects of modules stay: the collector need not examine them again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    if address_file is not None:
        _announce(address_file, server.address)
    if ready is not None:
        ready(server.address)
    _logger.info("ready", extra={"fields": {"address": server.address, "pid": os.getpid()}})
    ended.wait()
    began = time.monotonic()
    _logger.info("draining")
    try:
        server.drain()
    finally:
        server.stop()
    _logger.info("stopped", extra={"fields": {"seconds": round(time.monotonic() - began, 3)}})
    return 0


def _until_signalled(grace: float) -> threading.Event:
    """Returns an event that is set by the first SIGTERM or SIGINT. From then on the process has `grace` seconds.

    Python runs a signal's handler in the main thread at any point, even inside `Event.wait`, where it holds the lock
    that `Event.set` needs. So the handlers do nothing, and a dedicated thread reads the wakeup descriptor, which C code
    writes to when the signal arrives.
    """
    ended = threading.Event()
    signals, wakeup = socket.socketpair()
    wakeup.setblocking(False)

    def watch() -> None:
        _next_of(signals)
        ended.set()
        signals.settimeout(grace)
        try:
            _next_of(signals)
            _logger.warning("a second signal: the process ends at once")
        except TimeoutError:
            _logger.error("the server has not ended after %g s: the process ends at once", grace)
        os._exit(KILLED_STATUS)

    for number in _ENDING:
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(wakeup.detach(), warn_on_full_buffer=False)
    threading.Thread(target=watch, name="nyala-process-watch", daemon=True).start()
    return ended


def _next_of(signals: socket.socket) -> None:
    """Returns when a signal that ends the process has arrived."""
    while signals.recv(1)[0] not in _ENDING:
        pass


def _announce(path: str, address: str) -> None:
    fs = OsFileSystem()
    temporary = f"{path}.tmp"
    file = fs.create(temporary)
    try:
        file.write(f"{address}\n".encode())
    finally:
        file.close()
    fs.rename(temporary, path)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _logger.critical("an error ends the process", exc_info=(kind, error, trace))


def _log_thread_error(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None and not issubclass(failure.exc_type, SystemExit):
        thread = "" if failure.thread is None else failure.thread.name
        is_ours = thread.startswith(_THREADS)
        _logger.critical(
            "an error in the thread %s%s",
            thread,
            ": the process ends at once" if is_ours else "",
            exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback),
        )
        if is_ours:
            # Half of a server is worse than none: others take over only from a dead one.
            logging.shutdown()
            os._exit(FAILED_STATUS)
