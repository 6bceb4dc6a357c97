"""The one protocol by which servers serve a tablet: a replica of a cluster, or a tablet of an embedded store.

requests ──► tserver.tablet_service.TabletService ──┐
scans    ──► tserver.scans.scan_service.ScanService ─┴──► ServedTablet ◄─┬─ tablets.replica.Replica
                                                                         └─ embedded_server.tablets.OwnedTablet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ...model.store import AnalyzeResult, CompactionResult, Op, Timestamp, WriteBatch, WriteResult
from ...storage.tablet.tablet import Tablet, TabletView
from ..wire.messages.methods import Call, TabletFacts


class ServedTablet(Protocol):
    """A tablet as its server's handlers see it. Safe for several threads.

    Deadlines are of `time.monotonic`. `schema_version` is the version of the table that the caller knows: `StaleSchema`
    where the tablet has another, None where that does not matter. `ReplicaUnavailable` where the tablet is not served
    any more.
    """

    @property
    def tablet(self) -> Tablet: ...

    @property
    def leader_address(self) -> str:
        """Address of the server that leads the tablet; "" if there is none to name."""

    def met(self, error: Exception) -> Exception:
        """Judge an error of files, and return the one to raise: `ReplicaUnavailable` where another replica can help."""

    # ---- writes --------------------------------------------------------------------------------------------------

    def write(
        self,
        batch: WriteBatch,
        call: Call | None,
        *,
        deadline: float,
        schema_version: int | None = None,
        check_only: bool = False,
    ) -> WriteResult:
        """Apply a batch. A call that comes again is answered as the first one; `check_only` changes nothing."""

    def write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, *, deadline: float, schema_version: int | None = None
    ) -> WriteResult:
        """`write` for one row of physical values by column name."""

    # ---- reads ---------------------------------------------------------------------------------------------------

    def read_row(
        self,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        *,
        deadline: float,
        schema_version: int | None = None,
    ) -> tuple[tuple[Any, ...] | None, Timestamp]:
        """The row with a primary key, physical values in and out (None: there is none), and the timestamp at which that
        was so. Without a snapshot it is the latest."""

    def view(self, snapshot: Timestamp | None, *, deadline: float, schema_version: int | None = None) -> TabletView:
        """The rows as of a timestamp, once all writes up to it are decided; None: the latest. `HistoryGone` where the
        past is forgotten, `DataError` for a timestamp too far ahead."""

    # ---- facts and maintenance -----------------------------------------------------------------------------------

    def facts(self) -> TabletFacts:
        """Sizes and statistics, for a planner."""

    def key_samples(self) -> Sequence[tuple[Any, ...]]:
        """The keys of every 4,096th row of each DiskRowSet, ascending, as physical values."""

    def flush(self) -> int:
        """Write the rows in memory to DiskRowSets; their number."""

    def compact(self, check: Callable[[], None]) -> CompactionResult:
        """`Store.compact_table` for this tablet; `check` is called before each step."""

    def analyze(self, check: Callable[[], None]) -> AnalyzeResult:
        """`Store.analyze_table` for this tablet; `check` is called before each step."""
