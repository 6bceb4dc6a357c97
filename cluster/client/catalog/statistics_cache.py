"""Cached statistics of tables: rows, sizes and statistics of their tablets, kept for seconds.

A plan needs the approximate number of rows of a table, often. A cached value is used for `KEPT_SECONDS`. After a write
of this client it is used for a shorter time, and not at all while the table is small: its count must be exact.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from ....errors import DeadlineExceeded, Error, PermissionDenied, TabletGone
from ....model.codec.values import key_from_plain
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import (
    AnalyzeResult,
    CompactionResult,
    Replica,
    TableStatistics,
    TableStorage,
    TabletDescription,
)
from ....model.waiting_time import carried
from ...raft.messages import PeerRole
from ...wire.messages.methods import (
    DescribeTablets,
    KeySamples,
    KeySamplesReply,
    TabletFacts,
    TabletFactsReply,
    WorkOnTablet,
    WorkReply,
)
from ...wire.messages.plain import sketch_from_plain, statistics_from_plain, storage_from_plain
from ..client_context import ClientContext
from ..retry import Attempts
from ..tablet_calls import TabletCalls
from .catalog_cache import CatalogCache, KnownTable
from .locations import Location, Locations
from .statistics import merged_statistics, merged_storage, summed

KEPT_SECONDS = 5.0
WRITTEN_SECONDS = 1.0
"""The same after this client has written a little to a large table."""
SMALL_ROWS = 100_000
MANY = 0.1
"""Written rows, as a share of the table's, from which on a cached entry is invalid."""
PATIENCE_SECONDS = 5.0
"""Seconds for which a plan waits for unresponsive tablets."""
WORK_SECONDS = 6 * 3600.0
"""Timeout for flushing or compacting a tablet, in seconds."""
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class CachedStatistics:
    """Statistics of the tablets of a table at one time (monotonic seconds), and the rows written until then."""

    known: KnownTable
    tablets: Mapping[str, TabletFacts]
    statistics: TableStatistics
    at: float
    written: int

    def is_fresh(self, known: KnownTable, written: int) -> bool:
        """True if the entry is still valid."""
        age, changed, rows = time.monotonic() - self.at, written - self.written, self.statistics.row_count
        if self.known is not known or age > KEPT_SECONDS:
            return False
        return not changed or (rows >= SMALL_ROWS and changed < MANY * rows and age < WRITTEN_SECONDS)


