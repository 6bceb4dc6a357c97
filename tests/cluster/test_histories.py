"""The checker of histories: compared with a search through all orders, and by undisputed cases."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from histories import History, Operation, is_linearizable
from hypothesis import given
from hypothesis import strategies as st


def write(value: Any, start: float, end: float = math.inf) -> Operation:
    return Operation("k", True, value, start, end, end < math.inf)


def read(value: Any, start: float, end: float) -> Operation:
    return Operation("k", False, value, start, end, True)


@pytest.mark.parametrize(
    ("operations", "is_right"),
    [
        ([write(1, 0, 1), read(1, 2, 3)], True),
        ([write(1, 0, 1), read(None, 2, 3)], False),
        ([write(1, 0, 4), read(None, 1, 2), read(1, 2, 3)], True),
        ([write(1, 0, 4), read(1, 1, 2), read(None, 2.5, 3)], False),  # a read that goes back
        ([write(1, 0), read(None, 1, 2), read(1, 9, 10)], True),  # never answered, and yet executed
        ([write(1, 0), read(1, 1, 2), read(None, 9, 10)], False),
        ([write(1, 0, 3), write(2, 1, 4), read(2, 5, 6), read(1, 7, 8)], False),
        ([read(7, 0, 1), write(7, 2, 3)], False),  # from the future
    ],
)
def test_cases(operations: list[Operation], is_right: bool) -> None:
    assert is_linearizable(operations) is is_right


def test_a_session_may_read_the_past_but_never_backwards() -> None:
    first, second = write(1, 0, 1), write(2, 2, 3)
    history = History([first, second])
    old = history.session_read("k", 1, None)
    assert is_linearizable(history.operations)
    new = history.session_read("k", 2, old)
    assert is_linearizable(history.operations)
    history.session_read("k", 1, new)
    assert not is_linearizable(history.operations)


def test_a_session_reads_what_it_has_written() -> None:
    first, own, later = write(1, 0, 1), write(2, 2, 3), write(3, 4, 5)
    for value, is_right in ((None, False), (1, False), (2, True), (3, True)):
        history = History([first, own, later])
        history.session_read("k", value, own)
        assert is_linearizable(history.operations) is is_right


def by_brute_force(operations: list[Operation]) -> bool:
    """Checks every choice of unanswered writes, in every order."""
    known = [o for o in operations if o.is_known]
    unknown = [o for o in operations if not o.is_known]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations([*known, *chosen]):
                if is_in_order(order) and explains(order):
                    return True
    return False


def is_in_order(order: tuple[Operation, ...]) -> bool:
    for place, operation in enumerate(order):
        before = order[:place]
        if not all(other.start <= operation.end for other in before):
            return False
        if operation.behind is not None and operation.behind not in before:
            return False
    return True


def explains(order: tuple[Operation, ...]) -> bool:
    value = None
    for operation in order:
        if operation.is_write:
            value = operation.value
        elif operation.value != value:
            return False
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    found = []
    for number in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, 12))
        end = start + draw(st.integers(1, 5))
        if draw(st.booleans()):
            found.append(write(number, start, math.inf if draw(st.integers(0, 3)) == 0 else end))
        else:
            operation = read(draw(st.sampled_from([None, 0, 1, 2, 3, 4])), start, end)
            earlier = [other for other in found if other.is_known and other.end <= start]
            if earlier and draw(st.booleans()):
                operation.behind = draw(st.sampled_from(earlier))
                operation.start = operation.behind.start
            found.append(operation)
    return found


@given(histories())
def test_as_a_search_through_all_orders(operations: list[Operation]) -> None:
    assert is_linearizable(operations) == by_brute_force(operations)
