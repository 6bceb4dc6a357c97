"""The bytes of messages and of a replica's files: `golden/packed_messages.txt` has them in hexadecimal, as earlier
versions wrote them. They are still written, and read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from golden import BLOCK
from nyala.cluster.consensus.consensus_file import ConsensusState, read_consensus, write_consensus
from nyala.cluster.raft.messages import Configuration, Peer
from nyala.cluster.tablets.exactly_once import SavedResults, _SavedClient
from nyala.cluster.tablets.superblock import ReplicaState, Superblock
from nyala.cluster.wire.messages import methods, plain
from nyala.cluster.wire.messages.envelope import Caller, RequestEnvelope, pack, request_decoder, unpack
from nyala.model import alterations
from nyala.model.codec.predicates import predicate_from_plain, predicate_to_plain
from nyala.model.codec.values import key_from_plain, key_to_plain, map_from_plain, map_to_plain
from nyala.model.predicates import AnyOf, BitmapFilter, BloomFilter, InList, IsNull, Range
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
)
from nyala.model.store import ChangeRange, ColumnStatistics, ScanSpec, TableStatistics, Timestamp
from nyala.model.types import BIGINT, DECIMAL, STRING, Interval
from nyala.storage.columns.sketch import ColumnSketch
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.tables.catalog import CatalogEntry

GOLDEN = Path(__file__).parent / "golden" / "packed_messages.txt"
WIDE = 10**37 + 1
COLUMN = ColumnSchema("w", DECIMAL(38, 0), nullable=False, id=1, default=WIDE, initial=-WIDE)
SCHEMA = Schema(
    (ColumnSchema("k", BIGINT, nullable=False, id=0), COLUMN, ColumnSchema("s", STRING, id=2, default="é")), 2
)
PARTITIONS = PartitionSchema(
    (HashRule(("k",), 2, 5),),
    RangeRule(
        ("w",), (RangePartition(None, (-(2**63) - 1,)), RangePartition((2**64,), (WIDE,), (HashRule(("k",), 3),)))
    ),
)
TABLE = Table("t1", "t", SCHEMA, PARTITIONS, 3, "", 4)
NARROW = replace(TABLE, schema=Schema(SCHEMA.columns[::2], 1), partitions=PartitionSchema(PARTITIONS.hash_rules))
SPEC = ScanSpec(
    ("k", "w"),
    (
        Range("w", -WIDE, WIDE, upper_inclusive=False),
        InList("s", ("a", "é")),
        IsNull("s", negated=True),
        AnyOf("w", (Range("w", 2**64), InList("w", (1, WIDE)), IsNull("w"))),
    ),
    Timestamp(2**62),
    ordered=True,
    limit=9,
    changes=ChangeRange(Timestamp(2**61), True),
)
KEY = (None, True, -1, 2**64 - 1, 2**64, -(2**63) - 1, WIDE, 0.5, "é", b"\xff", Interval(1, -2, 3))
ROW = {"a": WIDE, "b": None, "c": "text"}
STATISTICS = TableStatistics(7, {"w": ColumnStatistics(-WIDE, WIDE, 1, 5.5), "s": ColumnStatistics("a", "b", 0, None)})
STEPS = [
    alterations.AddColumn(COLUMN),
    alterations.SetDefault("w", WIDE),
    alterations.RenameTable(
        "a",
    ),
]
REQUEST = {"tablet_id": "t1-p0000", "schema_version": 3, "key": (1, WIDE), "columns": ("s",), "snapshot": None}
SUPERBLOCK = Superblock(
    methods.Tablet(id="t1-p0000", table=plain.table_to_plain(NARROW), place="0", partition="all"), ReplicaState.READY, 5
)
CONSENSUS = ConsensusState(3, "b", Configuration((Peer("a", "h:1"), Peer("b", "h:2")), 7), 5, 2, 2**62, 9)
RESULTS = SavedResults(7, (_SavedClient("client", 2**62, 1, ((1, 6, b"\x93"),)),))

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


def in_file(write: Callable[[MemoryFileSystem, str], None], name: str) -> bytes:
    fs = MemoryFileSystem()
    fs.make_directory("t1-p0000")
    write(fs, "t1-p0000")
    file = fs.open(f"t1-p0000/{name}")
    return file.read_at(0, file.size)


def from_file(name: str, data: bytes, read: Callable[[MemoryFileSystem, str], Any]) -> Any:
    fs = MemoryFileSystem()
    fs.make_directory("t1-p0000")
    file = fs.create(f"t1-p0000/{name}")
    file.write(data)
    file.close()
    return read(fs, "t1-p0000")


def request_bytes(fields: dict[str, Any]) -> bytes:
    method = methods.ReadRow(**{**fields, "key": key_to_plain(fields["key"])})
    return pack(RequestEnvelope(2**62, 9.5, Caller("client"), method))


def request_fields(data: bytes) -> dict[str, Any]:
    fields = msgspec.structs.asdict(unpack(data, request_decoder(), "request").method)
    return {**fields, "key": key_from_plain(fields["key"])}


def bitmap(places: list[int]) -> BitmapFilter:
    bits = np.zeros(200, np.bool_)
    bits[places] = True
    return BitmapFilter("w", WIDE, bits)


def told(predicate: Any) -> list[Any]:
    """Fields of a runtime filter as plain data, for comparison."""
    return [
        getattr(predicate, f) if f != "bits" and f != "words" else getattr(predicate, f).tolist()
        for f in predicate.__slots__
    ]


EXAMPLES: dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "key": (KEY, lambda o: encode(key_to_plain(o)), lambda data: key_from_plain(decode(data))),
    "row": (ROW, lambda o: encode(map_to_plain(o)), lambda data: map_from_plain(decode(data))),
    "table": (TABLE, lambda o: encode(plain.table_to_plain(o)), lambda data: plain.table_from_plain(decode(data))),
    "table with tablets": (
        CatalogEntry(TABLE, ("t1-p0000",), 4),
        lambda o: encode(plain.entry_to_plain(o)),
        lambda data: plain.entry_from_plain(decode(data)),
    ),
    "definition": (
        TableDefinition("t", SCHEMA, PARTITIONS, "", 3),
        lambda o: encode(plain.definition_to_plain(o)),
        lambda data: plain.definition_from_plain(decode(data)),
    ),
    "alterations": (
        STEPS,
        lambda o: encode([plain.step_to_plain(step) for step in o]),
        lambda data: [plain.step_from_plain(step) for step in decode(data)],
    ),
    "scan": (SPEC, lambda o: encode(plain.spec_to_plain(o)), lambda data: plain.spec_from_plain(decode(data))),
    "runtime filters": (
        [told(p) for p in (bitmap([*range(9)]), bitmap([3, 150]), BloomFilter("k", np.array([1, 2**63], np.uint64)))],
        lambda _: encode(
            [
                predicate_to_plain(p)
                for p in (bitmap([*range(9)]), bitmap([3, 150]), BloomFilter("k", np.array([1, 2**63], np.uint64)))
            ]
        ),
        lambda data: [told(predicate_from_plain(p)) for p in decode(data)],
    ),
    "statistics": (
        STATISTICS,
        lambda o: encode(plain.statistics_to_plain(o)),
        lambda data: plain.statistics_from_plain(decode(data)),
    ),
    "sketch": (
        (-WIDE, WIDE, 1, 3),
        lambda o: encode(plain.sketch_to_plain(ColumnSketch(*o, np.array([1, 2**63], np.uint64)))),
        lambda data: (lambda s: (s.low, s.high, s.null_count, s.row_count))(plain.sketch_from_plain(decode(data))),
    ),
    "request": (REQUEST, request_bytes, request_fields),
    "replica": (
        SUPERBLOCK,
        lambda o: in_file(o.write, "replica"),
        lambda data: from_file("replica", data, Superblock.read),
    ),
    "consensus": (
        CONSENSUS,
        lambda o: in_file(lambda fs, directory: write_consensus(fs, directory, o), "consensus"),
        lambda data: from_file("consensus", data, read_consensus),
    ),
    "results": (
        RESULTS,
        lambda o: in_file(o.write, "results"),
        lambda data: from_file("results", data, SavedResults.read),
    ),
}


def test_they_are_written(golden: Any) -> None:
    def written(command: str) -> str:
        example, write, _ = EXAMPLES[command]
        return write(example).hex("\n", -48)

    golden(GOLDEN, written)


SCRIPT = {match["command"].rstrip(): match.group() for match in BLOCK.finditer(GOLDEN.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("command", SCRIPT)
def test_they_are_read(command: str) -> None:
    example, _, read = EXAMPLES[command]
    assert read(bytes.fromhex(SCRIPT[command].partition("---\n")[2])) == example
