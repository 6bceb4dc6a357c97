"""The rights that changes of the catalog need, where the catalog is: at the leading master, or at an embedded server.

    Holder, Catalog, request ──► check_catalog_change ──► nothing, or PermissionDenied

The client has checked them too, as the role that its session acts as. Here a request is allowed if one of the user's
roles may make it. What a request cannot say truly for itself is checked as well: the owner of a new table or view, and
the grantor of a grant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from ....errors import PermissionDenied
from ....model.access.holders import Holder
from ....model.access.rights import Right, Secured, secured, secured_schema
from ....model.access.roles import STORE_ROLE
from ....model.access.steps import (
    AccessStep,
    AddGrant,
    AddMember,
    AlterRole,
    RemoveGrant,
    RemoveMember,
)
from ....model.alterations import RenameTable, SetOwner
from ....model.namespaces import DEFAULT_NAMESPACE
from ....model.schema import Table, View
from ....storage.tables.catalog import Catalog
from ..messages.access_plain import access_step_from_plain
from ..messages.catalog_methods import (
    AlterTableStep,
    ChangeCatalog,
    RenameViewStep,
    ReplaceNamespaceStep,
    ReplaceViewStep,
)
from ..messages.methods import AlterTable, CreateTable, CreateView, DropTable, DropViews
from ..messages.namespace_methods import CreateNamespace, DropNamespace
from ..messages.plain import definition_from_plain, namespace_from_plain, step_from_plain, view_from_plain
from ..messages.user_methods import ChangeAccess
from ..messages.view_methods import RenameView

CatalogRequest: TypeAlias = (
    CreateTable
    | AlterTable
    | DropTable
    | CreateView
    | DropViews
    | RenameView
    | CreateNamespace
    | DropNamespace
    | ChangeCatalog
    | ChangeAccess
)


def check_catalog_change(holder: Holder | None, catalog: Catalog, request: CatalogRequest) -> None:
    """Raises `PermissionDenied` unless a user may make a change; None: all rights. Objects that do not exist are left
    to the change itself."""
    if holder is not None and not holder.is_superuser:
        _CHECKS[type(request)](holder, catalog, request)


# ---- tables and views ------------------------------------------------------------------------------------------------


def _create_table(holder: Holder, catalog: Catalog, request: CreateTable) -> None:
    definition = definition_from_plain(request.definition)
    _require_create(holder, catalog, definition.namespace)
    holder.require_member(definition.owner or STORE_ROLE)


def _alter_table(holder: Holder, catalog: Catalog, request: AlterTable | AlterTableStep) -> None:
    found = _found(catalog, [request.name])
    _require_owner(holder, found, "ALTER TABLE")
    for step in map(step_from_plain, request.steps):
        if isinstance(step, SetOwner):
            holder.require_member(step.owner or STORE_ROLE)
        elif isinstance(step, RenameTable):
            for table in found:
                _require_create(holder, catalog, step.namespace or table.namespace)


def _drop_table(holder: Holder, catalog: Catalog, request: DropTable) -> None:
    _require_owner(holder, _found(catalog, [request.name]), "DROP TABLE")
    _require_cascade(holder, catalog, request.views)


def _create_view(holder: Holder, catalog: Catalog, request: CreateView) -> None:
    view = view_from_plain(request.view)
    before = _found(catalog, [view.name])
    if before:
        _require_owner(holder, before, "CREATE OR REPLACE VIEW")
    else:
        _require_create(holder, catalog, view.namespace)
    holder.require_member(view.owner or STORE_ROLE)


def _drop_views(holder: Holder, catalog: Catalog, request: DropViews) -> None:
    _require_cascade(holder, catalog, request.names)


def _rename_view(holder: Holder, catalog: Catalog, request: RenameView | RenameViewStep) -> None:
    _require_owner(holder, _found(catalog, [request.name]), "ALTER VIEW")
    _require_create(holder, catalog, request.namespace)


def _require_cascade(holder: Holder, catalog: Catalog, views: Iterable[str]) -> None:
    _require_owner(holder, _found(catalog, views), "DROP VIEW")


def _found(catalog: Catalog, names: Iterable[str]) -> list[Table | View]:
    found: list[Table | View] = []
    for name in names:
        if name in catalog.entries:
            found.append(catalog.entries[name].table)
        elif name in catalog.views:
            found.append(catalog.views[name])
    return found


def _require_owner(holder: Holder, objects: Iterable[Table | View], what: str) -> None:
    for each in objects:
        holder.require_owner(secured(each), what)


# ---- schemas ---------------------------------------------------------------------------------------------------------


def _create_namespace(holder: Holder, catalog: Catalog, request: CreateNamespace) -> None:
    holder.require_superuser("CREATE SCHEMA")
    holder.require_member(namespace_from_plain(request.namespace).owner or STORE_ROLE)


def _drop_namespace(holder: Holder, catalog: Catalog, request: DropNamespace) -> None:
    holder.require_owner(_schema(catalog, request.name), "DROP SCHEMA")
    named = _found(catalog, (*request.tables, *request.views))
    _require_owner(holder, [each for each in named if each.namespace != request.name], "DROP SCHEMA ... CASCADE")


def _change_catalog(holder: Holder, catalog: Catalog, request: ChangeCatalog) -> None:
    """The steps of users who are no superusers name objects that there are: none of them makes or moves a schema."""
    for step in request.steps:
        if isinstance(step, AlterTableStep):
            _alter_table(holder, catalog, step)
        elif isinstance(step, RenameViewStep):
            _rename_view(holder, catalog, step)
        elif isinstance(step, ReplaceViewStep):
            _replace_view(holder, catalog, view_from_plain(step.before), view_from_plain(step.after))
        elif isinstance(step, ReplaceNamespaceStep):
            before, after = namespace_from_plain(step.before), namespace_from_plain(step.after)
            holder.require_owner(_schema(catalog, before.name), "ALTER SCHEMA")
            holder.require_owner(_schema(catalog, after.name), "ALTER SCHEMA")
            holder.require_member(after.owner or STORE_ROLE)
        else:
            holder.require_superuser("ALTER SCHEMA ... RENAME TO")


def _replace_view(holder: Holder, catalog: Catalog, before: View, after: View) -> None:
    # The text of a view runs with the rights of its owner, so no other user may write it, even to follow a new name.
    for view in _found(catalog, {before.name, after.name}):
        holder.require_owner(secured(view), "a change of a view, also of one that reads what is renamed,")
    holder.require_member(after.owner or STORE_ROLE)


def _require_create(holder: Holder, catalog: Catalog, name: str) -> None:
    holder.require(Right.CREATE, _schema(catalog, name))


def _schema(catalog: Catalog, name: str) -> Secured:
    known = catalog.namespaces.get(name) if name != DEFAULT_NAMESPACE else None
    return secured_schema(name, "" if known is None else known.owner)


# ---- users and grants ------------------------------------------------------------------------------------------------


def _change_access(holder: Holder, catalog: Catalog, request: ChangeAccess) -> None:
    for plain in request.steps:
        _step(holder, access_step_from_plain(plain))


def _step(holder: Holder, step: AccessStep) -> None:
    access = holder.access
    if isinstance(step, AddGrant):
        holder.require_member(step.grant.grantor)  # that it holds the right is an invariant of the step
    elif isinstance(step, RemoveGrant):
        holder.require_member(step.grantor)
    elif isinstance(step, AddMember | RemoveMember):
        role = step.membership.role if isinstance(step, AddMember) else step.role
        if isinstance(step, AddMember):
            holder.require_member(step.membership.grantor)
        if access.is_superuser(role) or not any(
            access.may_add_members(own, role) for own in access.roles_of(holder.user)
        ):
            raise PermissionDenied(
                f"permission denied: user {holder.user} needs role {role} WITH ADMIN OPTION to change its members"
            )
    elif isinstance(step, AlterRole) and [name for name, _ in step.changes] == ["verifier"]:
        holder.require_member(step.name)
    else:
        holder.require_superuser("a change of roles")


_CHECKS: Final[Mapping[type[Any], Callable[[Holder, Catalog, Any], None]]] = {
    CreateTable: _create_table,
    AlterTable: _alter_table,
    DropTable: _drop_table,
    CreateView: _create_view,
    DropViews: _drop_views,
    RenameView: _rename_view,
    CreateNamespace: _create_namespace,
    DropNamespace: _drop_namespace,
    ChangeCatalog: _change_catalog,
    ChangeAccess: _change_access,
}
