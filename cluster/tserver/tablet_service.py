"""The methods that serve tablets: rows, statistics, maintenance and scans, for replicas and for an embedded store.

A request goes to the `ServedTablet` that it names, without a decision here. Values are encoded as in
`model.codec.values`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from ...errors import DeadlineExceeded, ProtocolError, ReplicaUnavailable
from ...model.codec.values import key_from_plain, map_from_plain, value_to_plain
from ...model.store import Op, Timestamp
from ...model.vectors.vector import Array
from ...storage.deltas.single_deltas import ROW_BYTES
from ...storage.rowsets.memrowset import INDEX_BYTES
from ..tablets.checksum import checksum
from ..tablets.damage import Watched
from ..tablets.reads import NO_WAIT
from ..tablets.served_tablet import ServedTablet
from ..wire.call_context import CallContext
from ..wire.handlers import AtOnce
from ..wire.messages import methods
from ..wire.messages.methods import Reply, Request
from ..wire.messages.transaction_methods import NumbersReply, TakeNumbers
from ..wire.rows.write_rows import write_from_request
from .replies import op_of, row_reply, write_reply
from .scans.scan_service import ScanService

MOST_NUMBERS = 1 << 32
"""Of one request, so that no client exhausts a tablet's numbers."""
Handler: TypeAlias = Callable[[Any, CallContext], Reply]
Tablet = TypeVar("Tablet", bound=ServedTablet)


class TabletService(Generic[Tablet]):
    """The handlers of a server's tablets.

    Parameters
    ----------
    served : callable
        Returns the tablet of an id; raises `ReplicaUnavailable` if the server does not serve it.
    scans : ScanService
    admit, written : callable
        Called before and after each write with the tablet and the approximate bytes of memory that it takes; `admit`,
        which also gets the operations, may refuse it.
    """

    def __init__(
        self,
        served: Callable[[str], Tablet],
        scans: ScanService,
        *,
        admit: Callable[[Tablet, int, Op | Array], None] = lambda tablet, size, ops: None,
        written: Callable[[Tablet, int], None] = lambda tablet, size: None,
    ):
        self._served = served
        self._scans = scans
        self._admit = admit
        self._written = written

    def handlers(self) -> dict[type[Request], Handler]:
        """Returns the handlers by class of request."""
        return {
            methods.Write: self.write,
            methods.WriteRow: self.write_row,
            methods.ReadRow: self.read_row,
            TakeNumbers: self.take_numbers,
            methods.StartScan: self._scans.start,
            methods.CloseScanner: self._scans.close_scanner,
            methods.KeepAlive: self._scans.keep_alive,
            methods.DescribeTablets: self.describe_tablets,
            methods.KeySamples: self.key_samples,
            methods.WorkOnTablet: self.work_on_tablet,
            methods.ChecksumTablet: self.checksum_tablet,
        }

    def at_once(self) -> dict[type[Request], AtOnce]:
        """Returns the handlers that reply without a wait, if they can, by class of request."""
        return {methods.ReadRow: self.try_read_row}

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, request: methods.Write, context: CallContext) -> methods.WriteReply:
        """Writes a batch, at the leader."""
        tablet = self._served(request.tablet_id)
        batch = write_from_request(request)
        size = batch.rows.nbytes + INDEX_BYTES * batch.rows.num_rows
        if not request.check_only:
            self._admit(tablet, size, batch.ops)
        result = tablet.write(
            batch,
            request.call,
            deadline=context.deadline,
            schema_version=request.schema_version,
            check_only=request.check_only,
            is_transaction=request.is_transaction,
        )
        if not request.check_only:
            self._written(tablet, size)
        return write_reply(result)

    def write_row(self, request: methods.WriteRow, context: CallContext) -> methods.WriteReply:
        """Writes one row, at the leader."""
        tablet = self._served(request.tablet_id)
        op = op_of(request)
        self._admit(tablet, ROW_BYTES, op)
        result = tablet.write_row(
            op,
            map_from_plain(request.row),
            request.call,
            deadline=context.deadline,
            schema_version=request.schema_version,
        )
        self._written(tablet, ROW_BYTES)
        return write_reply(result)

    def read_row(self, request: methods.ReadRow, context: CallContext) -> methods.RowReply:
        """Reads one row by its key."""
        row, timestamp = self._served(request.tablet_id).read_row(
            key_from_plain(request.key),
            request.columns,
            None if request.snapshot is None else Timestamp(request.snapshot),
            deadline=context.deadline,
            schema_version=request.schema_version,
        )
        return row_reply(row, timestamp)

    def try_read_row(self, request: methods.ReadRow, context: CallContext) -> methods.RowReply | None:
        """Like `read_row`, if that needs no wait: for a snapshot that is complete here, or for its own key; else
        None."""
        tablet = self._served(request.tablet_id)
        snapshot = None if request.snapshot is None else Timestamp(request.snapshot)
        try:
            row, timestamp = tablet.read_row(
                key_from_plain(request.key),
                request.columns,
                snapshot,
                deadline=NO_WAIT,
                schema_version=request.schema_version,
            )
        except (DeadlineExceeded, ReplicaUnavailable):
            return None  # a thread of the pool waits
        return row_reply(row, timestamp)

    def take_numbers(self, request: TakeNumbers, context: CallContext) -> NumbersReply:
        """Reserves numbers for hidden keys, at the leader."""
        if not 0 < request.count <= MOST_NUMBERS:
            raise ProtocolError(f"{request.count} numbers cannot be reserved: 1 to {MOST_NUMBERS:,} at a time")
        return NumbersReply(first=self._served(request.tablet_id).take_numbers(request.count))

    # ---- tablets -------------------------------------------------------------------------------------------------

    def describe_tablets(self, request: methods.DescribeTablets, context: CallContext) -> methods.TabletFactsReply:
        """Returns statistics of the tablets that are served here."""
        statistics = []
        for tablet_id in request.tablet_ids:
            try:
                statistics.append(self._served(tablet_id).facts())
            except ReplicaUnavailable:  # moved or dropped since the client read the catalog
                continue
        return methods.TabletFactsReply(tablets=tuple(statistics))

    def key_samples(self, request: methods.KeySamples, context: CallContext) -> methods.KeySamplesReply:
        """Returns keys at which a tablet may be divided."""
        keys = self._served(request.tablet_id).key_samples()
        return methods.KeySamplesReply(keys=tuple(tuple(value_to_plain(v) for v in key) for key in keys))

    def work_on_tablet(self, request: methods.WorkOnTablet, context: CallContext) -> methods.WorkReply:
        """Flushes, compacts or analyzes a tablet now; raises `ProtocolError` for any other work."""
        tablet = self._served(request.tablet_id)
        if request.work == "flush":
            return methods.WorkReply(numbers={"rows": tablet.flush()})
        if request.work == "compact":
            return methods.WorkReply(numbers=dataclasses.asdict(tablet.compact(context.check)))
        if request.work == "analyze":
            return methods.WorkReply(numbers=dataclasses.asdict(tablet.analyze(context.check)))
        raise ProtocolError(f"unknown work {request.work!r}: expected flush, compact or analyze")

    def checksum_tablet(self, request: methods.ChecksumTablet, context: CallContext) -> methods.ChecksumReply:
        """Returns number and sum of a tablet's rows as of a timestamp."""
        tablet = self._served(request.tablet_id)
        view = tablet.view(Timestamp(request.snapshot), deadline=context.deadline)
        with Watched(tablet.met):
            return checksum(view, lambda rows: context.check())
