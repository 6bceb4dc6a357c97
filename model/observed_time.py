"""Causality between clients: a timestamp of one client that another one observes, so that it reads what the first has
written and read.

    first client    write, read ─► now() ─► token, an integer that any message can carry
    second client   observe(token) ─► every later statement reads at or above it

Within one process's store no token is needed: its clock is above every acknowledged write.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..errors import DataError, InterfaceError
from .clock import END, format_timestamp
from .store import Store, Timestamp


@runtime_checkable
class Observer(Protocol):
    """A store with a clock of its own besides those of its servers."""

    def observe(self, timestamp: Timestamp) -> None:
        """Advances the clock; `ClockTooFarAhead` for a timestamp that no server accepts."""


def checked_token(token: object) -> Timestamp:
    """Returns a token; `InterfaceError` for any value that is no hybrid timestamp."""
    if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token <= END:
        raise InterfaceError(
            f"{token!r} is no token: pass a hybrid timestamp, as `now()` and `last_timestamp` return it"
        )
    return Timestamp(token)


def observe(store: Store, timestamp: Timestamp) -> None:
    """Has every later read of a store be at or above a timestamp. Raises `DataError` for a timestamp that the store, if
    it has no servers, has never returned."""
    if isinstance(store, Observer):
        store.observe(timestamp)
    elif timestamp > (now := store.now()):
        raise DataError(
            f"cannot observe the timestamp {timestamp}: the clock of this store shows {format_timestamp(now)} ({now}), "
            "so it is another store's"
        )
