"""Sets of values of one column, as unions of column predicates; `planner/scans/scan_predicates.py` computes with them.

A `Region` is a union of ranges, a list and perhaps NULL:

    x < 3 OR x IN (7, 9) OR x IS NULL     (Range(upper=3, ...), InList((7, 9)), IsNull())

Regions that this module returns are *tidy*: ranges ascend with gaps between them, listed values lie outside of all
ranges, nothing is empty. The empty tuple is the empty region. Values are physical ones of one column and compare as the
column's do (texts by code point, which is the order of their bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ...model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range

Member: TypeAlias = Range | InList | IsNull
Region: TypeAlias = tuple[Member, ...]

MOST_MEMBERS = 32
"""Largest number of members of a region; beyond it, tests cost more than they save, and the scan takes the hull."""


def union(column: str, regions: Iterable[Region]) -> Region:
    """Values that are in at least one of the regions, tidy.

    >>> union("x", [(Range("x", 1, 5),), (InList("x", (4, 9)),), (Range("x", 5, 7),)])
    (Range(column='x', lower=1, upper=7, lower_inclusive=True, upper_inclusive=True), Range(column='x', lower=9, \
upper=9, lower_inclusive=True, upper_inclusive=True))
    """
    ranges: list[Range] = []
    points: set[Any] = set()
    null = False
    for member in (member for region in regions for member in region):
        if isinstance(member, InList):
            points.update(member.values)
        elif isinstance(member, IsNull):
            null |= not member.negated
            ranges += [Range(column)] if member.negated else []
        elif is_one_value(member):
            points.add(member.lower)
        elif not _is_empty(member):
            ranges.append(member)
    ranges = _joined([_closed(r, points) for r in ranges])
    rest = sorted(point for point in points if not any(_holds(r, point) for r in ranges))
    tidy: list[Member] = [IsNull(column, negated=True) if r.lower is None and r.upper is None else r for r in ranges]
    if rest:
        tidy.append(Range.equal(column, rest[0]) if len(rest) == 1 else InList(column, tuple(rest)))
    return (*tidy, IsNull(column)) if null else tuple(tidy)


def intersection(column: str, first: Region, second: Region) -> Region:
    """Values that are in both regions, tidy."""
    common = [both for a in first for b in second if (both := _both(a, b)) is not None]
    return union(column, [tuple(common)])


def as_predicate(column: str, region: Region) -> ColumnPredicate:
    """Convert the region to one column predicate; it must not be empty."""
    assert region, "no predicate is satisfied by nothing"
    return region[0] if len(region) == 1 else AnyOf(column, region)


def hull(column: str, region: Region) -> Region:
    """Return one range around all values of a region, and NULL if the region holds it."""
    ranges = [_span(member) for member in region if member != IsNull(column)]
    lower = min(ranges, key=_lower_key) if all(r.lower is not None for r in ranges) else Range(column)
    upper = max(ranges, key=_upper_key) if all(r.upper is not None for r in ranges) else Range(column)
    around = Range(column, lower.lower, upper.upper, lower.lower_inclusive, upper.upper_inclusive)
    return union(column, [(around,), region[len(ranges) :]])


def is_everything(region: Region) -> bool:
    """True if a tidy region holds every value and NULL."""
    return len(region) == 2 and isinstance(region[0], IsNull)


def is_one_value(r: Range) -> bool:
    """True if the range is `column = value`."""
    return r.lower is not None and r.lower == r.upper and r.lower_inclusive and r.upper_inclusive


# ---- conjunctions ------------------------------------------------------------------------------------------------


def merge(predicates: Iterable[ColumnPredicate]) -> tuple[ColumnPredicate, ...]:
    """Simplify a conjunction: one `Range` per column, no duplicates."""
    ranges: dict[str, Range] = {}
    others: list[ColumnPredicate] = []
    for predicate in predicates:
        if isinstance(predicate, Range):
            known = ranges.get(predicate.column)
            ranges[predicate.column] = predicate if known is None else _intersect(known, predicate)
        elif predicate not in others:
            others.append(predicate)
    kept = [p for p in others if not (isinstance(p, IsNull) and p.negated and p.column in ranges)]
    return (*ranges.values(), *kept)


def _intersect(a: Range, b: Range) -> Range:
    lower = b if a.lower is None or (b.lower is not None and _lower_key(b) > _lower_key(a)) else a
    upper = b if a.upper is None or (b.upper is not None and _upper_key(b) < _upper_key(a)) else a
    return Range(
        a.column,
        lower.lower,
        upper.upper,
        lower.lower is None or lower.lower_inclusive,
        upper.upper is None or upper.upper_inclusive,
    )


def _both(a: Member, b: Member) -> Member | None:
    """Intersection of two members; None if it is empty."""
    if isinstance(a, IsNull):
        if isinstance(b, IsNull):
            return a if a.negated == b.negated else None
        return b if a.negated else None
    if isinstance(b, IsNull):
        return _both(b, a)
    if isinstance(a, InList):
        kept = tuple(v for v in a.values if (v in b.values if isinstance(b, InList) else _holds(b, v)))
        return InList(a.column, kept) if kept else None
    if isinstance(b, InList):
        return _both(b, a)
    common = _intersect(a, b)
    return None if _is_empty(common) else common


# ---- ranges ------------------------------------------------------------------------------------------------------


def _joined(ranges: Sequence[Range]) -> list[Range]:
    """Return the same values as ascending ranges with gaps between them."""
    merged: list[Range] = []
    for following in sorted(ranges, key=_start_key):
        if merged and _touch(merged[-1], following):
            last = merged[-1]
            if last.upper is not None and (following.upper is None or _upper_key(following) > _upper_key(last)):
                merged[-1] = replace(last, upper=following.upper, upper_inclusive=following.upper_inclusive)
        else:
            merged.append(following)
    return merged


def _touch(first: Range, following: Range) -> bool:
    """True if no value lies between two ranges, of which `first` begins first."""
    if first.upper is None or following.lower is None:
        return True
    if first.upper == following.lower:
        return first.upper_inclusive or following.lower_inclusive
    return bool(following.lower < first.upper)


def _closed(r: Range, points: set[Any]) -> Range:
    """Return the range with those of its bounds included that are among the points."""
    lower = r.lower_inclusive or (r.lower is not None and r.lower in points)
    upper = r.upper_inclusive or (r.upper is not None and r.upper in points)
    return replace(r, lower_inclusive=lower, upper_inclusive=upper)


def _holds(r: Range, value: Any) -> bool:
    above = r.lower is None or value > r.lower or (value == r.lower and r.lower_inclusive)
    return bool(above and (r.upper is None or value < r.upper or (value == r.upper and r.upper_inclusive)))


def _is_empty(r: Range) -> bool:
    if r.lower is None or r.upper is None:
        return False
    return bool(r.lower > r.upper or (r.lower == r.upper and not (r.lower_inclusive and r.upper_inclusive)))


def _span(member: Member) -> Range:
    if isinstance(member, InList):
        return Range(member.column, member.values[0], member.values[-1])
    return Range(member.column) if isinstance(member, IsNull) else member


def _start_key(r: Range) -> tuple[Any, ...]:
    return (0,) if r.lower is None else (1, r.lower, not r.lower_inclusive)


def _lower_key(r: Range) -> tuple[Any, bool]:
    return r.lower, not r.lower_inclusive


def _upper_key(r: Range) -> tuple[Any, bool]:
    return r.upper, r.upper_inclusive
