"""Crashes: at every sync point of a workload, in the middle of recovery, and of a real process by SIGKILL.

What must hold of any crash: every acknowledged row is there, none occurs twice, and nothing is there that was
never written; of a bulk load and of a batch all rows are there or none, however many tablets they go to.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest
from examples import some
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from tablet_support import HASHED, ONE_TABLET, definition, insert, keys_of, load


@dataclass
class History:
    """Writes that a workload had started, and those acknowledged to it, at some moment."""

    started: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    wholes: list[set[int]] = field(default_factory=list)
    """The rows of each load and of each batch."""

    def copy(self) -> History:
        return History(set(self.started), set(self.acknowledged), list(self.wholes))

    def verify(self, found: list[int], where: str) -> None:
        assert len(set(found)) == len(found), f"{where}: a row occurs twice"
        assert self.acknowledged <= set(found), f"{where}: lost {sorted(self.acknowledged - set(found))[:5]}"
        assert set(found) <= self.started, f"{where}: out of nowhere {sorted(set(found) - self.started)[:5]}"
        for rows in self.wholes:
            assert rows <= set(found) or not rows & set(found), f"{where}: half a load or batch is there"


class Recorder:
    """A file system that keeps, at every sync, what a crash would leave and what was acknowledged by then."""

    def __init__(self, seed: int, keep: float):
        self.fs = CrashableFileSystem(self.record)
        self.history = History()
        self.images: list[tuple[str, CrashableFileSystem, History]] = []
        self._rng = random.Random(seed)
        self._keep = keep

    def record(self, what: str) -> None:
        name = f"crash {len(self.images)} after {what}"
        self.images.append((name, self.fs.crash(self._keep, self._rng), self.history.copy()))

    def run(self, keys, action) -> None:
        self.history.started |= set(keys)
        self.history.wholes.append(set(keys))
        action(keys)
        self.history.acknowledged |= set(keys)


def workload(recorder: Recorder, partitions) -> None:
    with Database("db", fs=recorder.fs, segment_bytes=2500) as db:
        table = db.create_table(definition(partitions=partitions))

        def write(keys):
            recorder.run(keys, lambda keys: insert(db, table, keys))

        def bulk(keys):
            recorder.run(keys, lambda keys: load(db, table, keys))

        for start in range(0, 60, 12):
            write(range(start, start + 12))
        db.flush()
        bulk(range(100, 400))
        for start in range(400, 424, 4):
            write(range(start, start + 4))
        db.flush()
        bulk(range(500, 600))
        write(range(60, 70))
        other = db.create_table(definition("other"))
        db.drop_table(other.name)
        write(range(70, 75))


def open_and_verify(fs: CrashableFileSystem, history: History, where: str) -> None:
    with Database("db", fs=fs) as db:
        names = {t.name for t in db.tables()}
        assert names <= {"t", "other"}
        if "t" not in names:
            assert not history.acknowledged, f"{where}: the table is gone"
            return
        table = db.table("t")
        history.verify(keys_of(db, table), where)
        db.check()
        insert(db, table, [10**6])
        assert keys_of(db, table)[-1] == 10**6
        db.flush()


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [ONE_TABLET, HASHED], ids=["one", "three"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_sync_loses_nothing_and_doubles_nothing(partitions, keep):
    recorder = Recorder(seed=int(keep * 10), keep=keep)
    workload(recorder, partitions)
    assert len(recorder.images) > 60
    for where, image, history in some(recorder.images, int(keep * 2)):
        open_and_verify(image, history, where)


@pytest.mark.slow
def test_a_crash_during_recovery_is_like_any_other():
    recorder = Recorder(seed=5, keep=0.5)
    workload(recorder, HASHED)
    rng = random.Random(9)
    for where, image, history in some(recorder.images[rng.randrange(3) :: 3]):
        inner: list[CrashableFileSystem] = []
        image.on_sync = lambda what, image=image, inner=inner: inner.append(image.crash(0.5, rng))
        Database("db", fs=image).close()
        image.on_sync = None
        for number, again in enumerate(inner):
            open_and_verify(again, history, f"{where}, then {number}")


# ---- SIGKILL -----------------------------------------------------------------------------------------------------

SERVER = '''
"""Forks one writer per line of input ("directory journal first seed"): forking is quicker than starting Python."""
import os, random, sys
import pyarrow
from nyala.storage.database import Database
from nyala.model.store import Op
from tablet_support import HASHED, definition, insert, load

def work(directory, journal, first, seed):
    rng = random.Random(seed)
    out = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    db = Database(directory, durability=rng.choice(["fsync", "os"]), memrowset_bytes=60_000, segment_bytes=20_000)
    table = db.table("t") if db.tables() else db.create_table(definition(partitions=HASHED))
    key = first
    while True:
        count = rng.choice([1, 2, 50, 300])
        kind = rng.choice(["write", "write", "write", "load"]) if count > 2 else "write"
        os.write(out, f"start {kind} {key} {key + count}\\n".encode())
        if kind == "load":
            load(db, table, range(key, key + count))
        else:
            assert insert(db, table, range(key, key + count)).applied == count
        os.write(out, f"done {kind} {key} {key + count}\\n".encode())
        key += count
        if rng.random() < 0.1:
            db.flush()

pyarrow.array([0])  # imports pandas, if it is installed: once, not in each writer
for line in sys.stdin:
    directory, journal, first, seed = line.split()
    child = os.fork()
    if child == 0:
        try:
            work(directory, journal, int(first), int(seed))
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(3)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
'''


def read_journal(path) -> History:
    history = History()
    for line in path.read_text().splitlines() if path.exists() else []:
        word, _, first, end = line.split()
        rows = set(range(int(first), int(end)))
        if word == "start":
            history.started |= rows
            history.wholes.append(rows)
        else:
            history.acknowledged |= rows
    return history


@pytest.mark.slow
def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path):
    rng = random.Random(int(os.environ.get("NYALA_SEED", "1")))
    journal = tmp_path / "journal"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        # A busy machine kills writers that have acknowledged little: it needs more of them for as many rows.
        number = 0
        while number < 40 or len(read_journal(journal).acknowledged) <= 1000:
            server.stdin.write(f"{tmp_path / 'db'} {journal} {number * 1_000_000} {rng.randrange(10**6)}\n")
            server.stdin.flush()
            child = int(server.stdout.readline())
            if rng.random() < 0.7:
                wait_until_it_writes(journal)
            time.sleep(rng.uniform(0.02, 0.25))
            os.kill(child, signal.SIGKILL)
            assert int(server.stdout.readline()) == -signal.SIGKILL, "the writer ended by itself"
            if number % 5 == 4:
                verify_killed(tmp_path, journal, number)
            number += 1
        server.stdin.close()
    verify_killed(tmp_path, journal, number)


def wait_until_it_writes(journal) -> None:
    """On a busy machine a writer would otherwise be killed before its first row each time."""
    size = journal.stat().st_size if journal.exists() else 0
    end = time.monotonic() + 60
    while time.monotonic() < end and not (journal.exists() and journal.stat().st_size > size):
        time.sleep(0.005)


def verify_killed(tmp_path, journal, number: int) -> None:
    with Database(tmp_path / "db") as db:
        if db.tables():
            read_journal(journal).verify(keys_of(db, db.table("t")), f"after kill {number}")
            if number % 20 == 19:
                db.check()
