"""Domains of the key columns under a scan's predicates: a few values, or a range of them.

Predicates are a conjunction, so the domains of several predicates on one column are intersected. Pruning may keep too
much, never too little: a predicate without values or bounds leaves the domain unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..keys.key_encoding import key_width
from ..lazy_dataclass import dataclass
from ..predicates import AnyOf, BitmapFilter, BloomFilter, ColumnPredicate, InList, Range, admits_null
from ..schema import Schema
from ..types import DataType

MAX_LISTED = 256
"""Integer ranges and bitmaps of at most this many values are listed one by one, so that hash rules can prune too."""

MAX_COMBINATIONS = 4096
"""Value combinations that pruning tries; a longer IN list prunes nothing."""


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """The values a column may have. `values` lists them (ascending) where they are few; else the bounds enclose them,
    None for an open one. `is_empty` where nothing is left."""

    values: tuple[Any, ...] | None = None
    lower: Any = None
    upper: Any = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True
    is_empty: bool = False

    def admits(self, value: Any) -> bool:
        """True if the value is within the bounds."""
        if self.lower is not None and (value < self.lower or (value == self.lower and not self.lower_inclusive)):
            return False
        return self.upper is None or value < self.upper or (value == self.upper and self.upper_inclusive)


NOTHING = KeyDomain(values=(), is_empty=True)
EVERYTHING = KeyDomain()


def enclosing(predicate: ColumnPredicate) -> KeyDomain:
    """Tightest known bounds of the values that satisfy a predicate; `is_empty` if only NULL can, or nothing. The result
    lists no values."""
    if isinstance(predicate, BitmapFilter):
        # Its ends are set, as a rule; looking through all bits, for every token, costs more than it gives.
        return KeyDomain(None, predicate.base, predicate.base + len(predicate.bits) - 1)
    domain = _domain(predicate)
    if domain.values is None or domain.is_empty:
        return domain
    return KeyDomain(None, domain.values[0], domain.values[-1])


def predicate_bounds(predicate: ColumnPredicate) -> tuple[Any, Any] | None:
    """(low, high) that enclose every value that satisfies the predicate, None for an open end.

    None where the predicate says nothing of values, or NULL satisfies it too: bounds of a column's values then cannot
    rule it out. Where no value at all satisfies it, (low, high) may be anything.
    """
    if admits_null(predicate):
        return None
    domain = enclosing(predicate)
    return None if domain.lower is None and domain.upper is None else (domain.lower, domain.upper)


def domains(schema: Schema, predicates: Sequence[ColumnPredicate]) -> dict[str, KeyDomain]:
    """The domain of every key column that some predicate narrows."""
    by_column: dict[str, KeyDomain] = {}
    keys = {column.name: column.type for column in schema.key}
    for predicate in predicates:
        type_ = keys.get(predicate.column)
        if type_ is None:
            continue
        domain = _intersect(by_column.get(predicate.column, EVERYTHING), _domain(predicate))
        by_column[predicate.column] = _settle(type_, domain)
    return by_column


def _domain(predicate: ColumnPredicate) -> KeyDomain:
    if isinstance(predicate, InList):
        return KeyDomain(values=predicate.values) if predicate.values else NOTHING
    if isinstance(predicate, Range):
        return KeyDomain(None, predicate.lower, predicate.upper, predicate.lower_inclusive, predicate.upper_inclusive)
    if isinstance(predicate, BitmapFilter):
        return _bitmap_domain(predicate)
    if isinstance(predicate, AnyOf):
        return _union([_domain(member) for member in predicate.members])
    if isinstance(predicate, BloomFilter):
        return EVERYTHING
    return EVERYTHING if predicate.negated else NOTHING  # key columns are never NULL


def _union(parts: Sequence[KeyDomain]) -> KeyDomain:
    """Union of domains: listed if all are listed, else their bounds."""
    parts = [_pointed(part) for part in parts if not part.is_empty and not _crossed(part)]
    if not parts:
        return NOTHING
    listed = [part.values for part in parts if part.values is not None]
    if len(listed) == len(parts):
        return KeyDomain(values=tuple(sorted({value for values in listed for value in values})))
    bounds = [p if p.values is None else KeyDomain(None, p.values[0], p.values[-1]) for p in parts]
    lows = [(p.lower, not p.lower_inclusive) for p in bounds if p.lower is not None]
    highs = [(p.upper, p.upper_inclusive) for p in bounds if p.upper is not None]
    lower, is_above = min(lows) if len(lows) == len(bounds) else (None, False)
    upper, includes = max(highs) if len(highs) == len(bounds) else (None, True)
    return KeyDomain(None, lower, upper, not is_above, includes)


def _pointed(domain: KeyDomain) -> KeyDomain:
    """The same; a range of one value lists it."""
    is_point = domain.values is None and domain.lower is not None and domain.lower == domain.upper
    return replace(domain, values=(domain.lower,)) if is_point else domain


def _bitmap_domain(predicate: BitmapFilter) -> KeyDomain:
    bits = predicate.bits
    count = int(np.count_nonzero(bits))
    if not count:
        return NOTHING
    if count <= MAX_LISTED:
        return KeyDomain(values=tuple(predicate.base + int(i) for i in np.flatnonzero(bits)))
    last = len(bits) - 1 if bits[-1] else int(np.flatnonzero(bits)[-1])
    return KeyDomain(None, predicate.base + int(bits.argmax()), predicate.base + last)


def _intersect(a: KeyDomain, b: KeyDomain) -> KeyDomain:
    if a.is_empty or b.is_empty:
        return NOTHING
    bounds = _tighter(a, b)
    if a.values is not None and b.values is not None:
        kept = set(b.values)
        return replace(bounds, values=tuple(v for v in a.values if v in kept))
    return replace(bounds, values=a.values if a.values is not None else b.values)


def _tighter(a: KeyDomain, b: KeyDomain) -> KeyDomain:
    """Both domains' bounds, the stricter on each side."""
    low, high = a, a
    if b.lower is not None and (a.lower is None or (b.lower, not b.lower_inclusive) > (a.lower, not a.lower_inclusive)):
        low = b
    if b.upper is not None and (a.upper is None or (b.upper, b.upper_inclusive) < (a.upper, a.upper_inclusive)):
        high = b
    return KeyDomain(None, low.lower, high.upper, low.lower_inclusive, high.upper_inclusive)


