"""DDL at the leading master: decided and made durable under a lock, then waited for without it.

    CreateTable ─► is the call known? ─no─► Change + its CallRecord ─► system tablet ─┐
                          │yes                                                        ▼
                          └──────────────────────────────────────► wait until the table is RUNNING ─► reply

So a retried call, to this master or a later one, changes nothing twice and gets the same reply. Work at tablet servers
is not done here: the coordinator finds it from the rows, and so does the next master.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeAlias

from ....errors import ClusterError, NotTheLeader, UnknownTable
from ....model.access.holders import Holder
from ....model.alterations import SetReplicas
from ...raft.messages import Configuration
from ...wire.call_context import CallContext
from ...wire.messages.access_plain import access_step_from_plain
from ...wire.messages.catalog_methods import ChangeCatalog
from ...wire.messages.maintenance_methods import LeaveCluster, MaintainServer
from ...wire.messages.methods import (
    AlterTable,
    CreateTable,
    CreateView,
    Done,
    DropTable,
    DropViews,
    Request,
    TableReply,
)
from ...wire.messages.namespace_methods import CreateNamespace, DropNamespace
from ...wire.messages.plain import definition_from_plain, namespace_from_plain, step_from_plain, view_from_plain
from ...wire.messages.user_methods import ChangeAccess
from ...wire.messages.view_methods import RenameView
from ...wire.security.catalog_rights import CatalogRequest, check_catalog_change
from ...wire.security.users import Users
from ..balance.cluster_view import loads_of
from ..balance.placement import Takers, place_tablets, replication_factor
from ..directory import Server, TabletDirectory
from ..options import MasterOptions
from .catalog_changes import (
    Place,
    access_changed,
    altered,
    created,
    dropped,
    namespace_created,
    namespace_dropped,
    replaced,
    view_created,
    view_renamed,
    views_dropped,
    with_call,
)
from .catalog_manager import CatalogManager
from .catalog_state import CatalogState
from .catalog_steps import altered_names, changed_by_steps
from .records import AbsenceRecord, CallRecord, Change, ServerRecord, TableRecord, TableState

_WRITE_SECONDS = 10.0
"""Seconds for the replication of a change, even if its caller times out earlier: an aborted one makes everything be
loaded again."""
_FRESH_SECONDS = 5.0
"""Servers heard from within this number of seconds are preferred."""
_LATE_SECONDS = 15.0
"""Seconds for which a new table waits for servers that it needs, and that this master has not heard from but does not
consider dead: a restarting server is back by then."""
CheckUsers: TypeAlias = Callable[[CatalogState, CatalogState, CallContext], None]
"""Called with the state before and after the change that makes the first user, and its caller; raises
`NotSupportedError` if the cluster cannot have users as it runs."""
_log = logging.getLogger("nyala.cluster.master")


class Ddl:
    """The methods of the master that change the catalog.

    Parameters
    ----------
    manager : CatalogManager
    options : MasterOptions
    rng : Random
    users : Users, optional
        Checks the callers' rights on the catalog that a change is made to; None: no checks, for tests.
    """

    def __init__(self, manager: CatalogManager, options: MasterOptions, rng: random.Random, users: Users | None = None):
        self._users = users
        self._manager = manager
        self._options = options
        self._rng = rng
        self.check_users_possible: CheckUsers = lambda state, after, context: None
        self.spread_rights: Callable[[], None] = lambda: None
        """Sends users and grants to the tablet servers, and waits for them for a moment."""

    # ---- methods ---------------------------------------------------------------------------------------------------

    def create_table(self, request: CreateTable, context: CallContext) -> TableReply:
        """Handles `CreateTable`."""
        definition = definition_from_plain(request.definition)
        what = f"creation of table {definition.name}"
        requested = definition.replicas if request.replicas is None else request.replicas
        check_ready = self._wait_for_servers(requested, context)

        def change(state: CatalogState) -> tuple[Change, TableRecord]:
            check_ready()
            replicas = replication_factor(requested, self._takers(state), self._options.default_replicas)
            return created(state, definition, replicas, self._place(state))

        return self._served(self._once(request, context, what, change), context, what)

    def alter_table(self, request: AlterTable, context: CallContext) -> TableReply:
        """Handles `AlterTable`."""
        steps = [step_from_plain(step) for step in request.steps]
        what = f"alteration of table {request.name}"
        wanted = next((step.count for step in reversed(steps) if isinstance(step, SetReplicas)), 0)
        check_ready = self._wait_for_servers(wanted, context) if wanted else None

        def change(state: CatalogState) -> tuple[Change, TableRecord]:
            if check_ready is not None and wanted > state.table(request.name).replicas:
                check_ready()
                replication_factor(wanted, self._takers(state), wanted)
            return altered(state, request.name, steps, self._place(state))

        return self._served(self._once(request, context, what, change), context, what)

    def drop_table(self, request: DropTable, context: CallContext) -> Done:
        """Handles `DropTable`. The replicas are deleted afterwards."""
        what = f"drop of table {request.name}"
        return self._done(request, context, what, lambda state: dropped(state, request.name, request.views))

    def create_view(self, request: CreateView, context: CallContext) -> Done:
        """Handles `CreateView`."""
        view = view_from_plain(request.view)
        what = f"creation of view {view.name}"
        return self._done(request, context, what, lambda state: view_created(state, view, request.replace))

    def drop_views(self, request: DropViews, context: CallContext) -> Done:
        """Handles `DropViews`."""
        what = f"drop of views {', '.join(request.names)}"
        return self._done(request, context, what, lambda state: views_dropped(state, request.names))

    def rename_view(self, request: RenameView, context: CallContext) -> Done:
        """Handles `RenameView`."""
        name, new_name, namespace = request.name, request.new_name, request.namespace
        what = f"renaming of view {name} to {new_name}"
        return self._done(request, context, what, lambda state: view_renamed(state, name, new_name, namespace))

    def create_namespace(self, request: CreateNamespace, context: CallContext) -> Done:
        """Handles `CreateNamespace`."""
        namespace = namespace_from_plain(request.namespace)
        what = f"creation of schema {namespace.name}"
        return self._done(request, context, what, lambda state: namespace_created(state, namespace))

    def drop_namespace(self, request: DropNamespace, context: CallContext) -> Done:
        """Handles `DropNamespace`. The replicas of its tables are deleted afterwards."""
        name, tables, views = request.name, request.tables, request.views
        what = f"drop of schema {name}"
        return self._done(request, context, what, lambda state: namespace_dropped(state, name, tables, views))

    def change_catalog(self, request: ChangeCatalog, context: CallContext) -> Done:
        """Handles `ChangeCatalog`."""
        what = "several changes in one step"
        self._done(request, context, what, lambda state: changed_by_steps(state, request.steps, self._place(state)))
        names = altered_names(request.steps)

        def look(state: CatalogState, directory: TabletDirectory) -> Done | None:
            tables = [state.table(name) for name in names if name in state.catalog.entries]
            return Done() if all(table.state is TableState.RUNNING for table in tables) else None

        return self._manager.wait(look, context.deadline, lambda: f"all tablets of {', '.join(names)} serve again")

    def change_access(self, request: ChangeAccess, context: CallContext) -> Done:
        """Handles `ChangeAccess`."""
        steps = [access_step_from_plain(step) for step in request.steps]

        def change(state: CatalogState) -> tuple[Change, None]:
            made = access_changed(state, steps)
            after = state.applied(made)
            if after.rights.has_users and not state.rights.has_users:
                self.check_users_possible(state, after, context)
            return made, None

        self._once(request, context, "change of users", change)
        self.spread_rights()
        return Done()

    def leave_cluster(self, request: LeaveCluster, context: CallContext) -> Done:
        """Handles `LeaveCluster`: records that the server is to be emptied, which takes time."""
        manager = self._manager
        with manager.changing(context.deadline) as state:
            self._holder(context, state, LeaveCluster)
            self._check_known(request.server, state.leaving)
            record = ServerRecord(request.server)
            if request.leaving != (request.server in state.leaving):
                change = Change((record,)) if request.leaving else Change((), (record.key,))
                manager.commit(change, _write_deadline())
                fields = {"server": request.server, "leaving": request.leaving}
                _log.info("server leaves or stays", extra={"fields": fields})
        return Done()

    def maintain_server(self, request: MaintainServer, context: CallContext) -> Done:
        """Handles `MaintainServer`."""
        manager = self._manager
        with manager.changing(context.deadline) as state:
            self._holder(context, state, MaintainServer)
            self._check_known(request.server, state.absent)
            record = AbsenceRecord(request.server)
            if request.in_maintenance != (request.server in state.absent):
                change = Change((record,)) if request.in_maintenance else Change((), (record.key,))
                manager.commit(change, _write_deadline())
                fields = {"server": request.server, "in_maintenance": request.in_maintenance}
                _log.info("maintenance of a server begins or ends", extra={"fields": fields})
        return Done()

    # ---- called by the coordinator -----------------------------------------------------------------------------------

    def replace_tablets(self, table_id: str, tablet_ids: Sequence[str]) -> None:
        """Places tablets of a new table that no server serves elsewhere, with other ids."""
        with self._manager.changing(_write_deadline()) as state:
            table = state.tables.get(table_id)
            stuck = [tablet_id for tablet_id in tablet_ids if table is not None and tablet_id in table.tablets]
            if table is not None and stuck and len(self._live(state)) >= table.replicas:
                self._manager.commit(replaced(state, table, stuck, self._place(state)), _write_deadline())

    def forget_servers(self, servers: Iterable[str]) -> None:
        """Drops the records of servers that will not return."""
        with self._manager.changing(_write_deadline()) as state:
            gone = tuple(AbsenceRecord(server).key for server in servers if server in state.absent)
            if gone:
                self._manager.commit(Change((), gone), _write_deadline())

    # ---- parts -----------------------------------------------------------------------------------------------------

    def _check_known(self, server: str, recorded: Container[str]) -> None:
        """Raises `ClusterError` for a server that is neither known nor in a record."""
        with self._manager.changed:
            servers = self._manager.leading()[1].servers
            known = {other.id: other.address for other in servers.values()}
        if server not in known and server not in recorded:
            there = ", ".join(f"{id_} at {address}" for id_, address in sorted(known.items())) or "none"
            raise ClusterError(f"the cluster has no tablet server {server}; it has: {there}")

    def _once(
        self,
        request: CatalogRequest,
        context: CallContext,
        what: str,
        change: Callable[[CatalogState], tuple[Change, TableRecord | None]],
    ) -> CallRecord:
        """Makes the change unless this very call has made it before; returns the record of the call. Raises
        `PermissionDenied` if the caller may not make it."""
        call = request.call
        with self._manager.changing(context.deadline) as state:
            check_catalog_change(self._holder(context, state, type(request)), state.catalog, request)
            done = state.calls.get((call.client, call.sequence))
            if done is not None:
                return done
            made, table = change(state)
            table_id, version = ("", 0) if table is None else (table.id, table.table.version)
            done = CallRecord(call.client, call.sequence, time.time(), table_id, version)
            after = self._manager.commit(with_call(state, made, done, call.first_incomplete), _write_deadline())
        _log.info("catalog changed", extra={"fields": {"change": what, "version": after.catalog.version}})
        return done

    def _done(
        self, request: CatalogRequest, context: CallContext, what: str, change: Callable[[CatalogState], Change]
    ) -> Done:
        """`_once` for a change that makes no version of a table."""
        self._once(request, context, what, lambda state: (change(state), None))
        return Done()

    def _holder(self, context: CallContext, state: CatalogState, method: type[Request]) -> Holder | None:
        return None if self._users is None else self._users.holder(context, state.rights, method)

    def _served(self, done: CallRecord, context: CallContext, what: str) -> TableReply:
        """Returns the reply, once all tablets serve the version of the table that a call made."""

        def look(state: CatalogState, directory: TabletDirectory) -> TableReply | None:
            table = state.tables.get(done.table_id)
            if table is None:
                name = state.dropped[done.table_id].name if done.table_id in state.dropped else done.table_id
                raise UnknownTable(f"table {name} was dropped before the {what} had finished")
            if table.state is not TableState.RUNNING:
                return None
            return TableReply(table=table.plain, version=state.catalog.version)

        def missing() -> str:
            state, directory = self._manager.leading()
            tablets = state.tables[done.table_id].entry.tablet_ids
            lacking = [t for t in tablets if directory.tablets[t].schema_version < done.table_version]
            return f"the {what} has finished: {len(lacking)} of {len(tablets)} tablets do not serve yet"

        return self._manager.wait(look, context.deadline, missing)

    def _wait_for_servers(self, requested: int | None, context: CallContext) -> Callable[[], None]:
        """Waits until there are enough servers for a number of replicas, or no more can be expected. Returns a function
        that raises `NotTheLeader` if this master must wait again, since it did not lead in between."""
        began = self._manager.monotonic()

        def is_ready(state: CatalogState, directory: TabletDirectory) -> bool | None:
            is_warm = directory.is_warm(self._manager.monotonic(), self._options.warm_up)
            return (is_warm and self._is_worth_trying(requested, state, directory, began)) or None

        def check() -> None:
            with self._manager.changed:
                if is_ready(*self._manager.leading()) is None:
                    raise NotTheLeader(
                        "this master has just begun to lead again, and has no report of a tablet server yet"
                    )

        self._manager.wait(is_ready, context.deadline, lambda: "the tablet servers have reported to this master")
        return check

    def _is_worth_trying(
        self, requested: int | None, state: CatalogState, directory: TabletDirectory, began: float
    ) -> bool:
        """True if there are enough servers for a new table, or no more servers can be expected."""
        try:
            replication_factor(requested, self._takers(state), self._options.default_replicas)
            return True
        except ClusterError:
            now = self._manager.monotonic()
            return now - began >= _LATE_SECONDS or not directory.late(now, self._options.dead_after)

    def _live(self, state: CatalogState) -> list[Server]:
        """Returns the servers that accept new replicas, best first: those that are not in maintenance, then those heard
        from most recently."""
        with self._manager.changed:
            directory = self._manager.leading()[1]
            live = directory.live(self._manager.monotonic(), self._options.dead_after)
            staying = [server for server in live if server.id not in state.leaving]
            return sorted(staying, key=lambda s: (s.id in state.absent, -s.last_heard))

    def _takers(self, state: CatalogState) -> Takers:
        """Returns the servers of the cluster, without those that are leaving or have left."""
        with self._manager.changed:
            directory = self._manager.leading()[1]
            silent = directory.silent(self._manager.monotonic(), self._options.dead_after)
            return Takers(
                len(self._live(state)),
                tuple(sorted(server.address for server in silent if server.id not in state.leaving)),
            )

    def _place(self, state: CatalogState) -> Place:
        def place(table_id: str, count: int, replicas: int) -> Sequence[Configuration]:
            replication_factor(replicas, self._takers(state), replicas)
            live = self._live(state)
            since = self._manager.monotonic() - _FRESH_SECONDS
            fresh = [server for server in live if server.last_heard >= since and server.id not in state.absent]
            chosen = fresh if len(fresh) >= replicas else live[:replicas]
            with self._manager.changed:
                directory = self._manager.leading()[1]
                loads = loads_of((t.table_id, directory.tablets[t.id]) for t in state.tablets.values())
            servers = {server.id: server.address for server in chosen}
            locations = {server.id: server.location for server in chosen}
            return place_tablets(table_id, count, replicas, servers, loads, self._rng, locations)

        return place


def _write_deadline() -> float:
    return time.monotonic() + _WRITE_SECONDS
