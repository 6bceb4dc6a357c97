"""The column file: all values of one column of one DiskRowSet. This docstring defines the format for writer and reader.

All integers are little-endian.

    offset        bytes  meaning
    0             8      magic "NYALACOL"
    8             2      format version (1)
    10            2      0
    12            4      CRC32 of bytes 0 to 11
    16            ...    pages, back to back; behind them the dictionary, where the encoding is DICT
    F             n      footer: a msgpack map, below
    size - 12     4      n
    size - 8      4      CRC32 of the footer and of n
    size - 4      4      magic "NYCF"

The head and the tail never change, so that every version can distinguish an unknown version from a damaged file. A page
carries no checksum of its own: its CRC32 is in the footer's page index, so that an undamaged page at the wrong offset,
or of another file, is detected too. The checksums cover every byte of a file.

**Footer**

    column      permanent id of the column            rows        number of rows
    type        [kind, precision, scale]              page_rows   rows per page, a power of two <= 131,072
    encoding    a name of `model.schema.Encoding`           pages       the page index: one record of 48 bytes per page
    dictionary  a record like a page's, nil if none   entries     number of entries of the dictionary
    bounds      per page [low, high] or nil: texts (cut to 64 bytes, high rounded up), floats, wide decimals
    firsts      of key columns: the value of every 4,096th row (the sparse key index), else nil
    sketch      `ColumnSketch.to_dict`                    file        `identity_of` it; not in old files

**Page record**

    0   u64  offset in the file           24  i64  low   (integers: smallest value; DICT: smallest code)
    8   u32  stored bytes                 32  i64  high  (likewise the largest; 0 and 0 where all are NULL)
    12  u32  bytes after decompression    40  u8   bytes per code, value or length; 0 for PLAIN texts
    16  u32  CRC32 of the stored bytes    41  u8   compression: 0 none, 1 LZ4 block, 2 Zstandard frame, 3 gzip member,
    20  u32  number of NULLs                       4 bzip2 stream
                                          42  u8   layout of the values, below; 43: five bytes 0

Row r is in page r // page_rows; only the last page may hold fewer rows than page_rows.

**Page**, after decompression

    validity    ceil(rows / 64) * 8 bytes, bit i of byte i // 8 (lowest first) set where a value is present; the part
                is missing where the page has no NULL. What lies under a NULL is any valid value.
    values      in the page's layout
    dictionary  like a page of PLAIN texts; ascending by bytes, no NULL, none twice

**Layouts**; a code is unsigned, and the value is the page's low + code, or the dictionary's entry

    0  as they are   PLAIN, fixed width: the values as in memory (bool 1 byte, DECIMAL above 18 digits 16 bytes)
                     PLAIN, texts: rows + 1 u32 offsets from the first text byte, then the text bytes
                     FRAME_OF_REFERENCE: codes of 1, 2, 4 or 8 bytes; of RLE too, where runs would take more
                     DICT: codes of 1, 2 or 4 bytes
    1  bits          BIT_SHUFFLE, and DICT where it pays: for each bit of the codes that high - low (DICT: high) needs,
                     or of the floats, lowest first: a plane of ceil(rows / 8) bytes, bit i of byte i // 8 is that of
                     row i
    2  runs          RLE: one code per run, then one u16 per run: its rows - 1. A NULL continues the run before it.
    3  fronts        PREFIX: per row the length of its suffix; per row a u8, how many bytes it shares with the restart
                     row above it (every 16th row is one, and shares nothing); the suffixes' bytes
    4  lengths       PREFIX, where sharing would save little: per row its length, then the text bytes

**Example**: an INT column with the rows 100, NULL, 103 is one page of 8 + 3 bytes (LZ4 would not make it smaller) with
low 100, high 103, width 1 and one NULL:

    05 00 00 00 00 00 00 00    validity: rows 0 and 2
    00 00 03                   codes; the one under the NULL is 0

and with ENCODING BIT_SHUFFLE one of 8 + 2 bytes with layout 1, since high - low takes two bits:

    05 00 00 00 00 00 00 00    validity
    04 04                      lowest and second bit of row 2

A STRING column with ENCODING PREFIX and the rows "lighthouse", "lighthouses" has layout 3 and width 1:

    0a 01                                suffixes of 10 bytes and 1
    00 0a                                the second row shares 10 bytes with the first
    6c 69 67 68 74 68 6f 75 73 65 73     "lighthouse", "s"
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from ...errors import CorruptionError, UnsupportedFormat
from ...model.codec.packing import pack, unpack
from ...model.codec.values import decimal_from_bytes, decimal_to_bytes
from ...model.lazy_dataclass import dataclass
from ...model.schema import Encoding
from ...model.types import DataType, Kind
from ...model.vectors.vector import Array
from ..files.file_handles import FileHandles
from ..files.file_identity import check_identity
from .sketch import ColumnSketch

FORMAT_VERSION = 1
MAGIC = b"NYALACOL"
TAIL_MAGIC = b"NYCF"
HEADER = struct.Struct("<8sHHI")
TAIL = struct.Struct("<II4s")
ROW_GROUP_ROWS = 131_072
"""Rows of all columns of a rowset align in groups of this size; the unit of a scan's batch."""
INDEX_ROWS = 4_096
"""Every how many rows the sparse key index keeps a key: 12 steps of binary search remain within."""
BOUND_BYTES = 64
"""Page bounds of texts are cut to this length."""
AS_THEY_ARE, BITS, RUNS, FRONTS, LENGTHS = range(5)
"""Layouts of values in a page."""
PAGE = np.dtype(
    {
        "names": ["offset", "stored", "raw", "crc", "nulls", "low", "high", "width", "compression", "layout"],
        "formats": ["<u8", "<u4", "<u4", "<u4", "<u4", "<i8", "<i8", "u1", "u1", "u1"],
        "offsets": [0, 8, 12, 16, 20, 24, 32, 40, 41, 42],
        "itemsize": 48,
    }
)
"""The page record."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a column file, decoded; see the module's page.

    `pages` and `dictionary` are structured arrays of `PAGE` (one record per page; one or none). `bounds` holds
    (low, high) per page in the order domain of the type: bytes, floats or ints.
    """

    column: int
    type: DataType
    encoding: Encoding
    rows: int
    page_rows: int
    pages: Array
    dictionary: Array | None
    entries: int
    bounds: list[tuple[Any, Any] | None] | None
    firsts: list[Any] | None
    sketch: ColumnSketch
    file: str = ""

    def page_length(self, number: int) -> int:
        """Number of rows of a page."""
        return min(self.page_rows, self.rows - number * self.page_rows)


