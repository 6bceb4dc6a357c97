"""Housekeeping of a store beside that of its tablets (`maintenance.background`): bulk loads and the commit log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from ...errors import DiskError
from ..log.commit_log import CommitLog
from ..maintenance.tablet_flush import flush_all
from ..tablet.tablet import Tablet
from .table_store import TableStore

COMMIT_LOG_BYTES = 64 << 20
"""Beyond this size of the commit log, tablets that keep its oldest part from being removed are flushed. About half a
million writes over several tablets."""


def finish_loads_and_commits(stores: Callable[[], Sequence[TableStore]], commits: CommitLog, syncs_logs: bool) -> None:
    """Sync the commit log if no writer waits for it, complete loads that a failing disk interrupted, remove the part of
    the commit log that is not needed. Failed steps are retried next time. `stores` returns the current tables."""
    if syncs_logs:
        with contextlib.suppress(DiskError):
            commits.sync_now()
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
