"""The number of examples that a property is tried with: `@settings(max_examples=examples(200))`.

A run tries a share of them. `make test` tries new ones each time; CI (`.ci/run`) tries half as many, the same ones each
time: they have passed before, and fail if the change is wrong. `make test-long` tries all, NYALA_EXAMPLES=20 is for a
night, and `make check` tries few. So it is with seeds, `range(cases(8))`, and with the values of a parameter,
`few(KINDS)`, of which `make check` alone leaves some out, and with the steps at which work is disturbed,
`some(crashes)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

import hypothesis
import pytest

T = TypeVar("T")
USUAL = 0.4
SHARE = float(os.environ.get("NYALA_EXAMPLES", USUAL))
IS_CHECK = SHARE < 0.1
FEWEST = 4 if IS_CHECK else 15
"""No property is tried with fewer than these, or than its author's number where that is smaller."""


def examples(number: int) -> int:
    """The share of `number` examples that this run tries."""
    return max(round(number * SHARE), min(number, FEWEST))


def cases(number: int) -> int:
    """The share of `number` seeds or numbered cases that this run tries: all of them in `make test`."""
    return max(round(number * min(SHARE / USUAL, 1.0)), 1)


def some(values: Sequence[T], first: int = 0) -> Sequence[T]:
    """The share of `values` that this run tries: all of them in `make test`, otherwise those at equal distances.

    For crashes and faults at each step of some work, of which neighbours differ little. Tests that try the steps in
    several ways begin with different ones, so that together they try all.
    """
    distance = max(round(USUAL / SHARE), 1)
    return values[first % distance :: distance]


def few(values: Sequence[T], most: int = 4) -> Sequence[T]:
    """The values of a parameter that this run tries: about `most` of them in `make check`, otherwise all.

    For parameters whose cases differ in what they compute and hardly in the code that runs. The first value is always
    among them, and the others lie at equal distances.
    """
    return values[:: -(-len(values) // most)] if IS_CHECK else values


def limit_examples(items: Iterable[pytest.Item], most: int) -> None:
    """Give the properties among some tests at most `most` examples: for runs on a slower store."""
    for item in items:
        test = getattr(item, "obj", None)
        # A test that has settings of its own can be given others in this way alone.
        if (own := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
            fewer = hypothesis.settings(own, max_examples=min(own.max_examples, most))
            test._hypothesis_internal_use_settings = fewer  # type: ignore[union-attr]
