"""Join keys as integers: learned from the build side, applied to the probe side.

    build vectors ── KeyCoder.learn ──► coder, codes      probe vectors ── coder.encode ──► codes, -1 where no match

Integer-like keys become their distance from the least build key. Texts, wide decimals and floats are numbered by the
distinct values of the build side; a probe dictionary is translated once, not row by row. Several keys combine into one
integer; if the product of their domains would exceed 62 bits, the build side's combinations are numbered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...model.vectors.vector import Array, Const, Dict, Narrow, Vector, Wide, spread
from ..aggregation.group_codes import run_starts
from ..kernels.numbers.bounded_integers import INT64, fits, integers, known_bounds, measured_bounds

_MOST = 1 << 62
_TRANSLATIONS_KEPT = 64


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


class _FarApart(_Column):
    """Integers numbered by the distinct ones: the range between least and greatest does not fit a code."""

    def __init__(self, keys: Vector):
        values = np.broadcast_to(np.asarray(integers(keys)), (len(keys),))
        self._known = np.unique(values if keys.validity is None else values[keys.validity])
        self.size = max(1, len(self._known))

    def encode(self, keys: Vector) -> Array:
        if isinstance(keys, Wide):
            wide = keys.values()
            fitting = ((wide >= INT64[0]) & (wide <= INT64[1])).astype(np.bool_)
            codes = np.where(fitting, _search(self._known, np.where(fitting, wide, 0).astype(np.int64)), -1)
        else:
            codes = _search(self._known, np.broadcast_to(np.asarray(integers(keys)), (len(keys),)))
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes


class _Entries(_Column):
    """Keys numbered by an Arrow array of distinct values."""

    def __init__(self, entries: pa.Array):
        self._entries = entries
        self.size = max(1, len(entries))
        self._translations: dict[int, tuple[pa.Array, Array]] = {}

    def encode(self, keys: Vector) -> Array:
        if isinstance(keys, Dict):
            table = self._translated(keys.dictionary)
            codes = table.take(keys.codes)
        elif isinstance(keys, Const):
            found = self._index(pa.array([keys.to_arrow()[0].as_py()], self._entries.type))
            return np.full(len(keys), found[0])
        else:
            codes = self._index(keys.to_arrow())
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes

    def _index(self, values: pa.Array) -> Array:
        if values.type != self._entries.type:
            values = values.cast(self._entries.type)
        found = pc.index_in(values, value_set=self._entries).fill_null(-1)
        return np.array(found.to_numpy(zero_copy_only=False), np.int64)

    def _translated(self, dictionary: pa.Array) -> Array:
        known = self._translations.get(id(dictionary))
        if known is None:
            # One more entry, so that the codes of an empty dictionary (zeros for NULLs) can be looked up too.
            known = (dictionary, np.append(self._index(dictionary), -1))
            if len(self._translations) >= _TRANSLATIONS_KEPT:
                self._translations.pop(next(iter(self._translations)), None)
            self._translations[id(dictionary)] = known
        return known[1]


class _Floats(_Column):
    """Floats by their bits; -0.0 equals 0.0, and NaN equals NaN."""

    def __init__(self, keys: Vector):
        bits = _float_bits(keys)
        bits.sort()
        self._bits = bits.take(run_starts(bits)) if len(bits) else bits
        self.size = max(1, len(self._bits))

    def encode(self, keys: Vector) -> Array:
        codes = _search(self._bits, _float_bits(keys))
        if keys.validity is not None:
            codes[~keys.validity] = -1
        return codes


def _float_bits(keys: Vector) -> Array:
    values = np.broadcast_to(keys.values(), (len(keys),)).astype(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _search(known: Array, values: Array) -> Array:
    """Position of each value among the ascending distinct `known`, -1 if it is absent."""
    if not len(known):
        return np.full(len(values), -1, np.int64)
    places = np.searchsorted(known, values)
    found = known.take(places, mode="clip") == values
    return np.where(found, places, -1)


class _Renumbered(_Column):
    """Another column's codes, numbered without gaps."""

    def __init__(self, column: _Column, keys: Vector):
        self._column = column
        self._known = _ascending_distinct(column.encode(keys))
        self.size = max(1, len(self._known))

    def encode(self, keys: Vector) -> Array:
        return _search(self._known, self._column.encode(keys))


def _learn(keys: Vector) -> _Column:
    if keys.type.is_text:
        return _Entries(_distinct(keys))
    if keys.type.is_float:
        return _Floats(keys)
    if isinstance(keys, Wide):
        return _Entries(pc.unique(keys.array).drop_null())
    low, high = measured_bounds(keys)
    return _Integers(low, high) if high - low < _MOST else _FarApart(keys)


def _distinct(keys: Vector) -> pa.Array:
    if isinstance(keys, Dict):
        return keys.dictionary
    return pc.unique(keys.to_arrow()).drop_null()


class KeyCoder:
    """The numbering of a whole key; `size` bounds the codes."""

    def __init__(self, columns: list[_Column], prefixes: list[Array | None], size: int):
        self._columns = columns
        self._prefixes = prefixes
        self.size = size

    @classmethod
    def learn(cls, keys: Sequence[Vector]) -> tuple[KeyCoder, Array]:
        """Return the coder of a build side, and its rows' codes (-1 for a key with a NULL)."""
        keys = [spread(key) for key in keys]
        columns = [_learn(key) for key in keys]
        codes = columns[0].encode(keys[0])
        size = columns[0].size
        prefixes: list[Array | None] = []
        for place, key in enumerate(keys[1:], 1):
            column = columns[place]
            known: Array | None = None
            if size * column.size > _MOST:
                known = _ascending_distinct(codes)
                codes, size = _search(known, codes), max(1, len(known))
            if size * column.size > _MOST:
                column = columns[place] = _Renumbered(column, key)
            prefixes.append(known)
            codes = _combined(codes, column.encode(key), column.size)
            size *= column.size
        return cls(columns, prefixes, size), codes

    def encode(self, keys: Sequence[Vector]) -> Array:
        """Return the int64 codes of probe rows; -1 if the build side cannot have the key."""
        keys = [spread(key) for key in keys]
        codes = self._columns[0].encode(keys[0])
        for column, key, known in zip(self._columns[1:], keys[1:], self._prefixes):
            if known is not None:
                codes = _search(known, codes)
            codes = _combined(codes, column.encode(key), column.size)
        return codes


def _ascending_distinct(codes: Array) -> Array:
    present = np.sort(codes[codes >= 0])
    return present.take(run_starts(present)) if len(present) else present


def _combined(first: Array, second: Array, size: int) -> Array:
    result = first * size + second
    result[(first < 0) | (second < 0)] = -1
    return result
