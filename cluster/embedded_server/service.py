"""What a client asks tablet servers for: each request to the store, or to one of its tablets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...errors import ReplicaUnavailable
from ...model.codec.values import key_from_plain, row_from_plain
from ...model.store import Timestamp
from ...storage.database import Database
from ..tserver.replies import key_samples_reply, op_of, row_reply, work_on, write_reply
from ..wire.messages import methods
from ..wire.messages.methods import Reply, Request
from ..wire.rows.write_rows import write_from_request
from ..wire.server import CallContext
from .call_results import Calls
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
            table = tablet.check_version(request.schema_version)
            return write_reply(tablet.table_store.write(batch, check_only=True, table=table))
        return self._calls.once(
            request.call,
            context.deadline,
            methods.WriteReply,
            lambda: write_reply(self._store.write(tablet.check_version(request.schema_version), batch)),
        )

    def write_row(self, request: methods.WriteRow, context: CallContext) -> methods.WriteReply:
        """One row."""
        tablet = self._tablets.get(request.tablet_id)
        row = row_from_plain(request.row)
        op = op_of(request)

        def work() -> methods.WriteReply:
            table = tablet.check_version(request.schema_version)
            return write_reply(self._store.write_row(table, op, row, physical=True))

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
        return row_reply(row, timestamp)

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
        return key_samples_reply(self._tablets.get(request.tablet_id).key_samples())

    def work_on_tablet(self, request: methods.WorkOnTablet, context: CallContext) -> methods.WorkReply:
        """Maintenance now."""
        return work_on(self._tablets.get(request.tablet_id), request.work, context.check)

    def checksum_tablet(self, request: methods.ChecksumTablet, context: CallContext) -> methods.ChecksumReply:
        """A tablet summed up at a time."""
        tablet = self._tablets.get(request.tablet_id)
        return tablet.checksum(Timestamp(request.snapshot), context.deadline, lambda rows: context.check())
