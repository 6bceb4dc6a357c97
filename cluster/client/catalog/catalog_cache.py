"""Tables and views of the masters' catalog, cached by the client.

The cache is refreshed after each DDL of this client, for an unknown name, and when a server reports that a table was
altered. While the client is in use, it is also refreshed every second in the background, usually by one short message
that reports no change. So another client's DDL is seen after one second at the latest, or when it matters.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TypeVar

from ....errors import Error, SchemaChanged, UnknownColumn, UnknownTable
from ....model.access.roles import Access
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import DEFAULT_NAMESPACE, Namespace
from ....model.partitions.partition import Partitioner
from ....model.schema import Table, View
from ....storage.single_rows.row_codec import RowCodec
from ....storage.tables.catalog import CatalogEntry, did_you_mean_table
from ...wire.messages.access_plain import access_from_plain
from ...wire.messages.methods import CatalogReply, GetCatalog
from ...wire.messages.plain import entry_from_plain, namespace_from_plain, view_from_plain
from ..retry import Attempts
from ..writes.call_ids import CallIds
from .masters import Masters

T = TypeVar("T")
REFRESH_SECONDS = 1.0


_NO_USERS = Access()


@dataclass(frozen=True, eq=False)
class KnownTable:
    """A version of a table with its tablets, in the order of partitions, and objects that are computed once from it."""

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
    namespaces: Sequence[Namespace] = (Namespace(DEFAULT_NAMESPACE),)
    """By name, ascending, with the default one."""
    access: Access = _NO_USERS


class CatalogCache:
    """The client's cached catalog. Thread-safe.

    Attributes
    ----------
    current : KnownCatalog
        Replaced as a whole. Its version is the masters' one as long as they belong to one cluster. If another cluster
        has taken their addresses, it continues from there: it never goes back, and never repeats for another content.
    """

    def __init__(self, masters: Masters, numbers: CallIds | None = None):
        self.current = KnownCatalog()
        self.cluster_id = ""
        self.has_joint_writes = False
        """The server is an embedded server, which writes to several tablets as a whole (`writes.joint_writes`)."""
        self._masters_version = -1
        """Of `current`, in the masters' numbering."""
        self._numbers = numbers or CallIds()
        """Called with the cluster's id."""
        self._masters = masters
        self._lock = threading.Lock()
        """Held while the masters are called: threads that miss the same entry share one reply."""
        self._asked = 0.0
        """When the last call that the masters have answered began (monotonic)."""
        self._failed = 0.0
        """When `recent` last had no answer."""
        self._used = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- lookups -----------------------------------------------------------------------------------------------------

    def recent(self) -> KnownCatalog:
        """The catalog as of the last second, also after an idle time, in which nothing refreshes it. While the masters
        do not respond it is the last known one, as at tablet servers."""
        if time.monotonic() - max(self._asked, self._failed) > REFRESH_SECONDS:
            try:
                self.refresh(seconds=REFRESH_SECONDS)
            except Error:
                self._failed = time.monotonic()
        return self.current

    def table(self, name: str) -> Table:
        """Returns a table by its name; after a call to the masters, `UnknownTable` suggests similar names."""
        entry = self.current.tables.get(name)
        if entry is None:
            self.refresh()
            entry = self.current.tables.get(name)
        if entry is None:
            known: list[Table | View] = [
                *(found.table for found in self.current.tables.values()),
                *self.current.views.values(),
            ]
            raise UnknownTable(f"table {name} does not exist{did_you_mean_table(name, known)}")
        return entry.table

    def known(self, table: Table) -> KnownTable:
        """Returns the latest known version of a table; raises `UnknownTable` if it has been dropped."""
        entry = self.current.by_id.get(table.id)
        if entry is None:
            self.refresh()
            entry = self.current.by_id.get(table.id)
        if entry is None:
            raise UnknownTable(f"table {table.name} has been dropped")
        return entry

    def fitting(self, table: Table, work: Callable[[KnownTable], T]) -> T:
        """Returns the result of a function of the known table; called again with the refreshed table if a column is
        missing or another one: the caller's version of the table may be newer than the known one."""
        known = self.known(table)
        try:
            return work(known)
        except (UnknownColumn, SchemaChanged):
            self.refresh()
            now = self.known(table)
            if now is known:
                raise
        return work(now)

    def newer(self, known: KnownTable, attempts: Attempts) -> KnownTable:
        """Returns the newer version of a table after a server refused this one: waits until the masters have it, or the
        tablet does."""
        self.refresh()
        latest = self.known(known.table)
        if latest.table.version == known.table.version:
            attempts.pause()
        return latest

    # ---- calls to the masters ----------------------------------------------------------------------------------------

    def refresh(
        self, seconds: float | None = None, what: str = "a refresh of the catalog", patience: float | None = None
    ) -> None:
        """Refreshes the catalog, unless another thread has done so since this call began."""
        since = time.monotonic()
        attempts = self._masters.attempts(what, seconds, patience=patience)
        with attempts.holding(self._lock):
            if self._asked >= since:
                return
            called_at = time.monotonic()
            while True:
                request = GetCatalog(known_version=self._masters_version)
                reply = self._masters.answer(request, CatalogReply, attempts)
                self._take(reply)
                if self._masters_version == reply.version:
                    break  # otherwise another cluster took the version for one of its own
            self._asked = called_at

    def _take(self, reply: CatalogReply) -> None:
        """Makes a reply the current catalog. Needs the lock."""
        if self.cluster_id and reply.cluster_id != self.cluster_id:
            # The same addresses, another cluster: no cached entry is valid any more.
            self.current = KnownCatalog(self.current.version + 1)
            self._masters_version = -1
        self.cluster_id = self._numbers.cluster = reply.cluster_id
        self.has_joint_writes = reply.joint_writes
        if reply.tables is None or reply.views is None:
            return
        known = [self._same_or_new(entry_from_plain(data)) for data in reply.tables]
        views = [view_from_plain(data) for data in reply.views]
        namespaces = [namespace_from_plain(data) for data in reply.namespaces]
        access = _NO_USERS if reply.access is None else access_from_plain(reply.access)
        self.current = KnownCatalog(
            self.current.version + reply.version - self._masters_version,
            {found.table.name: found for found in known},
            {found.table.id: found for found in known},
            {view.name: view for view in views},
            sorted([Namespace(DEFAULT_NAMESPACE), *namespaces], key=lambda namespace: namespace.name),
            self.current.access if access == self.current.access else access,
        )
        self._masters_version = reply.version

    def _same_or_new(self, entry: CatalogEntry) -> KnownTable:
        """Returns the cached table if it is unchanged, so that derived objects are kept."""
        before = self.current.by_id.get(entry.table.id)
        if before is not None and before.table.version == entry.table.version:
            if before.table.name == entry.table.name and before.tablet_ids == entry.tablet_ids:
                return before
        return KnownTable(entry)

    # ---- in the background ---------------------------------------------------------------------------------------

    def use(self) -> None:
        """Marks the client as in use: the catalog is refreshed in the background for the next seconds."""
        if not self._used.is_set():
            self._used.set()

    def start(self) -> None:
        """Starts the background refresh."""
        self._thread = threading.Thread(target=self._look_after, name="nyala-client-catalog", daemon=True)
        self._thread.start()

    def _look_after(self) -> None:
        while True:
            self._used.wait()
            self._stop.wait(REFRESH_SECONDS)
            self._used.clear()
            if self._stop.is_set():  # requested after `clear`, which may have undone what `stop` set
                return
            # A thread that needs the masters detects by itself that they do not respond.
            with contextlib.suppress(Error):
                self.refresh(seconds=REFRESH_SECONDS)

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._used.set()
        if self._thread is not None:
            self._thread.join()
