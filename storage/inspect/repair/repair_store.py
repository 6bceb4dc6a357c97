"""The repair of a store: steps that lose nothing, a second check, then the rows of damaged tablets, saved elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from ....errors import DiskError, OperationalError
from ....model.lazy_dataclass import dataclass
from ...files.filesystem import FileSystem
from ...log.wal_format import EntryKind, decode_header
from ...tables.catalog import Catalog, CatalogEntry
from ..check.check_store import check_store
from ..check.findings import Report
from ..dump.dump_log import good_entries
from ..files import read_file
from ..salvage import Salvage, salvage_table
from .repair_steps import Step, find_steps

SaveRows = Callable[[CatalogEntry, str, Salvage], str]
"""Writes the rows of one tablet: its table, its id, the rows. Returns the name of what it wrote."""


@dataclass(frozen=True, slots=True)
class SavedTablet:
    """A damaged tablet: where its readable rows were written ("" before), and what is lost of it, a line each."""

    table: str
    tablet_id: str
    saved_as: str
    lost: tuple[str, ...]


@dataclass(slots=True)
class Repair:
    """The outcome of a repair, or of one that is proposed.

    Parameters
    ----------
    is_done : bool
        False: nothing was changed or written.
    steps : list of Step
    failed : list of str
        Steps that could not be executed, with the reason.
    tablets : list of SavedTablet
        Those that stay damaged.
    remaining : Report
        The check after the steps.
    """

    is_done: bool
    remaining: Report
    steps: list[Step] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    tablets: list[SavedTablet] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A line for each step and each damaged tablet."""
        done = [f"repair: {step.describe(self.is_done)}" for step in self.steps]
        done += [f"repair: failed: {line}" for line in self.failed]
        for tablet in self.tablets:
            name = f"tablet {tablet.tablet_id} of table {tablet.table}"
            if not self.is_done:
                done.append(f"repair: would save the readable rows of {name}; its files stay as they are")
                continue
            done.append(f"repair: saved the readable rows of {name} as {tablet.saved_as}; its files stay as they are")
            done += [f"lost: {line}" for line in tablet.lost]
        if not done:
            done.append("repair: nothing to do" if self.remaining.is_clean else "repair: nothing can be done")
        return done

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "done": self.is_done,
            "steps": [{"kind": step.kind, "path": step.path, "why": step.why} for step in self.steps],
            "failed": self.failed,
            "tablets": [
                {"table": t.table, "tablet": t.tablet_id, "saved_as": t.saved_as, "lost": list(t.lost)}
                for t in self.tablets
            ],
            "remaining": self.remaining.to_dict(),
        }


def propose_repair(fs: FileSystem, directory: str, report: Report) -> Repair:
    """The repair that a store needs, from the report of its check; nothing is changed."""
    directory = directory.rstrip("/") or "/"
    repair = Repair(False, report, find_steps(fs, directory))
    repaired = {step.path for step in repair.steps}
    for entry, tablet_id in _damaged(fs, directory, report, repaired):
        repair.tablets.append(SavedTablet(entry.table.name, tablet_id, "", ()))
    return repair


def repair_store(fs: FileSystem, directory: str, save: SaveRows) -> Repair:
    """Repair a store that is not open.

    Files with data are neither changed nor removed. `save` receives the readable rows of each tablet that is damaged
    after the steps. `StoreLocked` if a process has the store open, `OperationalError` if there is none.
    """
    directory = directory.rstrip("/") or "/"
    if not fs.exists(f"{directory}/tables") and not fs.exists(f"{directory}/catalog"):
        raise OperationalError(f"{directory} is no nyala store: it holds neither catalog nor tables/")
    lock = fs.lock(f"{directory}/LOCK")
    steps, failed = [], []
    try:
        for step in find_steps(fs, directory):
            try:
                step.execute(fs)
                steps.append(step)
            except DiskError as error:
                failed.append(f"{step.path}: {error}")
    finally:
        lock.release()
    repair = Repair(True, check_store(fs, directory), steps, failed)
    for entry, tablet_id in _damaged(fs, directory, repair.remaining, set()):
        salvage = salvage_table(fs, directory, entry.table.name, [tablet_id])
        saved_as = save(entry, tablet_id, salvage)
        repair.tablets.append(SavedTablet(entry.table.name, tablet_id, saved_as, tuple(salvage.lost)))
    return repair


def _damaged(fs: FileSystem, directory: str, report: Report, repaired: set[str]) -> list[tuple[CatalogEntry, str]]:
    """The tablets that errors are about, but for errors of files that are repaired: all tablets of a table if the error
    is the table's; those with parts of writes over several tablets in their logs, if it is the commit log's."""
    try:
        entries = Catalog.read(fs, f"{directory}/catalog").entries.values()
    except OperationalError:
        return []
    paths = [error.path for error in report.errors if error.path not in repaired]
    if repaired:
        # Without its Bloom filter a rowset is left out of the replay, so the log's changes of its rows are errors, too.
        folders = {path.rpartition("/rowsets/")[0] for path in repaired}
        paths = [path for path in paths if not (path.endswith("/wal") and path.removesuffix("/wal") in folders)]
    commits = f"{directory}/commits"
    is_undecided = any(path == commits or path.startswith(f"{commits}/") for path in paths)
    damaged = []
    for entry in entries:
        table = f"{directory}/tables/{entry.table.id}"
        of_table = any(path == table or path.startswith(f"{table}/load-") for path in paths)
        for tablet_id in entry.tablet_ids:
            folder = f"{table}/{tablet_id}"
            of_tablet = any(path == folder or path.startswith(f"{folder}/") for path in paths)
            if of_table or of_tablet or (is_undecided and _has_parts(fs, f"{folder}/wal")):
                damaged.append((entry, tablet_id))
    return damaged


def _has_parts(fs: FileSystem, directory: str) -> bool:
    """True if a log has parts of writes over several tablets, or cannot be read."""
    try:
        for name in fs.list(directory):
            path = f"{directory}/{name}"
            data = memoryview(read_file(fs, path))
            entries, damage = good_entries(data, decode_header(data, path), path)
            if damage or any(entry.kind is EntryKind.PART for entry in entries):
                return True
    except OperationalError:
        return True
    return False
