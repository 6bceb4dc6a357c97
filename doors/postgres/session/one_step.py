"""Statements on single rows in one step, for the server: their responses with errors and ReadyForQuery.

match ─┬─ a look-up ──► read ──► bytes
       └─ a write ────► start ··· durable ─► finish ─► bytes          or `run`, in a thread that may wait
"""

from __future__ import annotations

from typing import Protocol

from ....model.store import WriteResult
from ....storage.single_rows.row_write import StartedRow
from ..protocol import frontend
from .bound_values import Values
from .client_settings import ClientSettings
from .known_groups import READY, Known, KnownGroups, Match


class Conversation(Protocol):
    """A `backend.Backend`."""

    settings: ClientSettings

    @property
    def takes_groups(self) -> bool:
        """True if a group of messages begins with the next byte, and may be handled in one step."""

    def fail(self, error: Exception, kind: type) -> bytes:
        """The response to a message of a kind that has failed."""

    def sync(self) -> bytes:
        """The response to Sync."""


class OneStep:
    """See the module's page. `match`, `read` and `start` never wait.

    Parameters
    ----------
    conversation : Conversation
    groups : KnownGroups
    """

    def __init__(self, conversation: Conversation, groups: KnownGroups):
        self._conversation = conversation
        self._groups = groups

    def match(self, data: bytes, place: int = 0) -> Match | None:
        """The statement on a single row whose messages begin at a place; None if they must be handled one by one."""
        return self._groups.match(data, place) if self._conversation.takes_groups else None

    def read(self, known: Known, values: Values, ready: bytes) -> bytes | None:
        """The response to a look-up of `match`; None if its messages must be handled one by one."""
        try:
            response = self._groups.read(known, values)
        except Exception as error:
            return self._failed(known, error, ready)
        return None if response is None else response + ready

    def start(self, known: Known, values: Values) -> StartedRow | None:
        """Begins a write of `match`, see `KnownGroups.start`."""
        return self._groups.start(known, values)

    def finish(self, known: Known, outcome: WriteResult | Exception) -> bytes:
        """The response to a write that has begun."""
        try:
            return self._groups.finish(known, outcome) + READY
        except Exception as error:
            return self._failed(known, error, READY)

    def can_run(self, known: Known) -> bool:
        """True if `run` runs a write that cannot begin at once: one of a prepared statement without a timeout."""
        return not known.is_query and not self._conversation.settings.has_timeout

    def run(self, known: Known, values: Values) -> bytes:
        """The response to a write, which may wait."""
        try:
            return self._groups.run(known, values) + READY
        except Exception as error:
            return self._failed(known, error, READY)

    def _failed(self, known: Known, error: Exception, ready: bytes) -> bytes:
        if known.is_query:
            return self._conversation.fail(error, frontend.Query)
        failed = known.begun + self._conversation.fail(error, frontend.Execute)
        return failed + self._conversation.sync() if ready else failed
