"""Copies of stores that change meanwhile: a copy has exactly the commits up to a moment, or does not exist."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import cases
from nyala.errors import CorruptionError, InterfaceError, OperationalError, StoreLocked
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.model.types import BIGINT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.copying.copy_store import copy_store
from nyala.storage.maintenance.tablet_flush import flush_deltas
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, load, read, read_tokens

State = dict[str, dict[int, str]]


def contents(db: Database) -> State:
    return {table.name: dict(read(db, table)) for table in db.tables()}


class Writer:
    """Commits one change after the other to two tables; `states` has what was committed after each."""

    def __init__(self, fs: MemoryFileSystem, rng: random.Random):
        self.rng = rng
        self.db = Database(
            "/db",
            fs=fs,
            background=False,
            durability=rng.choice(["fsync", "os"]),
            segment_bytes=rng.choice([900, 1 << 20]),
        )
        self.db.create_table(definition("one", ONE_TABLET))
        self.db.create_table(definition("three", HASHED))
        self.states: list[State] = [{"one": {}, "three": {}}]
        self.number = 0
        for _ in range(rng.randrange(30)):
            self.act()

    def act(self) -> None:
        names = [name for name in ("one", "three") if name in self.states[-1]]
        weights = {"insert": 6, "update": 3, "delete": 2, "transaction": 5, "load": 2, "flush": 2, "deltas": 1}
        weights |= {"maintain": 1, "compact": 1, "alter": 1, "swap": 1}
        action = self.rng.choices(list(weights), list(weights.values()))[0]
        state = {name: dict(rows) for name, rows in self.states[-1].items()}
        getattr(self, action)(state, self.rng.choice(names))
        self.states.append(state)

    def _new(self) -> list[int]:
        keys = range(self.number, self.number + self.rng.randint(1, 9))
        self.number = keys.stop
        return list(keys)

    def _write(self, state: State, name: str, keys: list[int], text: str, op: Op) -> None:
        insert(self.db, self.db.table(name), keys, text, op)
        state[name].update({k: f"{text}{k}" for k in keys})

    def insert(self, state: State, name: str) -> None:
        self._write(state, name, self._new(), "new", Op.INSERT)

    def update(self, state: State, name: str) -> None:
        keys = sorted(state[name])
        if keys:
            self._write(state, name, self.rng.sample(keys, min(len(keys), 5)), f"up{self.number}-", Op.UPDATE)

    def delete(self, state: State, name: str) -> None:
        keys = self.rng.sample(sorted(state[name]), min(len(state[name]), 2))
        if keys:
            self.db.write(self.db.table(name), WriteBatch(batch(keys), Op.DELETE))
        for key in keys:
            del state[name][key]

    def transaction(self, state: State, name: str) -> None:
        """Moves a row from one table to the other: each copy has it once."""
        other = next(n for n in ("three", "one") if n != name)
        key = next(iter(state[name]), None)
        if key is None or other not in state or key in state[other]:
            return
        transaction = self.db.begin()
        transaction.write(self.db.table(name), WriteBatch(batch([key]), Op.DELETE))
        transaction.write(self.db.table(other), WriteBatch(batch([key], "moved"), Op.INSERT))
        transaction.commit()
        del state[name][key]
        state[other][key] = f"moved{key}"

    def load(self, state: State, name: str) -> None:
        keys = self._new()
        load(self.db, self.db.table(name), keys, text="loaded")
        state[name].update({k: f"loaded{k}" for k in keys})

    def flush(self, state: State, name: str) -> None:
        self.db.flush(self.db.table(name))

    def deltas(self, state: State, name: str) -> None:
        for tablet in self.db._tablets():
            for stored in tablet.state.rowsets:
                flush_deltas(tablet, stored)

    def maintain(self, state: State, name: str) -> None:
        self.db.maintain()

    def compact(self, state: State, name: str) -> None:
        self.db.compact_table(self.db.table(name))

    def alter(self, state: State, name: str) -> None:
        self.db.alter_table(name, [AddColumn(ColumnSchema(f"c{self.number}", BIGINT))])
        self.number += 1

    def swap(self, state: State, name: str) -> None:
        """Drop a table and create it again in one transaction, with one row."""
        transaction = self.db.begin()
        transaction.drop_table(name)
        table = transaction.create_table(definition(name, self.rng.choice([ONE_TABLET, HASHED])))
        transaction.write(table, WriteBatch(batch([self.number], "first"), Op.INSERT))
        transaction.commit()
        state[name] = {self.number: f"first{self.number}"}
        self.number += 1


class Interrupted(FaultyFileSystem):
    """The copier's file system: between two of its operations, the writer acts."""

    def __init__(self, inner: MemoryFileSystem, between: Callable[[], None]):
        super().__init__(inner)
        self.between = between

    def open(self, path: str) -> Any:
        self.between()
        return super().open(path)

    def list(self, path: str) -> list[str]:
        self.between()
        return super().list(path)

    def link(self, old: str, new: str) -> bool:
        self.between()
        return super().link(old, new)


