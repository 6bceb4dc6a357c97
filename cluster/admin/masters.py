"""Asking the leading master, for tools that need no more of a client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...errors import AuthenticationFailed, ClusterError, DeadlineExceeded, NotTheLeader
from ..wire.methods import Request
from ..wire.rpc import Channels

_PAUSE_SECONDS = 0.1


def ask_master(channels: Channels, masters: Sequence[str], request: Request, seconds: float = 30.0) -> Any:
    """The leading master's answer to an idempotent request; tried again, at all masters in turn, until it is there.
    `DeadlineExceeded` tells what the last one said; `AuthenticationFailed` where that is what stands between all of
    them and this side."""
    end = time.monotonic() + seconds
    waiting = list(masters)
    last: ClusterError | None = None
    while True:
        is_mixed = False
        for address in waiting:
            left = end - time.monotonic()
            if left <= 0 and last is not None:
                raise DeadlineExceeded(f"no master of {', '.join(masters)} has answered: {last}") from last
            try:
                return channels.get(address).call(request, timeout=max(0.1, min(left, 10.0)))
            except AuthenticationFailed as error:
                last = error
            except NotTheLeader as error:
                last, is_mixed = error, True
                if error.leader and error.leader != address:
                    waiting = [error.leader, *(other for other in masters if other != error.leader)]
                    break
            except ClusterError as error:
                if not error.retryable:
                    raise
                last, is_mixed = error, True
        else:
            if isinstance(last, AuthenticationFailed) and not is_mixed:
                raise last
            waiting = list(masters)
        time.sleep(_PAUSE_SECONDS)
