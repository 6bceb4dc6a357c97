"""Join keys as integers: learned from the build side, applied to the probe side.

    build vectors ── KeyCoder.learn ──► coder, codes      probe vectors ── coder.encode ──► codes, -1 where no match

Integer-like keys become their distance from the least build key. Texts, wide decimals and floats are numbered by the
distinct values of the build side: a hash table from 64 bits of each to its number is made once, and looked up for each
probe batch. Texts and wide decimals are compared then, as their hashes may collide. Of a dictionary, each entry is
looked up once in a query, not row by row. Several keys combine into one integer; if the product of their domains would
exceed 62 bits, the build side's combinations are numbered.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.vectors.vector import Array, Const, Dict, Narrow, Vector, Wide, spread
from ..kernels.numbers.bounded_integers import INT64, fits, integers, known_bounds, measured_bounds
from .join_index import HashSlots
from .known_values import KnownValues

_MOST = 1 << 62
_TRANSLATIONS_KEPT = 64
"""Number of probe dictionaries whose entries' numbers are kept."""
_UNKNOWN = -2
"""Number of an entry that was not looked up yet."""
_WHOLE = 2
"""Entries per row of a batch up to which all entries of its dictionary are looked up at once, rather than those that
occur."""


class _Column(ABC):
    """One key's numbering: codes 0 to `size` - 1."""

    size: int

    @abstractmethod
    def encode(self, keys: Vector) -> Array:
        """Return the int64 codes of probe keys, shape (n_rows,); -1 if the build side has no such key, NULLs
        included."""


class _Integers(_Column):
    def __init__(self, low: int, high: int):
        self._low = low
        self.size = high - low + 1

    def encode(self, keys: Vector) -> Array:
        bounds = known_bounds(keys)
        if isinstance(keys, Wide) or bounds is None:
            return self._wide(keys)
        if isinstance(keys, Narrow):
            codes = keys.codes.astype(np.int64)
            shift = keys.base - self._low
            if not fits((bounds[0] - self._low, bounds[1] - self._low), INT64):
                return self._outside(keys, keys.values().astype(np.int64))
            if shift:
                codes += shift
        else:
            values = np.broadcast_to(np.asarray(integers(keys)), (len(keys),))
            if not fits((bounds[0] - self._low, bounds[1] - self._low), INT64):
                return self._outside(keys, values)
            codes = values - self._low
        if bounds[0] < self._low or bounds[1] >= self._low + self.size:
            codes[(codes < 0) | (codes >= self.size)] = -1
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes

    def _outside(self, keys: Vector, values: Array) -> Array:
        """Mask of keys out of range, for bounds so wide that a distance could exceed 64 bits."""
        inside = (values >= self._low) & (values <= self._low + self.size - 1)
        if keys.validity is not None:
            inside &= keys.validity
        return np.where(inside, values - np.int64(self._low), -1)

    def _wide(self, keys: Vector) -> Array:
        values = keys.values()
        inside = (values >= self._low) & (values <= self._low + self.size - 1)
        inside = inside.astype(np.bool_)
        if keys.validity is not None:
            inside &= keys.validity
        return np.where(inside, np.where(inside, values, self._low) - self._low, -1).astype(np.int64)


class _Entries(_Column):
    """Texts and wide decimals, numbered by their dictionary or by their distinct values.

    Parameters
    ----------
    entries : pa.Array
        Distinct values.
    known : KnownValues, optional
        The numbering; None: it is made of `entries` when a value is first looked up.
    """

    def __init__(self, entries: pa.Array, known: KnownValues | None = None):
        self._entries = entries
        self._known = known
        self._lock = threading.Lock()
        self._translations: dict[int, tuple[pa.Array, Array]] = {}
        self.size = max(1, len(entries if known is None else known))

    @classmethod
    def learn(cls, keys: Vector) -> tuple[_Entries, Array]:
        """Return the numbering of a build side's keys, and their codes."""
        if isinstance(keys, Dict) and len(keys.dictionary) <= len(keys):
            codes = keys.codes.astype(np.int64)
            if keys.validity is not None:
                codes[~keys.validity] = -1
            return cls(keys.dictionary), codes
        values = keys.to_arrow()
        known, numbers = KnownValues.learn(values.drop_null() if values.null_count else values)
        if keys.validity is None:
            return cls(values.slice(0, 0), known), numbers
        codes = np.full(len(keys), -1, np.int64)
        codes[keys.validity] = numbers
        return cls(values.slice(0, 0), known), codes

    def encode(self, keys: Vector) -> Array:
        if isinstance(keys, Dict):
            codes = self._of_dictionary(keys)
        elif isinstance(keys, Const):
            return np.full(len(keys), self._find(keys.slice(0, 1).to_arrow())[0] if len(keys) else -1)
        else:
            codes = self._find(keys.to_arrow())
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes

    def _find(self, values: pa.Array) -> Array:
        known = self._known
        if known is None:
            with self._lock:
                known = self._known = self._known or KnownValues.of_distinct(self._entries)
        return known.find(values)

    def _of_dictionary(self, keys: Dict) -> Array:
        """Look up each entry that occurs, once in the life of this object."""
        dictionary = keys.dictionary
        if dictionary is self._entries:
            return keys.codes.astype(np.int64)
        codes = keys.codes
        translation = self._translation(dictionary)
        numbers = translation.take(codes)
        unknown = numbers == _UNKNOWN
        if unknown.any():
            if len(dictionary) <= _WHOLE * len(codes):
                wanted = np.flatnonzero(translation[:-1] == _UNKNOWN)
            else:
                wanted = np.unique(codes[unknown])
            # Other threads may do the same: they write the same numbers.
            translation[wanted] = self._find(dictionary.take(arrow_array(wanted)))
            numbers = translation.take(codes)
        return numbers

    def _translation(self, dictionary: pa.Array) -> Array:
        with self._lock:
            known = self._translations.get(id(dictionary))
            if known is None:
                # One more entry, so that the codes of an empty dictionary (zeros for NULLs) can be looked up too.
                numbers = np.full(len(dictionary) + 1, _UNKNOWN, np.int64)
                numbers[-1] = -1
                known = dictionary, numbers
                if len(self._translations) >= _TRANSLATIONS_KEPT:
                    self._translations.pop(next(iter(self._translations)), None)
                self._translations[id(dictionary)] = known
            return known[1]


