"""Column predicates: the conditions that a scan evaluates itself, on encoded pages, before anything is decoded.

A scan takes a conjunction of them. Each is about one column, gives plain data (so that it can travel to a tablet
server) and holds physical values of the column's type (`DataType.to_physical`). NULL satisfies `IsNull` only, and
`AnyOf` with such a member.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from .lazy_dataclass import dataclass
from .vectors.vector import Array


@dataclass(frozen=True, slots=True)
class Range:
    """`lower <= column <= upper`; a None bound is open, a bound may be made exclusive.

    >>> Range("l_shipdate", lower=8766, upper=9131, upper_inclusive=False)
    Range(column='l_shipdate', lower=8766, upper=9131, lower_inclusive=True, upper_inclusive=False)
    """

    column: str
    lower: Any = None
    upper: Any = None
    lower_inclusive: bool = True
    upper_inclusive: bool = True

    @classmethod
    def equal(cls, column: str, value: Any) -> Range:
        """`column = value`."""
        return cls(column, value, value)


@dataclass(frozen=True, slots=True)
class InList:
    """`column IN (values)`; `values` are distinct, ascending and none NULL."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, or `column IS NOT NULL` where `negated`."""

    column: str
    negated: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class BitmapFilter:
    """A runtime filter, exact: `base <= column < base + len(bits)` and `bits[column - base]`.

    `bits` is an ndarray of bool, shape (n_values,), over integer-like physical values: one per value of the build
    side's join key. The rows it drops could not have found a partner.
    """

    column: str
    base: int
    bits: Array


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of several predicates on one column holds: `column < 3 OR column IN (7, 9) OR column IS NULL`."""

    column: str
    members: tuple[Range | InList | IsNull, ...]


@dataclass(frozen=True, eq=False, slots=True)
class BloomFilter:
    """A runtime filter, inexact: the value may be among those that the filter was built from (`bloom_predicate`).

    `words` are the bits as ndarray of uint64, shape (n_words,), `n_words` a power of two. NULL never passes. A scan may
    stop using it if it drops too few rows, so its creator must accept rows that it would have dropped.
    """

    column: str
    words: Array


ColumnPredicate: TypeAlias = Range | InList | IsNull | BitmapFilter | AnyOf | BloomFilter


@dataclass(frozen=True, slots=True)
class InBuckets:
    """The bucket of a row, by a hash rule of these columns, buckets and seed, is one of `chosen`.

    No scan evaluates it: it leaves out the tablets of other buckets (`ScanSpec.one_of`).
    """

    columns: tuple[str, ...]
    buckets: int
    seed: int
    chosen: tuple[int, ...]


Branch: TypeAlias = tuple[ColumnPredicate | InBuckets, ...]
"""A conjunction."""
OneOf: TypeAlias = tuple[Branch, ...]
"""A disjunction: at least one of the branches holds."""


def admits_null(predicate: ColumnPredicate) -> bool:
    """True if NULL satisfies the predicate."""
    if isinstance(predicate, AnyOf):
        return any(admits_null(member) for member in predicate.members)
    return isinstance(predicate, IsNull) and not predicate.negated


def renamed_predicate(predicate: ColumnPredicate, name: str) -> ColumnPredicate:
    """The predicate on a column of another name."""
    if predicate.column == name:
        return predicate
    if isinstance(predicate, AnyOf):
        return AnyOf(name, tuple(replace(member, column=name) for member in predicate.members))
    return replace(predicate, column=name)


def prefix_range(column: str, prefix: str | bytes) -> Range:
    r"""`column LIKE 'prefix%'`: all values that start with `prefix`, as a range up to the least one above them.

    >>> prefix_range("name", "ab")
    Range(column='name', lower='ab', upper='ac', lower_inclusive=True, upper_inclusive=False)
    >>> prefix_range("name", "a" + chr(0x10FFFF)).upper, prefix_range("data", bytes([7, 255])).upper
    ('b', b'\x08')
    """
    upper = _text_after(prefix) if isinstance(prefix, str) else _bytes_after(prefix)
    return Range(column, prefix, upper, upper_inclusive=upper is None)


def _text_after(prefix: str) -> str | None:
    """The least text above all that start with `prefix`; None where there is none. Code points order as UTF-8 does."""
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters and have no place in UTF-8.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)


def _bytes_after(prefix: bytes) -> bytes | None:
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


_LAST_CHARACTER = chr(0x10FFFF)
