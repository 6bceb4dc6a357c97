"""Cutting a tablet into ranges of primary keys, each said by predicates on the leading key columns.

A range of keys of several columns is in general no conjunction of conditions on single columns. These ranges are: all
but the last column that one names are held equal. A value of a column that many rows share is cut further by the next
column, the values between are taken together:

    PRIMARY KEY (host, time), rows by host: a 2 %, b 3 %, c 90 %, d 5 %

    host < 'c'      host = 'c' AND time < t1      host = 'c' AND time >= t1      host > 'c'

The ranges of a tablet tile the space of keys, whatever rows are written later, so each row is in exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from ...model.predicates import Range

KeyRange: TypeAlias = tuple[Range, ...]
"""Conditions on the leading key columns: none for all keys."""
Sample: TypeAlias = tuple[Any, ...]
"""A primary key, or what of it is behind the columns that are equal, as physical values."""


def key_ranges(key: Sequence[str], samples: Sequence[Sample], parts: int) -> list[tuple[KeyRange, float]]:
    """About `parts` ranges, ascending, that hold about as many rows each, with the share of the rows that is there.

    Parameters
    ----------
    key : sequence of str
        The key columns, in their order.
    samples : sequence of tuple
        Keys of rows at even distances, ascending, as physical values.

    Examples
    --------
    >>> [[(r.lower, r.upper) for r in found] for found, _ in key_ranges(["k"], [(1,), (5,), (9,), (13,)], 2)]
    [[(None, 9)], [(9, None)]]
    """
    if parts < 2 or len(samples) < 2:
        return [((), 1.0)]
    bounds = list(_cut(key, samples, len(samples) / parts))
    return [(range_, count / len(samples)) for range_, count in bounds]


def _cut(key: Sequence[str], samples: Sequence[Sample], size: float) -> Iterator[tuple[KeyRange, int]]:
    """Ranges of about `size` samples that tile the keys of these columns, each with its number of samples."""
    name, lower, inclusive, held = key[0], None, True, 0
    is_cut_off = False
    for value, run in groupby(samples, key=lambda sample: sample[0]):
        rows = list(run)
        if len(rows) >= 2 * size and len(key) > 1:
            yield (Range(name, lower, value, inclusive, False),), held
            deeper = _cut(key[1:], [row[1:] for row in rows], size)
            yield from (((Range.equal(name, value), *range_), count) for range_, count in deeper)
            lower, inclusive, held, is_cut_off = value, False, 0, True
            continue
        if held >= size:
            yield (Range(name, lower, value, inclusive, False),), held
            lower, inclusive, held, is_cut_off = value, True, 0, True
        held += len(rows)
    yield ((Range(name, lower, None, inclusive),) if is_cut_off else ()), held
