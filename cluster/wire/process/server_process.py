"""The life of a server's process: logs, its address for others to find, signals, a good end.

    make ──► start ──► address file ──► wait ──SIGTERM, SIGINT──► drain ──► stop ──► exit 0
                                                    └── grace over, or a second signal ──► exit at once

The log has one JSON object per line: `time` (UTC), `level`, `server`, `logger`, `event`, `fields` (what the caller gave
as `extra={"fields": {...}}`), and `error` with the traceback where there is one. An uncaught error in one of the
server's threads ends the process at once, with the status `FAILED_STATUS`.
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
from typing import Any, Protocol

from .... import errors
from ....storage.files.os_filesystem import OsFileSystem
from ....storage.malloc import keep_freed_blocks

_logger = logging.getLogger("nyala.cluster.process")

GRACE_SECONDS = 25.0
"""For drain and stop together; then the process ends at once."""
_ENDING = signal.SIGTERM, signal.SIGINT
_THREADS = "nyala-"
"""The names of all threads of a server begin so."""
_COLLECTIONS = 50_000, 20, 20
"""Thresholds of the garbage collector. Messages and rows make no cycles: reference counts free them, and to look for
cycles after each 700 new objects, as Python does, takes every thread's time. What few cycles there are can wait."""
FAILED_STATUS = 4
"""The exit status of a server one of whose threads has died."""
KILLED_STATUS = 3
"""The exit status of a server that did not end by itself in time."""


class Server(Protocol):
    """What a process runs."""

    @property
    def address(self) -> str:
        """Where it listens."""

    def start(self) -> None: ...

    def drain(self) -> Any:
        """Take on nothing new, and let what runs come to its end."""

    def stop(self) -> Any: ...


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

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


def log_as_json(server: str, *, path: str | None = None, level: int = logging.INFO) -> None:
    """Send nyala's log lines to a file (appended to), or to stderr, as JSON; errors of threads too."""
    handler: logging.Handler = logging.StreamHandler() if path is None else logging.FileHandler(path)
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
    grace: float = GRACE_SECONDS,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Run a server until SIGTERM or SIGINT; the process's exit status. To be called by the main thread.

    Parameters
    ----------
    make : callable
        Makes the server. An error of nyala here or at its start ends the process with status 1, and a line in the log.
    name : str
        What the log calls it.
    address_file : str, optional
        Where "host:port" is written, atomically, as soon as the server answers.
    log_file : str, optional
        Where the log goes; None: to stderr.
    grace : float
        Seconds from the signal until the process ends, whatever still runs.
    ready : callable, optional
        Told the address when the server answers.
    """
    log_as_json(name, path=log_file)
    faulthandler.enable()
    keep_freed_blocks()
    ended = _until_signalled(grace)
    try:
        server = make()
        server.start()
    except errors.Error as error:
        _logger.error("the server cannot start: %s", error, extra={"fields": {"class": type(error).__name__}})
        return 1
    # What the modules have made stays: it need not be looked at again.
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
    """An event that is set by the first SIGTERM or SIGINT. From then on the process has `grace` seconds.

    Python runs a signal's handler in the main thread, wherever that stands: in the middle of `Event.wait`, too, where
    it holds the lock that `Event.set` needs. So the handlers do nothing, and a thread of its own is told by the wakeup
    descriptor, which C code writes to as the signal comes.
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
    """Return when a signal has come that is to end the process."""
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


def _log_thread_error(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not issubclass(told.exc_type, SystemExit):
        thread = "" if told.thread is None else told.thread.name
        is_ours = thread.startswith(_THREADS)
        _logger.critical(
            "an error in the thread %s%s",
            thread,
            ": the process ends at once" if is_ours else "",
            exc_info=(told.exc_type, told.exc_value, told.exc_traceback),
        )
        if is_ours:
            # Half of a server is worse than none: others take over only from one that is gone.
            logging.shutdown()
            os._exit(FAILED_STATUS)
