"""Binds ALTER TABLE: each action becomes a step of the store, checked against the table after the previous actions.

    ALTER TABLE t ADD COLUMN a INT, RENAME COLUMN a TO b        AddColumn(a), RenameColumn(a, b)

Steps that the store would reject, or that would invalidate a view of the table, are rejected here with their position
in the text. Actions that `IF [NOT] EXISTS` finds already done are omitted.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ....errors import InvalidTableDefinition, NotSupportedError
from ....model.alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropColumn,
    DropRangePartition,
    RenameColumn,
    RenameTable,
    SetComment,
    SetDefault,
    SetOwner,
    SetQuota,
    SetReplicas,
    SetStorage,
)
from ....model.altered_table import apply_steps
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.schema import RangePartition, Table
from ...bound import AlterTable, ChangeViewOwner, RenameView
from ...syntax import nodes
from ..access.grants import owner_of_object
from ..catalog.renaming import Pairs, bind_alter_view, readers_of
from ..catalog.views import ChangedCatalog, check_views, find_view
from ..context import Context, name_of
from ..names import canonical, check_schema, new_full_name
from .create_table import (
    bind_attribute,
    bind_column,
    bind_property_replicas,
    bind_quota,
    bind_replicas,
    find_table,
    is_key,
)
from .partitions import bind_range_bounds


def bind_alter_table(node: Any, context: Context) -> AlterTable | RenameView | ChangeViewOwner:
    """Binds ALTER TABLE; `InvalidTableDefinition`, `UnknownColumn` or `DuplicateTable` point at the invalid action.

    As in PostgreSQL, RENAME TO, SET SCHEMA and OWNER TO change views too.
    """
    actions = node.expressions
    if (
        len(actions) == 1
        and isinstance(actions[0], nodes.RenameTable | nodes.SetSchema | nodes.SetTableOwner)
        and find_view(node.this, context)
    ):
        return bind_alter_view(node, context)
    table = find_table(node.this, context)
    with context.at(node.this):
        context.require_owner(table, "ALTER TABLE")
    others = [other.name for other in context.catalog.tables() if other.name != table.name]
    others += [view.name for view in context.catalog.views()]
    steps: list[AlterStep] = []
    altered = table
    readers: Pairs = ()
    for action in node.expressions:
        with context.at(action):
            step = _step(action, altered, context)
            if step is not None:
                altered = apply_steps(altered, [step], others)
                steps.append(step)
            if isinstance(step, RenameTable | DropColumn | RenameColumn):
                readers = readers_of({table.name: (table, altered)}, context)
                views = {view.name: view for _, view in readers}
                changed = ChangedCatalog(context.catalog, {table.name}, {altered.name: altered}, views)
                check_views(changed, {table.name}, context, views)
    return AlterTable(table, tuple(steps), readers)


def _step(action: Any, table: Table, context: Context) -> AlterStep | None:
    """One action as a step; None if there is nothing to do."""
    if isinstance(action, nodes.AddColumn):
        return _add_column(action, table, context)
    if isinstance(action, nodes.DropColumn):
        name = name_of(action.this)
        return DropColumn(name) if name in table.schema or not action.args.get("exists") else None
    if isinstance(action, nodes.RenameColumn):
        return RenameColumn(name_of(action.this), name_of(action.expression))
    if isinstance(action, nodes.RenameTable):
        context.require_create(table.namespace)
        return RenameTable(new_full_name(table.namespace, name_of(action.this), context.catalog))
    if isinstance(action, nodes.SetSchema):
        schema = canonical(name_of(action.this))
        check_schema(schema, context)
        if TEMPORARY_NAMESPACE in (schema, table.namespace):
            raise NotSupportedError("tables cannot be moved into or out of the schema of temporary objects")
        context.require_create(schema)
        name = new_full_name(schema, table.local_name, context.catalog)
        return None if schema == table.namespace else RenameTable(name, schema)
    if isinstance(action, nodes.AlterColumn):
        return _alter_column(action, table, context)
    if isinstance(action, nodes.SetTableOwner):
        return SetOwner(owner_of_object(action.this, table, context))
    if isinstance(action, nodes.TableComment):
        return SetComment(None, str(action.this.this))
    if isinstance(action, nodes.SetClause):
        return _set_replicas(action.this, context)
    if isinstance(action, nodes.TableQuota):
        return SetQuota(bind_quota(action))
    bounds = _bounds(action.this, table, context)
    if isinstance(action, nodes.AddPartition):
        return AddRangePartition(bounds)
    if action.this.expressions:
        raise InvalidTableDefinition("a range partition is dropped by its bounds alone; leave HASH out")
    return DropRangePartition(bounds)


def _set_replicas(clause: Any, context: Context) -> AlterStep | None:
    if isinstance(clause, nodes.Replicas):
        return SetReplicas(bind_replicas(clause.this, context))
    count = bind_property_replicas(clause.expressions, None, context)
    return None if count is None else SetReplicas(count)


def _add_column(action: Any, table: Table, context: Context) -> AlterStep | None:
    definition = action.this
    for constraint in definition.args.get("constraints") or []:
        with context.at(definition.this):
            if is_key(constraint):
                raise InvalidTableDefinition("the primary key is that of CREATE TABLE; a key column cannot be added")
    column = bind_column(definition, (), context)
    return None if column.name in table.schema and action.args.get("exists") else AddColumn(column)


def _alter_column(action: Any, table: Table, context: Context) -> AlterStep:
    with context.at(action.this):
        column = table.schema.column(name_of(action.this))
    kind = action.args.get("expression")
    if kind is None:
        return SetDefault(column.name, None)
    attribute, value = bind_attribute(kind, column.name, column.type, context)
    if isinstance(kind, exp.DefaultColumnConstraint):
        return SetDefault(column.name, value)
    if attribute == "comment":
        return SetComment(column.name, value)
    return SetStorage(column.name, **{attribute: value})


def _bounds(node: Any, table: Table, context: Context) -> RangePartition:
    rule = table.partitions.range_rule
    if rule is None:
        return RangePartition(None, None)  # overlaps any partition of such a table
    return bind_range_bounds(node, table.schema, table.partitions, context)
