"""The log as a tablet uses it: the embedded store's `WriteAheadLog`, or a cluster's replicated one.

An entry is *decided* when it is durable, or failed: in the embedded store by its fsync, in a cluster by a majority of
the replicas, or by a later leader that did not have it. Until then what it did in memory is in flight (`mvcc`) and can
be taken back (`LoggedWrite.undo`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from .wal import LogTicket
from .wal import MustWait as MustWait
from .wal_format import EntryKind


class LogPlace(Protocol):
    """A position in the log: after entry `index`, which is final once the writes before it are decided."""

    @property
    def index(self) -> int: ...


class WriteContext:
    """The deadline and the encoding of a write that a caller waits for: of a call to a cluster (`cluster.tablets`).

    It is passed with the write. Without one, the entry is logged unchanged, and the log decides how long `sync` waits:
    such callers may hold the tablet's `write_lock`.

    Parameters
    ----------
    deadline : float, optional
        Time (`time.monotonic`) at which `sync` raises `DeadlineExceeded`.
    waits : bool
        False: the writer must not wait. An append that would have to raises `MustWait`, with nothing done.
    """

    def __init__(self, deadline: float | None = None, waits: bool = True):
        self.deadline = deadline
        self.waits = waits

    def encode(self, timestamp: int, kind: EntryKind, body: bytes) -> tuple[EntryKind, bytes]:
        """Return the kind and the body with which the write, encoded as `kind` and `body`, is logged."""
        return kind, body

    def appended(self, ticket: LogTicket) -> None:
        """Called with the ticket of the entry, before it may count as decided, under the tablet's `write_lock`."""


class TabletLog(Protocol):
    """All methods may be called from several threads. `last_index`, `mark` and `synced_index` are about entries whose
    effects are in the tablet's memory; what a follower has received and not applied is not among them."""

    @property
    def last_index(self) -> int: ...

    @property
    def synced_index(self) -> int: ...

    @property
    def finished_index(self) -> int: ...

    @property
    def size(self) -> int: ...

    def size_from(self, index: int) -> int: ...

    def append(
        self,
        timestamp: int,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None = None,
        context: WriteContext | None = None,
    ) -> LogTicket: ...

    def sync(self, ticket: LogTicket, context: WriteContext | None = None) -> None: ...

    def decided(self, tickets: Iterable[LogTicket]) -> int: ...

    def mark(self) -> LogPlace: ...

    def sync_now(self) -> None: ...

    def repair(self) -> None: ...

    def change_schema(self, schema: pa.Schema) -> None: ...

    def remove_through(self, index: int) -> None: ...

    def close(self) -> None: ...
