"""The states of aggregate functions: per group, partial, mergeable.

    inputs in group order ── partial ──► state ── merge ──► state ── finish ──► values ── aggregate_calls ──► result

A state is made from a batch whose rows lie group by group (`Segments.starts` holds the boundaries). States of many
batches are concatenated and merged the same way, and merged states may be merged again, into coarser groups. A state
may leave memory, or the process, as vectors (`to_vectors`), which each accumulator's docstring describes. SQL's
functions are composed of these: avg is `Sum` and `Count`, count(*) is `Rows`; `aggregate_calls` defines the
composition.

Inputs are vectors of one length. A row whose first input is NULL is ignored.

Sums of integers and decimals are exact: one int64 per group while |value| * rows is proven to fit; else several, one of
each limb of 32 bits (`kernels.numbers.limbs`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, DOUBLE
from ...model.vectors.merged_dictionaries import DictionaryCache
from ...model.vectors.vector import Array, Batch, Const, Dict, Flat, Narrow, Text, Vector, Wide, concat
from ..kernels.groups.segments import Segments
from ..kernels.numbers.arithmetic import refuse_overflow
from ..kernels.numbers.bounded_integers import (
    INT64,
    floats,
    from_objects,
    known_bounds,
    limbs_of,
    measured_bounds,
)
from ..kernels.numbers.limbs import Limbs, carried, limbs_of_integer, widened
from ..kernels.order_words import least_rows, mirrored, sort_texts, words_of
from ..lazy import joined
from ..spilling.sizes import array_bytes, batch_bytes, vector_bytes

S = TypeVar("S")


class Accumulator(ABC, Generic[S]):
    """Creation and merging of one function's states."""

    keeps_rows: ClassVar[bool] = False
    """True if a state holds any number of rows for a group. It is `Tuples` then."""
    by_number: bool = False
    """True if the rows need not lie group by group: it uses the methods of `Segments` instead of `starts`."""

    @abstractmethod
    def partial(self, inputs: Sequence[Vector], groups: Segments) -> S:
        """Make the state of a batch; the inputs lie in the groups' order."""

    @abstractmethod
    def merge(self, states: Sequence[S], groups: Segments) -> S:
        """Merge many states into one; `groups` gathers the concatenation of their groups."""

    def finish(self, state: S) -> Any:
        """Return the values per group that the result is computed from: the state itself unless it is still raw."""
        return state

    @abstractmethod
    def size(self, state: S, groups: int) -> int:
        """Approximate size in bytes of the state of `groups` groups."""

    def take(self, state: S, rows: Array, groups: int) -> S:
        """Return the states of the groups `rows` (intp) of `groups` groups."""
        return self.from_vectors([vector.take(rows) for vector in self.to_vectors(state, groups)], len(rows))

    @abstractmethod
    def to_vectors(self, state: S, groups: int) -> list[Vector]:
        """Encode the state of `groups` groups as vectors, one row per group; their number and types depend only on the
        types of the inputs."""

    @abstractmethod
    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> S:
        """Decode the state from the vectors of `to_vectors`, or several states if the rows of their vectors were
        concatenated."""


class OneVector(Accumulator[Vector]):
    """An accumulator whose state is one vector."""

    def size(self, state: Vector, groups: int) -> int:
        return vector_bytes(state, groups)

    def to_vectors(self, state: Vector, groups: int) -> list[Vector]:
        return [state]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Vector:
        return vectors[0]


class OneBatch(Accumulator[Batch]):
    """An accumulator whose state is a batch, one row per group."""

    def size(self, state: Batch, groups: int) -> int:
        return batch_bytes(state)

    def take(self, state: Batch, rows: Array, groups: int) -> Batch:
        return state.select(rows)  # unread columns stay unread

    def to_vectors(self, state: Batch, groups: int) -> list[Vector]:
        return state.columns()

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Batch:
        return Batch(vectors, groups)


def gathered(values: Array, groups: Segments) -> Array:
    """Return the values in the groups' order."""
    return values if groups.order is None else values.take(groups.order)


