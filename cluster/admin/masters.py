"""Asking the leading master, for tools that need no more of a client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...errors import AuthenticationFailed, ClusterError, ConnectionRefused, DeadlineExceeded, NotTheLeader
from ..wire.methods import Request
from ..wire.rpc import Channels

_PAUSE_SECONDS = 0.1


def ask_master(
    channels: Channels,
    masters: Sequence[str],
    request: Request,
    seconds: float = 30.0,
    patience: float | None = None,
) -> Any:
    """The leading master's answer to an idempotent request; tried again, at all masters in turn, until it is there.
    `DeadlineExceeded` tells what the last one said, after `patience` seconds where nobody was there all the while;
    `AuthenticationFailed` where that is what stands between all of them and this side."""
    heard = time.monotonic()
    end = heard + seconds
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
                last, heard = error, time.monotonic()
            except ConnectionRefused as error:
                last, is_mixed = error, True
            except NotTheLeader as error:
                last, is_mixed, heard = error, True, time.monotonic()
                if error.leader and error.leader != address:
                    waiting = [error.leader, *(other for other in masters if other != error.leader)]
                    break
            except ClusterError as error:
                if not error.retryable:
                    raise
                last, is_mixed, heard = error, True, time.monotonic()
        else:
            if patience is not None and time.monotonic() - heard >= patience and isinstance(last, ConnectionRefused):
                where = ", ".join(masters)
                raise DeadlineExceeded(f"no master is there, after {patience:g} s of asking {where}: {last}") from last
            if isinstance(last, AuthenticationFailed) and not is_mixed:
                raise last
            waiting = list(masters)
        time.sleep(_PAUSE_SECONDS)