def encode_header(magic: bytes = MAGIC) -> bytes:
    """The first 16 bytes of a file."""
    head = HEADER.pack(magic, FORMAT_VERSION, 0, 0)[:12]
    return head + struct.pack("<I", zlib.crc32(head))


def check_header(data: bytes, path: str, magic: bytes = MAGIC) -> None:
    """Raise `CorruptionError` or `UnsupportedFormat` unless the file starts as this version's files do."""
    if len(data) < HEADER.size:
        raise CorruptionError(f"the file ends within its header of {HEADER.size} bytes", path, "header")
    found, version, _, crc = HEADER.unpack(data[: HEADER.size])
    if found != magic:
        raise CorruptionError(f"starts with {found!r} instead of {magic!r}", path, "header")
    if crc != zlib.crc32(data[:12]):
        raise CorruptionError(f"checksum {zlib.crc32(data[:12]):08x} instead of {crc:08x}", path, "header")
    if version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path}: format version {version}; this nyala reads version {FORMAT_VERSION}, open it with the nyala "
            "that wrote it or a newer one"
        )


def encode_tail(footer: bytes) -> bytes:
    """The last 12 bytes of a file."""
    size = struct.pack("<I", len(footer))
    return size + struct.pack("<I", zlib.crc32(size, zlib.crc32(footer))) + TAIL_MAGIC


def footer_size(tail: bytes, file_size: int, path: str) -> int:
    """Length of the footer, from the last 12 bytes of a file of `file_size` bytes."""
    if len(tail) < TAIL.size or file_size < HEADER.size + TAIL.size:
        raise CorruptionError(f"the file ends after {file_size} bytes, before its footer", path, "footer")
    size, _, magic = TAIL.unpack(tail)
    if magic != TAIL_MAGIC:
        raise CorruptionError(f"ends with {magic!r} instead of {TAIL_MAGIC!r}; is it cut short?", path, "footer")
    if size > file_size - HEADER.size - TAIL.size:
        raise CorruptionError(f"a footer of {size} bytes does not fit into {file_size} bytes", path, "footer")
    return int(size)


