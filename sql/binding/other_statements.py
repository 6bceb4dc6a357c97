"""Binds the statements other than queries and EXPLAIN, by the class of their syntax tree.

The binder imports this module, and with it the modules of all these statements, for the first such statement of the
process: most processes that start for one query have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from ..bound import CompactTable, SetSetting, Statement
from ..syntax import nodes
from .access.grants import bind_grant, bind_revoke, bind_show_grants, bind_show_roles
from .access.roles import (
    bind_alter_role,
    bind_create_role,
    bind_drop_role,
    bind_grant_role,
    bind_revoke_role,
    bind_set_role,
)
from .catalog.settings import bind_reset, bind_set, bind_show
from .catalog.show import CATALOG_STATEMENTS
from .changes.copy import bind_copy, bind_copy_to
from .changes.insert import bind_insert, bind_upsert
from .changes.update_delete import bind_delete, bind_truncate, bind_update
from .context import Context, unsupported
from .names import new_name
from .session_statements import SESSION_STATEMENTS
from .tables.alter_table import bind_alter_table
from .tables.create_table import bind_create_table, bind_create_table_as, bind_drop_table, find_table
from .transactions import OF_TRANSACTION, TRANSACTION_STATEMENTS, set_of_transaction


def bind_other(tree: Any, context: Context) -> Statement:
    """Bind a statement that is no query. `NotSupportedError` if nyala has none of its class."""
    kind = type(tree)
    if kind in TRANSACTION_STATEMENTS:
        return TRANSACTION_STATEMENTS[kind](tree)
    bind = _BINDERS.get(kind) or CATALOG_STATEMENTS.get(kind) or SESSION_STATEMENTS.get(kind)
    if bind is None:
        raise unsupported(tree)
    return bind(tree, context)


def _create_table(tree: nodes.CreateTable, context: Context) -> Statement:
    with context.at(tree.this):
        namespace, _ = new_name(tree.this, context, bool(tree.args.get("temporary")))
        context.require_create(namespace)
    bound = (bind_create_table if tree.args.get("query") is None else bind_create_table_as)(tree, context)
    return replace(bound, definition=replace(bound.definition, owner=context.owner))


def _compact(tree: nodes.CompactTable, context: Context) -> Statement:
    table = find_table(tree.this, context)
    with context.at(tree.this):
        context.require_owner(table, "COMPACT TABLE")
    return CompactTable(table)


def _set(tree: nodes.SetSetting, context: Context) -> Statement:
    setting = bind_set(tree, context)
    if isinstance(setting, SetSetting) and setting.name in OF_TRANSACTION:
        return set_of_transaction(setting)
    return setting


_BINDERS: Final[dict[type, Callable[[Any, Context], Statement]]] = {
    exp.Insert: bind_insert,
    nodes.Upsert: bind_upsert,
    exp.Update: bind_update,
    exp.Delete: bind_delete,
    nodes.TruncateTable: bind_truncate,
    nodes.CreateTable: _create_table,
    nodes.AlterTable: bind_alter_table,
    nodes.DropTable: bind_drop_table,
    nodes.CopyFrom: bind_copy,
    nodes.CopyTo: bind_copy_to,
    nodes.SetSetting: _set,
    nodes.ResetSetting: bind_reset,
    nodes.ShowSettings: bind_show,
    nodes.CompactTable: _compact,
    nodes.CreateRole: bind_create_role,
    nodes.AlterRole: bind_alter_role,
    nodes.DropRole: bind_drop_role,
    nodes.GrantRole: bind_grant_role,
    nodes.RevokeRole: bind_revoke_role,
    nodes.GrantRight: bind_grant,
    nodes.RevokeRight: bind_revoke,
    nodes.SetRole: bind_set_role,
    nodes.ShowGrants: bind_show_grants,
    nodes.ShowRoles: bind_show_roles,
}
