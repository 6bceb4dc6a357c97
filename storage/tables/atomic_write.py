"""Atomic writes: batches for one table or several, applied to all of their tablets at one timestamp, or to none of
them. A statement writes one batch, the COMMIT of a transaction one for each table that it has changed.

    each batch routed to tablets, its keys searched in their rowsets       `TableStore.routed`, `routed_rows`
    ── write locks of all tablets, by table id, then in the order of tablets ────────────────────────────────────
    tables not altered meanwhile, nothing undecided has the same keys      `AtomicWriter.apply`
    rows read by a transaction unchanged, ops resolved, conflicts found
    one timestamp; entries in all logs, changes in memory, in flight
    ── without locks ────────────────────────────────────────────────────────────────────────────────────────────
    one tablet: its log decides; several: `joint_write`                    `AtomicWriter.finish`

The order of the locks is the same for all writers, so that they cannot block each other. An ALTER of a table needs
the locks of all of its tablets: a writer or a validation that holds one of them finds the table as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import field

from ...errors import DiskError, OperationalError
from ...model.clock import HybridClock
from ...model.lazy_dataclass import dataclass
from ...model.store import RowError, Timestamp
from ..log.commit_log import CommitLog
from ..log.decision import Decision
from ..tablet.mvcc import start_together
from ..tablet.tablet import Tablet
from ..writing.joint_write import finish_together
from ..writing.tablet_part import TabletPart


@dataclass(slots=True, eq=False)
class TableBatch:
    """The rows of a batch by tablet.

    Parameters
    ----------
    parts : list of TabletPart
        In the order of tablets; probed. Empty for a table that is only read.
    errors : list of RowError
        Of rows that are refused already.
    all_or_none : bool
        If one row is refused, none is applied.
    repairs : list of callable
        Of the table: `TableStore.repairs`.
    is_current : callable
        True if the table has the layout that the rows were routed by. Called under a write lock of the table.
    """

    parts: list[TabletPart]
    errors: list[RowError]
    all_or_none: bool
    repairs: list[Callable[[], None]]
    is_current: Callable[[], bool]

    @property
    def is_refused(self) -> bool:
        """True if no row is to be applied, once the parts are checked."""
        return self.all_or_none and (bool(self.errors) or any(part.errors for part in self.parts))

    def all_errors(self) -> list[RowError]:
        """The errors of all rows, by row."""
        errors = self.errors + [error for part in self.parts for error in part.errors]
        errors.sort(key=lambda error: error.row)
        return errors


@dataclass(slots=True, eq=False)
class AppliedWrite:
    """A write in memory and in the logs, not durable yet: the parts to wait for, and why others failed. `decision` is
    there where the log of one tablet does not decide."""

    timestamp: Timestamp
    parts: list[TabletPart]
    batches: Sequence[TableBatch]
    decision: Decision | None = None
    failures: list[OperationalError] = field(default_factory=list)


class AtomicWriter:
    """Writes to tables of one store. Safe for several threads.

    Parameters
    ----------
    clock : HybridClock
    pool : Executor
        For the syncs of several logs at the same time.
    commits : CommitLog
        Decides on writes over several tablets.
    """

    def __init__(self, clock: HybridClock, pool: Executor, commits: CommitLog):
        self.commits = commits
        self._clock = clock
        self._pool = pool

    def apply(
        self,
        batches: Sequence[TableBatch],
        tablets: Sequence[Tablet],
        check_only: bool = False,
        validate: Callable[[], None] | None = None,
    ) -> AppliedWrite | Decision | None:
        """Check and apply all parts at one timestamp.

        Parameters
        ----------
        batches : sequence of TableBatch
            By table id; one per table.
        tablets : sequence of Tablet
            Those to lock, at least those of the parts: by table id, then in the order of tablets.
        check_only : bool
            Find what would be refused, and apply nothing.
        validate : callable, optional
            Called before the parts are checked, with all locks; what it raises ends the write, with nothing done.

        Returns
        -------
        AppliedWrite, Decision or None
            The decision to wait for where another write over several tablets has the same keys; None where the layout
            of a table is another one by now, or repairs are due: nothing is done then.
        """
        with ExitStack() as locks:
            for tablet in tablets:
                locks.enter_context(tablet.write_lock)
            parts: list[TabletPart] = []
            for batch in batches:
                if batch.repairs or not batch.is_current():
                    return None
                parts += batch.parts
            for part in parts:
                if (blocker := part.blocker()) is not None:
                    return blocker
            if validate is not None:
                validate()
            for part in parts:
                part.check()
            changing = [part for part in parts if part.has_changes]
            if check_only or not changing or any(batch.is_refused for batch in batches):
                return AppliedWrite(self._clock.now(), parts, batches)
            decision = None
            # A part without changes may rely on an earlier write that fails yet: then nothing must be written.
            if len(parts) > 1 and (len(changing) > 1 or any(p.relies_on_log and not p.has_changes for p in parts)):
                self.commits.check_whole()
                decision = Decision()
            for part in changing:
                part.encode(is_joint=decision is not None)
            timestamp = start_together([part.tablet.mvcc for part in changing])
            done = AppliedWrite(timestamp, [], batches, decision)
            for part in parts:
                try:
                    if part.has_changes:
                        part.apply(timestamp, decision)
                    done.parts.append(part)
                except OperationalError as error:
                    done.failures.append(error)
        return done

    def finish(self, applied: AppliedWrite) -> None:
        """Block until the applied writes are durable and visible; raises the error of a failed write."""
        parts, failures = applied.parts, applied.failures
        if applied.decision is not None:

            def repair_first() -> None:
                for batch in applied.batches:
                    batch.repairs.append(self.commits.repair)

            finish_together(
                parts, applied.timestamp, applied.decision, self.commits, self._pool, failures, on_doubt=repair_first
            )
            return
        # The logs of several tablets sync side by side.
        waiting = [self._pool.submit(_finish, part) for part in parts[1:]]
        failures += [error for part in parts[:1] if (error := _finish(part)) is not None]
        failures += [error for future in waiting if (error := future.result()) is not None]
        if failures:
            raise failures[0]


def _finish(part: TabletPart) -> DiskError | None:
    try:
        part.finish()
    except DiskError as error:
        return error
    return None
