"""Files of a replica that cannot be read: found out for certain, before the replica is given up for it.

An error while reading names a file. The file is read once more, all of it and not from memory: a file that is whole
then is no reason to replace a replica, whatever the error was (a bit that turned over in memory, a fault in the code
that read it). Files that the tablet's metadata do not name any more are no reason either.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from ...errors import Error
from ...model.schema import Schema
from ...storage.deltas.delta_file import DeltaFile
from ...storage.files.filesystem import FileSystem
from ...storage.files.page_cache import PageCache
from ...storage.inspect.check.check_rowset import check_column
from ...storage.inspect.check.findings import Report
from ...storage.keys.bloom import BloomReader
from ...storage.rowsets.rowset_metadata import RowSetMetadata
from ...storage.tablet.tablet import Tablet, rowset_files
from ..disk_errors import FILE_ERRORS


class Watched:
    """A context manager that judges the errors of what is done within. Has no state; safe for several threads.

    No frame of its own refers to an error and is referred to by it: what was read when the error came is let go of with
    the error, not when the cyclic collector comes. Until then the replica's files would count as read, and could not be
    replaced.

    Parameters
    ----------
    judge : callable
        From an error of files to the one to raise, which may be the same (`Replica.met`).
    """

    __slots__ = ("_judge",)

    def __init__(self, judge: Callable[[Exception], Exception]):
        self._judge = judge

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, FILE_ERRORS):
            judged = self._judge(error)
            if judged is not error:
                error.__traceback__ = None
                try:
                    raise judged from error
                finally:
                    del judged, error, traceback


def damage_of(tablet: Tablet, named: str) -> str:
    """Say what is wrong with the file of a tablet that the text `named` names, "" for nothing.

    Only files of rowsets are read again: any other damage is believed at once.
    """
    folder = f"{tablet.directory}/rowsets/"
    if folder not in named:
        return named
    for rowset in tablet.metadata.rowsets:
        for name in rowset_files(rowset):
            if f"{folder}{name}" in named:
                return damage_of_file(tablet.fs, folder + name, rowset, tablet.table.schema)
    return ""


def damage_of_file(fs: FileSystem, path: str, rowset: RowSetMetadata, schema: Schema) -> str:
    """Say what is wrong with one file of a rowset, "" for nothing. Reads all of it."""
    name = path.rpartition("/")[2]
    report = Report(path)
    for column, file in rowset.column_files.items():
        if file == name:
            types = {known.id: known.type for known in schema.columns}
            check_column(fs, path, column, types.get(column), rowset.row_count, report)
            return "; ".join(f"{found.place}: {found.message}" for found in report.errors[:1])
    try:
        cache = PageCache(0)
        if name == rowset.bloom_file:
            bloom = BloomReader(cache.handles(fs), path, rowset.row_count, cache)
            bloom.check()
            bloom.close()
        else:
            deltas = DeltaFile(cache.handles(fs), path, None, cache)
            for number in range(len(deltas.footer.blocks)):
                deltas.read_block(number)
            deltas.close()
    except Error as error:
        return str(error).removeprefix(f"{path}: ")
    return ""
