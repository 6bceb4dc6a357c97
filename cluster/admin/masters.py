"""Asking the leading master, for tools that need no more of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..client.catalog.masters import Masters
from ..client.client_context import ChannelsLike
from ..wire.messages.methods import Request

_ATTEMPT_SECONDS = 10.0
"""What a master has for its first answer: tools may wait longer for one that is busy than statements do."""


def ask_master(
    channels: ChannelsLike,
    masters: Sequence[str],
    request: Request,
    seconds: float = 30.0,
    patience: float | None = None,
) -> Any:
    """The leading master's answer to an idempotent request; tried again as a client does (`client.retry`), until it is
    there or `seconds` are over."""
    what = type(request).__name__
    found = Masters(channels, masters)
    return found.call(request, request.reply, what, seconds=seconds, attempt=_ATTEMPT_SECONDS, patience=patience)
