"""Keys that several sources share, where every source has each of its own once. Of a tablet these are the keys of live
rows: a deleted row and a live one may have one key.

Sources are swept by key interval: only where intervals overlap are keys compared, first by their 64-bit hashes (sorted
together, 8 bytes a key), then the few of equal hash by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ....model.keys.keys import Keys
from ....model.lazy_dataclass import dataclass
from ....model.vectors.vector import Array

_COMPARED = 100_000
"""Keys of equal hash that are compared by value: more are reported by their number only."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """Some keys, each once: those that are alive in a rowset, or in what the log brings into memory.

    Parameters
    ----------
    name : str
        For people.
    min_key, max_key : bytes
        Encoded, both inclusive; all keys lie between them.
    pieces : callable
        Gives all keys, in pieces; called once or twice.
    """

    name: str
    min_key: bytes
    max_key: bytes
    pieces: Callable[[], Sequence[Keys]]


@dataclass(slots=True)
class RepeatedKeys:
    """Number of keys in several sources; for the first ones, the physical values and the sources' names."""

    count: int = 0
    shown: list[tuple[tuple[Any, ...], list[str]]] = field(default_factory=list)


def repeated_keys(sources: Sequence[KeySource], limit: int) -> RepeatedKeys:
    """Keys that are in more than one source; at most `limit` of them are shown, in key order by cluster."""
    result = RepeatedKeys()
    for cluster in _clusters(sources):
        hashes = _equal_hashes(cluster)
        if not len(hashes):
            continue
        if len(hashes) > _COMPARED:
            result.count += len(hashes) - _COMPARED
            hashes = hashes[:_COMPARED]
        found = _by_value(cluster, hashes)
        result.count += len(found)
        result.shown += found[: limit - len(result.shown)]
    return result


def _clusters(sources: Sequence[KeySource]) -> Iterator[list[KeySource]]:
    """Sources whose key intervals form one stretch without a gap; single ones are left out."""
    cluster: list[KeySource] = []
    end = b""
    for source in sorted(sources, key=lambda s: s.min_key):
        if cluster and source.min_key > end:
            if len(cluster) > 1:
                yield cluster
            cluster = []
        end = max(end, source.max_key) if cluster else source.max_key
        cluster.append(source)
    if len(cluster) > 1:
        yield cluster


def _equal_hashes(cluster: Sequence[KeySource]) -> Array:
    hashes = np.concatenate([keys.hashes() for source in cluster for keys in source.pieces()])
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _by_value(cluster: Sequence[KeySource], hashes: Array) -> list[tuple[tuple[Any, ...], list[str]]]:
    names: dict[tuple[Any, ...], list[str]] = {}
    for source in cluster:
        for keys in source.pieces():
            for row in np.flatnonzero(np.isin(keys.hashes(), hashes)).tolist():
                names.setdefault(keys.values_at(row), []).append(source.name)
    return sorted((values, found) for values, found in names.items() if len(found) > 1)
