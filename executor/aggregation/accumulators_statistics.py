"""Means, variances and covariances, in floating point and stable: no difference of two large sums.

A batch is read twice, for its means and for the squares of the distances from them; rows that are numbered by group are
read so by a compiled kernel. States are merged by Chan, Golub
and LeVeque's formula ("Algorithms for computing the sample variance", 1983), for any number of parts at once:

    mean = Σ n_i mean_i / Σ n_i        square = Σ (square_i + n_i (mean_i - mean)²)

Means are computed as distances from one of the values, so that equal values have exactly the variance 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.types import DOUBLE
from ...model.vectors.vector import Array, Flat, Vector
from ..kernels.groups.numbered_groups import NumberedGroups, one_numbered_group
from ..kernels.groups.segments import Segments
from ..kernels.numbers.arithmetic import refuse_overflow
from ..kernels.numbers.bounded_integers import floats, joined_validity
from .accumulators import Accumulator, first_rows, gathered, joined_arrays


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments per group, float64 of shape (n_groups,): number of rows, mean of each input, sums of products of
    distances.

    The products are of the inputs (0, 0), or of (0, 0), (1, 1), (0, 1).
    """

    counts: Array
    means: tuple[Array, ...]
    products: tuple[Array, ...]


_PAIRS = (((0, 0),), ((0, 0), (1, 1), (0, 1)))
"""Pairs of inputs that are multiplied, for one input and for two."""


class Statistics(Accumulator[Moments]):
    """Moments of one number or of two, over the rows in which none of them is NULL.

    As vectors: DOUBLE each, the counts, the mean of each input, the products in the order of `Moments`.
    """

    by_number = True

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Moments:
        columns = [np.broadcast_to(np.asarray(floats(each), np.float64), (groups.length,)) for each in inputs]
        present = joined_validity(*inputs)
        numbered = one_numbered_group(groups.length) if len(groups) == 1 else groups
        if isinstance(numbered, NumberedGroups):
            states = numbered.moments(columns, present)
            if states is not None:
                return _checked(_split(states), columns, present, numbered)
        weights = np.ones(groups.length) if present is None else present.astype(np.float64)
        return _moments(columns, weights, None, groups)

    def merge(self, states: Sequence[Moments], groups: Segments) -> Moments:
        def gather(parts: list[Array]) -> Array:
            return gathered(joined_arrays(parts), groups)

        means = [gather([state.means[i] for state in states]) for i in range(len(states[0].means))]
        products = [gather([state.products[i] for state in states]) for i in range(len(states[0].products))]
        return _moments(means, gather([state.counts for state in states]), products, groups)

    def size(self, state: Moments, groups: int) -> int:
        return 8 * groups * (1 + len(state.means) + len(state.products))

    def to_vectors(self, state: Moments, groups: int) -> list[Vector]:
        return [Flat(DOUBLE, values) for values in (state.counts, *state.means, *state.products)]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Moments:
        counts, *rest = (vector.values() for vector in vectors)
        inputs = 1 if len(rest) == 2 else 2
        return Moments(counts, tuple(rest[:inputs]), tuple(rest[inputs:]))


def _moments(columns: list[Array], weights: Array, inner: list[Array] | None, groups: Segments) -> Moments:
    """Moments of rows in the groups' order, from values, weights (occurrences of each), and `products` so far (None:
    none)."""
    with np.errstate(all="ignore"):
        counts = groups.float_sums(weights)
        divisors = np.maximum(counts, 1.0)
        present = weights > 0
        pivots = first_rows(present, groups)
        means, distances = [], []
        for values in columns:
            pivot = values.take(pivots)
            mean = pivot + groups.float_sums(_distances(values, pivot, weights, groups)) / divisors
            means.append(np.where(counts > 0, mean, 0.0))
            distances.append(np.where(present, values - groups.spread(means[-1]), 0.0))
        products = []
        for i, (a, b) in enumerate(_PAIRS[len(columns) - 1]):
            terms = weights * distances[a] * distances[b]
            products.append(groups.float_sums(terms if inner is None else terms + inner[i]))
    return _checked(Moments(counts, tuple(means), tuple(products)), [*columns, *(inner or ())], present, groups)


