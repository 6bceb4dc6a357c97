"""Column statistics within a plan: estimated number of values and their bounds. Estimates, never proofs.

`model.store.TableStatistics` describes whole tables; a `ColumnProfile` carries that along through a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from ...model.lazy_dataclass import dataclass
from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range, admits_null
from ...model.schema import Table
from ...model.store import ColumnStatistics, TableStatistics
from ...model.types import DataType

UNKNOWN_ROWS = 1000.0
"""Rows of a source without statistics (a file): many enough to avoid nested loops, few enough to be a build side."""
RANGE = 0.3
"""Selectivity of an open range on values without bounds (PostgreSQL: 1/3)."""
NARROW_RANGE = 0.05
"""Selectivity of a range closed at both ends on values without bounds, as `LIKE 'prefix%'` produces it."""


class StatisticsSource(Protocol):
    """The part of a `model.store.Store` that planning needs."""

    def statistics(self, table: Table) -> TableStatistics:
        """Known statistics of a table's rows and columns."""


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """Statistics of a column's values.

    `domain` is the number of distinct values as far as predicates on the column itself restrict it. Other filters make
    rows rarer, but not the domain smaller. Joins divide by the domain: 10 % of the orders match 10 % of the lines.
    """

    domain: float
    low: Any = None
    high: Any = None
    null_fraction: float = 0.0
    unique: bool = False


class Profiles:
    """The profiles of a plan's columns by their numbers. Those of table columns are made on demand: most columns of a
    table are only passed on, and the store may take a while to return statistics."""

    def __init__(self) -> None:
        self._known: dict[int, ColumnProfile | Callable[[], ColumnProfile]] = {}

    def get(self, number: int) -> ColumnProfile | None:
        """Return a column's profile; None if nothing is known."""
        profile = self._known.get(number)
        if profile is not None and not isinstance(profile, ColumnProfile):
            profile = self._known[number] = profile()
        return profile

    def __getitem__(self, number: int) -> ColumnProfile:
        profile = self.get(number)
        if profile is None:
            raise KeyError(number)
        return profile

    def __setitem__(self, number: int, profile: ColumnProfile) -> None:
        self._known[number] = profile

    def __contains__(self, number: int) -> bool:
        return number in self._known

    def note(self, number: int, make: Callable[[], ColumnProfile]) -> None:
        """Register a function that makes the column's profile on demand."""
        self._known[number] = make

    def hand_on(self, number: int, source: int) -> bool:
        """Copy the profile of another column to this one; False if that has none."""
        if source not in self._known:
            return False
        self._known[number] = self._known[source]
        return True


def profile_of(statistics: TableStatistics, name: str, type_: DataType, is_key: bool) -> ColumnProfile:
    """Profile of a table column; defaults if the store has no statistics. `is_key`: it alone is the primary key."""
    rows = max(1.0, float(statistics.row_count))
    known = statistics.columns.get(name, ColumnStatistics())
    if is_key:
        return ColumnProfile(rows, known.low, known.high, unique=True)
    domain = known.distinct_count
    if type_.is_integer_like and known.low is not None and known.high is not None:
        span = float(int(known.high) - int(known.low) + 1)
        domain = span if domain is None else min(domain, span)
    if domain is None:
        domain = rows if type_.is_integer_like else max(1.0, rows / 10)
    domain = max(1.0, min(domain, rows))
    return ColumnProfile(domain, known.low, known.high, min(1.0, known.null_count / rows), domain >= 0.999 * rows > 1.0)


def selectivity(predicate: ColumnPredicate, profile: ColumnProfile) -> float:
    """Share of a table's rows that satisfies a column predicate."""
    solid = 1.0 - profile.null_fraction
    if isinstance(predicate, IsNull):
        return solid if predicate.negated else profile.null_fraction
    if isinstance(predicate, InList):
        within = sum(1 for value in predicate.values if _within(value, profile))
        return solid * min(1.0, within / profile.domain)
    if isinstance(predicate, Range):
        return solid * _range_share(predicate, profile)
    if isinstance(predicate, AnyOf):
        # The members have no value in common.
        return min(1.0, sum(selectivity(member, profile) for member in predicate.members))
    return RANGE  # filters that exist only while the plan runs