def _settle(type_: DataType, domain: KeyDomain) -> KeyDomain:
    """The domain with bounds that the type can hold, values within the bounds, and short integer ranges listed."""
    if domain.is_empty:
        return NOTHING
    width = key_width(type_)
    if width is not None:
        domain = _clamp(domain, -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1)
    if domain.values is None and width is not None and domain.lower is not None and domain.upper is not None:
        if domain.upper - domain.lower < MAX_LISTED:
            domain = replace(domain, values=tuple(range(domain.lower, domain.upper + 1)))
    elif domain.values is None and domain.lower is not None and domain.lower == domain.upper:
        domain = replace(domain, values=(domain.lower,))
    if domain.values is not None:
        domain = replace(domain, values=tuple(v for v in domain.values if domain.admits(v)))
    return replace(domain, is_empty=domain.values == () or _crossed(domain))


def _clamp(domain: KeyDomain, least: int, greatest: int) -> KeyDomain:
    """Integer bounds made inclusive; one beyond the type's range is open, or leaves nothing."""
    lower, upper = domain.lower, domain.upper
    if lower is not None and not domain.lower_inclusive:
        lower += 1
    if upper is not None and not domain.upper_inclusive:
        upper -= 1
    if (lower is not None and lower > greatest) or (upper is not None and upper < least):
        return NOTHING
    lower = None if lower is not None and lower <= least else lower
    upper = None if upper is not None and upper >= greatest else upper
    values = domain.values
    if values is not None:
        values = tuple(v for v in values if least <= v <= greatest)
    return KeyDomain(values, lower, upper)


def _crossed(domain: KeyDomain) -> bool:
    if domain.lower is None or domain.upper is None:
        return False
    if domain.lower == domain.upper:
        return not (domain.lower_inclusive and domain.upper_inclusive)
    return bool(domain.lower > domain.upper)
