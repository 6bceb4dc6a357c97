"""Primary keys: one at a time as order-preserving bytes, or very many as columns.

An *encoded key* compares as bytes (memcmp) exactly as its values compare one after the other:

| column | bytes |
|---|---|
| TINYINT, SMALLINT, INT, BIGINT | 1, 2, 4, 8: big-endian, sign bit flipped |
| DATE, TIMESTAMP | 4, 8: the same, of days and microseconds |
| DECIMAL(p, s) | 4 (p <= 9), 8 (p <= 18) or 16: the same, of the unscaled value |
| STRING, BINARY in the last place | its bytes (UTF-8) as they are |
| STRING, BINARY elsewhere | its bytes with 0x00 written as 0x00 0x01, then 0x00 0x00 |

The key (INT 1, STRING "a\\0b", STRING "c") is

    80 00 00 01 │ 61 00 01 62 00 00 │ 63
    sign flipped  escaped, ended      last: raw

No encoded value but the last is a prefix of another one, so the encoding of a key's first values is a prefix of the
whole key's encoding and `prefix_end` bounds all keys that start with them.

Whatever touches many keys uses `Keys`, which works on whole columns and builds the bytes only for those who need
them: hashes, order and comparisons come from the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, InternalError, InvalidText, NotNullViolation
from .hashing import hash64_text, hash64_words, low_bytes, text_buffers, unaligned
from .schema import Schema
from .types import DataType, Kind
from .vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs, vector_from_arrow
from .vector import physical_to_arrow as _physical_to_arrow

_END = b"\0\0"
_MAX_BYTES = 2**31 - 1  # Arrow's offsets of binary arrays are 32 bits
_WORDS_BYTES = 64  # texts up to this length are ordered as words of 8 bytes, several times faster than as strings


def key_width(type_: DataType) -> int | None:
    """Bytes that a value of the type takes in an encoded key; None for STRING and BINARY."""
    if type_.is_text:
        return None
    if type_.kind is Kind.DECIMAL and type_.precision is not None and type_.precision > 18:
        return 16
    return type_.dtype.itemsize


def encode_key(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The encoded key of one row, or of its first values.

    Parameters
    ----------
    types : sequence of DataType
        All columns of the key: the last one is encoded without terminator.
    values : sequence
        Physical values; fewer than the types encode a prefix.

    Examples
    --------
    >>> from nyala.storage.types import INT, STRING
    >>> encode_key((INT, STRING), (1, "a")).hex(" ")
    '80 00 00 01 61'
    >>> encode_key((STRING, INT), ("a",)).hex(" ")
    '61 00 00'
    """
    last = len(types) - 1
    return b"".join([_encode_value(types[i], value, i == last) for i, value in enumerate(values)])


def _encode_value(type_: DataType, value: Any, last: bool) -> bytes:
    width = key_width(type_)
    if width is None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return data if last else data.replace(b"\0", b"\0\1") + _END
    try:
        return (int(value) + (1 << (8 * width - 1))).to_bytes(width, "big")
    except OverflowError:
        raise DataError(f"{value} does not fit a key column of type {type_}") from None


def decode_key(types: Sequence[DataType], data: bytes) -> tuple[Any, ...]:
    """The physical values of an encoded key; `DataError` where the bytes are not a key of these types.

    >>> from nyala.storage.types import INT, STRING
    >>> decode_key((INT, STRING), bytes.fromhex("80000001 61"))
    (1, 'a')
    """
    values: list[Any] = []
    place = 0
    for i, type_ in enumerate(types):
        width = key_width(type_)
        if width is not None:
            end = place + width
            if end > len(data):
                raise _not_a_key(types, data)
            values.append(int.from_bytes(data[place:end], "big") - (1 << (8 * width - 1)))
        else:
            end, raw = _decode_text(types, data, place, last=i == len(types) - 1)
            values.append(raw.decode() if type_.kind is Kind.STRING else raw)
        place = end
    if place != len(data):
        raise _not_a_key(types, data)
    return tuple(values)


