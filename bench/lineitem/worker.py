"""One engine in a separate process, which executes requests.

The memory that an engine needs for loading is released when its process ends. Threads, caches or allocators of
different engines never share a process. The queries are then sent to new processes, one per engine, in turn. A process
ends with its pipe: it never outlives the one that started it.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final, TypeVar

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from .engines import engine_class
from .model import Engine, EngineJob, Query, Row

END_SECONDS: Final = 10.0
"""Seconds after which a process that was requested to end is killed."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Seconds of the load, None if there was nothing to load; bytes on disk afterwards."""

    seconds: float | None
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine that is ready."""

    version: str
    settings: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows in texts, integers, decimals and floats, and the engine's time for them."""

    rows: list[Row]
    seconds: float


class Worker:
    """The requesting side; a context manager. Every call raises `OperationalError` with the engine's message if it
    fails."""

    def __init__(self, engine: str, job: EngineJob) -> None:
        self._engine = engine
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (engine, job, theirs)
        self._process = context.Process(target=_serve, args=arguments, name=f"nyala-bench-{engine}", daemon=True)
        self._process.start()
        theirs.close()

    def open(self) -> Opened:
        return self._ask("open", None, Opened)

    def load(self) -> Loaded:
        return self._ask("load", None, Loaded)

    def run(self, query: Query) -> Answer:
        return self._ask("run", query, Answer)

    def _ask(self, what: str, query: Query | None, expected: type[T]) -> T:
        try:
            self._pipe.send((what, query))
            reply = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(END_SECONDS)
            raise OperationalError(f"the process of {self._engine} ended (exit {self._process.exitcode})") from None
        if isinstance(reply, expected):
            return reply
        raise OperationalError(str(reply))

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._pipe.close()
        if kind is not None:
            self._process.terminate()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


# ---- in the process --------------------------------------------------------------------------------------------------


def _serve(name: str, job: EngineJob, pipe: Connection) -> None:
    """Serves requests until the pipe is closed."""
    # Ctrl-C reaches all processes of a terminal; the requesting process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine: Engine | None = None
    try:
        while True:
            what, query = pipe.recv()
            try:
                if engine is None:
                    engine = engine_class(name)(job)
                pipe.send(_done(engine, what, query))
            # Engines may raise any exception; all of them are reported.
            except Exception as error:
                pipe.send(str(error) or type(error).__name__)
    except (EOFError, OSError):
        pass
    finally:
        if engine is not None:
            engine.close()


def _done(engine: Engine, what: str, query: Query) -> Loaded | Opened | Answer:
    started = time.perf_counter()
    if what == "load":
        is_loaded = engine.load()
        seconds = time.perf_counter() - started
        return Loaded(seconds if is_loaded else None, engine.disk_bytes())
    if what == "open":
        engine.open()
        return Opened(engine.version(), engine.settings)
    rows = engine.run(query)
    seconds = time.perf_counter() - started
    return Answer(engine.converted(query, rows), seconds)
