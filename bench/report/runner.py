"""Runs each benchmark in a separate process, so that failures, hangs and leaks do not affect the others.

    OUT/
      points.json      the record, written by `records.Record.save` when the benchmark is done
      points.log       the output of the benchmark
    WORK/
      points.json      numbers of the current run
      tmp-points/      its TMPDIR, removed with its content
      tpch-sf1/, tpch-parquet-sf1/    the data, created once when the first benchmark needs it

The process leads a separate session. When it ends, the remaining processes of that session are killed. So are servers
that it started and did not stop, which are identified by their TMPDIR. If this process is interrupted, the benchmark
first receives a signal to end, so that it can stop them.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ...model.lazy_dataclass import dataclass
from ...tpch import manifest
from . import records
from .records import Record, duration
from .suite import Benchmark, Settings, data_command

LOG_LINES: Final = 30
"""Number of log lines that a report shows."""
GRACE_SECONDS: Final = 30.0
"""Seconds for an interrupted benchmark to stop its servers."""
KILL_SECONDS: Final = 5.0
"""Seconds for the system to end killed processes."""
STRAGGLER_SECONDS: Final = 20.0
"""Seconds for servers left by a benchmark to notice its end and to stop."""


@dataclass(slots=True)
class Runner:
    """Runs benchmarks into a directory.

    Parameters
    ----------
    out : Path
        The directory of the results and logs; it exists.
    versions : dict
        The versions of nyala and all peers, for the records.
    limit_seconds : float
        A benchmark that takes longer is ended.
    say : callable
        Called with a line for each event of the current benchmark.
    """

    out: Path
    settings: Settings
    versions: dict[str, str]
    limit_seconds: float
    say: Callable[[str], None]
    _no_data: str | None = None

    def run(self, benchmark: Benchmark, again: bool = False) -> Record:
        """Runs one benchmark; returns the record of an earlier run by the same command if there is one, unless
        `again`."""
        path = self.out / f"{benchmark.name}.json"
        there = records.read(path)
        is_same = there is not None and there.command == self.shown(benchmark.command(self.settings))
        if there is not None and there.status == "done" and is_same and not again:
            self.say(f"there already, of {there.date}")
            return there
        reason = benchmark.missing(self.settings)
        if reason is not None:
            self.say(f"skipped, {reason}")
            record = self._begin(benchmark, "skipped", reason)
        elif benchmark.needs != "nothing" and not self._has_data():
            self.say("FAILED, no data")
            record = self._begin(benchmark, "failed", str(self._no_data))
        else:
            record = self._measure(benchmark)
        record.save(path)
        return record

    def remove_data(self) -> None:
        """Removes the data that were created for the benchmarks."""
        for place in (self.settings.store, self.settings.parquet):
            shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # the user has files there
            self.settings.work.rmdir()

    def shown(self, command: Sequence[str]) -> str:
        """A command line as a user would type it, without this machine's directories."""
        places = {
            str(self.settings.store): "STORE",
            str(self.settings.parquet): "PARQUET",
            str(self.settings.work): "WORK",
            sys.executable: "python",
        }
        return shlex.join(places.get(word, word) for word in command)

    def _begin(self, benchmark: Benchmark, status: records.Status = "done", reason: str = "") -> Record:
        command = self.shown(benchmark.command(self.settings))
        record = records.begin(benchmark.name, command, self.versions, status=status, reason=reason)
        return replace(record, quick=self.settings.quick)

    def _measure(self, benchmark: Benchmark) -> Record:
        record = self._begin(benchmark)
        self.say(record.command)
        result, log = self.settings.work / f"{benchmark.name}.json", self.out / f"{benchmark.name}.log"
        result.unlink(missing_ok=True)
        command = [*_program(benchmark.command(self.settings)), "--json", str(result)]
        began = time.perf_counter()
        trouble = self._process(command, benchmark.name, log)
        record.seconds = round(time.perf_counter() - began, 1)
        record.data = _numbers(result)
        if record.data is None and trouble is None:
            trouble = "it ended well but saved no numbers"
        if trouble is not None:
            record.status, record.reason, record.log = "failed", trouble, self._end_of(log)
        told = f"done in {duration(record.seconds)}" if trouble is None else f"FAILED, {trouble}; see {log}"
        self.say(told)
        return record

    def _has_data(self) -> bool:
        """Creates the data if they are missing; a failure is not retried."""
        settings = self.settings
        if self._no_data is not None:
            return False
        if (settings.store / manifest.NAME).exists():
            return True
        shutil.rmtree(settings.store, ignore_errors=True)  # a load that was interrupted
        command = data_command(settings)
        self.say(f"creating the data: {self.shown(command)}")
        log = self.out / "data.log"
        trouble = self._process(_program(command), "data", log)
        if trouble is not None:
            self._no_data = f"the data could not be created: {trouble}; {' / '.join(self._end_of(log)[-3:])}"
        return trouble is None

    def _process(self, command: Sequence[str], name: str, log: Path) -> str | None:
        """Runs a command to its end; returns the fault, if any."""
        temporary = self.settings.work / f"tmp-{name}"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
        try:
            with log.open("wb") as output, _session(command, environment, output) as process:
                code = process.wait(self.limit_seconds)
        except subprocess.TimeoutExpired:
            return f"not done after {duration(self.limit_seconds)}"
        except OSError as error:
            return str(error)
        finally:
            _end_stragglers(temporary)
            shutil.rmtree(temporary, ignore_errors=True)
        return None if code == 0 else f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"

    def _end_of(self, log: Path) -> list[str]:
        """The last lines of a log, without this machine's directories."""
        places = {str(self.settings.work): "WORK", str(self.out): "OUT", str(Path.home()): "~"}
        text = log.read_text(encoding="utf-8", errors="replace")
        for place, name in places.items():
            text = text.replace(place, name)
        return text.splitlines()[-LOG_LINES:]


@contextmanager
def _session(command: Sequence[str], environment: dict[str, str], output: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a separate session, of which nothing is left afterwards."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        yield process
    except BaseException:
        _signal(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        raise
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + KILL_SECONDS
        while _signal(process, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.01)  # killed processes may still be writing to files that are removed next


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Signals everything in the process's group; returns False if nothing is left of it."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _end_stragglers(temporary: Path) -> None:
    """Waits for the processes with this TMPDIR, and kills those that do not end (if the system allows finding them)."""
    deadline = time.monotonic() + STRAGGLER_SECONDS
    while (left := list(_stragglers(temporary))) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _stragglers(temporary: Path) -> Iterator[int]:
    setting = f"TMPDIR={temporary}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            if setting in file.read_bytes().split(b"\0"):
                yield int(file.parent.name)


def _program(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", *command] if command[0] == "nyala" else list(command)


def _numbers(path: Path) -> Any:
    """The numbers that a benchmark saved, whose file is then removed; None if it is missing or incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    finally:
        path.unlink(missing_ok=True)
