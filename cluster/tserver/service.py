"""The methods of a tablet server: each request to the replica, or the manager, that it is for.

Nothing is decided here but what memory allows (`Maintenance.admit`). Values come and go as `model.codec.values` has
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...errors import ConfigurationRefused, ProtocolError
from ...model.codec.values import key_from_plain, row_from_plain
from ...model.store import Timestamp, WriteResult
from ...storage.deltas.single_deltas import ROW_BYTES
from ...storage.rowsets.memrowset import INDEX_BYTES
from ..wire.messages import methods
from ..wire.messages.methods import Done, Reply, Request
from ..wire.messages.repair_methods import UnsafeChangeConfig
from ..wire.rows.write_rows import write_from_request
from ..wire.server import Answer, CallContext, Later
from .completions import Completions
from .maintenance import Maintenance
from .replies import key_samples_reply, op_of, row_reply, work_on, write_reply
from .scans.scan_service import ScanService
from .tablet_manager import TabletManager

Handler: TypeAlias = Callable[[Any, CallContext], Reply]


class Service:
    """The handlers of a tablet server.

    Parameters
    ----------
    tablets, scans, maintenance
        The server's parts.
    status : callable
        The server about itself.
    completions : Completions
        Finishes writes for which no thread waits.
    """

    def __init__(
        self,
        tablets: TabletManager,
        scans: ScanService,
        maintenance: Maintenance,
        status: Callable[[], methods.ServerStatus],
        completions: Completions,
    ):
        self._completions = completions
        self._tablets = tablets
        self._scans = scans
        self._maintenance = maintenance
        self._status = status

    def handlers(self, set_faults: Handler | None) -> dict[type[Request], Handler]:
        """By class of request. `set_faults` None: this server takes no faults."""
        found: dict[type[Request], Handler] = {
            methods.GetStatus: lambda request, context: self._status(),
            methods.Write: self.write,
            methods.WriteRow: self.write_row,
            methods.ReadRow: self.read_row,
            methods.StartScan: self._scans.start,
            methods.CloseScanner: self._scans.close_scanner,
            methods.KeepAlive: self._scans.keep_alive,
            methods.CreateTablet: self.create_tablet,
            methods.DeleteTablet: self.delete_tablet,
            methods.AlterTablet: self.alter_tablet,
            methods.ReportTablets: self.report_tablets,
            methods.DescribeTablets: self.describe_tablets,
            methods.KeySamples: self.key_samples,
            methods.WorkOnTablet: self.work_on_tablet,
            methods.ChecksumTablet: self.checksum_tablet,
            methods.ChangeReplicas: self.change_replicas,
            methods.StepDown: self.step_down,
            UnsafeChangeConfig: self.unsafe_change_config,
            methods.StartBootstrap: self.start_bootstrap,
            methods.BeginBootstrap: self.begin_bootstrap,
            methods.ReadFile: self.read_file,
            methods.EndBootstrap: self.end_bootstrap,
        }
        if set_faults is not None:
            found[methods.SetFaults] = set_faults
        return found

    def later(self) -> dict[type[Request], Later]:
        """What small calls are answered by without a thread that waits, by class of request."""
        return {methods.WriteRow: self.write_row_later, methods.ReadRow: self.read_row_at_once}

    # ---- rows ----------------------------------------------------------------------------------------------------

    def write(self, request: methods.Write, context: CallContext) -> methods.WriteReply:
        """A batch, at the leader."""
        replica = self._tablets.get(request.tablet_id)
        batch = write_from_request(request)
        size = batch.rows.nbytes + INDEX_BYTES * batch.rows.num_rows
        if not request.check_only:
            self._tablets.check_space(replica)
            self._maintenance.admit(size)
        result = replica.write(
            batch,
            _checked(request.call),
            deadline=context.deadline,
            schema_version=request.schema_version,
            check_only=request.check_only,
        )
        if not request.check_only:
            self._maintenance.written(replica.tablet, size)
        return write_reply(result)

    def write_row(self, request: methods.WriteRow, context: CallContext) -> methods.WriteReply:
        """One row, at the leader."""
        replica = self._tablets.get(request.tablet_id)
        op = op_of(request)
        self._tablets.check_space(replica)
        self._maintenance.admit(ROW_BYTES)
        result = replica.write_row(
            op,
            row_from_plain(request.row),
            _checked(request.call),
            deadline=context.deadline,
            schema_version=request.schema_version,
        )
        self._maintenance.written(replica.tablet, ROW_BYTES)
        return write_reply(result)

    def write_row_later(self, request: methods.WriteRow, context: CallContext, answer: Answer) -> bool:
        """`write_row` that is answered when it is decided."""
        replica = self._tablets.get(request.tablet_id)
        op = op_of(request)
        self._tablets.check_space(replica)
        self._maintenance.admit(ROW_BYTES)

        def done(outcome: WriteResult | Exception) -> None:
            if isinstance(outcome, Exception):
                answer(outcome)
            else:
                self._maintenance.written(replica.tablet, ROW_BYTES)
                answer(write_reply(outcome))

        return replica.start_row(
            op,
            row_from_plain(request.row),
            _checked(request.call),
            schema_version=request.schema_version,
            later=self._completions.submit,
            done=done,
        )

    def read_row_at_once(self, request: methods.ReadRow, context: CallContext, answer: Answer) -> bool:
        """The latest `read_row`, where nothing has to be waited for."""
        if request.snapshot is not None:
            return False
        replica = self._tablets.get(request.tablet_id)
        found = replica.read_row_at_once(
            key_from_plain(request.key), request.columns, schema_version=request.schema_version
        )
        if found is None:
            return False
        answer(row_reply(*found))
        return True

    def read_row(self, request: methods.ReadRow, context: CallContext) -> methods.RowReply:
        """One row by its key."""
        replica = self._tablets.get(request.tablet_id)
        row, timestamp = replica.read_row(
            key_from_plain(request.key),
            request.columns,
            None if request.snapshot is None else Timestamp(request.snapshot),
            deadline=context.deadline,
            schema_version=request.schema_version,
        )
        return row_reply(row, timestamp)

    # ---- tablets -------------------------------------------------------------------------------------------------

    def create_tablet(self, request: methods.CreateTablet, context: CallContext) -> Done:
        """An empty replica."""
        self._tablets.create(request.tablet, request.configuration)
        return Done()

    def delete_tablet(self, request: methods.DeleteTablet, context: CallContext) -> Done:
        """A replica away."""
        self._tablets.delete(request.tablet_id, request.configuration_index, request.forget)
        return Done()

    def alter_tablet(self, request: methods.AlterTablet, context: CallContext) -> Done:
        """A tablet to another version of its table, at the leader."""
        self._tablets.get(request.tablet.id).alter(request.tablet, deadline=context.deadline)
        return Done()

    def report_tablets(self, request: methods.ReportTablets, context: CallContext) -> methods.TabletReports:
        """Replicas about themselves."""
        return methods.TabletReports(tablets=tuple(self._tablets.reports(request.tablet_ids)))

    def describe_tablets(self, request: methods.DescribeTablets, context: CallContext) -> methods.TabletFactsReply:
        """Facts about those that are open here."""
        wanted = set(request.tablet_ids)
        found = [r for r in self._tablets.replicas() if r.tablet_id in wanted and r.state == "RUNNING"]
        return methods.TabletFactsReply(tablets=tuple(replica.facts() for replica in found))

    def key_samples(self, request: methods.KeySamples, context: CallContext) -> methods.KeySamplesReply:
        """Keys at which a tablet may be cut."""
        return key_samples_reply(self._tablets.get(request.tablet_id).key_samples())

    def work_on_tablet(self, request: methods.WorkOnTablet, context: CallContext) -> methods.WorkReply:
        """Maintenance now."""
        return work_on(self._tablets.get(request.tablet_id), request.work, context.check)

    def checksum_tablet(self, request: methods.ChecksumTablet, context: CallContext) -> methods.ChecksumReply:
        """A replica summed up at a time."""
        replica = self._tablets.get(request.tablet_id)
        snapshot = Timestamp(request.snapshot)
        return replica.checksum(snapshot, deadline=context.deadline, watch=lambda rows: context.check())

    # ---- consensus -----------------------------------------------------------------------------------------------

    def change_replicas(self, request: methods.ChangeReplicas, context: CallContext) -> methods.ConfigurationReply:
        """A peer more or less, at the leader."""
        if request.kind not in ("add", "remove"):
            raise ConfigurationRefused(f"no change of replicas {request.kind!r}: there are add and remove")
        consensus = self._tablets.get(request.tablet_id).consensus
        changed = consensus.change(request.kind, request.peer, request.configuration_index, context.deadline)
        return methods.ConfigurationReply(configuration=changed)

    def unsafe_change_config(self, request: UnsafeChangeConfig, context: CallContext) -> methods.ConfigurationReply:
        """A configuration forced on the replica here."""
        forced = self._tablets.unsafe_change_config(request.tablet_id, request.survivors)
        return methods.ConfigurationReply(configuration=forced)

    def step_down(self, request: methods.StepDown, context: CallContext) -> Done:
        """Leadership to another replica."""
        self._tablets.get(request.tablet_id).consensus.transfer(request.target)
        return Done()

    def start_bootstrap(self, request: methods.StartBootstrap, context: CallContext) -> Done:
        """Begin to copy a replica to here."""
        self._tablets.copies.start(request)
        return Done()

    def begin_bootstrap(self, request: methods.BeginBootstrap, context: CallContext) -> methods.BootstrapSession:
        """Let a replica be copied from here."""
        return self._tablets.copies.sources.begin(self._tablets.get(request.tablet_id), request.receiver)

    def read_file(self, request: methods.ReadFile, context: CallContext) -> methods.FileChunk:
        """A piece of a file that is copied."""
        return self._tablets.copies.sources.read(request)

    def end_bootstrap(self, request: methods.EndBootstrap, context: CallContext) -> Done:
        """Let go of a copy."""
        self._tablets.copies.sources.end(request.session)
        return Done()


def _checked(call: methods.Call | None) -> methods.Call | None:
    """The call, if its numbers are such as a log entry can have; `ProtocolError` otherwise."""
    if call is None:
        return None
    try:
        is_named = len(bytes.fromhex(call.client)) == 16
    except ValueError:
        is_named = False
    if not is_named or not 0 < call.sequence < 2**63 or not 0 <= call.first_incomplete <= call.sequence:
        raise ProtocolError(f"{call} is no call: a UUID in hex, a number from 1, and one up to that are expected")
    return call