def joined_arrays(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def first_rows(chosen: Array, groups: Segments) -> Array:
    """Return the first row of each group that is `chosen` (bool, in the groups' order); its first row if none is."""
    places = np.where(chosen, np.arange(groups.length), groups.length)
    first = groups.extremes(places, greatest=False)
    return np.where(first < groups.length, first, groups.firsts)


class Rows(Accumulator[Array]):
    """Number of rows: count(*). As vectors: BIGINT."""

    by_number = True

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Array:
        return groups.sizes

    def merge(self, states: Sequence[Array], groups: Segments) -> Array:
        return groups.sums(gathered(joined_arrays(states), groups))

    def size(self, state: Array, groups: int) -> int:
        return state.nbytes

    def to_vectors(self, state: Array, groups: int) -> list[Vector]:
        return [Flat(BIGINT, state)]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Array:
        return vectors[0].values()


class Count(Rows):
    """Number of values that are not NULL. As vectors: BIGINT."""

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Array:
        validity = inputs[0].validity
        if validity is None:
            return groups.sizes
        return groups.sums(validity)


@dataclass(frozen=True, slots=True)
class Total:
    """Sums per group.

    Parameters
    ----------
    parts : tuple of ndarray, shape (n_groups,)
        One of int64 or float64; or several of int64, the limbs of the sum (`kernels.numbers.limbs`), not yet carried.
    most : int
        Upper bound of the absolute value of each sum.
    """

    parts: tuple[Array, ...]
    most: int = 0

    def limbs(self, count: int = 2) -> Limbs:
        """Return at least `count` limbs, carried."""
        return widened(carried(self.parts), count)


_LIMBS = 4
"""Number of limbs that hold every sum; the first one has 64 bits."""


class Sum(Accumulator[Total]):
    """Sums of numbers; NULLs count as 0 (`Count` shows groups without a value).

    As vectors: of floats DOUBLE; of other numbers four of BIGINT, whose rows are one of

        a  NULL  NULL  NULL     the sum is a
        a  b     c     d        its limbs, carried
    """

    by_number = True

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Total:
        arg = inputs[0]
        if arg.type.is_float:
            values = np.broadcast_to(np.asarray(floats(arg), np.float64), (groups.length,))
            return float_total(_zeroed(values, arg), groups)
        if isinstance(arg, Const):
            return self._constant(arg, groups)
        if isinstance(arg, Wide):
            return Total(tuple(groups.sums(limb) for limb in limbs_of(arg)))
        most = _size(arg, groups.largest)
        if isinstance(arg, Narrow) and most <= INT64[1]:
            return Total((_sum_codes(arg, groups),), most)
        if most <= INT64[1]:
            return Total((groups.sums(_zeroed(arg.values(), arg)),), most)
        return Total(tuple(groups.sums(limb) for limb in limbs_of(arg)), most)

    def _constant(self, arg: Const, groups: Segments) -> Total:
        value = 0 if arg.value is None else int(arg.value)
        most = abs(value) * groups.largest
        if most <= INT64[1]:
            return Total((groups.sizes * value,), most)
        return Total(tuple(groups.sizes * limb for limb in limbs_of_integer(value)), most)

    def merge(self, states: Sequence[Total], groups: Segments) -> Total:
        if states[0].parts[0].dtype == np.float64:
            return float_total(gathered(joined_arrays([s.parts[0] for s in states]), groups), groups)
        most = max(s.most for s in states) * groups.largest
        if most <= INT64[1] and all(len(s.parts) == 1 for s in states):
            values = joined_arrays([s.parts[0] for s in states])
            return Total((groups.sums(gathered(values, groups)),), most)
        count = max(2, *(len(s.parts) for s in states))
        columns = zip(*(s.limbs(count) for s in states), strict=True)
        return Total(tuple(groups.sums(gathered(joined_arrays(c), groups)) for c in columns), most)

    def size(self, state: Total, groups: int) -> int:
        return sum(map(array_bytes, state.parts))

    def to_vectors(self, state: Total, groups: int) -> list[Vector]:
        first = state.parts[0]
        nothing = Const(BIGINT, None, groups)
        if first.dtype == np.float64:
            return [Flat(DOUBLE, first)]
        if len(state.parts) == 1:
            return [Flat(BIGINT, first, None, -state.most, state.most), *[nothing] * (_LIMBS - 1)]
        return [Flat(BIGINT, limb) for limb in state.limbs(_LIMBS)]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Total:
        if len(vectors) == 1:
            return Total((vectors[0].values(),))
        first, *rest = (vector.values() for vector in vectors)
        has_limbs = np.ones(groups, np.bool_) if vectors[1].validity is None else vectors[1].validity
        if not has_limbs.any():
            low, high = known_bounds(vectors[0]) or INT64
            return Total((first,), max(abs(low), abs(high)))
        pairs = zip((first, *rest), widened((first,), _LIMBS), strict=True)
        return Total(tuple(np.where(has_limbs, limb, of_one) for limb, of_one in pairs))


def float_total(values: Array, groups: Segments) -> Total:
    """Sums of float64, which may be infinite or NaN; raises `NumericOutOfRange` if finite values have no finite sum."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = groups.float_sums(values)
    infinite = ~np.isfinite(sums)
    if infinite.any():
        refuse_overflow(infinite & ~groups.has_any(~np.isfinite(values)))
    return Total((sums,))


def _zeroed(values: Array, arg: Vector) -> Array:
    """Return the values with 0 for NULLs."""
    return values if arg.validity is None else np.where(arg.validity, values, values.dtype.type(0))


def _size(arg: Vector, rows: int) -> int:
    """Upper bound of the absolute sum of `rows` rows; reads the values only if the known bounds prove nothing."""
    low, high = known_bounds(arg) or INT64
    most = max(abs(low), abs(high)) * rows
    if most > INT64[1]:
        low, high = measured_bounds(arg)
        most = max(abs(low), abs(high)) * rows
    return most


def _sum_codes(arg: Narrow, groups: Segments) -> Array:
    """Sum codes without decoding; the base is added once per row of the group."""
    codes = _zeroed(arg.codes, arg)
    sums = groups.sums(codes)
    if arg.base:
        rows = groups.sizes if arg.validity is None else groups.sums(arg.validity)
        sums += arg.base * rows
    return sums


class Extreme(OneVector):
    """min or max. The state is a vector of the argument's type, NULL for a group without a value; as vectors, the
    same. `by_number`: the values are one number each, so no texts and no wide decimals."""

    def __init__(self, greatest: bool, by_number: bool = False):
        self._greatest = greatest
        self.by_number = by_number

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Vector:
        arg = inputs[0]
        if isinstance(arg, Const):
            return Const(arg.type, arg.value, len(groups))
        validity = arg.validity
        present = None if validity is None else groups.has_any(validity)
        if isinstance(arg, Dict) and (arg.ordered or len(arg.dictionary) <= len(arg)):
            return self._codes(ordered_dictionary(arg), groups, present)
        if arg.type.is_text or isinstance(arg, Wide):
            return self._by_words(arg, groups, present)
        if isinstance(arg, Narrow):
            codes = self._reduced(arg.codes, validity, groups)
            return Narrow(arg.type, codes, arg.base, present, arg.top)
        values = arg.values()
        bounds = arg.bounds() or (None, None)
        if values.dtype == object:
            return self._by_words(arg, groups, present)
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
                reduced = groups.extremes(values, greatest=False)
                return np.where(groups.has_any(validity), reduced, values.dtype.type(0))
        return groups.extremes(values, self._greatest)

    def _floats(self, values: Array, validity: Array | None, groups: Segments) -> Array:
        """Extremes of floats; NaN is above every number (PostgreSQL)."""
        if validity is not None:
            values = np.where(validity, values, -np.inf if self._greatest else np.nan)
        return groups.extremes(values, self._greatest)

    def _by_words(self, arg: Vector, groups: Segments, present: Array | None) -> Vector:
        """The value of one row of each group, found by the words of the values: texts and wide decimals."""
        words = mirrored(words_of(arg)) if self._greatest else words_of(arg)
        rows = least_rows(words, groups.starts, arg.validity)
        if not isinstance(arg, Flat):
            return arg.take(rows)
        return from_objects(arg.type, arg.values().take(rows), present)

    def _codes(self, arg: Dict, groups: Segments, present: Array | None) -> Vector:
        codes = self._reduced(arg.codes, arg.validity, groups)
        return Dict(arg.type, codes, arg.dictionary, present, ordered=True)


def ordered_dictionary(arg: Vector) -> Dict:
    """Return a text vector as codes in value order; codes are unsigned. A dictionary that is shared by several vectors
    is sorted once."""
    if isinstance(arg, Dict):
        if arg.ordered:
            return arg
        codes, (dictionary, ranks) = arg.codes, _sorted_dictionaries.get([arg.dictionary])
    else:
        assert isinstance(arg, Text)
        encoded = pc.dictionary_encode(arg.array)
        codes = numpy_array(fill_nulls(encoded.indices, 0))
        dictionary, ranks = _sorted([encoded.dictionary])
    return Dict(arg.type, ranks.take(codes), dictionary, arg.validity, ordered=True)


def _sorted(dictionaries: Sequence[pa.Array]) -> tuple[pa.Array, Array]:
    """Return a dictionary's entries in ascending order, and the rank of each entry (uint32)."""
    (dictionary,) = dictionaries
    order = sort_texts(dictionary)
    ranks = np.zeros(max(1, len(dictionary)), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    return dictionary.take(arrow_array(order)), ranks


_sorted_dictionaries = DictionaryCache(_sorted, lambda result: result[0].nbytes + result[1].nbytes)


class AnyValue(OneBatch):
    """Some value of each group, not NULL if the group has one. The state is a batch of one column, one row per group;
    as vectors, that column."""

    by_number = True

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Batch:
        arg = inputs[0]
        rows = groups.firsts if arg.validity is None else first_rows(arg.validity, groups)
        return Batch([arg.take(rows)], len(groups))

    def merge(self, states: Sequence[Batch], groups: Segments) -> Batch:
        arg = concat([state.column(0) for state in states])
        return self.partial([arg if groups.order is None else arg.take(groups.order)], groups)


class UnreadValue(AnyValue):
    """Some value of each group, of a column without NULLs: the value of one row of each group, read only when
    needed."""

    @staticmethod
    def pick(batch: Batch, column: int, groups: Segments) -> Batch:
        """Make the state; `batch` lies in the groups' order."""
        return batch.project([column]).select(groups.firsts)

    def merge(self, states: Sequence[Batch], groups: Segments) -> Batch:
        return joined((), states).select(groups.representatives)
