"""Merging of many groups in parallel: partials are partitioned by the hash of their keys, and partitions are merged
independently.

    partial 1 ── hash of keys ──► 1.0  1.1 ... 1.7
    partial 2 ── hash of keys ──► 2.0  2.1 ... 2.7
                                   │    └────────── merge ──► groups of partition 1
                                   └─────────────── merge ──► groups of partition 0

Groups of two partitions are never equal. This is the second phase of the aggregation of Leis et al. (Morsel-Driven
Parallelism, SIGMOD 2014, section 4.4), with partials of one batch each instead of tables of one thread each.

Few groups with many values of DISTINCT are partitioned by group and value instead. Each partition removes its
duplicates and computes the function's own states, and these few are merged.

    numbers, values ── hash of both ──► partitions ── each value once ──► function's states ── merge ──► one per group

Merging takes 20 to 100 ns per group and state of processor time, partitioning 15 ns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial as bound
from typing import Any, TypeVar

import numpy as np

from ...model.types import BIGINT
from ...model.vectors.vector import Array, Const, Dict, Flat, Vector, concat
from ..hashing import row_hashes
from ..kernels.groups.hash_groups import partition_rows
from ..kernels.groups.row_order import run_starts
from ..kernels.groups.segments import Segments, segments_of_codes
from ..run.context import ExecutionContext
from .accumulators import Accumulator
from .accumulators_distinct import Distinct, Tuples, deduplicated
from .partials import Partial, States

T = TypeVar("T")

PARTITIONED_ROWS = 1 << 17
"""Number of groups, or of values of DISTINCT, from which on partitions are merged in parallel: 10 ms of work."""
PARTITIONS_PER_THREAD = 4
"""Partitions for each thread, so that uneven ones leave no thread without work for long."""
_MOST_BITS = 8


def is_worth_partitioning(rows: int, context: ExecutionContext) -> bool:
    """True if merging `rows` groups or values takes long enough for several threads, and there are several."""
    return rows >= PARTITIONED_ROWS and context.threads > 1 and not context.is_worker


def merge_groups(states: States, partials: list[Partial], context: ExecutionContext) -> list[Partial]:
    """Merge partials, in partitions if they are large; no group is in two of the results."""
    if partials[0].keys and is_worth_partitioning(sum(partial.groups for partial in partials), context):
        return merge_partitions(states, partials, context)
    return [states.merge(partials)]


def merge_partitions(states: States, partials: list[Partial], context: ExecutionContext) -> list[Partial]:
    """Merge partials with keys into one partial for each partition; no group is in two of them.

    `partials` is emptied, so that the memory of each is released once it is partitioned.
    """
    columns = [_unified([p.keys[i] for p in partials]) for i in range(len(partials[0].keys))]
    sources: list[Partial | None] = [
        Partial([column[place] for column in columns], source.states, source.groups)
        for place, source in enumerate(partials)
    ]
    partials.clear()
    pieces = _scattered(sources, lambda p: _partition_rows(p.keys, p.groups, context.threads), states.take, context)
    return context.parallel([bound(_merge_drained, states, piece) for piece in pieces if piece], are_long=True)


def _merge_drained(states: States, pieces: list[Partial]) -> Partial:
    """Merge the pieces of a partition, which are released."""
    merged = states.merge(pieces)
    pieces.clear()
    return merged


def merge_few_groups(states: States, partials: list[Partial], context: ExecutionContext) -> tuple[States, Partial]:
    """Merge partials of few groups with many values of DISTINCT; return the states' accumulators and the groups.

    The result has the function's own states in place of those of DISTINCT, unless the function keeps rows itself.
    """
    accumulators = [
        a.function if isinstance(a, Distinct) and not a.function.keeps_rows else a for a in states.accumulators
    ]
    keys, groups = states.grouped(partials)
    merged = []
    for place, (given, wanted) in enumerate(zip(states.accumulators, accumulators, strict=True)):
        of_partials = [p.states[place] for p in partials]
        if given is wanted:
            merged.append(given.merge(of_partials, groups))
        else:
            merged.append(_distinct(wanted, of_partials, groups, context))
    partials.clear()
    return States(accumulators), Partial(keys, merged, len(groups))


def _distinct(function: Accumulator[Any], given: list[Tuples], groups: Segments, context: ExecutionContext) -> Any:
    """Return the function's state over the distinct values of each group."""
    number_of, first = groups.group_of_row(), 0
    numbers = []
    for source in given:
        numbers.append(number_of[first : first + source.groups].take(source.numbers))
        first += source.groups
    columns = [_unified([source.columns[i] for source in given]) for i in range(len(given[0].columns))]
    given.clear()
    sources: list[Tuples | None] = [
        Tuples(of_source, [column[place] for column in columns], len(groups)) for place, of_source in enumerate(numbers)
    ]

    def partition(rows: Tuples) -> list[Array]:
        keys = [Flat(BIGINT, rows.numbers), *rows.columns]
        return _partition_rows(keys, len(rows.numbers), context.threads)

    def once(pieces: list[Tuples]) -> tuple[Array, Any]:
        joined = Tuples(
            np.concatenate([piece.numbers for piece in pieces]),
            [concat([piece.columns[i] for piece in pieces]) for i in range(len(pieces[0].columns))],
            len(groups),
        )
        pieces.clear()
        rows = deduplicated(joined)
        of_groups = Segments(None, run_starts(rows.numbers), len(rows.numbers))
        return rows.numbers.take(of_groups.starts), function.partial(rows.columns, of_groups)

    pieces = _scattered(sources, partition, Tuples.pick, context)
    done = context.parallel([bound(once, piece) for piece in pieces if piece], are_long=True)
    present = np.concatenate([of_partition for of_partition, _ in done])
    # Every group has a value, NULL at least: its number is in some partition.
    return function.merge([state for _, state in done], segments_of_codes(present, len(groups)))


