"""Each call of a client is done once, however often it is sent: what it was answered is kept, in memory.

An owner that is started again knows nothing of what the one before it was asked. So a call names the cluster that its
client believes to talk to (`Call.cluster`), and each owner is a cluster of its own: a call that was meant for another
one is refused, for nobody can tell whether that one did it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ...errors import ClusterError
from ...model.clock import HybridClock
from ...model.store import WriteResult
from ...storage.log.wal import LogTicket
from ..consensus.log.tracked import CallHeader
from ..decoders import msgpack_decoder
from ..tablets.exactly_once import Results, decode_result, encode_result
from ..wire.messages.methods import Call, Reply

R = TypeVar("R", bound=Reply)
T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {kind: msgpack_decoder(kind) for kind in Reply.__subclasses__()}
"""Of the results that are kept."""


class Calls:
    """What the calls of all clients were answered. Safe for several threads.

    Parameters
    ----------
    cluster : str
        The owner's id, as a cluster.
    clock : HybridClock
        The store's.
    """

    def __init__(self, cluster: str, clock: HybridClock):
        self._cluster = cluster
        self._clock = clock
        self._results = Results()
        self._numbers = itertools.count(1)

    def once(self, call: Call | None, deadline: float, kind: type[R], work: Callable[[], R]) -> R:
        """The reply of a call: what `work` answers where it is new, else what the same call was answered before.

        Waits for the same call that is on its way (`DeadlineExceeded`). What `work` raises is not kept: it must have
        done nothing then. `ClusterError` for a call that was meant for another owner.
        """
        reply: R = self._once(call, deadline, _encode, _decoders[kind].decode, work)
        return reply

    def write_once(self, call: Call | None, deadline: float, work: Callable[[], WriteResult]) -> WriteResult:
        """`once` for a call that writes into one tablet."""
        return self._once(call, deadline, encode_result, decode_result, work)

    def _once(
        self,
        call: Call | None,
        deadline: float,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes], T],
        work: Callable[[], T],
    ) -> T:
        if call is None:
            return work()
        if call.cluster not in ("", self._cluster):
            raise ClusterError(
                "another process has opened the store since: whether the one before it did this call is not known; "
                "look, and do it again where it was not"
            )
        known = self._results.begin(call, _never, deadline)
        if known is not None:
            return decode(known)
        try:
            result = work()
            header = CallHeader(call.client, call.sequence, call.first_incomplete, encode(result))
            self._results.note(header, next(self._numbers), self._clock.now())
            return result
        finally:
            self._results.end(call)


def _never(ticket: LogTicket) -> Any:
    raise AssertionError("results without log entries have no tickets")
