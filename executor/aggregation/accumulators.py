"""The states of aggregate functions: per group, partial, mergeable.

    inputs in group order ── partial ──► state ── merge ──► state ── finish ──► values ── aggregate_calls ──► result

A state is made from a batch whose rows lie group by group (`Segments.starts` cuts it); states of many batches are
concatenated and merged the same way, and merged states may be merged again, into coarser groups. SQL's functions are
made of these: avg is `Sum` and `Count`, count(*) is `Rows`; `aggregate_calls` knows which is made of what.

Inputs are vectors of one length. A row whose first input is NULL counts for nothing.

Sums of integers and decimals are exact: one int64 per group while |value| * rows is proven to fit; else two, of the
values' upper bits and lower 32 bits; wide decimals as Python integers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow.compute as pc

from ...storage.vector import Array, Batch, Const, Dict, Flat, Narrow, Text, Vector, Wide, concat
from ..grouping import Segments
from ..kernels.numbers import INT64, floats, from_objects, known_bounds, measured_bounds, objects
from ..lazy import joined

S = TypeVar("S")

_LOW_BITS = 32
_LOW_MASK = (1 << _LOW_BITS) - 1


class Accumulator(ABC, Generic[S]):
    """One function's way to make and merge states."""

    @abstractmethod
    def partial(self, inputs: Sequence[Vector], groups: Segments) -> S:
        """The state of a batch; the inputs lie in the groups' order."""

    @abstractmethod
    def merge(self, states: Sequence[S], groups: Segments) -> S:
        """One state of many; `groups` gathers the concatenation of their groups."""

    def finish(self, state: S) -> Any:
        """What the result is computed from, a value per group: the state itself unless it is still raw."""
        return state

    def size(self, state: S, groups: int) -> int:
        """About how many bytes the state of so many groups takes."""
        return 16 * groups


def gathered(values: Array, groups: Segments) -> Array:
    """The values in the groups' order."""
    return values if groups.order is None else values.take(groups.order)


