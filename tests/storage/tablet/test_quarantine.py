"""A damaged tablet is quarantined by name: all other tablets work, its files stay unchanged, and derived files are
rebuilt."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.errors import CorruptionError, UnsupportedFormat
from nyala.model.alterations import AddColumn, AddRangePartition, DropRangePartition, RenameTable
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema, RangePartition
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import FaultyFileSystem, MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.maintenance.tablet_flush import flush_deltas
from tablet_support import HASHED, RANGED, batch, definition, insert, keys_of, load, read_tokens

BAD = "t000002"


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Tables `good` and `bad`, both of two ranges (below 100, and to 200), with rows in files and in the log."""
    path = tmp_path / "db"
    with Database(path, background=False) as db:
        for name in ("good", "bad"):
            table = db.create_table(definition(name, partitions=RANGED))
            insert(db, table, range(0, 200, 10))
            db.flush(table)
            insert(db, table, range(5, 200, 10))
    return path


def folder(path: Path, number: int = 0) -> Path:
    return path / "tables" / BAD / f"{BAD}-p{number:04d}"


def remove_column(tablet: Path) -> None:
    next(tablet.glob("rowsets/*.col")).unlink()


def flip_log(tablet: Path) -> None:
    log = sorted(tablet.glob("wal/*.log"))[-1]
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    # A later entry that knows of it makes it damage, not a torn tail: the metadata does.


def remove_logs(tablet: Path) -> None:
    for log in tablet.glob("wal/*.log"):
        log.unlink()


def flip_metadata(tablet: Path) -> None:
    data = bytearray((tablet / "metadata").read_bytes())
    data[40] ^= 8
    (tablet / "metadata").write_bytes(data)


def remove_metadata(tablet: Path) -> None:
    (tablet / "metadata").unlink()


def remove_wal_folder(tablet: Path) -> None:
    remove_logs(tablet)
    (tablet / "wal").rmdir()


def remove_folder(tablet: Path) -> None:
    for path in sorted(tablet.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    tablet.rmdir()


def foreign_metadata(tablet: Path) -> None:
    other = tablet.parent.parent / "t000001" / tablet.name.replace(BAD, "t000001")
    (tablet / "metadata").write_bytes((other / "metadata").read_bytes())


def foreign_log(tablet: Path) -> None:
    other = tablet.parent.parent / "t000001" / tablet.name.replace(BAD, "t000001")
    for log in tablet.glob("wal/*.log"):
        log.write_bytes((other / "wal" / log.name).read_bytes())


DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing column": remove_column,
    "damaged log": flip_log,
    "missing log": remove_logs,
    "damaged metadata": flip_metadata,
    "missing metadata": remove_metadata,
    "missing wal": remove_wal_folder,
    "missing folder": remove_folder,
    "metadata of another tablet": foreign_metadata,
    "log of another tablet": foreign_log,
}


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(CorruptionError) as caught:
        action()
    return str(caught.value)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_tablet_is_alone(store: Path, damage: str, caplog: Any) -> None:
    DAMAGE[damage](folder(store))
    before = tree(store / "tables" / BAD)
    report = check_store(OsFileSystem(), str(store))
    assert any(folder(store).name in str(error) for error in report.errors)
    with Database(store) as db:
        lines = [r for r in caplog.records if "is in quarantine" in r.getMessage()]
        assert [(r.name, r.levelname) for r in lines] == [("nyala.storage", "ERROR")]
        quarantined = db.maintenance_status().quarantined
        assert [(q.table, q.tablet_id) for q in quarantined] == [("bad", f"{BAD}-p0000")]
        good, bad = db.table("good"), db.table("bad")
        assert keys_of(db, good) == list(range(0, 200, 5))
        # What needs the tablet says which it is, of which table, and what can be done.
        needs: list[Callable[[], Any]] = [
            lambda: keys_of(db, bad),
            lambda: db.read_row(bad, [50], ("v",)),
            lambda: insert(db, bad, [1]),
            lambda: insert(db, bad, [1, 101]),
            lambda: db.write_row(bad, Op.INSERT, {"k": 1, "v": "x"}),
            lambda: db.write_row(bad, Op.UPDATE, {"k": 50, "v": "x"}),
            lambda: db.write(bad, WriteBatch(batch([10]), Op.DELETE)),
            lambda: load(db, bad, [1, 2]),
            lambda: db.compact_table(bad),
            lambda: db.analyze_table(bad),
            lambda: db.flush(bad),
            lambda: db.alter_table("bad", [AddColumn(ColumnSchema("n", INT))]),
            lambda: db.key_samples(bad, f"{BAD}-p0000"),
        ]
        for action in needs:
            text = refused(action)
            assert f"tablet {BAD}-p0000 of table bad was set aside" in text, text
            assert str(store) in text and "nyala fs salvage" in text
        # What does not need it works.
        above = (Range("k", 100, None),)
        tokens = db.scan_tokens(bad, ScanSpec(("k",), above))
        assert sorted(row[0] for row in read_tokens(db, tokens)) == list(range(100, 200, 5))
        assert insert(db, bad, [101]).applied == 1
        assert db.write_row(bad, Op.INSERT, {"k": 102, "v": "x"}).applied == 1
        assert load(db, bad, [103, 104]) == 2
        assert db.read_row(bad, [150], ("k",)) == (150,)
        assert db.statistics(bad).row_count > 0
        described = db.describe_tablets(bad)
        assert [t.replicas[0].role for t in described] == ["QUARANTINED", "LEADER"]
        db.table_storage(bad)
        db.flush()
        db.maintain()
        db.check()
    name = folder(store).name
    after = tree(store / "tables" / BAD)
    assert {p: d for p, d in after.items() if name in p} == {p: d for p, d in before.items() if name in p}


