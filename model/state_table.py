"""States and what leads from one to the next, as a table that is written down once and held to.

class Door(Enum): ...
TABLE = StateTable(Door.OPEN, {(Door.OPEN, "it is pushed"): Door.SHUT, ...})
self._state = TABLE.checked(self._state, Door.SHUT)
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
