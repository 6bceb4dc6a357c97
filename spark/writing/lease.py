"""The lease on the publication of a job: at most one process publishes it at a time.

The owner of a record in state `publishing` renews it every few seconds. One that has not been renewed for
`ABANDONED_SECONDS` is abandoned: the next run of the job takes it over. The owner itself stops long before that, when
it could not renew the record for `LEASE_SECONDS`. So the two do not write at the same time.

    renewed ───────── 10 s ── renewed ──────────────── 40 s: the owner stops ─────────── 90 s: others may take over

If the owner was a process of this machine that no longer exists, there is no wait.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final

from ...errors import Error, OperationalError
from .jobs import JobRecord, Jobs, State

RENEW_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40.0
ABANDONED_SECONDS: Final = 90.0
_OWNER: Final = re.compile(r"(?P<machine>.*)/(?P<process>\d+)/[0-9a-f]+")


def owner_name() -> str:
    """A new name for the publisher in this process: `machine/process/random`."""
    return f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex[:12]}"


def _machine() -> str:
    """The host, and an id that distinguishes its process numbers from a container's."""
    space = ""
    with suppress(OSError):
        space = re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
    return f"{socket.gethostname()}{space and '-'}{space}"


def is_abandoned(record: JobRecord, now: datetime) -> bool:
    """True if the owner of a publication is dead or has not renewed it, at the store's time `now`."""
    if now - record.updated > timedelta(seconds=ABANDONED_SECONDS):
        return True
    named = _OWNER.fullmatch(record.owner)
    if named is None or named["machine"] != _machine():
        return False
    try:
        os.kill(int(named["process"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class Lease:
    """A publication that this process owns; a context manager that renews the record in the background.

    Parameters
    ----------
    record : JobRecord
        The record from `Jobs.change`, in state `publishing`.
    clock : callable
        Seconds, monotonic; for tests.
    """

    def __init__(self, jobs: Jobs, record: JobRecord, clock: Callable[[], float] = time.monotonic):
        self._jobs = jobs
        self._record = record
        self._clock = clock
        self._renewed = clock()
        self._lost = False
        self._changing = threading.Lock()
        self._counting = threading.Lock()
        self._over = threading.Event()
        self._published = record.published
        self._thread = threading.Thread(target=self._renew_often, name="nyala-spark-lease", daemon=True)

    @property
    def record(self) -> JobRecord:
        """The record as last written."""
        return self._record

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raises `OperationalError` if another process may own the job by now; to be called before each write."""
        if self._lost or self._clock() - self._renewed > LEASE_SECONDS:
            raise OperationalError(
                f"job {self._record.job}: its record could not be renewed for {LEASE_SECONDS:.0f} seconds, or another "
                "process has taken it over; its rows are published when it is run again with the same key"
            )

    def add(self, rows: int) -> None:
        """Counts rows that have changed the target."""
        with self._counting:
            self._published += rows

    @property
    def published(self) -> int:
        """The rows counted so far."""
        return self._published

    def finish(self, state: State, message: str | None = None) -> JobRecord:
        """Ends the publication as `published` or `aborted`. Raises `OperationalError` if another process has taken
        it over."""
        with self._changing:
            return self._change(state, message)

    def renew(self) -> None:
        """Writes the record again, with the rows counted so far."""
        with self._changing:
            if not self._over.is_set() and not self._lost:
                self._change(State.PUBLISHING, None)

    def _change(self, state: State, message: str | None) -> JobRecord:
        # The few rows are no longer needed once it has ended.
        kept = self._record.few if state is State.PUBLISHING else None
        while True:
            at = self._clock()
            after = replace(self._record, state=state, published=self._published, message=message, few=kept)
            changed = self._jobs.change(self._record, after)
            if changed is not None:
                self._record, self._renewed = changed, at
                return changed
            # An earlier change of this process may have been applied although its outcome was unknown.
            current = self._jobs.find(self._record.job)
            if current is None or (current.owner, current.state) != (self._record.owner, State.PUBLISHING):
                self._lost = True
                self.check()
            else:
                self._record = current

    def _renew_often(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            # A failed renewal is retried; `check` reports when the lease has expired.
            with suppress(Error):
                self.renew()