def test_what_can_be_done_with_a_table_that_has_a_damaged_tablet(store: Path) -> None:
    remove_column(folder(store))
    with Database(store, background=False) as db:
        db.alter_table("bad", [AddRangePartition(RangePartition((1000,), (2000,)))])
        assert insert(db, db.table("bad"), [1500]).applied == 1
        db.alter_table("bad", [RenameTable("worse")])
        assert db.table("worse").name == "worse"
        bounds = db.open_table(db.table("worse")).layout.partitioner.partitions[0].range
        db.alter_table("worse", [DropRangePartition(RangePartition(bounds.lower, bounds.upper))])
        assert not folder(store).exists()
        assert keys_of(db, db.table("worse")) == [*range(100, 200, 5), 1500]
        db.alter_table("worse", [AddColumn(ColumnSchema("n", INT))])
    assert check_store(OsFileSystem(), str(store)).errors == []


def test_a_table_with_a_damaged_tablet_can_be_dropped(store: Path) -> None:
    flip_metadata(folder(store, 1))
    with Database(store, background=False) as db:
        db.drop_table("bad")
        assert not (store / "tables" / BAD).exists()
        assert db.maintenance_status().quarantined == ()
        table = db.create_table(definition("bad"))
        assert insert(db, table, [1]).applied == 1


def test_a_table_whose_folder_is_missing_is_alone(store: Path) -> None:
    remove_folder(store / "tables" / BAD)
    with Database(store, background=False) as db:
        assert "folder of table bad" in refused(lambda: keys_of(db, db.table("bad")))
        assert keys_of(db, db.table("good")) == list(range(0, 200, 5))
        db.drop_table("bad")
    assert check_store(OsFileSystem(), str(store)).errors == []


def test_a_tablet_is_whole_again_once_its_file_is_restored(store: Path) -> None:
    path = next(folder(store).glob("rowsets/*.col"))
    data = path.read_bytes()
    path.unlink()
    with Database(store, background=False) as db:
        refused(lambda: keys_of(db, db.table("bad")))
        insert(db, db.table("bad"), [101])
    path.write_bytes(data)
    with Database(store, background=False) as db:
        assert keys_of(db, db.table("bad")) == sorted([*range(0, 200, 5), 101])


def test_a_load_waits_for_the_tablet_that_is_damaged() -> None:
    disk = MemoryFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        fs.fail("create", "*/metadata.tmp")
        load(db, table, range(30))
        places = {t.id: t.row_count for t in db.open_table(table).tablets}
        assert all(places.values())
    path = f"db/tables/{table.id}/{table.id}-p0001/metadata"
    whole = disk.open(path).read_at(0, 1 << 20)
    disk.create(path).write(whole[:-1] + bytes([whole[-1] ^ 1]))
    for _ in range(2):
        with Database("db", fs=disk, background=False) as db:
            refused(lambda db=db: keys_of(db, table))
            assert any(name.startswith("load-") for name in disk.list(f"db/tables/{table.id}"))
    disk.create(path).write(whole)
    with Database("db", fs=disk, background=False) as db:
        assert keys_of(db, table) == list(range(30))
        assert not any(name.startswith("load-") for name in disk.list(f"db/tables/{table.id}"))