@pytest.mark.parametrize("seed", range(cases(20)))
def test_a_copy_has_exactly_the_commits_up_to_a_moment(seed: int) -> None:
    rng = random.Random(seed)
    fs = MemoryFileSystem()
    writer = Writer(fs, rng)
    first, share = len(writer.states) - 1, rng.choice([0.02, 0.1, 0.3])
    left = 60

    def between() -> None:
        nonlocal left
        if left and rng.random() < share:
            left -= 1
            writer.act()

    links = rng.random() < 0.5
    done = copy_store(Interrupted(fs, between), "/db", "/copy", links=links, pause=lambda seconds: None)
    last = len(writer.states)
    assert check_store(fs, "/copy").errors == []
    for _ in range(10):  # the copy must not depend on the store
        writer.act()
    with Database("/copy", fs=fs, background=False) as db:
        found = contents(db)
        assert found in writer.states[first:last]
        db.check()
        table = db.table("three")
        past = {
            name: dict(read_tokens(db, db.scan_tokens(db.table(name), ScanSpec(("k", "v"), (), db.now()))))
            for name in found
        }
        assert past == found
        insert(db, table, [10_000, 10_001, 10_002])
        db.compact_table(table)
        assert len(dict(read(db, table))) == len(found["three"]) + 3
    assert contents(writer.db) == writer.states[-1]
    writer.db.check()
    writer.db.close()
    assert (done.linked_files == 0) or links


def test_a_closed_store_is_copied_and_places_are_checked(tmp_path: Path) -> None:
    fs = OsFileSystem()
    source = tmp_path / "db"
    with Database(source, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        db.flush(table)
        insert(db, table, range(100, 110))
    done = copy_store(fs, str(source), str(tmp_path / "linked"))
    assert done.rounds == 1 and done.linked_files > 0 and done.copied_files == 0
    done = copy_store(fs, str(source), str(tmp_path / "copied"), links=False)
    assert done.linked_files == 0 and done.copied_files > 0
    for name in ("linked", "copied"):
        assert check_store(fs, str(tmp_path / name)).findings == []
        with Database(tmp_path / name, background=False) as db:
            assert len(read(db, db.table("t"))) == 110
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied", "db", "linked"]
    with pytest.raises(InterfaceError, match="is not empty"):
        copy_store(fs, str(source), str(tmp_path / "linked"))
    with pytest.raises(InterfaceError, match="inside of the store"):
        copy_store(fs, str(source), str(source / "copy"))
    with pytest.raises(OperationalError, match="is no nyala store"):
        copy_store(fs, str(tmp_path), str(tmp_path / "other"))
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "FORMAT").write_text("nyala tablet server, format 1\n")
    with pytest.raises(OperationalError, match="nyala backup"):
        copy_store(fs, str(tmp_path / "server"), str(tmp_path / "other"))


@pytest.mark.parametrize("place", [30, 300, -700], ids=["header", "first entry", "last entries"])
def test_a_damaged_log_is_not_copied(tmp_path: Path, place: int) -> None:
    source = tmp_path / "db"
    with Database(source, background=False) as db:
        table = db.create_table(definition())
        for start in range(0, 100, 10):
            insert(db, table, range(start, start + 10))
    log = next(source.rglob("wal/*.log"))
    data = bytearray(log.read_bytes())
    data[place] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptionError) as raised:
        copy_store(OsFileSystem(), str(source), str(tmp_path / "copy"), pause=lambda seconds: None)
    assert raised.value.path == str(log)
    assert not (tmp_path / "copy").exists()


def test_a_second_copier_is_refused_and_an_incomplete_copy_is_replaced(tmp_path: Path) -> None:
    fs = OsFileSystem()
    with Database(tmp_path / "db", background=False) as db:
        insert(db, db.create_table(definition()), range(100))
    incomplete = tmp_path / "copy.incomplete"
    (incomplete / "tables" / "t000009").mkdir(parents=True)
    (incomplete / "catalog").write_bytes(b"half")
    lock = fs.lock(str(incomplete / "COPYING"))
    with pytest.raises(StoreLocked, match="another process copies"):
        copy_store(fs, str(tmp_path / "db"), str(tmp_path / "copy"))
    lock.release()
    with pytest.raises(OperationalError, match="no nyala store and not empty"):
        Database(incomplete, background=False)
    copy_store(fs, str(tmp_path / "db"), str(tmp_path / "copy"))
    assert not incomplete.exists()
    assert check_store(fs, str(tmp_path / "copy")).findings == []


