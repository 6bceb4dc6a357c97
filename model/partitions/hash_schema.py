"""The hash rules of a table or of one of its range partitions: buckets of rows, and those that a scan may leave out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..keys.hashing import murmur3_32
from ..keys.key_codec import KeyCodec
from ..keys.keys import Keys
from ..schema import HashRule, Schema
from ..types import DataType
from ..vectors.vector import Array, Dict, Text
from .pruning import MAX_COMBINATIONS, KeyDomain

_FEW = 8  # keys are hashed sooner one by one than as a batch
_ROWS = 16_384  # hashed at a time: encoded bytes and hashes then stay in the cache


class HashSchema:
    """Some hash rules, from the outermost level to the innermost. Immutable.

    The buckets of all levels together make one number, the *place*: 0 for the first bucket of each, counting up at the
    innermost level first.
    """

    def __init__(self, schema: Schema, rules: tuple[HashRule, ...]):
        self.rules = rules
        self._schema = schema
        self._types = [tuple(schema.column(name).type for name in rule.columns) for rule in rules]
        self._hashers = [
            (tuple(schema.position(name) for name in rule.columns), KeyCodec(types), rule.buckets, rule.seed)
            for rule, types in zip(rules, self._types)
        ]

    def __len__(self) -> int:
        """Number of places."""
        return math.prod(rule.buckets for rule in self.rules)

    def buckets(self) -> Iterator[tuple[int, ...]]:
        """The buckets of each place, one per rule, ascending."""
        return itertools.product(*(range(rule.buckets) for rule in self.rules))

    def route(self, rows: pa.RecordBatch | pa.Table) -> Array:
        """The place of each row: ndarray of int32, shape (n_rows,)."""
        result = np.zeros(rows.num_rows, np.int32)
        for rule in self.rules:
            result *= np.int32(rule.buckets)
            result += _buckets(Keys.from_rows(self._schema, rows, rule.columns), rule)
        return result

    def route_one(self, key: Sequence[Any]) -> int:
        """`route` for one row, given the physical values of its whole primary key."""
        result = 0
        for places, codec, buckets, seed in self._hashers:
            values = (key[places[0]],) if len(places) == 1 else [key[place] for place in places]
            result = result * buckets + murmur3_32(codec.encode(values), seed) % buckets
        return result

    def prune(self, known: dict[str, KeyDomain]) -> list[int]:
        """The places that may hold a row of these domains, ascending: a rule prunes where each of its columns is fixed
        to some values."""
        places = [0]
        for rule, types, (_, codec, _, _) in zip(self.rules, self._types, self._hashers):
            chosen = _possible_buckets(rule, types, codec, known)
            places = [place * rule.buckets + bucket for place in places for bucket in chosen]
        return places


def _buckets(keys: Keys, rule: HashRule) -> Array:
    """The bucket of each key: ndarray of int32."""
    only = keys.columns[0]
    if len(keys.columns) == 1 and isinstance(only, Dict) and len(only.dictionary):
        entries = Keys(keys.types, (Text(only.type, only.dictionary),))
        return _buckets(entries, rule).take(only.codes)
    result = np.empty(len(keys), np.int32)
    for start in range(0, len(keys), _ROWS):
        portion = keys.slice(start, start + _ROWS)
        hashes = portion.hashes_32(rule.seed)
        hashes %= np.uint32(rule.buckets)
        result[start : start + _ROWS] = hashes
    return result


def _possible_buckets(
    rule: HashRule, types: tuple[DataType, ...], codec: KeyCodec, known: dict[str, KeyDomain]
) -> list[int]:
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
    found = list(itertools.product(*values))
    if combinations <= _FEW:
        return sorted({murmur3_32(codec.encode(key), rule.seed) % rule.buckets for key in found})
    keys = Keys.from_values(types, found)
    return [int(bucket) for bucket in np.unique(_buckets(keys, rule))]
