"""Begin and length of all fields of the whole rows of a block of binary COPY data.

A compiled kernel walks from field to field. Without it, rows are found by NumPy: where a row begins follows from the
lengths of all rows before it, so all places are taken that look like the begin of a row, which is the number of fields.
The end of a row is computed for all of them at once, and those are kept that are reached from the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np

from ....model.lazy_dataclass import dataclass
from . import kernels

_ROOM: Final = 1 << 15
"""Rows that the kernel finds in one call."""


class Stop(IntEnum):
    """The reason for which no further row was found; the numbers are those of the compiled kernel."""

    UNFINISHED = 0
    """The block ends."""
    TRAILER = 1
    OTHER_COUNT = 2
    """The next row has another number of fields."""
    OTHER_LENGTH = 3
    """A field of the next row has a length that its column does not have."""
    FULL = 4
    """There may be more rows."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of a block.

    Attributes
    ----------
    starts : ndarray of int32, shape (n_columns, n_rows)
        Place of each field in the block.
    lengths : ndarray of int32, shape (n_columns, n_rows)
        Bytes of each field; -1 for a NULL. All fields are within the block.
    end : int
        Where the last row ends, and where the next one would begin.
    stop : Stop
    """

    starts: Any
    lengths: Any
    end: int
    stop: Stop

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.starts.shape[1])


class RowFinder:
    """Finds rows of certain columns. The arrays of its result are overwritten by the next call.

    Parameters
    ----------
    widths : sequence of int
        Bytes of a value of each column, at least one; 0: any number.
    """

    def __init__(self, widths: Sequence[int]):
        self._widths = np.array(widths, np.int32)
        self._starts = np.empty((len(widths), _ROOM), np.int32)
        self._lengths = np.empty((len(widths), _ROOM), np.int32)

    def find(self, block: memoryview, place: int) -> FoundRows:
        """The whole rows of a block (of less than 2 GiB) from a place on, at which a row begins."""
        if kernels.compiled is None:
            return self._by_numpy(block, place)
        found = kernels.compiled.find_rows(block, place, self._widths, self._starts, self._lengths)
        rows, end, stop = found
        return FoundRows(self._starts[:, :rows], self._lengths[:, :rows], end, Stop(stop))

    def _by_numpy(self, block: memoryview, place: int) -> FoundRows:
        starts, lengths, end = _rows(block[place:], self._widths.tolist())
        rest = block[place + end :]
        return FoundRows(starts + np.int32(place), lengths, place + end, _stop(rest, self._widths.tolist()))


def _rows(block: memoryview, widths: Sequence[int]) -> tuple[Any, Any, int]:
    """Begin and length of each field (columns by rows), and where the last row ends."""
    data = np.frombuffer(block, np.uint8)
    size = len(data)
    high, low = len(widths) >> 8, len(widths) & 0xFF
    candidates = np.flatnonzero((data[:-1] == high) & (data[1:] == low))
    rows = candidates
    starts: list[Any] = []
    lengths: list[Any] = []
    place = rows + 2
    for width in widths:
        kept = place + 4 <= size
        found = numbers_at(block, np.where(kept, place, 0), ">i4")
        kept &= (found == -1) | ((found == width) if width else (found >= 0))
        following = place + 4 + np.maximum(found, 0)
        kept &= following <= size
        if not kept.all():
            rows, place, found, following = rows[kept], place[kept], found[kept], following[kept]
            starts, lengths = [begin[kept] for begin in starts], [length[kept] for length in lengths]
        starts.append(place + 4)
        lengths.append(found)
        place = following
    chosen = _reached(rows, place)
    end = int(place[chosen[-1]]) if len(chosen) else 0
    return np.stack(starts).astype(np.int32)[:, chosen], np.stack(lengths)[:, chosen], end


def _stop(rest: memoryview, widths: Sequence[int]) -> Stop:
    """The reason for which a block has no row at the begin of its rest."""
    if len(rest) < 2:
        return Stop.UNFINISHED
    count = int.from_bytes(rest[:2], "big", signed=True)
    if count != len(widths):
        return Stop.TRAILER if count == -1 else Stop.OTHER_COUNT
    place = 2
    for width in widths:
        if place + 4 > len(rest):
            return Stop.UNFINISHED
        length = int.from_bytes(rest[place : place + 4], "big", signed=True)
        if length != -1 and (length < 0 or (width and length != width)):
            return Stop.OTHER_LENGTH
        place += 4 + max(0, length)
    return Stop.UNFINISHED


def _reached(candidates: Any, following: Any) -> Any:
    """Positions of the rows among the candidates: those that are reached from place 0, each from the one before."""
    count = len(candidates)
    if not count or candidates[0] != 0 or following[0] < 0:
        return np.zeros(0, np.int64)
    if count > 1 and (following[:-1] == candidates[1:]).all():
        return np.arange(count if following[-1] >= 0 else count - 1)
    # The position behind a candidate; `count` if there is none.
    behind = np.searchsorted(candidates, following)
    known = behind < count
    known[known] = candidates[behind[known]] == following[known]
    jump = np.append(np.where(known & (following >= 0), behind, count), count)
    reached = np.zeros(count + 1, np.bool_)
    reached[0] = True
    for _ in range(max(1, count.bit_length())):
        reached[jump[np.flatnonzero(reached)]] = True
        jump = jump[jump]
    return np.flatnonzero(reached[:count] & (following >= 0))


def numbers_at(block: Any, starts: Any, dtype: str) -> Any:
    """Numbers at any places of a block, aligned or not; of NULLs, in a block shorter than a number, zeros.

    Parameters
    ----------
    block : buffer
    starts : ndarray of int
    dtype : str
        With the order of bytes: ">i4". The result has the native order.
    """
    width = np.dtype(dtype).itemsize
    if len(block) < width:
        return np.zeros(len(starts), dtype[1:])
    windows: Any = np.ndarray((len(block) - width + 1,), dtype, block, strides=(1,))
    return windows[starts].astype(dtype[1:])