def test_what_no_copy_has_left_is_not_removed(tmp_path: Path) -> None:
    with Database(tmp_path / "db", background=False) as db:
        insert(db, db.create_table(definition()), range(100))
    with Database(tmp_path / "copy.incomplete", background=False) as db:
        insert(db, db.create_table(definition()), range(7))
    with pytest.raises(InterfaceError, match="which exists and has no file COPYING"):
        copy_store(OsFileSystem(), str(tmp_path / "db"), str(tmp_path / "copy"))
    with Database(tmp_path / "copy.incomplete", background=False) as db:
        assert len(read(db, db.table("t"))) == 7


@pytest.mark.parametrize("seed", range(cases(3)))
def test_a_machine_that_stops_while_a_copy_is_replaced_leaves_no_half_store(seed: int) -> None:
    """The copy that is replaced was whole, but for its name."""
    rng = random.Random(seed)
    found: list[int] = []

    def stop(step: str) -> None:
        for keep in (0.0, 0.5, 1.0):
            after = fs.crash(keep, rng)
            if after.exists("/copy.incomplete/FORMAT"):
                found.append(len(check_store(after, "/copy.incomplete").errors))

    fs = CrashableFileSystem()
    with Database("/db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        db.flush(table)
        insert(db, table, range(100, 110))
    failing = FaultyFileSystem(fs)
    failing.fail("rename", "/copy")
    with pytest.raises(OperationalError, match="cannot rename"):
        copy_store(failing, "/db", "/copy", links=False)
    assert fs.exists("/copy.incomplete/FORMAT")
    fs.on_sync = stop
    stop("before")
    copy_store(fs, "/db", "/copy", links=False)
    assert found and not any(found)


WRITER = """
import os, sys, threading, nyala
connection = nyala.connect(sys.argv[1])
connection.execute("CREATE TABLE a (k BIGINT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
connection.execute("CREATE TABLE b (k BIGINT PRIMARY KEY, v STRING)")
connection.execute("INSERT INTO a SELECT -n, 'x' FROM generate_series(1, 20000) AS s(n)")
connection.execute("COMPACT TABLE a")

def work(worker):
    mine = nyala.connect(sys.argv[1])
    for number in range(1_000_000):
        key = number * 4 + worker
        mine.execute(f"BEGIN; INSERT INTO a VALUES ({key}, 'n'); INSERT INTO b VALUES ({key}, 'n'); COMMIT")
        os.write(1, f"{worker} {number}\\n".encode())

for worker in range(3):
    threading.Thread(target=work, args=(worker,), daemon=True).start()
for number in range(1_000_000):
    connection.execute("COMPACT TABLE b")
    threading.Event().wait(0.05)
"""


@pytest.mark.slow
def test_a_store_that_another_process_writes_is_copied_and_a_killed_copy_is_no_store(tmp_path: Path) -> None:
    """Three threads write, a row into each of two tables per transaction, while compactions replace files."""
    log = tmp_path / "acknowledged"
    with log.open("wb") as out:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "db")], stdout=out)
    try:
        wait_for(lambda: len(acknowledged(log)) == 3)
        rng = random.Random(7)
        for number in range(5):
            target = tmp_path / f"killed{number}"
            copier = copying(tmp_path / "db", target)
            incomplete = Path(f"{target}.incomplete")
            # A copy that is killed before it has its file COPYING has left an empty directory, at most.
            wait_for(lambda: (incomplete / "COPYING").exists() or copier.poll() is not None)  # noqa: B023
            time.sleep(rng.random() * 0.03)  # anywhere in the copy
            with contextlib.suppress(ProcessLookupError):  # it has ended, and `poll` has noticed
                os.kill(copier.pid, signal.SIGKILL)
            _, error = copier.communicate()
            assert copier.returncode in (0, -signal.SIGKILL), error
            whole = [place for place in (target, incomplete) if (place / "FORMAT").exists()]
            if not whole:
                with pytest.raises(OperationalError, match="not empty"):
                    Database(incomplete, background=False)
            for place in whole:  # killed at its very end
                assert check_store(OsFileSystem(), str(place)).errors == []
        for number in range(2):
            before = acknowledged(log)
            copier = copying(tmp_path / "db", tmp_path / f"copy{number}")
            text, error = copier.communicate(timeout=120)
            assert (copier.returncode, error) == (0, "")
            after = acknowledged(log)
            with Database(tmp_path / f"copy{number}", background=False) as db:
                a, b = ({k for k, _ in read(db, db.table(name))} for name in ("a", "b"))
            assert {k for k in a if k >= 0} == b and len(a) - len(b) == 20_000
            for worker in range(3):
                mine = sorted(k // 4 for k in b if k % 4 == worker)
                assert mine == list(range(len(mine)))
                assert before[worker] < len(mine) <= after[worker] + 3
            assert json.loads(text)["tables"] == 2
    finally:
        writer.kill()
        writer.wait()


def copying(source: Path, target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nyala", "fs", "copy", str(source), str(target), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def acknowledged(log: Path) -> dict[int, int]:
    """The last number that each worker has reported."""
    lines = log.read_text().rpartition("\n")[0].splitlines()
    return {int(line.split()[0]): int(line.split()[1]) for line in lines}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
