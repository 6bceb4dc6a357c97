"""A scan's predicates, bound to the column files of one DiskRowSet.

Binding happens once per scan and file: the predicate becomes a condition over the file's integers (values over a
base, positions in the dictionary), pages get verdicts from their statistics alone, and the order of evaluation is
set: the predicate that drops most rows per nanosecond goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.partitions.pruning import enclosing
from ...model.predicates import AnyOf, BloomFilter, ColumnPredicate, InList, IsNull, Range, admits_null
from ...model.schema import ColumnSchema, Encoding
from ...model.store import ScanCounters
from ...model.types import DataType
from ...model.vectors.vector import Array, Vector
from ..columns.column_reader import ColumnReader
from .code_conditions import ALL, NONE, SOME, Condition, Hashed, Intervals
from .evaluation import condition_of, dictionary_condition, evaluate, evaluate_condition
from .key_index import KeyIndex

_LOOKUP_COST, _TEXT_COST, _FLOAT_COST = 20.0, 60.0, 4.0
"""Against 1.0 for a comparison of one-byte codes (measured: 65,536 rows in 6 µs)."""
_HASH_COST = 150.0
LEAST_DROPPED = 0.1
"""A Bloom filter that drops a smaller share of the rows is no longer used."""
TRIAL_ROWS = 16_384
"""Rows tested by a filter before its effect is judged; then it is judged after every row group."""


@dataclass(slots=True)
class Effectiveness:
    """Effect of a Bloom filter in one scan of one file."""

    asked: int = 0
    passed: int = 0

    @property
    def is_worth_asking(self) -> bool:
        return self.asked < TRIAL_ROWS or self.passed <= (1 - LEAST_DROPPED) * self.asked


@dataclass(frozen=True, slots=True, eq=False)
class BoundPredicate:
    """One predicate over one column file.

    `condition` is set where it is evaluated in the integer domain; `rank` is the cost per dropped row. A predicate with
    `is_needed` False can be skipped in this scan: it is a Bloom filter that drops almost no rows.
    """

    predicate: ColumnPredicate
    column: ColumnSchema
    reader: ColumnReader
    condition: Condition | None
    rank: float
    effectiveness: Effectiveness = field(default_factory=Effectiveness)

    @property
    def is_needed(self) -> bool:
        """True if the predicate must still be evaluated."""
        return not isinstance(self.predicate, BloomFilter) or self.effectiveness.is_worth_asking

    def mask(self, vector: Vector) -> Array:
        """Rows for which the predicate is true: a new ndarray of bool, shape (n_rows,)."""
        if self.condition is not None:
            passes = evaluate_condition(self.condition, vector, admits_null(self.predicate))
        else:
            passes = evaluate(self.predicate, vector)
        if isinstance(self.predicate, BloomFilter):
            self.effectiveness.asked += len(passes)
            self.effectiveness.passed += int(np.count_nonzero(passes))
        return passes

    def verdicts(self, first: int, last: int) -> Array:
        """NONE, SOME or ALL for the pages `first` to `last` (exclusive), without reading them: ndarray of uint8."""
        footer = self.reader.footer
        pages = footer.pages[first:last]
        nulls = pages["nulls"].astype(np.int64)
        lengths = np.full(last - first, footer.page_rows)
        lengths[-1] = footer.page_length(last - 1)
        if isinstance(self.predicate, IsNull):
            results = np.where(nulls == 0, NONE, np.where(nulls == lengths, ALL, SOME))
            return (ALL - results if self.predicate.negated else results).astype(np.uint8)
        if self.condition is not None:
            results = self.condition.verdicts(pages["low"], pages["high"])
        else:
            bounds = footer.bounds or [None] * len(footer.pages)
            results = np.array([_verdict(self.predicate, b, footer.type) for b in bounds[first:last]], np.uint8)
        # What the NULLs of a page say: all of them the same.
        theirs = ALL if admits_null(self.predicate) else NONE
        results[(nulls > 0) & (results != theirs)] = SOME
        results[nulls == lengths] = theirs
        return np.asarray(results)


def bind(predicate: ColumnPredicate, column: ColumnSchema, reader: ColumnReader) -> BoundPredicate:
    """The predicate over a column file."""
    footer = reader.footer
    sketch = footer.sketch
    condition: Condition | None = None
    if isinstance(predicate, IsNull):
        nulls = sketch.null_count / max(footer.rows, 1)
        return BoundPredicate(predicate, column, reader, None, _rank(1.0, 1 - nulls if predicate.negated else nulls))
    distinct = max(reader.distinct_count, 1.0)
    if footer.encoding is Encoding.DICT:
        condition = dictionary_condition(predicate, reader.dictionary, True)
        share = condition.share(0, max(footer.entries - 1, 0), distinct)
    elif footer.type.is_code_like:
        condition = condition_of(predicate)
        low, high = (0, 0) if sketch.low is None else (int(sketch.low), int(sketch.high))
        share = condition.share(low, high, distinct)
    else:
        cost = _FLOAT_COST if footer.type.is_float else _TEXT_COST
        return BoundPredicate(predicate, column, reader, None, _rank(cost, 0.3))
    width = float(footer.pages["width"].max(initial=1))
    cost = width * len(condition.pairs) if isinstance(condition, Intervals) else _LOOKUP_COST
    if isinstance(condition, Hashed):
        cost = _HASH_COST
    return BoundPredicate(predicate, column, reader, condition, _rank(cost, share))


def _rank(cost: float, share: float) -> float:
    return cost / max(1.0 - share, 0.01)


def _verdict(predicate: ColumnPredicate, bounds: tuple[Any, Any] | None, type_: DataType) -> int:
    """From bounds that enclose a page's present values, in their order domain."""
    if isinstance(predicate, IsNull):
        return ALL if predicate.negated else NONE
    if isinstance(predicate, AnyOf):
        return max((_verdict(member, bounds, type_) for member in predicate.members), default=NONE)
    if bounds is None:
        return SOME
    low, high = _ordered(type_, bounds[0]), _ordered(type_, bounds[1])
    if isinstance(predicate, InList):
        return SOME if any(low <= _ordered(type_, v) <= high for v in predicate.values) else NONE
    if not isinstance(predicate, Range):
        return SOME
    result = ALL
    if predicate.lower is not None:
        bound = _ordered(type_, predicate.lower)
        if high < bound or (high == bound and not predicate.lower_inclusive):
            return NONE
        if not (low > bound or (low == bound and predicate.lower_inclusive)):
            result = SOME
    if predicate.upper is not None:
        bound = _ordered(type_, predicate.upper)
        if low > bound or (low == bound and not predicate.upper_inclusive):
            return NONE
        if not (high < bound or (high == bound and predicate.upper_inclusive)):
            result = SOME
    return result


