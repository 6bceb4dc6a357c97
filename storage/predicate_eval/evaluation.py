"""Column predicates over vectors, in whatever form they come: codes are compared as codes.

`condition_of` turns a predicate into a condition over integers where the vector's values, or its dictionary's
positions, are integers; floats, texts and wide decimals are compared by Arrow and numpy kernels.

Comparison is PostgreSQL's: texts compare by their bytes, NaN equals NaN and is above every other number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ...model.bloom_predicate import hash_floats, may_contain, may_contain_value, probe
from ...model.predicates import AnyOf, BitmapFilter, BloomFilter, ColumnPredicate, InList, IsNull, Range, admits_null
from ...model.types import DataType
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs
from .code_conditions import Bits, Condition, Hashed, Intervals, members, union

_FAR = 1 << 130
"""Beyond every integer that a column can hold."""


def evaluate(predicate: ColumnPredicate, vector: Vector) -> Array:
    """Evaluates `predicate` for the values of `vector`: a new ndarray of bool, shape (n_rows,).

    `admits_null` decides for NULL. `predicate.column` is ignored.
    """
    if isinstance(predicate, IsNull):
        return _null_mask(predicate, vector)
    if isinstance(vector, Const):
        return np.full(len(vector), satisfies(predicate, vector.value, vector.type))
    null = admits_null(predicate)
    if isinstance(vector, Dict):
        condition = dictionary_condition(predicate, vector.dictionary, vector.ordered)
        return evaluate_condition(condition, vector, null)
    if isinstance(vector, (Text, Wide)):
        present: Array = _arrow_mask(predicate, vector)
    elif vector.type.is_float:
        present = _float_mask(predicate, vector.values())
    else:
        return evaluate_condition(condition_of(predicate), vector, null)
    if vector.validity is None:
        return present
    return present | ~vector.validity if null else present & vector.validity


def evaluate_condition(condition: Condition, vector: Vector, null: bool = False) -> Array:
    """`evaluate` for a condition over the integers of a `Narrow` or `Flat` vector, or over the codes of a `Dict`;
    where a value is NULL the answer is `null`."""
    if isinstance(vector, Narrow):
        matches = condition.matches(vector.codes, vector.base, vector.top)
    elif isinstance(vector, Dict):
        matches = condition.matches(_unsigned(vector.codes))
    else:
        assert isinstance(vector, Flat)
        values = vector.values()
        if values.dtype.kind in "bu":
            matches = condition.matches(_unsigned(values))
        else:
            # Flipping the sign bit turns signed values into unsigned codes over the type's smallest value.
            unsigned = _unsigned(values)
            half = 1 << (8 * values.dtype.itemsize - 1)
            matches = condition.matches(unsigned - unsigned.dtype.type(half), -half)
    if vector.validity is None:
        return matches
    if null:
        return np.logical_or(matches, ~vector.validity, out=matches)
    return np.logical_and(matches, vector.validity, out=matches)


def condition_of(predicate: ColumnPredicate) -> Condition:
    """The predicate over integer values that are not NULL."""
    if isinstance(predicate, IsNull):
        return _existence(predicate)
    if isinstance(predicate, AnyOf):
        return union([condition_of(member) for member in predicate.members])
    if isinstance(predicate, BloomFilter):
        return Hashed(predicate.words)
    if isinstance(predicate, Range):
        low = -_FAR if predicate.lower is None else math.ceil(predicate.lower)
        high = _FAR if predicate.upper is None else math.floor(predicate.upper)
        if not predicate.lower_inclusive and low == predicate.lower:
            low += 1
        if not predicate.upper_inclusive and high == predicate.upper:
            high -= 1
        return Intervals(((low, high),) if low <= high else ())
    if isinstance(predicate, InList):
        return members([int(v) for v in predicate.values])
    assert isinstance(predicate, BitmapFilter)
    return Bits(predicate.base, predicate.bits)


def dictionary_condition(predicate: ColumnPredicate, dictionary: pa.Array, ordered: bool) -> Condition:
    """The predicate over the positions of a dictionary of texts, for values that are not NULL."""
    if isinstance(predicate, IsNull):
        return _existence(predicate)
    if isinstance(predicate, AnyOf):
        return union([dictionary_condition(member, dictionary, ordered) for member in predicate.members])
    if isinstance(predicate, BloomFilter):
        return members(np.flatnonzero(may_contain(predicate.words, dictionary)))
    if not ordered:
        chosen = np.flatnonzero(_arrow_mask(predicate, Text(_NO_TYPE, dictionary)))
        return members(chosen)
    if isinstance(predicate, Range):
        first = 0 if predicate.lower is None else position(dictionary, predicate.lower, not predicate.lower_inclusive)
        last = (
            len(dictionary)
            if predicate.upper is None
            else position(dictionary, predicate.upper, predicate.upper_inclusive)
        )
        return Intervals(((first, last - 1),) if first < last else ())
    if isinstance(predicate, InList):
        if len(predicate.values) * 8 < len(dictionary):
            places = [find(dictionary, value) for value in predicate.values]
            return members([p for p in places if p >= 0])
        codes = pc.index_in(arrow_array(predicate.values, dictionary.type), value_set=dictionary).drop_null()
        return members(np.sort(numpy_array(codes)))
    raise TypeError(f"{type(predicate).__name__} is not a predicate over texts")


def _existence(predicate: IsNull) -> Condition:
    """Of values that are not NULL."""
    return Intervals(((-_FAR, _FAR),) if predicate.negated else ())


def position(texts: pa.Array, value: Any, after: bool = False) -> int:
    """Insertion position of `value` in ascending `texts`; after its equals if `after`.

    >>> position(pa.array(["a", "c", "e"]), "c"), position(pa.array(["a", "c", "e"]), "c", after=True)
    (1, 2)
    """
    low, high = 0, len(texts)
    while low < high:
        middle = (low + high) >> 1
        entry = texts[middle].as_py()
        if entry < value or (after and entry == value):
            low = middle + 1
        else:
            high = middle
    return low


def find(texts: pa.Array, value: Any) -> int:
    """The position of `value` in ascending `texts`, -1 where it is not there."""
    place = position(texts, value)
    return place if place < len(texts) and texts[place].as_py() == value else -1


def satisfies(predicate: ColumnPredicate, value: Any, type_: DataType) -> bool:
    """True if the predicate is true for one physical value (None for NULL)."""
    if isinstance(predicate, IsNull):
        return (value is None) != predicate.negated
    if isinstance(predicate, AnyOf):
        return any(satisfies(member, value, type_) for member in predicate.members)
    if value is None:
        return False
    if isinstance(predicate, BloomFilter):
        return may_contain_value(predicate.words, value, type_)
    if type_.is_float:
        return bool(_float_mask(predicate, np.array([value], np.float64))[0])
    if isinstance(predicate, Range):
        low, high = predicate.lower, predicate.upper
        above = low is None or value > low or (predicate.lower_inclusive and value == low)
        return above and (high is None or value < high or (predicate.upper_inclusive and value == high))
    if isinstance(predicate, InList):
        return value in predicate.values
    place = int(value) - predicate.base
    return 0 <= place < len(predicate.bits) and bool(predicate.bits[place])


def _null_mask(predicate: IsNull, vector: Vector) -> Array:
    if vector.validity is None:
        return np.full(len(vector), predicate.negated)
    return vector.validity.copy() if predicate.negated else ~vector.validity


def _unsigned(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def _any_mask(masks: Iterable[Array], rows: int) -> Array:
    found = np.zeros(rows, np.bool_)
    for mask in masks:
        found |= mask
    return found


def _float_mask(predicate: ColumnPredicate, values: Array) -> Array:
    if isinstance(predicate, AnyOf):
        return _any_mask((_float_mask(member, values) for member in predicate.members), len(values))
    if isinstance(predicate, IsNull):
        return np.full(len(values), predicate.negated)
    if isinstance(predicate, BloomFilter):
        return probe(predicate.words, hash_floats(values))
    if isinstance(predicate, InList):
        mask = np.isin(values, np.array(predicate.values, np.float64))
        return mask | np.isnan(values) if any(v != v for v in predicate.values) else mask
    if not isinstance(predicate, Range):
        raise TypeError(f"{type(predicate).__name__} is not a predicate over floats")
    mask = np.ones(len(values), np.bool_)
    if predicate.lower is not None:
        mask &= _not_below(values, predicate.lower, predicate.lower_inclusive)
    if predicate.upper is not None:
        mask &= ~_not_below(values, predicate.upper, not predicate.upper_inclusive)
    return mask


def _not_below(values: Array, bound: float, inclusive: bool) -> Array:
    """`values >= bound` (`>` where not inclusive), NaN above all."""
    if bound != bound:
        return np.isnan(values) if inclusive else np.zeros(len(values), np.bool_)
    # A float32 column widens to the bound, never the other way round.
    limit = np.float64(bound)
    return np.asarray(~(values < limit) if inclusive else ~(values <= limit))


def _arrow_mask(predicate: ColumnPredicate, vector: Text | Wide) -> Array:
    """Under NULLs anything."""
    if isinstance(predicate, AnyOf):
        return _any_mask((_arrow_mask(member, vector) for member in predicate.members), len(vector.array))
    if isinstance(predicate, IsNull):
        return np.full(len(vector.array), predicate.negated)
    if isinstance(predicate, BloomFilter):
        return may_contain(predicate.words, vector.array)
    if isinstance(vector, Wide):
        return _wide_mask(predicate, vector.array)
    array = vector.array
    if isinstance(predicate, InList):
        return _mask(pc.is_in(array, value_set=arrow_array(predicate.values, array.type)))
    if not isinstance(predicate, Range):
        raise TypeError(f"{type(predicate).__name__} is not a predicate over texts")
    if predicate.lower is not None and predicate.lower == predicate.upper:
        both = predicate.lower_inclusive and predicate.upper_inclusive
        return _compared(pc.equal, array, predicate.lower) if both else np.zeros(len(array), np.bool_)
    mask = np.ones(len(array), np.bool_)
    if predicate.lower is not None:
        mask &= _compared(pc.greater_equal if predicate.lower_inclusive else pc.greater, array, predicate.lower)
    if predicate.upper is not None:
        mask &= _compared(pc.less_equal if predicate.upper_inclusive else pc.less, array, predicate.upper)
    return mask


def _compared(compare: Callable[[pa.Array, pa.Scalar], pa.Array], array: pa.Array, bound: Any) -> Array:
    return _mask(compare(array, arrow_scalar(bound, array.type)))


def _mask(booleans: pa.Array) -> Array:
    if booleans.null_count:
        booleans = fill_nulls(booleans, False)
    return numpy_array(booleans)


def _wide_mask(predicate: ColumnPredicate, array: pa.Array) -> Array:
    """On the two limbs: an unscaled bound may have more digits than the column's Arrow type takes."""
    high, low = decimal_limbs(array)
    if isinstance(predicate, InList):
        mask = np.zeros(len(array), np.bool_)
        for value in predicate.values:
            mask |= (high == value >> 64) & (low == value & (2**64 - 1))
        return mask
    if isinstance(predicate, BitmapFilter):
        return _wide_bits(predicate, high, low)
    assert isinstance(predicate, Range)
    mask = np.ones(len(array), np.bool_)
    if predicate.lower is not None:
        mask &= _limbs_not_below(high, low, predicate.lower + (not predicate.lower_inclusive))
    if predicate.upper is not None:
        mask &= ~_limbs_not_below(high, low, predicate.upper + predicate.upper_inclusive)
    return mask


def _limbs_not_below(high: Array, low: Array, bound: int) -> Array:
    if not -(1 << 127) <= bound < 1 << 127:
        return np.full(len(high), bound < 0)
    return np.asarray((high > bound >> 64) | ((high == bound >> 64) & (low >= bound & (2**64 - 1))))


def _wide_bits(predicate: BitmapFilter, high: Array, low: Array) -> Array:
    fits = high == low.view(np.int64) >> 63  # the value is the sign extension of its low half
    low_matches = evaluate_condition(condition_of(predicate), Flat(_NO_TYPE, low.view(np.int64)))
    return np.asarray(low_matches & fits)


_NO_TYPE: Any = None
"""For evaluations that use only the values of a vector."""
