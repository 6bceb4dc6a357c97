"""Sets of primary keys: which rows of a batch have one of the keys, and which key that is.

A set is looked through in two steps. Predicates on the first key column, evaluated on the encoded column, exclude most
rows of a batch; the keys of the rest are searched among sorted words: packed keys where a key fits 8 bytes, hashes
otherwise, whose matches are compared by their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array
from ...model.bloom_predicate import bloom_predicate
from ...model.keys.key_codec import codec_of
from ...model.keys.key_words import argsort, signed_words
from ...model.keys.keys import Keys
from ...model.predicates import BitmapFilter, BloomFilter, ColumnPredicate, InList, Range
from ...model.schema import Schema
from ...model.vectors.vector import Array, Batch, Vector
from ..predicate_eval.evaluation import evaluate

_MANY = 1024
_LISTED = 64
"""Number of distinct values up to which a predicate lists them."""
_SIEVE_BITS = 20
"""A sieve has at most two to this power cells."""
_BITMAP_SPAN = 1 << 16
_BITS_PER_KEY = 64
"""Limit of a bitmap's bits per key, unless it has at most `_BITMAP_SPAN`: about as much memory as the keys take."""


class KeyIndex:
    """Distinct keys, searched by key. Immutable; safe to share among threads.

    Parameters
    ----------
    schema : Schema
    keys : Keys
        Without duplicates, in any order.
    """

    def __init__(self, schema: Schema, keys: Keys):
        self._schema = schema
        self._keys = keys
        self._is_packed = codec_of(keys.types).is_packed

    @cached_property
    def _sorted(self) -> tuple[Array, Array | None]:
        """The words ascending, and the rows that have them; None: in their order."""
        words = self._words_of(self._keys)
        if bool((words[1:] > words[:-1]).all()):
            return words, None
        order = argsort([words])
        return words[order], order

    def _words_of(self, keys: Keys) -> Array:
        words = keys.packed() if self._is_packed else keys.hashes()
        assert words is not None
        return words

    def find(self, keys: Keys) -> Array:
        """The row of the set that has each key, -1 where none has: ndarray of int64, shape (n_keys,)."""
        words, order = self._sorted
        found = np.full(len(keys), -1, np.int64)
        if not len(words) or not len(keys):
            return found
        wanted = self._words_of(keys)
        pending = np.flatnonzero((wanted >= words[0]) & (wanted <= words[-1]))
        if self._is_packed and len(pending) > _MANY:
            # Look-ups in the order of keys find what they need in the cache.
            order_of_keys = keys.order()
            pending = order_of_keys if len(pending) == len(keys) else order_of_keys[np.isin(order_of_keys, pending)]
        at = np.searchsorted(words, wanted[pending])
        while len(pending):
            is_match = words[np.minimum(at, len(words) - 1)] == wanted[pending]
            is_match &= at < len(words)
            pending, at = pending[is_match], at[is_match]
            rows = at if order is None else order[at]
            if self._is_packed:
                found[pending] = rows
                break
            same = _are_equal(self._keys.take(rows), keys.take(pending))
            found[pending[same]] = rows[same]
            pending, at = pending[~same], at[~same] + 1  # another key may have the same hash
        return found

    def find_one(self, values: Sequence[Any]) -> int:
        """The row that has a key of physical values, -1 for none."""
        words, order = self._sorted
        codec = codec_of(self._keys.types)
        word = np.uint64(codec.index_key(values) if self._is_packed else codec.hash(values))
        at = int(np.searchsorted(words, word))
        while at < len(words) and words[at] == word:
            row = at if order is None else int(order[at])
            if self._is_packed or self._keys.values_at(row) == tuple(values):
                return row
            at += 1
        return -1

    @cached_property
    def predicates(self) -> tuple[ColumnPredicate, ...]:
        """Predicates that all keys of the set satisfy, on some or all key columns: as narrow as is cheap."""
        named = zip(self._schema.key, self._keys.columns)
        return tuple(predicate for column, vector in named for predicate in _enclosing(column.name, vector))

    @cached_property
    def _bounds(self) -> tuple[int, int]:
        """Bounds of a first key column of integers; for wide decimals those of the type."""
        column = self._keys.columns[0]
        words = signed_words(column.type, column)
        if len(words) == 2:
            return -(1 << 127), 1 << 127
        return int(words[0].min()), int(words[0].max())

    @cached_property
    def _sieve(self) -> _Sieve | None:
        """For the first key column, where a Bloom filter would be the narrowest predicate; None otherwise."""
        column = self._keys.columns[0]
        if column.type.is_text or not any(isinstance(predicate, BloomFilter) for predicate in self._first[0]):
            return None
        return _Sieve(signed_words(column.type, column)[0])

    @cached_property
    def _first(self) -> tuple[tuple[ColumnPredicate, ...], bool]:
        """The predicates on the first key column; True if they admit no other key."""
        name = self._schema.columns[0].name
        mine = tuple(predicate for predicate in self.predicates if predicate.column == name)
        is_exact = len(self._keys.types) == 1 and any(isinstance(p, InList | BitmapFilter) for p in mine)
        return mine, is_exact

    def rows_in(self, batch: Batch, places: Sequence[int]) -> Array:
        """The rows of a batch whose keys are in the set, ascending: ndarray of intp.

        Parameters
        ----------
        batch : Batch
            Its first key column is read, the others only for rows that may be in the set.
        places : sequence of int
            Of the key columns in the batch, in key order.
        """
        predicates, is_exact = self._first
        first = batch.column(places[0])
        bounds = first.bounds()
        if bounds is not None and (bounds[1] < self._bounds[0] or bounds[0] > self._bounds[1]):
            return np.empty(0, np.intp)
        mask = evaluate(predicates[0], first)
        if (sieve := self._sieve) is not None:
            mask &= sieve.admits(signed_words(first.type, first)[0])
        else:
            for predicate in predicates[1:]:
                mask &= evaluate(predicate, first)
        rows = np.flatnonzero(mask)
        if is_exact or not len(rows):
            return rows
        candidates = batch.select(rows)
        keys = Keys(self._keys.types, tuple(candidates.column(place) for place in places))
        return rows[self.find(keys) >= 0]


