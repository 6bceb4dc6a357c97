"""Confirmation of damage: a replica fails only for files that are certainly unreadable.

A read error names a file. That file is read again, completely and not from memory. If it is intact then, it is no
reason to replace a replica, whatever the error was (a bit flip in memory, a bug in the reading code). Files that the
tablet's metadata no longer name are no reason either.
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
from ...storage.rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ...storage.tablet.tablet import Tablet
from ..disk_errors import FILE_ERRORS


class Watched:
    """A context manager that judges the errors of its body. Stateless and thread-safe.

    No frame of it is in a reference cycle with an error: the objects that were being read are released with the error,
    not at the next run of the cyclic collector. Until then the replica's files would count as in use, and could not be
    replaced.

    Parameters
    ----------
    judge : callable
        Returns the error to raise for an error of files; may be the same one (`Replica.met`).
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
    """Returns a description of the damage in the file of a tablet that the text `named` names; "" for none.

    Only files of rowsets are read again: any other damage is accepted at once.
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
    """Returns a description of the damage in one file of a rowset; "" for none. Reads the whole file."""
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
