"""`check_store`: a healthy store is clean, every damage is found with file and place, leftovers are notes, and nothing
is changed by looking."""

import random
import shutil
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import nyala.storage.inspect.check.check_table as check_table
import pyarrow as pa
import pytest
from nyala.errors import OperationalError, StoreLocked
from nyala.model.keys.keys import Keys
from nyala.model.schema import ColumnSchema, Compression, Schema, possible_encodings
from nyala.model.store import Op, WriteBatch
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP, Kind
from nyala.storage.database import Database
from nyala.storage.deltas.delta_file import write_delta_file
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.check.findings import describe_report
from nyala.storage.inspect.check.repeated_keys import KeySource, repeated_keys
from nyala.storage.loads.load_record import LoadRecord, TabletLoad
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.tablet.tablet_metadata import TabletMetadata
from tablet_support import HASHED, RANGED, SCHEMA, batch, definition, insert, keys_of, load, rowset_loader

FS = OsFileSystem()
TABLE = "tables/t000001"
TABLET = f"{TABLE}/t000001-p0000"
ROWSETS = f"{TABLET}/rowsets"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """Two rowsets whose key intervals overlap, and a log of three segments with several entries each."""
    path = tmp_path_factory.mktemp("check") / "db"
    with Database(path, segment_bytes=1500) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 400, 2))
        insert(db, table, range(101, 301, 2))
        db.flush()
        for start in range(1000, 1120, 10):
            insert(db, table, range(start, start + 10))
    return path


@pytest.fixture
def store(healthy, tmp_path):
    return shutil.copytree(healthy, tmp_path / "db")


def check(path):
    """The report; the check must leave every byte and every time of change as they are."""
    before = content(path)
    report = check_store(FS, str(path))
    assert content(path) == before
    return report


def content(path):
    return {p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None) for p in sorted(path.rglob("*"))}


def lines(report):
    return [f"{finding}".replace(f"{report.directory}/", "") for finding in report.findings]


def segments(path):
    return sorted((path / TABLET / "wal").iterdir())


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def reopened(path):
    with Database(path) as db:
        return keys_of(db, db.table("t"))


# ---- healthy -----------------------------------------------------------------------------------------------------


def test_a_healthy_store_is_clean_and_all_of_it_is_looked_at(store):
    report = check(store)
    assert report.findings == []
    done = report.checked
    assert (done.tables, done.tablets, done.rowsets, done.rows) == (1, 1, 2, 300)
    assert (done.column_files, done.pages, done.bloom_filters) == (4, 4, 2)
    assert (done.log_segments, done.log_entries, done.logged_rows) == (len(segments(store)), 120, 120)
    assert len(segments(store)) >= 3
    assert done.bytes == sum(p.stat().st_size for p in store.rglob("*") if p.is_file() and p.name != "LOCK")
    assert describe_report(report).endswith("0 errors, 0 notes")


@pytest.mark.parametrize("partitions", [HASHED, RANGED], ids=["hashed", "ranged"])
def test_a_store_of_several_tablets_is_clean(tmp_path, partitions):
    path = tmp_path / "db"
    with Database(path) as db:
        table = db.create_table(definition(partitions=partitions))
        db.create_table(definition("empty"))
        load(db, table, range(150))
        insert(db, table, range(150, 190))
    assert check(path).findings == []


