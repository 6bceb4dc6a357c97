"""YCSB's workloads on one store after the other: the same operations, one measurement for all.

For each binding: an empty directory, `start`, the load by `Setting.threads` threads in batches (which the paper's
clients buffered, too), `settle`, and then the workloads with no pause in between, in YCSB's order: A, B, C, F, D, E.
D and E insert, and find exactly the loaded rows: where a workload before has inserted, the store is deleted and loaded
again, as YCSB recommends before E. So it is, as in the paper, before the second run, with keys asked for uniformly, of
those workloads that do not insert.

What is not done: nothing is warmed up (nor does YCSB), nothing is repeated and no slow run left out. A load is not
limited in time; a workload ends after `Setting.seconds`. Rows are made by the loading threads while the clock runs, as
YCSB makes them; operations are made before it. Python's garbage collector runs as it always does.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...model.version import __version__
from ...tpch import machine
from ..files import disk_bytes
from .bindings import Maker
from .client_process import ClientProcesses, Job
from .client_threads import ClientThreads, loading
from .measured import Taken, described
from .model import Binding, Distribution, Kind, Latencies, Outcome, Setting, Workload
from .operations import load_batches
from .workloads import with_distribution

LOAD: Final = "load"
"""`Outcome.workload` of the load."""
ORDER: Final = "ABCFDE"
_SYNCS: Final = 20

Say: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Found:
    """Everything that a run found, in the order in which it did.

    Attributes
    ----------
    outcomes : list of Outcome
        Of each binding its first load, then its workloads.
    versions : dict of str to str
        Of the bindings that started, by name.
    left_out : dict of str to str
        Why a binding has none or not all of its outcomes.
    sync_milliseconds : float
        The median time in which the disk of this run takes a few bytes for good: what a durable write costs at least.
    """

    setting: Setting
    outcomes: list[Outcome] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    sync_milliseconds: float = 0.0
    began: str = ""
    """Date and time, ISO 8601, UTC."""
    nyala: str = __version__

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Found:
        """What `save_json` wrote of `asdict`, parsed."""
        outcomes = [_outcome(one) for one in data["outcomes"]]
        return cls(**{**data, "setting": Setting(**data["setting"]), "outcomes": outcomes})


def measure(
    bindings: Mapping[str, Maker],
    workloads: Sequence[Workload],
    setting: Setting,
    work: Path | None = None,
    *,
    distributions: Sequence[Distribution] = ("zipfian",),
    say: Say = lambda line: None,
    keep: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Load each binding, and run the workloads on it. A binding that fails is left out from there on, and the next one
    follows.

    Parameters
    ----------
    bindings : mapping of str to Maker
        By name, in the order of the run.
    workloads : sequence of Workload
        They are run in YCSB's order; none is a load alone.
    work : Path, optional
        Where the stores are made (and removed); the system's temporary directory by default.
    distributions : sequence of {"zipfian", "uniform"}
        Of the keys that are asked for, one run for each. Workloads that ask for the latest keys do so always.
    say : callable
        Called with a line of progress now and then.
    keep : callable
        Called after each binding with all that was found so far, so that a long run that is ended is not lost.
    """
    found = Found(setting, machine=machine.describe(), began=_now())
    with tempfile.TemporaryDirectory(dir=work, prefix="nyala-bench-") as directory:
        home = Path(directory)
        # A server may run as a user of its own: PostgreSQL does not run as root.
        home.chmod(0o711)
        found.sync_milliseconds = _sync_milliseconds(home / "sync")
        for name, make in bindings.items():
            try:
                for following in _runs(workloads, distributions):
                    _run(found, make(), following, home / name, say)
            except Exception as error:
                found.left_out[name] = described(error)
                say(f"{name}: left out: {found.left_out[name]}")
            keep(found)
    return found


