"""Temporary files in a store's folder: files that no crash may leave behind."""

from __future__ import annotations

from .filesystem import FileSystem

TEMPORARY_PREFIX = "nyala-spill-"
"""Prefix of temporary file names, on systems where such a file has a name at all."""


def remove_temporary_files(fs: FileSystem, directory: str) -> None:
    """Remove what a process that was killed left in a store's folder."""
    for name in fs.list(directory):
        if name.startswith(TEMPORARY_PREFIX):
            fs.remove(f"{directory}/{name}")
