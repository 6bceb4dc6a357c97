"""Common parts of commands about one tablet server: its name, calls of the masters about it, waits with reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import DeadlineExceeded
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import Request
from .masters import ask_master
from .names import Names

POLL_SECONDS = 0.1
TELL_SECONDS = 5.0
"""Seconds between two reports of what is left."""


class OneServer:
    """A tablet server of a cluster with these masters.

    Parameters
    ----------
    server : str
        As `Names` takes it.
    local : mapping of str to str
        As for `Names`.

    Attributes
    ----------
    name : str
        Its name for people.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], server: str, local: Mapping[str, str] | None = None):
        self._channels = channels
        self._masters = masters
        self._names = Names(channels, masters, local)
        self._server = self._names.server(server)
        self.name = self._names.of(self._server.address)

    def _ask_master(self, request: Request) -> Any:
        return ask_master(self._channels, self._masters, request)

    def _wait_while(
        self, left: Callable[[], str], say: Callable[[str], None], seconds: float | None, late: Callable[[str], str]
    ) -> None:
        """Returns when nothing is left.

        Parameters
        ----------
        left : callable
            Returns what is left, for people; "" for nothing.
        say : callable
            Called with that at once, and every `TELL_SECONDS`.
        seconds : float, optional
            `DeadlineExceeded` is raised afterwards; None: never.
        late : callable
            Makes its text of what is left.
        """
        began = reported = time.monotonic()
        while found := left():
            now = time.monotonic()
            if seconds is not None and now - began >= seconds:
                raise DeadlineExceeded(late(found))
            if reported == began or now - reported >= TELL_SECONDS:
                reported = now
                say(f"waiting for {self.name}: {found}")
            time.sleep(POLL_SECONDS)