def _decode_text(types: Sequence[DataType], data: bytes, place: int, last: bool) -> tuple[int, bytes]:
    if last:
        return len(data), data[place:]
    # Inside a value every zero is followed by 0x01, so the first pair of zeros is the terminator.
    end = data.find(_END, place)
    if end < 0:
        raise _not_a_key(types, data)
    return end + 2, data[place:end].replace(b"\0\1", b"\0")


def _not_a_key(types: Sequence[DataType], data: bytes) -> DataError:
    return DataError(f"{data.hex(' ') or 'no bytes'} is not an encoded key of ({', '.join(map(str, types))})")


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest byte string above everything that starts with `prefix`; None where there is none.

    >>> prefix_end(b"ab"), prefix_end(b"a" + bytes([255])), prefix_end(b"")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def search_encoded(ascending: pa.Array, probes: pa.Array, right: bool = False) -> Array:
    """Where each probe belongs among ascending encoded keys: `numpy.searchsorted` over bytes.

    Parameters
    ----------
    ascending, probes : Arrow binary arrays without nulls
    right : bool
        Behind equal keys instead of before them.

    Returns
    -------
    ndarray of intp, shape (n_probes,)
        Found by binary search of all probes side by side: about log2(len(ascending)) Arrow kernels.
    """
    compare = pc.less_equal if right else pc.less
    low = np.zeros(len(probes), np.intp)
    high = np.full(len(probes), len(ascending), np.intp)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        before = compare(ascending.take(pa.array(middle)), probes.take(pa.array(open_)))
        goes_up = before.to_numpy(zero_copy_only=False)
        low[open_] = np.where(goes_up, middle + 1, low[open_])
        high[open_] = np.where(goes_up, high[open_], middle)


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
    >>> from nyala.storage.types import INT, STRING
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
                raise NotNullViolation(f"key column {column.name} is NULL in row {row} of the batch")
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
            word = _ordered_words(type_, column)[0]
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
        return pc.binary_join_element_wise(*parts, pa.scalar(b""))

    # ---- hashes --------------------------------------------------------------------------------------------------

    def hashes(self) -> Array:
        """A 64-bit hash of each key's values: ndarray of uint64, shape (n_rows,).

        Part of the file format (Bloom filters): `storage.hashing` says how it is made.
        """
        if self._hashes is None:
            hashes = np.zeros(len(self), np.uint64)
            for type_, column in zip(self.types, self.columns):
                for word in _hash_words(type_, column):
                    hash64_words(hashes, word)
            self._hashes = hashes
        return self._hashes

    # ---- order ---------------------------------------------------------------------------------------------------

    def order(self) -> Array:
        """Row numbers in key order, equal keys in row order: ndarray of intp, shape (n_rows,)."""
        if self._order is None:
            if self._is_ascending(strictly=False):
                self._order = np.arange(len(self), dtype=np.intp)
            else:
                self._order = _argsort(self._rank_words())
        return self._order

    def is_strictly_ascending(self) -> bool:
        """Is every key above the one before it? Then the rows are in order and no key is there twice."""
        if self._ascending is None:
            self._ascending = self._is_ascending(strictly=True)
        return self._ascending

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
        equal: Array | None = None  # neighbours that no column has told apart so far
        for type_, column in zip(self.types, self.columns):
            for below, same in _neighbours(type_, column):
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
            pieces = [p for t, c in zip(self.types, self.columns) for p in _rank_pieces(t, c)]
            self._ranks = _pack(pieces, len(self))
        return self._ranks


# ---- one column: its values as words -----------------------------------------------------------------------------


def _vector(type_: DataType, values: list[Any]) -> Vector:
    if type_.is_text:
        return Text(type_, pa.array(values, type_.arrow))
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


