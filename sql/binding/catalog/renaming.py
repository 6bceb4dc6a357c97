"""Binds ALTER VIEW and ALTER SCHEMA ... RENAME TO, and rewrites the views that read a table or view under its old name.

A view is a text, so a new name must come into the texts of all views that read the object; in PostgreSQL these refer to
it by a number. The old name stays as the alias, by which the columns are named:

    FROM t          ALTER TABLE t RENAME TO u          FROM u AS t
    FROM t AS x     ALTER TABLE t SET SCHEMA s         FROM s.t AS x
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sqlglot import exp

from ....errors import Error, InvalidTableDefinition, NotSupportedError
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, Namespace
from ....model.schema import Table, View
from ...bound_catalog import ChangeViewOwner, RenameSchema, RenameView, ViewPair
from ...syntax import nodes
from ...syntax.parser import generate
from ..access.grants import owner_of_object
from ..context import Context, name_of
from ..names import (
    OWN_PREFIX,
    canonical,
    check_schema,
    droppable_name,
    new_full_name,
    refuse_taken,
)
from .views import (
    ChangedCatalog,
    bind_view_text,
    check_rewritten,
    check_views,
    existing_view,
    fresh_context,
    identifier,
    parsed_text,
)

Pairs: TypeAlias = tuple[ViewPair, ...]


def bind_alter_view(node: Any, context: Context) -> RenameView | ChangeViewOwner:
    """Binds ALTER VIEW, and ALTER TABLE of a view, whose one action is RENAME TO, SET SCHEMA or OWNER TO."""
    (action,) = node.expressions
    with context.at(node.this):
        exists = bool(node.args.get("exists"))
        name = droppable_name(node.this, exists, context)
        view = None if name is None else existing_view(name, exists, "ALTER TABLE changes it", context)
        if view is None:
            return ChangeViewOwner(None) if isinstance(action, nodes.SetTableOwner) else RenameView("", "", "")
        context.require_owner(view, "ALTER VIEW")
    if isinstance(action, nodes.SetTableOwner):
        return ChangeViewOwner((view, replace(view, owner=owner_of_object(action.this, view, context))))
    with context.at(action):
        namespace = view.namespace
        if isinstance(action, nodes.SetSchema):
            namespace = canonical(name_of(action.this))
            check_schema(namespace, context)
            if namespace == view.namespace:
                return RenameView(view.name, view.name, namespace)
            if TEMPORARY_NAMESPACE in (namespace, view.namespace):
                raise NotSupportedError("views cannot be moved into or out of the schema of temporary objects")
        if namespace != TEMPORARY_NAMESPACE:
            context.require_create(namespace)
        local = view.local_name if isinstance(action, nodes.SetSchema) else name_of(action.this)
        if not local:
            raise InvalidTableDefinition(f"view {view.name} cannot be renamed to an empty name")
        new = new_full_name(namespace, local, context.catalog)
        refuse_taken(new, context.catalog)
        renamed = replace(view, name=new, namespace=namespace)
        readers = readers_of({view.name: (view, renamed)}, context)
        after = {each.name: each for _, each in readers}
        changed = ChangedCatalog(context.catalog, {view.name}, new_views={new: renamed, **after})
        check_views(changed, {view.name}, context, after)
    return RenameView(view.name, new, namespace, readers)


def bind_rename_schema(before: Namespace, after: Namespace, context: Context) -> RenameSchema:
    """Binds ALTER SCHEMA ... RENAME TO: all its tables and views get other names in the store, also in the texts of
    views."""
    moved: dict[str, tuple[Any, Any]] = {}
    found: list[Table | View] = [*context.catalog.tables(), *context.catalog.views()]
    for each in found:
        if each.namespace == before.name:
            new = new_full_name(after.name, each.local_name, context.catalog)
            moved[each.name] = each, replace(each, name=new, namespace=after.name)
    readers = readers_of(moved, context, include_moved=True)
    tables = {new.name: new for _, new in moved.values() if isinstance(new, Table)}
    views = {new.name: new for _, new in moved.values() if isinstance(new, View)}
    for old, rewritten in readers:
        view = replace(moved[old.name][1], text=rewritten.text) if old.name in moved else rewritten
        views[view.name] = view
    changed = ChangedCatalog(context.catalog, set(moved), tables, views, namespace=(before.name, after))
    check_rewritten([view for view in views.values() if view not in context.catalog.views()], changed, context)
    return RenameSchema(
        before,
        after,
        tuple((old, new.name) for old, new in moved.values() if isinstance(old, Table)),
        tuple((old, new.name) for old, new in moved.values() if isinstance(old, View)),
        readers,
    )


def names_read(view: View, context: Context) -> dict[int, str]:
    """The names in the store of the tables and views that the text of a view names, by the `id` of their nodes in
    `parsed_text`; empty for an invalid view."""
    names: dict[int, str] = {}
    try:
        bind_view_text(view, fresh_context(context, context.catalog), names)
    except Error:
        return {}
    return names


def readers_of(moved: Mapping[str, tuple[Any, Any]], context: Context, include_moved: bool = False) -> Pairs:
    """The views that read tables or views which get other names.

    Parameters
    ----------
    moved : mapping of str to (before, after)
        The tables and views, by their names in the store.
    include_moved : bool
        Also those of `moved` that read others of them.

    Returns
    -------
    tuple of (View, View)
        Each view as it is, and with the new names in its text.
    """
    found = []
    if any(before.name != after.name for before, after in moved.values()):
        for view in context.catalog.views():
            names = names_read(view, context)
            if (include_moved or view.name not in moved) and not moved.keys().isdisjoint(names.values()):
                found.append((view, replace(view, text=_rewritten(view.text, names, moved))))
    return tuple(found)


def _rewritten(text: str, names: dict[int, str], moved: Mapping[str, tuple[Any, Any]]) -> str:
    parsed = parsed_text(text).tree
    tree = parsed.copy()
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    for original, node in zip(list(parsed.walk()), list(tree.walk()), strict=True):
        name = names.get(id(original), "")
        if name not in moved:
            continue
        before, after = moved[name]
        local = after.local_name
        node.set("this", identifier(local))
        is_named = after.namespace != DEFAULT_NAMESPACE or local.startswith(OWN_PREFIX) or local in ctes
        node.set("db", identifier(after.namespace) if is_named else None)
        node.set("catalog", None)
        alias = node.args.get("alias")
        if alias is None:
            if before.local_name != local:
                node.set("alias", exp.TableAlias(this=identifier(before.local_name)))
        elif alias.this is not None and name_of(alias.this) == local and not alias.args.get("columns"):
            node.set("alias", None)  # renamed back
    return generate(tree)