def _run(found: Found, kind: type[Binding], workloads: Sequence[Workload], home: Path, say: Say) -> None:
    """One load, and workloads on it."""
    name = kind.name
    with _running(kind, home, found.setting) as binding:
        found.versions[name] = binding.version()
        say(f"{name}: load")
        outcome = _load(binding, found.setting, home)
        if not any(one.binding == name and one.workload == LOAD for one in found.outcomes):
            found.outcomes.append(outcome)
        say(f"{name}: load: {outcome.per_second:,.0f} rows/s")
        binding.settle()
        for workload in workloads:
            outcome = _operate(binding, workload, found.setting, home)
            found.outcomes.append(outcome)
            failed = f", {outcome.failed:,} failed: {outcome.error}" if outcome.failed else ""
            say(f"{name}: {workload.name} {workload.distribution}: {outcome.per_second:,.0f} operations/s{failed}")


def _runs(workloads: Sequence[Workload], distributions: Sequence[Distribution]) -> Iterator[list[Workload]]:
    """Workloads that follow each other on the same rows; a load comes before each list."""
    ordered = sorted(workloads, key=lambda workload: ORDER.find(workload.name))
    for number, distribution in enumerate(distributions):
        chosen = [
            with_distribution(workload, distribution) for workload in ordered if number == 0 or not _inserts(workload)
        ]
        following: list[Workload] = []
        for workload in chosen:
            if following and _inserts(following[-1]):
                yield following
                following = []
            following.append(workload)
        if following or number == 0:
            yield following


def _inserts(workload: Workload) -> bool:
    return workload.shares.get(Kind.INSERT, 0) > 0


@contextmanager
def _running(kind: type[Binding], home: Path, setting: Setting) -> Iterator[Binding]:
    """A store in an empty directory, which is removed afterwards."""
    home.mkdir()
    binding = kind(home, setting.durability)
    try:
        binding.start()
        yield binding
    except BaseException:
        # What went wrong first is what is told.
        with suppress(Exception):
            binding.stop()
        raise
    else:
        binding.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _load(binding: Binding, setting: Setting, home: Path) -> Outcome:
    batches = -(-setting.records // setting.batch_rows)
    rows = load_batches(setting)
    works = [loading(rows, batches) for _ in range(setting.threads)]
    with ClientThreads(binding, works, processor=0 if setting.is_bound else None) as clients:
        began = clients.begin(math.inf)
        taken = clients.finish()
    return _told(binding, LOAD, None, taken, began, home)


def _operate(binding: Binding, workload: Workload, setting: Setting, home: Path) -> Outcome:
    with _clients(binding, workload, setting) as clients:
        began = clients.begin(setting.seconds)
        taken = clients.finish()
    return _told(binding, workload.name, workload.distribution, taken, began, home)


def _clients(binding: Binding, workload: Workload, setting: Setting) -> ClientThreads | ClientProcesses:
    processes = min(setting.processes, setting.threads) if binding.spreads else 1
    if processes <= 1:
        return Job(binding, workload, setting, 0, setting.threads).threads()
    bounds = [number * setting.threads // processes for number in range(processes + 1)]
    jobs = [
        Job(binding, workload, setting, first, end - first, process)
        for process, (first, end) in enumerate(itertools.pairwise(bounds))
    ]
    return ClientProcesses(jobs)


def _told(
    binding: Binding, workload: str, distribution: Distribution | None, taken: Taken, began: float, home: Path
) -> Outcome:
    return Outcome(
        binding.name,
        workload,
        distribution,
        taken.rows,
        max(taken.ended - began, 1e-9),
        taken.cpu_seconds,
        disk_bytes(home),
        taken.latencies,
        taken.failed,
        taken.error,
    )


def _sync_milliseconds(path: Path) -> float:
    """The median of appending a few bytes to a file and syncing it."""
    seconds: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(bytes(512))
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - began)
    path.unlink()
    return 1000 * statistics.median(seconds)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _outcome(data: Mapping[str, Any]) -> Outcome:
    latencies = {Kind(kind): Latencies(**some) for kind, some in data["latencies"].items()}
    return Outcome(**{**data, "latencies": latencies})