def joined_arrays(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def first_rows(chosen: Array, groups: Segments) -> Array:
    """The first row of each group that is `chosen` (bool, in the groups' order); its first row where none is."""
    places = np.where(chosen, np.arange(groups.length), groups.length)
    first = np.minimum.reduceat(places, groups.starts)
    return np.where(first < groups.length, first, groups.starts)


class Rows(Accumulator[Array]):
    """How many rows: count(*)."""

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Array:
        return groups.sizes

    def merge(self, states: Sequence[Array], groups: Segments) -> Array:
        return groups.sums(gathered(joined_arrays(states), groups))


class Count(Accumulator[Array]):
    """How many values that are not NULL."""

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Array:
        validity = inputs[0].validity
        if validity is None:
            return groups.sizes
        return groups.sums(validity)

    def merge(self, states: Sequence[Array], groups: Segments) -> Array:
        return groups.sums(gathered(joined_arrays(states), groups))


@dataclass(frozen=True, slots=True)
class Total:
    """Sums per group.

    Parameters
    ----------
    parts : tuple of ndarray, shape (n_groups,)
        One of int64, float64 or Python ints; or two of int64: sum = parts[0] * 2**32 + parts[1].
    most : int
        No sum is larger in size.
    """

    parts: tuple[Array, ...]
    most: int = 0

    def split(self) -> tuple[Array, Array]:
        """The two-part form, the lower part within 0 to 2**32 - 1."""
        if len(self.parts) == 1:
            return self.parts[0] >> _LOW_BITS, self.parts[0] & _LOW_MASK
        high, low = self.parts
        return high + (low >> _LOW_BITS), low & _LOW_MASK

    def as_objects(self) -> Array:
        """The sums as Python ints."""
        if len(self.parts) == 1:
            return self.parts[0].astype(object)
        sums: Array = (self.parts[0].astype(object) << _LOW_BITS) + self.parts[1].astype(object)
        return sums


class Sum(Accumulator[Total]):
    """Sums of numbers; NULLs count as 0 (`Count` says where there was none)."""

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Total:
        arg = inputs[0]
        if arg.type.is_float:
            values = np.broadcast_to(np.asarray(floats(arg), np.float64), (groups.length,))
            return Total((np.add.reduceat(_zeroed(values, arg), groups.starts),))
        if isinstance(arg, Wide) or known_bounds(arg) is None:
            return Total((np.add.reduceat(_zeroed(objects(arg), arg), groups.starts),))
        if isinstance(arg, Const):
            return self._constant(arg, groups)
        most = _size(arg, groups.largest)
        if isinstance(arg, Narrow) and most <= INT64[1]:
            return Total((_sum_codes(arg, groups),), most)
        values = _zeroed(arg.values(), arg)
        if most <= INT64[1]:
            return Total((groups.sums(values),), most)
        wide = values.astype(np.int64, copy=False)
        high = np.add.reduceat(wide >> _LOW_BITS, groups.starts)
        low = np.add.reduceat(wide & _LOW_MASK, groups.starts)
        return Total((high, low), most)

    def _constant(self, arg: Const, groups: Segments) -> Total:
        value = 0 if arg.value is None else int(arg.value)
        most = abs(value) * groups.largest
        if most <= INT64[1]:
            return Total((groups.sizes * value,), most)
        return Total((groups.sizes.astype(object) * value,), most)

    def merge(self, states: Sequence[Total], groups: Segments) -> Total:
        if any(s.parts[0].dtype == object for s in states):
            values = joined_arrays([s.as_objects() for s in states])
            return Total((np.add.reduceat(gathered(values, groups), groups.starts),))
        if states[0].parts[0].dtype == np.float64:
            values = joined_arrays([s.parts[0] for s in states])
            return Total((np.add.reduceat(gathered(values, groups), groups.starts),))
        most = max(s.most for s in states) * groups.largest
        if most <= INT64[1] and all(len(s.parts) == 1 for s in states):
            values = joined_arrays([s.parts[0] for s in states])
            return Total((groups.sums(gathered(values, groups)),), most)
        halves = [s.split() for s in states]
        high = np.add.reduceat(gathered(joined_arrays([h for h, _ in halves]), groups), groups.starts)
        low = np.add.reduceat(gathered(joined_arrays([part for _, part in halves]), groups), groups.starts)
        return Total((high, low), most)


def _zeroed(values: Array, arg: Vector) -> Array:
    """The values with 0 under NULLs."""
    if arg.validity is None:
        return values
    zero = 0 if values.dtype == object else values.dtype.type(0)
    return np.where(arg.validity, values, zero)


def _size(arg: Vector, rows: int) -> int:
    """What a sum of so many rows cannot pass; looks at the values only where the known bounds prove nothing."""
    low, high = known_bounds(arg) or INT64
    most = max(abs(low), abs(high)) * rows
    if most > INT64[1]:
        low, high = measured_bounds(arg)
        most = max(abs(low), abs(high)) * rows
    return most


def _sum_codes(arg: Narrow, groups: Segments) -> Array:
    """Codes are summed as they are; the base comes in once per row of the group."""
    codes = _zeroed(arg.codes, arg)
    sums = groups.sums(codes)
    if arg.base:
        rows = groups.sizes if arg.validity is None else groups.sums(arg.validity)
        sums += arg.base * rows
    return sums


class Extreme(Accumulator[Vector]):
    """min or max. The state is a vector of the argument's type, NULL where there was no value."""

    def __init__(self, greatest: bool):
        self._greatest = greatest

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Vector:
        arg = inputs[0]
        if isinstance(arg, Const):
            return Const(arg.type, arg.value, len(groups))
        validity = arg.validity
        present = None if validity is None else np.logical_or.reduceat(validity, groups.starts)
        if arg.type.is_text:
            return self._text(arg, groups, present)
        if isinstance(arg, Wide):
            return from_objects(arg.type, self._objects(arg, groups), present)
        if isinstance(arg, Narrow):
            codes = self._reduced(arg.codes, validity, groups)
            return Narrow(arg.type, codes, arg.base, present, arg.top)
        values = arg.values()
        bounds = arg.bounds() or (None, None)
        if values.dtype == object:
            return from_objects(arg.type, self._objects(arg, groups), present)
        if values.dtype.kind == "f":
            return Flat(arg.type, self._floats(values, validity, groups), present)
        return Flat(arg.type, self._reduced(values, validity, groups), present, *bounds)

    def merge(self, states: Sequence[Vector], groups: Segments) -> Vector:
        joined = concat(list(states))
        return self.partial([joined if groups.order is None else joined.take(groups.order)], groups)

    def _reduced(self, values: Array, validity: Array | None, groups: Segments) -> Array:
        if validity is not None:
            info = np.iinfo(values.dtype)
            values = np.where(validity, values, values.dtype.type(info.min if self._greatest else info.max))
            if self._greatest is False:
                # A group of NULLs alone keeps the sentinel, which must stay a readable code.
                reduced = np.minimum.reduceat(values, groups.starts)
                return np.where(np.logical_or.reduceat(validity, groups.starts), reduced, values.dtype.type(0))
        reduce = np.maximum if self._greatest else np.minimum
        result: Array = reduce.reduceat(values, groups.starts)
        return result

    def _floats(self, values: Array, validity: Array | None, groups: Segments) -> Array:
        """NaN is above every number (PostgreSQL)."""
        if self._greatest:
            if validity is not None:
                values = np.where(validity, values, -np.inf)
            return np.maximum.reduceat(values, groups.starts)
        if validity is not None:
            values = np.where(validity, values, np.nan)
        return np.fmin.reduceat(values, groups.starts)

    def _objects(self, arg: Vector, groups: Segments) -> Array:
        values = objects(arg)
        if arg.validity is not None:
            values = np.where(arg.validity, values, -(10**39) if self._greatest else 10**39)
        reduce = np.maximum if self._greatest else np.minimum
        result = reduce.reduceat(values, groups.starts)
        if arg.validity is not None:
            result = np.where(np.logical_or.reduceat(arg.validity, groups.starts), result, 0)
        return np.asarray(result, object)

    def _text(self, arg: Vector, groups: Segments, present: Array | None) -> Vector:
        ranked = ordered_dictionary(arg)
        codes = self._reduced(ranked.codes, ranked.validity, groups)
        return Dict(arg.type, codes, ranked.dictionary, present, ordered=True)


def ordered_dictionary(arg: Vector) -> Dict:
    """A text vector as codes in value order; codes are unsigned."""
    if isinstance(arg, Dict):
        if arg.ordered:
            return arg
        codes, dictionary = arg.codes, arg.dictionary
    else:
        assert isinstance(arg, Text)
        encoded = pc.dictionary_encode(arg.array)
        codes, dictionary = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False), encoded.dictionary
    order = pc.sort_indices(dictionary)
    ranks = np.empty(max(1, len(dictionary)), np.uint32)
    ranks[: len(dictionary)][order.to_numpy()] = np.arange(len(dictionary), dtype=np.uint32)
    if not len(dictionary):
        ranks[0] = 0
    return Dict(arg.type, ranks.take(codes), dictionary.take(order), arg.validity, ordered=True)


class AnyValue(Accumulator[Batch]):
    """Some value of each group, not NULL where it has one. The state is a batch of one column, one row per group.

    Where no value is NULL, nothing is read: the column is picked lazily at one row of each group (`pick`).
    """

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Batch:
        arg = inputs[0]
        rows = groups.starts if arg.validity is None else first_rows(arg.validity, groups)
        return Batch([arg], groups.length).select(rows)

    @staticmethod
    def pick(batch: Batch, column: int, groups: Segments) -> Batch:
        """The state of a column without NULLs, unread; `batch` lies in the groups' order."""
        return batch.project([column]).select(groups.starts)

    def merge(self, states: Sequence[Batch], groups: Segments) -> Batch:
        arg = concat([state.column(0) for state in states])
        return self.partial([arg if groups.order is None else arg.take(groups.order)], groups)

    @staticmethod
    def merge_unread(states: Sequence[Batch], groups: Segments) -> Batch:
        """As `merge`, for columns without NULLs, unread still."""
        return joined((), states).select(groups.representatives)
