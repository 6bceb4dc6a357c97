"""What a client asks tablet servers for: each request to the store, or to one of its tablets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from ...errors import ProtocolError, ReplicaUnavailable
from ...storage.database import Database
from ...storage.store import Op, Timestamp, WriteResult
from ..wire import methods
from ..wire.methods import Reply, Request
from ..wire.rows import write_from_request
from ..wire.server import CallContext
from ..wire.values import key_from_plain, row_from_plain, value_to_plain
from .calls import Calls
from .tablets import OwnedTablets

Handler: TypeAlias = Callable[[Any, CallContext], Reply]


class OwnerService:
    """The methods of a tablet server, but for scans."""

    def __init__(self, store: Database, tablets: OwnedTablets, calls: Calls):
        self._store = store
        self._tablets = tablets
        self._calls = calls

    def handlers(self) -> dict[type[Request], Handler]:
        """By class of request."""
        return {
            methods.Write: self.write,
            methods.WriteRow: self.write_row,
            methods.ReadRow: self.read_row,
            methods.DescribeTablets: self.describe_tablets,
            methods.KeySamples: self.key_samples,
            methods.WorkOnTablet: self.work_on_tablet,
            methods.ChecksumTablet: self.checksum_tablet,
        }

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, request: methods.Write, context: CallContext) -> methods.WriteReply:
        """A batch. The store finds each row's tablet by itself, which is the one that the client found by the same
        version of the table."""
        tablet = self._tablets.get(request.tablet_id)
        batch = write_from_request(request)
        if request.check_only:
            tablet.check_version(request.schema_version)
            return _write_reply(tablet.table_store.write(batch, check_only=True))
        return self._calls.once(
            request.call,
            context.deadline,
            methods.WriteReply,
            lambda: _write_reply(self._store.write(tablet.check_version(request.schema_version), batch)),
        )

    def write_row(self, request: methods.WriteRow, context: CallContext) -> methods.WriteReply:
        """One row."""
        tablet = self._tablets.get(request.tablet_id)
        row = row_from_plain(request.row)
        try:
            op = Op(request.op)
        except ValueError:
            raise ProtocolError(f"no op of a write has the number {request.op}") from None

        def work() -> methods.WriteReply:
            table = tablet.check_version(request.schema_version)
            return _write_reply(self._store.write_row(table, op, row, physical=True))

        return self._calls.once(request.call, context.deadline, methods.WriteReply, work)

    def read_row(self, request: methods.ReadRow, context: CallContext) -> methods.RowReply:
        """One row by its key."""
        row, timestamp = self._tablets.get(request.tablet_id).read_row(
            key_from_plain(request.key),
            request.columns,
            None if request.snapshot is None else Timestamp(request.snapshot),
            context.deadline,
            request.schema_version,
        )
        return methods.RowReply(
            row=None if row is None else tuple(value_to_plain(value) for value in row), timestamp=timestamp
        )

    # ---- tablets -------------------------------------------------------------------------------------------------

    def describe_tablets(self, request: methods.DescribeTablets, context: CallContext) -> methods.TabletFactsReply:
        """Facts about those that there are."""
        found = []
        for tablet_id in request.tablet_ids:
            try:
                found.append(self._tablets.get(tablet_id).facts())
            except ReplicaUnavailable:  # dropped since the client looked
                continue
        return methods.TabletFactsReply(tablets=tuple(found))

    def key_samples(self, request: methods.KeySamples, context: CallContext) -> methods.KeySamplesReply:
        """Keys at which a tablet may be cut."""
        keys = self._tablets.get(request.tablet_id).key_samples()
        return methods.KeySamplesReply(keys=tuple(tuple(value_to_plain(v) for v in key) for key in keys))

    def work_on_tablet(self, request: methods.WorkOnTablet, context: CallContext) -> methods.WorkReply:
        """Maintenance now."""
        tablet = self._tablets.get(request.tablet_id)
        if request.work == "flush":
            return methods.WorkReply(numbers={"rows": tablet.flush()})
        if request.work == "compact":
            return methods.WorkReply(numbers=dataclasses.asdict(tablet.compact(context.check)))
        if request.work == "analyze":
            return methods.WorkReply(numbers=dataclasses.asdict(tablet.analyze(context.check)))
        raise ProtocolError(f"no work {request.work!r}: there are flush, compact and analyze")

    def checksum_tablet(self, request: methods.ChecksumTablet, context: CallContext) -> methods.ChecksumReply:
        """A tablet summed up at a time."""
        tablet = self._tablets.get(request.tablet_id)
        return tablet.checksum(Timestamp(request.snapshot), context.deadline, lambda rows: context.check())


def _write_reply(result: WriteResult) -> methods.WriteReply:
    errors = tuple([methods.WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in result.errors])
    return methods.WriteReply(applied=result.applied, timestamp=result.timestamp, errors=errors)
