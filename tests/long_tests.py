"""The order of tests for pytest-xdist, so that no worker begins a test of minutes when the others have ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def parts(length: int, workers: int) -> Iterator[int]:
    """The sizes of the contiguous parts that the scheduler `worksteal` gives out at first."""
    for left in range(workers, 0, -1):
        yield length // left
        length -= length // left


def spread(tests: Sequence[T], long: Sequence[T], workers: int) -> list[T]:
    """All of `tests` and `long`, with the long ones at the beginning of the workers' parts, in turn.

    The first part has none: it begins with the tests of Spark's session. Few tests, or one worker's, begin with all.
    """
    if workers < 2 or len(tests) < workers * len(long):
        return [*long, *tests]
    rest, order = iter(tests), list[T]()
    for part, size in enumerate(parts(len(tests) + len(long), workers)):
        own = long[part - 1 :: workers - 1] if part else ()
        order += [*own, *islice(rest, size - len(own))]
    return order
