"""Chains of backups: selects those that restore a table as of a time, and the times that they cover.

    000001 full          000002 incremental      000003 full         000004 incremental
        t1 ─────────────────── t2                    t3 ─────────────────── t4
        └── any moment between ┘      not covered     └── any moment between ┘

A chain is a full backup and incremental ones, each of which continues the previous one. The backup that *covers* a
timestamp is the first one at or after it. Its definitions apply, because changes up to it were read with them, and a
read of an earlier snapshot returns the current columns too. Its tablets also apply: rows of a tablet that no longer
exists were dropped with their range partition, which no change records.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..driver.tables.timestamps import Moment
from ..errors import DataError, InterfaceError, OperationalError, UnknownTable, did_you_mean
from ..model.clock import format_timestamp, make_timestamp, split_timestamp
from ..model.lazy_dataclass import dataclass
from ..model.schema import Table
from ..model.store import Timestamp
from ..model.types import TIMESTAMP
from .manifest import Backup, Kind, SavedFile, SavedTable


@dataclass(frozen=True, slots=True)
class Chain:
    """A full backup and those that continue it, in order; it covers any time from the first snapshot to the last."""

    backups: tuple[Backup, ...]

    @property
    def first(self) -> Timestamp:
        return self.backups[0].snapshot

    @property
    def last(self) -> Timestamp:
        return self.backups[-1].snapshot

    def until(self, moment: Timestamp) -> Chain:
        """The chain up to the backup that covers a timestamp."""
        place = next(place for place, backup in enumerate(self.backups) if backup.snapshot >= moment)
        return Chain(self.backups[: place + 1])


@dataclass(frozen=True, slots=True)
class FileOfChain:
    """A file, its path below the directory of the backups, and the definition of its columns: that of the backup that
    it belongs to."""

    path: str
    file: SavedFile
    definition: Table


@dataclass(frozen=True, slots=True)
class TableChain:
    """The input of one restored table: its definition, and the files of each tablet, rows before changes."""

    definition: Table
    tablets: tuple[tuple[FileOfChain, ...], ...]

    @property
    def files(self) -> list[FileOfChain]:
        """The files of all tablets."""
        return [file for files in self.tablets for file in files]


def chains(backups: Sequence[Backup]) -> list[Chain]:
    """The chains among backups, which are in order; incremental ones whose parent is missing are left out."""
    found: list[list[Backup]] = []
    for backup in backups:
        if backup.parent is None:
            found.append([backup])
            continue
        mine = next((chain for chain in found if _goes_on(chain[-1], backup)), None)
        if mine is not None:
            mine.append(backup)
    return [Chain(tuple(chain)) for chain in found]


def _goes_on(parent: Backup, backup: Backup) -> bool:
    return parent.id == backup.parent and parent.snapshot == backup.since


def chain_at(backups: Sequence[Backup], moment: Moment | None) -> tuple[Chain, Timestamp]:
    """The chain that restores tables as of a time (None: the last backup), and the timestamp in hybrid time.

    Raises `DataError` with the covered times if no chain covers it; `OperationalError` if there is no backup.
    """
    known = chains(backups)
    if not known:
        raise OperationalError("there is no full backup here; make one with: nyala backup STORE DEST")
    at = known[-1].last if moment is None else _hybrid(moment, backups)
    for chain in reversed(known):
        if chain.first <= at <= chain.last:
            return chain.until(at), at
    spans = "; ".join(f"{format_timestamp(c.first)} to {format_timestamp(c.last)}" for c in known)
    raise DataError(f"no backup covers {format_timestamp(at)}; covered: {spans}")


def _hybrid(moment: Moment, backups: Sequence[Backup]) -> Timestamp:
    """A timestamp in hybrid time: for a text or datetime, the end of its microsecond, or the snapshot that lies in
    it."""
    if isinstance(moment, bool):
        raise InterfaceError(f"{moment!r} is not a point in time")
    if isinstance(moment, int):
        return Timestamp(moment)
    microseconds = TIMESTAMP.to_physical(moment)
    within = [backup.snapshot for backup in backups if split_timestamp(backup.snapshot)[0] == microseconds]
    return max(within, default=make_timestamp(microseconds, 4095))


# ---- the tables of a chain -------------------------------------------------------------------------------------------


def table_chains(chain: Chain, at: Timestamp, names: Sequence[str] | None = None) -> list[TableChain]:
    """The input of each table of a chain, or of the named ones, by name.

    Raises `UnknownTable` for an unknown name. Raises `DataError` for a table that was dropped before the covering
    backup was made, if it is named or `names` is None: its existence at that time is not known.
    """
    covering = chain.backups[-1]
    wanted = [table for table in covering.tables if names is None or table.definition.name in names]
    lost = _lost(chain, at)
    known = [table.definition.name for table in covering.tables]
    for name in names or ():
        if name in known:
            continue
        if name not in lost:
            raise UnknownTable(f"the backup holds no table {name}{did_you_mean(name, known, 'it holds')}")
    gone = sorted(lost if names is None else set(lost) & set(names))
    if gone:
        before = format_timestamp(chain.backups[-2].snapshot)
        raise DataError(
            f"table {', '.join(gone)} was dropped before the backup that covers this moment was made: it can be "
            f"restored as it was at {before}, and the others by naming them"
        )
    return [_table_chain(chain, saved) for saved in wanted]


def _lost(chain: Chain, at: Timestamp) -> list[str]:
    """Names of the tables that the covering backup lacks, although the one before it has them."""
    if len(chain.backups) < 2 or at == chain.last:
        return []
    before, covering = chain.backups[-2:]
    return [t.definition.name for t in before.tables if covering.table_by_id(t.definition.id) is None]


def _table_chain(chain: Chain, saved: SavedTable) -> TableChain:
    parts: list[tuple[Backup, SavedTable]] = []
    for backup in reversed(chain.backups):
        part = backup.table_by_id(saved.definition.id)
        if part is None:
            raise OperationalError(f"backup {backup.number} lacks table {saved.definition.name}, which later ones have")
        parts.append((backup, part))
        if part.base is not None:
            break
    ordered = [
        FileOfChain(f"{backup.folder}/{file.path}", file, part.definition)
        for backup, part in reversed(parts)
        for kind in _KINDS
        for file in part.files
        if file.kind == kind
    ]
    tablets = (tuple(f for f in ordered if f.file.tablet == tablet) for tablet in saved.tablets)
    return TableChain(saved.definition, tuple(files for files in tablets if files))


_KINDS: tuple[Kind, ...] = ("rows", "changes")
