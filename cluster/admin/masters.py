"""Calls to the leading master, for tools that need no other part of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..client.catalog.masters import Masters
from ..client.client_context import ChannelsLike
from ..wire.messages.methods import Request

_ATTEMPT_SECONDS = 10.0
"""Seconds for a master's first reply: tools may wait longer for a busy one than statements do."""


def ask_master(
    channels: ChannelsLike,
    masters: Sequence[str],
    request: Request,
    seconds: float = 30.0,
    patience: float | None = None,
) -> Any:
    """Returns the leading master's reply to an idempotent request; retried as by a client (`client.retry`), until it
    arrives or `seconds` have passed."""
    what = type(request).__name__
    client = Masters(channels, masters)
    return client.call(request, request.reply, what, seconds=seconds, attempt=_ATTEMPT_SECONDS, patience=patience)