def _signed_words(type_: DataType, column: Vector) -> list[Array]:
    """The values of a fixed-width column as int64; wide decimals as (high, low)."""
    if key_width(type_) == 16:
        high, low = decimal_limbs(column.to_arrow())
        return [high, low]
    return [column.values().astype(np.int64, copy=False)]


def _ordered_words(type_: DataType, column: Vector) -> list[Array]:
    """The encoded values as unsigned integers of the encoded width (two of 8 bytes for wide decimals)."""
    words = _signed_words(type_, column)
    if len(words) == 2:
        return [words[0].view(np.uint64) ^ np.uint64(1 << 63), words[1]]
    width = key_width(type_)
    dtype = np.dtype(f"u{width}")
    narrow = words[0].view(np.uint64).astype(dtype, copy=False)
    return [narrow ^ dtype.type(1 << (8 * dtype.itemsize - 1))]


def _matrix(types: Sequence[DataType], columns: Sequence[Vector]) -> Array:
    words = [w for t, c in zip(types, columns) for w in _ordered_words(t, c)]
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
        return [entries[0].take(pa.array(column.codes)), *entries[1:]]
    raw = column.to_arrow().cast(pa.binary())
    if last:
        return [raw]
    if _has_zero_byte(raw):
        raw = pc.replace_substring(raw, pattern="\0", replacement="\0\1")
    return [raw, pa.scalar(_END)]


def _has_zero_byte(array: pa.BinaryArray) -> bool:
    data = array.buffers()[2]
    return data is not None and not np.frombuffer(data, np.uint8).all()


def _hash_words(type_: DataType, column: Vector) -> list[Array]:
    if not type_.is_text:
        return _signed_words(type_, column)
    if isinstance(column, Dict) and len(column.dictionary):
        return [hash64_text(column.dictionary).take(column.codes)]
    return [hash64_text(column.to_arrow())]


# ---- order -------------------------------------------------------------------------------------------------------


def _neighbours(type_: DataType, column: Vector) -> list[tuple[Array, Array]]:
    """Per word of a column: is row i below row i + 1, is it equal? Two ndarrays of bool, shape (n_rows - 1,)."""
    if isinstance(column, Text):
        before, after = column.array[:-1], column.array[1:]
        compared = [pc.less(before, after), pc.equal(before, after)]
        below, same = (c.to_numpy(zero_copy_only=False) for c in compared)
        return [(below, same)]
    if type_.is_text or isinstance(column, Narrow):
        words = [word for word, _ in _rank_pieces(type_, column)]
    else:
        words = _signed_words(type_, column)
    return [(w[:-1] < w[1:], w[:-1] == w[1:]) for w in words]


def _rank_pieces(type_: DataType, column: Vector) -> list[tuple[Array, int]]:
    """Unsigned integers that order as the column's values do, each with an exclusive upper bound."""
    if len(column) == 0 or isinstance(column, Const):
        return [(np.zeros(len(column), np.uint8), 1)]
    if type_.is_text:
        return _text_pieces(column)
    if isinstance(column, Narrow):
        return [(column.codes, int(column.codes.max()) + 1)]
    words = _signed_words(type_, column)
    low = int(words[0].min())
    # Differences modulo 2**64 are the true ones: they lie between 0 and 2**64 - 1.
    pieces = [(words[0].view(np.uint64) - np.uint64(low % 2**64), int(words[0].max()) - low + 1)]
    return pieces + [(word, 2**64) for word in words[1:]]


def _text_pieces(column: Vector) -> list[tuple[Array, int]]:
    if isinstance(column, Dict):
        return [_dictionary_ranks(column)]
    array = column.to_arrow()
    starts, lengths, data = text_buffers(array)
    longest = int(lengths.max())
    if longest > _WORDS_BYTES:
        encoded = array.dictionary_encode()
        return [_dictionary_ranks(Dict(column.type, encoded.indices.to_numpy(), encoded.dictionary, ordered=False))]
    # Eight bytes at a time, zeros behind the end; between texts equal so far the shorter one comes first.
    pieces = [_offsets(_text_word(starts, lengths, data, place, longest)) for place in range(0, longest, 8)]
    return [*pieces, _offsets(lengths.astype(np.uint64))]


