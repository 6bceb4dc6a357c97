"""Everything at once, for some seconds: writers, scans of the present and the past, diff scans, point reads, background
work by hand and by its own thread, ALTER TABLE, bulk loads.

Every writer has keys of its own, so it knows the result that each of its calls must have. At the end, all rows that
were read are compared with the versions that the writers recorded.

`NYALA_SECONDS` makes longer runs, `NYALA_SEED` others.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from nyala.model.alterations import AddColumn, DropColumn
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.store import CHANGE_COLUMN, ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from tablet_support import HASHED, definition, read, read_tokens

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("NYALA_SECONDS", "5"))
SEED = int(os.environ.get("NYALA_SEED", "1"))
WRITERS = 3
KEYS = 400
COLUMNS = ("k", "v", "n")
WIDE = Schema((ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", STRING), ColumnSchema("n", INT)), 1)
Row = tuple[int, str | None, int | None]
Versions = dict[int, list[tuple[int, Row | None]]]
"""Of each key: from when on it was what; None where it was not there."""


class Stress:
    """A store, and the threads that work on it until time is up or one of them fails."""

    def __init__(self, directory: Any, seed: int):
        self.db = Database(
            directory, memrowset_bytes=30_000, deltamemstore_bytes=5_000, segment_bytes=20_000, rowset_bytes=20_000
        )
        self.db.create_table(definition(partitions=HASHED, schema=WIDE))
        self.seed = seed
        self.end = time.monotonic() + SECONDS
        self.failures: list[BaseException] = []
        self.versions: Versions = {key: [] for key in range(KEYS)}
        self.seen: list[tuple[int, list[Row]]] = []
        """Time and rows of each scan."""
        self.loads: list[tuple[int, int, list[Row]]] = []
        """Each happened between two times."""
        self.seen_one: list[tuple[int, int, Row | None]] = []

    @property
    def table(self) -> Any:
        return self.db.table("t")

    def run(self) -> None:
        works: list[Callable[[random.Random], None]] = [
            *(lambda rng, writer=writer: self.write(rng, writer) for writer in range(WRITERS)),
            self.scan,
            self.scan_changes,
            self.read_rows,
            self.maintain,
            self.alter,
            self.load,
        ]
        threads = [threading.Thread(target=self.guarded, args=(w, n)) for n, w in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def guarded(self, work: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        try:
            while time.monotonic() < self.end and not self.failures:
                work(rng)
        except BaseException as error:
            self.failures.append(error)

    # ---- writers -------------------------------------------------------------------------------------------------

    def write(self, rng: random.Random, writer: int) -> None:
        count = rng.choice([1, 1, 1, 4, 40])
        keys = [WRITERS * rng.randrange(KEYS // WRITERS) + writer for _ in range(count)]
        ops = [rng.choice(list(Op)) for _ in keys]
        texts = [rng.choice([None, f"{writer}-{rng.random()}", "x" * rng.randrange(200)]) for _ in keys]
        numbers = [rng.randrange(1000) for _ in keys] if rng.random() < 0.5 else None
        after, refused = self.after(keys, ops, texts, numbers)
        if count == 1:
            given = {"k": keys[0], "v": texts[0]} | ({} if numbers is None else {"n": numbers[0]})
            result = self.db.write_row(self.table, ops[0], given)
        else:
            columns = {"k": pa.array(keys, pa.int64()), "v": pa.array(texts, pa.string())}
            if numbers is not None:
                columns["n"] = pa.array(numbers, pa.int32())
            result = self.db.write(self.table, WriteBatch(pa.record_batch(columns), np.array(ops, np.uint8)))
        assert [error.row for error in result.errors] == refused, (keys, ops, result)
        for key, row in after.items():
            self.versions[key].append((int(result.timestamp), row))
        key = rng.choice(keys)
        assert self.db.read_row(self.table, [key], COLUMNS) == self.newest(key), "one's own write is there"

    def newest(self, key: int) -> Row | None:
        versions = self.versions[key]
        return versions[-1][1] if versions else None

    def after(self, keys: Any, ops: Any, texts: Any, numbers: Any) -> tuple[dict[int, Row | None], list[int]]:
        """Versions that a batch leaves of its keys, and the numbers of the refused rows."""
        rows: dict[int, Row | None] = {}
        refused = []
        for place, (key, op, text) in enumerate(zip(keys, ops, texts)):
            before = rows[key] if key in rows else self.newest(key)
            if op in (Op.INSERT, Op.INSERT_IGNORE) and before is not None:
                refused += [place] * (op is Op.INSERT)
            elif op in (Op.UPDATE, Op.UPDATE_IGNORE, Op.DELETE, Op.DELETE_IGNORE) and before is None:
                refused += [place] * (op in (Op.UPDATE, Op.DELETE))
            elif op in (Op.DELETE, Op.DELETE_IGNORE):
                rows[key] = None
            else:
                old = None if before is None else before[2]
                rows[key] = (key, text, old if numbers is None else numbers[place])
        return rows, refused

    def load(self, rng: random.Random) -> None:
        """Loads rows with keys that no other thread writes."""
        first = KEYS + 50 * len(self.loads)
        keys = list(range(first, first + 50))
        columns = {"k": pa.array(keys, pa.int64()), "v": [f"load {k}" for k in keys], "n": pa.array(keys, pa.int32())}
        before = int(self.db.now())
        with self.db.bulk_loader(self.table) as loader:
            loader.append(pa.record_batch(columns))
            assert loader.finish() == len(keys)
        self.loads.append((before, int(self.db.now()), [(k, f"load {k}", k) for k in keys]))
        time.sleep(rng.random() * 0.4)

    # ---- readers -------------------------------------------------------------------------------------------------

    def scan(self, rng: random.Random) -> None:
        snapshot = self.db.now() if rng.random() < 0.7 or not self.seen else Timestamp(rng.choice(self.seen)[0])
        tokens = self.db.scan_tokens(
            self.table, ScanSpec(COLUMNS, snapshot=snapshot, split_rows=rng.choice([None, 50]))
        )
        first = read(self.db, self.table, COLUMNS, snapshot=snapshot)
        assert read_tokens(self.db, tokens) == first, "one snapshot, read twice"
        self.seen.append((int(snapshot), first))

    def scan_changes(self, rng: random.Random) -> None:
        since = Timestamp(rng.choice(self.seen)[0]) if self.seen and rng.random() < 0.5 else self.db.now()
        time.sleep(rng.random() * 0.02)
        until = self.db.now()
        rows = {row[0]: row for row in read(self.db, self.table, COLUMNS, snapshot=since)}
        spec = ScanSpec((*COLUMNS, CHANGE_COLUMN), snapshot=until, changes=ChangeRange(since))
        for *row, change in read_tokens(self.db, self.db.scan_tokens(self.table, spec)):
            assert (change == "insert") == (row[0] not in rows), (row, change)
            if change == "delete":
                assert rows.pop(row[0]) == tuple(row)
            else:
                rows[row[0]] = tuple(row)
        assert sorted(rows.values()) == read(self.db, self.table, COLUMNS, snapshot=until)

    def read_rows(self, rng: random.Random) -> None:
        key, snapshot = rng.randrange(KEYS), self.db.now()
        self.seen_one.append((int(snapshot), key, self.db.read_row(self.table, [key], COLUMNS, snapshot)))

    # ---- in the background ---------------------------------------------------------------------------------------

    def maintain(self, rng: random.Random) -> None:
        chance = rng.random()
        if chance < 0.2:
            self.db.flush()
        elif chance < 0.3:
            self.db.compact_table(self.table)
        else:
            for record in self.db.maintain(until_idle=False):
                assert not record.error, record
        time.sleep(rng.random() * 0.05)

    def alter(self, rng: random.Random) -> None:
        time.sleep(rng.random() * 0.3)
        added = [name for name in self.table.schema.names if name not in COLUMNS]
        if added and rng.random() < 0.5:
            self.db.alter_table("t", [DropColumn(rng.choice(added))])
        else:
            self.db.alter_table("t", [AddColumn(ColumnSchema(f"x{rng.random()}", INT, default=rng.randrange(9)))])

    # ---- the end -------------------------------------------------------------------------------------------------

    def verify(self) -> None:
        for timestamp, rows in self.seen:
            found = {row[0]: row for row in rows}
            assert len(found) == len(rows), f"as of {timestamp}: a key twice"
            for before, after, loaded in self.loads:
                there = [found.pop(row[0]) for row in loaded if row[0] in found]
                assert there in (loaded, []), "half a load"
                assert timestamp > before if there else timestamp < after, "a load is seen from its time on"
            expected = {key: at(versions, timestamp) for key, versions in self.versions.items()}
            wrong = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
            details = [(found.get(key), self.versions.get(key)) for key in wrong[:3]]
            assert not wrong, f"as of {timestamp}: {len(wrong)} wrong keys: {details}"
        for timestamp, key, row in self.seen_one:
            assert row == at(self.versions[key], timestamp), f"key {key} as of {timestamp}: {self.versions[key]}"
        self.verify_newest(self.db)

    def verify_newest(self, db: Database) -> None:
        written = [row for key in self.versions if (row := self.newest(key)) is not None]
        assert read(db, db.table("t"), COLUMNS) == sorted([*written, *(row for load in self.loads for row in load[2])])
        db.check()


def at(versions: list[tuple[int, Row | None]], timestamp: int) -> Row | None:
    place = bisect_right(versions, timestamp, key=lambda version: version[0])
    return versions[place - 1][1] if place else None


@pytest.mark.parametrize("interval", [1e-5, None], ids=["often switched", "as usual"])
def test_all_at_once(tmp_path, interval):
    usual = sys.getswitchinterval()
    sys.setswitchinterval(interval or usual)
    stress = Stress(tmp_path / "db", SEED)
    try:
        stress.run()
    finally:
        sys.setswitchinterval(usual)
    if stress.failures:
        raise stress.failures[0]
    assert len(stress.seen) > 3 and len(stress.seen_one) > 3
    stress.verify()
    stress.db.close()
    # Files that went out of use while a reader had them open stay until the store is opened again: notes.
    assert check_store(OsFileSystem(), str(tmp_path / "db")).errors == []
    with Database(tmp_path / "db", background=False) as db:
        stress.verify_newest(db)
        for timestamp, rows in random.Random(SEED).sample(stress.seen, 3):
            assert read(db, db.table("t"), COLUMNS, snapshot=Timestamp(timestamp)) == rows