# ---- partitions ------------------------------------------------------------------------------------------------------


def _unified(vectors: Sequence[Vector]) -> list[Vector]:
    """Return the vectors with one dictionary for all if any has one: merged once instead of in each partition, and
    its codes are hashed instead of its texts."""
    first = vectors[0]
    if not any(isinstance(vector, Dict) for vector in vectors) or all(
        isinstance(vector, Dict) and isinstance(first, Dict) and vector.dictionary is first.dictionary
        for vector in vectors
    ):
        return list(vectors)
    ends = np.cumsum([len(vector) for vector in vectors]).tolist()
    joined = concat(vectors)
    return [joined.slice(end - len(vector), end) for vector, end in zip(vectors, ends, strict=True)]


def _partition_rows(keys: Sequence[Vector], length: int, threads: int) -> list[Array]:
    """Return the rows of each partition: ndarrays of intp. The keys are columns of `_unified` ones."""
    bits = min(_MOST_BITS, (threads * PARTITIONS_PER_THREAD - 1).bit_length())
    return partition_rows([_words(key, length) for key in keys], bits)


def _words(key: Vector, length: int) -> Array:
    """Return a word for each row (uint64), equal for equal values in any encoding; codes of a dictionary are words."""
    if isinstance(key, Dict):
        words = key.codes.astype(np.uint64)
    elif not key.type.is_integer_like or key.type.is_decimal:
        return row_hashes([key], length)
    elif isinstance(key, Const):
        return np.full(length, int(key.value or 0), np.int64).view(np.uint64)
    else:
        words = key.values().astype(np.int64).view(np.uint64)
    return words if key.validity is None else np.where(key.validity, words, np.uint64(0))


def _scattered(
    sources: list[T | None],
    partition: Callable[[T], list[Array]],
    take: Callable[[T, Array], T],
    context: ExecutionContext,
) -> list[list[T]]:
    """Return the pieces of each partition, in the order of their sources. Sources are released one by one."""

    def scatter(place: int) -> list[T | None]:
        source, sources[place] = sources[place], None
        assert source is not None
        return [take(source, rows) if len(rows) else None for rows in partition(source)]

    found = context.parallel([bound(scatter, place) for place in range(len(sources))], are_long=True)
    pieces = [[piece for piece in of_partition if piece is not None] for of_partition in zip(*found, strict=True)]
    if context.collect and context.opening:
        context.actuals.of(context.opening[-1]).partitions += sum(map(bool, pieces))
    return pieces
