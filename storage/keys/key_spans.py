"""Share of a tablet's data within the key interval of each DiskRowSet.

    keys of the tablet     0 ──────────────────────────── total bytes
    rowset 1, 40 bytes     ├────────────┤                   span 55
    rowset 2, 60 bytes           ├──────────────────────┤   span 85

Key space is measured by the data in it: an interval of keys is as long as the bytes that all rowsets hold there, so
that a key drawn at random among the rows falls into each byte with the same chance. Each rowset is taken to have its
data spread evenly over its interval. The sum of all spans over the total is the *average height*: the largest expected
number of rowsets in which such a key is looked up (Kudu paper, section 4.10).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array

_KEY_BYTES = 64
"""Bytes after the common prefix of all keys that determine a key's position."""


@dataclass(frozen=True, slots=True)
class RowSetExtent:
    """A DiskRowSet as the compaction policy sees it.

    Parameters
    ----------
    min_key, max_key : bytes
        Encoded keys of the first and the last row.
    size : int
        Bytes that a compaction would read: all files, history included.
    """

    min_key: bytes
    max_key: bytes
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class KeySpans:
    """Places of rowsets in the key space, measured in bytes of data.

    Parameters
    ----------
    starts, stops : ndarray of float64, shape (n_rowsets,)
        Where each rowset begins and ends; two that share no key do not overlap.
    total : float
        Bytes of all rowsets: the length of the key space.
    """

    starts: Array
    stops: Array
    total: float

    @property
    def widths(self) -> Array:
        """The span of each rowset in bytes: ndarray of float64, shape (n_rowsets,)."""
        return np.asarray(self.stops - self.starts)

    @property
    def average_height(self) -> float:
        """In how many rowsets a key drawn at random among the rows must be looked up; 0 without data."""
        return float(self.widths.sum() / self.total) if self.total else 0.0


def key_spans(rowsets: Sequence[RowSetExtent]) -> KeySpans:
    """Spans of the rowsets.

    >>> spans = key_spans([RowSetExtent(b"a", b"c", 10), RowSetExtent(b"d", b"f", 30)])
    >>> spans.widths.tolist(), spans.average_height
    ([10.0, 30.0], 1.0)
    >>> key_spans([RowSetExtent(b"a", b"c", 10), RowSetExtent(b"a", b"c", 30)]).average_height
    2.0
    """
    edges = sorted({key for rowset in rowsets for key in (rowset.min_key, rowset.max_key)})
    places = _numbers(edges)
    # Data on each edge itself (rowsets of one key), and between it and the next.
    on = np.zeros(len(edges) + 1)
    behind = np.zeros(len(edges) + 1)
    ends = [(bisect_left(edges, r.min_key), bisect_left(edges, r.max_key)) for r in rowsets]
    for rowset, (first, last) in zip(rowsets, ends):
        if first == last:
            on[first] += rowset.size
        else:
            behind[first:last] += rowset.size * _shares(places, first, last)
    before = np.concatenate(([0.0], np.cumsum(on + behind)))
    firsts, lasts = (np.array(column, np.intp) for column in (zip(*ends) if ends else ((), ())))
    return KeySpans(before[firsts], before[lasts] + on[lasts], float(sum(r.size for r in rowsets)))


def _numbers(edges: Sequence[bytes]) -> list[int]:
    """Keys, ascending, as integers whose differences say how far apart they are."""
    if not edges:
        return []
    least, greatest = edges[0], edges[-1]
    shared = 0
    while shared < min(len(least), len(greatest)) and least[shared] == greatest[shared]:
        shared += 1
    return [int.from_bytes(key[shared : shared + _KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big") for key in edges]


def _shares(places: list[int], first: int, last: int) -> Array:
    """Which share of the interval from edge `first` to edge `last` lies between each two edges."""
    width = places[last] - places[first]
    if width == 0:  # keys that differ only far behind
        return np.full(last - first, 1.0 / (last - first))
    if last == first + 1:
        return np.ones(1)
    # Python's integers: floats cannot distinguish keys that share their first bytes.
    return np.array([(places[at + 1] - places[at]) / width for at in range(first, last)])
