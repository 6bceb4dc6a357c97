"""Threads of a server that must not end by an error: half of a server is worse than none.

In a process that runs a server alone, `wire.process.server_process` ends the process when one of its threads dies. A
server within another program (a served directory) cannot do that: it is marked as failed instead, and refuses all
calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

Failed: TypeAlias = Callable[[str, BaseException], None]
"""Called with the thread's name and the error that ended it."""


def server_thread(name: str, work: Callable[[], None], failed: Failed | None) -> threading.Thread:
    """Returns a thread, not yet started, that calls `failed` if its work ends by an error, and then ends by that
    error."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            if failed is not None:
                failed(name, error)
            raise

    return threading.Thread(target=run, name=name, daemon=True)
