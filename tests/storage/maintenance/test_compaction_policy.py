"""Which rowsets are merged, and which deltas: the policies alone, on sizes and key intervals."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.storage.keys.key_spans import RowSetExtent, key_spans
from nyala.storage.maintenance.compaction_policy import APPROXIMATION, CompactionPolicy
from nyala.storage.maintenance.delta_policy import MOST_FILES, major_columns, major_score, minor_compaction, minor_score

MIB = 1 << 20
POLICY = CompactionPolicy(budget_bytes=256 * MIB, target_bytes=64 * MIB)


def rowset(low: float, high: float, mebibytes: float) -> RowSetExtent:
    """A rowset whose keys reach from `low` to `high`, between 0 and 1."""
    return RowSetExtent(*(int(place * (1 << 60)).to_bytes(8, "big") for place in (low, high)), int(mebibytes * MIB))


SIZES = st.integers(1, 100)


@st.composite
def layouts(draw, most=7, sizes=SIZES):
    places = st.integers(0, 40)
    ends = draw(st.lists(st.tuples(places, places), min_size=0, max_size=most))
    return [rowset(min(a, b) / 41, (max(a, b) + 1) / 41, draw(sizes)) for a, b in ends]


# ---- key space ---------------------------------------------------------------------------------------------------


@given(layouts())
def test_spans_measure_keys_by_the_data_in_them(rowsets):
    spans = key_spans(rowsets)
    sizes = np.array([r.size for r in rowsets], np.float64)
    assert np.all(spans.widths >= sizes - 1)  # at least its own data
    assert np.all(spans.widths <= spans.total + 1)
    assert spans.total == sizes.sum()
    for a, b in combinations(range(len(rowsets)), 2):
        apart = rowsets[a].max_key < rowsets[b].min_key or rowsets[b].max_key < rowsets[a].min_key
        if apart:
            overlap = min(spans.stops[a], spans.stops[b]) - max(spans.starts[a], spans.starts[b])
            assert overlap <= 1


def test_average_height_is_the_number_of_lookups():
    beside = [rowset(i / 10, (i + 0.9) / 10, 64) for i in range(10)]
    assert key_spans(beside).average_height == pytest.approx(1)
    assert key_spans([rowset(0, 1, size) for size in (10, 20, 30)]).average_height == pytest.approx(3)
    # Of 100 MiB, 75 lie under one rowset and 25 under two of them: half of the first, and all of the second.
    assert key_spans([rowset(0, 1, 80), rowset(0, 0.25, 20)]).average_height == pytest.approx(1.4)


def test_one_key_is_a_place_and_shared_prefixes_are_passed_over():
    point = RowSetExtent(b"x" * 200 + b"m", b"x" * 200 + b"m", 10)
    spans = key_spans([RowSetExtent(b"x" * 200 + b"a", b"x" * 200 + b"y", 90), point])
    assert spans.widths.tolist() == pytest.approx([100, 10])


# ---- rowset compaction -------------------------------------------------------------------------------------------


@settings(max_examples=examples(400))
@given(layouts(), st.sampled_from([64, 150, 256]))
def test_choices_are_within_the_budget_pay_and_are_close_to_the_best(rowsets, budget):
    policy = CompactionPolicy(budget * MIB, 64 * MIB)
    spans = key_spans(rowsets)
    sizes = np.array([r.size for r in rowsets], np.float64)
    best = 0.0
    for count in range(2, len(rowsets) + 1):
        for chosen in combinations(range(len(rowsets)), count):
            units = sum(int(np.ceil(rowsets[place].size / (budget * MIB / 256))) for place in chosen)
            if units <= 256:
                best = max(best, policy.evaluate(spans, sizes, np.array(chosen))[1] / spans.total)
    choice = policy.choose(rowsets)
    if choice is None:
        assert best <= 0.01  # sizes are rounded up to units in the search
        return
    assert len(choice.rowsets) >= 2
    assert choice.size == sum(rowsets[place].size for place in choice.rowsets) <= budget * MIB
    assert choice.score > 0
    assert best <= choice.score * APPROXIMATION + 0.01
    assert choice.score <= choice.bound


@given(st.integers(2, 60), st.integers(60, 100))
def test_full_rowsets_beside_each_other_are_left_alone(count, mebibytes):
    assert POLICY.choose([rowset(i / count, (i + 0.9) / count, mebibytes) for i in range(count)]) is None


def test_rowsets_over_the_same_keys_are_merged():
    choice = POLICY.choose([rowset(0, 1, 60) for _ in range(4)] + [rowset(0, 1, 300)])
    assert choice is not None
    assert choice.rowsets == (0, 1, 2, 3)
    assert choice.height_after == pytest.approx(choice.height_before - 3)


def test_a_sliver_of_new_data_does_not_rewrite_the_rest():
    beside = [rowset(i / 10, (i + 0.9) / 10, 64) for i in range(10)]
    assert POLICY.choose([*beside, rowset(0, 1, 2)]) is None
    slivers = POLICY.choose([*beside, *(rowset(0, 1, 2) for _ in range(5))])
    assert slivers is not None
    assert slivers.rowsets == (10, 11, 12, 13, 14)  # among themselves


def test_small_neighbours_do_not_stay_for_ever():  # KUDU-1400
    count = 100
    small = POLICY.choose([rowset(i / count, (i + 0.9) / count, 1) for i in range(count)])
    assert small is not None
    assert small.rowsets == tuple(range(count))
    # A rowset that has grown waits until what comes behind it is worth writing it again.
    grown = [rowset(0, 0.5, 40)]
    assert POLICY.choose([*grown, rowset(0.6, 0.7, 1)]) is None
    behind = [rowset(0.6 + i / 30, 0.6 + (i + 0.9) / 30, 1) for i in range(10)]
    choice = POLICY.choose([*grown, *behind])
    assert choice is not None
    assert 0 not in choice.rowsets


@given(layouts(most=12, sizes=st.integers(1, 64)))
def test_merging_comes_to_an_end(rowsets):
    for _ in range(40):
        choice = POLICY.choose(rowsets)
        if choice is None:
            return
        merged = [rowsets[place] for place in choice.rowsets]
        kept = [r for place, r in enumerate(rowsets) if place not in choice.rowsets]
        low, high = min(r.min_key for r in merged), max(r.max_key for r in merged)
        edges = [int.from_bytes(low, "big"), int.from_bytes(high, "big")]
        pieces = max(1, round(choice.size / POLICY.target_bytes))
        cuts = [int(edges[0] + (edges[1] - edges[0]) * i / pieces).to_bytes(8, "big") for i in range(pieces + 1)]
        rowsets = kept + [RowSetExtent(a, b, choice.size // pieces) for a, b in pairwise(cuts)]
    raise AssertionError("40 merges of 12 rowsets")


def test_a_thousand_rowsets_are_no_trouble():
    random = np.random.default_rng(3)
    ends = np.sort(random.random((1000, 2)), axis=1)
    choice = POLICY.choose([rowset(a, b, int(random.integers(1, 64))) for a, b in ends])
    assert choice is not None
    assert choice.size <= POLICY.budget_bytes
    assert choice.bound <= 1.3 * choice.score


# ---- deltas ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 10_000), max_size=20))
def test_minor_compactions_join_files_of_like_size(sizes):
    run = minor_compaction(sizes)
    assert (run is None) == (minor_score(sizes) == 0)
    if run is None:
        assert len(sizes) <= MOST_FILES
        return
    joined = sizes[run.start : run.stop]
    assert len(joined) == len(run) >= 3
    assert len(sizes) > MOST_FILES or 2 * max(joined) <= sum(joined)


def test_few_files_remain_and_each_delta_is_rarely_rewritten():
    sizes: list[int] = []
    written = 0
    for _ in range(1000):
        sizes.append(10)
        run = minor_compaction(sizes)
        if run is not None:
            joined = sum(sizes[run.start : run.stop])
            sizes[run.start : run.stop] = [joined]
            written += joined
        assert len(sizes) <= MOST_FILES
    assert written < 10 * 10_000


def test_major_compactions_take_the_columns_with_many_new_values():
    assert major_columns(1000, {1: 99, 2: 100, 3: 5000}) == (2, 3)
    assert major_columns(1000, {}) == ()
    assert major_columns(0, {1: 0}) == ()
    assert major_score(1000, {1: 99, 2: 100, 3: 5000}, (2, 3)) == 1.0
    assert major_score(1000, {2: 100}, (2,)) == 0.1