def test_every_type_in_every_encoding_is_clean(tmp_path):
    path, count, chance = tmp_path / "db", 3000, random.Random(5)
    columns = [ColumnSchema("k", BIGINT, False)]
    arrays = [pa.array(range(count), pa.int64())]
    for type_ in (BOOLEAN, INT, DOUBLE, DECIMAL(12, 2), DECIMAL(30, 2), DATE, TIMESTAMP, STRING, BINARY):
        numbers = [chance.choice([None, n // 100, chance.randint(0, 9)]) for n in range(count)]
        for encoding in possible_encodings(type_):
            compression = chance.choice(list(Compression))
            columns.append(ColumnSchema(f"c{len(columns)}", type_, encoding=encoding, compression=compression))
            arrays.append(pa.array([VALUES[type_.kind](n) if n is not None else None for n in numbers], type_.arrow))
    schema = Schema(tuple(columns), 1)
    with Database(path) as db, rowset_loader(db, db.create_table(definition(schema=schema))) as loader:
        loader.append(pa.table(arrays, names=schema.names))
        loader.finish()
    report = check(path)
    assert report.findings == []
    assert report.checked.column_files == len(columns)


VALUES = {
    Kind.BOOLEAN: lambda n: n % 2 == 0,
    Kind.INT: lambda n: n,
    Kind.DOUBLE: lambda n: n / 4,
    Kind.DECIMAL: Decimal,
    Kind.DATE: lambda n: date(2026, 1, 1) + timedelta(n),
    Kind.TIMESTAMP: lambda n: datetime(2026, 1, 1) + timedelta(hours=n),
    Kind.STRING: lambda n: f"text {n}",
    Kind.BINARY: lambda n: bytes([0, n]),
}


def test_an_empty_store_is_clean(tmp_path):
    Database(tmp_path / "db").close()
    assert check(tmp_path / "db").findings == []


def test_a_store_that_was_being_made_is_a_note(tmp_path):
    path = tmp_path / "db"
    Database(path).close()
    (path / "FORMAT").unlink()
    assert lines(check(path)) == [
        "note: FORMAT: whole file: the store was being made when a crash came; opening it makes it anew"
    ]


def test_a_store_in_memory_can_be_checked():
    fs = MemoryFileSystem()
    with Database("/db", fs=fs) as db:
        load(db, db.create_table(definition()), range(10))
    assert check_store(fs, "/db").findings == []


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(OperationalError, match="there is no directory"):
        check_store(FS, str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("text")
    with pytest.raises(OperationalError, match="is no nyala store"):
        check_store(FS, str(tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_an_open_store_is_refused(store):
    with Database(store), pytest.raises(StoreLocked):
        check_store(FS, str(store))


def test_a_missing_lock_file_is_a_note_and_stays_missing(store):
    (store / "LOCK").unlink()
    (found,) = check(store).findings
    assert (found.severity, found.path) == ("note", str(store / "LOCK"))


# ---- one flipped byte, one truncation, one removed file ------------------------------------------------------------

FLIPS = [
    ("FORMAT", 3, "FORMAT: offset 0"),
    ("catalog", 30, "catalog: payload at offset 24"),
    ("catalog", 2, "catalog: header at offset 0"),
    (f"{TABLET}/metadata", -1, f"{TABLET}/metadata: payload at offset 24"),
    (f"{ROWSETS}/rowset-00000001-column-0000.col", 2, "column-0000.col: header"),
    (f"{ROWSETS}/rowset-00000001-column-0000.col", 20, "column-0000.col: page 0 at offset 16"),
    (f"{ROWSETS}/rowset-00000002-column-0001.col", 20, "column-0001.col: page 0 at offset 16"),
    (f"{ROWSETS}/rowset-00000002-column-0001.col", -20, "column-0001.col: footer"),
    (f"{ROWSETS}/rowset-00000002-column-0001.col", -1, "column-0001.col: footer"),
    (f"{ROWSETS}/rowset-00000002.bloom", 20, "rowset-00000002.bloom: chunk 0 at offset 16"),
    (f"{ROWSETS}/rowset-00000002.bloom", -20, "rowset-00000002.bloom: footer"),
]


@pytest.mark.parametrize("name, offset, place", FLIPS, ids=[f"{f[0].rpartition('/')[2]}@{f[1]}" for f in FLIPS])
def test_a_flipped_byte_is_found_with_file_and_place(store, name, offset, place):
    flip(store / name, offset)
    errors = [f"{e}" for e in check(store).errors]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {store / name}: ")
    assert place in errors[0]


def test_a_flipped_byte_in_the_log_is_found_with_its_entry(store):
    first, *_, last = segments(store)
    flip(first, 30)
    assert any("header at offset 0" in f"{e}" and e.path == str(first) for e in check(store).errors)
    flip(first, 30)
    flip(first, first.stat().st_size - 1)
    (found,) = check(store).errors
    assert found.path == str(first)
    assert found.place.startswith("entry ")
    # The last segment is looked at though the first one cannot be replayed.
    flip(last, 2)
    assert {e.path for e in check(store).errors} == {str(first), str(last)}


def test_several_damages_are_all_found(store):
    names = [f"{ROWSETS}/rowset-00000001-column-0001.col", f"{ROWSETS}/rowset-00000002.bloom"]
    for name in names:
        flip(store / name, 20)
    (store / ROWSETS / "rowset-00000002-column-0001.col").unlink()
    expected = {*(str(store / n) for n in names), str(store / ROWSETS / "rowset-00000002-column-0001.col")}
    assert {e.path for e in check(store).errors} == expected


def files(path):
    return [p for p in sorted(path.rglob("*")) if p.is_file() and p.name != "LOCK"]


def is_reported(report, path, newest):
    """True if an error names the file. The newest segment may end in a torn tail, which was never acknowledged."""
    if path == newest and not report.errors:
        return any(
            f.path == str(path) and ("torn" in f.message or "without entries" in f.message) for f in report.findings
        )
    return any(e.path == str(path) for e in report.errors)


def test_a_byte_flipped_anywhere_is_found(store):
    chance = random.Random(7)
    newest = segments(store)[-1]
    for path in files(store):
        for offset in chance.sample(range(path.stat().st_size), 4):
            flip(path, offset)
            assert is_reported(check(store), path, newest), f"{path} at {offset}"
            flip(path, offset)
    assert check(store).findings == []


def test_a_file_cut_short_anywhere_is_found(store):
    newest = segments(store)[-1]
    for path in files(store):
        whole = path.read_bytes()
        for size in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert is_reported(check(store), path, newest), f"{path} cut to {size}"
        path.write_bytes(whole)
    assert check(store).findings == []


def test_a_file_that_is_missing_is_found(store):
    *older, newest = segments(store)
    for path in files(store):
        whole = path.read_bytes()
        path.unlink()
        report = check(store)
        if path in older:
            # The segment behind the gap shows it; nothing shows what came before the first.
            assert any("expected a log" in f"{e}" or "follows" in f"{e}" for e in report.errors), path
        elif path != newest:
            assert any(e.path == str(path) for e in report.errors), path
        path.write_bytes(whole)
    assert check(store).findings == []


@pytest.mark.parametrize("name", ["tables", TABLE, TABLET, ROWSETS, f"{TABLET}/wal"])
def test_a_folder_that_is_missing_is_found(store, name):
    shutil.rmtree(store / name)
    assert any(f"{store / name}" in f"{e}" for e in check(store).errors)


# ---- delta files ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_history(tmp_path_factory):
    """Rowset 1 with two REDO files, rowset 2 with UNDO and REDO, keys that moved from one to the other, and changes
    that are in the log only."""
    path = tmp_path_factory.mktemp("history") / "db"
    with Database(path, background=False) as db:
        table = db.create_table(definition())
        load(db, table, range(0, 400, 2))
        for text in ("b", "c"):
            insert(db, table, range(0, 40, 2), text, Op.UPDATE)
            insert(db, table, range(101, 140, 2), text, Op.UPSERT)
            db.write(table, WriteBatch(batch(range(100 if text == "b" else 110, 120, 2)), Op.DELETE_IGNORE))
            insert(db, table, range(100, 110, 2), text, Op.UPSERT)
            (tablet,) = db._stores[table.id].tablets
            for stored in tablet.state.rowsets:
                flush_deltas(tablet, stored)
        db.write(table, WriteBatch(batch(range(101, 111, 2)), Op.DELETE))
        db.flush()
        insert(db, table, range(101, 105, 2), "again")
        db.write(table, WriteBatch(batch([200, 103]), Op.DELETE))
        insert(db, table, [202, 111], "log", Op.UPDATE)
    return path


@pytest.fixture
def changed(with_history, tmp_path):
    return shutil.copytree(with_history, tmp_path / "changed")


def delta_files(path):
    return sorted((path / ROWSETS).glob("*.delta"))


def test_a_store_with_history_is_clean(changed):
    report = check(changed)
    assert report.findings == []
    assert {p.name.rpartition("-")[0] for p in delta_files(changed)} == {
        "rowset-00000001-redo",
        "rowset-00000002-undo",
        "rowset-00000002-redo",
    }
    assert report.checked.delta_files == len(delta_files(changed)) >= 4
    assert report.checked.deltas > 60


def test_a_damaged_delta_file_is_found(changed):
    chance = random.Random(5)
    for path in delta_files(changed):
        whole = path.read_bytes()
        for offset in chance.sample(range(len(whole)), 8):
            flip(path, offset)
            assert [e.path for e in check(changed).errors] == [str(path)], f"{path} at {offset}"
            flip(path, offset)
        for size in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert {e.path for e in check(changed).errors} == {str(path)}, f"{path} cut to {size}"
        path.unlink()
        assert any(str(e).startswith(f"error: {path}: whole file: the file is missing") for e in check(changed).errors)
        path.write_bytes(whole)
    assert check(changed).findings == []


def test_delta_files_that_contradict_their_metadata_are_found(changed):
    before = metadata_of(changed)
    first, second = before.rowsets
    one, other = first.redo_files
    metadata_of(changed, rowsets=(replace(first, redo_files=(other, one)), second))
    assert lines(check(changed)) == [
        f"error: {ROWSETS}/{one}: footer: it has older deltas than {ROWSETS}/{other}, "
        "which the metadata names before it"
    ]
    metadata_of(changed, rowsets=(first, replace(second, newest_undo=second.newest_undo - (1 << 40))))
    (undo,) = second.undo_files
    assert (
        f"error: {ROWSETS}/{undo}: footer: it has newer deltas than the metadata says of the rowset's UNDO files"
        in lines(check(changed))
    )
    metadata_of(changed, rowsets=(replace(first, redo_files=(one, other, *second.redo_files)), second), newest=1)
    assert any("newer than the tablet's newest timestamp" in line for line in lines(check(changed)))


def test_deltas_of_rows_or_columns_that_cannot_be_are_found(changed):
    second = metadata_of(changed).rowsets[1]
    path = f"{changed}/{ROWSETS}/{second.undo_files[0]}"
    values = DeltaColumn(np.array([0]), pa.array(["x"]))
    stamp = second.newest_undo
    write_delta_file(FS, path, SCHEMA, Deltas.at(stamp, np.array([999]), DeltaKind.UPDATE, {1: values, 7: values}))
    assert sorted(
        line.removeprefix(f"error: {ROWSETS}/{second.undo_files[0]}: ") for line in lines(check(changed))
    ) == [
        f"block 0 at offset 16: deltas of the rows 999 to 999, the rowset has {second.row_count}",
        "footer: table t never had a column with id 7",
    ]
    write_delta_file(FS, path, SCHEMA, Deltas.at(stamp, np.array([3, 2]), DeltaKind.DELETE))
    assert any("the deltas do not ascend by row and time" in line for line in lines(check(changed)))
    write_delta_file(FS, path, SCHEMA, Deltas.at(stamp, np.array([3]), np.array([9], np.uint8)))
    assert any("deltas of an unknown kind" in line for line in lines(check(changed)))


def test_a_ghost_that_is_alive_again_is_found(changed):
    """Without its REDO files rowset 1 has keys that were deleted there and live elsewhere."""
    first, second = metadata_of(changed).rowsets
    metadata_of(changed, rowsets=(replace(first, redo_files=()), second))
    for name in first.redo_files:
        (changed / ROWSETS / name).unlink()
    found = lines(check(changed))
    assert found == [
        f"error: {TABLET}: key (k = {k}): it is alive in rowset 1 and in rowset 2" for k in range(100, 110, 2)
    ]


# ---- references ----------------------------------------------------------------------------------------------------


def metadata_of(path, **changes):
    """The tablet's metadata, written anew with some changes."""
    directory = str(path / TABLET)
    changed = replace(TabletMetadata.read(FS, directory), **changes)
    changed.write(FS, directory)
    return changed


def test_metadata_that_contradicts_itself_or_its_rowsets_is_found(store):
    before = metadata_of(store)
    first, second = before.rowsets
    wrong = replace(first, min_key=second.min_key)
    metadata_of(store, tablet_id="other", next_rowset_id=2, newest=1, rowsets=(wrong, second))
    found = "\n".join(lines(check(store)))
    assert f"{TABLET}/metadata: tablet id: expected t000001-p0000, found other" in found
    assert f"{TABLET}/metadata: next rowset id: 2 is not above rowset 2" in found
    assert f"{TABLET}/metadata: rowset 1: it is newer than the tablet's newest timestamp" in found
    assert f"{TABLET}/metadata: rowset 1: its least key is 80 00 00 00 00 00 00 00" in found


def test_a_file_of_another_rowset_is_found(store):
    rowset = metadata_of(store).rowsets[1]
    metadata_of(
        store,
        rowsets=(replace(rowset, column_files={0: "rowset-00000001-column-0000.col"} | {1: rowset.column_files[1]}),),
    )
    assert any("200 rows of column id 0, 100 of 0 expected" in line for line in lines(check(store)))


def test_a_key_in_two_rowsets_is_found(store, monkeypatch):
    before = metadata_of(store)
    metadata_of(store, rowsets=(*before.rowsets, replace(before.rowsets[1], id=3)), next_rowset_id=4)
    found = lines(check(store))
    assert f"error: {TABLET}: key (k = 101): it is alive in rowset 2 and in rowset 3" in found
    assert f"error: {TABLET}: keys: 90 more are alive in several places" in found
    assert len(found) == check_table.SHOWN_KEYS + 1


def test_a_key_in_a_rowset_and_in_the_log_is_found(tmp_path):
    path = tmp_path / "db"
    with Database(path) as db:
        table = db.create_table(definition())
        insert(db, table, [1, 2])
    shutil.copytree(path / TABLET / "wal", tmp_path / "wal")
    with Database(path) as db:
        db.flush()
    shutil.rmtree(path / TABLET / "wal")
    shutil.copytree(tmp_path / "wal", path / TABLET / "wal")
    metadata_of(path, durable_index=0, replay_index=0)
    assert lines(check(path)) == [
        f"error: {TABLET}: key (k = {k}): it is alive in rowset 1 and in the log" for k in (1, 2)
    ]


def test_rows_in_the_wrong_tablet_are_found(tmp_path):
    path = tmp_path / "db"
    with Database(path) as db:
        load(db, db.create_table(definition(partitions=RANGED)), range(150))
        insert(db, db.table("t"), [150])
    one, two = path / TABLE / "t000001-p0000", path / TABLE / "t000001-p0001"
    one.rename(path / "aside")
    two.rename(one)
    (path / "aside").rename(two)
    found = lines(check(path))
    assert sum("metadata: tablet id: expected" in line for line in found) == 2
    for kind in (
        ".col: footer: holds t000001-p0001/",
        ".bloom: footer: holds ",
        ".log: header at offset 0: belongs to ",
    ):
        assert any(kind in line and "files were mixed up" in line for line in found), kind


# ---- leftovers -----------------------------------------------------------------------------------------------------


def test_leftovers_of_a_crash_are_notes(store):
    before = reopened(store)
    newest = segments(store)[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(b"torn")
    for name in (
        "catalog.tmp",
        f"{TABLE}/load-0000000000000001.tmp",
        f"{TABLET}/metadata.tmp",
        f"{ROWSETS}/rowset-00000009.bloom",
    ):
        (store / name).write_bytes(b"half")
    (store / "tables" / "t000099").mkdir()
    report = check(store)
    assert report.is_clean
    assert sorted(lines(report)) == sorted(
        [
            "note: catalog.tmp: whole file: left of a replacement that a crash interrupted; harmless",
            "note: tables/t000099: directory: no table owns it; opening the store removes it",
            f"note: {TABLE}/load-0000000000000001.tmp: whole file: a bulk load that did not happen; opening the store "
            "removes it",
            f"note: {TABLET}/metadata.tmp: whole file: is no file of the tablet; harmless",
            f"note: {ROWSETS}/rowset-00000009.bloom: whole file: no metadata names it: left of an unfinished flush or "
            "load; opening the store removes it",
            f"note: {TABLET}/wal/{newest.name}: offset {size}: a torn tail of 4 bytes, never acknowledged; opening the "
            "store cuts it off",
        ]
    )
    # Opening does what the notes say.
    assert reopened(store) == before
    assert lines(check(store)) == [
        "note: catalog.tmp: whole file: left of a replacement that a crash interrupted; harmless"
    ]


def test_an_interrupted_load_is_checked_as_if_it_were_complete(tmp_path):
    path = tmp_path / "db"
    with Database(path) as db:
        load(db, db.create_table(definition()), range(50))
    done = metadata_of(path)
    record = LoadRecord(done.last_load, {done.tablet_id: TabletLoad(done.rowsets, done.next_rowset_id)})
    record.write(FS, str(path / TABLE))
    TabletMetadata(done.tablet_id).write(FS, str(path / TABLET))
    report = check(path)
    assert lines(report) == [
        f"note: {TABLE}/{record.name}: whole file: a bulk load that a crash interrupted; opening the store completes it"
    ]
    assert (report.checked.rowsets, report.checked.rows) == (1, 50)
    flip(path / TABLE / record.name, 40)
    (found,) = check(path).findings  # and the files are not called leftovers: that is unknown
    assert (found.path, found.place) == (str(path / TABLE / record.name), "payload at offset 24")
    flip(path / TABLE / record.name, 40)
    (path / ROWSETS / "rowset-00000001.bloom").unlink()
    assert any("rowset-00000001.bloom: whole file: the file is missing" in line for line in lines(check(path)))


def test_segments_whose_entries_are_in_files_are_notes(store):
    index = metadata_of(store).durable_index + 80
    metadata_of(store, durable_index=index, replay_index=index)
    found = lines(check(store))
    assert found
    assert all("what its entries did is in files" in line for line in found)


# ---- locks and keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["os", "memory"])
def test_shared_locks_keep_openers_out(tmp_path, kind):
    fs, path = (FS, str(tmp_path / "LOCK")) if kind == "os" else (MemoryFileSystem(), "/LOCK")
    fs.lock(path).release()
    one, two = fs.lock(path, shared=True), fs.lock(path, shared=True)
    one.release()
    with pytest.raises(StoreLocked):
        fs.lock(path)
    two.release()
    three = fs.lock(path)
    with pytest.raises(StoreLocked):
        fs.lock(path, shared=True)
    three.release()


def source(name, numbers):
    keys = Keys.from_values((BIGINT, STRING), [(n, "x") for n in numbers])
    encoded = [keys.encode_one(i) for i in range(len(keys))]
    return KeySource(name, min(encoded), max(encoded), lambda: [keys.slice(i, i + 3) for i in range(0, len(keys), 3)])


def test_repeated_keys_are_what_sets_say():
    chance = random.Random(3)
    for _ in range(50):
        sets = [set(chance.sample(range(60), chance.randint(1, 9))) for _ in range(chance.randint(1, 5))]
        found = repeated_keys([source(str(i), sorted(s)) for i, s in enumerate(sets)], limit=100)
        expected = {n: [str(i) for i, s in enumerate(sets) if n in s] for n in range(60)}
        assert {values[0]: sorted(names) for values, names in found.shown} == {
            n: names for n, names in expected.items() if len(names) > 1
        }
        assert found.count == len(found.shown)
