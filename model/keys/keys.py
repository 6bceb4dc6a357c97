"""Primary keys in bulk: `Keys` are the keys of many rows as columns.

Whatever touches many keys works on whole columns and builds encoded bytes (`model.keys.key_encoding`) only for those
who need them: hashes, order and comparisons come from the values (`model.keys.key_words`, `model.keys.hashing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import InternalError, InvalidText, NotNullViolation
from .. import arrow_functions as pc
from ..arrow_arrays import arrow_array, arrow_scalar
from ..schema import Schema
from ..types import DataType
from ..vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs, vector_from_arrow
from ..vectors.vector import physical_to_arrow as _physical_to_arrow
from .hashing import hash64_text, hash64_words, murmur3_32_binary, murmur3_32_fixed
from .key_encoding import END, decode_key, encode_key, key_width, prefix_end, search_encoded
from .key_words import argsort, neighbours, ordered_words, pack, rank_pieces, signed_words

__all__ = ["Keys", "decode_key", "encode_key", "key_width", "prefix_end", "search_encoded"]

_MAX_BYTES = 2**31 - 1  # Arrow's offsets of binary arrays are 32 bits


class Keys:
    """The primary keys of n rows as columns. Immutable; what is computed is kept, and safe to share among threads.

    Parameters
    ----------
    types : tuple of DataType
        The key columns' types, in key order.
    columns : tuple of Vector
        One vector per type, all of one length, without NULLs; in any form.

    Examples
    --------
    >>> from nyala.model.types import INT, STRING
    >>> keys = Keys.from_values((INT, STRING), [(2, "x"), (1, "y"), (2, "x")])
    >>> keys.order().tolist(), keys.duplicates().tolist()
    ([1, 0, 2], [2])
    """

    __slots__ = ("_ascending", "_encoded", "_hashes", "_order", "_ranks", "columns", "types")

    def __init__(self, types: tuple[DataType, ...], columns: tuple[Vector, ...]):
        self.types = types
        self.columns = columns
        self._encoded: pa.Array | None = None
        self._hashes: Array | None = None
        self._order: Array | None = None
        self._ranks: list[Array] | None = None
        self._ascending: bool | None = None

    @classmethod
    def from_rows(cls, schema: Schema, rows: pa.RecordBatch | pa.Table, names: Sequence[str] | None = None) -> Keys:
        """The keys of Arrow rows (columns by name, others are passed over).

        Parameters
        ----------
        schema : Schema
        rows : pa.RecordBatch or pa.Table
            Holds every key column, of its type or one that casts to it without loss.
        names : sequence of str, optional
            Columns to take instead of the primary key's (partition rules use some of them).

        Raises `NotNullViolation` for the first NULL, `InvalidText` for a column that does not cast.
        """
        columns = schema.key if names is None else [schema.column(name) for name in names]
        vectors: list[Vector] = []
        for column in columns:
            if column.name not in rows.schema.names:
                raise NotNullViolation(f"key column {column.name} is missing; every row needs its whole primary key")
            array = rows.column(column.name)
            try:
                vector = vector_from_arrow(column.type, array)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidText(
                    f"key column {column.name}: {array.type} does not become {column.type}: {error}"
                ) from None
            if vector.validity is not None and not vector.validity.all():
                row = int(np.argmin(vector.validity))
                raise NotNullViolation(f"key column {column.name} is NULL in row {row + 1} of the batch")
            vectors.append(vector)
        return cls(tuple(c.type for c in columns), tuple(vectors))

    @classmethod
    def from_values(cls, types: tuple[DataType, ...], rows: Sequence[Sequence[Any]]) -> Keys:
        """A few keys given as tuples of physical values."""
        return cls(types, tuple(_vector(t, [row[i] for row in rows]) for i, t in enumerate(types)))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"Keys({len(self)} x ({', '.join(map(str, self.types))}))"

    def take(self, indices: Array) -> Keys:
        """The keys at `indices` (ndarray of intp, any order)."""
        taken = Keys(self.types, tuple(c.take(indices) for c in self.columns))
        if self._hashes is not None:
            taken._hashes = self._hashes.take(indices)
        return taken

    def slice(self, start: int, stop: int) -> Keys:
        """The keys `start` to `stop` (exclusive), as views where the columns' forms allow."""
        stop = min(stop, len(self))
        return Keys(self.types, tuple(c.slice(start, stop) for c in self.columns))

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def encoded(self) -> pa.BinaryArray:
        """The encoded keys, in row order. All together must stay below 2 GiB (`InternalError`)."""
        if self._encoded is None:
            self._encoded = self._encode()
        return self._encoded

    def encode_one(self, i: int) -> bytes:
        """The encoded key of one row, without encoding the others."""
        if self._encoded is not None:
            return bytes(self._encoded[i].as_py())
        return encode_key(self.types, self.values_at(i))

    def values_at(self, i: int) -> tuple[Any, ...]:
        """The physical values of one key."""
        return tuple(_value_at(column, i) for column in self.columns)

    def matrix(self) -> Array | None:
        """The encoded keys as ndarray of uint8, shape (n_rows, n_bytes); None where a column has no fixed width."""
        if any(t.is_text for t in self.types):
            return None
        return _matrix(self.types, self.columns)

    def packed(self) -> Array | None:
        """The encoded keys read as big-endian integers: ndarray of uint64, shape (n_rows,).

        Integer order is key order. None where an encoded key may be longer than 8 bytes.
        """
        widths = [key_width(t) for t in self.types]
        if None in widths or sum(w for w in widths if w is not None) > 8:
            return None
        result: Array | None = None
        for type_, column in zip(self.types, self.columns):
            word = ordered_words(type_, column)[0]
            if result is None:
                result = word.astype(np.uint64)
            else:
                result <<= np.uint64(8 * word.dtype.itemsize)
                result |= word
        return result

    def _encode(self) -> pa.BinaryArray:
        parts: list[Any] = []
        place = 0
        while place < len(self.types):
            end = place
            while end < len(self.types) and not self.types[end].is_text:
                end += 1
            if end > place:
                parts.append(_matrix_to_binary(_matrix(self.types[place:end], self.columns[place:end])))
            if end < len(self.types):
                parts.extend(_text_parts(self.columns[end], last=end == len(self.types) - 1))
            place = end + 1
        if len(parts) == 1:
            return parts[0]
        return pc.binary_join_element_wise(*parts, arrow_scalar(b""))

    # ---- hashes --------------------------------------------------------------------------------------------------

    def hashes(self) -> Array:
        """A 64-bit hash of each key's values: ndarray of uint64, shape (n_rows,).

        Part of the file format (Bloom filters): `model.keys.hashing` says how it is made.
        """
        if self._hashes is None:
            hashes = np.zeros(len(self), np.uint64)
            for type_, column in zip(self.types, self.columns):
                for word in _hash_words(type_, column):
                    hash64_words(hashes, word)
            self._hashes = hashes
        return self._hashes

    def hashes_32(self, seed: int = 0) -> Array:
        """`model.keys.hashing.murmur3_32` of each key's encoded bytes: ndarray of uint32, shape (n_rows,)."""
        matrix = self.matrix()
        return murmur3_32_binary(self.encoded(), seed) if matrix is None else murmur3_32_fixed(matrix, seed)

    # ---- order ---------------------------------------------------------------------------------------------------

    def order(self) -> Array:
        """Row numbers in key order, equal keys in row order: ndarray of intp, shape (n_rows,)."""
        if self._order is None:
            if self._is_ascending(strictly=False):
                self._order = np.arange(len(self), dtype=np.intp)
            else:
                self._order = argsort(self._rank_words())
        return self._order

    def merge_order(self) -> Array:
        """`order`, for keys that consist of few ascending or descending runs: numpy's stable sort finds and merges them
        (131,072 keys in two runs: 0.2 to 1 ms instead of 8 to 14; keys in no order take twice as long)."""
        if self._order is None and not self._is_ascending(strictly=False):
            words = self._rank_words()
            if len(words) == 1:
                return np.argsort(words[0], kind="stable")
        return self.order()

    def is_strictly_ascending(self) -> bool:
        """True if every key is above the previous one: the rows are in order and no key is duplicated."""
        if self._ascending is None:
            self._ascending = self._is_ascending(strictly=True)
        return self._ascending

    def descents(self) -> Array:
        """The rows whose key is not above that of the row before: ndarray of intp, ascending. Runs of ascending keys
        lie between them."""
        below, equal = np.zeros(max(len(self) - 1, 0), np.bool_), np.ones(max(len(self) - 1, 0), np.bool_)
        for type_, column in zip(self.types, self.columns):
            for less, same in neighbours(type_, column):
                below |= equal & less
                equal &= same
        return np.flatnonzero(~below) + 1

    def duplicates(self) -> Array:
        """Rows whose key occurred in an earlier row, ascending: ndarray of intp."""
        if self.is_strictly_ascending():
            return np.empty(0, np.intp)
        order = self.order()
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for word in self._rank_words():
            ordered = word.take(order)
            same &= ordered[1:] == ordered[:-1]
        return np.sort(order[1:][same])

    def _is_ascending(self, strictly: bool) -> bool:
        equal: Array | None = None  # neighbours that are equal in all columns so far
        for type_, column in zip(self.types, self.columns):
            for below, same in neighbours(type_, column):
                fits = below | same
                if equal is not None:
                    fits |= ~equal
                if not fits.all():
                    return False
                equal = same if equal is None else equal & same
                if not equal.any():
                    return True
        return not strictly or equal is None or not equal.any()

    def _rank_words(self) -> list[Array]:
        """Unsigned 64-bit words, most significant first, that order and equal as the keys of these rows do."""
        if self._ranks is None:
            pieces = [p for t, c in zip(self.types, self.columns) for p in rank_pieces(t, c)]
            self._ranks = pack(pieces)
        return self._ranks


