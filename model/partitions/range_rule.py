"""The range rule of a table: which range partition a key belongs to, and which ones a scan may leave out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import InvalidTableDefinition
from ..arrow_arrays import arrow_array
from ..keys.key_codec import KeyCodec
from ..keys.key_encoding import encode_key, key_width, prefix_end, search_encoded
from ..keys.keys import Keys
from ..schema import RangePartition, RangeRule
from ..types import DataType
from ..vectors.vector import Array
from .pruning import MAX_COMBINATIONS, KeyDomain


class Ranges:
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


def _above(upper: bytes | None, key: bytes) -> bool:
    return upper is None or key < upper


def _cut(keys: Keys, bounds: Sequence[bytes]) -> Array:
    """Number of the ascending `bounds` that are at or below each key: ndarray of intp."""
    width = sum(key_width(t) or 9 for t in keys.types)
    if width <= 8:
        packed = keys.packed()
        assert packed is not None
        # An empty bound is the least of all and reads as zero.
        cuts = np.array([int.from_bytes(bound.ljust(width, b"\0"), "big") for bound in bounds], np.uint64)
        return np.searchsorted(cuts, packed, side="right")
    return search_encoded(arrow_array(bounds, pa.binary()), keys.encoded(), right=True)


def describe_range(range_: RangePartition, rule: RangeRule, types: Sequence[DataType]) -> str:
    """A range partition for people: `10 <= a < 20`."""
    name = rule.columns[0] if len(rule.columns) == 1 else f"({', '.join(rule.columns)})"
    if range_.lower is not None and _is_one_text(range_):
        return f"{name} = {_literal(range_.lower, types)}"
    lower = "" if range_.lower is None else f"{_literal(range_.lower, types)} <= "
    upper = "" if range_.upper is None else f" < {_literal(range_.upper, types)}"
    return f"{lower}{name}{upper}" if lower or upper else f"RANGE ({', '.join(rule.columns)}) unbounded"


def _is_one_text(range_: RangePartition) -> bool:
    """True if a range ends with the text that directly follows the one it begins with."""
    assert range_.lower is not None
    *first, last = range_.lower
    following = last + "\0" if isinstance(last, str) else last + b"\0" if isinstance(last, bytes) else None
    return following is not None and range_.upper == (*first, following)


def _literal(bound: Sequence[Any], types: Sequence[DataType]) -> str:
    shown = [str(type_.to_python(value)) for type_, value in zip(types, bound)]
    quoted = [text if type_.is_numeric else f"'{text}'" for type_, text in zip(types, shown)]
    return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"
