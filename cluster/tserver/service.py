"""The methods of a tablet server: each request goes to its replica, or to the tablet manager.

`tablet_service` has the methods that serve tablets. Here are those of replicas and their consensus, the admission of
writes (`Maintenance.admit`), and single rows for which no thread waits.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ConfigurationRefused, WriteTooLarge
from ...model.codec.values import map_from_plain
from ...model.store import Op, WriteResult
from ...model.vectors.vector import Array
from ...storage.deltas.single_deltas import ROW_BYTES
from ...storage.rowsets.memrowset import INDEX_BYTES
from ..consensus.log.transaction_entries import PreparedNote, StagedNote
from ..tablets.large_parts import MEMORY_SHARE, part_bytes
from ..tablets.leader_writes import Done as WriteDone
from ..tablets.replica import Replica
from ..wire.call_context import CallContext
from ..wire.calls.deferred_replies import Answer
from ..wire.handlers import AtOnce, Later
from ..wire.messages import methods
from ..wire.messages.maintenance_methods import QuiesceServer
from ..wire.messages.methods import Done, Request
from ..wire.messages.repair_methods import UnsafeChangeConfig
from ..wire.messages.transaction_methods import (
    Decide,
    DecideReply,
    PrepareReply,
    PrepareWrite,
    Resolve,
    StageWrite,
)
from ..wire.rows.write_rows import write_from_request
from .completions import Completions
from .maintenance import Maintenance
from .quiescing import Quiescing
from .quotas import Quotas
from .replies import op_of, write_reply
from .scans.scan_service import ScanService
from .tablet_manager import TabletManager
from .tablet_service import Handler, TabletService

FEW_BYTES, FEW_CELLS = 32 << 10, 200
"""Most bytes of rows that the reactor's thread decodes, and most values that it writes: that takes about a
millisecond."""


class Service:
    """The handlers of a tablet server.

    Parameters
    ----------
    tablets, scans, maintenance, quotas, quiescing
        The server's parts.
    status : callable
        Returns the server's status.
    completions : Completions
        Completes writes for which no thread waits.
    """

    def __init__(
        self,
        tablets: TabletManager,
        scans: ScanService,
        maintenance: Maintenance,
        quotas: Quotas,
        quiescing: Quiescing,
        status: Callable[[], methods.ServerStatus],
        completions: Completions,
    ):
        self._completions = completions
        self._tablets = tablets
        self._served = TabletService(tablets.get, scans, admit=self._admit, written=self._written)
        self._maintenance = maintenance
        self._quotas = quotas
        self._quiescing = quiescing
        self._status = status

    def handlers(self, set_faults: Handler | None) -> dict[type[Request], Handler]:
        """Returns the handlers by class of request. `set_faults` None: this server accepts no faults."""
        found: dict[type[Request], Handler] = {
            **self._served.handlers(),
            methods.GetStatus: lambda request, context: self._status(),
            methods.CreateTablet: self.create_tablet,
            methods.DeleteTablet: self.delete_tablet,
            methods.AlterTablet: self.alter_tablet,
            StageWrite: self.stage_write,
            PrepareWrite: self.prepare_write,
            Decide: self.decide,
            Resolve: self.resolve,
            methods.ReportTablets: self.report_tablets,
            methods.ChangeReplicas: self.change_replicas,
            methods.StepDown: self.step_down,
            UnsafeChangeConfig: self.unsafe_change_config,
            QuiesceServer: self._quiescing.handle,
            methods.StartBootstrap: self.start_bootstrap,
            methods.BeginBootstrap: self.begin_bootstrap,
            methods.ReadFile: self.read_file,
            methods.EndBootstrap: self.end_bootstrap,
        }
        if set_faults is not None:
            found[methods.SetFaults] = set_faults
        return found

    def at_once(self) -> dict[type[Request], AtOnce]:
        """Returns the handlers that reply without a wait, if they can, by class of request."""
        return self._served.at_once()

    def later(self) -> dict[type[Request], Later]:
        """Returns the handlers that answer without a wait of their thread, by class of request."""
        return {methods.WriteRow: self.write_row_later, methods.Write: self.write_later}

    # ---- rows without a waiting thread -------------------------------------------------------------------------------

    def _admit(self, replica: Replica, size: int, ops: Op | Array) -> None:
        self._quotas.check(replica, ops)
        self._tablets.check_space(replica)
        self._maintenance.admit(size)

    def _written(self, replica: Replica, size: int) -> None:
        self._maintenance.written(replica.tablet, size)

    def write_row_later(self, request: methods.WriteRow, context: CallContext, answer: Answer) -> bool:
        """Like `write_row`, with the reply sent when the write is decided."""
        replica = self._tablets.get(request.tablet_id)
        op = op_of(request)
        self._quotas.check(replica, op)
        self._tablets.check_space(replica)
        if not self._maintenance.admit_at_once(ROW_BYTES):
            return False

        return replica.start_row(
            op,
            map_from_plain(request.row),
            request.call,
            schema_version=request.schema_version,
            later=self._completions.submit,
            done=self._done(replica, ROW_BYTES, answer),
        )

    def write_later(self, request: methods.Write, context: CallContext, answer: Answer) -> bool:
        """Like `write`, for few rows, with the reply sent when the write is decided."""
        if request.check_only or request.is_transaction or len(request.rows) > FEW_BYTES:
            return False
        replica = self._tablets.get(request.tablet_id)
        batch = write_from_request(request)
        if batch.rows.num_rows * batch.rows.num_columns > FEW_CELLS:
            return False
        size = batch.rows.nbytes + INDEX_BYTES * batch.rows.num_rows
        self._quotas.check(replica, batch.ops)
        self._tablets.check_space(replica)
        if not self._maintenance.admit_at_once(size):
            return False
        return replica.start_rows(
            batch,
            request.call,
            schema_version=request.schema_version,
            later=self._completions.submit,
            done=self._done(replica, size, answer),
        )

    def _done(self, replica: Replica, size: int, answer: Answer) -> WriteDone:
        """Returns the function that replies to a write of about `size` bytes."""

        def done(outcome: WriteResult | Exception) -> None:
            if isinstance(outcome, Exception):
                answer(outcome)
            else:
                self._written(replica, size)
                answer(write_reply(outcome))

        return done

    # ---- transactions over several tablets -----------------------------------------------------------------------

    def stage_write(self, request: StageWrite, context: CallContext) -> Done:
        """Logs some rows of a part of a transaction, at the leader."""
        part = request.part
        replica = self._tablets.get(part.tablet_id)
        batch = write_from_request(part)
        size = part_bytes(batch.rows.nbytes, batch.rows.num_rows)
        self._quotas.check(replica, batch.ops)
        self._tablets.check_space(replica)
        # The log has the rows, memory only those of whole parts: they are admitted when they are prepared.
        limit = int(MEMORY_SHARE * self._maintenance.memory.limit)
        if (total := replica.transactions.staged_bytes(request.transaction) + size) > limit:
            raise WriteTooLarge(
                f"the rows that the transaction writes to tablet {part.tablet_id} of table {replica.table.name} take "
                f"{total:,} bytes of memory or more, and may take {limit:,}, a quarter of the server's --memory-limit; "
                "commit more often, or load the rows outside of a transaction"
            )
        note = StagedNote(
            request.transaction,
            request.decider_table,
            request.decider_tablet,
            request.number,
            part.schema_version,
            batch.rows.num_rows,
        )
        replica.transactions.stage(note, batch, size, context.deadline)
        return Done()

    def prepare_write(self, request: PrepareWrite, context: CallContext) -> PrepareReply:
        """Prepares a part of a transaction, at the leader."""
        part = request.part
        replica = self._tablets.get(part.tablet_id)
        batch = write_from_request(part)
        size = batch.rows.nbytes + INDEX_BYTES * batch.rows.num_rows
        if request.staged:
            size = replica.transactions.staged_bytes(request.transaction)
        self._admit(replica, size, batch.ops)
        note = PreparedNote(
            request.transaction,
            request.decider_table,
            request.decider_tablet,
            request.forgotten,
            request.staged,
            request.seconds,
        )
        timestamp = replica.transactions.prepare(note, request.timestamp, batch, part.schema_version, context.deadline)
        self._written(replica, size)
        return PrepareReply(timestamp=timestamp)

    def decide(self, request: Decide, context: CallContext) -> DecideReply:
        """Decides a transaction, at the leader of the tablet that decides."""
        replica = self._tablets.get(request.tablet_id)
        outcome = replica.transactions.decide(request.transaction, request.timestamp, context.deadline)
        return DecideReply(timestamp=outcome)

    def resolve(self, request: Resolve, context: CallContext) -> Done:
        """Ends a part of a transaction, at the leader."""
        replica = self._tablets.get(request.tablet_id)
        replica.transactions.resolve(request.transaction, request.timestamp, context.deadline)
        return Done()

    # ---- tablets -------------------------------------------------------------------------------------------------

    def create_tablet(self, request: methods.CreateTablet, context: CallContext) -> Done:
        """Creates an empty replica."""
        self._tablets.create(request.tablet, request.configuration)
        return Done()

    def delete_tablet(self, request: methods.DeleteTablet, context: CallContext) -> Done:
        """Deletes a replica."""
        self._tablets.delete(request.tablet_id, request.configuration_index, request.forget)
        return Done()

    def alter_tablet(self, request: methods.AlterTablet, context: CallContext) -> Done:
        """Alters a tablet to another version of its table, at the leader."""
        self._tablets.get(request.tablet.id).alter(request.tablet, deadline=context.deadline)
        return Done()

    def report_tablets(self, request: methods.ReportTablets, context: CallContext) -> methods.TabletReports:
        """Returns reports of replicas."""
        return methods.TabletReports(tablets=tuple(self._tablets.reports(request.tablet_ids)))

    # ---- consensus -----------------------------------------------------------------------------------------------

    def change_replicas(self, request: methods.ChangeReplicas, context: CallContext) -> methods.ConfigurationReply:
        """Adds or removes a peer, at the leader."""
        if request.kind not in ("add", "remove"):
            raise ConfigurationRefused(f"unknown change of replicas {request.kind!r}: expected add or remove")
        consensus = self._tablets.get(request.tablet_id).consensus
        changed = consensus.change(request.kind, request.peer, request.configuration_index, context.deadline)
        return methods.ConfigurationReply(configuration=changed)

    def unsafe_change_config(self, request: UnsafeChangeConfig, context: CallContext) -> methods.ConfigurationReply:
        """Forces a configuration on the replica here."""
        forced = self._tablets.unsafe_change_config(request.tablet_id, request.survivors)
        return methods.ConfigurationReply(configuration=forced)

    def step_down(self, request: methods.StepDown, context: CallContext) -> Done:
        """Transfers leadership to another replica."""
        self._tablets.get(request.tablet_id).consensus.transfer(request.target)
        return Done()

    def start_bootstrap(self, request: methods.StartBootstrap, context: CallContext) -> Done:
        """Begins to copy a replica to this server."""
        self._tablets.copies.start(request)
        return Done()

    def begin_bootstrap(self, request: methods.BeginBootstrap, context: CallContext) -> methods.BootstrapSession:
        """Begins a session in which a replica is copied from here."""
        return self._tablets.copies.sources.begin(self._tablets.get(request.tablet_id), request.receiver)

    def read_file(self, request: methods.ReadFile, context: CallContext) -> methods.FileChunk:
        """Returns a part of a file that is copied."""
        return self._tablets.copies.sources.read(request)

    def end_bootstrap(self, request: methods.EndBootstrap, context: CallContext) -> Done:
        """Ends a session."""
        self._tablets.copies.sources.end(request.session)
        return Done()
