"""Column predicates as plain maps, and back: in messages and in scan tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ProtocolError
from ..predicates import AnyOf, BitmapFilter, BloomFilter, ColumnPredicate, InList, IsNull, Range
from .values import reads, value_from_plain, value_to_plain

MOST_PLACES = 1 << 26
"""Bits of a bitmap that is sent as places: what a server makes of a few bytes."""


def predicate_to_plain(predicate: ColumnPredicate) -> dict[str, Any]:
    """A predicate as a map; its physical values are packed, its bits and words are bytes."""
    plain: dict[str, Any] = {"is": type(predicate).__name__, "column": predicate.column}
    match predicate:
        case Range():
            plain["bounds"] = value_to_plain([predicate.lower, predicate.upper])
            plain["inclusive"] = [predicate.lower_inclusive, predicate.upper_inclusive]
        case InList():
            plain["values"] = value_to_plain(predicate.values)
        case IsNull():
            plain["negated"] = predicate.negated
        case AnyOf():
            plain["members"] = [predicate_to_plain(member) for member in predicate.members]
        case BitmapFilter():
            plain["base"] = value_to_plain(int(predicate.base))
            plain["count"] = len(predicate.bits)
            if _is_sparse(predicate):
                plain["places"] = np.flatnonzero(predicate.bits).astype("<u4").tobytes()
            else:
                plain["bits"] = np.packbits(np.asarray(predicate.bits, np.bool_)).tobytes()
        case BloomFilter():
            plain["words"] = np.ascontiguousarray(predicate.words, "<u8").tobytes()
    return plain


@reads("predicate")
def predicate_from_plain(data: dict[str, Any]) -> ColumnPredicate:
    """The predicate of `predicate_to_plain`; `ProtocolError` if it is none."""
    kind, column = data["is"], data["column"]
    match kind:
        case "Range":
            lower, upper = (value_from_plain(bound) for bound in data["bounds"])
            return Range(column, lower, upper, *data["inclusive"])
        case "InList":
            return InList(column, tuple(value_from_plain(value) for value in data["values"]))
        case "IsNull":
            return IsNull(column, data["negated"])
        case "AnyOf":
            return AnyOf(column, tuple(_member(member) for member in data["members"]))
        case "BitmapFilter":
            bits = _bits(data["bits"], data["count"]) if "bits" in data else _set_bits(data["places"], data["count"])
            return BitmapFilter(column, value_from_plain(data["base"]), bits)
        case "BloomFilter":
            return BloomFilter(column, np.frombuffer(data["words"], np.dtype("<u8")))
    raise ProtocolError(f"there is no predicate {kind!r}")


def _member(data: dict[str, Any]) -> Range | InList | IsNull:
    member = predicate_from_plain(data)
    if not isinstance(member, Range | InList | IsNull):
        raise ValueError(f"a {type(member).__name__} cannot be one of several")
    return member


def _bits(data: bytes, count: int) -> Any:
    packed = np.frombuffer(data, np.uint8)
    if not 0 <= len(packed) * 8 - count < 8:
        raise ValueError(f"{len(packed)} bytes do not hold {count} bits")
    return np.unpackbits(packed, count=count).view(np.bool_)


def _set_bits(places: bytes, count: int) -> Any:
    set_ = np.frombuffer(places, np.dtype("<u4"))
    if not 0 <= count <= MOST_PLACES or (len(set_) and int(set_.max()) >= count):
        raise ValueError(f"not all of {len(set_)} places are among {count} bits")
    bits = np.zeros(count, np.bool_)
    bits[set_] = True
    return bits


def _is_sparse(predicate: BitmapFilter) -> bool:
    """True if a bitmap is packed as the places of the bits that are set, as a few hundred keys of a large table are."""
    bits = predicate.bits
    return len(bits) <= MOST_PLACES and 64 * int(np.count_nonzero(bits)) < len(bits)


def filter_bytes(predicate: ColumnPredicate) -> int:
    """Number of bytes of a runtime filter as it is packed; 0 for other predicates."""
    if isinstance(predicate, BloomFilter):
        return int(predicate.words.nbytes)
    if not isinstance(predicate, BitmapFilter):
        return 0
    return 4 * int(np.count_nonzero(predicate.bits)) if _is_sparse(predicate) else len(predicate.bits) // 8
