"""Requests as generators without I/O, which threads and event loops run alike.

    TabletCalls, SingleRows ─► Send ─► a reply, or its error thrown in
                            ─► Pause ─► nothing
                            ─► Work ─► what the function returns or raises
    `perform`                         in a thread: calls, sleeps, works
    `awaited_rows.perform_awaiting`   on an event loop: awaits calls and pauses, leaves the work to a thread

So replicas, retries, call ids and deadlines of single rows have one implementation. Pauses and work are rare: a
request to a known replica that responds is one `Send`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ...errors import Error
from ..wire.messages.methods import Request
from .client_context import ChannelsLike
from .speculative_reads import Backup

T = TypeVar("T")


class Send(NamedTuple):
    """Call a server; the result is its reply. With a `backup`, the reply may be that of the second call, which is sent
    if the first one has none in time."""

    address: str
    request: Request
    timeout: float
    backup: Backup | None = None


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Work(NamedTuple):
    """Call a function that may wait: for masters, or for other servers by a path that is not awaited."""

    function: Callable[[], Any]


Step: TypeAlias = Send | Pause | Work
Steps: TypeAlias = Generator[Step, Any, T]


def perform(steps: Steps[T], channels: ChannelsLike) -> T:
    """Takes the steps in this thread; returns their result."""
    try:
        step = next(steps)
        while True:
            try:
                result: Any = None
                if type(step) is Send:
                    if step.backup is None:
                        result = channels.get(step.address).call(step.request, timeout=step.timeout)
                    else:
                        result = _raced(step, step.backup, channels)
                elif type(step) is Pause:
                    time.sleep(step.seconds)
                else:
                    result = step.function()  # type: ignore[union-attr]
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


_LOOK_SECONDS: Final = 0.02
"""Interval at which the first call is looked after while the second one is waited for."""
_GLANCE_SECONDS: Final = 0.001


def _raced(step: Send, backup: Backup, channels: ChannelsLike) -> Any:
    """Returns the first reply of two calls, and cancels the other. If one fails, the other decides; if both do, raises
    the error of the first call."""
    ends = time.monotonic() + step.timeout
    channel = channels.get(step.address)
    first = channel.begin(step.request, step.timeout)
    for seconds, reserve in backup.stages:
        if first.wait(min(seconds, step.timeout)):
            return channel.finish(step.request, first, _GLANCE_SECONDS)
        if backup.is_allowed(reserve):
            break
    else:
        return channel.finish(step.request, first, max(_GLANCE_SECONDS, ends - time.monotonic()))
    try:
        other = channels.get(backup.address)
        second = other.begin(backup.request, step.timeout)
    except Error:
        return channel.finish(step.request, first, max(0.0, ends - time.monotonic()))
    try:
        while time.monotonic() < ends:
            if second.wait(_LOOK_SECONDS):
                try:
                    reply = other.finish(backup.request, second, _GLANCE_SECONDS)
                except Error:
                    break
                backup.has_won = True
                first.cancel()
                return reply
            if first.wait(_GLANCE_SECONDS):
                break
        return channel.finish(step.request, first, max(_GLANCE_SECONDS, ends - time.monotonic()))
    finally:
        second.cancel()
