"""Binds ALTER VIEW, and rewrites the views that read a table or view under its old name.

A view is a text, so a new name must come into the texts of all views that read the object; in PostgreSQL these refer to
it by a number. The old name stays as the alias, by which the columns are named:

    FROM t          ALTER TABLE t RENAME TO u          FROM u AS t
    FROM t AS x     ALTER TABLE t SET SCHEMA s         FROM s.t AS x
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import Error, InvalidTableDefinition, NotSupportedError
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE
from ....model.schema import Table, View
from ...bound_catalog import RenameView
from ...syntax import nodes
from ...syntax.parser import generate
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
    check_views,
    existing_view,
    fresh_context,
    identifier,
    parsed_text,
)


def bind_alter_view(node: Any, context: Context) -> RenameView:
    """Binds ALTER VIEW, and ALTER TABLE of a view, whose one action is RENAME TO or SET SCHEMA."""
    with context.at(node.this):
        exists = bool(node.args.get("exists"))
        name = droppable_name(node.this, exists, context)
        view = None if name is None else existing_view(name, exists, "ALTER TABLE changes it", context)
        if view is None:
            return RenameView("", "", "")
        context.require_owner(view, "ALTER VIEW")
    (action,) = node.expressions
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
        readers = views_of_renamed(view, renamed, context)
        changed = ChangedCatalog(context.catalog, {view.name}, new_views={new: renamed, **readers})
        check_views(changed, {view.name}, context, readers)
    return RenameView(view.name, new, namespace, tuple(readers.values()))


def names_read(view: View, context: Context) -> dict[int, str]:
    """The names in the store of the tables and views that the text of a view names, by the `id` of their nodes in
    `parsed_text`; empty for an invalid view."""
    names: dict[int, str] = {}
    try:
        bind_view_text(view, fresh_context(context, context.catalog), names)
    except Error:
        return {}
    return names


def views_of_renamed(before: Table | View, after: Table | View, context: Context) -> dict[str, View]:
    """The views that read a table or view, with its new name in their texts, by their names."""
    if before.name == after.name:
        return {}
    found = {}
    for view in context.catalog.views():
        names = names_read(view, context)
        if view.name != before.name and before.name in names.values():
            found[view.name] = replace(view, text=_rewritten(view.text, names, before, after))
    return found


def _rewritten(text: str, names: dict[int, str], before: Table | View, after: Table | View) -> str:
    parsed = parsed_text(text).tree
    tree = parsed.copy()
    local = after.local_name
    is_hidden = local.startswith(OWN_PREFIX) or any(cte.alias == local for cte in tree.find_all(exp.CTE))
    for original, node in zip(list(parsed.walk()), list(tree.walk()), strict=True):
        if names.get(id(original)) != before.name:
            continue
        node.set("this", identifier(local))
        is_named = after.namespace != DEFAULT_NAMESPACE or is_hidden
        node.set("db", identifier(after.namespace) if is_named else None)
        node.set("catalog", None)
        alias = node.args.get("alias")
        if alias is None:
            if before.local_name != local:
                node.set("alias", exp.TableAlias(this=identifier(before.local_name)))
        elif alias.this is not None and name_of(alias.this) == local and not alias.args.get("columns"):
            node.set("alias", None)  # renamed back
    return generate(tree)
