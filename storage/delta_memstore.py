"""DeltaMemStore: the newest changes of one rowset, in memory: of a DiskRowSet since its last delta flush, of a MemRowSet
since its birth (its mutation lists, Kudu paper section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .deltas import DeltaKind, Deltas
from .schema import Schema


class DeltaMemStore:
    """All methods may be called from several threads; those that change it, by one at a time (the tablet's writer).

    Timestamps come in ascending order; an aborted write leaves no trace.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.count = 0
        """How many deltas, aborted ones included."""
        self.nbytes = 0
        """About the memory taken."""
        self.first_index = 0
        """Index of the log entry with the first delta; 0 while there is none."""
        self.last_index = 0
        """Index of the log entry with the newest delta."""
        self.newest = 0
        """The greatest timestamp of a delta."""
        self.created = 0.0
        """`time.monotonic` of the first delta: maintenance flushes what is old."""

    def append(self, deltas: Deltas, index: int) -> None:
        """Take over the deltas of the log entry `index`; no timestamp is below those that are here.

        Several runs with the same timestamp may come (entries of one large write); their rows differ.
        """
        raise NotImplementedError

    def append_row(self, row: int, kind: DeltaKind, values: Mapping[int, Any], timestamp: int, index: int) -> None:
        """`append` for one delta, in a few microseconds; `values` are Python values as `pa.array` takes them, by
        column id."""
        raise NotImplementedError

    def abort(self, timestamp: int) -> None:
        """Forget the deltas of a failed write."""
        raise NotImplementedError

    def snapshot(self) -> tuple[Deltas, ...]:
        """The deltas as they are now, as runs for `deltas.resolve`; later ones do not show in it."""
        raise NotImplementedError
