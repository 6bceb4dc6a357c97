"""The running bound of a top-N: the keys of the n-th best row so far, which later rows must beat.

    batches ── leading key ──► beats the bound? ── the rest of the row is read only if so ──► first n of the batch
                                    ▲                                                              │
                                    └──────────── bound: the last of the n best keys ◄─────────────┘

All threads of one sort share it. A scan below the sort adds it to the predicates of each token that it begins
(`ScanBound`), so pages, row groups and rowsets whose statistics exclude better rows are not read at all. A condition
that the scan evaluates by itself is evaluated for the rows only that may beat the bound of that moment.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_scalar, fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.predicates import AnyOf, ColumnPredicate, IsNull, Range
from ...model.types import DataType, Kind
from ...model.vectors.vector import (
    Array,
    Batch,
    Dict,
    Narrow,
    Text,
    TextCells,
    Vector,
    Wide,
    concat,
    decimal_limbs,
)
from ...sql.expressions import OrderItem
from ..expressions.evaluate import Evaluation
from ..kernels.order_words import first_rows, ordered_words
from ..kernels.times.intervals import length

FEW_ROWS = 4096
"""Batches of fewer rows are kept whole, unless a scan has the bound: finding the first of them costs more than it
saves."""
MOST_NEEDED = 131_072
"""Largest number of needed rows for which a bound is kept: the sort has the keys of the best rows twice."""


class RunningBound:
    """The bound of one sort. Thread-safe.

    Parameters
    ----------
    items : sequence of OrderItem
        Directions of the keys.
    needed : int
        Number of rows that the sort needs, at least 1.
    ties : bool
        True if rows that equal the last of them in all keys are needed as well.
    """

    def __init__(self, items: Sequence[OrderItem], needed: int, ties: bool = False):
        self._items = items
        self._needed = needed
        self._ties = ties
        self.is_scanned = False
        """True if a scan has the bound, which saves more there the earlier it is known."""
        self._lock = threading.Lock()
        """Guards the fields below; `_values` is replaced, and read without it."""
        self._pool: list[list[Vector]] = []
        """Keys of the best rows, and of those that were offered since these were found."""
        self._rows = 0
        self._values: tuple[Any, ...] | None = None
        """Physical keys of the last of the `needed` best rows; None until there are as many rows."""
        self.considered = 0
        self.dropped = 0

    @property
    def leading(self) -> tuple[Any] | None:
        """The bound of the leading key (in a tuple; None for NULL), None until there is one."""
        values = self._values
        return None if values is None else values[:1]

    @property
    def drops_equal(self) -> bool:
        """True if a row whose leading key equals the bound's is not needed."""
        return len(self._items) == 1 and not self._ties

    def cut(self, batch: Batch, keys: Sequence[Evaluation]) -> Batch:
        """Return the rows of a batch that may be among the needed ones, and take their keys into the bound.

        A key is evaluated for the rows that the keys before leave undecided; columns that are no keys are not read.
        """
        if (batch.length < FEW_ROWS and not self.is_scanned) or self._needed > MOST_NEEDED:
            return batch
        rows = self._better(batch, keys)
        kept = batch if rows is None else batch.select(rows)
        if kept.length:
            vectors = [key(kept) for key in keys]
            if kept.length > self._needed and not self._ties:
                chosen, _ = first_rows(self._words(vectors), kept.length, self._needed)
                kept = kept.select(chosen)
                vectors = [vector.take(chosen) for vector in vectors]
            self._offer(vectors, kept.length)
        with self._lock:
            self.considered += batch.length
            self.dropped += batch.length - kept.length
        return kept

    def cut_by_leading(self, batch: Batch, place: int) -> Batch:
        """Return the rows of a batch whose leading key, the column at `place`, does not come behind the bound's."""
        values = self._values
        if values is None or not batch.length:
            return batch
        ahead, equal = _compared(batch.column(place), values[0], self._items[0], not self.drops_equal)
        needed = ahead if equal is None else ahead | equal
        kept = batch.select(needed)
        dropped = batch.length - kept.length
        if not dropped:
            return batch
        with self._lock:
            self.considered += dropped
            self.dropped += dropped
        return kept

    def _words(self, keys: Sequence[Vector]) -> list[Any]:
        pairs = zip(keys, self._items, strict=True)
        return [word for key, item in pairs for word in ordered_words(key, item.descending, item.nulls_first)]

    def _better(self, batch: Batch, keys: Sequence[Evaluation]) -> Array | None:
        """Return the rows that beat the bound, ascending; None: all of them may."""
        values = self._values
        if values is None:
            return None
        better: list[Array] = []
        tied: Array | None = None
        for number, (key, item, value) in enumerate(zip(keys, self._items, values, strict=True)):
            vector = key(batch if tied is None else batch.select(tied))
            is_last = number == len(keys) - 1
            ahead, equal = _compared(vector, value, item, not is_last or self._ties)
            found = np.flatnonzero(ahead)
            better.append(found if tied is None else tied.take(found))
            if equal is None:
                break
            same = np.flatnonzero(equal)
            tied = same if tied is None else tied.take(same)
            if is_last:
                better.append(tied)
            if not len(tied):
                break
        if len(better) == 1:
            return better[0]
        rows = np.concatenate(better)
        rows.sort()
        return rows

    def _offer(self, keys: Sequence[Vector], rows: int) -> None:
        """Take the keys of some rows into account."""
        kept = [_detached(key) for key in keys]
        with self._lock:
            self._pool.append(kept)
            self._rows += rows
            known = self._needed if self._values is not None else 0
            # Finding the best again costs time for all of them.
            if self._rows < self._needed or self._rows - known <= known // 4:
                return
            best = [concat(parts) for parts in zip(*self._pool, strict=True)]
            chosen, last = first_rows(self._words(best), self._rows, self._needed)
            self._pool = [[key.take(chosen) for key in best]]
            self._rows = self._needed
            self._values = tuple(_value(key, last) for key in best)