class TableStatisticsCache:
    """Cached statistics of tables. Thread-safe."""

    def __init__(self, shared: ClientContext, catalog: CatalogCache, locations: Locations, calls: TabletCalls):
        self._shared = shared
        self._catalog = catalog
        self._locations = locations
        self._calls = calls
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """By table: held while its tablets are called."""
        self._found: dict[str, CachedStatistics] = {}
        self._written: defaultdict[str, int] = defaultdict(int)
        """Rows that this client has changed so far; an estimate, so concurrent updates may be lost."""

    # ---- lookups -----------------------------------------------------------------------------------------------------

    def wrote(self, table: Table, rows: int) -> None:
        """Records that a number of rows of a table were changed."""
        self._written[table.id] += rows

    def rows_of(self, known: KnownTable) -> Mapping[str, int]:
        """Returns the approximate rows of the tablets, as far as they are cached."""
        cached = self._found.get(known.table.id)
        return {} if cached is None else {tablet_id: facts.rows for tablet_id, facts in cached.tablets.items()}

    def counted(self, known: KnownTable) -> Mapping[str, int]:
        """Returns the present number of rows of the tablets, without those that do not respond."""
        self._found.pop(known.table.id, None)
        return {tablet_id: facts.rows for tablet_id, facts in self._get(known.table).tablets.items()}

    def statistics(self, table: Table) -> TableStatistics:
        """Implements `Store.statistics`."""
        return self._get(table).statistics

    def storage(self, table: Table) -> TableStorage:
        """Implements `Store.table_storage`."""
        cached = self._get(table, anew=True)
        return merged_storage(
            cached.known.table, [(facts.rows, storage_from_plain(facts.storage)) for facts in cached.tablets.values()]
        )

    def describe(self, table: Table) -> list[TabletDescription]:
        """Implements `Store.describe_tablets`. A tablet that does not respond has no rows here."""
        cached = self._get(table, anew=True)
        known = cached.known
        locations = self._locations.of_table(known.table.id, known.tablet_ids)
        described = []
        for tablet_id, partition in zip(known.tablet_ids, known.partitioner.partitions, strict=True):
            facts = cached.tablets.get(tablet_id)
            rows, size = (0, 0) if facts is None else (facts.rows, facts.bytes)
            replicas = _replicas(locations.get(tablet_id))
            described.append(TabletDescription(tablet_id, partition.describe(), rows, size, replicas))
        return described

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[object, ...]]:
        """Implements `Store.key_samples`."""
        known = self._catalog.known(table)
        if tablet_id not in known.tablet_ids:
            raise TabletGone(f"table {known.table.name} has no tablet {tablet_id}: its range partition was dropped")
        attempts = self._shared.attempts(f"statistics of tablet {tablet_id}")
        reply = self._calls.leader(KeySamples(tablet_id=tablet_id), KeySamplesReply, known, tablet_id, attempts)
        return [key_from_plain(key) for key in reply.keys]

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _get(self, table: Table, anew: bool = False) -> CachedStatistics:
        known = self._catalog.known(table)
        called_at = time.monotonic()
        cached = self._found.get(known.table.id)
        if cached is not None and not anew and cached.is_fresh(known, self._written[known.table.id]):
            return cached
        patience = min(PATIENCE_SECONDS, self._shared.options.deadline)
        attempts = self._shared.attempts("statistics of tablets", patience)
        with suppress(DeadlineExceeded), attempts.holding(self._locks[known.table.id]):
            cached = self._found.get(known.table.id)
            if cached is not None and cached.at >= called_at and cached.known is known:
                return cached
            cached = self._found[known.table.id] = self._ask(known, cached, attempts)
            return cached
        return self._ask(known, cached, attempts)  # the calling thread waits, too; a plan continues without

    def _ask(self, known: KnownTable, before: CachedStatistics | None, attempts: Attempts) -> CachedStatistics:
        """Calls the leaders of all tablets, or other replicas if there is none."""
        at, written = time.monotonic(), self._written[known.table.id]
        tablets: dict[str, TabletFacts] = {}
        with suppress(Error):
            while True:
                missing = [tablet_id for tablet_id in known.tablet_ids if tablet_id not in tablets]
                locations = self._locations.of_table(known.table.id, known.tablet_ids, attempts.remaining)
                for facts in self._describe(locations, missing, attempts.timeout()):
                    tablets[facts.tablet_id] = facts
                missing = [tablet_id for tablet_id in missing if tablet_id not in tablets]
                if not missing:
                    break
                attempts.pause()
                for tablet_id in missing:
                    self._locations.invalidate(tablet_id)
        self._shared.check_open()
        if before is not None and before.known.table.version == known.table.version:
            tablets = {**{t: f for t, f in before.tablets.items() if t in known.tablet_ids}, **tablets}
        ordered = {tablet_id: tablets[tablet_id] for tablet_id in known.tablet_ids if tablet_id in tablets}
        parts = [statistics_from_plain(facts.statistics) for facts in ordered.values()]
        sketches = [
            {name: sketch_from_plain(data) for name, data in facts.sketches.items()} for facts in ordered.values()
        ]
        return CachedStatistics(known, ordered, merged_statistics(known.table, parts, sketches), at, written)

    def _describe(
        self, locations: Mapping[str, Location], tablet_ids: Sequence[str], seconds: float
    ) -> list[TabletFacts]:
        """Returns the statistics of those tablets that respond in time, with one message per server."""
        by_server: defaultdict[str, list[str]] = defaultdict(list)
        for tablet_id in tablet_ids:
            order = self._locations.for_leader(locations[tablet_id]) if tablet_id in locations else []
            if order:
                by_server[order[0]].append(tablet_id)

        def ask(address: str) -> tuple[TabletFacts, ...]:
            request = DescribeTablets(tablet_ids=tuple(by_server[address]))
            try:
                reply = self._shared.channels.get(address).call(request, timeout=seconds)
            except PermissionDenied:
                raise  # the rows are refused as well
            except Error:
                self._locations.shun(address)
                return ()
            assert isinstance(reply, TabletFactsReply)
            return reply.tablets

        if len(by_server) == 1:
            return list(ask(next(iter(by_server))))
        return [facts for replies in self._shared.pool.map(ask, by_server) for facts in replies]

    # ---- work ----------------------------------------------------------------------------------------------------

    def compact(self, table: Table, check: Callable[[], None] | None) -> CompactionResult:
        """Implements `Store.compact_table`: compacts every replica; the numbers are those of the leaders."""
        return CompactionResult(**self._work(table, "compact", check))

    def analyze(self, table: Table, check: Callable[[], None] | None) -> AnalyzeResult:
        """Implements `Store.analyze_table`, likewise."""
        return AnalyzeResult(**self._work(table, "analyze", check))

    def flush(self, tables: Sequence[Table]) -> int:
        """Flushes the tablets of some tables; returns the number of rows, at leaders."""
        return sum(self._work(table, "flush", None).get("rows", 0) for table in tables)

    def _work(self, table: Table, work: str, check: Callable[[], None] | None) -> dict[str, int]:
        known = self._catalog.known(table)
        work_on = carried(self._work_on)
        futures = [self._shared.pool.submit(work_on, known, tablet, work) for tablet in known.tablet_ids]
        try:
            numbers = _awaited(futures, check)
        finally:
            self._found.pop(known.table.id, None)
        return summed(numbers)

    def _work_on(self, known: KnownTable, tablet_id: str, work: str) -> Mapping[str, int]:
        attempts = self._shared.attempts(f"{work} of tablet {tablet_id}", WORK_SECONDS, None)
        request = WorkOnTablet(tablet_id=tablet_id, work=work)
        reply = self._calls.leader(request, WorkReply, known, tablet_id, attempts)
        location = self._locations.get(tablet_id, known.table.id)
        for peer in location.replicas:
            if peer.address != location.leader:
                with suppress(Error):  # maintenance does so later
                    self._shared.channels.get(peer.address).call(request, timeout=WORK_SECONDS)
        return reply.numbers


def _awaited(futures: Sequence[Future[Mapping[str, int]]], check: Callable[[], None] | None) -> list[Mapping[str, int]]:
    """Returns all results. Calls `check` while waiting; its errors propagate, and the running work at the servers then
    ends by itself."""
    try:
        while True:
            if check is not None:
                check()
            done, waiting = wait(futures, _LOOK_SECONDS if check is not None else None)
            for future in done:
                future.result()
            if not waiting:
                return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def _replicas(location: Location | None) -> tuple[Replica, ...]:
    if location is None:
        return ()
    roles = {peer.address: "FOLLOWER" if peer.role is PeerRole.VOTER else "LEARNER" for peer in location.replicas}
    if location.leader in roles:
        roles[location.leader] = "LEADER"
    return tuple(Replica(address, None, role) for address, role in roles.items())
