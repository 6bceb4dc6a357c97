"""Shared steps of rewriting rowsets: files are written, named by the metadata, and replace others.

    write files ──► sync their names ──► metadata names them ──► state has them ──► files that went out of use: retired
        └── an error up to here removes them          └── from here on they exist

If the replacement of the metadata fails, the file may have been replaced nevertheless, although a crash might undo
that. The new files then stay, and the state and the next replacement are as before; the next opening removes files that
are not named. Therefore no new file gets the name of an existing one, known or not.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from types import TracebackType

from ...errors import DiskError, InternalError, OperationalError
from ..columns.column_reader import ColumnReader
from ..deltas.delta_file import DeltaFile, write_delta_file
from ..deltas.delta_memstore import DeltaMemStore
from ..deltas.deltas import DeltaKind, Deltas
from ..deltas.version_merge import without_insertions
from ..keys.bloom import BloomReader
from ..rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ..rowsets.stored_rowset import PatchCache, StoredRowSet
from ..tablet.tablet import Cut, Tablet
from ..tablet.tablet_metadata import TabletMetadata

_NUMBER = re.compile(r"-(\d+)\.\w+")


class NewFiles:
    """Files of one piece of background work on a tablet, whose `flush_lock` is held. A context manager: an exception
    before `publish` removes them. `TabletGone` where the tablet has been dropped."""

    def __init__(self, tablet: Tablet):
        self._tablet = tablet
        self.paths: list[str] = []
        """Those written so far, to be removed where the work fails."""
        self.size = 0
        """Bytes in them."""
        self._may_be_named = False

    def __enter__(self) -> NewFiles:
        self._tablet.check_not_dropped()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        # The current error is more useful than a second one from cleanup.
        with contextlib.suppress(OperationalError):
            named = self._named() if self._may_be_named else set()
            for path in self.paths:
                if posixpath.basename(path) not in named and self._tablet.fs.exists(path):
                    self._tablet.cache.handles(self._tablet.fs).forget(path)
                    self._tablet.fs.remove(path)

    def _named(self) -> set[str]:
        """Files that the metadata file names, whether it was replaced or not."""
        metadata = TabletMetadata.read(self._tablet.fs, self._tablet.directory)
        return {name for rowset in metadata.rowsets for name in rowset_files(rowset)}

    def name(self, stem: str, suffix: str, width: int, taken: Iterable[str]) -> str:
        """A file name `stem-NUMBER.suffix` that is not in use, with a number above those of the names `taken`."""
        numbers = [_NUMBER.fullmatch(name, len(stem)) for name in taken if name.startswith(stem)]
        number = max((int(found.group(1)) for found in numbers if found), default=0) + 1
        while self._tablet.fs.exists(self.path(f"{stem}-{number:0{width}d}.{suffix}")):
            number += 1
        name = f"{stem}-{number:0{width}d}.{suffix}"
        path = self.path(name)
        self.paths.append(path)
        # A file of this name may have been there, and a handle of it may be open yet.
        self._tablet.cache.handles(self._tablet.fs).forget(path)
        return name

    def path(self, name: str) -> str:
        """Path of a file of the rowset directory."""
        return posixpath.join(self._tablet.rowset_directory, name)

    def write_deltas(self, kind: str, rowset: int, taken: Iterable[str], deltas: Deltas) -> tuple[str, ...]:
        """Write a delta file ("undo" or "redo") of a rowset: its name, or nothing where there are no deltas."""
        if not len(deltas):
            return ()
        name = self.name(f"rowset-{rowset:08d}-{kind}", "delta", 6, taken)
        self.size += write_delta_file(self._tablet.fs, self.path(name), self._tablet.table.schema, deltas)
        return (name,)

    def with_deltas(
        self, metadata: RowSetMetadata, undo: Deltas, deletes: Deltas, redo_index: int, inserted: int = 0
    ) -> RowSetMetadata:
        """Write the delta files of a rowset whose base data are new: its metadata with them. `undo` has the insertions
        but for those at `inserted`, if that is not 0."""
        before = self.size
        if not inserted:
            undo, inserted = without_insertions(undo, metadata.row_count)
        undo_files = self.write_deltas("undo", metadata.id, (), undo)
        redo_files = self.write_deltas("redo", metadata.id, (), deletes)
        return replace(
            metadata,
            undo_files=undo_files,
            redo_files=redo_files,
            newest_undo=max(undo.newest, inserted),
            inserted=inserted,
            redo_index=redo_index,
            data_bytes=metadata.data_bytes + self.size - before,
        )

    def resized(self, before: RowSetMetadata, after: RowSetMetadata, written: int) -> RowSetMetadata:
        """`after`, with the bytes of the rowset's files, of which `written` are new."""
        gone = set(rowset_files(before)).difference(rowset_files(after))
        handles = self._tablet.cache.handles(self._tablet.fs)
        removed = sum(handles.size(self.path(name)) for name in gone)
        return replace(after, data_bytes=before.data_bytes + written - removed)

    def publish(
        self,
        update: Callable[[TabletMetadata], TabletMetadata],
        *,
        mark: int = 0,
        cut: Cut | None = None,
        flushed: Collection[DeltaMemStore] = (),
    ) -> None:
        """Have the tablet's metadata name the files: `update` gives the metadata from what it is.

        `mark` becomes the ancient history mark, if it is above what it was; `cut` and `flushed` as for
        `Tablet.write_metadata`. Takes `metadata_lock`; `DiskError` where the disk fails.
        """
        tablet = self._tablet
        tablet.check_not_dropped()
        tablet.fs.sync_directory(tablet.rowset_directory)
        with tablet.metadata_lock:
            _check_agreement(tablet)
            metadata = update(tablet.metadata)
            metadata = replace(metadata, ancient_history_mark=max(mark, metadata.ancient_history_mark))
            self._may_be_named = True
            tablet.write_metadata(metadata, cut, flushed)


