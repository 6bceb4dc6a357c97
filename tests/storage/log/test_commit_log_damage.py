"""Damage to the commit log, and to the parts of writes in tablets' logs, of a store that was not closed: what was
acknowledged is there, or what is damaged is named."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from nyala.errors import CorruptionError, DiskError, Error
from nyala.model.schema import Table
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.cut_log import cut_log
from nyala.storage.log import commit_log
from tablet_support import HASHED, batch, definition, insert, read

COMMITS = "db/commits"
LOG = f"{COMMITS}/0000000000000001.log"
KEYS = range(30)


def killed(db: Database, disk: CrashableFileSystem) -> CrashableFileSystem:
    """File system after the process is killed: everything that was synced."""
    image = disk.crash(0.0, random.Random(1))
    db.close()
    return image


def store(disk: CrashableFileSystem, writes: int = 2) -> tuple[Database, Table]:
    """A store with some writes over three tablets, of 30 rows each, and one row behind them."""
    db = Database("db", fs=disk, background=False)
    table = db.create_table(definition(partitions=HASHED))
    db.create_table(definition("other"))
    insert(db, db.table("other"), KEYS)
    for number in range(writes):
        insert(db, table, range(30 * number, 30 * number + 30))
    db.write_row(table, Op.INSERT, {"k": 1000, "v": "last"})
    return db, table


def content(fs: CrashableFileSystem, path: str) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()


def put(fs: CrashableFileSystem, path: str, data: bytes) -> None:
    file = fs.create(path)
    file.write(data)
    file.close()


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def rows_by_look_ups(db: Database, keys: range) -> dict[int, Any]:
    """Each row by its key, or the error."""
    found: dict[int, Any] = {}
    for key in keys:
        try:
            row = db.read_row(db.table("t"), [key], ["v"])
            found[key] = None if row is None else row[0]
        except CorruptionError as error:
            found[key] = error
    return found


# ---- the end of the commit log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["last byte", "cut", "half", "segment missing", "folder missing"])
def test_a_commit_log_that_has_lost_its_end_is_named_and_the_rest_works(damage):
    disk = CrashableFileSystem()
    image = killed(store(disk)[0], disk)
    whole = content(image, LOG)
    if damage == "last byte":
        put(image, LOG, flipped(whole, len(whole) - 1))
    elif damage in ("cut", "half"):
        put(image, LOG, whole[:-1] if damage == "cut" else whole[: len(whole) // 2])
    elif damage == "segment missing":
        image.remove(LOG)
    else:
        image.remove_tree(COMMITS)
    (error,) = [e for e in check_store(image, "db").errors if "went on to COMMIT 2" in str(e)]
    assert error.path in (LOG, COMMITS) and "t000001-p0000, t000001-p0001, t000001-p0002" in error.message
    for _ in range(2):  # nothing of the evidence is removed by an opening
        with Database("db", fs=image, background=False) as db:
            assert len(db.maintenance_status().quarantined) == 3
            with pytest.raises(CorruptionError, match=rf"{COMMITS}.*went on to COMMIT 2.*was set aside"):
                read(db, db.table("t"))
            assert len(read(db, db.table("other"))) == 30
            hashed = db.create_table(definition(f"new{_}", partitions=HASHED))
            with pytest.raises(CorruptionError, match="writes over several tablets are refused"):
                insert(db, hashed, KEYS)
            db.write_row(hashed, Op.INSERT, {"k": 1, "v": "one"})
            db.maintain()
    image.make_directory(COMMITS)
    put(image, LOG, whole)
    with Database("db", fs=image, background=False) as db:
        assert len(read(db, db.table("t"))) == 61
        insert(db, db.table("t"), range(2000, 2030))


def test_tablets_without_undecided_parts_do_not_need_the_commit_log():
    disk = CrashableFileSystem()
    db, _ = store(disk)
    db.flush()
    insert(db, db.create_table(definition("more", partitions=HASHED)), KEYS)
    image = killed(db, disk)
    image.remove_tree(COMMITS)
    with Database("db", fs=image, background=False) as db:
        assert len(read(db, db.table("t"))) == 61
        with pytest.raises(CorruptionError, match="several tablets are refused"):
            insert(db, db.table("t"), range(2000, 2030))


def test_the_start_of_a_commit_log_is_missed(monkeypatch):
    monkeypatch.setattr(commit_log, "SEGMENT_BYTES", 400)
    disk = CrashableFileSystem()
    db, _ = store(disk, writes=12)
    names = sorted(name for name in disk.list(COMMITS) if name.endswith(".log"))
    assert len(names) > 2
    image = killed(db, disk)
    image.remove(f"{COMMITS}/{names[0]}")
    assert any("but those behind 0 were kept" in str(error) for error in check_store(image, "db").errors)
    with Database("db", fs=image, background=False) as db, pytest.raises(CorruptionError, match="behind 0 were kept"):
        read(db, db.table("t"))


def test_a_commit_log_that_was_emptied_on_purpose_counts_on(monkeypatch):
    """Also beside parts that never happened, whose logs have seen later COMMITs than there are files of."""
    monkeypatch.setattr(commit_log, "CHUNK_RECORDS", 1)
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        for start in range(0, 90, 30):
            insert(db, table, range(start, start + 30))
        db.flush()
        fs.fail("sync", "*/commits/*", times=1)
        with pytest.raises(DiskError):
            insert(db, table, range(500, 530))
        for key in range(90, 99):
            db.write_row(table, Op.INSERT, {"k": key, "v": f"v{key}"})
    for round_ in range(3):
        with Database("db", fs=disk, background=False) as db:
            db.maintain()
            assert not db.maintenance_status().quarantined
            assert len(read(db, db.table("t"))) == 99 + round_
            db.write_row(db.table("t"), Op.INSERT, {"k": 2000 + round_, "v": "x"})
        assert not [name for name in disk.list(COMMITS) if name.endswith(".log")]
        report = check_store(disk, "db")
        assert not report.errors and any("without a COMMIT" in str(note) for note in report.findings)
    with Database("db", fs=disk, background=False) as db:
        insert(db, db.table("t"), range(3000, 3030))
        assert db._commits.last_index == 4


# ---- the end of a tablet's log -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_last_part_is_no_torn_tail(damage):
    disk = CrashableFileSystem()
    db = Database("db", fs=disk, background=False)
    table = db.create_table(definition(partitions=HASHED))
    insert(db, table, KEYS)
    insert(db, table, range(30, 60))
    tablet = db.open_table(table).tablets[1]
    path = f"{tablet.directory}/wal/{disk.list(f'{tablet.directory}/wal')[-1]}"
    image = killed(db, disk)
    data = content(image, path)
    put(image, path, flipped(data, len(data) - 3) if damage == "flipped" else data[:-9])
    assert any(error.path == path for error in check_store(image, "db").errors)
    with Database("db", fs=image, background=False) as db:
        (one,) = db.maintenance_status().quarantined
        assert one.tablet_id == tablet.id
        with pytest.raises(CorruptionError, match=path):
            read(db, db.table("t"))
        db.maintain()
    cut = cut_log(image, "db", tablet.id)
    assert (cut.last_index, cut.known_lost) == (1, 1)
    assert not check_store(image, "db").errors
    with Database("db", fs=image, background=False) as db:
        found = dict(read(db, db.table("t")))
        assert found.keys() >= set(KEYS) and 0 < len(found.keys() & set(range(30, 60))) < 30
        insert(db, db.table("t"), range(100, 130))
    with Database("db", fs=image, background=False) as db:
        assert dict(read(db, db.table("t"))).keys() >= set(range(100, 130))


def test_with_durability_os_a_commit_says_nothing_of_its_parts():
    disk = CrashableFileSystem()
    db = Database("db", fs=disk, background=False, durability="os")
    table = db.create_table(definition(partitions=HASHED))
    insert(db, table, KEYS)
    db._commits.sync_now()  # and the second's end never comes for the tablets
    image = killed(db, disk)
    assert not check_store(image, "db").errors
    with Database("db", fs=image, background=False) as db:
        assert read(db, db.table("t")) == [] and not db.maintenance_status().quarantined


def test_a_part_that_nobody_has_acknowledged_is_noted_and_no_damage():
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    db = Database("db", fs=fs, background=False)
    table = db.create_table(definition(partitions=HASHED))
    insert(db, table, KEYS)
    fs.fail("sync", "*/commits/*", times=1)
    with pytest.raises(DiskError):
        db.write(table, WriteBatch(batch(KEYS, "lost"), Op.UPDATE, all_or_none=True))
    image = killed(db, disk)
    report = check_store(image, "db")
    assert not report.errors
    notes = [
        str(found)
        for found in report.findings
        if "1 log entry of writes over several tablets without a COMMIT" in str(found)
    ]
    assert len(notes) == 3
    with Database("db", fs=image, background=False) as db:
        assert set(dict(read(db, db.table("t"))).values()) == {f"v{k}" for k in KEYS}


# ---- any damage to any log -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_damage_to_a_log_of_a_killed_store_is_named_or_harmless(seed, monkeypatch):
    """Random writes over one and several tablets, some of them torn by a failing disk, a kill, then one damaged place:
    each acknowledged row is as it was written, or its look-up and the check name a log."""
    rng = random.Random(seed)
    monkeypatch.setattr(commit_log, "SEGMENT_BYTES", 500)
    monkeypatch.setattr(commit_log, "CHUNK_RECORDS", 2)
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    db = Database("db", fs=fs, background=False, segment_bytes=rng.choice([2000, 1 << 20]))
    table = db.create_table(definition(partitions=HASHED))
    expected: dict[int, str] = {}
    for number in range(rng.randrange(8, 25)):
        keys = sorted(rng.sample(range(40), rng.choice([1, 1, 12, 25])))
        action = rng.random()
        if action < 0.1:
            db.flush()
        elif action < 0.2:
            db.maintain()
        if rng.random() < 0.25:
            fs.fail(rng.choice(["write", "sync"]), rng.choice(["*/commits/*.log", "*/wal/*"]), times=1)
        with contextlib.suppress(DiskError):
            insert(db, table, keys, f"{number}-", Op.UPSERT)
            expected |= {k: f"{number}-{k}" for k in keys}
        fs.heal()
    # Witnesses of all that came before: only these themselves have none.
    insert(db, table, range(100, 130))
    for key in range(200, 212):
        db.write_row(table, Op.INSERT, {"k": key, "v": "witness"})
    expected |= {k: f"v{k}" for k in range(100, 130)}
    image = killed(db, disk)
    logs: list[str] = []
    for folder in (COMMITS, *(f"db/tables/{table.id}/{table.id}-p000{n}/wal" for n in range(3))):
        logs += [f"{folder}/{name}" for name in image.list(folder) if name.endswith(".log")]
    path = rng.choice([log for log in logs if COMMITS in log] if rng.random() < 0.5 else logs)
    data = content(image, path)
    what = rng.choice(["flip", "cut", "missing"])
    if what == "flip":
        put(image, path, flipped(data, rng.randrange(len(data))))
    elif what == "cut":
        put(image, path, data[: rng.randrange(len(data))])
    else:
        image.remove(path)
    is_named = any(path.rpartition("/")[0] in str(error) for error in check_store(image, "db").errors)
    with Database("db", fs=image, background=False) as again:
        found = rows_by_look_ups(again, range(130))
    for key in range(130):
        right, seen = expected.get(key), found[key]
        if isinstance(seen, Error):
            assert path.rpartition("/")[0] in str(seen) and is_named, (path, what, key)
        else:
            assert seen == right, (path, what, key)
