"""YCSB's runner does all operations, counts what it did and what failed, and ends what it starts."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from nyala.bench.ycsb import client_threads
from nyala.bench.ycsb.client_process import COMMAND, ClientJob, ClientProcesses, LoadJob
from nyala.bench.ycsb.measured import Samples, Taken
from nyala.bench.ycsb.model import FIELD_NAMES, Kind, Setting, Workload
from nyala.bench.ycsb.runner import YcsbResult, measure
from nyala.bench.ycsb.workloads import WORKLOADS
from nyala.errors import OperationalError

ALL = list(WORKLOADS.values())
SETTING = Setting(records=230, operations=301, threads=3, batch_rows=50)


class DictBinding:
    """Rows in a dict. It notes what happened to it, for all its instances."""

    name = "dict"
    spreads = False
    homes: list[Path] = []
    events: list[str] = []
    open_clients = 0

    def __init__(self, home, durability):
        assert list(home.iterdir()) == []
        type(self).homes = [*self.homes, home]
        self.home = home

    def start(self):
        self.rows = {}
        self.note("start")
        (self.home / "file").write_bytes(bytes(1000))

    def note(self, event):
        type(self).events = [*self.events, event]

    def client(self):
        type(self).open_clients += 1
        return DictClient(self)

    def settle(self):
        self.note(f"settle {len(self.rows)}")

    def stop(self):
        self.note("stop")

    def version(self):
        return "dict 1"


class DictClient:
    def __init__(self, binding):
        self.binding = binding
        self.rows = binding.rows
        self.thread = threading.get_ident()

    def load(self, keys, rows):
        for key, row in zip(keys, rows, strict=True):
            self.insert(key, row)

    def read(self, key):
        assert self.thread == threading.get_ident()
        return self.rows[key]

    def update(self, key, field, value):
        row = list(self.rows[key])
        row[field] = value
        self.rows[key] = tuple(row)

    def insert(self, key, fields):
        assert key not in self.rows
        assert len(fields) == len(FIELD_NAMES)
        self.rows[key] = fields

    def scan(self, first, count):
        return [self.rows[key] for key in sorted(key for key in list(self.rows) if key >= first)[:count]]

    def close(self):
        assert self.thread == threading.get_ident()
        type(self.binding).open_clients -= 1


def fresh(**attributes) -> type[DictBinding]:
    return type("FreshDictBinding", (DictBinding,), {"homes": [], "events": [], "open_clients": 0} | attributes)


def run(binding, workloads=ALL, setting=SETTING, **options) -> YcsbResult:
    return measure({binding.name: lambda: binding}, workloads, setting, **options)


def test_all_operations_are_done_and_counted(tmp_path):
    binding = fresh()
    found = run(binding, work=tmp_path)
    assert found.left_out == {}
    assert [one.workload for one in found.outcomes] == ["load", *"ABCFDE"]
    assert [one.operations for one in found.outcomes] == [230] + [301] * 6
    for one in found.outcomes:
        assert (one.failed, one.error, one.binding) == (0, None, "dict")
        assert one.seconds > 0 and one.disk_bytes == 1000
        done = 5 if one.workload == "load" else 301
        assert sum(some.operations for some in one.latencies.values()) == done
        assert all(0 < some.p50 <= some.p95 <= some.p99 <= some.p999 <= some.slowest for some in one.latencies.values())
    asked = {one.workload: set(one.latencies) for one in found.outcomes}
    assert asked == {"load": {Kind.INSERT}} | {one.name: set(one.shares) for one in ALL}
    assert found.versions == {"dict": "dict 1"}
    assert list(tmp_path.iterdir()) == [] and binding.open_clients == 0


def test_a_store_is_loaded_anew_after_inserts_and_for_another_distribution():
    binding = fresh()
    found = run(binding, distributions=("zipfian", "uniform"))
    # A, B, C, F, D; E; and uniformly A, B, C, F.
    assert binding.events == ["start", "settle 230", "stop"] * 3
    assert [(one.workload, one.distribution) for one in found.outcomes] == [
        ("load", None),
        *((name, "latest" if name == "D" else "zipfian") for name in "ABCFDE"),
        *((name, "uniform") for name in "ABCF"),
    ]


def test_without_workloads_a_store_is_loaded_alone():
    assert [one.workload for one in run(fresh(), []).outcomes] == ["load"]


def test_a_workload_ends_when_its_time_is_over():
    class Slow(fresh()):
        def client(self):
            client = super().client()
            client.read = lambda key: time.sleep(0.005)
            return client

    setting = Setting(records=100, operations=10_000, threads=2, seconds=0.1)
    found = run(Slow, [WORKLOADS["C"]], setting)
    outcome = found.outcomes[-1]
    assert 2 <= outcome.operations < 100
    assert outcome.seconds >= 0.1
    assert outcome.per_second == outcome.operations / outcome.seconds
    assert outcome.latencies[Kind.READ].p50 >= 5


def test_errors_are_counted_and_the_others_go_on():
    class Failing(fresh()):
        def client(self):
            client = super().client()

            def update(key, field, value):
                raise OperationalError("the disk\nis full")

            client.update = update
            return client

    outcome = run(Failing, [WORKLOADS["A"]]).outcomes[-1]
    assert outcome.failed > 0 and outcome.operations + outcome.failed == 301
    assert outcome.error == "OperationalError: the disk"
    assert list(outcome.latencies) == [Kind.READ]
    assert outcome.latencies[Kind.READ].operations == outcome.operations


class Broken(Exception):
    pass


def _broken(*arguments):
    raise Broken("not today")


@pytest.mark.parametrize("step", ["__init__", "start", "client", "settle", "version", "stop"])
def test_a_binding_that_fails_is_left_out_and_the_others_go_on(tmp_path, step):
    failing = fresh(**{step: _broken})
    whole = fresh(name="whole")
    makers = {"failing": lambda: failing, "whole": lambda: whole}
    found = measure(makers, [WORKLOADS["C"]], SETTING, tmp_path)
    assert found.left_out == {"failing": "Broken: not today"}
    assert [one.workload for one in found.outcomes if one.binding == "whole"] == ["load", "C"]
    assert failing.open_clients == 0 and list(tmp_path.iterdir()) == []
    assert ("stop" in failing.events) == (step not in ("__init__", "stop"))


def test_a_binding_whose_package_is_missing_is_left_out():
    found = measure({"gone": _broken, "whole": lambda: fresh()}, [], SETTING)
    assert found.left_out == {"gone": "Broken: not today"}
    assert [one.workload for one in found.outcomes] == ["load"]


def test_what_was_found_is_kept_after_each_binding():
    kept = []
    makers = {"one": lambda: fresh(name="one"), "gone": _broken, "two": lambda: fresh(name="two")}
    measure(makers, [], SETTING, keep=lambda found: kept.append([one.binding for one in found.outcomes]))
    assert kept == [["one"], ["one"], ["one", "two"]]


def test_the_first_error_of_a_load_ends_it():
    class Full(fresh()):
        def client(self):
            client = super().client()
            client.load = _broken
            return client

    found = run(Full)
    assert found.left_out == {"dict": "Broken: not today"} and found.outcomes == []
    assert Full.events == ["start", "stop"] and Full.open_clients == 0


def test_an_interrupt_stops_the_store_and_its_clients(tmp_path):
    binding = fresh(settle=lambda self: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(binding, work=tmp_path)
    assert binding.events == ["start", "stop"] and list(tmp_path.iterdir()) == []


def test_a_store_that_never_answers_is_an_error(monkeypatch):
    monkeypatch.setattr(client_threads, "GRACE", 0.1)
    release = threading.Event()

    class Silent(fresh()):
        def client(self):
            client = super().client()
            client.read = lambda key: release.wait()
            return client

    try:
        found = run(Silent, [WORKLOADS["C"]], Setting(records=10, operations=4, threads=2, seconds=0.1))
    finally:
        release.set()
    assert found.left_out == {"dict": "OperationalError: dict has not replied to a client for 0.1 seconds"}


def test_percentiles_are_those_of_numpy():
    rng = np.random.default_rng(1)
    parts, all_seconds = [], []
    for number in range(3):
        seconds = rng.lognormal(-7, 1, 1_000 + number)
        samples = Samples(len(seconds) + 5)
        for index, one in enumerate(seconds.tolist()):
            samples.kinds[index] = Kind.SCAN
            samples.durations[index] = one
        samples.ended = 10.0 + number
        parts.append(Taken.of([samples], cpu_seconds=2.0))
        all_seconds.append(seconds)
    taken = Taken.together(parts)
    assert (taken.ended, taken.cpu_seconds, set(taken.latencies)) == (12.0, 6.0, {Kind.SCAN})
    found, milliseconds = taken.latencies[Kind.SCAN], 1000 * np.concatenate(all_seconds)
    assert found.operations == len(milliseconds)
    expected = [np.percentile(milliseconds, p) for p in (50, 95, 99, 99.9)]
    assert [found.p50, found.p95, found.p99, found.p999] == pytest.approx(expected)
    assert [found.mean, found.slowest] == pytest.approx([milliseconds.mean(), milliseconds.max()])


# ---- processes -------------------------------------------------------------------------------------------------------


class FileBinding(DictBinding):
    """Rows in a file of SQLite, for several processes."""

    name = "file"
    spreads = True

    def start(self):
        with FileClient(self.home).connection as connection:
            connection.execute(f"CREATE TABLE t (k TEXT PRIMARY KEY, pid INT, {', '.join(FIELD_NAMES)})")

    def settle(self):
        pass

    def client(self):
        return FileClient(self.home)


class FileClient:
    def __init__(self, home):
        self.connection = sqlite3.connect(home / "rows.db", timeout=30, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = OFF")

    def load(self, keys, rows):
        marks = ", ".join("?" * (2 + len(FIELD_NAMES)))
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            values = [(key, os.getpid(), *row) for key, row in zip(keys, rows, strict=True)]
            self.connection.executemany(f"INSERT INTO t VALUES ({marks})", values)

    def insert(self, key, fields):
        self.load([key], [fields])

    def read(self, key):
        return self.connection.execute("SELECT * FROM t WHERE k = ?", (key,)).fetchone()[2:]

    def close(self):
        self.connection.close()


def test_clients_in_processes_do_their_shares():
    setting = Setting(records=230, operations=300, threads=3, processes=2)
    found = run(FileBinding, [WORKLOADS["D"]], setting)
    assert found.left_out == {}
    outcome = found.outcomes[-1]
    assert (outcome.operations, outcome.failed, outcome.workload) == (300, 0, "D")
    assert sum(some.operations for some in outcome.latencies.values()) == 300
    assert outcome.cpu_seconds > 0


def test_each_client_inserts_from_a_process_of_its_own(tmp_path):
    binding = FileBinding(tmp_path, "os")
    binding.start()
    setting = Setting(records=100, operations=40, threads=3, processes=2)
    inserting = Workload("inserting", "", {Kind.INSERT: 1.0})
    with ClientProcesses(
        [ClientJob(binding, inserting, setting, 0, 1), ClientJob(binding, inserting, setting, 1, 2)]
    ) as clients:
        began = clients.begin(60)
        taken = clients.finish()
    assert taken.rows == 40 and taken.failed == 0 and taken.ended > began
    with FileClient(tmp_path).connection as connection:
        inserted = dict(connection.execute("SELECT pid, count(*) FROM t GROUP BY pid"))
    assert sorted(inserted.values()) == [14, 26]
    assert os.getpid() not in inserted


def test_the_parts_of_a_load_are_together_all_rows(tmp_path):
    binding = fresh()(tmp_path, "os")
    binding.start()
    written = 0
    for part in range(2):
        with LoadJob(binding, SETTING, 2, part, 2).threads() as threads:
            threads.begin(60)
            written += threads.finish().rows
    assert (written, len(binding.rows)) == (SETTING.records, SETTING.records)


def test_processes_are_ended_where_the_harness_fails(tmp_path):
    binding = FileBinding(tmp_path, "os")
    binding.start()
    with (
        pytest.raises(KeyboardInterrupt),
        ClientProcesses([ClientJob(binding, WORKLOADS["A"], SETTING, 0, 3)]) as clients,
    ):
        raise KeyboardInterrupt
    assert [process.returncode for process in clients._processes] == [-signal.SIGKILL]


def test_an_error_in_a_process_is_told(tmp_path):
    class Local(FileBinding):
        """Cannot be pickled: a local class has no importable name."""

    setting = Setting(records=10, operations=10, threads=2, processes=2)
    found = run(Local, [WORKLOADS["C"]], setting)
    assert "Local" in found.left_out["file"]

    binding = FileBinding(tmp_path, "os")
    binding.home = tmp_path / "nowhere"
    told = pytest.raises(OperationalError, match="a client process failed: OperationalError: unable to open")
    with told, ClientProcesses([ClientJob(binding, WORKLOADS["C"], setting, 0, 2)]):
        pass


def test_a_process_ends_with_its_parent():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.close()
        assert process.wait(timeout=60) == 0
