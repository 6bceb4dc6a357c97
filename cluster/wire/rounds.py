"""One round of a server's reactor."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ...net.frame_server import gathering


class Round:
    """Sends replies at the end of a round, after what the server itself has batched."""

    __slots__ = ("_around", "_gathering")

    def __init__(self, around: AbstractContextManager[object]):
        self._around = around
        self._gathering = gathering()

    def __enter__(self) -> None:
        self._gathering.__enter__()
        self._around.__enter__()

    def __exit__(self, *exception: Any) -> None:
        try:
            self._around.__exit__(*exception)
        finally:
            self._gathering.__exit__(*exception)