def _text_word(starts: Array, lengths: Array, data: Array, place: int, longest: int) -> Array:
    """Bytes `place` to `place + 8` of each text (fewer at the end of the longest) as a big-endian integer."""
    here = np.minimum(lengths, place)
    word = unaligned(data, "<u8")[starts + here].astype(np.uint64, copy=False)
    left = lengths - here
    word &= np.where(left >= 8, ~np.uint64(0), low_bytes(np.minimum(left, 7), np.uint64))
    swapped: Array = word.byteswap()
    # Bytes that no text has would be trailing zeros; without them the word packs with its neighbours.
    swapped >>= np.uint64(8 * max(8 - (longest - place), 0))
    return swapped


def _offsets(words: Array) -> tuple[Array, int]:
    """Unsigned integers less their minimum, and the bound."""
    low = words.min()
    return words - low, int(words.max()) - int(low) + 1


def _dictionary_ranks(column: Dict) -> tuple[Array, int]:
    entries = len(column.dictionary)
    if column.ordered:
        return column.codes, max(entries, 1)
    ranks = np.empty(max(entries, 1), np.uint32)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(entries, dtype=np.uint32)
    return ranks.take(column.codes), max(entries, 1)


def _pack(pieces: list[tuple[Array, int]], rows: int) -> list[Array]:
    """As few 64-bit words as the pieces fit into, order kept."""
    words: list[Array] = []
    free = 0
    for piece, bound in pieces:
        bits = (bound - 1).bit_length()
        if bits == 0 and words:
            continue
        if not words or bits > free:
            words.append(piece.astype(np.uint64))
            free = 64 - bits
        else:
            words[-1] = (words[-1] << np.uint64(bits)) | piece.astype(np.uint64, copy=False)
            free -= bits
    return words


def _argsort(words: list[Array]) -> Array:
    """A stable argsort by several uint64 words, most significant first.

    numpy sorts plain integers an order of magnitude faster than it argsorts them. So the row's place rides in the low
    bits of the integers sorted, under as many of the key's bits as there is room for. Rows left tied by those go
    through further passes over the next bits, led by the number of their group of ties.
    """
    rows = len(words[0])
    order: Array | None = None
    tied = np.arange(rows, dtype=np.intp)  # places in `order` whose rows are not told apart yet
    groups = np.zeros(rows, np.uint64)
    last = len(words) - 1
    for number, word in enumerate(words):
        left = int(word.max()).bit_length()
        while left:
            row_bits = max(len(tied) - 1, 1).bit_length()
            taken = min(left, 64 - row_bits - int(groups[-1]).bit_length())
            left -= taken
            members = None if order is None else order[tied]
            ranked = (word if members is None else word[members]) >> np.uint64(left)
            ranked &= np.uint64((1 << taken) - 1)
            ranked |= groups << np.uint64(taken)
            ranked <<= np.uint64(row_bits)
            ranked |= np.arange(len(tied), dtype=np.uint64)
            ranked.sort()
            places = (ranked & np.uint64((1 << row_bits) - 1)).astype(np.intp)
            if order is None or members is None:
                order = places
            else:
                order[tied] = members[places]
            if number == last and not left:
                return order
            tied, groups = _ties(tied, ranked >> np.uint64(row_bits))
            if not len(tied):
                return order
    return tied if order is None else order


def _ties(places: Array, ascending: Array) -> tuple[Array, Array]:
    """The places whose value has an equal neighbour, and the number of each one's group (ndarray of uint64)."""
    starts = np.ones(len(ascending) + 1, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=starts[1:-1])
    tied = np.flatnonzero(~(starts[1:] & starts[:-1]))
    return places[tied], np.cumsum(starts[tied], dtype=np.uint64)