def _check_agreement(tablet: Tablet) -> None:
    """Raise `InternalError` unless metadata and state name the same rowsets: if an operation ended between the two,
    later writes would return rows twice. The log has everything: after reopening, the tablet has the state of the
    metadata. Needs `metadata_lock`."""
    if {m.id for m in tablet.metadata.rowsets} != {r.metadata.id for r in tablet.state.rowsets}:
        raise InternalError(
            f"an operation on tablet {tablet.id} of table {tablet.table.name} ended between its files and its state; "
            "close the store and open it again"
        )


def reopened(tablet: Tablet, stored: StoredRowSet, metadata: RowSetMetadata) -> StoredRowSet:
    """The same rowset with the files of new metadata: kept files are shared, and so is all memory.

    Reads nothing, if `stored.deleted.load` was called before: files named by the metadata must be in the state, even if
    the disk fails.
    """
    known = {posixpath.basename(file.path): file for file in (*stored.undo, *stored.redo)}
    handles = tablet.cache.handles(tablet.fs)

    def opened(names: Sequence[str]) -> tuple[DeltaFile, ...]:
        return tuple(
            known.get(name)
            or DeltaFile(handles, posixpath.join(tablet.rowset_directory, name), tablet.table.schema, tablet.cache)
            for name in names
        )

    return replace(
        stored,
        rowset=stored.rowset.with_metadata(metadata, tablet.fs, tablet.rowset_directory, tablet.cache),
        undo=opened(metadata.undo_files),
        redo=opened(metadata.redo_files),
        cache=PatchCache(),
    )


def exchange(
    tablet: Tablet, changes: Sequence[tuple[StoredRowSet, RowSetMetadata]], gone: Sequence[StoredRowSet] = ()
) -> None:
    """Add rowsets with changed files, which the metadata names already, to the state, and remove others from it.

    Needs `flush_lock`, and `Tablet.between_transactions`; acquires `write_lock` and `metadata_lock` briefly.
    """
    new = [reopened(tablet, stored, metadata) for stored, metadata in changes]
    with tablet.swap():
        tablet.replace_rowsets(gone, [])
        for (before, _), after in zip(changes, new):
            tablet.replace_rowsets([before], [after])
    retire_replaced(tablet, [*gone, *(before for before, _ in changes)], new)


def retire_replaced(tablet: Tablet, old: Sequence[StoredRowSet], new: Sequence[StoredRowSet]) -> None:
    """Close readers and remove files of only the old rowsets, when they have no readers.

    To be called after metadata and state have the new rowsets. A file that cannot be removed now is removed later.
    """
    kept = {name for stored in new for name in rowset_files(stored.metadata)}
    names = [name for stored in old for name in rowset_files(stored.metadata) if name not in kept]
    shared = {reader for stored in new for reader in _readers(stored)}
    closers = [reader.close for stored in old for reader in _readers(stored) if reader not in shared]
    tablet.retire(closers, [posixpath.join(tablet.rowset_directory, name) for name in names])
    with contextlib.suppress(DiskError):
        tablet.remove_retired()
    with contextlib.suppress(DiskError):
        tablet.trim_log()


def _readers(stored: StoredRowSet) -> list[ColumnReader | BloomReader | DeltaFile]:
    return [*stored.rowset.readers, *stored.undo, *stored.redo]


def part(deltas: Deltas, start: int, row_count: int) -> Deltas:
    """The deltas of `row_count` rows from number `start` on, by their offsets from there."""
    found = deltas.between(start, start + row_count)
    return replace(found, rows=found.rows - start)


def carry_over(deltas: Deltas, rowsets: Sequence[StoredRowSet], first_index: int, last_index: int) -> None:
    """Give rowsets that were written from a cut the deltas that came after it, logged as `first_index` to `last_index`.

    `deltas` count the rows through all `rowsets`. Needs the tablet's `write_lock`, with no write undecided.
    """
    start = 0
    for stored in rowsets:
        mine = part(deltas, start, stored.row_count)
        start += stored.row_count
        if len(mine):
            stored.memstore.append(mine, first_index)
            stored.memstore.last_index = last_index
            stored.deleted.add(mine.rows[mine.kinds == DeltaKind.DELETE])