def _within(value: Any, profile: ColumnProfile) -> bool:
    if profile.low is None or profile.high is None:
        return True
    return bool(profile.low <= value <= profile.high)


def _range_share(predicate: Range, profile: ColumnProfile) -> float:
    if predicate.lower is not None and predicate.lower == predicate.upper:
        if not (predicate.lower_inclusive and predicate.upper_inclusive):
            return 0.0
        return 1.0 / profile.domain if _within(predicate.lower, profile) else 0.0
    if not isinstance(profile.low, (int, float)) or not isinstance(profile.high, (int, float)):
        return _text_share(predicate, profile)
    low, high = float(profile.low), float(profile.high)
    start = low if predicate.lower is None else max(low, float(predicate.lower))
    end = high if predicate.upper is None else min(high, float(predicate.upper))
    if start > end:
        return 0.0
    # One value counts as a span of length 1, so that `x <= lowest` is not empty.
    step = (high - low) / max(1.0, profile.domain - 1)
    span = end - start + step
    if predicate.lower is not None and not predicate.lower_inclusive and start == float(predicate.lower):
        span -= step
    if predicate.upper is not None and not predicate.upper_inclusive and end == float(predicate.upper):
        span -= step
    share = span / (high - low + step) if high - low + step > 0 else 1.0
    return min(1.0, max(share, 0.5 / profile.domain))


def _text_share(predicate: Range, profile: ColumnProfile) -> float:
    if profile.low is not None and predicate.upper is not None and profile.low > predicate.upper:
        return 0.0
    if profile.high is not None and predicate.lower is not None and profile.high < predicate.lower:
        return 0.0
    closed = predicate.lower is not None and predicate.upper is not None
    return max(NARROW_RANGE if closed else RANGE, 1.0 / profile.domain)


def restricted(profile: ColumnProfile, predicate: ColumnPredicate, share: float) -> ColumnProfile:
    """Profile after a predicate on the column itself."""
    if isinstance(predicate, IsNull) and not predicate.negated:
        return ColumnProfile(1.0, null_fraction=1.0)
    if isinstance(predicate, AnyOf):
        return _restricted_by_any(profile, predicate, share)
    domain = max(1.0, profile.domain * min(1.0, share))
    if isinstance(predicate, InList):
        domain = min(float(len(predicate.values)), profile.domain)
    low, high = profile.low, profile.high
    if isinstance(predicate, Range):
        low = predicate.lower if predicate.lower is not None and (low is None or predicate.lower > low) else low
        high = predicate.upper if predicate.upper is not None and (high is None or predicate.upper < high) else high
    return ColumnProfile(domain, low, high, unique=profile.unique)


def _restricted_by_any(profile: ColumnProfile, predicate: AnyOf, share: float) -> ColumnProfile:
    """Profile after an OR on the column: the union of what its members leave."""
    solid = [member for member in predicate.members if not admits_null(member)]
    parts = [restricted(profile, member, selectivity(member, profile)) for member in solid]
    domain = max(1.0, min(profile.domain, sum(part.domain for part in parts)))
    low = None if any(part.low is None for part in parts) else min((part.low for part in parts), default=None)
    high = None if any(part.high is None for part in parts) else max((part.high for part in parts), default=None)
    nulls = min(1.0, profile.null_fraction / share) if len(solid) < len(predicate.members) and share > 0 else 0.0
    return ColumnProfile(domain, low, high, nulls, profile.unique)


def distinct_among(domain: float, rows: float) -> float:
    """Expected number of distinct values in `rows` uniform draws from `domain` values (Cardenas 1975).

    >>> round(distinct_among(100, 50))
    39
    """
    if rows <= 0 or domain <= 0:
        return 0.0
    return max(min(1.0, rows), domain * -math.expm1(-rows / domain))
