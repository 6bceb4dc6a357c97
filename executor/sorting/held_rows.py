"""Rows that an operator collects before it produces any, and their size, under an account.

Columns that have not been read count as if they were: by their type at first, then by those of a batch that is read
early. That happens when a sixteenth, an eighth, a quarter, half of the memory is in use: a collection that is small
compared with its memory reads nothing early.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.vectors.vector import Batch
from ...sql.expressions import Column
from ..lazy import joined
from ..run.memory import Account
from ..spilling.sizes import expected_width, vector_bytes

COPIES = 2
"""Rows exist twice while they are sorted: as separate batches, and as one batch."""
_FIRST_LOOK = 16


class HeldRows:
    """Batches under an account.

    Parameters
    ----------
    columns : sequence of Column
        Contents of the batches.
    places : sequence of int
        Positions of the columns that will be read.
    account : Account
        May be shared; grows and shrinks by what is held here.
    extra : int
        Bytes per row in addition to the columns: codes of keys, row numbers.
    """

    def __init__(self, columns: Sequence[Column], places: Sequence[int], account: Account, extra: int):
        self.batches: list[Batch] = []
        self.rows = 0
        self._columns = columns
        self._places = places
        self._account = account
        self._extra = extra
        self._widths = {place: float(expected_width(columns[place].type)) for place in places}
        self._measured = dict.fromkeys(places, 0)
        """Number of rows of each column that were measured."""
        self._counted = 0
        room = account.room
        self._next_look = None if room is None else room // _FIRST_LOOK

    @property
    def width(self) -> float:
        """Bytes per row in all needed columns, as far as known."""
        return sum(self._widths.values())

    def add(self, batch: Batch) -> bool:
        """Hold one more batch; return False if the account has no room for it: then the rows must be released
        (`clear`)."""
        self.batches.append(batch)
        self.rows += batch.length
        if self._next_look is None:
            return True
        self._look(batch)
        if self._size() >= self._next_look:
            for place in self._places:
                batch.column(place)
            self._look(batch)
            self._next_look = max(2 * self._next_look, self._size())
        change = self._size() - self._counted
        if change > 0 and not self._account.grow(change):
            return False
        if change < 0:
            self._account.shrink(-change)
        self._counted += change
        return True

    def whole(self) -> Batch:
        """Return all rows as one batch; nothing further is read."""
        return joined(self._columns, self.batches)

    def clear(self) -> None:
        """Release all rows."""
        self.batches, self.rows = [], 0
        self._account.shrink(self._counted)
        self._counted = 0

    def _size(self) -> int:
        return int(self.rows * (COPIES * self.width + self._extra))

    def _look(self, batch: Batch) -> None:
        """Measure the columns that have been read."""
        for place in self._places:
            if batch.is_loaded(place) and batch.length:
                before, now = self._measured[place], batch.length
                known = self._widths[place] * before + vector_bytes(batch.column(place), now)
                self._widths[place] = known / (before + now)
                self._measured[place] = before + now
