"""The number of examples that a property is tried with: `@settings(max_examples=examples(200))`.

A run tries a share of them. NYALA_EXAMPLES=1 tries all, NYALA_EXAMPLES=20 is for a night; `make check` tries few. So it
is with seeds, `range(cases(8))`, and with the values of a parameter, `few(KINDS)`, which a usual run tries all.
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
FEWEST = 15 if SHARE >= 0.1 else 4
"""No property is tried with fewer than these, or than its author's number where that is smaller."""


def examples(number: int) -> int:
    """The share of `number` examples that this run tries."""
    return max(round(number * SHARE), min(number, FEWEST))


def cases(number: int) -> int:
    """The share of `number` seeds or numbered cases that this run tries: all of them in a usual run."""
    return max(round(number * min(SHARE / USUAL, 1.0)), 1)


def few(values: Sequence[T], most: int = 4) -> Sequence[T]:
    """The values of a parameter that this run tries: all in a usual run, about `most` of them in a shorter one.

    For parameters whose cases differ in what they compute and hardly in the code that runs. The first value is always
    among them, and the others lie at equal distances.
    """
    return values if SHARE >= USUAL else values[:: -(-len(values) // most)]


def limit_examples(items: Iterable[pytest.Item], most: int) -> None:
    """Give the properties among some tests at most `most` examples: for runs on a slower store."""
    for item in items:
        test = getattr(item, "obj", None)
        # A test that has settings of its own can be given others in this way alone.
        if (own := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
            fewer = hypothesis.settings(own, max_examples=min(own.max_examples, most))
            test._hypothesis_internal_use_settings = fewer  # type: ignore[union-attr]
