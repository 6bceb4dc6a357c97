"""File systems after a loss of power, each content once: what is the same is not checked again."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nyala.storage.files.memory_filesystem import CrashableFileSystem, _Directory, _File

KEEPS = (0.0, 0.5, 1.0)
"""Chances of unsynced bytes and names to be kept."""


class CrashImages:
    """The different images that a loss of power leaves at the syncs of a file system.

    Parameters
    ----------
    fs : CrashableFileSystem
        Set `fs.on_sync = images.note` to begin, and None to end.
    """

    def __init__(self, fs: CrashableFileSystem) -> None:
        self.images: list[tuple[str, CrashableFileSystem]] = []
        """Each with the sync after which it was left."""
        self._fs = fs
        self._seen: set[object] = set()

    def note(self, what: str) -> None:
        rng = random.Random(len(self.images))
        self.images.extend((what, image) for image in distinct_crashes(self._fs, rng, self._seen))

    def acknowledge(self) -> int:
        """Number of images so far. Images of later syncs are kept although there was such a one before."""
        self._seen.clear()
        return len(self.images)


def distinct_crashes(
    fs: CrashableFileSystem, rng: random.Random, seen: set[object] | None = None
) -> Iterator[CrashableFileSystem]:
    """The images of a loss of power now that are different, and not yet `seen`."""
    seen = set() if seen is None else seen
    for keep in KEEPS:
        image = fs.crash(keep, rng)
        if (found := _contents(image._root)) not in seen:
            seen.add(found)
            yield image


def _contents(node: _File | _Directory) -> object:
    """The bytes of a file, or the names and contents in a folder."""
    if isinstance(node, _File):
        return bytes(node.data)
    return tuple((name, _contents(inner)) for name, inner in sorted(node.entries.items()))
