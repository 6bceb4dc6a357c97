"""The methods of masters, served from the store's own catalog: tables, views, DDL, locations.

A client distinguishes catalogs by their versions alone. So that two servers of a store never use the same number for
different catalogs, each counts from the microsecond of its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...errors import UnknownTable
from ...model.clock import wall_microseconds
from ...model.schema import Table
from ...storage.database import Database
from ..raft.messages import Configuration, Peer
from ..wire.call_context import CallContext
from ..wire.messages import methods, namespace_methods, user_methods, view_methods
from ..wire.messages.access_plain import access_step_from_plain, access_to_plain
from ..wire.messages.catalog_methods import ChangeCatalog
from ..wire.messages.methods import Done, Reply, Request
from ..wire.messages.plain import (
    definition_from_plain,
    entry_to_plain,
    namespace_from_plain,
    namespace_to_plain,
    step_from_plain,
    view_from_plain,
    view_to_plain,
)
from ..wire.security.catalog_rights import check_catalog_change
from .call_results import Calls
from .catalog_steps import make_steps

Handler: TypeAlias = Callable[[Any, CallContext], Reply]
_TERM = 1
"""The leader never changes."""


class EmbeddedCatalog:
    """The methods of a master.

    Parameters
    ----------
    cluster : str
        The server's id, as a cluster.
    peer : callable
        Returns the embedded server as a peer, the only one.
    """

    def __init__(self, store: Database, cluster: str, calls: Calls, peer: Callable[[], Peer]):
        self._store = store
        self._cluster = cluster
        self._calls = calls
        self._peer = peer
        self._first_version = wall_microseconds()
        self._names: dict[str, str] = {}
        """Of all tables that were sent to clients, by id."""

    def handlers(self) -> dict[type[Request], Handler]:
        """Returns the handlers by class of request."""
        return {
            methods.GetCatalog: self.catalog,
            methods.CreateTable: self._checked(self.create_table),
            methods.AlterTable: self._checked(self.alter_table),
            methods.DropTable: self._checked(self.drop_table),
            methods.CreateView: self._checked(self.create_view),
            methods.DropViews: self._checked(self.drop_views),
            view_methods.RenameView: self._checked(self.rename_view),
            namespace_methods.CreateNamespace: self._checked(self.create_namespace),
            namespace_methods.DropNamespace: self._checked(self.drop_namespace),
            ChangeCatalog: self._checked(self.change_catalog),
            user_methods.ChangeAccess: self._checked(self.change_access),
            methods.LocateTablets: self.locate,
            methods.ListServers: self.servers,
            methods.ReportTablets: self.report,
        }

    # ---- questions -----------------------------------------------------------------------------------------------

    def catalog(self, request: methods.GetCatalog, context: CallContext) -> methods.CatalogReply:
        """Returns all tables and views."""
        catalog = self._store.catalog
        version = self._first_version + catalog.version
        if request.known_version == version:
            return methods.CatalogReply(version=version, cluster_id=self._cluster, joint_writes=True)
        access = catalog.access
        self._names.update({entry.table.id: entry.table.name for entry in catalog.entries.values()})
        return methods.CatalogReply(
            version=version,
            cluster_id=self._cluster,
            joint_writes=True,
            tables=tuple(entry_to_plain(entry) for _, entry in sorted(catalog.entries.items())),
            views=tuple(view_to_plain(view) for _, view in sorted(catalog.views.items())),
            namespaces=tuple(namespace_to_plain(found) for _, found in sorted(catalog.namespaces.items())),
            access=None
            if access.is_first
            else access_to_plain(access, context.holder is None or context.holder.is_superuser),
        )

    def locate(self, request: methods.LocateTablets, context: CallContext) -> methods.LocationsReply:
        """Locates tablets, all of them here; those that do not exist are left out."""
        entries = self._store.catalog.entries.values()
        if request.table_id is None:
            known = {id for entry in entries for id in entry.tablet_ids}
            ids = tuple(id for id in request.tablet_ids if id in known)
        else:
            mine = [entry for entry in entries if entry.table.id == request.table_id]
            if not mine:
                raise UnknownTable(f"table {self._names.get(request.table_id, request.table_id)} has been dropped")
            ids = mine[0].tablet_ids
        peer = self._peer()
        return methods.LocationsReply(
            tablets=tuple(
                methods.TabletLocation(tablet_id=id, replicas=(peer,), leader=peer.id, term=_TERM) for id in ids
            )
        )

    def servers(self, request: methods.ListServers, context: CallContext) -> methods.ServersReply:
        """Lists this server as the only tablet server, and the only master."""
        peer = self._peer()
        tablets = sum(len(entry.tablet_ids) for entry in self._store.catalog.entries.values())
        server = methods.NamedServer(
            id=peer.id, address=peer.address, state="ALIVE", seconds_silent=0.0, replicas=tablets, leaders=tablets
        )
        return methods.ServersReply(tservers=(server,), masters=((peer.address, True),))

    def report(self, request: methods.ReportTablets, context: CallContext) -> methods.TabletReports:
        """Returns the tablets as replicas that lead."""
        tablet_ids = request.tablet_ids
        reports = []
        for table in self._store.tables():
            for tablet in self._store.open_table(table).tablets:
                if tablet_ids is None or tablet.id in tablet_ids:
                    size = sum(stored.metadata.data_bytes for stored in tablet.state.rowsets)
                    reports.append(self._report(table, tablet.id, tablet.row_count, size))
        return methods.TabletReports(tablets=tuple(sorted(reports, key=lambda report: report.tablet_id)))

    def _report(self, table: Table, tablet_id: str, rows: int, size: int) -> methods.TabletReport:
        peer = self._peer()
        return methods.TabletReport(
            tablet_id=tablet_id,
            table_id=table.id,
            state="RUNNING",
            role="LEADER",
            term=_TERM,
            leader=peer.id,
            configuration=Configuration((peer,)),
            schema_version=table.version,
            is_serving=True,
            rows=rows,
            bytes=size,
        )

    # ---- DDL -----------------------------------------------------------------------------------------------------

    def _checked(self, handler: Handler) -> Handler:
        """A handler that makes only changes which the caller may make."""

        def checked(request: Any, context: CallContext) -> Reply:
            check_catalog_change(context.holder, self._store.catalog, request)
            return handler(request, context)

        return checked

    def create_table(self, request: methods.CreateTable, context: CallContext) -> methods.TableReply:
        """Creates a table; a requested number of replicas is ignored."""
        definition = definition_from_plain(request.definition)
        return self._calls.once(
            request.call,
            context.deadline,
            methods.TableReply,
            lambda: self._table_reply(self._store.create_table(definition)),
        )

    def alter_table(self, request: methods.AlterTable, context: CallContext) -> methods.TableReply:
        """Alters a table to another version."""
        steps = [step_from_plain(step) for step in request.steps]
        return self._calls.once(
            request.call,
            context.deadline,
            methods.TableReply,
            lambda: self._table_reply(self._store.alter_table(request.name, steps)),
        )

    def _table_reply(self, table: Table) -> methods.TableReply:
        """Returns the reply with a table that was created or altered, in its latest version."""
        catalog = self._store.catalog
        found = next((entry for entry in catalog.entries.values() if entry.table.id == table.id), None)
        if found is None:
            raise UnknownTable(f"table {table.name} has been dropped since")
        return methods.TableReply(table=entry_to_plain(found), version=self._first_version + catalog.version)

    def drop_table(self, request: methods.DropTable, context: CallContext) -> Done:
        """Drops a table, and views."""
        return self._done(request.call, context, lambda: self._store.drop_table(request.name, request.views))

    def create_view(self, request: methods.CreateView, context: CallContext) -> Done:
        """Creates a view."""
        view = view_from_plain(request.view)
        return self._done(request.call, context, lambda: self._store.create_view(view, request.replace))

    def drop_views(self, request: methods.DropViews, context: CallContext) -> Done:
        """Drops views."""
        return self._done(request.call, context, lambda: self._store.drop_views(request.names))

    def rename_view(self, request: view_methods.RenameView, context: CallContext) -> Done:
        """Handles `RenameView`."""
        name, new_name, namespace = request.name, request.new_name, request.namespace
        return self._done(request.call, context, lambda: self._store.rename_view(name, new_name, namespace))

    def create_namespace(self, request: namespace_methods.CreateNamespace, context: CallContext) -> Done:
        """Creates a namespace."""
        namespace = namespace_from_plain(request.namespace)
        return self._done(request.call, context, lambda: self._store.create_namespace(namespace))

    def drop_namespace(self, request: namespace_methods.DropNamespace, context: CallContext) -> Done:
        """Drops a namespace, with tables and views."""
        drop = self._store.drop_namespace
        return self._done(request.call, context, lambda: drop(request.name, request.tables, request.views))

    def change_catalog(self, request: ChangeCatalog, context: CallContext) -> Done:
        """Makes several changes in one step."""

        def work() -> None:
            with self._store.change_together() as batch:
                make_steps(request.steps, batch, self._store.catalog)

        return self._done(request.call, context, work)

    def change_access(self, request: user_methods.ChangeAccess, context: CallContext) -> Done:
        """Changes users, memberships or grants."""
        steps = [access_step_from_plain(step) for step in request.steps]
        return self._done(request.call, context, lambda: self._store.change_access(steps))

    def _done(self, call: methods.Call, context: CallContext, work: Callable[[], None]) -> Done:
        def do() -> Done:
            work()
            return Done()

        return self._calls.once(call, context.deadline, Done, do)