class _Sieve:
    """A bitmap over ranges of `2 ** shift` integers: several times as fast as a Bloom filter."""

    def __init__(self, values: Array):
        self._low = values.min()
        span = int(values.max()) - int(self._low)
        self._shift = np.uint64(max(0, span.bit_length() - _SIEVE_BITS))
        self._bits = np.zeros(self._cells(values).max() + 1, np.bool_)
        self._bits[self._cells(values)] = True

    def _cells(self, values: Array) -> Array:
        # Differences modulo 2**64 are the true ones of values at or above the lowest.
        cells: Array = (values - self._low).view(np.uint64) >> self._shift
        return cells.view(np.int64)

    def admits(self, values: Array) -> Array:
        """False for values that are not among the sieve's: ndarray of bool. Values below the lowest may be admitted."""
        cells = self._cells(values)
        return self._bits[np.where((cells >= 0) & (cells < len(self._bits)), cells, 0)]


def _are_equal(left: Keys, right: Keys) -> Array:
    """Which keys are equal, one by one: ndarray of bool."""
    same = np.ones(len(left), np.bool_)
    for type_, a, b in zip(left.types, left.columns, right.columns):
        if type_.is_text:
            same &= pc.equal(a.to_arrow(), b.to_arrow()).to_numpy(zero_copy_only=False)
        else:
            for x, y in zip(signed_words(type_, a), signed_words(type_, b)):
                same &= x == y
    return same


def _enclosing(name: str, vector: Vector) -> list[ColumnPredicate]:
    """Predicates that all values of a key column satisfy; at least one."""
    if vector.type.is_text:
        return _enclosing_texts(name, vector)
    words = signed_words(vector.type, vector)
    if len(words) == 2:
        return _enclosing_wide(name, words)
    distinct = np.unique(words[0])
    if len(distinct) <= _LISTED:
        return [InList(name, tuple(distinct.tolist()))]
    low, high = int(distinct[0]), int(distinct[-1])
    span = high - low + 1
    if span == len(distinct):
        return [Range(name, low, high)]
    if span <= max(_BITMAP_SPAN, _BITS_PER_KEY * len(distinct)):
        bits = np.zeros(span, np.bool_)
        bits[distinct - low] = True
        return [BitmapFilter(name, low, bits)]
    return [Range(name, low, high), bloom_predicate(name, arrow_array(distinct))]


def _enclosing_texts(name: str, vector: Vector) -> list[ColumnPredicate]:
    distinct = pc.unique(vector.to_arrow())
    if len(distinct) <= _LISTED:
        return [InList(name, tuple(sorted(distinct.to_pylist())))]
    bounds = pc.min_max(distinct.cast(pa.binary()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if not pa.types.is_binary(distinct.type):
        low, high = low.decode(), high.decode()
    return [Range(name, low, high), bloom_predicate(name, distinct)]


def _enclosing_wide(name: str, words: list[Array]) -> list[ColumnPredicate]:
    order = np.lexsort((words[1].view(np.uint64), words[0]))
    values = [(int(words[0][row]) << 64) | int(words[1].view(np.uint64)[row]) for row in (order[0], order[-1])]
    if len(order) <= _LISTED:
        values = [
            (int(high) << 64) | int(low) for high, low in zip(words[0].tolist(), words[1].view(np.uint64).tolist())
        ]
        return [InList(name, tuple(sorted(set(values))))]
    return [Range(name, values[0], values[-1])]
