"""Kinds of handlers of a server (`server.RpcServer`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...model.vectors.vector import Batch
from ...net.frame_server import FramedClient
from .call_context import CallContext
from .calls.deferred_replies import Answer
from .messages.methods import Reply, ScanEnd, ScanTablet

AtOnce = Callable[[Any, "CallContext"], "Reply | None"]
"""Returns the reply to a request, in the reactor's thread, which must not wait. None, with nothing done, if it would
have to wait: the handler then does it. Its error is the reply."""
Later = Callable[[Any, "CallContext", Answer], bool]
"""Answers a request in the reactor's thread, which must not wait: at once, or from another thread when its result is
ready. False, with nothing done and nothing answered, if it would have to wait; its error is the reply."""
Scan = Callable[[ScanTablet, "CallContext"], Iterator[Batch | ScanEnd]]
PeerMessage = Callable[[FramedClient, bytes], object]
Admit = Callable[[Any, "CallContext"], None]
"""Checks that the caller may make a request; raises, in the reactor's thread or another, without waiting."""
