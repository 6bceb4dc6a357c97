"""Tables and views as the masters know them, kept by the client.

Asked for again after each DDL of its own, where a name is not known, where a server says that a table was altered, and
every second in the background while the client is in use: one short message that says "nothing new", as a rule. So
another client's DDL is seen a second later at the latest, or when it matters.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from ....errors import Error, UnknownColumn, UnknownTable, did_you_mean, quoted_name
from ....model.partitions.partition import Partitioner
from ....model.schema import Table, View
from ....storage.single_rows.row_codec import RowCodec
from ....storage.tables.catalog import CatalogEntry
from ...wire.messages.methods import CatalogReply, GetCatalog
from ...wire.messages.plain import entry_from_plain, view_from_plain
from ..retry import Attempts
from ..writes.call_ids import CallNumbers
from .masters import Masters

T = TypeVar("T")
REFRESH_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class KnownTable:
    """A version of a table with its tablets, in the order of partitions, and what is computed once of it."""

    entry: CatalogEntry

    @property
    def table(self) -> Table:
        return self.entry.table

    @property
    def tablet_ids(self) -> tuple[str, ...]:
        return self.entry.tablet_ids

    @cached_property
    def partitioner(self) -> Partitioner:
        """Routes rows to the tablets' places."""
        return Partitioner(self.table.schema, self.table.partitions)

    @cached_property
    def codec(self) -> RowCodec:
        """Converts single rows."""
        return RowCodec(self.table)


@dataclass(frozen=True, slots=True, eq=False)
class KnownCatalog:
    """All tables and views at one version, a number of this client's own (`CatalogCache`)."""

    version: int = -1
    tables: Mapping[str, KnownTable] = field(default_factory=dict)
    """By name."""
    by_id: Mapping[str, KnownTable] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)


class CatalogCache:
    """The catalog as this client knows it. Safe for several threads.

    Attributes
    ----------
    current : KnownCatalog
        Replaced as a whole. Its version is the masters' one as long as they are of one cluster; where another one has
        come to their addresses, it goes on from there: it never goes back, and is never that of another content.
    """

    def __init__(self, masters: Masters, numbers: CallNumbers | None = None):
        self.current = KnownCatalog()
        self.cluster_id = ""
        self.has_joint_writes = False
        """The server is a directory's owner, which writes to several tablets as a whole (`writes.joint_writes`)."""
        self._masters_version = -1
        """Of `current`, as the masters count."""
        self._numbers = numbers or CallNumbers()
        """Told which cluster it is."""
        self._masters = masters
        self._lock = threading.Lock()
        """Held while the masters are asked: several threads that miss the same want one answer."""
        self._asked = 0.0
        self._used = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- looking -------------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """A table by its name; `UnknownTable` names close ones, after the masters were asked."""
        found = self.current.tables.get(name)
        if found is None:
            self.refresh()
            found = self.current.tables.get(name)
        if found is None:
            known = (*self.current.tables, *self.current.views)
            raise UnknownTable(f"table {name} does not exist{did_you_mean(name, known, written=quoted_name)}")
        return found.table

    def known(self, table: Table) -> KnownTable:
        """A table as it is now; `UnknownTable` where it has been dropped."""
        found = self.current.by_id.get(table.id)
        if found is None:
            self.refresh()
            found = self.current.by_id.get(table.id)
        if found is None:
            raise UnknownTable(f"table {table.name} has been dropped")
        return found

    def fitting(self, table: Table, work: Callable[[KnownTable], T]) -> T:
        """What comes of the table as it is known; once more, with what the masters say, where it has no such column."""
        known = self.known(table)
        try:
            return work(known)
        except UnknownColumn:
            self.refresh()
            now = self.known(table)
            if now is known:
                raise
        return work(now)

    def newer(self, known: KnownTable, attempts: Attempts) -> KnownTable:
        """The table after a server said that this version is not the tablet's: waits where the masters know no newer
        one yet, or the tablet does not."""
        self.refresh()
        found = self.known(known.table)
        if found.table.version == known.table.version:
            attempts.pause()
        return found

    # ---- asking --------------------------------------------------------------------------------------------------

    def refresh(
        self, seconds: float | None = None, what: str = "a look at the catalog", patience: float | None = None
    ) -> None:
        """Ask the masters what is new, unless another thread has done so since this call began."""
        wanted = time.monotonic()
        attempts = self._masters.attempts(what, seconds, patience=patience)
        with attempts.holding(self._lock):
            if self._asked >= wanted:
                return
            asked = time.monotonic()
            while True:
                request = GetCatalog(known_version=self._masters_version)
                reply = self._masters.answer(request, CatalogReply, attempts)
                self._take(reply)
                if self._masters_version == reply.version:
                    break  # otherwise another cluster took the version for one of its own
            self._asked = asked

    def _take(self, reply: CatalogReply) -> None:
        """Make an answer the current catalog. Needs the lock."""
        if self.cluster_id and reply.cluster_id != self.cluster_id:
            # The same addresses, another cluster: nothing that is known holds any more.
            self.current = KnownCatalog(self.current.version + 1)
            self._masters_version = -1
        self.cluster_id = self._numbers.cluster = reply.cluster_id
        self.has_joint_writes = reply.joint_writes
        if reply.tables is None or reply.views is None:
            return
        known = [self._same_or_new(entry_from_plain(data)) for data in reply.tables]
        views = [view_from_plain(data) for data in reply.views]
        self.current = KnownCatalog(
            self.current.version + reply.version - self._masters_version,
            {found.table.name: found for found in known},
            {found.table.id: found for found in known},
            {view.name: view for view in views},
        )
        self._masters_version = reply.version

    def _same_or_new(self, entry: CatalogEntry) -> KnownTable:
        """The table that is known where it is still the same, so that what was computed of it is kept."""
        before = self.current.by_id.get(entry.table.id)
        if before is not None and before.table.version == entry.table.version:
            if before.table.name == entry.table.name and before.tablet_ids == entry.tablet_ids:
                return before
        return KnownTable(entry)

    # ---- in the background ---------------------------------------------------------------------------------------

    def use(self) -> None:
        """The client is in use: what it knows is looked after for the next seconds."""
        if not self._used.is_set():
            self._used.set()

    def start(self) -> None:
        """Start looking after it."""
        self._thread = threading.Thread(target=self._look_after, name="nyala-client-catalog", daemon=True)
        self._thread.start()

    def _look_after(self) -> None:
        while True:
            self._used.wait()
            self._stop.wait(REFRESH_SECONDS)
            self._used.clear()
            if self._stop.is_set():  # asked behind `clear`, which may have undone what `stop` set
                return
            # Whoever needs the masters learns by himself that they do not answer.
            with contextlib.suppress(Error):
                self.refresh(seconds=REFRESH_SECONDS)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._used.set()
        if self._thread is not None:
            self._thread.join()
