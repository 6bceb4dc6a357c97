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
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..wire.messages.methods import Request
from .client_context import ChannelsLike

T = TypeVar("T")


class Send(NamedTuple):
    """Call a server; the result is its reply."""

    address: str
    request: Request
    timeout: float


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
                    result = channels.get(step.address).call(step.request, timeout=step.timeout)
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
