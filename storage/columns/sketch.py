"""Column statistics collected during writes for the planner: bounds, NULLs, and approximate number of distinct values.

Distinct values are counted by their 64-bit hashes: exactly (the set of hashes) up to `EXACT_LIMIT`, then by a
HyperLogLog of 4,096 registers (standard error 1.6 %), estimated by Ertl's formula ("New cardinality estimation
algorithms for HyperLogLog sketches", 2017, algorithm 6), which needs no bias tables.

Hashes depend on the value alone, never on page, base or dictionary, so that sketches of many files can be merged.
They are stored in files: changing one needs a new format version.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.lazy_dataclass import dataclass
from ...model.store import ColumnStatistics
from ...model.vectors.vector import Array, decimal_limbs

EXACT_LIMIT = 512
"""Hashes kept as a set: 4 KiB, what the registers take too."""
SORTED_HASHES = 4_096
"""Number of hashes added to the set at a time: most columns outgrow the set at once, and sorting dominates the cost."""
_BITS = 12
_REGISTERS = 1 << _BITS
_REST = 64 - _BITS
_SLOTS = 64
"""Ranks go up to 53; 64 slots per register let the builder mark (register, rank) with one shift."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSketch:
    """A summary of some rows of one column; `merge` gives the summary of both sides' rows.

    Parameters
    ----------
    low, high : physical values, optional
        Bounds of the present values (texts are cut after 64 characters); None where there is none.
        NaN is above all other numbers.
    null_count, row_count : int
    hashes : ndarray of uint64, shape (n_distinct,), optional
        Ascending, while there are at most `EXACT_LIMIT`.
    registers : ndarray of uint8, shape (4096,), optional
        The HyperLogLog from then on. Exactly one of the two is there.
    """

    low: Any
    high: Any
    null_count: int
    row_count: int
    hashes: Array | None = None
    registers: Array | None = None

    def merge(self, other: ColumnSketch) -> ColumnSketch:
        """The sketch of both sides' rows."""
        builder = SketchBuilder()
        builder.add_sketch(self)
        builder.add_sketch(other)
        return builder.finish()

    def distinct_count(self) -> float:
        """About how many distinct present values there are; exact (up to hash collisions) where few."""
        if self.hashes is not None:
            return float(len(self.hashes))
        assert self.registers is not None
        return min(_estimate(self.registers), float(self.row_count - self.null_count))

    def to_statistics(self) -> ColumnStatistics:
        """The sketch as statistics for the planner."""
        return ColumnStatistics(self.low, self.high, self.null_count, self.distinct_count())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for msgpack; `low` and `high` as they are."""
        data = {"low": self.low, "high": self.high, "nulls": self.null_count, "rows": self.row_count}
        if self.hashes is not None:
            return {**data, "hashes": self.hashes.astype("<u8").tobytes()}
        assert self.registers is not None
        return {**data, "registers": self.registers.tobytes()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ColumnSketch:
        """The inverse of `to_dict`."""
        hashes = np.frombuffer(data["hashes"], "<u8") if "hashes" in data else None
        registers = np.frombuffer(data["registers"], np.uint8) if "registers" in data else None
        return cls(data["low"], data["high"], data["nulls"], data["rows"], hashes, registers)


def _distinct(hashes: Array) -> Array:
    """The distinct hashes, ascending. `np.unique` would import `numpy.ma`, at the first statement of each process."""
    ascending = np.sort(hashes)
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]


class SketchBuilder:
    """Collects a `ColumnSketch` batch by batch."""

    def __init__(self) -> None:
        self._low: Any = None
        self._high: Any = None
        self._nulls = 0
        self._rows = 0
        self._hashes: Array | None = np.empty(0, np.uint64)
        self._marks: Array | None = None

    def add(self, low: Any, high: Any, null_count: int, row_count: int) -> None:
        """Count rows; `low` and `high` are None where no value is present."""
        self._nulls += null_count
        self._rows += row_count
        if low is not None:
            low, high = _shortened(low), _shortened(high)
            self._low = low if self._low is None or _before(low, self._low) else self._low
            self._high = high if self._high is None or _before(self._high, high) else self._high

    def add_hashes(self, hashes: Array) -> None:
        """Count distinct values by their hashes (ndarray of uint64, repetitions allowed)."""
        while self._hashes is not None:
            union = _distinct(np.concatenate([self._hashes, hashes[:SORTED_HASHES]]))
            hashes = hashes[SORTED_HASHES:]
            if len(union) > EXACT_LIMIT:
                self._hashes = None
                self._mark(union)
            else:
                self._hashes = union
                if not len(hashes):
                    return
        self._mark(hashes)

    def add_sketch(self, sketch: ColumnSketch) -> None:
        """Count all that another sketch has seen."""
        self.add(sketch.low, sketch.high, sketch.null_count, sketch.row_count)
        if sketch.hashes is not None:
            self.add_hashes(sketch.hashes)
            return
        assert sketch.registers is not None
        if self._hashes is not None:
            self._mark(self._hashes)
            self._hashes = None
        assert self._marks is not None
        filled = np.flatnonzero(sketch.registers)
        self._marks[filled * _SLOTS + sketch.registers[filled]] = True

    def finish(self) -> ColumnSketch:
        """The sketch of all rows so far."""
        registers = None
        if self._hashes is None:
            assert self._marks is not None
            slots = self._marks.reshape(_REGISTERS, _SLOTS)[:, ::-1]
            registers = np.where(slots.any(axis=1), _SLOTS - 1 - slots.argmax(axis=1), 0).astype(np.uint8)
        return ColumnSketch(self._low, self._high, self._nulls, self._rows, self._hashes, registers)

    def _mark(self, hashes: Array) -> None:
        if self._marks is None:
            self._marks = np.zeros(_REGISTERS * _SLOTS, np.bool_)
        rest = (hashes & np.uint64((1 << _REST) - 1)).astype(np.float64)
        # Below 2**53 the conversion is exact, so the exponent is the position of the highest bit.
        highest = np.maximum((rest.view(np.int64) >> 52) - 1022, 0)
        self._marks[((hashes >> np.uint64(_REST)).astype(np.int64) << 6) + (_REST + 1 - highest)] = True


def _before(left: Any, right: Any) -> bool:
    if isinstance(left, float):
        return bool(left < right or (right != right and left == left))
    return bool(left < right)


def _shortened(value: Any) -> Any:
    return value[:64] if isinstance(value, (str, bytes)) else value


def _estimate(registers: Array) -> float:
    counts = np.bincount(registers, minlength=_REST + 2)
    total = _REGISTERS * _tau(1 - counts[_REST + 1] / _REGISTERS)
    for rank in range(_REST, 0, -1):
        total = 0.5 * (total + counts[rank])
    total += _REGISTERS * _sigma(counts[0] / _REGISTERS)
    return float(_REGISTERS**2 / (2 * math.log(2) * total))


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, total, before = 1.0, x, -1.0
    while total != before:
        x, before = x * x, total
        total += x * y
        y += y
    return total


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, total, before = 1.0, 1 - x, -1.0
    while total != before:
        x, before = math.sqrt(x), total
        y *= 0.5
        total -= (1 - x) ** 2 * y
    return total / 3


def _mix(words: Array) -> Array:
    """splitmix64's finaliser, in place on a fresh array of uint64."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def hash_integers(values: Array) -> Array:
    """uint64 hashes of integers or bools of any width; equal values hash alike whatever their dtype."""
    return _mix(values.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


def hash_floats(values: Array) -> Array:
    """uint64 hashes of floats; 0.0 and -0.0 hash alike, and so do all NaNs."""
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    return hash_integers(wide.view(np.int64))


def hash_decimals(array: pa.Array) -> Array:
    """uint64 hashes of an Arrow decimal128 array's unscaled values."""
    high, low = decimal_limbs(array)
    return _mix(hash_integers(high) ^ low)


def hash_texts(array: pa.Array) -> Array:
    """uint64 hashes of an Arrow string or binary array without NULLs: of the length and the first, middle and last
    8 bytes. Texts that differ elsewhere only count as one, which an estimate can bear; hashing every byte would cost
    three times as much."""
    if len(array) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)  # 8 more, so that a word may start at any byte
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words: Array = np.ndarray((last - first + 1,), "<u8", data, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    spare = np.maximum(lengths - 8, 0)
    hashes = (words[starts] & _WORD_MASKS.take(lengths, mode="clip")) * np.uint64(31) + lengths.view(np.uint64)
    for places in (spare >> 1, spare):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + words[starts + places] * (lengths > 8)
    return _mix(hashes)


_WORD_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
"""By the number of bytes of a word that belong to the text."""
