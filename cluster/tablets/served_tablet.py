"""Interface between a server and a tablet that it serves: a replica of a cluster, or a tablet of an embedded store.

requests ──► tserver.tablet_service.TabletService ──┐
scans    ──► tserver.scans.scan_service.ScanService ─┴──► ServedTablet ◄─┬─ tablets.replica.Replica
                                                                         └─ embedded_server.tablets.EmbeddedTablet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ...model.store import AnalyzeResult, CompactionResult, Op, Timestamp, WriteBatch, WriteResult
from ...storage.tablet.tablet import Tablet, TabletView
from ..wire.messages.methods import Call, TabletFacts


class ServedTablet(Protocol):
    """A tablet as its server's handlers see it. Thread-safe.

    Deadlines are of `time.monotonic`. `schema_version` is the caller's version of the table: `StaleSchema` if the
    tablet has another, None for any. Raises `ReplicaUnavailable` if the tablet is not served any more.
    """

    @property
    def tablet(self) -> Tablet: ...

    @property
    def leader_address(self) -> str:
        """Address of the server that leads the tablet; "" if there is none to name."""

    def met(self, error: Exception) -> Exception:
        """Judges an error of files, and returns the one to raise: `ReplicaUnavailable` if another replica can help."""

    # ---- writes --------------------------------------------------------------------------------------------------

    def write(
        self,
        batch: WriteBatch,
        call: Call | None,
        *,
        deadline: float,
        schema_version: int | None = None,
        check_only: bool = False,
        is_transaction: bool = False,
    ) -> WriteResult:
        """Applies a batch. A retried call gets the result of the first one; `check_only` changes nothing;
        `is_transaction`: `unchanged_since` is the snapshot of a transaction."""

    def write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, *, deadline: float, schema_version: int | None = None
    ) -> WriteResult:
        """Like `write`, for one row of physical values by column name."""

    def take_numbers(self, count: int) -> int:
        """Reserves numbers for hidden keys of new rows, at the leader; returns the first."""

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
        """Returns the row with a primary key (None: none exists), and the timestamp as of which it was read; physical
        values in and out. Without a snapshot it is the latest."""

    def view(self, snapshot: Timestamp | None, *, deadline: float, schema_version: int | None = None) -> TabletView:
        """Returns the rows as of a timestamp, once all writes up to it are decided; None: the latest. Raises
        `HistoryGone` below the ancient history mark, `DataError` for a timestamp too far ahead."""

    # ---- statistics and maintenance ----------------------------------------------------------------------------------

    def facts(self) -> TabletFacts:
        """Returns sizes and statistics, for a planner."""

    def key_samples(self) -> Sequence[tuple[Any, ...]]:
        """Returns the keys of every 4,096th row of each DiskRowSet, ascending, as physical values."""

    def flush(self) -> int:
        """Writes the rows in memory to DiskRowSets; returns their number."""

    def compact(self, check: Callable[[], None]) -> CompactionResult:
        """Implements `Store.compact_table` for this tablet; `check` is called before each step."""

    def analyze(self, check: Callable[[], None]) -> AnalyzeResult:
        """Implements `Store.analyze_table` for this tablet; `check` is called before each step."""