def _ordered(type_: DataType, value: Any) -> Any:
    """A physical value or page bound as something that Python orders as the column does."""
    if type_.is_text:
        return value.encode() if isinstance(value, str) else value
    if type_.is_float:
        return (value != value, 0.0 if value != value else value)
    return value


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows `start` to `stop` (exclusive); `consumed` predicates are true for all of them and need no look."""

    start: int
    stop: int
    consumed: tuple[ColumnPredicate, ...] = ()


def key_range(
    key: Sequence[ColumnSchema],
    predicates: Sequence[ColumnPredicate],
    index: KeyIndex,
    rows: int,
    counters: ScanCounters | None = None,
) -> KeyRange:
    """The rows that the predicates on the leading key columns leave: equalities, then one range."""
    prefix: list[Any] = []
    consumed: list[ColumnPredicate] = []
    for column in key:
        mine = [p for p in predicates if p.column == column.name]
        point = next((p for p in mine if _is_point(p)), None)
        if point is not None:
            prefix.append(point.lower if isinstance(point, Range) else point.values[0])  # type: ignore[union-attr]
            consumed.append(point)
            continue
        low, high, exact = _enclosing(column.type, mine)
        if low is None and high is None:
            break
        start = index.search([*prefix, low[0]], low[1], counters) if low else index.search(prefix, False, counters)
        stop = index.search([*prefix, high[0]], high[1], counters) if high else index.search(prefix, True, counters)
        return KeyRange(start, max(start, stop), (*consumed, *exact))
    if not prefix:
        return KeyRange(0, rows)
    if len(prefix) == len(key):
        row = index.find_one(prefix, counters)
        return KeyRange(max(row, 0), row + 1 if row >= 0 else 0, tuple(consumed))
    return KeyRange(index.search(prefix, False, counters), index.search(prefix, True, counters), tuple(consumed))


def _is_point(predicate: ColumnPredicate) -> bool:
    if isinstance(predicate, InList):
        return len(predicate.values) == 1
    if not isinstance(predicate, Range) or predicate.lower is None:
        return False
    return bool(predicate.lower == predicate.upper) and predicate.lower_inclusive and predicate.upper_inclusive


def _enclosing(
    type_: DataType, predicates: Sequence[ColumnPredicate]
) -> tuple[tuple[Any, bool] | None, tuple[Any, bool] | None, list[ColumnPredicate]]:
    """(lower, upper) bounds allowed by all predicates, as (value, after) for `KeyIndex.search`, and the predicates that
    these bounds replace."""
    lows: list[tuple[Any, bool]] = []
    highs: list[tuple[Any, bool]] = []
    exact: list[ColumnPredicate] = []
    for predicate in predicates:
        domain = enclosing(predicate)
        if domain.is_empty:
            continue
        if domain.lower is not None:
            lows.append((domain.lower, not domain.lower_inclusive))
        if domain.upper is not None:
            highs.append((domain.upper, domain.upper_inclusive))
        if isinstance(predicate, Range):
            exact.append(predicate)
    return max(lows, default=None), min(highs, default=None), exact
