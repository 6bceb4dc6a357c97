"""A tablet in quarantine: its files could not be trusted when the store was opened, and are left as they are.

It stands in the place of the tablet among those of its table, so that all others work. Whatever needs its rows gets a
`CorruptionError` that names table, tablet and file. Nothing of its folder is written or removed, but by DROP.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from errno import EBADMSG, EIO, EISDIR, ENOENT, ENOTDIR, EUCLEAN
from typing import NoReturn

import pyarrow as pa

from ...errors import CorruptionError, DiskError, Error, InternalError, OperationalError
from ...model.clock import HybridClock
from ...model.schema import Table
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..log.wal import LogMark, LogTicket
from ..log.wal_format import EntryKind
from ..rowsets.memrowset import MemRowSet
from .mvcc import MvccManager
from .tablet import StoreOptions, Tablet, TabletState
from .tablet_metadata import TabletMetadata

_log = logging.getLogger("nyala.storage")
_UNREADABLE = frozenset({EIO, ENOENT, ENOTDIR, EISDIR, EUCLEAN, EBADMSG})
"""Reasons of the system that are those of the file, not of the process or the machine."""


def damage_in(error: Exception, directory: str) -> CorruptionError | None:
    """The damage that an error at the opening of the tablet in `directory` shows; None where it is no damage: a newer
    format, a full disk, too many open files."""
    if isinstance(error, CorruptionError):
        return error
    if isinstance(error, DiskError):
        return CorruptionError(str(error), directory, "files") if error.errno in _UNREADABLE else None
    if isinstance(error, OperationalError):
        return None
    if not isinstance(error, Error) or isinstance(error, InternalError):
        # Bytes with good checksums that their reader does not expect.
        _log.debug("the tablet in %s cannot be opened", directory, exc_info=error)
    return CorruptionError(f"cannot be read: {type(error).__name__}: {error}", directory, "files")


class DamagedTablet(Tablet):
    """See the module's page; made by `damaged_tablet`."""

    @property
    def state(self) -> TabletState:
        """Not known: raises `CorruptionError`, for every reader, writer and maintenance operation."""
        self.refuse()

    @state.setter
    def state(self, state: TabletState) -> None:
        """There is none to be kept."""

    def close(self) -> None:
        """Nothing is open."""

    def close_files(self) -> None:
        """Nothing is open."""


def damaged_tablet(
    fs: FileSystem,
    directory: str,
    tablet_id: str,
    table: Table,
    damage: CorruptionError,
    *,
    cache: PageCache,
    clock: HybridClock,
    options: StoreOptions,
) -> Tablet:
    """The tablet in quarantine, in the place of the one that cannot be opened because of `damage`; logs that."""
    _log.error("table %s: tablet %s is in quarantine, all others work: %s", table.name, tablet_id, damage)
    return DamagedTablet(
        id=tablet_id,
        table=table,
        fs=fs,
        directory=directory,
        cache=cache,
        options=options,
        metadata=TabletMetadata(tablet_id),
        state=TabletState.of(MemRowSet(table.schema), None, (), cache),
        log=_UnreadLog(),
        mvcc=MvccManager(clock),
        damage=damage,
    )


class _UnreadLog:
    """The log of a tablet in quarantine, which is not looked at: a `TabletLog` without entries that takes none."""

    last_index = synced_index = finished_index = size = 0

    def size_from(self, index: int) -> int:
        return 0

    def append(
        self,
        timestamp: int,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None = None,
        context: object = None,
    ) -> NoReturn:
        raise InternalError("a write has reached the log of a tablet in quarantine")

    def sync(self, ticket: LogTicket, context: object = None) -> None: ...

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        return 0

    def mark(self) -> LogMark:
        return LogMark(0)

    def sync_now(self) -> None: ...

    def repair(self) -> None: ...

    def change_schema(self, schema: pa.Schema) -> None: ...

    def remove_through(self, index: int) -> None: ...

    def close(self) -> None: ...
