"""Small jobs that must not wait for a long operation: done about once a second, and before and after `maintain`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from ...errors import DiskError
from ..log.commit_log import CommitLog
from ..maintenance.manager import note_logs, remove_retired, sync_logs
from ..maintenance.tablet_flush import flush_all
from ..tablet.tablet import Tablet
from .table_store import TableStore

COMMIT_LOG_BYTES = 64 << 20
"""Beyond this size of the commit log, tablets that keep its oldest part from being removed are flushed. About half a
million writes over several tablets."""


def keep_house(stores: Callable[[], Sequence[TableStore]], commits: CommitLog, durability: str) -> None:
    """Sync logs without waiting writers, remove unused files, complete steps that a failing disk interrupted. Failed
    steps are retried next time. `stores` returns the current tables."""
    tablets = [tablet for store in stores() for tablet in store.whole_tablets]
    if durability == "os":
        sync_logs(tablets)
        with contextlib.suppress(DiskError):
            commits.sync_now()
    note_logs(tablets)
    remove_retired(tablets)
    for store in stores():
        with contextlib.suppress(DiskError):
            store.finish_loads()
    with contextlib.suppress(DiskError):
        commits.repair()
        commits.forget(lambda: {tablet.id: tablet.metadata.replay_index for s in stores() for tablet in s.tablets})


def flush_commit_holders(tablets: Sequence[Tablet], commits: CommitLog) -> None:
    """If the commit log is large, flush the tablets that keep its oldest segments from being removed."""
    if commits.size <= COMMIT_LOG_BYTES:
        return
    holders = set(commits.holders())
    with contextlib.suppress(DiskError):
        for tablet in tablets:
            if tablet.id in holders:
                flush_all(tablet)
