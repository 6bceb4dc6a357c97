"""Candidates of a join whose condition bounds the build side's values: `t BETWEEN low AND high`, with or without keys.

    build rows, by key and the first upper bound:    low       1  3  4  9      searched: the end, first low > t
                                                     high      2  9  5  9
                                       highest before  2  9  9  9      searched: the start, first of these >= t

One order serves several bounds. In it, the running maximum of a value that is bounded from below ascends, and so does
the running minimum, from the end, of one that is bounded from above: rows before the first, or from the second on,
cannot match. If the values themselves ascend (intervals without overlap, a point between two values), the candidates
are the matches, and the condition need not be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import DataError
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array, Batch, Vector
from ...planner.physical.range_bounds import RangeBound, range_bounds
from ...sql.expressions import conjuncts
from ..expressions.evaluate import Compiler
from ..kernels.numbers.bounded_integers import integers, joined_validity
from .join_index import run_pairs
from .join_shape import JoinShape
from .pairs import Part

FEWEST = 16
"""Build rows per key from which a search (0.3 us per bound and probe row) costs less than checking all pairs."""


@dataclass(frozen=True, slots=True)
class BuildBounds:
    """The build side's values that a join's condition bounds.

    Attributes
    ----------
    bounds : tuple of RangeBound
    rows : ndarray of intp
        The build rows that have a key and all values, ascending.
    slots : ndarray of int64
        The number of the key of each of these.
    values : list of ndarray
        Their values, for each bound.
    """

    bounds: tuple[RangeBound, ...]
    rows: Array
    slots: Array
    values: list[Array]

    @classmethod
    def of(cls, shape: JoinShape, build: Batch, slots: Array) -> BuildBounds | None:
        """Return the values, or None if the condition has no bounds.

        Parameters
        ----------
        build : Batch
            The build rows.
        slots : ndarray of int64, shape (build.length,)
            A number for each key, -1 for rows without one.
        """
        if shape.kind == "null_anti":
            return None
        bounds = range_bounds(shape.residual, shape.probe, shape.build)
        if not bounds:
            return None
        compiler = Compiler(shape.build)
        try:
            vectors = [compiler.compile(bound.build)(build) for bound in bounds]
        except DataError:
            return None  # of a row that the rest of the condition may exclude
        rows = np.flatnonzero((slots >= 0) & present_rows(vectors, build.length))
        return cls(bounds, rows, slots.take(rows), [physical_values(vector).take(rows) for vector in vectors])


class RangeIndex:
    """Build rows in an order in which the candidates of a probe row are neighbours. Threads share it.

    Attributes
    ----------
    is_exact : bool
        True if every candidate is a match.
    bytes : int
        Bytes of memory.
    """

    def __init__(self, shape: JoinShape, build: BuildBounds):
        bounds, slots, values = build.bounds, build.slots, build.values
        self._bounds = bounds
        self._probes = [Compiler(shape.probe).compile(bound.probe) for bound in bounds]
        self._one_is_enough = shape.kind in ("semi", "anti")
        self._factor = len(slots) + 1
        self._sorted = [np.sort(array) for array in values]
        ranks = [np.searchsorted(s, array) for s, array in zip(self._sorted, values, strict=True)]
        first = next((i for i, bound in enumerate(bounds) if bound.is_upper), 0)
        codes = [slots * self._factor + rank for rank in ranks]
        order = np.argsort(codes[first], kind="stable")
        self._rows = build.rows.take(order)
        self._codes = codes[first].take(order)
        self._limits = []
        self.is_exact = len(bounds) == len(conjuncts(shape.residual))
        for bound, code in zip(bounds, codes, strict=True):
            code = code.take(order)
            if bound.is_upper:
                limits = np.minimum.accumulate(code[::-1])[::-1]
            else:
                limits = np.maximum.accumulate(code)
            self.is_exact &= bool((limits == code).all())
            self._limits.append(limits)
        self.bytes = (2 + 2 * len(bounds)) * 8 * len(slots)

    @classmethod
    def make(cls, shape: JoinShape, build: BuildBounds | None) -> RangeIndex | None:
        """Return the index, or None if the condition has no bounds."""
        return None if build is None else cls(shape, build)

    def pairs(self, probe: Batch, slots: Array) -> Iterator[Part] | None:
        """Yield the candidates, as `JoinIndex.pairs`; None if a bound has no value for some probe row.

        `slots` are the probe rows' numbers, as those of the build rows.
        """
        try:
            vectors = [evaluate(probe) for evaluate in self._probes]
        except DataError:
            return None
        rows = np.flatnonzero((slots >= 0) & present_rows(vectors, probe.length))
        base = slots.take(rows) * self._factor
        starts = np.searchsorted(self._codes, base)
        ends = np.searchsorted(self._codes, base + (self._factor - 1))
        for bound, vector, known, limits in zip(self._bounds, vectors, self._sorted, self._limits, strict=True):
            after = bound.is_upper != bound.is_strict
            ranks = np.searchsorted(known, physical_values(vector).take(rows), side="right" if after else "left")
            places = np.searchsorted(limits, base + ranks)
            if bound.is_upper:
                np.minimum(ends, places, out=ends)
            else:
                np.maximum(starts, places, out=starts)
        counts = np.maximum(ends - starts, 0)
        if self._one_is_enough and self.is_exact:
            counts = np.minimum(counts, 1)
        chosen = np.flatnonzero(counts)
        return run_pairs(rows.take(chosen), starts.take(chosen), counts.take(chosen), self._rows)


def present_rows(vectors: Sequence[Vector], length: int) -> Array:
    """Mask of the rows for which no vector is NULL."""
    present = joined_validity(*vectors)
    return np.ones(length, np.bool_) if present is None else present


def physical_values(vector: Vector) -> Array:
    """Comparable values: int64, or float64 in which NaN is the greatest."""
    if vector.type.is_float:
        values: Array = np.broadcast_to(vector.values(), (len(vector),)).astype(np.float64)
        return values
    return np.broadcast_to(np.asarray(integers(vector)), (len(vector),))
