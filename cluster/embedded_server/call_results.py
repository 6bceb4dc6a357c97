"""Exactly-once table of the embedded server: each call is executed once, however often it is sent; its result is kept
in memory.

A restarted server has no results of the previous one. So a call names the cluster that its client means
(`Call.cluster`), and each server is a cluster of its own. A call for another one is refused, since its outcome there is
unknown.
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
from ..tablets.exactly_once import ExactlyOnceTable, decode_result, encode_result
from ..wire.messages.methods import Call, Reply

R = TypeVar("R", bound=Reply)
T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {kind: msgpack_decoder(kind) for kind in Reply.__subclasses__()}
"""Bytes of results that are kept."""


class Calls:
    """The results of all clients' calls. Thread-safe.

    Parameters
    ----------
    cluster : str
        The server's id, as a cluster.
    clock : HybridClock
        The store's.
    """

    def __init__(self, cluster: str, clock: HybridClock):
        self._cluster = cluster
        self._clock = clock
        self._results = ExactlyOnceTable()
        self._numbers = itertools.count(1)

    def once(self, call: Call | None, deadline: float, kind: type[R], work: Callable[[], R]) -> R:
        """Returns the reply of a call: the result of `work` if the call is new, else the recorded one.

        Waits for an execution in progress (`DeadlineExceeded`). An error of `work` is not recorded: it must have done
        nothing then. Raises `ClusterError` for a call to another server.
        """
        reply: R = self._once(call, deadline, _encode, _decoders[kind].decode, work)
        return reply

    def write_once(self, call: Call | None, deadline: float, work: Callable[[], WriteResult]) -> WriteResult:
        """Like `once`, for a call that writes into one tablet."""
        return self._once(call, deadline, encode_result, decode_result, work)

    def begin_at_once(self, call: Call) -> bool:
        """True if the caller executes a new call now that writes into one tablet, and calls `end`; False if it was
        done before, or is in progress. Raises as `once`."""
        self._check(call)
        return self._results.begin_at_once(call)

    def end(self, call: Call, result: WriteResult | None) -> None:
        """Ends a call of `begin_at_once`, with its result; None: it has done nothing."""
        if result is not None:
            self._note(call, encode_result(result))
        self._results.end(call)

    def _check(self, call: Call) -> None:
        if call.cluster not in ("", self._cluster):
            raise ClusterError(
                "another process has opened the store since: it is not known whether the previous one executed this "
                "call; "
                "check, and repeat it if it was not executed"
            )

    def _note(self, call: Call, result: bytes) -> None:
        header = CallHeader(call.client, call.sequence, call.first_incomplete, result)
        self._results.note(header, next(self._numbers), self._clock.now())

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
        self._check(call)
        known = self._results.begin(call, _never, deadline)
        if known is not None:
            return decode(known)
        try:
            result = work()
            self._note(call, encode(result))
            return result
        finally:
            self._results.end(call)


def _never(ticket: LogTicket) -> Any:
    raise AssertionError("results without log entries have no tickets")
