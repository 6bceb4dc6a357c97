"""Validation of what a transaction has read, at its COMMIT: no row that satisfies the predicates of a read, before or
after its change, was changed since the snapshot, and no row with a key that was looked up.

    snapshot ───── changes of others, decided ───── T ──── changes since, writes in flight ──── COMMIT
                        `check_decided`                       `check_latest`

The first part needs no lock, however much there is to look at. The second one runs with the `write_lock`s of all
tablets that are read from or written to, and has nothing to do as a rule. No write comes between it and the COMMIT's
own. Of two transactions at the same time, the later one finds the writes of the earlier one in memory, decided or not.

Only tablets that may have such rows are looked at, and of these only those that were written since. Values are not
compared: an UPDATE to the same values is a change. Rows that came and went since the snapshot do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...model.keys.keys import Keys
from ...model.predicates import ColumnPredicate
from ...model.schema import Table
from ..reading.changes import find_change
from ..rowsets.change_sources import LATEST
from ..tablet.row_locator import RowLocator
from ..tablet.tablet import Tablet, TabletView
from .changed_since import check_age, conflict, refuse_changed_keys


class TabletRead(Protocol):
    """Something that a transaction has read in one tablet. Both checks raise `SerializationFailure`, or `HistoryGone`
    where it is not known any more what was changed."""

    @property
    def tablet(self) -> Tablet: ...

    def check_decided(self) -> None:
        """Check the decided writes up to now; without locks, before `check_latest`."""

    def check_latest(self) -> None:
        """Check the rest, up to the writes in flight. Needs the tablet's `write_lock`."""


class PredicateRead:
    """All rows of a tablet that satisfy some predicates, of the names that its table has now."""

    def __init__(self, tablet: Tablet, predicates: Sequence[ColumnPredicate], snapshot: int):
        self.tablet = tablet
        self._predicates = predicates
        self._checked = snapshot

    def check_decided(self) -> None:
        """As `TabletRead`."""
        tablet = self.tablet
        if tablet.newest <= self._checked:
            return
        until = tablet.mvcc.newest_clean()
        if until > self._checked:
            view = tablet.view(until)
            check_age(tablet, self._checked)
            self._check(view)
            self._checked = until

    def check_latest(self) -> None:
        """As `TabletRead`."""
        tablet = self.tablet
        if tablet.newest <= self._checked:
            return
        tablet.settle()
        check_age(tablet, self._checked)
        self._check(latest_view(tablet))

    def _check(self, view: TabletView) -> None:
        key = find_change(view, self._predicates, self._checked)
        if key is not None:
            raise conflict(view.table, key)


class KeyRead:
    """The rows of a tablet with some keys, whether they were there or not."""

    def __init__(self, tablet: Tablet, table: Table, keys: Keys, snapshot: int):
        self.tablet = tablet
        self._table = table
        self._locator = RowLocator(keys)
        self._snapshot = snapshot

    def check_decided(self) -> None:
        """Searches the keys in rowsets, if anything was written."""
        if self.tablet.newest > self._snapshot:
            pin = self.tablet.pin()
            self._locator.search(pin.state)

    def check_latest(self) -> None:
        """As `TabletRead`."""
        tablet = self.tablet
        if tablet.newest <= self._snapshot:
            return
        tablet.settle()
        locations = self._locator.locate(tablet.state)
        refuse_changed_keys(tablet, self._table, self._locator, locations, self._snapshot)


def latest_view(tablet: Tablet) -> TabletView:
    """All rows of a tablet, writes in flight included. Needs its `write_lock`."""
    pin = tablet.pin()
    memory = tuple(memrowset for memrowset in pin.state.memrowsets if memrowset.row_count)
    return TabletView(pin.table, LATEST, memory, tuple(r.view(LATEST) for r in pin.state.rowsets), pin)
