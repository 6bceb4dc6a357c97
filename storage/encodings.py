"""Pages: from vectors to bytes and back. `column_file` draws the layout.

Nothing is copied on the way back where bytes are stored as they are: codes, values and texts are views of the page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InvalidTableDefinition
from .column_file import LZ4, UNCOMPRESSED
from .schema import ColumnSchema, Compression, Encoding
from .types import DataType
from .vector import Array, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs

CODE_DTYPES: list[np.dtype[Any]] = [np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8")]
_BY_WIDTH = {dtype.itemsize: dtype for dtype in CODE_DTYPES}
WORTH_COMPRESSING = 0.9
"""AUTO keeps a compressed page only below this share of the plain one: LZ4 unpacks about 2 GB/s per core, so a page
that hardly shrinks would cost more to unpack than it saves to read."""
_LZ4 = pa.Codec("lz4_raw")
"""Arrow's codec releases the GIL and unpacks into aligned memory without a further copy."""


def check_encoding(column: ColumnSchema) -> None:
    """Raise `InvalidTableDefinition` where the column's type cannot be stored in its declared encoding."""
    possible = possible_encodings(column.type)
    if column.encoding is not Encoding.AUTO and column.encoding not in possible:
        names = ", ".join(e.value for e in possible)
        raise InvalidTableDefinition(
            f"column {column.name}: {column.type} cannot be stored as {column.encoding.value}; there are {names}"
        )


def possible_encodings(type_: DataType) -> tuple[Encoding, ...]:
    """The encodings that a type can have, its default first."""
    if type_.is_text:
        return Encoding.DICT, Encoding.PLAIN
    if is_code_like(type_):
        return Encoding.FRAME_OF_REFERENCE, Encoding.PLAIN
    return (Encoding.PLAIN,)


def is_code_like(type_: DataType) -> bool:
    """Are physical values integers of at most 64 bits?"""
    return type_.is_integer_like and not is_wide(type_)


def is_wide(type_: DataType) -> bool:
    """A decimal of more than 18 digits."""
    return type_.precision is not None and type_.precision > 18


def narrowest(top: int) -> np.dtype[Any]:
    """The smallest unsigned dtype that holds `top`.

    >>> narrowest(255), narrowest(256)
    (dtype('uint8'), dtype('uint16'))
    """
    return next(d for d in CODE_DTYPES if top < 1 << (8 * d.itemsize))


def subtract_base(values: Array, base: int, dtype: np.dtype[Any]) -> Array:
    """`values - base` as codes of `dtype`; all differences fit it.

    The subtraction runs modulo 2**n in the values' own width, so that no spread of values can overflow.
    """
    unsigned = values.view(_BY_WIDTH[values.dtype.itemsize])
    bits = 8 * values.dtype.itemsize
    codes: Array = (unsigned - unsigned.dtype.type(base % (1 << bits))).astype(dtype, copy=False)
    return codes


def encode_validity(validity: Array | None) -> bytes:
    """The validity part of a page; nothing where nothing is NULL."""
    if validity is None:
        return b""
    packed = np.packbits(validity, bitorder="little").tobytes()
    return bytes(packed + bytes(-len(packed) % 8))


def encode_texts(array: pa.Array) -> bytes:
    """The values part of PLAIN texts: offsets, then bytes."""
    if len(array) == 0:
        return bytes(4)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    first, last = int(ends[0]), int(ends[-1])
    body = memoryview(data)[first:last] if data is not None else b""
    return bytes((ends - ends[0]).astype("<u4").tobytes() + body)


def encode_wide(array: pa.Array) -> bytes:
    """The values part of decimals of more than 18 digits; 0 under NULLs."""
    high, low = decimal_limbs(array)
    words = np.empty((len(array), 2), "<u8")
    words[:, 0], words[:, 1] = low, high.view(np.uint64)
    if array.null_count:
        words[~array.is_valid().to_numpy(zero_copy_only=False)] = 0
    return words.tobytes()


def compress(page: bytes, compression: Compression) -> tuple[bytes, int]:
    """A page as it is stored, and how (`UNCOMPRESSED` or `LZ4`)."""
    if compression is Compression.NONE or not page:
        return page, UNCOMPRESSED
    packed = _LZ4.compress(page, asbytes=True)  # a Buffer would tell memoryview its size before it was shrunk
    limit = WORTH_COMPRESSING if compression is Compression.AUTO else 1.0
    return (packed, LZ4) if len(packed) < limit * len(page) else (page, UNCOMPRESSED)


def decompress(stored: bytes, raw: int, compression: int) -> pa.Buffer:
    """The inverse of `compress`: a buffer of `raw` bytes. `ValueError` or `OSError` where the bytes do not unpack."""
    if compression == UNCOMPRESSED:
        buffer = pa.py_buffer(stored)
    elif compression == LZ4:
        buffer = _LZ4.decompress(stored, raw)
    else:
        raise ValueError(f"compression {compression} is unknown")
    if buffer.size != raw:
        raise ValueError(f"{buffer.size} bytes instead of {raw}")
    return buffer


def decode_texts(
    page: pa.Buffer, rows: int, type_: DataType, validity: pa.Buffer | None = None, start: int = 0
) -> pa.Array:
    """PLAIN texts from byte `start` of a page, as a view."""
    body = start + 4 * (rows + 1)
    return pa.Array.from_buffers(type_.arrow, rows, [validity, page.slice(start, 4 * (rows + 1)), page.slice(body)])


def decode_page(
    page: pa.Buffer, rows: int, type_: DataType, encoding: Encoding, record: Any, dictionary: pa.Array | None
) -> Vector:
    """The vector of one page, a view of `page`.

    Parameters
    ----------
    page : pa.Buffer
        Decompressed.
    rows : int
    record : void of column_file.PAGE
        The page's record in the footer.
    dictionary : pa.Array, optional
        Of the file, where the encoding is DICT.
    """
    start = -(-rows // 64) * 8 if record["nulls"] else 0
    if type_.is_text and encoding is Encoding.PLAIN:
        return Text(type_, decode_texts(page, rows, type_, page.slice(0, start) if start else None, start))
    if is_wide(type_):
        buffers = [page.slice(0, start) if start else None, page.slice(start)]
        return Wide(type_, pa.Array.from_buffers(type_.arrow, rows, buffers))
    validity = None
    if start:
        bits = np.frombuffer(page, np.uint8, start)
        validity = np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)
    low, high = int(record["low"]), int(record["high"])
    if encoding is Encoding.PLAIN:
        values = np.frombuffer(page, type_.dtype.newbyteorder("<"), rows, start)
        return Flat(type_, values, validity) if type_.is_float else Flat(type_, values, validity, low, high)
    codes = np.frombuffer(page, _BY_WIDTH[int(record["width"])], rows, start)
    if encoding is Encoding.DICT:
        assert dictionary is not None
        return Dict(type_, codes, dictionary, validity)
    return Narrow(type_, codes, low, validity, high - low)


def vector_bytes(vector: Vector) -> int:
    """About how much memory a decoded page keeps alive, without its dictionary."""
    if isinstance(vector, (Text, Wide)):
        return int(vector.array.get_total_buffer_size()) + len(vector) // 8
    held = vector.codes if isinstance(vector, (Narrow, Dict)) else vector.values()
    return int(held.nbytes) + (0 if vector.validity is None else int(vector.validity.nbytes))
