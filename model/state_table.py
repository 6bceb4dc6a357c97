"""State tables: the states of a kind of object and the moves between them, written once and enforced.

    class Door(Enum): ...

    TABLE = StateTable(Door.OPEN, {(Door.OPEN, "it is pushed"): Door.SHUT, ...})
    self._state = TABLE.checked(self._state, Door.SHUT)

The table also stands on the page of the module that uses it; `tests/test_state_tables.py` compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)


class StateTable(Generic[S]):
    """The moves of one kind of object.

    Parameters
    ----------
    first : Enum
        The state in which it is made.
    moves : mapping
        (state, event in words) -> next state.
    """

    def __init__(self, first: S, moves: Mapping[tuple[S, str], S]):
        self.first = first
        self.moves = dict(moves)
        self._pairs = frozenset((state, following) for (state, _), following in moves.items())

    def checked(self, state: S, following: S) -> S:
        """`following`; `AssertionError` if nothing leads there from `state`."""
        assert (state, following) in self._pairs, f"nothing leads from {state.name} to {following.name}"
        return following
