"""Recovery with updates and deletes: whatever was flushed, the log has the rest; what failed leaves no trace."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import cases
from nyala.errors import CorruptionError, DiskError
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.store import Op, WriteBatch
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem, MemoryFileSystem
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.tablet.mvcc import start_together
from nyala.storage.tablet.tablet import Tablet
from nyala.storage.tablet.tablet_metadata import TabletMetadata
from nyala.storage.writing.incoming_rows import incoming
from nyala.storage.writing.tablet_write import TabletWrite
from store_model import TableModel
from tablet_support import definition, insert, keys_of, load, read

SCHEMA = Schema(
    (
        ColumnSchema("k", BIGINT, nullable=False),
        ColumnSchema("n", INT, nullable=False, default=7),
        ColumnSchema("v", STRING),
    ),
    1,
)
COLUMNS = ("k", "n", "v")
KEYS = 10


def quiet(fs: MemoryFileSystem, **options: Any) -> Database:
    """A store that does nothing by itself."""
    return Database("db", fs=fs, background=False, **options)


def tablet_of(db: Database) -> Tablet:
    return db._stores[db.table("t").id].tablets[0]


def write_rows(db: Database, ops: list[Op], rows: list[dict[str, Any]]):
    names = [name for name in COLUMNS if any(name in row for row in rows)]
    schema = SCHEMA.arrow
    given = {name: pa.array([row.get(name) for row in rows], schema.field(name).type) for name in names}
    isset = {name: np.array([name in row for row in rows]) for name in names[1:]}
    return db.write(db.table("t"), WriteBatch(pa.record_batch(given), np.array(ops, np.uint8), isset=isset))


class Workload:
    """Random writes and flushes of one table, and what it must hold: a model of every version."""

    def __init__(self, fs: CrashableFileSystem, rng: random.Random):
        self.fs = fs
        self.rng = rng
        self.db = quiet(fs, segment_bytes=1000)
        self.db.create_table(definition(schema=SCHEMA))
        self.model = TableModel(self.db.table("t").schema)
        self.times: list[int] = []

    def rows(self, low: int = 1) -> tuple[list[Op], list[dict[str, Any]]]:
        rng = self.rng
        ops = [rng.choice(list(Op)) for _ in range(rng.randint(low, 8))]
        columns = [name for name in COLUMNS[1:] if rng.random() < 0.7]
        rows = []
        for number in range(len(ops)):
            row: dict[str, Any] = {"k": rng.randrange(KEYS), "n": rng.randrange(100), "v": rng.choice([None, "a", "b"])}
            dropped = [name for name in COLUMNS[1:] if name not in columns or rng.random() < 0.2 * number]
            rows.append({name: value for name, value in row.items() if name not in dropped})
        return ops, rows

    def write(self) -> None:
        ops, rows = self.rows()
        expected = self.model.resolve(ops, rows)
        result = write_rows(self.db, ops, rows)
        assert {e.row: type(e.error).__name__ for e in result.errors} == expected.errors
        self.model.commit(expected, result.timestamp)
        self.times.append(result.timestamp)

    def flush_some(self) -> None:
        tablet = tablet_of(self.db)
        if self.rng.random() < 0.4 or not tablet.state.rowsets:
            self.db.flush()
        else:
            flush_deltas(tablet, self.rng.choice(tablet.state.rowsets))

    def crash(self) -> None:
        crashed = self.fs.crash(self.rng.choice([0.0, 0.5, 1.0]), self.rng)
        self.db.close()
        self.fs = crashed
        self.db = quiet(crashed, segment_bytes=1000)

    def verify(self) -> None:
        table = self.db.table("t")
        for time in (self.db.now(), *self.rng.sample(self.times, min(2, len(self.times)))):
            assert read(self.db, table, COLUMNS, snapshot=time) == self.model.rows(COLUMNS, time)
        self.db.check()


@pytest.mark.parametrize("seed", range(cases(24)))
def test_what_was_acknowledged_is_there_after_every_crash(seed):
    run = Workload(CrashableFileSystem(), random.Random(seed))
    for _ in range(12):
        for _ in range(run.rng.randint(1, 6)):
            run.write()
            if run.rng.random() < 0.3:
                run.flush_some()
        run.crash()
        run.verify()
    run.db.close()


@pytest.mark.parametrize("seed", range(cases(4)))
def test_a_crash_at_any_sync_leaves_the_state_before_or_after_a_write(seed):
    rng = random.Random(seed)
    found: list[tuple[CrashableFileSystem, int]] = []
    fs = CrashableFileSystem(on_sync=lambda _: found.append((fs.crash(rng.random(), rng), len(states))))
    states: list[list[Any]] = []
    run = Workload(fs, rng)
    found.clear()
    states.append([])
    for _ in range(25):
        run.write()
        states.append(run.model.rows(COLUMNS, run.times[-1]))
        if rng.random() < 0.4:
            run.flush_some()
    run.db.close()
    assert len(found) > 50
    for crashed, before in found:
        with quiet(crashed) as db:
            rows = read(db, db.table("t"), COLUMNS)
            assert rows in states[before - 1 : before + 1]
            db.check()


def test_many_small_writes_of_few_keys_are_replayed():
    run = Workload(CrashableFileSystem(), random.Random(5))
    for number in range(600):
        ops, rows = run.rows()
        run.rng.seed(number)
        expected = run.model.resolve(ops[:1], rows[:1])
        result = write_rows(run.db, ops[:1], rows[:1])
        run.model.commit(expected, result.timestamp)
        run.times.append(result.timestamp)
        if number == 200:
            run.db.flush()
    run.crash()
    run.verify()
    assert tablet_of(run.db).log.last_index > 200
    run.db.close()


# ---- failing logs ------------------------------------------------------------------------------------------------


def test_a_write_whose_sync_fails_leaves_no_trace():
    fs = FaultyFileSystem(CrashableFileSystem())
    with quiet(fs) as db:
        db.create_table(definition(schema=SCHEMA))
        write_rows(db, [Op.INSERT] * 4, [{"k": k, "n": k, "v": "old"} for k in range(4)])
        db.flush()
        write_rows(db, [Op.INSERT] * 4, [{"k": k, "n": k, "v": "old"} for k in range(4, 8)])
        write_rows(db, [Op.DELETE] * 2, [{"k": 3}, {"k": 7}])
        before = read(db, db.table("t"), COLUMNS)
        ops = [Op.UPDATE, Op.DELETE, Op.UPDATE, Op.DELETE, Op.INSERT, Op.INSERT, Op.INSERT]
        rows = [{"k": k, "n": 50} if op is not Op.DELETE else {"k": k} for op, k in zip(ops, (0, 1, 4, 5, 3, 7, 9))]
        for _ in range(3):
            fs.fail("sync", "*/wal/*", times=1)
            with pytest.raises(DiskError, match="cannot sync"):
                write_rows(db, ops, rows)
            assert read(db, db.table("t"), COLUMNS) == before
            db.check()
        assert write_rows(db, ops, rows).applied == len(ops)
        expected = [
            (0, 50, "old"),
            (2, 2, "old"),
            (3, 50, None),
            (4, 50, "old"),
            (6, 6, "old"),
            (7, 50, None),
            (9, 50, None),
        ]
        assert read(db, db.table("t"), COLUMNS) == expected
        db.flush()
        assert read(db, db.table("t"), COLUMNS) == expected
        db.check()


def started(db: Database, ops: list[Op], rows: list[dict[str, Any]]) -> TabletWrite:
    """A write that is in the log and in memory, and not waited for."""
    tablet = tablet_of(db)
    given = {
        "k": pa.array([row["k"] for row in rows], pa.int64()),
        "n": pa.array([row.get("n") for row in rows], pa.int32()),
    }
    batch = incoming(tablet.table, WriteBatch(pa.record_batch(given), np.array(ops, np.uint8)))
    part = TabletWrite(tablet, tablet.table, batch, np.arange(len(ops)))
    part.probe()
    with tablet.write_lock:
        part.check()
        part.encode()
        if part.has_changes:
            part.apply(start_together([tablet.mvcc]))
    return part


@pytest.mark.parametrize("flushed", [False, True])
def test_writes_that_rely_on_one_that_fails_fail_with_it(flushed):
    fs = FaultyFileSystem(CrashableFileSystem())
    with quiet(fs) as db:
        db.create_table(definition(schema=SCHEMA))
        write_rows(db, [Op.INSERT] * 2, [{"k": k, "n": k} for k in (1, 2)])
        if flushed:
            db.flush()
        before = read(db, db.table("t"), COLUMNS)
        parts = [
            started(db, [Op.INSERT, Op.UPDATE, Op.DELETE], [{"k": 5, "n": 5}, {"k": 1, "n": 6}, {"k": 2}]),
            started(db, [Op.UPDATE, Op.UPDATE, Op.INSERT], [{"k": 5, "n": 7}, {"k": 1, "n": 8}, {"k": 2, "n": 9}]),
            started(db, [Op.DELETE, Op.DELETE, Op.UPDATE], [{"k": 5}, {"k": 1}, {"k": 2, "n": 10}]),
        ]
        refused = started(db, [Op.INSERT], [{"k": 2, "n": 0}])
        assert [type(error.error).__name__ for error in refused.errors] == ["AlreadyPresent"]
        fs.fail("sync", "*/wal/*", times=1)
        for part in (*parts, refused):
            with pytest.raises(DiskError):
                part.finish()
        assert read(db, db.table("t"), COLUMNS) == before
        db.check()
        assert write_rows(db, [Op.INSERT, Op.UPDATE], [{"k": 5}, {"k": 2, "v": "x"}]).errors == ()
        assert read(db, db.table("t"), COLUMNS) == [before[0], (2, 2, "x"), (5, 7, None)]


def test_a_write_that_comes_after_the_failure_it_relies_on_is_refused():
    fs = FaultyFileSystem(CrashableFileSystem())
    with quiet(fs) as db:
        db.create_table(definition(schema=SCHEMA))
        first = started(db, [Op.INSERT], [{"k": 1, "n": 1}])
        tablet = tablet_of(db)
        rows = pa.record_batch({"k": pa.array([1]), "n": pa.array([2], pa.int32())})
        second = TabletWrite(tablet, tablet.table, incoming(tablet.table, WriteBatch(rows, Op.UPDATE)), np.arange(1))
        with tablet.write_lock:
            second.check()
            second.encode()
            assert second.has_changes
            fs.fail("sync", "*/wal/*", times=1)
            with pytest.raises(DiskError):
                tablet.log.sync(tablet.undecided[-1].ticket)
            with pytest.raises(DiskError):
                second.apply(start_together([tablet.mvcc]))
        with pytest.raises(DiskError):
            first.finish()
        assert keys_of(db, db.table("t")) == []
        db.check()


# ---- what the metadata knows of the log --------------------------------------------------------------------------


def test_updates_alone_let_the_log_be_trimmed():
    with quiet(MemoryFileSystem(), segment_bytes=2000) as db:
        table = db.create_table(definition())
        load(db, table, range(1000))
        tablet = tablet_of(db)
        for _ in range(50):
            insert(db, table, range(0, 100, 7), op=Op.UPSERT)
        assert tablet.log.size > 10_000
        flush_deltas(tablet, tablet.state.rowsets[0])
        assert tablet.log.size == 0
        assert tablet.metadata.replay_index == tablet.metadata.durable_index == tablet.log.last_index


def test_a_log_that_ends_too_early_is_noticed():
    fs = MemoryFileSystem()
    with quiet(fs) as db:
        table = db.create_table(definition())
        load(db, table, range(10))
        insert(db, table, [1], op=Op.UPSERT)
        insert(db, table, [11])
        db.flush()
        tablet = tablet_of(db)
        assert tablet.metadata.replay_index < tablet.metadata.durable_index
        wal = f"{tablet.directory}/wal"
    for name in fs.list(wal):
        fs.remove(f"{wal}/{name}")
    with (
        quiet(fs) as db,
        pytest.raises(CorruptionError, match=r"the log ends with entry \d+, but went on to entry \d+"),
    ):
        keys_of(db, table)


def test_metadata_from_before_there_were_deltas_is_read():
    data = TabletMetadata("t", durable_index=17).to_dict()
    for name in ("replay_index", "ancient_history_mark", "next_number"):
        del data[name]
    assert TabletMetadata.from_dict(data).replay_index == 17
