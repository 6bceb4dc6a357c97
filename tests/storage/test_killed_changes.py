"""Updates and deletes under SIGKILL: what was acknowledged is there, what was not is there whole or not at all, and the
past reads as it was. Also where the rows of a write go to several tablets.

`NYALA_KILLS=1000` makes a long run of it, `NYALA_SEED` another one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nyala.model.store import Timestamp
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from tablet_support import read

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("NYALA_KILLS", "30"))
KEYS = 300

SERVER = '''
"""Forks one writer per line of input ("directory journal seed tablets")."""
import os, random, sys
import pyarrow
import numpy as np
import pyarrow as pa
from nyala.storage.database import Database
from nyala.model.store import Op, WriteBatch
from nyala.storage.writing import op_resolution
from tablet_support import HASHED, ONE_TABLET, definition, keys_of

resolve, short = op_resolution._changed_rows, 0

def counted(batch, present):
    global short
    found = resolve(batch, present)
    short += found is not None
    return found

op_resolution._changed_rows = counted

def work(directory, journal, seed, partitions):
    rng = random.Random(seed)
    out = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    db = Database(
        directory, durability=rng.choice(["fsync", "os"]), memrowset_bytes=rng.choice([20_000, 1_000_000]),
        segment_bytes=20_000,
    )
    table = db.table("t") if db.tables() else db.create_table(definition(partitions=partitions))
    number = seed * 1_000_000
    while True:
        number += 1
        op = rng.choice([Op.UPSERT, Op.UPSERT, Op.UPDATE_IGNORE, Op.INSERT_IGNORE, Op.DELETE_IGNORE])
        keys = rng.sample(range(300), rng.choice([1, 1, 5, 100]))
        if rng.random() < 0.15:  # as an UPDATE or DELETE statement: rows that are there, in their order
            present = sorted(keys_of(db, table))
            keys = present[:: rng.choice([1, 1, 2, 7])] or keys
            op = rng.choice([Op.UPDATE_IGNORE, Op.UPDATE_IGNORE, Op.DELETE_IGNORE])
        os.write(out, f"start {op.name} {number} {' '.join(map(str, keys))}\\n".encode())
        if len(keys) == 1:
            result = db.write_row(table, op, {"k": keys[0], "v": str(number)})
        else:
            rows = pa.record_batch({"k": pa.array(keys, pa.int64()), "v": [str(number)] * len(keys)})
            result = db.write(table, WriteBatch(rows, op))
        os.write(out, f"done {result.timestamp} {short}\\n".encode())
        chance = rng.random()
        if chance < 0.05:
            db.flush()
        elif chance < 0.08:
            db.maintain()
        elif chance < 0.09:
            db.compact_table(table)

pyarrow.array([0])  # imports pandas, if it is installed: once, not in each writer
for line in sys.stdin:
    directory, journal, seed, tablets = line.split()
    child = os.fork()
    if child == 0:
        try:
            work(directory, journal, int(seed), HASHED if tablets == "3" else ONE_TABLET)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(3)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
'''


@dataclass
class Expected:
    """State according to the journals: the acknowledged rows, the write in flight at the end, and some past states."""

    rows: dict[int, str] = field(default_factory=dict)
    in_flight: dict[int, str] | None = None
    past: list[tuple[int, dict[int, str]]] = field(default_factory=list)
    short: int = 0
    """Number of parts of writes that `op_resolution._changed_rows` has resolved, over all writers."""

    def read(self, journal: Path, rng: random.Random) -> None:
        self.in_flight = None
        short = 0
        for line in journal.read_text().splitlines() if journal.exists() else []:
            word, *rest = line.split()
            if word == "start":
                self.in_flight = after(self.rows, rest[0], rest[1], [int(key) for key in rest[2:]])
            else:
                assert self.in_flight is not None
                self.rows, self.in_flight, short = self.in_flight, None, int(rest[1])
                if rng.random() < 0.2:
                    self.past.append((int(rest[0]), self.rows))
        self.short += short


def after(rows: dict[int, str], op: str, number: str, keys: list[int]) -> dict[int, str]:
    changed = dict(rows)
    for key in keys:
        if op == "DELETE_IGNORE":
            changed.pop(key, None)
        elif op == "UPSERT" or (op == "UPDATE_IGNORE") == (key in rows):
            changed[key] = number
    return changed


@pytest.mark.parametrize("tablets", [1, 3])
def test_a_killed_process_keeps_what_it_acknowledged(tmp_path, tablets):
    seed = int(os.environ.get("NYALA_SEED", "1"))
    rng = random.Random(seed)
    expected = Expected()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        # A busy machine kills writers that have acknowledged little: it needs more of them to see all kinds of writes.
        number = 0
        while number < KILLS or len(expected.past) <= 10 or expected.short <= 10:
            journal = tmp_path / f"journal-{number}"
            server.stdin.write(f"{tmp_path / 'db'} {journal} {seed * 10_000 + number} {tablets}\n")
            server.stdin.flush()
            child = int(server.stdout.readline())
            if rng.random() < 0.8:  # on a busy machine few would come to write
                await_write(journal)
            time.sleep(rng.uniform(0.02, 0.4))
            os.kill(child, signal.SIGKILL)
            assert int(server.stdout.readline()) == -signal.SIGKILL, "the writer ended by itself"
            expected.read(journal, rng)
            verify(tmp_path / "db", expected, rng, f"after kill {number}")
            number += 1
        server.stdin.close()


def await_write(journal: Path) -> None:
    """Wait until a write is acknowledged, for a minute at most."""
    until = time.monotonic() + 60
    while time.monotonic() < until and not (journal.exists() and b"done" in journal.read_bytes()):
        time.sleep(0.01)


def verify(directory: Path, expected: Expected, rng: random.Random, where: str) -> None:
    if not (directory / "FORMAT").exists():
        return
    if rng.random() < 0.2:
        assert not check_store(OsFileSystem(), str(directory)).errors, where
    with Database(directory, background=False) as db:
        if not db.tables():
            assert not expected.rows, f"{where}: the table is gone"
            return
        table = db.table("t")
        found = dict(read(db, table))
        if found != expected.rows:
            assert found == expected.in_flight, f"{where}: {difference(found, expected)}"
        expected.rows = found
        for timestamp, rows in rng.sample(expected.past, min(2, len(expected.past))):
            assert dict(read(db, table, snapshot=Timestamp(timestamp))) == rows, f"{where}: as of {timestamp}"
        if rng.random() < 0.1:
            db.check()


def difference(found: dict[int, str], expected: Expected) -> str:
    wrong = [
        f"{key}: {found.get(key)} instead of {expected.rows.get(key)}"
        for key in sorted(found.keys() | expected.rows.keys())
        if found.get(key) != expected.rows.get(key)
    ]
    return "; ".join(wrong[:5])
