"""The current catalog and its file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...errors import CorruptionError, DiskError
from ...model.namespaces import Namespace
from ...model.schema import Table, View
from ..files.filesystem import FileSystem
from .catalog import Catalog

HISTORY_SECONDS = 7 * 24 * 3600
"""Default of `history_seconds`: seven days."""


def _read(fs: FileSystem, path: str) -> Catalog:
    """The catalog in the file. `CorruptionError` with advice: without the catalog no table is known."""
    try:
        if not fs.exists(path):
            raise CorruptionError("the file is missing", path, "whole file")
        return Catalog.read(fs, path)
    except CorruptionError as error:
        cause = str(error).removeprefix(f"{error.path}: {error.place}: ")
        advice = (
            "no table can be opened without it: restore the catalog from a backup; the tables' files are left alone"
        )
        raise CorruptionError(f"{cause}; {advice}", error.path, error.place) from error


class DurableCatalog:
    """Holds a catalog and replaces it, the file first. Replacing needs a lock; reading does not.

    Attributes
    ----------
    current : Catalog
    is_durable : bool
        False after a failed write: it is unknown which catalog a crash would leave. Until the catalog has been written
        again, no other write is allowed: a row must not be acknowledged in a table that a crash would drop.
    has_undecided_parts : bool
        True if it is also unknown which rows a crash would leave: the failed write was a COMMIT with changes of the
        catalog. Then no metadata of a tablet may be replaced, either.
    """

    def __init__(self, fs: FileSystem, path: str):
        self._fs = fs
        self._path = path
        self.current = _read(fs, path)
        self.is_durable = True
        self.has_undecided_parts = False

    def write(self, catalog: Catalog) -> None:
        """Write this catalog to the file; `DiskError` if that fails."""
        self.is_durable = False
        catalog.write(self._fs, self._path)
        self.is_durable, self.has_undecided_parts = True, False

    def replace(self, catalog: Catalog) -> None:
        """Write a catalog; from now on it is the current one."""
        self.write(catalog)
        self.current = catalog

    def settle(self) -> None:
        """Write the current one again where a write has failed."""
        if not self.is_durable:
            self.write(self.current)

    def check_settled(self) -> None:
        """Raise `DiskError` while it is unknown whether a COMMIT has happened."""
        if self.has_undecided_parts:
            raise DiskError(f"{self._path} could not be written, and whether a transaction is committed is unknown")

    def keep_history(self, asked: int | None) -> int:
        """Sets and returns the seconds for which history stays readable: the given value, which is stored in the file,
        or the stored one."""
        kept = self.current.history_seconds
        if asked is not None and asked != (HISTORY_SECONDS if kept is None else kept):
            self.replace(replace(self.current, history_seconds=asked))
        kept = self.current.history_seconds
        return HISTORY_SECONDS if kept is None else kept

    # ---- what is in it -------------------------------------------------------------------------------------------

    def tables(self) -> Sequence[Table]:
        """All tables by name, ascending."""
        return self.current.tables()

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        return self.current.table(name)

    def views(self) -> Sequence[View]:
        """All views by name, ascending."""
        return self.current.all_views()

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending."""
        return self.current.all_namespaces()

    def put_view(self, view: View, replace: bool) -> None:
        """Keep a view, with `replace` in the place of one of its name."""
        self.replace(self.current.with_view(view, replace))

    def drop_views(self, names: Collection[str]) -> None:
        """Drop views; `UnknownTable` where one is not there."""
        self.current.check_views(names)
        self.replace(self.current.without((), names))

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """Rename a view; errors as of `Store.rename_view`."""
        self.replace(self.current.with_renamed_view(name, new_name, namespace))