def _detached(key: Vector) -> Vector:
    """Return the same few values without their dictionary: concatenating would merge the dictionaries."""
    return Text(key.type, key.to_arrow()) if isinstance(key, Dict) else key


def _value(key: Vector, row: int) -> Any:
    """Return a physical value, None for NULL; of an INTERVAL its length."""
    one = key.take(np.array([row]))
    if one.has_nulls:
        return None
    value = (length(one) if one.type.kind is Kind.INTERVAL else one).values()[0]
    return value.item() if isinstance(value, np.generic) else value


# ---- comparison ------------------------------------------------------------------------------------------------------


def _compared(key: Vector, bound: Any, item: OrderItem, with_equal: bool) -> tuple[Array, Array | None]:
    """Return masks of the rows that come before the bound, and of those that equal it (None unless needed)."""
    present = key.validity
    if bound is None:
        is_value = np.ones(len(key), np.bool_) if present is None else present
        before = np.zeros(len(key), np.bool_) if item.nulls_first else is_value
        return before, ~is_value if with_equal else None
    ahead, equal = _compared_values(key, bound, item.descending, with_equal)
    if present is not None:
        ahead = ahead & present if not item.nulls_first else ahead | ~present
        equal = None if equal is None else equal & present
    return ahead, equal


def _compared_values(key: Vector, bound: Any, descending: bool, with_equal: bool) -> tuple[Array, Array | None]:
    """Compare the values with a bound; under NULLs anything."""
    if key.type.kind is Kind.INTERVAL:
        key = length(key)
    if isinstance(key, Dict):
        return _compared_codes(key, bound, descending, with_equal)
    if key.type.is_text:
        return _compared_texts(key.to_arrow(), bound, descending, with_equal)
    if isinstance(key, Wide):
        return _compared_wide(key, bound, descending, with_equal)
    values = key.codes if isinstance(key, Narrow) else key.values()
    if isinstance(key, Narrow):
        bound = int(bound) - key.base
    if values.dtype.kind == "f":
        return _compared_floats(values, bound, descending, with_equal)
    ahead = values > bound if descending else values < bound
    return np.asarray(ahead, np.bool_), np.asarray(values == bound, np.bool_) if with_equal else None


def _compared_floats(values: Array, bound: float, descending: bool, with_equal: bool) -> tuple[Array, Array | None]:
    """NaN is above every number, and equals NaN (PostgreSQL)."""
    limit = np.float64(bound)
    if bound != bound:
        is_nan = np.isnan(values)
        return np.zeros(len(values), np.bool_) if descending else ~is_nan, is_nan if with_equal else None
    ahead = ~(values <= limit) if descending else values < limit
    return ahead, values == limit if with_equal else None


def _compared_wide(key: Wide, bound: int, descending: bool, with_equal: bool) -> tuple[Array, Array | None]:
    high, low = decimal_limbs(key.array)
    top, rest = bound >> 64, np.uint64(bound % 2**64)
    same = high == top
    ahead = (high > top) | (same & (low > rest)) if descending else (high < top) | (same & (low < rest))
    return ahead, same & (low == rest) if with_equal else None


def _compared_codes(key: Dict, bound: Any, descending: bool, with_equal: bool) -> tuple[Array, Array | None]:
    if not key.ordered or not len(key.dictionary):
        return _compared_texts(key.to_arrow(), bound, descending, with_equal)
    cells, places = TextCells(key.dictionary), range(len(key.dictionary))
    needed = bound.encode() if isinstance(bound, str) else bound
    first = bisect_left(places, needed, key=cells.bytes_at)
    behind = bisect_right(places, needed, first, key=cells.bytes_at)
    ahead = key.codes >= behind if descending else key.codes < first
    return ahead, (key.codes >= first) & (key.codes < behind) if with_equal else None


def _compared_texts(array: pa.Array, bound: Any, descending: bool, with_equal: bool) -> tuple[Array, Array | None]:
    value = arrow_scalar(bound, array.type)
    ahead = _mask((pc.greater if descending else pc.less)(array, value))
    return ahead, _mask(pc.equal(array, value)) if with_equal else None


def _mask(found: pa.BooleanArray) -> Array:
    return numpy_array(fill_nulls(found, False))


# ---- scans -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanBound:
    """The bound of a sort's leading key, which is a column of a scan below it.

    `descending`: rows that are likely to be better come last in the table.
    """

    bound: RunningBound
    item: OrderItem

    @property
    def descending(self) -> bool:
        """True for a descending leading key."""
        return self.item.descending

    def is_awaited(self) -> bool:
        """True until there is a bound."""
        return self.bound.leading is None

    def predicate(self, name: str, type_: DataType) -> ColumnPredicate | None:
        """Return the predicate that rows of a token that begins now must satisfy; None: none yet."""
        leading = self.bound.leading
        if leading is None or type_.kind in (Kind.INTERVAL, Kind.BOOLEAN):
            return None
        (value,) = leading
        if value is None:
            return IsNull(name) if self.item.nulls_first else None
        if value != value:
            return None
        inclusive = not self.bound.drops_equal
        if self.item.descending:
            better = Range(name, lower=value, lower_inclusive=inclusive)
        else:
            better = Range(name, upper=value, upper_inclusive=inclusive)
        return AnyOf(name, (better, IsNull(name))) if self.item.nulls_first else better
