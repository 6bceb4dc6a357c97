"""Delta compactions of one DiskRowSet: row offsets stay, so that scans and writes go on beside them.

    minor   [REDO 1][REDO 2][REDO 3][REDO 4]   ──►   [REDO 1][REDO 5      ][REDO 4]

    major   UNDO files     base     REDO files       UNDO files      base     REDO
            [... t7]    a  b  c     [b c][b -]  ──►  [... t7][b]  a  b' c     [c -]        of column b
                                                     [... t7][bc] a  b' c'    [-]          of all columns

A minor compaction makes one file of several consecutive REDO files; nothing else changes. A major compaction brings the
values of some columns forward: new column files with the newest values, an UNDO file with those from before, and one
REDO file with what is left: values of other columns, and DELETEs (`-`), which base data cannot express.

Deltas in memory are not touched; they go on applying to the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ...model.schema import ColumnSchema
from ..columns.column_writer import write_column
from ..deltas.deltas import Deltas, merge
from ..deltas.inversion import invert
from ..deltas.version_merge import above, combined
from ..rowsets.rowset_source import RowSetSource
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Tablet
from .rewrite import NewFiles, exchange

# ---- minor -------------------------------------------------------------------------------------------------------


def compact_minor(tablet: Tablet, stored: StoredRowSet, first: int = 0, last: int | None = None) -> int:
    """`perform_minor`, which takes `flush_lock`; 0 where the rowset is not in the tablet's state any more."""
    with tablet.flush_lock:
        return perform_minor(tablet, stored, first, last) if stored in tablet.state.rowsets else 0


def perform_minor(tablet: Tablet, stored: StoredRowSet, first: int = 0, last: int | None = None) -> int:
    """Make one file of the REDO files `first` to `last` (exclusive) of a rowset of the tablet's state; the bytes
    written, 0 where there are fewer than two.

    Needs `flush_lock`; takes `metadata_lock` for the metadata and `write_lock` for the swap. Costs reading and writing
    the files once, and holds their deltas in memory.

    Raises `DiskError` where the disk fails; nothing has changed then.
    """
    files = stored.redo[first:last]
    if len(files) < 2:
        return 0
    behind = first + len(files)
    stored.deleted.load()  # before `publish`: see `reopened`
    deltas = merge([file.read(0, stored.row_count) for file in files])
    deltas = deltas.only_columns(deltas.columns)
    before = stored.metadata
    with NewFiles(tablet) as new:
        names = new.write_deltas("redo", before.id, before.redo_files, deltas)
        redo_files = (*before.redo_files[:first], *names, *before.redo_files[behind:])
        metadata = new.resized(before, replace(before, redo_files=redo_files), new.size)
        with tablet.between_transactions():
            new.publish(lambda known: known.with_rowsets([before.id], [metadata]))
            exchange(tablet, [(stored, metadata)])
    return new.size


# ---- major -------------------------------------------------------------------------------------------------------


def compact_major(
    tablet: Tablet,
    stored: StoredRowSet,
    columns: Collection[int] | None = None,
    check: Callable[[], object] = lambda: None,
) -> int:
    """`perform_major`, which takes `flush_lock`; 0 where the rowset is not in the tablet's state any more."""
    with tablet.flush_lock:
        return perform_major(tablet, stored, columns, check) if stored in tablet.state.rowsets else 0


def perform_major(
    tablet: Tablet,
    stored: StoredRowSet,
    columns: Collection[int] | None = None,
    check: Callable[[], object] = lambda: None,
) -> int:
    """Bring the values that REDO files of a rowset of the tablet's state give some columns into the base data; the
    bytes written, 0 where there is no such value.

    Needs `flush_lock`; takes `metadata_lock` for the metadata and `write_lock` for the swap. Costs reading and writing
    the columns that have new values, and the REDO files. In memory are the old values of the cells that change, all
    REDO values of other columns, and one column at a time.

    Parameters
    ----------
    columns : collection of int, optional
        Permanent ids; all columns if None.
    check : callable
        Called before each column.

    Raises `DiskError` where the disk fails, and what `check` raises; nothing has changed then.
    """
    changed = _changed_columns(tablet, stored, columns)
    if not changed:
        return 0
    stored.deleted.load()  # before `publish`: see `reopened`
    before = stored.metadata
    with NewFiles(tablet) as new:
        files, undo = _write_columns(tablet, new, stored, changed, check)
        check()
        rest = _rest(tablet, stored, {column.id for column in changed})
        redo_files = new.write_deltas("redo", before.id, before.redo_files, rest)
        undo_files = new.write_deltas("undo", before.id, before.undo_files, undo)
        metadata = replace(
            before,
            column_files={**before.column_files, **files},
            redo_files=redo_files,
            undo_files=(*before.undo_files, *undo_files),
            newest_undo=max(before.newest_undo, undo.newest),
        )
        metadata = new.resized(before, metadata, new.size)
        with tablet.between_transactions():
            new.publish(lambda known: known.with_rowsets([before.id], [metadata]))
            exchange(tablet, [(stored, metadata)])
    return new.size


def _changed_columns(tablet: Tablet, stored: StoredRowSet, columns: Collection[int] | None) -> list[ColumnSchema]:
    """The requested columns that have values in REDO files."""
    given = {column for file in stored.redo for column, count in file.statistics.updates.items() if count}
    wanted = given if columns is None else given.intersection(columns)
    return [column for column in tablet.table.schema.columns if column.id in wanted]


def _write_columns(
    tablet: Tablet,
    new: NewFiles,
    stored: StoredRowSet,
    columns: Collection[ColumnSchema],
    check: Callable[[], object],
) -> tuple[dict[int, str], Deltas]:
    """New files of some columns, by id, and the UNDO deltas that restore the old values."""
    source = RowSetSource(stored, 0)
    files = {}
    undone = []
    for column in columns:
        check()
        redo = merge([file.read(0, stored.row_count, (column.id,)) for file in stored.redo])
        check()
        base = source.base(column, 0, stored.row_count)
        turned = invert((column,), {column.id: base}, redo)
        check()
        stem = f"rowset-{stored.metadata.id:08d}-column-{column.id:04d}"
        name = files[column.id] = new.name(stem, "col", 4, [stored.metadata.column_files.get(column.id, "")])
        new.size += write_column(tablet.fs, new.path(name), column, turned.columns[column.id])
        undone.append(above(turned.undo, tablet.metadata.ancient_history_mark))
    return files, combined(undone)


def _rest(tablet: Tablet, stored: StoredRowSet, columns: Collection[int]) -> Deltas:
    """The REDO deltas without the values of some columns."""
    others = {column.id for column in tablet.table.schema.columns}.difference(columns)
    return merge([file.read(0, stored.row_count, others).only_columns(others) for file in stored.redo])
