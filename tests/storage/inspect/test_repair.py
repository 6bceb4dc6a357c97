"""Repair after damage of any kind to any file: no row that could be read is lost, and no file with data changes."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import forked_command
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, OperationalError, StoreLocked, UnsupportedFormat
from nyala.model.partitions.partition import Partitioner
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.repair.repair_store import Repair, propose_repair, repair_store
from nyala.storage.inspect.salvage import Salvage
from nyala.storage.maintenance.tablet_flush import flush_deltas
from nyala.storage.tables.catalog import CatalogEntry
from tablet_support import HASHED, batch, definition, insert, load, read

Files = dict[str, bytes]
Rows = dict[str, dict[int, str]]


def build(fs: Any, path: str) -> None:
    """Table `t` of one tablet and `h` of three, each with rowsets, deltas and rows in the log alone."""
    with Database(path, fs=fs, background=False) as db:
        for table in (db.create_table(definition("t")), db.create_table(definition("h", HASHED))):
            insert(db, table, range(60))
            db.flush(table)
            load(db, table, range(100, 160))
            insert(db, table, range(0, 20, 2), "updated", Op.UPDATE)
            db.write(table, WriteBatch(batch(range(30, 40)), Op.DELETE))
            for tablet in db.open_table(table).tablets:
                for stored in tablet.state.rowsets:
                    flush_deltas(tablet, stored)
            db.analyze_table(table)
            insert(db, table, range(200, 220))
            insert(db, table, [5, 105], "logged", Op.UPDATE)


def files_of(fs: MemoryFileSystem, path: str = "/db") -> Files:
    found: Files = {}
    for name in fs.list(path):
        inner = f"{path}/{name}"
        try:
            found |= files_of(fs, inner)
        except OperationalError:
            found[inner] = fs.open(inner).read_at(0, fs.open(inner).size)
    return found


def filled(files: Files) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for path, content in files.items():
        fs.make_directory(path.rpartition("/")[0])
        fs.create(path).write(content)
    return fs


def whole_files() -> Files:
    fs = MemoryFileSystem()
    build(fs, "/db")
    return files_of(fs)


KEYS = batch(range(220)).select(["k"])
WHOLE = whole_files()
PATHS = sorted(path for path in WHOLE if not path.endswith("/LOCK"))


def readable(files: Files) -> Rows | str:
    """The readable rows of each tablet, by its id; the error if the store does not open."""
    try:
        db = Database("/db", fs=filled(files), background=False)
    except (CorruptionError, UnsupportedFormat, OperationalError) as error:
        return str(error)
    rows: Rows = {}
    with db:
        for table in db.tables():
            for tablet, found in by_tablet(db, table).items():
                rows[tablet] = found
    return rows


def by_tablet(db: Database, table: Any) -> Rows:
    """The rows that look-ups by key give, of the tablets that are not in quarantine."""
    tablets = db.open_table(table).tablets
    places = Partitioner(table.schema, table.partitions).route(KEYS)
    found: Rows = {tablet.id: {} for tablet in tablets if tablet.damage is None}
    for k, place in enumerate(places.tolist()):
        if tablets[place].damage is None:
            with contextlib.suppress(CorruptionError):
                row = db.read_row(table, [k], ["k", "v"])
                if row is not None:
                    found[tablets[place].id][row[0]] = row[1]
    return found


class Saved:
    def __init__(self) -> None:
        self.rows: Rows = {}

    def __call__(self, entry: CatalogEntry, tablet_id: str, salvage: Salvage) -> str:
        table = pa.Table.from_batches(list(salvage.batches), salvage.schema)
        self.rows[tablet_id] = dict(zip(table.column("k").to_pylist(), table.column("v").to_pylist()))
        return tablet_id


def damaged(path: str, how: str, rng: random.Random) -> Files:
    files = dict(WHOLE)
    content = bytearray(files[path])
    if how == "remove":
        del files[path]
        return files
    if how == "cut" or not content:
        del content[rng.randrange(len(content) + 1) :]
    elif how == "zero":
        start = rng.randrange(len(content))
        content[start : start + 512] = bytes(len(content[start : start + 512]))
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    files[path] = bytes(content)
    return files


@settings(max_examples=examples(120), deadline=None)
@given(
    path=st.sampled_from(PATHS), how=st.sampled_from(["flip", "cut", "remove", "zero"]), seed=st.integers(0, 1 << 30)
)
def test_repair_loses_no_row_that_was_readable(path: str, how: str, seed: int) -> None:
    files = damaged(path, how, random.Random(seed))
    before = readable(files)
    fs, saved = filled(files), Saved()
    repair = repair_store(fs, "/db", saved)
    after_files = files_of(fs)
    for name, content in files.items():
        if after_files.get(name) != content and not name.endswith("/LOCK"):
            assert name.endswith((".bloom", "/statistics", "/FORMAT")), f"{name} was changed"
    after = readable(after_files)
    if isinstance(before, str):
        assert isinstance(after, dict) or path in ("/db/catalog", "/db/FORMAT")
        if isinstance(after, str):
            assert path in after and not repair.remaining.is_clean
        return
    assert isinstance(after, dict)
    for tablet, rows in before.items():
        assert after[tablet] == rows
        if tablet in saved.rows:
            assert saved.rows[tablet].keys() >= rows.keys()
            known = {k: v for k, v in saved.rows[tablet].items() if k in rows}
            assert known == rows
    for tablet in {"t000001-p0000", *(f"t000002-p000{n}" for n in range(3))} - before.keys():
        assert tablet in saved.rows  # in quarantine
    again = repair_store(fs, "/db", saved)
    assert again.steps == []


def repaired(files: Files) -> tuple[Repair, Saved, Files]:
    saved, fs = Saved(), filled(files)
    return repair_store(fs, "/db", saved), saved, files_of(fs)


def test_a_whole_store_needs_no_repair() -> None:
    repair, saved, files = repaired(WHOLE)
    assert repair.lines() == ["repair: nothing to do"]
    assert saved.rows == {} and files == WHOLE


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_bloom_filters_are_rebuilt_as_they_were(how: str) -> None:
    path = next(path for path in PATHS if path.endswith(".bloom"))
    files = damaged(path, how, random.Random(1))
    fs = filled(files)
    proposed = propose_repair(fs, "/db", check_store(fs, "/db"))
    assert [(step.kind, step.path) for step in proposed.steps] == [("rebuild", path)]
    assert proposed.tablets == [] and proposed.lines()[0].startswith(f"repair: would rebuild {path}: ")
    assert files_of(fs) == files
    repair, saved, after = repaired(files)
    assert after == WHOLE and saved.rows == {}
    assert repair.remaining.findings == [] and repair.lines()[0].startswith(f"repair: rebuilt {path}: ")


def test_leftovers_are_removed_only_if_it_is_certain_that_nothing_names_them() -> None:
    folder = "/db/tables/t000001/t000001-p0000"
    extra = {
        f"{folder}/rowsets/rowset-00000099-column-0000.col": b"x",
        f"{folder}/rowsets/notes.txt": b"of a person",
        f"{folder}/metadata.tmp": b"half",
        "/db/tables/t000001/statistics.tmp": b"half",
    }
    _, _, after = repaired(WHOLE | extra)
    assert after == WHOLE | {f"{folder}/rowsets/notes.txt": b"of a person"}
    uncertain = WHOLE | extra | {"/db/tables/t000001/load-00000000000000ff": b"damaged"}
    repair, saved, after = repaired(uncertain)
    assert f"{folder}/rowsets/rowset-00000099-column-0000.col" in after
    assert saved.rows.keys() == {"t000001-p0000"} and not repair.remaining.is_clean


def test_losses_are_named_by_rowset_and_keys() -> None:
    path = next(path for path in PATHS if "/t000001-p0000/" in path and "rowset-00000001-column-0000" in path)
    repair, _, after = repaired(damaged(path, "zero", random.Random(3)))
    assert after[path] != WHOLE[path]
    (tablet,) = repair.tablets
    assert (tablet.table, tablet.tablet_id) == ("t", "t000001-p0000")
    assert any(
        "rowset 1: all of its 60 rows, keys (0) to (59): its keys cannot be read" in line for line in tablet.lost
    )


def test_an_open_store_is_not_repaired(tmp_path: Path) -> None:
    with Database(tmp_path / "db", background=False), pytest.raises(StoreLocked):
        repair_store(OsFileSystem(), str(tmp_path / "db"), Saved())
    with pytest.raises(OperationalError, match="is no nyala store"):
        repair_store(OsFileSystem(), str(tmp_path), Saved())
    assert not (tmp_path / "LOCK").exists()


def nyala(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.nyala("fs", "check", *arguments)


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "db"
    build(OsFileSystem(), str(path))
    bloom = next(path.rglob("t000001-p0000/rowsets/*.bloom"))
    bloom.unlink()
    (path / "tables" / "t000002" / "t000002-p0001" / "metadata").write_bytes(b"damaged")
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    done = nyala(str(path))
    assert done.returncode == 1 and f"repair: would rebuild {bloom}" in done.stdout
    assert "repair: would save the readable rows of tablet t000002-p0001 of table h" in done.stdout
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    assert nyala(str(path), "--save-to", "x").returncode == 1
    folder = tmp_path / "saved"
    done = nyala(str(path), "--repair", "--save-to", str(folder), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    result = json.loads(done.stdout)["repair"]
    assert result["done"] and [step["path"] for step in result["steps"]] == [str(bloom)]
    assert sorted(p.name for p in folder.iterdir()) == ["report.json", "t000002-p0001.parquet", "t000002.sql"]
    (tablet,) = json.loads((folder / "report.json").read_text())["tablets"]
    assert tablet["rows"] == pq.read_table(tablet["saved_as"]).num_rows > 0
    assert any("its metadata" in line for line in tablet["lost"])
    assert "CREATE TABLE h" in (folder / "t000002.sql").read_text()
    assert bloom.exists()
    with Database(path, background=False) as db:
        assert len(read(db, db.table("t"))) == 130