def test_an_unreadable_file_is_damage_and_a_full_disk_is_not() -> None:
    disk = MemoryFileSystem()
    fs = FaultyFileSystem(disk)
    with Database("db", fs=fs, background=False) as db:
        for name in ("good", "bad"):
            insert(db, db.create_table(definition(name)), range(5))
    fs.fail("open", f"*/{BAD}-p0000/wal/*", message=os.strerror(5))
    with Database("db", fs=fs, background=False) as db:
        assert keys_of(db, db.table("good")) == [0, 1, 2, 3, 4]
        assert "Input/output error" in refused(lambda: keys_of(db, db.table("bad")))
    fs.heal()
    fs.fail("open", f"*/{BAD}-p0000/wal/*", message=os.strerror(24))
    with pytest.raises(nyala.errors.DiskError, match="Too many open files"):
        Database("db", fs=fs, background=False)


# ---- what can be derived -----------------------------------------------------------------------------------------


def blooms(path: Path) -> list[Path]:
    return sorted(path.glob(f"tables/{BAD}/*/rowsets/*.bloom"))


def newer_version(data: bytes) -> bytes:
    head = data[:8] + struct.pack("<HH", 9, 0)
    return head + struct.pack("<I", zlib.crc32(head)) + data[16:]


def foreign_bloom(path: Path) -> bytes:
    return Path(str(path).replace(BAD, "t000001")).read_bytes()


SPOIL: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: path.unlink(),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:20] + b"\0\1\2" + path.read_bytes()[23:]),
    "empty": lambda path: path.write_bytes(b""),
    "newer": lambda path: path.write_bytes(newer_version(path.read_bytes())),
    "of another table": lambda path: path.write_bytes(foreign_bloom(path)),
}


@pytest.mark.parametrize("how", SPOIL)
def test_a_bloom_filter_that_cannot_be_used_is_made_anew(store: Path, how: str, caplog: Any) -> None:
    caplog.set_level("INFO", "nyala.storage")
    whole = {path: path.read_bytes() for path in blooms(store)}
    for path in whole:
        SPOIL[how](path)
    assert check_store(OsFileSystem(), str(store)).errors
    with Database(store, background=False) as db:
        bad = db.table("bad")
        assert db.maintenance_status().quarantined == ()
        # Right answers at once: no key is doubled, none is missed.
        assert len(insert(db, bad, range(0, 200, 10)).errors) == 20
        assert db.read_row(bad, [50], ("k",)) == (50,)
        assert db.read_row(bad, [51], ("k",)) is None
        done = [r.kind for r in db.maintain() if not r.error]
        assert done.count("RebuildBloomFilter") == len(whole)
        assert {path: path.read_bytes() for path in blooms(store)} == whole
        assert len(insert(db, bad, range(0, 200, 10)).errors) == 20
        db.check()
        assert sum("made the Bloom filter" in r.getMessage() for r in caplog.records) == len(whole)
    assert check_store(OsFileSystem(), str(store)).errors == []


def test_a_bloom_filter_whose_keys_are_damaged_too_stays_as_it_is(store: Path) -> None:
    path = blooms(store)[0]
    path.unlink()
    key = path.with_name(path.name.replace(".bloom", "-column-0000.col"))
    data = bytearray(key.read_bytes())
    data[18] ^= 1
    key.write_bytes(data)
    with Database(store, background=False) as db:
        failed = [r for r in db.maintain() if r.error]
        assert failed and "CorruptionError" in failed[0].error
        assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"refuse" * 20, None])
