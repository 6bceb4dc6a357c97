"""Intact files of a replica that are not records of their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from nyala.cluster.consensus import consensus_file
from nyala.cluster.consensus.consensus_file import ConsensusState, read_consensus, write_consensus
from nyala.cluster.raft.messages import Configuration
from nyala.cluster.tablets import exactly_once as results
from nyala.cluster.tablets import superblock
from nyala.cluster.tablets.exactly_once import SavedResults
from nyala.cluster.tablets.superblock import ReplicaState, Superblock
from nyala.cluster.wire.messages.methods import Tablet
from nyala.cluster.wire.messages.plain import table_from_plain, table_to_plain
from nyala.errors import CorruptionError, DiskError
from nyala.model.schema import ColumnSchema, PartitionSchema, RangePartition, RangeRule, Schema, Table
from nyala.model.types import DECIMAL
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


@pytest.mark.parametrize("name", ["consensus", "results"])
def test_a_file_of_another_tablet_is_damage(name: str) -> None:
    """A restore that mixed up two tablets: each file is intact, and in the other's place."""
    fs = MemoryFileSystem()
    for tablet in ("t1", "t2"):
        fs.make_directory(f"db/{tablet}")
        write_consensus(fs, f"db/{tablet}", ConsensusState(3, tablet, Configuration((), 0)))
        SavedResults(7).write(fs, f"db/{tablet}")
    data = fs.open(f"db/t1/{name}").read_at(0, 1 << 20)
    fs.create(f"db/t2/{name}").write(data)
    read: Callable[[FileSystem, str], Any] = read_consensus if name == "consensus" else SavedResults.read
    read(fs, "db/t1")
    with pytest.raises(CorruptionError, match=f"^db/t2/{name}: tablet id: belongs to tablet t1, expected t2: files"):
        read(fs, "db/t2")


@pytest.mark.parametrize("name", ["consensus", "results"])
def test_a_file_of_an_earlier_version_names_no_tablet(name: str) -> None:
    fs = MemoryFileSystem()
    fs.make_directory("t")
    if name == "consensus":
        content = msgspec.to_builtins(ConsensusState(3, "a", Configuration((), 0)))
        replace_checked(fs, "t/consensus", consensus_file.MAGIC, consensus_file.VERSION, content)
        assert read_consensus(fs, "t").term == 3
    else:
        replace_checked(fs, "t/results", results.MAGIC, results.VERSION, {"index": 5, "clients": []})
        assert SavedResults.read(fs, "t").index == 5


def test_files_that_may_be_missing() -> None:
    fs = MemoryFileSystem()
    fs.make_directory("t")
    assert (Superblock.read(fs, "t"), SavedResults.read(fs, "t")) == (None, SavedResults())
    with pytest.raises(DiskError):
        read_consensus(fs, "t")


def test_a_replica_keeps_integers_beyond_64_bits_of_its_table() -> None:
    """A default and a bound of DECIMAL(38), as CREATE TABLE sends them to a tablet server."""
    wide = ColumnSchema("w", DECIMAL(38, 0), nullable=False, default=10**37, initial=-(10**37))
    ranges = RangeRule(("w",), (RangePartition(None, (2**64,)),))
    table = Table("t1", "t", Schema((wide,), 1), PartitionSchema((), ranges), 0, "", 1)
    sent = msgspec.msgpack.encode(Tablet(id="t1-p0000", table=table_to_plain(table), place="0", partition="all"))
    fs = MemoryFileSystem()
    fs.make_directory("t")
    for _ in range(2):  # as it was sent, and as it was read from the file and is sent on
        Superblock(msgspec.msgpack.decode(sent, type=Tablet), ReplicaState.READY).write(fs, "t")
        found = Superblock.read(fs, "t")
        assert found is not None and table_from_plain(found.tablet.table) == table
        sent = msgspec.msgpack.encode(found.tablet)