def check_footer(footer: bytes, tail: bytes, path: str) -> None:
    """Raise `CorruptionError` unless the footer's checksum is right."""
    size, expected, _ = TAIL.unpack(tail)
    crc = zlib.crc32(struct.pack("<I", size), zlib.crc32(footer))
    if crc != expected:
        raise CorruptionError(f"checksum {crc:08x} instead of {expected:08x}", path, "footer")


def read_footer(handles: FileHandles, path: str, magic: bytes = MAGIC, guess: int = TAIL.size) -> bytes:
    """The checked footer of a file with this magic. The last `guess` bytes are read first: a footer that they contain
    needs no second read. Raises `CorruptionError` or `UnsupportedFormat`."""
    size = handles.size(path)
    check_header(handles.read_at(path, 0, HEADER.size), path, magic)
    end = handles.read_at(path, max(size - guess, 0), guess)
    tail = end[-TAIL.size :]
    length = footer_size(tail, size, path)
    data = end[-TAIL.size - length : -TAIL.size]
    if len(data) < length:
        data = handles.read_at(path, size - TAIL.size - length, length)
    check_footer(data, tail, path)
    return data


def encode_footer(footer: Footer) -> bytes:
    """The footer's msgpack map."""
    type_ = footer.type
    sketch = footer.sketch.to_dict()
    sketch["low"], sketch["high"] = _written(type_, sketch["low"]), _written(type_, sketch["high"])
    fields = {
        "column": footer.column,
        "type": [type_.kind.value, type_.precision, type_.scale],
        "encoding": footer.encoding.value,
        "rows": footer.rows,
        "page_rows": footer.page_rows,
        "pages": footer.pages.tobytes(),
        "dictionary": None if footer.dictionary is None else footer.dictionary.tobytes(),
        "entries": footer.entries,
        "bounds": None
        if footer.bounds is None
        else [None if b is None else [_written(type_, end) for end in b] for b in footer.bounds],
        "firsts": None if footer.firsts is None else [_written(type_, v) for v in footer.firsts],
        "sketch": sketch,
    }
    if footer.file:
        fields["file"] = footer.file
    return pack(fields)


def decode_footer(data: bytes, type_: DataType, path: str) -> Footer:
    """The inverse of `encode_footer`, for a column of type `type_`; `CorruptionError` where it is of another."""
    fields = unpack(data)
    check_identity(fields.get("file", ""), path, "footer")
    if fields["type"] != [type_.kind.value, type_.precision, type_.scale]:
        raise CorruptionError(f"holds values of type {fields['type']}, {type_} expected", path, "footer")
    if fields["encoding"] not in Encoding.__members__:
        raise UnsupportedFormat(
            f"{path}: encoding {fields['encoding']}; this nyala reads {', '.join(Encoding.__members__)}, open it with "
            "a newer one"
        )
    sketch = fields["sketch"]
    ends = {end: _read(type_, sketch[end]) for end in ("low", "high")}
    bounds, firsts, dictionary = fields["bounds"], fields["firsts"], fields["dictionary"]
    return Footer(
        column=fields["column"],
        type=type_,
        encoding=Encoding(fields["encoding"]),
        rows=fields["rows"],
        page_rows=fields["page_rows"],
        pages=np.frombuffer(fields["pages"], PAGE),
        dictionary=None if dictionary is None else np.frombuffer(dictionary, PAGE),
        entries=fields["entries"],
        bounds=None
        if bounds is None
        else [None if b is None else (_read(type_, b[0]), _read(type_, b[1])) for b in bounds],
        firsts=None if firsts is None else [_read(type_, v) for v in firsts],
        sketch=ColumnSketch.from_dict(sketch | ends),
        file=fields.get("file", ""),
    )


def _written(type_: DataType, value: Any) -> Any:
    return decimal_to_bytes(value) if type_.kind is Kind.DECIMAL else value


def _read(type_: DataType, value: Any) -> Any:
    return decimal_from_bytes(value) if type_.kind is Kind.DECIMAL else value
