"""The budgeted compaction policy, which chooses the DiskRowSets to merge next (Kudu paper, section 4.10 and 4.11).
Pure: no I/O.

    before   ├────────────────────────┤           after   ├───────┤├──────┤├───────┤
             ├───────────────────────┤                       average height 1: a key is looked up in one rowset
                ├─────────────────────┤
             average height 3: a key is looked up in three rowsets

Merging a set of rowsets replaces their spans (`key_spans`) by rowsets that do not overlap and together cover their
hull, from the least start to the greatest stop. In bytes of key space, a set

    saves    sum of spans - hull                             fewer rowsets for a lookup or a short scan
           + COUNT_WEIGHT * target * (inputs - outputs)      fewer rowsets at all: small neighbours are joined
    costs    PRICE * sum of sizes                            what must be read and written again

and the set with the greatest difference is chosen among those whose sizes fit the budget; none if no difference is
above 0. Savings are permanent, so merging ends when there are no writes.

Kudu requires a merge to lower the average height by 0.01, at any cost. A price per byte does not depend on the size of
the tablet, and it limits write amplification: merging a rowset that overlaps no other never pays (it saves less than it
costs), nor does merging a large one with a little new data, until there is enough of it.

The search. The leftmost rowset of the best set is one of n. For a given one, the set is a 0/1 knapsack: the others
start after it and are added by ascending stop, so that the hull is known at each step; a table over the budget, in
units of a 256th, keeps the best value for each sum of sizes. The relaxed problem, in which a part of a rowset may be
taken, is solved by sorting and bounds the value of a leftmost rowset. They are tried from the highest bound down until
the bound is within `APPROXIMATION` of the best set found; `Choice.bound` is the upper bound of the best value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array
from ..keys.key_spans import KeySpans, RowSetExtent, key_spans

BUDGET_BYTES = 256 << 20
"""Limit of the input of one compaction: Kudu's current default, twice that of the paper. The output is about as
large."""
PRICE = 2.0
"""Bytes of key space that each byte of input must save. Simulated (`nyala bench maintenance`), 1.5 writes a mixed
workload a third more often for an average height that is lower by half a rowset; 3 saves a third and leaves one rowset
more."""
COUNT_WEIGHT = 0.125
"""Value of one rowset less, in rowsets of full size: eight small ones are as bad as one that overlaps."""
APPROXIMATION = 1.05
"""The search ends when it is known to be this close to the best set (Kudu's value)."""
UNITS = 256
"""The knapsack's resolution. Sizes are rounded up to a whole unit, so that tiny rowsets take some room, too."""
MOST_SEARCHES = 48
"""Leftmost rowsets that are tried at most; a search among 200 rowsets takes about 2 ms."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of rowsets that should be merged.

    Parameters
    ----------
    rowsets : tuple of int
        Positions among those that were given, ascending; at least two.
    size : int
        Bytes of them together, within the budget.
    height_before, height_after : float
        The tablet's average height, and what it is expected to be afterwards.
    score : float
        What is saved over what it costs, above 0, in average heights: in bytes of key space, over the tablet's bytes.
    bound : float
        No set has a greater score than this.
    worth : float
        What is saved over what it costs, as a ratio, above 1: it does not depend on how large the tablet is.
    """

    rowsets: tuple[int, ...]
    size: int
    height_before: float
    height_after: float
    score: float
    bound: float
    worth: float

    def describe(self) -> str:
        """One line for people.

        >>> Choice((0, 2), 3 << 20, 2.0, 1.0, 0.9, 0.9, 1.2).describe()
        'merge 2 rowsets of 3.0 MiB: average height 2.00 to 1.00'
        """
        change = f"average height {self.height_before:.2f} to {self.height_after:.2f}"
        return f"merge {len(self.rowsets)} rowsets of {self.size / (1 << 20):.1f} MiB: {change}"


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The policy's numbers.

    Parameters
    ----------
    budget_bytes : int
        Limit of the total size of all inputs, in bytes.
    target_bytes : int
        Size of a full DiskRowSet, `StoreOptions.rowset_bytes`.
    price : float
        Bytes of key space that a byte of input must save.
    """

    budget_bytes: int = BUDGET_BYTES
    target_bytes: int = 64 << 20
    price: float = PRICE

    def choose(self, rowsets: Sequence[RowSetExtent]) -> Choice | None:
        """The set to merge next; None where no merge pays."""
        if len(rowsets) < 2:
            return None
        sizes = np.array([rowset.size for rowset in rowsets], np.float64)
        spans = key_spans(rowsets)
        chosen, bound = _Search(self, spans, sizes).run()
        if chosen is None:
            return None
        saved_width, score = self.evaluate(spans, sizes, chosen)
        if score <= 0:
            return None
        height = spans.average_height
        return Choice(
            tuple(sorted(chosen.tolist())),
            int(sizes[chosen].sum()),
            height,
            height - saved_width / spans.total,
            score / spans.total,
            max(bound, score) / spans.total,
            1.0 + score / (self.price * float(sizes[chosen].sum())) if self.price else float("inf"),
        )

    def evaluate(self, spans: KeySpans, sizes: Array, rowsets: Array) -> tuple[float, float]:
        """Value of merging some rowsets: (saved bytes of spans, all savings less the costs)."""
        size = float(sizes[rowsets].sum())
        hull = float(spans.stops[rowsets].max() - spans.starts[rowsets].min())
        saved_width = float(spans.widths[rowsets].sum()) - hull
        outputs = max(1.0, size / self.target_bytes)
        saved_count = COUNT_WEIGHT * self.target_bytes * (len(rowsets) - outputs)
        return saved_width, saved_width + saved_count - self.price * size


class _Search:
    """The knapsack over one tablet's rowsets. Values are bytes of key space, as on the module's page."""

    def __init__(self, policy: CompactionPolicy, spans: KeySpans, sizes: Array):
        unit = max(policy.budget_bytes / UNITS, 1.0)
        self._capacity = int(policy.budget_bytes / unit)
        weights = np.maximum(np.ceil(sizes / unit), 1).astype(np.int64)
        target = policy.target_bytes
        values = spans.widths + COUNT_WEIGHT * target - policy.price * sizes
        # A rowset without a benefit of its own has none in any set.
        kept = np.flatnonzero((values > 0) & (weights <= self._capacity))
        self._rowsets = kept[np.argsort(spans.stops[kept], kind="stable")]
        self._starts, self._stops = spans.starts[self._rowsets], spans.stops[self._rowsets]
        self._weights, self._values = weights[self._rowsets], values[self._rowsets]
        self._sizes = sizes[self._rowsets]
        self._target = float(target)

    def run(self) -> tuple[Array | None, float]:
        """(The best set found or None, the greatest value that any set may have)."""
        most = self._most()
        bounds = most - (self._stops - self._starts)
        best, chosen = 0.0, None
        order = np.argsort(-bounds, kind="stable")
        for tried, leftmost in enumerate(order.tolist()):
            bound = float(bounds[leftmost])
            if bound <= best * APPROXIMATION or tried == MOST_SEARCHES:
                return chosen, max(best, bound)
            value, found = self._search(leftmost, best, float(most[leftmost]))
            if found is not None:
                best, chosen = value, found
        return chosen, best

    def _most(self) -> Array:
        """For each rowset: more than the values, less the outputs, of any set of which it is the leftmost."""
        density = np.argsort(-self._values / self._weights, kind="stable")
        starts, weights, values = self._starts[density], self._weights[density], self._values[density]
        most = np.zeros(len(values))
        for at in range(len(values)):
            others = starts >= self._starts[at]
            filled = np.cumsum(weights[others])
            sums = np.cumsum(values[others])
            whole = int(np.searchsorted(filled, self._capacity, "right"))
            # All that fit, and the one behind them whole: at least as much as a part of it.
            most[at] = sums[min(whole, len(sums) - 1)]
        return most - COUNT_WEIGHT * self._target

    def _search(self, leftmost: int, least: float, most: float) -> tuple[float, Array | None]:
        """The best set with this leftmost rowset, if its value is above `least`; `most` as of `_most`."""
        start = self._starts[leftmost]
        others = np.flatnonzero(self._starts >= start)
        others = others[others != leftmost]
        # For each sum of weights: the best values, and the size of the set that has them.
        values = np.full(self._capacity + 1, -np.inf)
        sizes = np.zeros(self._capacity + 1)
        values[self._weights[leftmost]] = self._values[leftmost]
        sizes[self._weights[leftmost]] = self._sizes[leftmost]
        taken = np.zeros((len(others), self._capacity + 1), np.bool_)
        best, best_place = least, (-1, -1)
        for number, at in enumerate(others.tolist()):
            hull = max(float(self._stops[at]), float(self._stops[leftmost])) - start
            if most - hull <= max(best, least * APPROXIMATION):
                break  # the hull only grows from here on
            weight = int(self._weights[at])
            with_it = values[: self._capacity + 1 - weight] + self._values[at]
            better = np.greater(with_it, values[weight:], out=taken[number, weight:])
            sizes[weight:] = np.where(better, sizes[: self._capacity + 1 - weight] + self._sizes[at], sizes[weight:])
            values[weight:] = np.maximum(values[weight:], with_it)
            # A set below the target's size still makes one rowset.
            totals = values - COUNT_WEIGHT * np.maximum(sizes, self._target)
            place = int(totals.argmax())
            if totals[place] - hull > best:
                best, best_place = float(totals[place] - hull), (number, place)
        if best_place[0] < 0:
            return least, None
        return best, self._rowsets[[leftmost, *self._trace(others, taken, best_place)]]

    def _trace(self, others: Array, taken: Array, place: tuple[int, int]) -> list[int]:
        """The rowsets that led to a place in the table."""
        number, filled = place
        found: list[int] = []
        while number >= 0:
            if taken[number, filled]:
                found.append(int(others[number]))
                filled -= int(self._weights[others[number]])
            number -= 1
        return found
