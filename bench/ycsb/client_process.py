"""Client threads in a separate process: `python -m nyala.bench.ycsb.client_process`.

Both ends exchange pickles over the child's standard input and output:

    parent                              child
    ClientJob or LoadJob                  ->
                                    <-  None: the operations are generated, every thread has its client
    seconds: begin, and stop then   ->
                                    <-  Taken

Instead of a result, the child may send an error. It ends when its input ends, so it never outlives its parent. Output
of libraries goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final, Self

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from .client_threads import ClientThreads, loading, operating
from .measured import Taken, described
from .model import Binding, Setting, Workload
from .operations import load_batches, plan

COMMAND: Final = (sys.executable, "-m", "nyala.bench.ycsb.client_process")


@dataclass(frozen=True, slots=True)
class ClientJob:
    """Threads `first_client` to `first_client + clients` (exclusive) of `workload`."""

    binding: Binding
    workload: Workload
    setting: Setting
    first_client: int
    clients: int
    process: int = 0
    """The number of the process, for its processor."""

    def threads(self) -> ClientThreads:
        """The threads, not yet started; generates their operations."""
        operations = plan(self.workload, self.setting, first_client=self.first_client, clients=self.clients)
        works = [operating(each) for each in operations]
        return ClientThreads(self.binding, works, self.first_client, self.process if self.setting.is_bound else None)


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Part `part` of `parts` of a load, by `clients` threads."""

    binding: Binding
    setting: Setting
    clients: int
    part: int
    parts: int

    def threads(self) -> ClientThreads:
        """The threads, not yet started."""
        batches = load_batches(self.setting, self.part, self.parts)
        works = [loading(batches, self.setting.records) for _ in range(self.clients)]
        return ClientThreads(self.binding, works, self.part * self.clients)


class ClientProcesses:
    """One process per job, with the interface of `ClientThreads`. Leaving the context always ends them."""

    def __init__(self, jobs: Sequence[ClientJob | LoadJob]) -> None:
        self._jobs = jobs
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Starts them, and returns when every thread of each has its client."""
        try:
            for job in self._jobs:
                self._processes.append(_start())
                _send(self._processes[-1], job)
            for process in self._processes:
                _receive(process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def begin(self, seconds: float) -> float:
        """Starts all threads, which stop after `seconds`; returns the start time."""
        began = time.perf_counter()
        for process in self._processes:
            _send(process, seconds)
        return began

    def finish(self) -> Taken:
        """The results, when all have ended."""
        return Taken.together([_receive(process) for process in self._processes])

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # The module of a binding must be importable as in the parent.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
        # The parent handles Ctrl-C: it ends its children.
        start_new_session=True,
    )


def _send(process: subprocess.Popen[bytes], message: object) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # `_receive` reports how it ended
        pickle.dump(message, process.stdin)
        process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> Any:
    """The child's message; its error is raised here."""
    assert process.stdout is not None
    try:
        message = pickle.load(process.stdout)
    except EOFError:
        raise OperationalError(f"a client process ended with exit code {process.wait()}") from None
    if isinstance(message, _Trouble):
        raise OperationalError(f"a client process failed: {message.text}")
    return message


@dataclass(frozen=True, slots=True)
class _Trouble:
    text: str


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Serves one job of the parent. Returns early if the parent ends first."""
    try:
        with pickle.load(source).threads() as threads:
            _say(sink, None)
            threads.begin(pickle.load(source))
            # From here on the parent sends nothing more; the end of the input is its end.
            threading.Thread(target=_end_with, args=(source,), name="nyala-ycsb-parent", daemon=True).start()
            taken = threads.finish()
        _say(sink, taken)
    except EOFError:
        return
    except Exception as error:
        _say(sink, _Trouble(described(error)))


def _end_with(source: BinaryIO) -> None:
    # Reads below Python's buffer, whose lock could block this process's own end.
    os.read(source.fileno(), 1)
    os._exit(1)


def _say(sink: BinaryIO, message: object) -> None:
    with suppress(BrokenPipeError):
        pickle.dump(message, sink)
        sink.flush()


def main() -> None:
    """Serves the parent at the other end of standard input and output."""
    with os.fdopen(os.dup(1), "wb") as sink:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    # Pickled classes have this module's name, not __main__'s.
    from .client_process import main as run

    run()
