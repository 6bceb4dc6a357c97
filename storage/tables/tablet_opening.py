"""Opening the tablets of a table: interrupted bulk loads are completed, damaged tablets put in quarantine.

Each tablet is read without a change to its files first: metadata, load records, rowsets, log. Only if all of them are
valid are its leftovers removed and its torn tail cut (`open_tablet`), and its metadata replaced if a load was
completed. A damaged tablet is put in quarantine unchanged (`damaged_tablet`), and all others are opened.

A load record stays as long as one of its tablets is in quarantine: without it, that tablet would lack the load when its
files are whole again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import field
from functools import partial
from typing import TypeVar

from ...errors import CorruptionError
from ...model.clock import HybridClock
from ...model.lazy_dataclass import dataclass
from ..files.checked_file import TEMPORARY_SUFFIX
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..loads.load_record import PREFIX, LoadRecord
from ..log.commit_log import CommitLog
from ..tablet.damaged_tablet import damage_in, damaged_tablet
from ..tablet.tablet import StoreOptions, Tablet
from ..tablet.tablet_metadata import TabletMetadata
from ..tablet.tablet_replay import open_tablet
from .catalog import CatalogEntry

T = TypeVar("T")

_log = logging.getLogger("nyala.storage")


@dataclass(slots=True)
class TabletOpening:
    """The opening of the tablets of one table.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        The table's.
    entry : CatalogEntry
    cache, clock, options
        What all tablets share.
    pool : Executor
        Opens several tablets at once.
    commits : CommitLog
        The store's, which decides on writes over several tablets.
    """

    fs: FileSystem
    directory: str
    entry: CatalogEntry
    cache: PageCache
    clock: HybridClock
    options: StoreOptions
    pool: Executor
    commits: CommitLog
    _damage: dict[str, CorruptionError] = field(default_factory=dict)
    """By tablet id."""

    def run(self) -> list[Tablet]:
        """The tablets, one per partition and in their order. `UnsupportedFormat` where a file is of a newer nyala,
        `DiskError` where the disk fails otherwise than by damage."""
        if not self.fs.exists(self.directory):
            missing = CorruptionError("it is missing", self.directory, f"folder of table {self.entry.table.name}")
            return [self._set_aside(tablet_id, missing) for tablet_id in self.entry.tablet_ids]
        self._remove_leftovers()
        known: dict[str, TabletMetadata] = {}
        for tablet_id in self.entry.tablet_ids:
            found = self._guarded(tablet_id, partial(self._read_metadata, tablet_id))
            if found is not None:
                known[tablet_id] = found
        records = self._read_loads(known)
        after = dict(known)
        for record in records:
            for tablet_id, load in record.tablets.items():
                # A tablet that is missing was dropped with its range partition, after the load.
                if tablet_id in after and after[tablet_id].last_load < record.timestamp:
                    after[tablet_id] = load.applied_to(after[tablet_id], record.timestamp)

        def opened(tablet_id: str) -> Tablet:
            found = self._guarded(tablet_id, lambda: self._open(tablet_id, after[tablet_id]))
            return self._set_aside(tablet_id, self._damage[tablet_id]) if found is None else found

        tablets = list(self.pool.map(opened, self.entry.tablet_ids))
        for tablet in tablets:
            if tablet.damage is None and after[tablet.id] is not known[tablet.id]:
                tablet.metadata.write(self.fs, tablet.directory)
        self._remove_loads(records, {tablet.id for tablet in tablets if tablet.damage is not None})
        return tablets

    def _guarded(self, tablet_id: str, step: Callable[[], T]) -> T | None:
        """Run a step of the tablet's opening; None if it is damaged, with the error in `_damage`."""
        if tablet_id in self._damage:
            return None
        try:
            return step()
        except Exception as error:
            damage = damage_in(error, f"{self.directory}/{tablet_id}")
            if damage is None:
                raise
            self._damage[tablet_id] = damage
            return None

    def _set_aside(self, tablet_id: str, damage: CorruptionError) -> Tablet:
        return damaged_tablet(
            self.fs,
            f"{self.directory}/{tablet_id}",
            tablet_id,
            self.entry.table,
            damage,
            cache=self.cache,
            clock=self.clock,
            options=self.options,
        )

    def _remove_leftovers(self) -> None:
        """Remove the folders that a crash left of an ALTER TABLE, or of a range partition that was dropped."""
        for name in self.fs.list(self.directory):
            if name.startswith(f"{self.entry.table.id}-p") and name not in self.entry.tablet_ids:
                self.fs.remove_tree(f"{self.directory}/{name}")
                _log.info("table %s: removed %s, which no catalog names", self.entry.table.name, name)

    def _read_metadata(self, tablet_id: str) -> TabletMetadata:
        path = f"{self.directory}/{tablet_id}"
        for name in ("metadata", "wal", "rowsets"):
            if not self.fs.exists(f"{path}/{name}"):
                message = f"tablet of table {self.entry.table.name}"
                raise CorruptionError("it is missing", f"{path}/{name}", message)
        return TabletMetadata.read(self.fs, path, tablet_id)

    def _open(self, tablet_id: str, metadata: TabletMetadata) -> Tablet:
        path = f"{self.directory}/{tablet_id}"
        tablet = open_tablet(
            self.fs,
            path,
            self.entry.table,
            metadata,
            cache=self.cache,
            clock=self.clock,
            options=self.options,
            commits=self.commits,
        )
        for name in self.fs.list(path):
            if name.endswith(TEMPORARY_SUFFIX):
                self.fs.remove(f"{path}/{name}")
        return tablet

    # ---- bulk loads ----------------------------------------------------------------------------------------------

    def _read_loads(self, known: dict[str, TabletMetadata]) -> list[LoadRecord]:
        """The records of loads that happened. Where one is damaged, so are the tablets that may lack its rows."""
        records: list[LoadRecord] = []
        for name in self.fs.list(self.directory):
            path = f"{self.directory}/{name}"
            if not name.startswith(PREFIX):
                continue
            if name.endswith(TEMPORARY_SUFFIX):
                self.fs.remove(path)
                continue
            try:
                record = LoadRecord.read(self.fs, path)
                record.check_place(path, self.entry.table.id)
                records.append(record)
            except Exception as error:
                damage = damage_in(error, path)
                if damage is None:
                    raise
                lacking = [i for i, m in known.items() if m.last_load < LoadRecord.timestamp_of(name)]
                self._damage.update({tablet_id: damage for tablet_id in lacking if tablet_id not in self._damage})
        return records

    def _remove_loads(self, records: list[LoadRecord], damaged: set[str]) -> None:
        for record in records:
            if damaged.isdisjoint(record.tablets):
                record.remove(self.fs, self.directory)