class _Distinct:
    """Distinct integers of 64 bits, numbered."""

    def __init__(self, values: Array):
        self._slots, rows, _ = HashSlots.learn(np.ascontiguousarray(values, np.int64))
        self.size = max(1, len(values) if rows is None else len(rows))

    def find(self, values: Array) -> Array:
        """Return the number of each value, -1 for other values: int64."""
        return self._slots.find(np.ascontiguousarray(values, np.int64)).astype(np.int64)


class _FarApart(_Column):
    """Integers between whose least and greatest the range does not fit a code, numbered by the distinct ones."""

    def __init__(self, keys: Vector):
        values = np.broadcast_to(np.asarray(integers(keys)), (len(keys),))
        self._known = _Distinct(values if keys.validity is None else values[keys.validity])
        self.size = self._known.size

    def encode(self, keys: Vector) -> Array:
        if isinstance(keys, Wide):
            wide = keys.values()
            fitting = ((wide >= INT64[0]) & (wide <= INT64[1])).astype(np.bool_)
            codes = np.where(fitting, self._known.find(np.where(fitting, wide, 0).astype(np.int64)), -1)
        else:
            codes = self._known.find(np.broadcast_to(np.asarray(integers(keys)), (len(keys),)))
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes


class _Floats(_Column):
    """Floats by their bits; -0.0 equals 0.0, and NaN equals NaN."""

    def __init__(self, keys: Vector):
        bits = _float_bits(keys)
        self._known = _Distinct(bits if keys.validity is None else bits[keys.validity])
        self.size = self._known.size

    def encode(self, keys: Vector) -> Array:
        codes = self._known.find(_float_bits(keys))
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes


def _float_bits(keys: Vector) -> Array:
    values = np.broadcast_to(keys.values(), (len(keys),)).astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


class _Renumbered(_Column):
    """Another column's codes, numbered without gaps."""

    def __init__(self, column: _Column, codes: Array):
        self._column = column
        self._known = _Distinct(codes[codes >= 0])
        self.size = self._known.size

    def renumber(self, codes: Array) -> Array:
        """Return the numbers of the column's codes."""
        return self._known.find(codes)

    def encode(self, keys: Vector) -> Array:
        return self.renumber(self._column.encode(keys))


def _learn(keys: Vector) -> tuple[_Column, Array]:
    """Return the numbering of a build side's keys, and their codes."""
    if keys.type.is_text or isinstance(keys, Wide):
        return _Entries.learn(keys)
    column: _Column
    if keys.type.is_float:
        column = _Floats(keys)
    else:
        low, high = measured_bounds(keys)
        column = _Integers(low, high) if high - low < _MOST else _FarApart(keys)
    return column, column.encode(keys)


class KeyCoder:
    """The numbering of a whole key; `size` bounds the codes."""

    def __init__(self, columns: list[_Column], prefixes: list[_Distinct | None], size: int):
        self._columns = columns
        self._prefixes = prefixes
        self.size = size

    @classmethod
    def learn(cls, keys: Sequence[Vector]) -> tuple[KeyCoder, Array]:
        """Return the coder of a build side, and its rows' codes (-1 for a key with a NULL)."""
        column, codes = _learn(spread(keys[0]))
        columns, size = [column], column.size
        prefixes: list[_Distinct | None] = []
        for key in keys[1:]:
            column, more = _learn(spread(key))
            known: _Distinct | None = None
            if size * column.size > _MOST:
                known = _Distinct(codes[codes >= 0])
                codes, size = known.find(codes), known.size
            if size * column.size > _MOST:
                column = dense = _Renumbered(column, more)
                more = dense.renumber(more)
            columns.append(column)
            prefixes.append(known)
            codes = _combined(codes, more, column.size)
            size *= column.size
        return cls(columns, prefixes, size), codes

    def encode(self, keys: Sequence[Vector]) -> Array:
        """Return the int64 codes of probe rows; -1 if the build side cannot have the key."""
        keys = [spread(key) for key in keys]
        codes = self._columns[0].encode(keys[0])
        for column, key, known in zip(self._columns[1:], keys[1:], self._prefixes):
            if known is not None:
                codes = known.find(codes)
            codes = _combined(codes, column.encode(key), column.size)
        return codes


def _combined(first: Array, second: Array, size: int) -> Array:
    result = first * size + second
    result[(first < 0) | (second < 0)] = -1
    return result
