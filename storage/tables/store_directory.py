"""The directory of a store: what says that it is one, and making it.

DIR/FORMAT     b"nyala store, format 1"    made last: it is there only if everything else is
    catalog    no tables yet
    tables/    empty
"""

from __future__ import annotations

from ...errors import CorruptionError, OperationalError, UnsupportedFormat, listed
from ..files.checked_file import TEMPORARY_SUFFIX
from ..files.filesystem import FileSystem
from .catalog import Catalog

FORMAT = b"nyala store, format 1\n"
COPYING = "COPYING"
"""File in an incomplete copy, locked by the process that makes it. A directory without it is not the copy's."""
_FIRST_FILES = ("LOCK", "tables", "catalog", "catalog.tmp", "FORMAT.tmp", "owner", "owner.tmp", "owner.log")
"""Files that a crash may leave of a store during its creation, and files of a process that is to serve it."""


def make_durable_directory(fs: FileSystem, directory: str) -> None:
    """Make a directory, and those above it that are missing; their names are durable when this returns."""
    changed: list[str] = []
    path = directory
    while path not in ("", "/") and not fs.exists(path):
        path = path.rpartition("/")[0]
        changed.insert(0, path or ("/" if directory.startswith("/") else "."))
    fs.make_directory(directory)
    for above in changed:
        fs.sync_directory(above)


def check_format(fs: FileSystem, directory: str) -> None:
    """Make an empty store where there is none. `OperationalError` where the directory holds something else,
    `UnsupportedFormat` or `CorruptionError` where the store is not one for this nyala."""
    path = f"{directory}/FORMAT"
    if not fs.exists(path):
        _begin(fs, directory, path)
    require_format(fs, directory, FORMAT)


def require_format(fs: FileSystem, directory: str, expected: bytes) -> None:
    """`UnsupportedFormat` or `CorruptionError` if DIR/FORMAT does not have the expected contents."""
    path = f"{directory}/FORMAT"
    file = fs.open(path)
    try:
        contents = file.read_at(0, 64)
    finally:
        file.close()
    if not contents.startswith(expected.rpartition(b" ")[0]):
        raise CorruptionError(f"expected {expected!r}, found {contents!r}", path, "offset 0")
    if contents != expected:
        raise UnsupportedFormat(f"{path} says {contents.decode(errors='replace').strip()!r}; this nyala reads format 1")


def write_format(fs: FileSystem, directory: str, content: bytes) -> None:
    """Write DIR/FORMAT, durably and as a whole: the last step of making a directory."""
    path = f"{directory}/FORMAT"
    file = fs.create(path + TEMPORARY_SUFFIX)
    try:
        file.write(content)
        file.sync()
    finally:
        file.close()
    fs.rename(path + TEMPORARY_SUFFIX, path)
    fs.sync_directory(directory)


def _begin(fs: FileSystem, directory: str, path: str) -> None:
    strangers = [name for name in fs.list(directory) if name not in (*_FIRST_FILES, "commits")]
    if strangers:
        raise OperationalError(
            f"{directory} is no nyala store and not empty (it holds {listed(strangers, 5)}); "
            "give an empty or a new directory"
        )
    _refuse_to_begin_over_data(fs, directory, path)
    fs.make_directory(f"{directory}/tables")
    Catalog().write(fs, f"{directory}/catalog")
    write_format(fs, directory, FORMAT)


def _refuse_to_begin_over_data(fs: FileSystem, directory: str, path: str) -> None:
    """A crash while a store is begun leaves neither tables nor a catalog that names some: this is another case."""
    tables, catalog = f"{directory}/tables", f"{directory}/catalog"
    has_tables = (fs.exists(tables) and fs.list(tables)) or fs.exists(f"{directory}/commits")
    if has_tables or (fs.exists(catalog) and Catalog.read(fs, catalog).entries):
        raise CorruptionError("the file is missing, but the store holds tables", path, "whole file")
