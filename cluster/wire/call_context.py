"""A call as its handler sees it, and its sender."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ... import errors
from ...model.access.holders import Holder
from ...net.frame_server import FramedClient
from .messages.envelope import Caller


class Origin(Protocol):
    """The sender of a call or scan."""

    @property
    def identity(self) -> str:
        """Of the caller's certificate; "" without TLS."""

    @property
    def address(self) -> str:
        """The caller's address."""

    @property
    def room(self) -> int:
        """Bytes of a reply that can be sent without waiting for its reader, as far as is known."""

    def is_cancelled(self) -> bool:
        """True if no caller waits for the reply any more."""

    def is_of_account(self, check: Callable[[str], bool]) -> bool:
        """The result of a check of the caller's address, remembered as long as its connection is known to last."""


class CallOrigin:
    """The origin of one call on a framed connection."""

    __slots__ = ("_client", "_number")

    def __init__(self, client: FramedClient, number: int):
        self._client = client
        self._number = number

    @property
    def identity(self) -> str:
        """See `Origin`."""
        return self._client.identity

    @property
    def address(self) -> str:
        """See `Origin`."""
        return self._client.address

    @property
    def room(self) -> int:
        """See `Origin`."""
        return self._client.room

    def is_cancelled(self) -> bool:
        """See `Origin`."""
        return self._client.is_cancelled(self._number)

    def is_of_account(self, check: Callable[[str], bool]) -> bool:
        """See `Origin`."""
        if self._client.is_of_account is None:
            self._client.is_of_account = check(self._client.address)
        return self._client.is_of_account


class CallContext:
    """A call as its handler sees it: the caller, and its deadline."""

    __slots__ = ("_is_stopped", "_origin", "caller", "deadline", "holder", "token")

    def __init__(
        self, caller: Caller, deadline: float, origin: Origin, is_stopped: Callable[[], bool], token: bytes = b""
    ):
        self.caller = caller
        self.deadline = deadline
        """By `time.monotonic`."""
        self.token = token
        """Of the caller's login; empty: none."""
        self.holder: Holder | None = None
        """The user, where the server has checked it before its handlers; None: all rights."""
        self._origin = origin
        self._is_stopped = is_stopped

    @property
    def identity(self) -> str:
        """Of the caller's certificate; "" without TLS."""
        return self._origin.identity

    @property
    def address(self) -> str:
        """The caller's address."""
        return self._origin.address

    def is_of_account(self, check: Callable[[str], bool]) -> bool:
        """See `Origin`."""
        return self._origin.is_of_account(check)

    def remaining(self) -> float:
        """Seconds until the caller's deadline; not below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def is_cancelled(self) -> bool:
        """True if the call has no waiting caller any more. Long work checks it now and then."""
        return time.monotonic() >= self.deadline or self._is_stopped() or self._origin.is_cancelled()

    @property
    def room(self) -> int:
        """Bytes of a reply that can be sent without waiting for its reader, as far as is known."""
        return self._origin.room

    def check(self) -> None:
        """Raises `DeadlineExceeded` or `Cancelled` if the call has no waiting caller any more."""
        if time.monotonic() >= self.deadline:
            raise errors.DeadlineExceeded("the call's deadline passed before it was done")
        if self.is_cancelled():
            raise errors.Cancelled("the call was cancelled")
