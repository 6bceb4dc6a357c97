"""The bytes of parts of files that are msgpack: `golden/packed_bytes.txt` has them in hexadecimal, as earlier versions
wrote them. They are still written, and read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden import BLOCK
from nyala.model.codec.values import decimal_to_bytes
from nyala.model.schema import (
    ColumnSchema,
    Encoding,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    View,
)
from nyala.model.store import Op
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, STRING, DataType
from nyala.storage.columns import column_file
from nyala.storage.columns.column_file import PAGE, Footer
from nyala.storage.columns.sketch import ColumnSketch
from nyala.storage.deltas import delta_format
from nyala.storage.deltas.delta_format import BlockRecord, DeltaFooter, Part
from nyala.storage.files.checked_file import read_checked, replace_checked
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.keys.bloom import BloomReader, write_bloom
from nyala.storage.loads.load_record import LoadRecord, TabletLoad
from nyala.storage.log.wal_format import EntryKind, encode_front, find_entry
from nyala.storage.rowsets.rowset_metadata import RowSetMetadata
from nyala.storage.single_rows.wal_row import decode_row, encode_row, row_front
from nyala.storage.statistics.analysis import Analysis
from nyala.storage.tables.catalog import Catalog, CatalogEntry
from nyala.storage.tablet.tablet_metadata import TabletMetadata

GOLDEN = Path(__file__).parent / "golden" / "packed_bytes.txt"
WIDE = 10**37 + 1
ROWSET = RowSetMetadata(
    7,
    2**40,
    b"\x80\0",
    b"\xff" * 9,
    {0: "rowset-00000007-column-0000.col"},
    "rowset-00000007.bloom",
    99,
    ("u",),
    ("r",),
)
COLUMNS = (
    ColumnSchema("k", BIGINT, nullable=False, id=0),
    ColumnSchema("w", DECIMAL(38, 0), nullable=False, id=1, default=WIDE, initial=-WIDE, encoding=Encoding.PLAIN),
    ColumnSchema("f", DOUBLE, id=2, default=0.25),
    ColumnSchema("é", STRING, id=3, default="ü" * 40, comment="text"),
)
WIDE_RANGES = RangeRule(
    ("w",), (RangePartition(None, (-(2**63) - 1,)), RangePartition((2**64,), (WIDE,), (HashRule(("k",), 3),)))
)
TABLE = Table(
    id="t000001",
    name="t",
    schema=Schema(COLUMNS, 2),
    partitions=PartitionSchema((HashRule(("k",), 2, 5),), WIDE_RANGES),
    version=3,
    comment="",
    next_column_id=4,
)
CATALOG = Catalog({"t": CatalogEntry(TABLE, ("t000001-p0000",), 4)}, 5, 2, {"v": View("v", "SELECT 1", ("a",))}, 3600)
METADATA = TabletMetadata("t000001-p0000", (ROWSET,), 8, 2**35, 2**62, 2**62, 3, 1, 5, 6, commit_index=4)
RECORD = LoadRecord(2**62, {"t000001-p0000": TabletLoad((ROWSET,), 8, 200)})
SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.decimal128(38, 0)), ("f", pa.float64()), ("s", pa.string())])


def sketch(low: Any, high: Any) -> ColumnSketch:
    return ColumnSketch(low, high, 1, 3, np.array([1, 2**63], np.uint64))


def footer(type_: DataType, low: Any, high: Any) -> Footer:
    page = np.zeros(1, PAGE)
    page["stored"] = 300
    bounds = [(low, high), None]
    return Footer(
        1, type_, Encoding.PLAIN, 3, 4096, page, None, 0, bounds, [low, None], sketch(low, high), "t/rowset/x.col"
    )


FOOTERS = {
    "wide decimals": footer(DECIMAL(38, 2), -WIDE, WIDE),
    "decimals": footer(DECIMAL(9, 2), -5, 70_000),
    "doubles": footer(DOUBLE, -0.5, 1e300),
    "integers": footer(BIGINT, -(2**63), 2**63 - 1),
}
DELTA = DeltaFooter(
    {1: DECIMAL(38, 2), 2: STRING},
    (BlockRecord(0, 9, 2**60, 2**61, 5, 1, 0, Part(16, 20, 30, 2**32 - 1, 0), {1: (4, Part(36, 8, 8, 7, 1))}),),
    "t/rowset/x.delta",
)
VALUES = (2**40, decimal_to_bytes(-WIDE), 0.5, "text é")
"""As they are logged."""


def checked(write: Callable[[MemoryFileSystem], None], path: str) -> bytes:
    fs = MemoryFileSystem()
    fs.make_directory("d")
    write(fs)
    file = fs.open(path)
    return file.read_at(0, file.size)


def bloom(fs: MemoryFileSystem) -> None:
    write_bloom(fs, "d/x.bloom", np.array([1, 2**63], np.uint64))


def written(command: str) -> bytes:
    kind, _, what = command.partition(": ")
    match kind:
        case "catalog":
            return checked(lambda fs: CATALOG.write(fs, "d/catalog"), "d/catalog")
        case "metadata":
            return checked(lambda fs: METADATA.write(fs, "d"), "d/metadata")
        case "metadata of version 1":
            return checked(lambda fs: replace(METADATA, commit_index=0).write(fs, "d"), "d/metadata")
        case "load record":
            return checked(lambda fs: RECORD.write(fs, "d"), f"d/{RECORD.name}")
        case "statistics":
            analysis = Analysis(
                {"t000001-p0000": {7: {1: ("x.col", sketch(-WIDE, WIDE)), 3: ("y.col", sketch("a", "é"))}}}
            )
            return checked(lambda fs: analysis.write(fs, "d"), "d/statistics")
        case "file of anything":
            return checked(lambda fs: replace_checked(fs, "d/x", b"nyalaXXX", 9, ANYTHING), "d/x")
        case "footer of a column":
            return column_file.encode_footer(FOOTERS[what])
        case "footer of deltas":
            return delta_format.encode_footer(DELTA)
        case "Bloom filter":
            return checked(bloom, "d/x.bloom")
        case "log entry":
            return encode_front(3, 2**33, 2**62, 5, EntryKind.ROW, b"body", True, 2**40) + b"body"
        case "logged row":
            return encode_row(row_front(Op.UPDATE, (0, 1, 2, 3)), VALUES)
        case "logged row without places":
            return encode_row(row_front(Op.INSERT, ()), (5, None, None, ""))
    raise KeyError(command)


ANYTHING = {
    "integers": [0, -1, 127, 128, -33, 2**16, 2**32, 2**63 - 1, 2**64 - 1, -(2**63)],
    "wide": [2**64, -(2**63) - 1, 2**127 - 1, -(2**127), WIDE],
    "others": [None, True, 1.5, "é", b"\xff", b"x" * 300, "y" * 300, [[]], {}],
    5: {2**31: "numbers are keys"},
}


def read(command: str, data: bytes) -> Any:
    """The object in the bytes, and the one that was written."""
    kind, _, what = command.partition(": ")
    fs = MemoryFileSystem()
    fs.make_directory("d")
    name = {
        "statistics": "statistics",
        "load record": RECORD.name,
        "Bloom filter": "x.bloom",
        "metadata": "metadata",
        "metadata of version 1": "metadata",
    }
    file = fs.create(path := f"d/{name.get(kind, 'x')}")
    file.write(data)
    file.close()
    match kind:
        case "catalog":
            return Catalog.read(fs, path), CATALOG
        case "metadata":
            return TabletMetadata.read(fs, "d"), METADATA
        case "metadata of version 1":
            return TabletMetadata.read(fs, "d"), replace(METADATA, commit_index=0)
        case "load record":
            return LoadRecord.read(fs, path), RECORD
        case "statistics":
            found = Analysis.read(fs, "d").sketches["t000001-p0000"][7]
            return [(c, f, s.low, s.high) for c, (f, s) in found.items()], [
                (1, "x.col", -WIDE, WIDE),
                (3, "y.col", "a", "é"),
            ]
        case "file of anything":
            return read_checked(fs, path, b"nyalaXXX", 9), ANYTHING
        case "footer of a column":
            expected = FOOTERS[what]
            found = column_file.decode_footer(data, expected.type, "t/rowset/x.col")
            return [_plain(found), _plain(found.sketch)], [_plain(expected), _plain(expected.sketch)]
        case "footer of deltas":
            return delta_format.decode_footer(data, "t/rowset/x.delta"), DELTA
        case "Bloom filter":
            return BloomReader(PageCache(0).handles(fs), path, 2, PageCache(0)).read_chunk(0)[:0], b""
        case "log entry":
            entry = find_entry(memoryview(data), 0)
            assert entry is not None
            return (entry.index, entry.kind, bytes(entry.body), entry.witness), (2**33, EntryKind.ROW, b"body", 2**40)
        case "logged row":
            part = decode_row(data, SCHEMA)
            return (part.values, part.rows["w"][0].as_py()), (VALUES, -WIDE)
        case "logged row without places":
            return decode_row(data, SCHEMA).values, (5, None, None, "")
    raise KeyError(command)


def _plain(record: Any) -> list[Any]:
    fields = [getattr(record, name) for name in record.__dataclass_fields__ if name != "sketch"]
    return [field.tolist() if isinstance(field, np.ndarray) else field for field in fields]


def test_they_are_written(golden: Any) -> None:
    golden(GOLDEN, lambda command: written(command).hex("\n", -48))


SCRIPT = {match["command"].rstrip(): match.group() for match in BLOCK.finditer(GOLDEN.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("command", SCRIPT)
def test_they_are_read(command: str) -> None:
    output = SCRIPT[command].partition("---\n")[2]
    found, expected = read(command, bytes.fromhex(output))
    assert found == expected
