"""Files of a replica that are whole, but no record of their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nyala.cluster.consensus import consensus_file
from nyala.cluster.consensus.consensus_file import read_consensus
from nyala.cluster.tablets import results, superblock
from nyala.cluster.tablets.results import SavedResults
from nyala.cluster.tablets.superblock import Superblock
from nyala.errors import CorruptionError, DiskError
from nyala.storage.files.checked_file import replace_checked
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import MemoryFileSystem


@pytest.mark.parametrize(
    ("module", "read", "content"),
    [
        (consensus_file, read_consensus, {"term": 1, "vote": "a"}),
        (superblock, Superblock.read, {"tablet": {}, "state": "READY"}),
        (results, SavedResults.read, {"index": "many"}),
    ],
)
def test_another_record_is_damage(module: Any, read: Callable[[FileSystem, str], Any], content: dict[str, Any]) -> None:
    fs = MemoryFileSystem()
    fs.make_directory("t")
    replace_checked(fs, f"t/{module.NAME}", module.MAGIC, module.VERSION, content)
    with pytest.raises(CorruptionError, match=rf"^t/{module.NAME}: payload at offset 24: "):
        read(fs, "t")


def test_files_that_may_be_missing() -> None:
    fs = MemoryFileSystem()
    fs.make_directory("t")
    assert (Superblock.read(fs, "t"), SavedResults.read(fs, "t")) == (None, SavedResults())
    with pytest.raises(DiskError):
        read_consensus(fs, "t")
