"""Partitioning: which tablet a row belongs to, and which tablets a scan may leave out.

The *partition key* of a row is the bucket number of each hash rule (big-endian u32), then the encoded range columns:

    HASH (host) INTO 4 BUCKETS, RANGE (ts)       00 00 00 02 │ 80 05 aa 91 7e 40 00 00
                                                 bucket 2      ts

Every partition is an interval of partition keys, lower bound inclusive, upper exclusive. Where a range partition is
unbounded, the interval reaches to its neighbour in the next bucket, so that without gaps among the ranges the
partitions tile the whole space: the first lower bound and the last upper bound are empty.

A bucket is MurmurHash3 x86 32-bit (seed of the rule) of the hash columns, encoded as a key of their own, modulo the
number of buckets.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import InvalidTableDefinition
from ..predicates import ColumnPredicate
from ..schema import HashRule, PartitionSchema, RangePartition, RangeRule, Schema
from ..types import DataType
from ..vector import Array, Dict, Text
from .hashing import murmur3_32, murmur3_32_binary, murmur3_32_fixed
from .key_codec import KeyCodec
from .key_encoding import encode_key, key_width, prefix_end, search_encoded
from .keys import Keys
from .pruning import KeyDomain, domains

MAX_COMBINATIONS = 4096
"""Value combinations that pruning tries; a longer IN list prunes nothing."""
_ROWS = 16_384  # routed at a time: encoded bytes and hashes then stay in the cache


@dataclass(frozen=True, slots=True)
class Partition:
    """What one tablet holds.

    Parameters
    ----------
    index : int
        Its place among the table's partitions, in the order of partition keys.
    buckets : tuple of int
        One bucket per hash rule.
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

    def describe(self) -> str:
        """For people: `HASH (host) bucket 2 of 4, '2025-01-01' <= ts`."""
        return self.label


class Partitioner:
    """Routes rows to the partitions of one table and prunes them for scans. Immutable.

    Parameters
    ----------
    schema : Schema
    partition_schema : PartitionSchema
        Must fit the schema (`storage.schema.check_partitions`).
    """

    def __init__(self, schema: Schema, partition_schema: PartitionSchema):
        self.schema = schema
        self.partition_schema = partition_schema
        self._hash_types = [_types(schema, rule.columns) for rule in partition_schema.hash_rules]
        rule = partition_schema.range_rule
        self._ranges = None if rule is None else _Ranges(_types(schema, rule.columns), rule)
        self.partitions = self._tile()
        self._hashers = [
            (_places(schema, rule.columns), KeyCodec(types), rule.buckets, rule.seed)
            for rule, types in zip(partition_schema.hash_rules, self._hash_types)
        ]
        self._range_places = () if rule is None else _places(schema, rule.columns)

    # ---- routing -------------------------------------------------------------------------------------------------

    def route(self, rows: pa.RecordBatch | pa.Table) -> Array:
        """The partition of each row: ndarray of int32, shape (n_rows,); -1 where no range covers the row."""
        result = np.zeros(rows.num_rows, np.int32)
        for rule in self.partition_schema.hash_rules:
            result *= np.int32(rule.buckets)
            result += _buckets(Keys.from_rows(self.schema, rows, rule.columns), rule)
        if self._ranges is not None:
            places = self._ranges.route(Keys.from_rows(self.schema, rows, self._ranges.rule.columns))
            result *= np.int32(len(self._ranges))
            result += places
            result[places < 0] = -1
        return result

    def route_one(self, key: Sequence[Any]) -> int:
        """`route` for one row, given the physical values of its whole primary key (in range of their types)."""
        result = 0
        for places, codec, buckets, seed in self._hashers:
            values = (key[places[0]],) if len(places) == 1 else [key[place] for place in places]
            result = result * buckets + murmur3_32(codec.encode(values), seed) % buckets
        if self._ranges is not None:
            place = self._ranges.route_one([key[place] for place in self._range_places])
            result = -1 if place < 0 else result * len(self._ranges) + place
        return result

    # ---- pruning -------------------------------------------------------------------------------------------------

    def prune(self, predicates: Sequence[ColumnPredicate]) -> list[int]:
        """The partitions that may hold rows for which all `predicates` are true, ascending.

        Hash rules prune where every column of the rule is fixed to some values; the range rule by the leading range
        columns. Other predicates prune nothing.
        """
        known = domains(self.schema, predicates)
        if any(domain.is_empty for domain in known.values()):
            return []
        choices: list[Sequence[int]] = []
        for rule, types in zip(self.partition_schema.hash_rules, self._hash_types):
            choices.append(_possible_buckets(rule, types, known))
        if self._ranges is not None:
            choices.append(self._ranges.prune(known))
        sizes = [*(r.buckets for r in self.partition_schema.hash_rules), *([len(self._ranges)] if self._ranges else [])]
        return [_number(choice, sizes) for choice in itertools.product(*choices)]

    # ---- the partitions ------------------------------------------------------------------------------------------

    def _tile(self) -> tuple[Partition, ...]:
        rules = self.partition_schema.hash_rules
        ranges: Sequence[RangePartition | None] = [None] if self._ranges is None else self._ranges.rule.partitions
        partitions: list[Partition] = []
        for buckets in itertools.product(*(range(rule.buckets) for rule in rules)):
            for range_ in ranges:
                lower, upper = self._interval(buckets, range_)
                label = self._label(buckets, range_)
                partitions.append(Partition(len(partitions), buckets, range_, lower, upper, label))
        return tuple(partitions)

    def _interval(self, buckets: tuple[int, ...], range_: RangePartition | None) -> tuple[bytes, bytes]:
        types = () if self._ranges is None else self._ranges.types
        if range_ is None or range_.lower is None:
            # The first bucket of a rule has no lower bound of its own: it starts where the bucket before it ends.
            lower = _bucket_bytes(_strip(buckets, [0] * len(buckets)))
        else:
            lower = _bucket_bytes(buckets) + encode_key(types, range_.lower)
        if range_ is not None and range_.upper is not None:
            return lower, _bucket_bytes(buckets) + encode_key(types, range_.upper)
        last = [rule.buckets - 1 for rule in self.partition_schema.hash_rules]
        counted = _strip(buckets, last)
        return lower, _bucket_bytes((*counted[:-1], counted[-1] + 1)) if counted else b""

    def _label(self, buckets: tuple[int, ...], range_: RangePartition | None) -> str:
        parts = [
            f"HASH ({', '.join(rule.columns)}) bucket {bucket} of {rule.buckets}"
            for rule, bucket in zip(self.partition_schema.hash_rules, buckets)
        ]
        if range_ is not None and self._ranges is not None:
            parts.append(describe_range(range_, self._ranges.rule, self._ranges.types))
        return ", ".join(parts) or "all rows"


