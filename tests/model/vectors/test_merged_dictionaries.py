"""Vectors of several dictionaries in one: only what the rows need is merged, and what was merged is kept."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from examples import cases
from nyala.model.types import STRING
from nyala.model.vectors import merged_dictionaries
from nyala.model.vectors.merged_dictionaries import DictionaryCache
from nyala.model.vectors.vector import Dict, Text, concat


def _dict(entries: list[str], codes: list[int], present: list[bool] | None = None) -> Dict:
    validity = None if present is None else np.array(present)
    return Dict(STRING, np.array(codes, np.uint16), pa.array(entries, pa.string()), validity, ordered=False)


@pytest.mark.parametrize("seed", range(cases(30)))
def test_the_rows_are_those_of_the_parts(seed: int) -> None:
    rng = random.Random(seed)
    parts = []
    for _ in range(rng.randint(2, 4)):
        entries = rng.sample([f"text {i}" for i in range(40)], rng.choice([0, 1, 5, 40]))
        length = rng.choice([1, 3, 100])
        codes = [rng.randrange(max(1, rng.choice([1, len(entries)]))) for _ in range(length)]
        present = [bool(entries) and rng.random() < 0.8 for _ in range(length)]
        parts.append(_dict(entries, codes, None if entries and rng.random() < 0.5 else present))
        if rng.random() < 0.3:
            parts.append(parts[-1].slice(0, 1))
    rows = [value for part in parts for value in part.to_arrow().to_pylist()]
    joined = concat(parts)
    assert joined.to_arrow().to_pylist() == rows
    if isinstance(joined, Dict) and joined.ordered:
        assert joined.dictionary.to_pylist() == sorted(joined.dictionary.to_pylist())


def test_few_rows_of_large_dictionaries_become_texts() -> None:
    first, second = (_dict([f"{n}{i}" for i in range(1000)], [5, 7]) for n in "ab")
    joined = concat([first, second])
    assert isinstance(joined, Text) and joined.to_arrow().to_pylist() == ["a5", "a7", "b5", "b7"]


def test_only_entries_that_occur_are_merged() -> None:
    first, second = (_dict([f"{n}{i}" for i in range(100)], [5, 7] * 100) for n in "ab")
    joined = concat([first, second])
    assert isinstance(joined, Dict) and joined.dictionary.to_pylist() == ["a5", "a7", "b5", "b7"]


def test_equal_dictionaries_keep_their_codes() -> None:
    first, second = (_dict(["x", "y"], [0, 1]) for _ in range(2))
    joined = concat([first, second])
    assert isinstance(joined, Dict) and joined.dictionary is first.dictionary


def test_results_are_kept_as_long_as_their_dictionaries() -> None:
    calls: list[int] = []

    def compute(dictionaries: Sequence[pa.Array]) -> int:
        calls.append(len(dictionaries))
        return len(calls)

    cache: DictionaryCache[int] = DictionaryCache(compute, lambda _: 1)
    first, second = pa.array(["a"]), pa.array(["b"])
    assert cache.get([first, second]) == cache.get([first, second]) == 1
    assert cache.get([second, first]) == 2
    assert cache.get([second]) == 3
    assert len(cache) == 3
    del first
    assert len(cache) == 1
    assert cache.get([second]) == 3


def test_results_of_many_bytes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_dictionaries, "MOST_BYTES", 100)
    computed: list[pa.Array] = []

    def compute(dictionaries: Sequence[pa.Array]) -> int:
        computed.extend(dictionaries)
        return len(dictionaries[0])

    cache: DictionaryCache[int] = DictionaryCache(compute, lambda size: size)
    small, other, large = (pa.array(["x"] * count) for count in (40, 60, 101))
    for array in (small, other, small, other, large, large):
        cache.get([array])
    assert [len(array) for array in computed] == [40, 60, 101, 101]
    third = pa.array(["x"] * 50)
    cache.get([small])  # so that the other is the least recently used
    cache.get([third])
    assert len(cache) == 2
    cache.get([small])
    assert [len(array) for array in computed] == [40, 60, 101, 101, 50]