def _split(states: Array) -> Moments:
    """Moments of `NumberedGroups.moments`."""
    counts, *rest = np.ascontiguousarray(states.T)
    inputs = 1 if len(rest) == 2 else 2
    return Moments(counts, tuple(rest[:inputs]), tuple(rest[inputs:]))


def _checked(found: Moments, given: Sequence[Array], present: Array | None, groups: Segments) -> Moments:
    """The moments; raises if those of a group are not finite though all `given` values of its `present` rows are."""
    infinite = ~np.logical_and.reduce([np.isfinite(each) for each in (*found.means, *found.products)])
    if infinite.any():
        wrong = ~np.logical_and.reduce([np.isfinite(each) for each in given])
        refuse_overflow(infinite & ~groups.has_any(wrong if present is None else wrong & present))
    return found


def _distances(values: Array, pivot: Array, weights: Array, groups: Segments) -> Array:
    """Weighted distances of the values from their group's pivot."""
    return np.where(weights > 0, weights * (values - groups.spread(pivot)), 0.0)


def statistic(function: str, state: Moments) -> Vector:
    """Value of a function of `FUNCTIONS`, DOUBLE, NULL where undefined."""
    with np.errstate(all="ignore"):
        values, defined = _VALUES[function](state)
    return Flat(DOUBLE, values.astype(np.float64, copy=False), None if defined.all() else defined)


Value = tuple[Array, Array]


def _variance(state: Moments, lost: int) -> Value:
    return state.products[0] / (state.counts - lost), state.counts > lost


def _deviation(state: Moments, lost: int) -> Value:
    values, defined = _variance(state, lost)
    return np.sqrt(values), defined


def _covariance(state: Moments, lost: int) -> Value:
    return state.products[2] / (state.counts - lost), state.counts > lost


def _correlation(state: Moments) -> Value:
    first, second, both = state.products
    values = np.clip(both / (np.sqrt(first) * np.sqrt(second)), -1.0, 1.0)
    return values, (state.counts > 0) & (first != 0) & (second != 0)


def _slope(state: Moments) -> Value:
    return state.products[2] / state.products[1], (state.counts > 0) & (state.products[1] != 0)


def _intercept(state: Moments) -> Value:
    slope, defined = _slope(state)
    return state.means[0] - slope * state.means[1], defined


def _determination(state: Moments) -> Value:
    """Share of the first input's variance that the regression line explains: all of it if there is no variance."""
    dependent, independent, both = state.products
    values = np.where(dependent == 0, 1.0, both / dependent * (both / independent))
    return values, (state.counts > 0) & (independent != 0)


def _mean(state: Moments, which: int) -> Value:
    return state.means[which], state.counts > 0


def _product(state: Moments, which: int) -> Value:
    return state.products[which], state.counts > 0


_VALUES: dict[str, Callable[[Moments], Value]] = {
    "var_pop": lambda state: _variance(state, 0),
    "var_samp": lambda state: _variance(state, 1),
    "stddev_pop": lambda state: _deviation(state, 0),
    "stddev_samp": lambda state: _deviation(state, 1),
    "covar_pop": lambda state: _covariance(state, 0),
    "covar_samp": lambda state: _covariance(state, 1),
    "corr": _correlation,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _determination,
    "regr_avgy": lambda state: _mean(state, 0),
    "regr_avgx": lambda state: _mean(state, 1),
    "regr_syy": lambda state: _product(state, 0),
    "regr_sxx": lambda state: _product(state, 1),
    "regr_sxy": lambda state: _product(state, 2),
}

FUNCTIONS = frozenset(_VALUES)
"""Aggregates computed from `Moments`; of two inputs, the first is Y, the second X."""