def test_statistics_that_cannot_be_read_are_passed_over(store: Path, content: bytes | None, caplog: Any) -> None:
    with Database(store, background=False) as db:
        db.write_row(db.table("bad"), Op.UPDATE, {"k": 10, "v": "x"})
        db.analyze_table(db.table("bad"))
    path = store / "tables" / BAD / "statistics"
    whole = path.read_bytes()
    if content is None:  # of a newer version
        payload = whole[24:]
        bare = whole[:8] + struct.pack("<IIQ", 99, 0, len(payload))
        content = whole[:8] + struct.pack("<IIQ", 99, zlib.crc32(payload, zlib.crc32(bare)), len(payload)) + payload
    path.write_bytes(content)
    with Database(store, background=False) as db:
        assert keys_of(db, db.table("bad")) == list(range(0, 200, 5))
        assert any("statistics are passed over" in r.getMessage() for r in caplog.records)
        db.analyze_table(db.table("bad"))
    assert path.read_bytes()[:12] == whole[:12]


# ---- the catalog -------------------------------------------------------------------------------------------------


def test_an_older_catalog_does_not_cost_the_tables_that_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with Database(path, background=False) as db:
        insert(db, db.create_table(definition("first")), range(5))
    older = (path / "catalog").read_bytes()
    with Database(path, background=False) as db:
        insert(db, db.create_table(definition("second")), range(7))
    newer = (path / "catalog").read_bytes()
    (path / "catalog").write_bytes(older)
    with Database(path, background=False) as db:
        assert [t.name for t in db.tables()] == ["first"]
        third = db.create_table(definition("third"))
        assert third.id == "t000003"
        db.drop_table("third")
    (path / "catalog").write_bytes(newer)
    with Database(path, background=False) as db:
        assert keys_of(db, db.table("second")) == list(range(7))


def test_a_damaged_catalog_says_what_to_do(tmp_path: Path) -> None:
    with Database(tmp_path / "db") as db:
        db.create_table(definition())
    path = tmp_path / "db" / "catalog"
    path.write_bytes(path.read_bytes()[:-1])
    for target in (path, None):
        if target is None:
            path.unlink()
        with pytest.raises(CorruptionError, match=r"db/catalog: .*restore the catalog from a backup"):
            Database(tmp_path / "db")
        assert check_store(OsFileSystem(), str(tmp_path / "db")).errors


def test_a_newer_format_of_what_cannot_be_derived_is_refused_before_anything_is_changed(store: Path) -> None:
    path = folder(store) / "metadata"
    whole = path.read_bytes()
    payload = whole[24:]
    bare = whole[:8] + struct.pack("<IIQ", 99, 0, len(payload))
    path.write_bytes(whole[:8] + struct.pack("<IIQ", 99, zlib.crc32(payload, zlib.crc32(bare)), len(payload)) + payload)
    before = tree(store / "tables")
    with pytest.raises(UnsupportedFormat, match="format version 99"):
        Database(store)
    assert tree(store / "tables") == before


# ---- what the log says -------------------------------------------------------------------------------------------


def said(caplog: Any) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.name == "nyala.storage"]
    caplog.clear()
    return found


def test_recovery_says_what_it_did(store: Path, caplog: Any) -> None:
    caplog.set_level("INFO", "nyala.storage")
    log = sorted(folder(store).glob("wal/*.log"))[-1]
    with log.open("ab") as file:
        file.write(b"torn" * 10)
    (folder(store) / "rowsets" / "rowset-00000077.bloom").write_bytes(b"x")
    (store / "tables" / "t000099").mkdir()
    check_store(OsFileSystem(), str(store))
    assert said(caplog) == []  # a check changes nothing, and says so in its report
    with Database(store, background=False):
        lines = said(caplog)
    assert f"cut a torn tail of 40 bytes, never acknowledged, from {log}" in lines
    assert f"table bad: tablet {BAD}-p0000: removed 1 files of an unfinished flush or load" in lines
    assert any(line.startswith(f"table bad: tablet {BAD}-p0000: replayed 1 log entries in ") for line in lines)
    assert f"removed {store}/tables/t000099, which no table owns: left of a CREATE or DROP" in lines
    with Database(store, background=False) as db:
        db.flush()
    said(caplog)
    with Database(store, background=False):
        assert said(caplog) == []


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_full_disk_is_said_when_it_begins_and_when_it_ends(caplog: Any, durability: str) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with Database("db", fs=fs, background=False, durability=durability) as db:
        table = db.create_table(definition())
        insert(db, table, range(10))
        said(caplog)
        fs.fail("write")
        for _ in range(3):
            with pytest.raises(nyala.errors.DiskFull):
                insert(db, table, [10])
        (line,) = said(caplog)
        assert (
            line.startswith("the log refuses writes until the disk accepts them") and "No space left on device" in line
        )
        fs.heal()
        insert(db, table, range(10, 20))
        assert said(caplog) == [f"the log takes writes again: db/tables/{table.id}/{table.id}-p0000/wal"]


