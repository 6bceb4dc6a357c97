"""Bloom filters as predicates: a join's keys, in a form that a scan can test for each row before it reads other
columns.

A filter is an array of 64-bit words. A value's hash picks one word by its highest bits and four bits of the word by
its lowest 24, so that a row costs one hash and one look-up (a *register-blocked* filter: Putze, Sanders, Singler,
"Cache-, hash- and space-efficient Bloom filters", 2007). About ten bits per value give 3 % false positives, 16 bits
half a percent.

The hash depends on the value, not on its type: equal INTs and BIGINTs, FLOATs and DOUBLEs, and decimals of one scale
and any precision have equal hashes. `model.keys.hashing` defines the words of a value; floats are hashed by the bits of
the double, -0.0 as 0.0, all NaNs alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from .arrow_arrays import arrow_array, fill_nulls, numpy_array
from .keys.hashing import hash64_text, hash64_words
from .predicates import BloomFilter
from .types import DataType
from .vectors.vector import Array, Dict, Text, Vector, Wide, decimal_limbs, physical_to_arrow

_BITS = 4
"""Bits of a word that one value sets."""
_MOST_WORDS = 1 << 24
"""Limit of words, 128 MiB: sending a larger filter costs more than it saves."""
_ROWS = 16_384  # probed at a time: the temporaries then stay in the cache
_NUMBERS = np.arange(4096, dtype=np.uint64)
_TWO_BITS = np.uint64(1) << (_NUMBERS & np.uint64(63)) | np.uint64(1) << (_NUMBERS >> np.uint64(6))
"""The two bits that twelve bits of a hash select."""


def bloom_predicate(column: str, values: Vector | pa.Array, false_positive_rate: float = 0.01) -> BloomFilter:
    """A filter that every value of `values` passes, and about `false_positive_rate` of others.

    Parameters
    ----------
    column : str
        Column of the predicate.
    values : Vector, or an Arrow array of integers, texts, floats or decimals
        In any order, repetitions allowed; NULLs are ignored. Preferably distinct: the size depends on their number.
    false_positive_rate : float
        Between 0 and 1, both exclusive; for very many values it is exceeded, as the filter is limited to 128 MiB.

    Examples
    --------
    >>> import pyarrow as pa
    >>> filter = bloom_predicate("k", pa.array([1, 5, None]))
    >>> may_contain(filter.words, pa.array([5, None, 6])).tolist()
    [True, False, False]
    """
    if not 0.0 < false_positive_rate < 1.0:
        raise ValueError(f"false_positive_rate={false_positive_rate}: must be between 0 and 1")
    hashes = _present_hashes(values)
    words = np.zeros(_word_count(len(hashes), false_positive_rate), np.uint64)
    places, masks = _places_and_masks(words, hashes)
    # Equal positions in one run: numpy's scattered OR is slow, a reduction over runs is not.
    order = np.argsort(places, kind="stable")
    places, masks = places[order], masks[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]][: len(places)])
    if len(starts):
        words[places[starts]] = np.bitwise_or.reduceat(masks, starts)
    return BloomFilter(column, words)


def may_contain(words: Array, values: Vector | pa.Array) -> Array:
    """False where a value is certainly not in the filter, and for NULL: ndarray of bool, shape (n_values,)."""
    if isinstance(values, Dict):
        passes = may_contain(words, values.dictionary)
        passed = passes.take(values.codes) if len(passes) else np.zeros(len(values), np.bool_)
        validity = values.validity
    else:
        validity, hashes = _hashes(values)
        passed = probe(words, hashes)
    return passed if validity is None else passed & validity


def may_contain_value(words: Array, value: Any, type_: DataType) -> bool:
    """`may_contain` for one physical value, not NULL."""
    if type_.is_text:
        return bool(may_contain(words, arrow_array([value], type_.arrow))[0])
    if type_.is_float:
        return bool(probe(words, hash_floats(np.array([value], np.float64)))[0])
    if -(2**63) <= value < 2**63:
        return bool(probe(words, hash_integers(np.array([value], np.int64)))[0])
    wide = np.empty(1, object)
    wide[0] = value
    return bool(probe(words, hash_wide(physical_to_arrow(type_, wide)))[0])


def probe(words: Array, hashes: Array) -> Array:
    """`may_contain` for hashes (ndarray of uint64)."""
    passes = np.empty(len(hashes), np.bool_)
    for start in range(0, len(hashes), _ROWS):
        places, masks = _places_and_masks(words, hashes[start : start + _ROWS])
        np.equal(words.take(places) & masks, masks, out=passes[start : start + _ROWS])
    return passes


def _places_and_masks(words: Array, hashes: Array) -> tuple[Array, Array]:
    bits = len(words).bit_length() - 1
    # A shift by 64 is undefined; with one word every place is 0.
    places = (hashes >> np.uint64(64 - bits)).view(np.int64) if bits else np.zeros(len(hashes), np.int64)
    masks = _TWO_BITS.take((hashes & np.uint64(4095)).view(np.int64))
    masks |= _TWO_BITS.take((hashes >> np.uint64(12) & np.uint64(4095)).view(np.int64))
    return places, masks


def _word_count(values: int, rate: float) -> int:
    count = 1
    while count < _MOST_WORDS and _false_positives(values / count) > rate:
        count *= 2
    return count


def _false_positives(load: float) -> float:
    """Expected false positive rate if a word has `load` values on average: the number in a word is Poisson
    distributed."""
    if load > 64:
        return 1.0
    total, probability = 0.0, math.exp(-load)
    for held in range(int(load + 10 * math.sqrt(load) + 10)):
        total += probability * (1 - (1 - 1 / 64) ** (_BITS * held)) ** _BITS
        probability *= load / (held + 1)
    return total


# ---- hashes ------------------------------------------------------------------------------------------------------


def hash_integers(values: Array) -> Array:
    """Hashes of integers or bools of any width, or of their 64-bit patterns (ndarray of uint64): ndarray of uint64."""
    words = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
    hashes = np.zeros(len(words), np.uint64)
    hash64_words(hashes, words)
    return hashes


def hash_floats(values: Array) -> Array:
    """Hashes of floats: ndarray of uint64."""
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    return hash_integers(wide.view(np.int64))


def hash_texts(array: pa.Array) -> Array:
    """Hashes of an Arrow string or binary array without NULLs: ndarray of uint64."""
    hashes = np.zeros(len(array), np.uint64)
    hash64_words(hashes, hash64_text(array))
    return hashes


def hash_wide(array: pa.Array) -> Array:
    """Hashes of an Arrow decimal128 array; values of 64 bits hash as integers do."""
    high, low = decimal_limbs(array)
    hashes = hash_integers(low)
    beyond = high != low.view(np.int64) >> 63
    if beyond.any():
        further = hashes.copy()
        hash64_words(further, high)
        hashes = np.where(beyond, further, hashes)
    return hashes


def _present_hashes(values: Vector | pa.Array) -> Array:
    """Hashes of the values that are not NULL."""
    if isinstance(values, Dict):
        codes = values.codes if values.validity is None else values.codes[values.validity]
        used = np.unique(codes)
        return _hashes(values.dictionary.take(arrow_array(used)))[1]
    validity, hashes = _hashes(values)
    return hashes if validity is None else hashes[validity]


def _hashes(values: Vector | pa.Array) -> tuple[Array | None, Array]:
    """(validity, hash of each value; arbitrary under NULLs)."""
    if isinstance(values, (Text, Wide)):
        return _arrow_hashes(values.array)
    if not isinstance(values, Vector):
        return _arrow_hashes(values)
    if values.type.is_text:
        return _arrow_hashes(values.to_arrow())
    numbers = values.values()
    if numbers.dtype == object:
        return _arrow_hashes(values.to_arrow())
    return values.validity, hash_floats(numbers) if values.type.is_float else hash_integers(numbers)


def _arrow_hashes(array: pa.Array) -> tuple[Array | None, Array]:
    validity = None if array.null_count == 0 else numpy_array(array.is_valid())
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return _arrow_hashes(array.dictionary_decode())
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        if validity is not None:
            array = fill_nulls(array, "" if pa.types.is_string(type_) else b"")
        return validity, hash_texts(array)
    if pa.types.is_decimal(type_):
        return validity, hash_wide(array)
    if pa.types.is_boolean(type_):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(type_):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        array = array.cast(pa.int64())
    if validity is not None:
        array = fill_nulls(array, 0)
    values = numpy_array(array)
    return validity, hash_floats(values) if values.dtype.kind == "f" else hash_integers(values)