def _vector(type_: DataType, values: list[Any]) -> Vector:
    if type_.is_text:
        return Text(type_, arrow_array(values, type_.arrow))
    if key_width(type_) == 16:
        wide = np.empty(len(values), object)
        wide[:] = values
        return Wide(type_, _physical_to_arrow(type_, wide))
    return Flat(type_, np.array(values, type_.dtype))


def _value_at(column: Vector, i: int) -> Any:
    if isinstance(column, Flat):
        return column.values()[i].item()
    if isinstance(column, Narrow):
        return int(column.codes[i]) + column.base
    if isinstance(column, Text):
        return column.array[i].as_py()
    if isinstance(column, Dict):
        return column.dictionary[int(column.codes[i])].as_py()
    if isinstance(column, Const):
        return column.value
    high, low = decimal_limbs(column.to_arrow().slice(i, 1))
    return (int(high[0]) << 64) | int(low[0])


def _matrix(types: Sequence[DataType], columns: Sequence[Vector]) -> Array:
    words = [w for t, c in zip(types, columns) for w in ordered_words(t, c)]
    record = np.dtype([(f"f{i}", f">u{w.dtype.itemsize}") for i, w in enumerate(words)])
    rows = np.empty(len(columns[0]), record)
    for i, word in enumerate(words):
        rows[f"f{i}"] = word
    return rows.view(np.uint8).reshape(len(rows), record.itemsize)


def _matrix_to_binary(matrix: Array) -> pa.BinaryArray:
    rows, width = matrix.shape
    if rows * width > _MAX_BYTES:
        raise InternalError(f"{rows:,} keys of {width} bytes pass 2 GiB; encode fewer at a time")
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def _text_parts(column: Vector, last: bool) -> list[Any]:
    if isinstance(column, Dict) and len(column.dictionary):
        entries = _text_parts(Text(column.type, column.dictionary), last)
        return [entries[0].take(arrow_array(column.codes)), *entries[1:]]
    raw = column.to_arrow().cast(pa.binary())
    if last:
        return [raw]
    if _has_zero_byte(raw):
        raw = pc.replace_substring(raw, pattern="\0", replacement="\0\1")
    return [raw, arrow_scalar(END)]


def _has_zero_byte(array: pa.BinaryArray) -> bool:
    data = array.buffers()[2]
    return data is not None and not np.frombuffer(data, np.uint8).all()


def _hash_words(type_: DataType, column: Vector) -> list[Array]:
    if not type_.is_text:
        return signed_words(type_, column)
    if isinstance(column, Dict) and len(column.dictionary):
        return [hash64_text(column.dictionary).take(column.codes)]
    return [hash64_text(column.to_arrow())]
