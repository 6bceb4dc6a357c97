"""The end of a write over several tablets: all parts durable, one COMMIT, all parts visible. See `commit_log`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from ...errors import DiskError, OperationalError, OutcomeUnknown, StoreClosed
from ..log.commit_log import CommitLog
from ..log.decision import Decision
from ..log.wal import cause_of
from ..tablet.mvcc import commit_together
from .tablet_part import TabletPart


def finish_together(
    parts: Sequence[TabletPart],
    timestamp: int,
    decision: Decision,
    commits: CommitLog,
    pool: Executor,
    failures: Sequence[OperationalError] = (),
    on_doubt: Callable[[], None] = lambda: None,
) -> None:
    """Block until the parts are durable, commit them, and let readers see them.

    Parameters
    ----------
    parts : sequence of TabletPart
        Those that were applied at the timestamp, and those without changes, whose result relies on their logs.
    timestamp : int
    decision : Decision
        Of all parts; decided when this ends, however it ends.
    commits : CommitLog
    pool : Executor
        For the syncs of several logs at the same time.
    failures : sequence of OperationalError
        Why other parts could not be applied: nothing is to be committed.
    on_doubt : callable
        Called before readers and writers can meet the undone rows where the COMMIT may still be on the disk: it must
        see to it that the tables are not written before that is settled.

    Raises
    ------
    DiskError, StoreClosed
        Nothing of the write has happened, nor will.
    OutcomeUnknown
        Nothing of it is visible, but the next opening of the store may find all of it.
    """
    is_in_doubt, tablets = False, len(parts) + len(failures)
    try:
        if not failures:
            failures = _sync_logs(parts, pool)
        if not failures:
            failures = _commit(parts, timestamp, decision, commits)
            is_in_doubt = any(isinstance(failure, OutcomeUnknown) for failure in failures)
            if is_in_doubt:
                on_doubt()
    finally:
        if not decision.is_decided:
            _abort(parts, decision)
    if failures:
        first = failures[0]
        raise first if is_in_doubt else _nothing_written(first, tablets)


def _sync_logs(parts: Sequence[TabletPart], pool: Executor) -> list[OperationalError]:
    waiting = [pool.submit(part.await_log) for part in parts[1:]]
    failures = [parts[0].await_log(), *(future.result() for future in waiting)]
    return [failure for failure in failures if failure is not None]


def _commit(
    parts: Sequence[TabletPart], timestamp: int, decision: Decision, commits: CommitLog
) -> list[OperationalError]:
    changing = [part for part in parts if part.has_changes]
    try:
        ticket = commits.append(timestamp, {part.tablet.id: part.last_entry for part in changing})
    except OperationalError as error:
        return [error]
    try:
        commits.sync(ticket)
    except OperationalError as error:
        return [error]
    finally:
        if ticket.durable:
            commit_together([part.tablet.mvcc for part in changing], timestamp)
            decision.commit()
    return []


def _abort(parts: Sequence[TabletPart], decision: Decision) -> None:
    for part in parts:  # an entry that is neither durable nor failed could not be undone
        part.await_log()
    decision.abort()
    for part in parts:
        with part.tablet.write_lock:
            part.tablet.settle()


def _nothing_written(failure: OperationalError, tablets: int) -> OperationalError:
    """The error of a write that was aborted for certain, whatever is known of the part that failed."""
    if isinstance(failure, StoreClosed):
        return failure
    cause = cause_of(failure)
    kind = type(cause) if isinstance(cause, DiskError) else DiskError
    error = kind(f"{cause}; nothing was written to any of the {tablets} tablets")
    error.__cause__ = failure
    return error
