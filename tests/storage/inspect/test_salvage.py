"""Saving what can be read of a damaged table, and cutting a log at its damage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import forked_command
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.errors import CorruptionError, InterfaceError, StoreLocked, UnknownTable
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.cut_log import cut_log
from nyala.storage.inspect.salvage import salvage_table
from nyala.storage.maintenance.tablet_flush import flush_deltas
from tablet_support import batch, definition, insert, keys_of, read

TABLET = "t000001-p0000"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Rows 0 to 99 in one rowset, of which even ones below 20 are updated in a delta file and 30 to 39 deleted; 100 to
    129 in the log alone, in three entries, and 5 updated there."""
    path = tmp_path / "db"
    with Database(path, background=False) as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        db.flush(table)
        insert(db, table, range(0, 20, 2), "updated", Op.UPDATE)
        db.write(table, WriteBatch(batch(range(30, 40)), Op.DELETE))
        tablet = db._tablets()[0]
        flush_deltas(tablet, tablet.state.rowsets[0])
        for start in (100, 110, 120):
            insert(db, table, range(start, start + 10))
        insert(db, table, [5], "logged", Op.UPDATE)
    return path


def folder(path: Path) -> Path:
    return path / "tables" / "t000001" / TABLET


def salvaged(path: Path) -> tuple[dict[int, Any], list[str]]:
    salvage = salvage_table(OsFileSystem(), str(path), "t")
    table = pa.Table.from_batches(list(salvage.batches), salvage.schema)
    rows = dict(zip(table.column("k").to_pylist(), table.column("v").to_pylist()))
    assert len(rows) == table.num_rows
    return rows, salvage.lost


def whole(path: Path) -> dict[int, Any]:
    with Database(path, background=False) as db:
        return dict(read(db, db.table("t"), ("k", "v")))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def unchanged(path: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_of_a_whole_table_everything_is_salvaged(store: Path) -> None:
    before = unchanged(store)
    rows, lost = salvaged(store)
    assert unchanged(store) == before
    assert lost == []
    assert rows == whole(store)


def test_rows_before_a_damaged_log_entry_are_salvaged(store: Path) -> None:
    expected = whole(store)
    log = sorted(folder(store).glob("wal/*.log"))[-1]
    flip(log, log.stat().st_size - 700)
    rows, lost = salvaged(store)
    assert rows.keys() < expected.keys() and rows.keys() >= set(range(30)) | set(range(40, 100))
    assert all(expected[k] == v or k == 5 for k, v in rows.items())
    assert any("the log from entry" in line for line in lost)


def test_a_missing_column_is_null_and_the_keys_are_there(store: Path) -> None:
    expected = whole(store)
    next(folder(store).glob("rowsets/*-column-0001*.col")).unlink()
    rows, lost = salvaged(store)
    assert rows.keys() == expected.keys()
    assert {v for k, v in rows.items() if 20 < k < 100} == {None}
    assert (rows[10] == "updated" and rows[105] == "v105") or rows[105] == expected[105]
    assert any("column v" in line and "is missing" in line for line in lost)


def test_a_damaged_page_costs_its_column_alone(store: Path) -> None:
    expected = whole(store)
    flip(next(folder(store).glob("rowsets/*-column-0001*.col")), 20)
    rows, lost = salvaged(store)
    assert rows.keys() == expected.keys()
    assert rows[50] is None
    assert any("column v of rows 0 to 100" in line for line in lost)


def test_damaged_deltas_give_the_rows_from_before(store: Path) -> None:
    for path in folder(store).glob("rowsets/*-redo-*.delta"):
        flip(path, 20)
    rows, lost = salvaged(store)
    assert rows.keys() == set(range(130))
    assert (rows[10], rows[5]) == ("v10", "logged5")
    assert any("rows are as they were before" in line for line in lost)


def test_keys_that_cannot_be_read_cost_the_rowset(store: Path) -> None:
    flip(next(folder(store).glob("rowsets/*-column-0000*.col")), 20)
    rows, lost = salvaged(store)
    assert rows.keys() == set(range(100, 130))
    assert any("all of its 100 rows" in line for line in lost)


def test_without_metadata_the_files_are_guessed(store: Path) -> None:
    expected = whole(store)
    (folder(store) / "metadata").unlink()
    rows, lost = salvaged(store)
    assert rows == {k: v for k, v in expected.items() if k < 100 and k != 5} | {5: rows[5]}
    assert any("its metadata" in line for line in lost)


def test_a_missing_table_folder_is_a_loss(store: Path) -> None:
    (store / "tables").rename(store / "elsewhere")
    (store / "tables").mkdir()
    rows, lost = salvaged(store)
    assert rows == {} and lost
    with pytest.raises(UnknownTable):
        salvage_table(OsFileSystem(), str(store), "u")


def test_a_log_is_cut_at_its_damage_and_what_is_cut_off_is_kept(store: Path) -> None:
    expected = whole(store)
    log = sorted(folder(store).glob("wal/*.log"))[-1]
    original = log.read_bytes()
    flip(log, log.stat().st_size - 700)
    damaged = log.read_bytes()
    with Database(store, background=False) as db:
        with pytest.raises(CorruptionError):
            keys_of(db, db.table("t"))
        with pytest.raises(StoreLocked):
            cut_log(OsFileSystem(), str(store), TABLET)
    done = cut_log(OsFileSystem(), str(store), TABLET)
    assert done.known_lost >= 1
    assert Path(done.kept[0]).read_bytes() == damaged
    assert check_store(OsFileSystem(), str(store)).errors == []
    after = whole(store)
    assert set(range(100)) - set(range(30, 40)) <= after.keys() < expected.keys()
    with Database(store, background=False) as db:
        assert insert(db, db.table("t"), range(200, 210)).applied == 10
    assert whole(store).keys() == after.keys() | set(range(200, 210))
    with pytest.raises(InterfaceError, match="is whole"):
        cut_log(OsFileSystem(), str(store), TABLET)
    with pytest.raises(InterfaceError, match="no log of a tablet"):
        cut_log(OsFileSystem(), str(store), "t000009-p0000")
    assert original != damaged


def nyala(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_command.nyala("fs", *arguments)


@pytest.mark.slow
def test_the_commands(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    done = nyala("salvage", str(store), "t", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert pq.read_table(file).num_rows == 120
    log = sorted(folder(store).glob("wal/*.log"))[-1]
    flip(log, log.stat().st_size - 700)
    assert nyala("check", str(store)).returncode == 1
    assert json.loads(nyala("check", str(store), "--json").stdout)["ok"] is False
    done = nyala("salvage", str(store), "t", str(file))
    assert done.returncode == 1 and "lost: tablet t000001-p0000: the log from entry" in done.stdout
    before = unchanged(store)
    done = nyala("cut-log", str(store), TABLET)
    assert done.returncode == 1 and "LOSES ACKNOWLEDGED WRITES" in done.stderr
    assert unchanged(store) == before
    done = nyala("cut-log", str(store), TABLET, "--lose-acknowledged-writes")
    assert done.returncode == 0 and "ACKNOWLEDGED WRITES THAT ARE LOST: at least" in done.stdout
    assert nyala("check", str(store)).returncode == 0
