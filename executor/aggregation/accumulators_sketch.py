"""approx_count_distinct: a HyperLogLog of 4,096 registers per group (standard error 1.6 %), kept sparsely.

A register holds the greatest rank (position of the first set bit) among the hashes that map to it. Most groups are
small, so a state keeps only registers that were hit: sorted integers of (group, register) and a rank each. The estimate
is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6), for all groups at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...model.bloom_predicate import hash_floats, hash_integers, hash_texts
from ...model.lazy_dataclass import dataclass
from ...model.types import BINARY
from ...model.vectors.vector import Array, Dict, Text, Vector, Wide, decimal_limbs
from ..kernels.groups.row_order import run_starts
from ..kernels.groups.segments import Segments
from .accumulators import Accumulator

_BITS = 12
_REGISTERS = 1 << _BITS
_REST = 64 - _BITS
_RANK_BITS = 6
_ENTRY = np.dtype([("register", "<u2"), ("rank", "u1")])


@dataclass(frozen=True, slots=True)
class Registers:
    """Non-empty registers: `places` are (group * 4096 + register), ascending and unique; `ranks` are their contents."""

    places: Array
    ranks: Array
    groups: int


class DistinctSketch(Accumulator[Registers]):
    """Approximate number of distinct values that are not NULL.

    As vectors: BINARY, of each register that was hit three bytes, its number (little-endian) and its rank; ascending by
    number. The hashes of values are part of that form.
    """

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Registers:
        arg = inputs[0]
        numbers = np.repeat(np.arange(len(groups)), groups.sizes)
        if arg.validity is not None:
            present = np.flatnonzero(arg.validity)
            numbers, arg = numbers.take(present), arg.take(present)
        hashes = _hashes(arg)
        rest = (hashes & np.uint64((1 << _REST) - 1)).astype(np.float64)
        # Below 2**53 the conversion is exact, so the exponent is the position of the highest bit.
        ranks = _REST + 1 - np.maximum((rest.view(np.int64) >> 52) - 1022, 0)
        return _greatest((numbers << _BITS) + (hashes >> np.uint64(_REST)).astype(np.int64), ranks, len(groups))

    def merge(self, states: Sequence[Registers], groups: Segments) -> Registers:
        number_of = groups.group_of_row()
        offsets = np.cumsum([0, *(state.groups for state in states)])
        places = [
            (number_of.take((state.places >> _BITS) + offset) << _BITS) + (state.places & (_REGISTERS - 1))
            for state, offset in zip(states, offsets, strict=False)
        ]
        return _greatest(np.concatenate(places), np.concatenate([state.ranks for state in states]), len(groups))

    def finish(self, state: Registers) -> Array:
        """Estimates, int64."""
        numbers = state.places >> _BITS
        width = _REST + 2
        counts = np.bincount(numbers * width + state.ranks, minlength=state.groups * width)
        counts = counts.reshape(state.groups, width).astype(np.float64)
        counts[:, 0] = _REGISTERS - counts.sum(axis=1)
        return np.rint(_estimates(counts)).astype(np.int64)

    def size(self, state: Registers, groups: int) -> int:
        return state.places.nbytes + state.ranks.nbytes

    def to_vectors(self, state: Registers, groups: int) -> list[Vector]:
        offsets = np.zeros(groups + 1, np.int32)
        np.cumsum(np.bincount(state.places >> _BITS, minlength=groups) * _ENTRY.itemsize, out=offsets[1:])
        entries = np.empty(len(state.places), _ENTRY)
        entries["register"], entries["rank"] = state.places & (_REGISTERS - 1), state.ranks
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(entries.tobytes())]
        return [Text(BINARY, pa.BinaryArray.from_buffers(pa.binary(), groups, buffers))]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Registers:
        array = vectors[0].to_arrow()
        _, offsets, content = array.buffers()
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + groups + 1]
        size = _ENTRY.itemsize
        entries = np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]].view(_ENTRY)
        numbers = np.repeat(np.arange(groups), np.diff(ends) // size)
        places = (numbers << _BITS) + entries["register"].astype(np.int64)
        return Registers(places, entries["rank"].astype(np.int64), groups)


def _greatest(places: Array, ranks: Array, groups: int) -> Registers:
    """Keep each register once, with its greatest rank."""
    packed = (places << _RANK_BITS) | ranks
    packed.sort()
    places = packed >> _RANK_BITS
    last = np.append(run_starts(places)[1:], len(places)) - 1 if len(places) else np.empty(0, np.intp)
    return Registers(places.take(last), packed.take(last) & ((1 << _RANK_BITS) - 1), groups)


def _hashes(arg: Vector) -> Array:
    """Hashes (uint64) of values without NULLs, which depend on the values alone."""
    if isinstance(arg, Dict):
        if not len(arg):
            return np.empty(0, np.uint64)
        return hash_texts(arg.dictionary).take(arg.codes)
    if arg.type.is_text:
        return hash_texts(arg.to_arrow())
    if arg.type.is_decimal:
        return _decimal_hashes(arg.array if isinstance(arg, Wide) else arg.to_arrow())
    values = arg.values()
    return hash_floats(values) if values.dtype.kind == "f" else hash_integers(values)


def _decimal_hashes(array: pa.Array) -> Array:
    high, low = decimal_limbs(array)
    mixed: Array = hash_integers(high).view(np.uint64) ^ low.view(np.uint64)
    return hash_integers(mixed)


def _estimates(counts: Array) -> Array:
    """Estimate the number of distinct values from the number of registers of each rank, shape (groups, ranks)."""
    with np.errstate(all="ignore"):
        total = _REGISTERS * _tau(1 - counts[:, _REST + 1] / _REGISTERS)
        for rank in range(_REST, 0, -1):
            total = 0.5 * (total + counts[:, rank])
        total = total + _REGISTERS * _sigma(counts[:, 0] / _REGISTERS)
        return np.where(np.isinf(total), 0.0, _REGISTERS**2 / (2 * math.log(2) * total))


def _sigma(x: Array) -> Array:
    """Σ of x^(2^k) 2^(k-1), infinite at 1, until nothing changes."""
    y, total = 1.0, x.copy()
    while True:
        x = x * x
        grown = total + x * y
        if (grown == total).all() or not y < 2.0**64:
            return np.where(x >= 1, np.inf, grown)
        total, y = grown, y + y


def _tau(x: Array) -> Array:
    y, total = np.ones_like(x), 1 - x
    while True:
        x, y = np.sqrt(x), y * 0.5
        shrunk = total - (1 - x) ** 2 * y
        if (shrunk == total).all():
            return np.where((x == 0) | (x == 1), 0.0, total / 3)
        total = shrunk