class _Ranges:
    """The range rule with its bounds encoded; an empty lower bound is the least key, None an unbounded upper one."""

    def __init__(self, types: tuple[DataType, ...], rule: RangeRule):
        self.types = types
        self.rule = rule
        self.lowers = [b"" if p.lower is None else encode_key(types, p.lower) for p in rule.partitions]
        self.uppers = [None if p.upper is None else encode_key(types, p.upper) for p in rule.partitions]
        if b"" in self.uppers:
            raise InvalidTableDefinition(
                f"a range partition of ({', '.join(rule.columns)}) is empty: nothing lies below its upper bound ''"
            )
        # All bounds cut the space into pieces; each piece lies in one range or in a gap (-1).
        self._cuts = sorted({*self.lowers, *(upper for upper in self.uppers if upper is not None)})
        self._owners = np.array([-1, *(self._owner(cut) for cut in self._cuts)], np.int32)
        self._owner_list: list[int] = self._owners.tolist()
        self._codec = KeyCodec(types)

    def __len__(self) -> int:
        return len(self.rule.partitions)

    def route(self, keys: Keys) -> Array:
        """The range of each key: ndarray of int32, -1 where there is none."""
        return self._owners.take(_cut(keys, self._cuts))

    def route_one(self, values: Sequence[Any]) -> int:
        """`route` for the physical values of one row's range columns."""
        return self._owner_list[bisect_right(self._cuts, self._codec.encode(values))]

    def _owner(self, key: bytes) -> int:
        place = bisect_right(self.lowers, key) - 1
        return place if place >= 0 and _above(self.uppers[place], key) else -1

    def prune(self, known: dict[str, KeyDomain]) -> list[int]:
        """The ranges that may hold a row of these domains."""
        kept: set[int] = set()
        for lower, upper in self._intervals(known):
            first = bisect_right(self.lowers, lower) - 1
            last = len(self) if upper is None else bisect_left(self.lowers, upper)
            kept.update(i for i in range(max(first, 0), last) if _above(self.uppers[i], lower))
        return sorted(kept)

    def _intervals(self, known: dict[str, KeyDomain]) -> list[tuple[bytes, bytes | None]]:
        """Half-open intervals of encoded range columns that enclose every row of the domains."""
        prefixes: list[tuple[Any, ...]] = [()]
        for name in self.rule.columns:
            domain = known.get(name)
            if domain is None:
                break
            values = domain.values
            if values is None or len(prefixes) * len(values) > MAX_COMBINATIONS:
                return [self._bounded(prefix, domain) for prefix in prefixes]
            prefixes = [(*prefix, value) for prefix in prefixes for value in values]
        return [self._within(prefix) for prefix in prefixes]

    def _within(self, prefix: tuple[Any, ...]) -> tuple[bytes, bytes | None]:
        encoded = encode_key(self.types, prefix)
        return encoded, self._after(encoded, prefix)

    def _after(self, encoded: bytes, prefix: tuple[Any, ...]) -> bytes | None:
        """The least key above all that start with the values of `prefix`."""
        return encoded + b"\0" if len(prefix) == len(self.types) else prefix_end(encoded)

    def _bounded(self, prefix: tuple[Any, ...], domain: KeyDomain) -> tuple[bytes, bytes | None]:
        lower, upper = self._within(prefix)
        if domain.lower is not None:
            bound = (*prefix, domain.lower)
            encoded = encode_key(self.types, bound)
            above = encoded if domain.lower_inclusive else self._after(encoded, bound)
            if above is None:  # nothing lies above: an interval without keys
                return encoded, encoded
            lower = above
        if domain.upper is not None:
            bound = (*prefix, domain.upper)
            encoded = encode_key(self.types, bound)
            upper = self._after(encoded, bound) if domain.upper_inclusive else encoded
        return lower, upper


