"""Binds the statements other than queries and EXPLAIN, by the class of their syntax tree.

The binder imports this module, and with it the modules of all these statements, for the first such statement of the
process: most processes that start for one query have none.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ..bound import CompactTable, SetSetting, Statement
from ..syntax import nodes
from .catalog.settings import bind_reset, bind_set, bind_show
from .catalog.show import CATALOG_STATEMENTS
from .changes.copy import bind_copy, bind_copy_to
from .changes.insert import bind_insert, bind_upsert
from .changes.update_delete import bind_delete, bind_truncate, bind_update
from .context import Context, unsupported
from .tables.alter_table import bind_alter_table
from .tables.create_table import bind_create_table, bind_create_table_as, bind_drop_table, find_table
from .transactions import OF_TRANSACTION, TRANSACTION_STATEMENTS, set_of_transaction


def bind_other(tree: Any, context: Context) -> Statement:
    """Bind a statement that is no query. `NotSupportedError` if nyala has none of its class."""
    if isinstance(tree, exp.Insert):
        return bind_insert(tree, context)
    if isinstance(tree, nodes.Upsert):
        return bind_upsert(tree, context)
    if isinstance(tree, exp.Update):
        return bind_update(tree, context)
    if isinstance(tree, exp.Delete):
        return bind_delete(tree, context)
    if isinstance(tree, nodes.CreateTable):
        return (bind_create_table if tree.args.get("query") is None else bind_create_table_as)(tree, context)
    if isinstance(tree, nodes.AlterTable):
        return bind_alter_table(tree, context)
    if isinstance(tree, nodes.TruncateTable):
        return bind_truncate(tree, context)
    if isinstance(tree, nodes.DropTable):
        return bind_drop_table(tree, context)
    if isinstance(tree, nodes.CopyFrom):
        return bind_copy(tree, context)
    if isinstance(tree, nodes.CopyTo):
        return bind_copy_to(tree, context)
    if isinstance(tree, nodes.SetSetting):
        setting = bind_set(tree, context)
        if isinstance(setting, SetSetting) and setting.name in OF_TRANSACTION:
            return set_of_transaction(setting)
        return setting
    if isinstance(tree, nodes.ResetSetting):
        return bind_reset(tree, context)
    if isinstance(tree, nodes.ShowSettings):
        return bind_show(tree, context)
    if isinstance(tree, nodes.CompactTable):
        return CompactTable(find_table(tree.this, context))
    if type(tree) in TRANSACTION_STATEMENTS:
        return TRANSACTION_STATEMENTS[type(tree)](tree)
    if type(tree) in CATALOG_STATEMENTS:
        return CATALOG_STATEMENTS[type(tree)](tree, context)
    raise unsupported(tree)
