"""Partitioning: which tablet a row belongs to, and which tablets a scan may leave out.

The *partition key* of a row is the bucket number of each hash rule (big-endian u32), then the encoded range columns:

    HASH (host) INTO 4 BUCKETS, RANGE (ts)       00 00 00 02 │ 80 05 aa 91 7e 40 00 00
                                                 bucket 2      ts

Every partition is an interval of partition keys, lower bound inclusive, upper exclusive. Where a range partition is
unbounded, the interval reaches to its neighbour in the next bucket, so that without gaps among the ranges the
partitions tile the whole space: the first lower bound and the last upper bound are empty.

A bucket is MurmurHash3 x86 32-bit (seed of the rule) of the hash columns, encoded as a key of their own, modulo the
number of buckets.

A range partition may have hash rules of its own, as many as the table has (Kudu 1.17). Its rows then have the buckets
of these, and the buckets of two ranges have nothing to do with each other. The intervals stay disjoint, but an
unbounded range does not reach to its neighbour any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..arrow_arrays import arrow_array
from ..keys.key_encoding import encode_key
from ..keys.keys import Keys
from ..lazy_dataclass import dataclass
from ..predicates import Branch, ColumnPredicate, InBuckets, OneOf, Range
from ..schema import HashRule, PartitionSchema, RangePartition, Schema
from ..vectors.vector import Array
from .hash_schema import HashSchema
from .pruning import domains
from .range_rule import Ranges, describe_range


@dataclass(frozen=True, slots=True)
class Partition:
    """Key space of one tablet.

    Parameters
    ----------
    index : int
        Its place among the table's partitions, in the order of partition keys.
    buckets : tuple of int
        One bucket per hash rule of its range.
    range : RangePartition or None
        Its range of the range columns, None where the table has no range rule.
    lower, upper : bytes
        Partition keys `lower <= key < upper`; an empty `upper` is unbounded.
    label : str
        The same for people, with column names.
    """

    index: int
    buckets: tuple[int, ...]
    range: RangePartition | None
    lower: bytes
    upper: bytes
    label: str = ""

    @property
    def place(self) -> str:
        """The same without column names: equal for partitions of two tables with the same buckets and range."""
        bounds = "" if self.range is None else f" {self.range.lower!r} {self.range.upper!r}"
        return f"{self.buckets}{bounds}"

    def describe(self) -> str:
        """For people: `HASH (host) bucket 2 of 4, '2025-01-01' <= ts`."""
        return self.label


class Partitioner:
    """Routes rows to the partitions of one table and prunes them for scans. Immutable.

    Parameters
    ----------
    schema : Schema
    partition_schema : PartitionSchema
        Must fit the schema (`model.schema.check_partitions`).
    """

    def __init__(self, schema: Schema, partition_schema: PartitionSchema):
        self.schema = schema
        self.partition_schema = partition_schema
        rule = partition_schema.range_rule
        self._range_types = () if rule is None else tuple(schema.column(name).type for name in rule.columns)
        self._range_places = () if rule is None else tuple(schema.position(name) for name in rule.columns)
        self._ranges = None if rule is None else Ranges(self._range_types, rule)
        of_ranges = [None] if rule is None else list(rule.partitions)
        rules = [partition_schema.rules_of(range_) for range_ in of_ranges]
        self._hashings = {found: HashSchema(schema, found) for found in dict.fromkeys(rules)}
        """By their rules; a table without ranges of their own rules has one, without any range perhaps none."""
        self._hashing_of = [self._hashings[found] for found in rules]
        self._is_uniform = partition_schema.is_uniform
        self.partitions, self._numbers = self._tile(of_ranges)

    def describe_ranges(self) -> list[str]:
        """The range partitions for people, in their order: `k < 100`, `100 <= k < 200`."""
        rule = None if self._ranges is None else self._ranges.rule
        return [] if rule is None else [describe_range(range_, rule, self._range_types) for range_ in rule.partitions]

    # ---- routing -------------------------------------------------------------------------------------------------

    def route(self, rows: pa.RecordBatch | pa.Table) -> Array:
        """The partition of each row: ndarray of int32, shape (n_rows,); -1 where no range covers the row."""
        if self._ranges is None:
            return self._hashing_of[0].route(rows)
        places = self._hashing_of[0].route(rows) if len(self._hashings) == 1 else None
        ranges = self._ranges.route(Keys.from_rows(self.schema, rows, self._ranges.rule.columns))
        if places is not None:
            return self._numbered(ranges, places)
        result = np.full(rows.num_rows, -1, np.int32)
        for hashing in self._hashings.values():
            mine = [place for place, other in enumerate(self._hashing_of) if other is hashing]
            chosen = np.flatnonzero(np.isin(ranges, mine))
            if len(chosen):
                result[chosen] = self._numbered(ranges[chosen], hashing.route(rows.take(arrow_array(chosen))))
        return result

    def _numbered(self, ranges: Array, places: Array) -> Array:
        """The partitions of rows by their range, -1 for none, and their place in the hash schema of that."""
        numbers = np.asarray(self._numbers[ranges, places])
        numbers[ranges < 0] = -1
        return numbers

    def route_one(self, key: Sequence[Any]) -> int:
        """`route` for one row, given the physical values of its whole primary key (in range of their types)."""
        if self._ranges is None:
            return self._hashing_of[0].route_one(key)
        place = self._ranges.route_one([key[place] for place in self._range_places])
        return -1 if place < 0 else int(self._numbers[place, self._hashing_of[place].route_one(key)])

    # ---- pruning -------------------------------------------------------------------------------------------------

    def prune(self, predicates: Sequence[ColumnPredicate], one_of: Sequence[OneOf] = ()) -> list[int]:
        """The partitions that may hold rows for which all `predicates` are true, and a branch of each of `one_of`,
        ascending.

        Hash rules prune where every column of the rule is fixed to some values, or by `InBuckets`; the range rule by
        the leading range columns. Other predicates prune nothing.
        """
        kept = self._pruned(predicates)
        for branches in one_of:
            if len(kept) > 1:
                possible = {number for branch in branches for number in self._pruned_by_branch(predicates, branch)}
                kept = [number for number in kept if number in possible]
        return kept

    def _pruned_by_branch(self, predicates: Sequence[ColumnPredicate], branch: Branch) -> list[int]:
        buckets = [part for part in branch if isinstance(part, InBuckets)]
        columns = [part for part in branch if not isinstance(part, InBuckets)]
        numbers = self._pruned([*predicates, *columns])
        return [n for n in numbers if all(self._has_bucket(self.partitions[n], part) for part in buckets)]

    def _has_bucket(self, partition: Partition, chosen: InBuckets) -> bool:
        """False if the rows of a partition are in other buckets of the rule."""
        for rule, bucket in zip(self.partition_schema.rules_of(partition.range), partition.buckets, strict=True):
            if (rule.columns, rule.buckets, rule.seed) == (chosen.columns, chosen.buckets, chosen.seed):
                return bucket in chosen.chosen
        return True

    def _pruned(self, predicates: Sequence[ColumnPredicate]) -> list[int]:
        if len(self.partitions) == 1 and self._ranges is None and all(map(_has_open_end, predicates)):
            return [0]
        known = domains(self.schema, predicates)
        if any(domain.is_empty for domain in known.values()):
            return []
        ranges = [0] if self._ranges is None else self._ranges.prune(known)
        places = {rules: hashing.prune(known) for rules, hashing in self._hashings.items()}
        return sorted(
            int(number) for range_ in ranges for number in self._numbers[range_, places[self._hashing_of[range_].rules]]
        )

    # ---- the partitions ------------------------------------------------------------------------------------------

    def _tile(self, ranges: Sequence[RangePartition | None]) -> tuple[tuple[Partition, ...], Array]:
        """The partitions in order, and which of them it is by range and place in the range's hash schema: ndarray of
        int32, shape (n_ranges, n_places), -1 where a range has fewer places than others."""
        tiles = sorted((buckets, place) for place, h in enumerate(self._hashing_of) for buckets in h.buckets())
        numbers = np.full((len(ranges), max(map(len, self._hashing_of), default=1)), -1, np.int32)
        filled = [0] * len(ranges)
        partitions: list[Partition] = []
        for number, (buckets, place) in enumerate(tiles):
            range_, rules = ranges[place], self._hashing_of[place].rules
            lower, upper = self._interval(buckets, range_, rules)
            partitions.append(Partition(number, buckets, range_, lower, upper, self._label(buckets, range_, rules)))
            numbers[place, filled[place]] = number
            filled[place] += 1
        return tuple(partitions), numbers

    def _interval(
        self, buckets: tuple[int, ...], range_: RangePartition | None, rules: Sequence[HashRule]
    ) -> tuple[bytes, bytes]:
        types = self._range_types
        if range_ is None or range_.lower is None:
            # The first bucket of a rule has no lower bound of its own: it starts where the bucket before it ends.
            lower = _bucket_bytes(_strip(buckets, [0] * len(buckets)) if self._is_uniform else buckets)
        else:
            lower = _bucket_bytes(buckets) + encode_key(types, range_.lower)
        if range_ is not None and range_.upper is not None:
            return lower, _bucket_bytes(buckets) + encode_key(types, range_.upper)
        counted = _strip(buckets, [rule.buckets - 1 for rule in rules]) if self._is_uniform else buckets
        return lower, _bucket_bytes((*counted[:-1], counted[-1] + 1)) if counted else b""

    def _label(self, buckets: tuple[int, ...], range_: RangePartition | None, rules: Sequence[HashRule]) -> str:
        parts = [
            f"HASH ({', '.join(rule.columns)}) bucket {bucket} of {rule.buckets}"
            for rule, bucket in zip(rules, buckets)
        ]
        if range_ is not None and self._ranges is not None:
            parts.append(describe_range(range_, self._ranges.rule, self._range_types))
        return ", ".join(parts) or "all rows"


def _strip(buckets: tuple[int, ...], trailing: Sequence[int]) -> tuple[int, ...]:
    """`buckets` without the end that equals `trailing`."""
    length = len(buckets)
    while length and buckets[length - 1] == trailing[length - 1]:
        length -= 1
    return buckets[:length]


def _has_open_end(predicate: ColumnPredicate) -> bool:
    """True for a range that contains a value for every data type, for all types: one with an open end."""
    return isinstance(predicate, Range) and (predicate.lower is None or predicate.upper is None)


def _bucket_bytes(buckets: tuple[int, ...]) -> bytes:
    return b"".join(bucket.to_bytes(4, "big") for bucket in buckets)