def _types(schema: Schema, names: Sequence[str]) -> tuple[DataType, ...]:
    return tuple(schema.column(name).type for name in names)


def _places(schema: Schema, names: Sequence[str]) -> tuple[int, ...]:
    """Where key columns stand in the key."""
    return tuple(schema.position(name) for name in names)


def _above(upper: bytes | None, key: bytes) -> bool:
    return upper is None or key < upper


def _number(choice: Sequence[int], sizes: Sequence[int]) -> int:
    index = 0
    for place, size in zip(choice, sizes):
        index = index * size + place
    return index


def _strip(buckets: tuple[int, ...], trailing: Sequence[int]) -> tuple[int, ...]:
    """`buckets` without the end that equals `trailing`."""
    length = len(buckets)
    while length and buckets[length - 1] == trailing[length - 1]:
        length -= 1
    return buckets[:length]


def _bucket_bytes(buckets: tuple[int, ...]) -> bytes:
    return b"".join(bucket.to_bytes(4, "big") for bucket in buckets)


def _buckets(keys: Keys, rule: HashRule) -> Array:
    """The bucket of each key: ndarray of int32."""
    only = keys.columns[0]
    if len(keys.columns) == 1 and isinstance(only, Dict) and len(only.dictionary):
        entries = Keys(keys.types, (Text(only.type, only.dictionary),))
        return _buckets(entries, rule).take(only.codes)
    result = np.empty(len(keys), np.int32)
    for start in range(0, len(keys), _ROWS):
        portion = keys.slice(start, start + _ROWS)
        matrix = portion.matrix()
        if matrix is not None:
            hashes = murmur3_32_fixed(matrix, rule.seed)
        else:
            hashes = murmur3_32_binary(portion.encoded(), rule.seed)
        hashes %= np.uint32(rule.buckets)
        result[start : start + _ROWS] = hashes
    return result


def _possible_buckets(rule: HashRule, types: tuple[DataType, ...], known: dict[str, KeyDomain]) -> list[int]:
    every = list(range(rule.buckets))
    combinations = 1
    values: list[Sequence[Any]] = []
    for name in rule.columns:
        domain = known.get(name)
        if domain is None or domain.values is None:
            return every
        values.append(domain.values)
        combinations *= len(domain.values)
    if combinations > MAX_COMBINATIONS:
        return every
    keys = Keys.from_values(types, list(itertools.product(*values)))
    return [int(bucket) for bucket in np.unique(_buckets(keys, rule))]


def _cut(keys: Keys, bounds: Sequence[bytes]) -> Array:
    """How many of the ascending `bounds` are at or below each key: ndarray of intp."""
    width = sum(key_width(t) or 9 for t in keys.types)
    if width <= 8:
        packed = keys.packed()
        assert packed is not None
        # An empty bound is the least of all and reads as zero.
        cuts = np.array([int.from_bytes(bound.ljust(width, b"\0"), "big") for bound in bounds], np.uint64)
        return np.searchsorted(cuts, packed, side="right")
    return search_encoded(pa.array(bounds, pa.binary()), keys.encoded(), right=True)


def describe_range(range_: RangePartition, rule: RangeRule, types: Sequence[DataType]) -> str:
    """A range partition for people: `10 <= a < 20`."""
    name = rule.columns[0] if len(rule.columns) == 1 else f"({', '.join(rule.columns)})"
    if range_.lower is not None and _is_one_text(range_):
        return f"{name} = {_literal(range_.lower, types)}"
    lower = "" if range_.lower is None else f"{_literal(range_.lower, types)} <= "
    upper = "" if range_.upper is None else f" < {_literal(range_.upper, types)}"
    return f"{lower}{name}{upper}" if lower or upper else f"RANGE ({', '.join(rule.columns)}) unbounded"


def _is_one_text(range_: RangePartition) -> bool:
    """Does a range end with the text after the one that it begins with?"""
    assert range_.lower is not None
    *first, last = range_.lower
    following = last + "\0" if isinstance(last, str) else last + b"\0" if isinstance(last, bytes) else None
    return following is not None and range_.upper == (*first, following)


def _literal(bound: Sequence[Any], types: Sequence[DataType]) -> str:
    shown = [str(type_.to_python(value)) for type_, value in zip(types, bound)]
    quoted = [text if type_.is_numeric else f"'{text}'" for type_, text in zip(types, shown)]
    return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"
