"""One dictionary for vectors of several: the entries of all, ascending, and what each code becomes in it.

    dictionary 0   a c d        table 0   0 2 3
    dictionary 1   b c          table 1   1 2           merged   a b c d

Merging takes some 200 ns per entry, and the dictionaries of a table's rowsets are the same objects in every statement,
so the last results are kept, `MOST_BYTES` of them. They are released with the dictionaries.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from .. import arrow_functions as pc
from ..arrow_arrays import arrow_array, numpy_array
from .arrow_values import Array

T = TypeVar("T")

_NO_CODES = np.zeros(1, np.uint32)
"""A code below a NULL is 0 in an empty dictionary."""
MOST_BYTES = 32 << 20
"""Bytes of the results that a cache keeps; a larger one is computed each time."""


class DictionaryCache(Generic[T]):
    """Results computed from dictionaries, by the identity of these, the least recently used forgotten first.
    Thread-safe; a result is released with the first of its dictionaries.

    Parameters
    ----------
    compute : callable
        Makes the result for some dictionaries.
    size_of : callable
        Bytes of a result.
    """

    def __init__(self, compute: Callable[[Sequence[pa.Array]], T], size_of: Callable[[T], int]):
        self._compute = compute
        self._size_of = size_of
        self._lock = threading.Lock()
        """Guards changes of the field below, but for those that the release of a dictionary makes: these may happen in
        a thread that holds the lock, so each is a single call of the interpreter."""
        self._kept: dict[tuple[int, ...], tuple[list[weakref.ref[pa.Array]], T, int]] = {}

    def get(self, dictionaries: Sequence[pa.Array]) -> T:
        """Return the result for these dictionaries, in this order."""
        key = tuple(map(id, dictionaries))
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept  # as the last
                return kept[1]
        result = self._compute(dictionaries)
        size = self._size_of(result)
        if size <= MOST_BYTES:
            references = [weakref.ref(dictionary, lambda _: self._kept.pop(key, None)) for dictionary in dictionaries]
            with self._lock:
                self._kept[key] = references, result, size
                self._shrink()
        return result

    def _shrink(self) -> None:
        entries = list(self._kept.items())
        total = sum(size for _, (_, _, size) in entries)
        for key, (_, _, size) in entries:
            if total <= MOST_BYTES:
                return
            self._kept.pop(key, None)
            total -= size

    def __len__(self) -> int:
        return len(self._kept)


Merged: TypeAlias = tuple[pa.Array, list[Array]]
"""A merged dictionary, and for each of the others the new code of each of its entries (uint32)."""


def merge(dictionaries: Sequence[pa.Array]) -> Merged:
    """Merge dictionaries (at least one): distinct entries, none NULL."""
    # One hash table for all: `pc.index_in` would make one of the merged entries for each dictionary.
    filled = [dictionary for dictionary in dictionaries if len(dictionary)]
    if not filled:
        return dictionaries[0], [_NO_CODES for _ in dictionaries]
    encoded = pa.chunked_array(filled).dictionary_encode().chunks
    entries = encoded[0].dictionary  # of all chunks
    order = numpy_array(pc.sort_indices(entries))
    places = np.empty(len(entries), np.uint32)
    places[order] = np.arange(len(entries), dtype=np.uint32)
    tables = iter([places.take(numpy_array(chunk.indices)) for chunk in encoded])
    return entries.take(arrow_array(order)), [next(tables) if len(d) else _NO_CODES for d in dictionaries]


def _merged_bytes(merged: Merged) -> int:
    return int(merged[0].nbytes + sum(table.nbytes for table in merged[1]))


_whole = DictionaryCache(merge, _merged_bytes)
_WORTH_MERGING = 2
"""Factor: whole dictionaries are merged, and the result is kept, if at least half of their entries occur."""


def merged_for(dictionaries: Sequence[pa.Array], codes: Sequence[Sequence[Array]]) -> Merged:
    """Merge dictionaries for the given codes of each. If few entries occur, only those are merged; other codes become
    0."""
    used = [_used(dictionary, parts) for dictionary, parts in zip(dictionaries, codes, strict=True)]
    if _WORTH_MERGING * sum(map(len, used)) >= sum(map(len, dictionaries)):
        return _whole.get(dictionaries)
    merged, places = merge([d.take(arrow_array(codes)) for d, codes in zip(dictionaries, used, strict=True)])
    tables = []
    for dictionary, old, new in zip(dictionaries, used, places, strict=True):
        table = np.zeros(max(1, len(dictionary)), np.uint32)
        table[old] = new[: len(old)]
        tables.append(table)
    return merged, tables


def _used(dictionary: pa.Array, parts: Sequence[Array]) -> Array:
    """Return the codes that occur, ascending."""
    occurs = np.zeros(max(1, len(dictionary)), np.bool_)
    for codes in parts:
        occurs[codes] = True
    return np.flatnonzero(occurs[: len(dictionary)])
