"""Readers of rowsets outside a scan: the files stay while a concurrent compaction replaces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nyala.errors import AlreadyPresent
from nyala.model.schema import Table
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.rowsets.disk_rowset import DiskRowSet
from tablet_support import definition, insert, load, read


class Interrupted:
    """A method or property of rowsets that does something else first, once: between the moment when a reader takes the
    rowsets and that when it opens their files."""

    def __init__(self, name: str, interruption: Callable[[], object]):
        self._original = vars(DiskRowSet)[name]
        self._interruption: Callable[[], object] | None = interruption

    def __get__(self, rowset: DiskRowSet, owner: type[DiskRowSet]) -> Any:
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            interruption()
        return self._original.__get__(rowset, owner)


def _load(db: Database, table: Table) -> Any:
    return load(db, table, [1, 3, 5])


def _load_what_is_there(db: Database, table: Table) -> Any:
    with pytest.raises(AlreadyPresent, match="4"):
        load(db, table, [1, 3, 4])


def _statistics(db: Database, table: Table) -> Any:
    return db.statistics(table).columns["v"].distinct_count


def _table_storage(db: Database, table: Table) -> Any:
    return db.table_storage(table).columns["v"].width


def _key_samples(db: Database, table: Table) -> Any:
    (tablet,) = db._tablets()
    return db.key_samples(table, tablet.id)


@pytest.mark.parametrize(
    ("read_files", "place", "answer"),
    [
        (_load, "scan", 3),
        (_load_what_is_there, "scan", None),
        (_statistics, "statistics", 3),
        (_table_storage, "reader", 2),
        (_key_samples, "key_samples", [(0,), (2,)]),
    ],
)
def test_files_of_rowsets_stay_while_they_are_read(
    read_files: Callable[[Database, Table], Any], place: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition())
        for keys in ([0, 4], [2]):
            insert(db, table, keys)
            db.flush(table)
    with Database("db", fs=fs, background=False) as db:
        table = db.table("t")
        (tablet,) = db._tablets()
        before = set(fs.list(tablet.rowset_directory))
        replaced: list[int] = []

        def compact() -> None:
            replaced.append(db.compact_table(table).rowsets_before)
            tablet.remove_retired()

        monkeypatch.setattr(DiskRowSet, place, Interrupted(place, compact))
        assert read_files(db, table) == answer
        assert replaced == [2]
        tablet.remove_retired()
        assert not before & set(fs.list(tablet.rowset_directory)), "they go afterwards"
        assert len(read(db, table)) == (6 if read_files is _load else 3)
