"""Column files: what is written comes back, byte for byte as the format says, and damage never passes."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import WatchedFileSystem, arrow_array
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, InvalidTableDefinition, UnsupportedFormat
from nyala.model.schema import ColumnSchema, Compression, Encoding, check_encoding
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
)
from nyala.model.vectors.vector import Dict, Narrow, Text
from nyala.storage.columns.column_file import HEADER, MAGIC
from nyala.storage.columns.column_reader import ColumnReader
from nyala.storage.columns.column_writer import write_column
from nyala.storage.columns.encodings import subtract_base
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.page_cache import PageCache

PATH = "c.col"


def write(column: ColumnSchema, physical: list[Any], **options: Any) -> WatchedFileSystem:
    fs = WatchedFileSystem()
    size = write_column(fs, PATH, column, arrow_array(column.type, physical), **options)
    assert size == len(fs.get(PATH))
    return fs


def reader(fs: WatchedFileSystem, column: ColumnSchema, rows: int) -> ColumnReader:
    return ColumnReader(FileHandles(fs), PATH, column.id, column.type, rows, PageCache(1 << 20))


def column(type_: DataType, encoding: Encoding = Encoding.AUTO, compression: Compression = Compression.AUTO) -> Any:
    return ColumnSchema("c", type_, id=5, encoding=encoding, compression=compression)


def signed(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << (bits - 1)
    return st.integers(-edge, edge - 1) | st.integers(-3, 300).filter(lambda v: -edge <= v < edge)


VALUES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (TINYINT, signed(8)),
    (SMALLINT, signed(16)),
    (INT, signed(32)),
    (BIGINT, signed(64)),
    (DATE, st.integers(-100_000, 100_000)),
    (TIMESTAMP, st.integers(-(10**15), 10**15)),
    (DECIMAL(9, 2), st.integers(-(10**9) + 1, 10**9 - 1)),
    (DECIMAL(18, 4), st.integers(-(10**18) + 1, 10**18 - 1)),
    (DECIMAL(38, 6), st.integers(-(10**38) + 1, 10**38 - 1)),
    (FLOAT, st.floats(width=32)),
    (DOUBLE, st.floats()),
    (STRING, st.text(max_size=20) | st.sampled_from(["", "a", "b"])),
    (BINARY, st.binary(max_size=20)),
]


@st.composite
def columns(draw: st.DrawFn) -> tuple[ColumnSchema, list[Any], int]:
    type_, values = draw(st.sampled_from(VALUES))
    encodings = [e for e in Encoding if _possible(type_, e)]
    made = column(type_, draw(st.sampled_from(encodings)), draw(st.sampled_from(list(Compression))))
    physical = draw(st.lists(values | st.none() if draw(st.booleans()) else values, min_size=1, max_size=70))
    return made, physical, draw(st.sampled_from([1, 8, 32, 65_536]))


def _possible(type_: DataType, encoding: Encoding) -> bool:
    try:
        check_encoding(column(type_, encoding))
    except InvalidTableDefinition:
        return False
    return True


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


@settings(max_examples=examples(300), deadline=None)
@given(columns(), st.data())
def test_values_come_back_whole_sliced_and_gathered(made: tuple[ColumnSchema, list[Any], int], data: Any) -> None:
    spec, physical, page_rows = made
    opened = reader(write(spec, physical, page_rows=page_rows), spec, len(physical))
    expected = arrow_array(spec.type, physical).to_pylist()
    rows = len(physical)
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    picked = data.draw(st.lists(st.integers(0, stop - start - 1), max_size=10))
    for found, wanted in [
        (opened.read(0, rows, None), expected),
        (opened.read(start, stop, None), expected[start:stop]),
        (opened.read(start, stop, np.array(picked, np.intp)), [expected[start + p] for p in picked]),
    ]:
        decoded = found.to_arrow()
        assert decoded.type == spec.type.arrow
        decoded.validate(full=True)
        assert all(same(a, b) for a, b in zip(decoded.to_pylist(), wanted, strict=True))


@settings(max_examples=examples(150), deadline=None)
@given(columns())
def test_sketch_is_true(made: tuple[ColumnSchema, list[Any], int]) -> None:
    spec, physical, page_rows = made
    sketch = reader(write(spec, physical, page_rows=page_rows), spec, len(physical)).footer.sketch
    present = [v for v in physical if v is not None]
    assert sketch.row_count == len(physical)
    assert sketch.null_count == len(physical) - len(present)
    numbers = [v for v in present if v == v]
    if numbers and len(numbers) == len(present):
        assert (sketch.low, sketch.high) == (min(present), max(present))
    if not spec.type.is_float:
        assert sketch.distinct_count() == len(set(present))


@pytest.mark.parametrize(
    ("top", "width"), [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8), (2**64 - 1, 8)]
)
def test_frame_of_reference_takes_the_narrowest_codes(top: int, width: int) -> None:
    spec = column(BIGINT)
    low = -(2**63)
    page = reader(write(spec, [low, low + top]), spec, 2).page(0)
    assert isinstance(page, Narrow)
    assert (page.codes.itemsize, page.base, page.top) == (width, low, top)


def test_codes_of_a_null_stay_in_range() -> None:
    spec = column(INT)
    page = reader(write(spec, [1_000_000, None, 1_000_001]), spec, 3).page(0)
    assert isinstance(page, Narrow)
    assert page.codes.tolist() == [0, 0, 1]


def test_dictionary_is_sorted_shared_and_one_object() -> None:
    spec = column(STRING)
    opened = reader(write(spec, ["b", "a", None, "c"] * 10, page_rows=8), spec, 40)
    first, second = opened.page(0), opened.page(1)
    assert isinstance(first, Dict)
    assert isinstance(second, Dict)
    assert first.dictionary is second.dictionary
    assert first.dictionary.to_pylist() == ["a", "b", "c"]
    assert first.ordered
    assert first.codes.dtype == np.uint8


def test_auto_prefers_plain_where_most_texts_differ() -> None:
    spec = column(STRING)
    physical = [f"comment {i}" for i in range(2000)]
    page = reader(write(spec, physical), spec, 2000).page(0)
    assert isinstance(page, Text)
    coded = reader(write(column(STRING, Encoding.DICT), physical), spec, 2000).page(0)
    assert isinstance(coded, Dict)
    assert coded.codes.dtype == np.uint16


def test_compression_is_kept_only_where_it_pays() -> None:
    spec = column(BIGINT)
    random = np.random.default_rng(3).integers(0, 2**62, 1000).tolist()
    assert reader(write(spec, random), spec, 1000).footer.pages["compression"].tolist() == [0]
    spec = column(BIGINT, Encoding.FRAME_OF_REFERENCE)
    assert reader(write(spec, [7] * 1000), spec, 1000).footer.pages["compression"].tolist() == [1]
    plain = column(BIGINT, compression=Compression.NONE)
    assert reader(write(plain, [7] * 1000), spec, 1000).footer.pages["compression"].tolist() == [0]


def test_long_texts_get_small_pages() -> None:
    spec = column(STRING, Encoding.PLAIN)
    physical = [str(i) * 5000 for i in range(300)]
    footer = reader(write(spec, physical), spec, 300).footer
    assert footer.page_rows == 32
    assert len(footer.pages) == 10
    assert all(len(low) <= 64 and len(high) <= 64 for low, high in footer.bounds or [])


def test_subtract_base_survives_any_spread() -> None:
    values = np.array([-(2**31), 0, 2**31 - 1], np.int32)
    assert subtract_base(values, -(2**31), np.dtype(np.uint32)).tolist() == [0, 2**31, 2**32 - 1]


# ---- the bytes: a change of format must be seen ------------------------------------------------------------------

GOLDEN = {
    "FRAME_OF_REFERENCE": (INT, Encoding.AUTO, [100, None, 103], "05 00 00 00 00 00 00 00 00 00 03"),
    "DICT": (STRING, Encoding.DICT, ["b", "a", "b"], "01 00 01"),
    "PLAIN integers": (SMALLINT, Encoding.PLAIN, [1, -2], "01 00 fe ff"),
    "PLAIN bool": (BOOLEAN, Encoding.PLAIN, [True, False], "01 00"),
    "PLAIN floats": (DOUBLE, Encoding.AUTO, [1.5], "00 00 00 00 00 00 f8 3f"),
    "PLAIN wide decimals": (
        DECIMAL(20, 0),
        Encoding.AUTO,
        [258, -1],
        "02 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff",
    ),
    "PLAIN texts": (
        STRING,
        Encoding.PLAIN,
        ["ab", None, "c"],
        "05 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 02 00 00 00 03 00 00 00 61 62 63",
    ),
    "BIT_SHUFFLE integers": (INT, Encoding.BIT_SHUFFLE, [100, None, 103], "05 00 00 00 00 00 00 00 04 04"),
    "BIT_SHUFFLE one value": (INT, Encoding.BIT_SHUFFLE, [7, 7], ""),
    "BIT_SHUFFLE bool": (BOOLEAN, Encoding.BIT_SHUFFLE, [True, False] * 4 + [True], "55 01"),
    "BIT_SHUFFLE floats": (
        FLOAT,
        Encoding.BIT_SHUFFLE,
        [1.0, -1.0],  # 3f800000 and bf800000
        " ".join(["00"] * 23 + ["03"] * 7 + ["00", "02"]),
    ),
    "RLE, whose NULL continues a run": (
        INT,
        Encoding.RLE,
        [7] * 6 + [None, 9],
        "bf 00 00 00 00 00 00 00 00 02 06 00 00 00",
    ),
    "RLE bool": (BOOLEAN, Encoding.RLE, [False] * 4 + [True] * 5, "00 01 03 00 04 00"),
    "RLE without runs": (INT, Encoding.RLE, [7, 8, 7], "00 01 00"),
    "PREFIX": (
        STRING,
        Encoding.PREFIX,
        ["lighthouse", "lighthouses"],
        "0a 01 00 0a 6c 69 67 68 74 68 6f 75 73 65 73",
    ),
    "PREFIX that shares little": (
        STRING,
        Encoding.PREFIX,
        ["ab", None, "c"],
        "05 00 00 00 00 00 00 00 02 00 01 61 62 63",
    ),
}
LAYOUTS = {
    "BIT_SHUFFLE integers": 1,
    "BIT_SHUFFLE one value": 1,
    "BIT_SHUFFLE bool": 1,
    "BIT_SHUFFLE floats": 1,
    "RLE, whose NULL continues a run": 2,
    "RLE bool": 2,
    "PREFIX": 3,
    "PREFIX that shares little": 4,
}
"""0 for all others."""


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_page(name: str) -> None:
    type_, encoding, physical, page = GOLDEN[name]
    spec = column(type_, encoding, Compression.NONE)
    fs = write(spec, physical)
    opened = reader(fs, spec, len(physical))
    record = opened.footer.pages[0]
    assert fs.get(PATH)[16 : 16 + int(record["stored"])].hex(" ") == page
    assert record["layout"] == LAYOUTS.get(name, 0)
    assert opened.read(0, len(physical), None).to_arrow().equals(arrow_array(type_, physical))


def test_golden_file() -> None:
    fs = write(column(INT), [100, None, 103])
    assert (
        fs.get(PATH).hex(" ", 1).split(" 8b a6 ")[0]
        == (
            "4e 59 41 4c 41 43 4f 4c 01 00 00 00 " + _crc(b"NYALACOL\x01\0\0\0") + " "  # header
            "05 00 00 00 00 00 00 00 "  # page 0: validity
            "00 00 03"  # page 0: codes
        )
    )
    footer = bytes(fs.get(PATH)[27:-12])
    size = struct.pack("<I", len(footer))
    assert footer.startswith(b"\x8b\xa6column\x05\xa4type\x93\xa3INT\xc0\xc0\xa8encoding\xb2FRAME_OF_REFERENCE")
    assert bytes(fs.get(PATH)[-12:]) == size + struct.pack("<I", zlib.crc32(footer + size)) + b"NYCF"
    record = footer[footer.index(b"\xa5pages") + 8 :][:48]
    assert (
        record.hex(" ")
        == (
            "10 00 00 00 00 00 00 00 "  # offset 16
            "0b 00 00 00 0b 00 00 00 "  # 11 bytes, 11 decompressed
            + _crc(bytes.fromhex("0500000000000000000003"))
            + " 01 00 00 00 "  # one NULL
            "64 00 00 00 00 00 00 00 67 00 00 00 00 00 00 00 "  # 100 to 103
            "01 00 00 00 00 00 00 00"  # width 1, no compression
        )
    )


def _crc(data: bytes) -> str:
    return struct.pack("<I", zlib.crc32(data)).hex(" ")


# ---- damage ------------------------------------------------------------------------------------------------------

SMALL: dict[str, tuple[DataType, Encoding, list[Any], Compression]] = {
    "codes": (INT, Encoding.AUTO, [100, None, 103] * 6, Compression.AUTO),
    "dictionary": (STRING, Encoding.DICT, ["b", "a", None] * 6, Compression.AUTO),
    "texts": (STRING, Encoding.PLAIN, ["lion", "", None, "zebra"] * 5, Compression.AUTO),
    "floats": (DOUBLE, Encoding.AUTO, [1.5, float("nan"), None], Compression.AUTO),
    "planes": (INT, Encoding.BIT_SHUFFLE, [100, None, 103] * 6, Compression.NONE),
    "planes of floats": (FLOAT, Encoding.BIT_SHUFFLE, [1.5, None, -2.0], Compression.LZ4),
    "runs": (SMALLINT, Encoding.RLE, [4] * 7 + [None] + [5] * 8, Compression.NONE),
    "fronts": (STRING, Encoding.PREFIX, ["harbour", "harbours", None, "hard"] * 4, Compression.NONE),
    "lengths": (BINARY, Encoding.PREFIX, [b"sea", b"", None, b"lake"] * 4, Compression.NONE),
    "LZ4": (STRING, Encoding.PLAIN, ["abcabc" * 9] * 8, Compression.LZ4),
    "ZSTD": (STRING, Encoding.PLAIN, ["abcabc" * 9] * 8, Compression.ZSTD),
    "GZIP": (STRING, Encoding.PLAIN, ["abcabc" * 9] * 8, Compression.GZIP),
    "BZ2": (STRING, Encoding.PLAIN, ["abcabc" * 9] * 8, Compression.BZ2),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_byte_is_found(name: str) -> None:
    type_, encoding, physical, compression = SMALL[name]
    spec = column(type_, encoding, compression)
    fs = write(spec, physical, page_rows=8, is_key=None not in physical)
    intact = bytes(fs.get(PATH))
    for place in range(len(intact)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(intact)
            damaged[place] ^= mask
            fs.put(PATH, damaged)
            with pytest.raises(CorruptionError) as caught:
                reader(fs, spec, len(physical)).read(0, len(physical), None)
            assert caught.value.path == PATH


@pytest.mark.parametrize("name", SMALL)
def test_every_cut_is_found(name: str) -> None:
    type_, encoding, physical, compression = SMALL[name]
    spec = column(type_, encoding, compression)
    fs = write(spec, physical, page_rows=8)
    intact = bytes(fs.get(PATH))
    for length in range(len(intact)):
        fs.put(PATH, intact[:length])
        with pytest.raises(CorruptionError):
            reader(fs, spec, len(physical)).read(0, len(physical), None)
    fs.put(PATH, intact + b"\0")
    with pytest.raises(CorruptionError):
        reader(fs, spec, len(physical)).read(0, len(physical), None)


def test_a_damaged_page_is_named_and_spares_the_others() -> None:
    spec = column(INT, compression=Compression.NONE)
    fs = write(spec, list(range(24)), page_rows=8)
    damaged = fs.get(PATH)
    damaged[16 + 8 + 3] ^= 1
    fs.put(PATH, damaged)
    opened = reader(fs, spec, 24)
    assert opened.read(0, 8, None).values().tolist() == list(range(8))
    with pytest.raises(CorruptionError, match=r"c.col: page 1 at offset 24: checksum [0-9a-f]{8} instead of"):
        opened.read(8, 16, None)


def test_a_whole_page_of_another_file_is_found() -> None:
    spec = column(INT, compression=Compression.NONE)
    fs = write(spec, list(range(16)), page_rows=8)
    other = write(spec, [*range(8), *range(15, 7, -1)], page_rows=8)
    data = fs.get(PATH)
    data[24:32] = other.get(PATH)[24:32]
    fs.put(PATH, data)
    with pytest.raises(CorruptionError, match="page 1"):
        reader(fs, spec, 16).read(0, 16, None)


def test_an_unknown_version_is_not_called_damage() -> None:
    spec = column(INT)
    fs = write(spec, [1])
    head = HEADER.pack(MAGIC, 9, 0, 0)[:12]
    fs.put(PATH, head + struct.pack("<I", zlib.crc32(head)) + fs.get(PATH)[16:])
    with pytest.raises(UnsupportedFormat, match=r"c\.col: format version 9; this nyala reads version 1"):
        _ = reader(fs, spec, 1).footer


def test_a_file_of_another_column_is_refused() -> None:
    fs = write(column(INT), [1, 2])
    with pytest.raises(CorruptionError, match=r"footer: holds values of type \['INT', None, None\], BIGINT expected"):
        _ = reader(fs, column(BIGINT), 2).footer
    with pytest.raises(CorruptionError, match="holds 2 rows of column id 5, 3 of 5 expected"):
        _ = reader(fs, column(INT), 3).footer


def test_an_encoding_must_suit_the_type() -> None:
    with pytest.raises(InvalidTableDefinition, match="column c: DOUBLE cannot be stored as DICT; there are PLAIN"):
        check_encoding(column(DOUBLE, Encoding.DICT))
    with pytest.raises(InvalidTableDefinition, match="STRING cannot be stored as FRAME_OF_REFERENCE; there are"):
        write(column(STRING, Encoding.FRAME_OF_REFERENCE), ["a"])


# ---- reading no more than needed ---------------------------------------------------------------------------------


def test_pages_come_from_the_cache_the_second_time() -> None:
    spec = column(INT)
    fs = write(spec, list(range(64)), page_rows=8)
    opened = reader(fs, spec, 64)
    opened.read(0, 64, None)
    before = len(fs.reads)
    assert opened.read(8, 24, None).values().tolist() == list(range(8, 24))
    assert len(fs.reads) == before


def test_a_dictionary_counts_against_the_cache_until_the_file_is_closed() -> None:
    spec = column(STRING, Encoding.DICT)
    fs = write(spec, ["one", "two", None, "one"] * 500)
    cache = PageCache(1 << 20)
    opened = ColumnReader(FileHandles(fs), PATH, spec.id, spec.type, 2000, cache)
    dictionary = opened.dictionary
    assert dictionary.to_pylist() == ["one", "two"]
    assert cache.size == dictionary.nbytes > 0
    page = opened.page(0)
    assert cache.size > dictionary.nbytes
    opened.close()
    assert cache.size == 0
    assert len(page) == 2000


def test_gathering_reads_only_the_pages_it_needs() -> None:
    spec = column(STRING, Encoding.PLAIN, Compression.NONE)
    fs = write(spec, [f"row {i}" for i in range(64)], page_rows=8)
    opened = reader(fs, spec, 64)
    pages = opened.footer.pages
    fs.reads.clear()
    found = opened.read(0, 64, np.array([60, 9, 9, 61]))
    assert found.to_arrow().to_pylist() == ["row 60", "row 9", "row 9", "row 61"]
    assert {offset for _, offset, _ in fs.reads} == {int(pages[1]["offset"]), int(pages[7]["offset"])}


def test_chunked_slices_keep_their_offsets() -> None:
    whole = pa.array(["x", "left", "middle", None, "right", "y"])
    spec = column(STRING, Encoding.PLAIN)
    fs = WatchedFileSystem()
    write_column(fs, PATH, spec, whole.slice(1, 4))
    assert reader(fs, spec, 4).read(0, 4, None).to_arrow().to_pylist() == ["left", "middle", None, "right"]


@pytest.mark.parametrize(
    ("type_", "values", "block_size", "rows"),
    [
        (INT, list(range(5000)), 4096, 1024),
        (INT, list(range(5000)), 5000, 1024),
        (BIGINT, list(range(5000)), 1, 1),
        (DECIMAL(38, 0), list(range(500)), 1024, 64),
        (STRING, ["x" * 96] * 600 + ["y" * 96], 1000, 8),
        (DOUBLE, [float(i) for i in range(300)], 64 << 20, 131_072),
    ],
)
def test_a_block_size_sets_the_rows_of_a_page(type_: DataType, values: list[Any], block_size: int, rows: int) -> None:
    for encoding in (Encoding.AUTO, Encoding.PLAIN):
        spec = replace(column(type_, encoding), block_size=block_size)
        opened = reader(write(spec, values), spec, len(values))
        assert opened.footer.page_rows == rows
        assert opened.read(0, len(values), None).to_arrow().to_pylist() == arrow_array(type_, values).to_pylist()
