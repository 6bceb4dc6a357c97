"""The forms of a join's index against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.joins import join_index
from nyala.executor.joins.join_index import DirectSlots, HashSlots, JoinIndex, RankedSlots


def pairs_of(index: JoinIndex, probe: np.ndarray) -> list[tuple[int, int]]:
    return sorted((int(p), int(b)) for probe_rows, rows in index.pairs(probe) for p, b in zip(probe_rows, rows))


@pytest.mark.parametrize("form", [DirectSlots, RankedSlots, HashSlots])
@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 400).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.integers(-1, size - 1), max_size=80),
            st.lists(st.integers(-1, size - 1), max_size=80),
        )
    )
)
def test_every_form_finds_what_a_dict_finds(form: type, case: tuple[int, list[int], list[int]]) -> None:
    size, build, probe = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_index, "_ALWAYS_DIRECT", size if form is DirectSlots else 0)
        patch.setattr(join_index, "_MOST_DIRECT", 0)
        patch.setattr(join_index, "_ALWAYS_RANKED", size if form is RankedSlots else 0)
        patch.setattr(join_index, "_MOST_RANKED", 0)
        index = JoinIndex(np.array(build, np.int64), size)
    present = [code for code in build if code >= 0]
    if present:
        assert isinstance(index._slots, form)
    codes = np.array(probe, np.int64)
    expected = [(p, b) for p, code in enumerate(probe) for b, other in enumerate(build) if code == other >= 0]
    assert pairs_of(index, codes) == sorted(expected)
    assert index.has(codes).tolist() == [code in present for code in probe]
    assert index.is_unique == (len(set(present)) == len(present))
    if index.is_unique:
        assert index.find(codes).tolist() == [build.index(code) if code in present else -1 for code in probe]


def test_bits_are_the_same_however_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.random.default_rng(1).choice(64 * 50, 900, replace=False)
    one_by_one = join_index._bit_words(places, 50)
    monkeypatch.setattr(join_index, "_FEW_BITS", 0)
    assert join_index._bit_words(places, 50).tolist() == one_by_one.tolist()


def test_far_apart_keys_take_little_memory() -> None:
    codes = np.arange(0, 8_000_000, 1000, dtype=np.int64)
    assert JoinIndex(codes, 8_000_000).bytes < 2 << 20


@pytest.mark.parametrize("step", [1, 7, 3600, 60_000_000, 3_600_000_000, 86_400_000_000, 1 << 16, 1 << 32, 3 << 40])
@pytest.mark.parametrize("series", [1, 150, 7350])
def test_arithmetic_progressions_do_not_pile_up(step: int, series: int) -> None:
    length = 7350 // series
    size = min(step * (length - 1) + 1, (1 << 62) // series)
    codes = (np.arange(series)[:, None] * size + np.arange(length) * step).ravel()
    codes = np.unique(codes & ((1 << 62) - 1))
    slots = HashSlots(codes)
    probes = slots.probes()
    # Random codes at this load: 1.4 on average, 15 at most.
    assert len(probes) == len(codes)
    assert probes.mean() < 1.6
    assert probes.max() < 40
    assert slots.find(codes).tolist() == list(range(len(codes)))