def test_a_failed_flush_is_said_with_its_cause_and_that_it_works_again(caplog: Any) -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    with Database("db", fs=fs, background=False, memrowset_bytes=1000) as db:
        table = db.create_table(definition())
        insert(db, table, range(500))
        said(caplog)
        fs.fail("create", "*.col")
        for _ in range(3):
            db.maintain()
        (line,) = said(caplog)
        assert line.startswith(f"FlushMemRowSet of tablet {table.id}-p0000 of table t failed, nothing was changed")
        assert "DiskFull" in line and "next try in 1 s" in line
        fs.heal()
        db._maintenance.manager._clock = lambda: 1e12  # the time of the next try has come
        db.maintain()
        assert any("succeeded after failures" in line for line in said(caplog))


# ---- damage that is found while the store is open ------------------------------------------------------------------


def flip(path: Path, place: int) -> bytes:
    """Damage a byte; the whole content as it was."""
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    return whole


@pytest.mark.parametrize("place", [18, -12], ids=["page", "footer"])
def test_damage_found_by_a_scan_is_named_and_logged_once(store: Path, place: int, caplog: Any) -> None:
    values = sorted((folder(store) / "rowsets").glob("*-column-0001.col"))[0]
    whole = flip(values, place if place > 0 else len(values.read_bytes()) + place)
    with Database(store, background=False) as db:
        bad = db.table("bad")
        for _ in range(3):
            with pytest.raises(CorruptionError) as raised:
                read_tokens(db, db.scan_tokens(bad, ScanSpec(("k", "v"))))
            with pytest.raises(CorruptionError, match="tablet t000002-p0000 of table bad"):
                db.read_row(bad, [10], ("v",))
        assert raised.value.path == str(values)
        for part in (values.name, f"{BAD}-p0000 of table bad", "nyala fs salvage", "restore the file"):
            assert part in str(raised.value)
        lines = [r.getMessage() for r in caplog.records if "is damaged; what needs it fails" in r.getMessage()]
        assert len(lines) == 1 and f"table bad: tablet {BAD}-p0000: {values.name} is damaged" in lines[0]
        # Everything else works: other columns, rows that are in memory, the other tablet, the other table, writes.
        assert len(keys_of(db, bad)) == 40
        assert db.read_row(bad, [5], ("v",)) == ("v5",)
        upper = ScanSpec(("k", "v"), (Range("k", lower=100),))
        assert len(read_tokens(db, db.scan_tokens(bad, upper))) == 20
        assert len(read_tokens(db, db.scan_tokens(db.table("good"), ScanSpec(("k", "v"))))) == 40
        insert(db, bad, [1, 101])
        assert db.maintenance_status().quarantined == ()
        values.write_bytes(whole)
    with Database(store, background=False) as db:
        assert len(read_tokens(db, db.scan_tokens(db.table("bad"), ScanSpec(("k", "v"))))) == 42


def test_a_damaged_delta_is_named(store: Path, caplog: Any) -> None:
    with Database(store, background=False) as db:
        bad = db.table("bad")
        insert(db, bad, range(0, 200, 10), "new", Op.UPDATE)
        for tablet in db.open_table(bad).tablets:
            for stored in tablet.state.rowsets:
                flush_deltas(tablet, stored)
    redo = sorted((folder(store) / "rowsets").glob("*-redo-*.delta"))[0]
    flip(redo, 20)
    with Database(store, background=False) as db:
        for _ in range(2):
            with pytest.raises(CorruptionError, match=rf"{redo.name}.*tablet {BAD}-p0000 of table bad"):
                read_tokens(db, db.scan_tokens(db.table("bad"), ScanSpec(("k", "v"))))
    assert sum("is damaged; what needs it fails" in r.getMessage() for r in caplog.records) == 1
