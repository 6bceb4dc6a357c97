"""Each long test begins with a worker's part, and no test is lost."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st
from long_tests import parts, spread


def test_each_worker_but_the_first_begins_with_a_long_test() -> None:
    assert spread("abcdefg", "XY", 3) == list("abcXdeYfg")
    assert spread("abcdefghi", "XYZ", 3) == list("abcdXZefYghi")
    assert spread("abc", "XY", 2) == list("XYabc")
    assert spread("abc", "XY", 1) == list("XYabc")


@given(st.integers(0, 60), st.integers(0, 9), st.integers(2, 9))
def test_long_tests_are_in_turn(count: int, long: int, workers: int) -> None:
    order = spread(range(count), range(-long, 0), workers)
    assert sorted(order) == list(range(-long, count))
    assert [test for test in order if test >= 0] == list(range(count))
    if count >= workers * long:
        starts = list(accumulate(parts(len(order), workers), initial=0))
        assert starts[-1] == len(order)
        held = [sum(test < 0 for test in order[start:end]) for start, end in pairwise(starts[1:])]
        assert sum(held) == long and max(held) - min(held) <= 1
