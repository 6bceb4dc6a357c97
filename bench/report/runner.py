"""Runs benchmarks, each in a process of its own, so that one that fails, hangs or leaks costs the others nothing.

    OUT/
      points.json      what `records.Record.save` wrote: it is there once the benchmark is done
      points.log       what the benchmark printed
    WORK/
      points.json      numbers of the run under way
      tmp-points/      its TMPDIR, removed with whatever it left there
      tpch-sf1/, tpch-parquet-sf1/    the data, made once when the first benchmark needs it

The process leads a session of its own. When it ends, whatever of that session is left is killed, and so are servers
that it started and did not stop, which are known by their TMPDIR; when we are interrupted, it is asked to end first, so
that it can stop them.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...tpch import manifest
from . import records
from .records import Record, duration
from .suite import Benchmark, Settings, data_command

LOG_LINES: Final = 30
"""The end of a log that a report shows."""
GRACE_SECONDS: Final = 30.0
"""For a benchmark that is interrupted to stop its servers."""
KILL_SECONDS: Final = 5.0
"""For the system to end what was killed."""
STRAGGLER_SECONDS: Final = 20.0
"""For servers that a benchmark has left behind to notice it and to end by themselves."""


@dataclass(slots=True)
class Runner:
    """Runs benchmarks into a directory.

    Parameters
    ----------
    out : Path
        Of the results and logs; it exists.
    versions : dict
        Of nyala and all peers, for the records.
    limit_seconds : float
        A benchmark that takes longer is ended.
    say : callable
        Gets a line for everything that happens to the benchmark under way.
    """

    out: Path
    settings: Settings
    versions: dict[str, str]
    limit_seconds: float
    say: Callable[[str], None]
    _no_data: str | None = None

    def run(self, benchmark: Benchmark, again: bool = False) -> Record:
        """One benchmark: what is kept of an earlier run where that was done by the same command, unless `again`."""
        path = self.out / f"{benchmark.name}.json"
        there = records.read(path)
        is_same = there is not None and there.command == self.shown(benchmark.command(self.settings))
        if there is not None and there.status == "done" and is_same and not again:
            self.say(f"there already, of {there.date}")
            return there
        reason = benchmark.missing()
        if reason is not None:
            self.say(f"skipped, {reason}")
            record = self._begin(benchmark, "skipped", reason)
        elif benchmark.needs != "nothing" and not self._has_data():
            self.say("FAILED, for want of data")
            record = self._begin(benchmark, "failed", str(self._no_data))
        else:
            record = self._measure(benchmark)
        record.save(path)
        return record

    def remove_data(self) -> None:
        """Remove what was made for the benchmarks."""
        for place in (self.settings.store, self.settings.parquet):
            shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # the user has files there
            self.settings.work.rmdir()

    def shown(self, command: Sequence[str]) -> str:
        """A command line as one would type it, without this machine's directories."""
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
        """Makes the data where they are not there; once that has failed, it is not tried again."""
        settings = self.settings
        if self._no_data is not None:
            return False
        if (settings.store / manifest.NAME).exists():
            return True
        shutil.rmtree(settings.store, ignore_errors=True)  # a load that was interrupted
        command = data_command(settings)
        self.say(f"makes the data: {self.shown(command)}")
        log = self.out / "data.log"
        trouble = self._process(_program(command), "data", log)
        if trouble is not None:
            self._no_data = f"the data could not be made: {trouble}; {' / '.join(self._end_of(log)[-3:])}"
        return trouble is None

    def _process(self, command: Sequence[str], name: str, log: Path) -> str | None:
        """Run a command to its end; what went wrong."""
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
    """A process that leads a session of its own, of which nothing is left afterwards."""
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
            time.sleep(0.01)  # what was killed may still be writing to files that are removed next


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """To everything in the process's group; False where nothing is left of it."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _end_stragglers(temporary: Path) -> None:
    """Wait for the processes with this TMPDIR, and kill those that do not end (where the system lets us find them)."""
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
    """What a benchmark saved, which is then taken away; None of nothing, or of half a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    finally:
        path.unlink(missing_ok=True)
