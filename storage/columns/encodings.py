"""Pages: from values to bytes and back. `column_file` draws the layout, `page_layouts` makes the less plain ones.

Nothing is copied on the way back where bytes are stored as they are: codes, values and texts are views of the page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import Encoding
from ...model.types import DataType
from ...model.vectors.vector import Array, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs
from .column_file import AS_THEY_ARE, BITS, FRONTS, LENGTHS, RUNS
from .page_layouts import (
    RUN_LENGTH,
    offsets_of,
    pack_bits,
    pack_runs,
    run_starts,
    shared_lengths,
    unpack_bits,
    unpack_runs,
    with_fronts,
    without_fronts,
)

CODE_DTYPES: list[np.dtype[Any]] = [np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8")]
_BY_WIDTH = {dtype.itemsize: dtype for dtype in CODE_DTYPES}
WORTH_SHARING = 0.25
"""A PREFIX page whose rows share less than this part of their bytes keeps whole texts, which are read as views."""


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


# ---- to bytes --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class EncodedPage:
    """A page before compression, with the data for its record and the sketch. `codes` are those of integers, under
    NULLs the code 0."""

    body: bytes
    nulls: int = 0
    low: int = 0
    high: int = 0
    width: int = 0
    layout: int = AS_THEY_ARE
    codes: Array | None = None


def encode_integers(page: Array, present: Array | None, encoding: Encoding, dtype: np.dtype[Any]) -> EncodedPage:
    """Integers, or BOOLEAN, in any encoding that they can have.

    Parameters
    ----------
    page : ndarray, shape (n_rows,)
        Of any integer dtype or bool; anything may lie under NULLs.
    present : ndarray of bool, shape (n_rows,), optional
        False where a value is NULL.
    dtype : dtype
        Of the type: what PLAIN stores.
    """
    nulls, values = _present(page, present)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if nulls:
        page = np.where(_mask(present), page, page.dtype.type(low))
    numbers = page.view(np.uint8) if page.dtype == np.bool_ else page
    codes = subtract_base(numbers, low, narrowest(high - low))
    validity = encode_validity(present if nulls else None)
    if encoding is Encoding.PLAIN:
        body, width, layout = page.astype(dtype, copy=False).tobytes(), dtype.itemsize, AS_THEY_ARE
    else:
        width = codes.itemsize
        body, layout = _encode_codes(codes, (high - low).bit_length(), present if nulls else None, encoding)
    return EncodedPage(validity + body, nulls, low, high, width, layout, codes)


def _encode_codes(codes: Array, bits: int, present: Array | None, encoding: Encoding) -> tuple[bytes, int]:
    if encoding is Encoding.BIT_SHUFFLE:
        return pack_bits(codes, bits), BITS
    if encoding is Encoding.RLE:
        filled = codes if present is None else _carried_over(codes, present)
        starts = run_starts(filled)
        if len(starts) * (codes.itemsize + RUN_LENGTH.itemsize) < codes.nbytes:
            return pack_runs(filled, starts), RUNS
    return codes.tobytes(), AS_THEY_ARE


def _carried_over(codes: Array, present: Array) -> Array:
    """Under each NULL the code of the row before, so that NULLs do not end runs."""
    rows = np.where(present, np.arange(len(codes)), 0)
    return codes.take(np.maximum.accumulate(rows))


def encode_dictionary_codes(page: Array, present: Array | None, bits: bool = False) -> EncodedPage:
    """Positions in the dictionary, as they are or as planes of `bits`; those under NULLs are valid ones already."""
    nulls, values = _present(page, present)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if bits:
        # What lies under a NULL may be above the page's largest code, but must not be above its planes.
        body, layout = (
            pack_bits(np.where(_mask(present), page, page.dtype.type(0)) if nulls else page, high.bit_length()),
            BITS,
        )
    else:
        body, layout = page.tobytes(), AS_THEY_ARE
    validity = encode_validity(present if nulls else None)
    return EncodedPage(validity + body, nulls, low, high, page.itemsize, layout, page)


def encode_floats(page: Array, present: Array | None, encoding: Encoding) -> EncodedPage:
    """FLOAT or DOUBLE, PLAIN or BIT_SHUFFLE; 0 under NULLs."""
    nulls, _ = _present(page, present)
    if nulls:
        page = np.where(_mask(present), page, page.dtype.type(0))
    width = page.dtype.itemsize
    shuffled = encoding is Encoding.BIT_SHUFFLE
    body = pack_bits(np.ascontiguousarray(page).view(_BY_WIDTH[width]), 8 * width) if shuffled else page.tobytes()
    validity = encode_validity(present if nulls else None)
    return EncodedPage(validity + body, nulls, width=width, layout=BITS if shuffled else AS_THEY_ARE)


def encode_text_page(page: pa.Array, encoding: Encoding, share: bool = True) -> EncodedPage:
    """STRING or BINARY, PLAIN or PREFIX; an empty text under each NULL, so that equal columns give equal bytes.

    `share` False lets PREFIX keep texts whole, even where they share much.
    """
    nulls = page.null_count
    validity = encode_validity(numpy_array(page.is_valid()) if nulls else None)
    filled = fill_nulls(page, "" if pa.types.is_string(page.type) else b"") if nulls else page
    if encoding is not Encoding.PREFIX:
        return EncodedPage(validity + encode_texts(filled), nulls)
    offsets, data = _text_parts(filled)
    shared = shared_lengths(data, offsets) if share else np.zeros(len(page), np.uint8)
    layout = AS_THEY_ARE
    if int(shared.sum(dtype=np.int64)) > WORTH_SHARING * len(data):
        lengths, layout = np.diff(offsets) - shared, FRONTS
        rest = shared.tobytes() + without_fronts(data, offsets, shared).tobytes()
    else:
        lengths, layout = np.diff(offsets), LENGTHS
        rest = data.tobytes()
    dtype = narrowest(int(lengths.max(initial=0)))
    return EncodedPage(validity + lengths.astype(dtype).tobytes() + rest, nulls, width=dtype.itemsize, layout=layout)


def encode_wide_page(page: pa.Array) -> EncodedPage:
    """Decimals of more than 18 digits, PLAIN."""
    nulls = page.null_count
    validity = encode_validity(numpy_array(page.is_valid()) if nulls else None)
    return EncodedPage(validity + _encode_wide(page), nulls, width=16)


def encode_validity(validity: Array | None) -> bytes:
    """The validity part of a page; nothing where nothing is NULL."""
    if validity is None:
        return b""
    packed = np.packbits(validity, bitorder="little").tobytes()
    return bytes(packed + bytes(-len(packed) % 8))


def encode_texts(array: pa.Array) -> bytes:
    """The values part of PLAIN texts: offsets, then bytes."""
    offsets, data = _text_parts(array)
    return bytes(offsets.astype("<u4").tobytes() + data.tobytes())


def _text_parts(array: pa.Array) -> tuple[Array, Array]:
    """(offsets from 0 on, bytes) of an Arrow array without NULLs: ndarrays of int32 and uint8."""
    if len(array) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], held[int(ends[0]) : int(ends[-1])]


def _encode_wide(array: pa.Array) -> bytes:
    high, low = decimal_limbs(array)
    words = np.empty((len(array), 2), "<u8")
    words[:, 0], words[:, 1] = low, high.view(np.uint64)
    if array.null_count:
        words[~numpy_array(array.is_valid())] = 0
    return words.tobytes()


def _present(page: Array, present: Array | None) -> tuple[int, Array]:
    """The number of NULLs and the present values."""
    if present is None:
        return 0, page
    nulls = len(page) - int(np.count_nonzero(present))
    return nulls, page[present] if nulls else page


def _mask(present: Array | None) -> Array:
    assert present is not None
    return present


# ---- and back --------------------------------------------------------------------------------------------------------


def decode_texts(
    page: pa.Buffer, rows: int, type_: DataType, validity: pa.Buffer | None = None, start: int = 0
) -> pa.Array:
    """PLAIN texts from byte `start` of a page, as a view."""
    body = start + 4 * (rows + 1)
    return pa.Array.from_buffers(type_.arrow, rows, [validity, page.slice(start, 4 * (rows + 1)), page.slice(body)])


def decode_page(
    page: pa.Buffer, rows: int, type_: DataType, encoding: Encoding, record: Any, dictionary: pa.Array | None
) -> Vector:
    """The vector of one page, a view of `page` where it holds what the vector does.

    Parameters
    ----------
    page : pa.Buffer
        Decompressed.
    rows : int
    record : void of column_file.PAGE
        The page's record in the footer.
    dictionary : pa.Array, optional
        Of the file, where the encoding is DICT.

    Raises
    ------
    ValueError
        Where the page is not what the record says.
    """
    start = -(-rows // 64) * 8 if record["nulls"] else 0
    layout, width = int(record["layout"]), int(record["width"])
    if type_.is_text and encoding is not Encoding.DICT:
        bitmap = page.slice(0, start) if start else None
        if layout == AS_THEY_ARE:
            return Text(type_, decode_texts(page, rows, type_, bitmap, start))
        return Text(type_, _decode_lengths(page, rows, type_, bitmap, start, layout, _BY_WIDTH[width]))
    if type_.is_wide:
        buffers = [page.slice(0, start) if start else None, page.slice(start)]
        return Wide(type_, pa.Array.from_buffers(type_.arrow, rows, buffers))
    validity = None
    if start:
        bits = np.frombuffer(page, np.uint8, start)
        validity = np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)
    if type_.is_float:
        dtype = type_.dtype.newbyteorder("<")
        words = _decode_codes(page, rows, start, layout, 8 * width, _BY_WIDTH[width])
        return Flat(type_, words.view(dtype), validity)
    low, high = int(record["low"]), int(record["high"])
    if encoding is Encoding.PLAIN:
        values = np.frombuffer(page, type_.dtype.newbyteorder("<"), rows, start)
        return Flat(type_, values, validity, low, high)
    if encoding is Encoding.DICT:
        assert dictionary is not None
        codes = _decode_codes(page, rows, start, layout, high.bit_length(), _BY_WIDTH[width])
        return Dict(type_, codes, dictionary, validity)
    codes = _decode_codes(page, rows, start, layout, (high - low).bit_length(), _BY_WIDTH[width])
    return Narrow(type_, codes, low, validity, high - low)


def _decode_codes(page: pa.Buffer, rows: int, start: int, layout: int, bits: int, dtype: np.dtype[Any]) -> Array:
    if layout == AS_THEY_ARE:
        return np.frombuffer(page, dtype, rows, start)
    if layout == BITS:
        return unpack_bits(np.frombuffer(page, np.uint8)[start:], rows, bits, dtype)
    if layout == RUNS:
        return unpack_runs(page, start, rows, dtype)
    raise ValueError(f"page layout {layout} is unknown for numbers")


def _decode_lengths(
    page: pa.Buffer,
    rows: int,
    type_: DataType,
    validity: pa.Buffer | None,
    start: int,
    layout: int,
    dtype: np.dtype[Any],
) -> pa.Array:
    """Texts of a PREFIX page."""
    lengths = np.frombuffer(page, dtype, rows, start)
    place = start + lengths.nbytes
    if layout == LENGTHS:
        offsets = offsets_of(lengths)
        data = page.slice(place)
    elif layout == FRONTS:
        shared = np.frombuffer(page, np.uint8, rows, place)
        place += rows
        _check_length(page.size - place, int(lengths.sum(dtype=np.int64)))
        kept, offsets = with_fronts(np.frombuffer(page, np.uint8)[place:], lengths, shared)
        data = pa.py_buffer(kept)
    else:
        raise ValueError(f"page layout {layout} is unknown for texts")
    _check_length(data.size, int(offsets[-1]))
    return pa.Array.from_buffers(type_.arrow, rows, [validity, pa.py_buffer(offsets), data])


def _check_length(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} bytes of text instead of {expected}")


def vector_bytes(vector: Vector) -> int:
    """About how much memory a decoded page keeps alive, without its dictionary."""
    if isinstance(vector, (Text, Wide)):
        return int(vector.array.get_total_buffer_size()) + len(vector) // 8
    held = vector.codes if isinstance(vector, (Narrow, Dict)) else vector.values()
    return int(held.nbytes) + (0 if vector.validity is None else int(vector.validity.nbytes))
