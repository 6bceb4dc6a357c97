"""ALTER TABLE as a function from a table to a table: every step is checked against the table, nothing is stored.

A table before and after shares the ids of its columns, so that older files, logs and MemRowSets are read with the new
schema. `Database.alter_table` makes the result durable, `table_alteration` applies it to the tablets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from ..errors import DuplicateTable, Error, InvalidTableDefinition, SchemaChanged, listed
from .alterations import (
    AddColumn,
    AddRangePartition,
    AlterStep,
    DropColumn,
    RenameColumn,
    RenameTable,
    SetComment,
    SetDefault,
    SetOwner,
    SetQuota,
    SetReplicas,
    SetStorage,
)
from .keys.key_encoding import encode_key
from .partitions.partition import Partitioner
from .partitions.range_rule import describe_range
from .schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    check_encoding,
    check_partitions,
    check_replicas,
)


def apply_steps(table: Table, steps: Sequence[AlterStep], tables: Collection[str] = ()) -> Table:
    """Returns the table after all steps, applied in order; nothing is stored.

    Parameters
    ----------
    table : Table
    steps : sequence of AlterStep
    tables : collection of str
        Names of the other tables.

    Raises
    ------
    UnknownColumn, InvalidTableDefinition, DuplicateTable
        For the first invalid step.
    """
    if not steps:
        raise InvalidTableDefinition(f"an ALTER of table {table.name} without any step changes nothing")
    altered = reduce(lambda before, step: _apply(before, step, tables), steps, table)
    check_partitions(altered.schema, altered.partitions)
    return replace(altered, version=table.version + 1)


def check_same_columns(before: Table, now: Table, names: Sequence[str]) -> None:
    """Raise `SchemaChanged` unless the names refer to the same columns in both versions of a table: the statement may
    have been planned before the table was altered."""
    if before.version == now.version:
        return
    for name in names:
        if name not in before.schema:
            continue
        if name not in now.schema:
            raise SchemaChanged(f"column {name} of table {now.name} is gone since the table was altered; try again")
        if now.schema.column(name).id != before.schema.column(name).id:
            raise SchemaChanged(
                f"column {name} of table {now.name} is another one since the table was altered; try again"
            )


def _apply(table: Table, step: AlterStep, tables: Collection[str]) -> Table:
    if isinstance(step, RenameTable):
        return _rename_table(table, step, tables)
    if isinstance(step, AddColumn):
        return _add_column(table, step.column)
    if isinstance(step, DropColumn):
        return _drop_column(table, step.name)
    if isinstance(step, RenameColumn):
        return _rename_column(table, step)
    if isinstance(step, SetDefault):
        return _set_default(table, step)
    if isinstance(step, SetStorage):
        return _set_storage(table, step)
    if isinstance(step, SetComment):
        return _set_comment(table, step)
    if isinstance(step, SetOwner):
        return replace(table, owner=step.owner)
    if isinstance(step, SetReplicas):
        check_replicas(step.count)
        return replace(table, replicas=step.count)
    if isinstance(step, SetQuota):
        return replace(table, quota_bytes=step.quota_bytes)
    if isinstance(step, AddRangePartition):
        return _add_range(table, step.partition)
    return _drop_range(table, step.partition)


# ---- names and columns -------------------------------------------------------------------------------------------


def _rename_table(table: Table, step: RenameTable, tables: Collection[str]) -> Table:
    if not step.name:
        raise InvalidTableDefinition(f"table {table.name} cannot be renamed to an empty name")
    if step.name in tables:
        raise DuplicateTable(f"{step.name} exists already; {table.name} cannot be renamed to it")
    return replace(table, name=step.name, namespace=table.namespace if step.namespace is None else step.namespace)


def _add_column(table: Table, column: ColumnSchema) -> Table:
    if not column.name:
        raise InvalidTableDefinition(f"a column added to table {table.name} needs a name")
    if column.name in table.schema:
        raise InvalidTableDefinition(f"table {table.name} has a column {column.name} already")
    if column.auto_increment:
        raise InvalidTableDefinition(f"column {column.name} cannot be auto-incrementing: only key columns are")
    if not column.nullable and column.default is None:
        raise InvalidTableDefinition(
            f"column {column.name} is NOT NULL and needs a DEFAULT: the rows of table {table.name} must show something"
        )
    column = replace(column, id=table.next_column_id)
    _check_default(column)
    check_encoding(column)
    schema = Schema((*table.schema.columns, replace(column, initial=column.default)), table.schema.key_columns)
    return replace(table, schema=schema, next_column_id=table.next_column_id + 1)


def _drop_column(table: Table, name: str) -> Table:
    column = table.schema.column(name)
    if column in table.schema.key:
        raise InvalidTableDefinition(f"column {name} is part of the primary key of table {table.name} and stays")
    kept = tuple(c for c in table.schema.columns if c is not column)
    return replace(table, schema=Schema(kept, table.schema.key_columns))


def _rename_column(table: Table, step: RenameColumn) -> Table:
    column = table.schema.column(step.name)
    if column.auto_increment:
        raise InvalidTableDefinition(f"column {step.name} is hidden and keeps its name")
    if not step.new_name:
        raise InvalidTableDefinition(f"column {step.name} cannot be renamed to an empty name")
    if step.new_name in table.schema and step.new_name != step.name:
        raise InvalidTableDefinition(
            f"table {table.name} has a column {step.new_name} already; {step.name} cannot be renamed to it"
        )
    renamed = _with_column(table, replace(column, name=step.new_name))

    def names(columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(step.new_name if name == step.name else name for name in columns)

    def hashed(rules: Sequence[HashRule]) -> tuple[HashRule, ...]:
        return tuple(replace(rule, columns=names(rule.columns)) for rule in rules)

    ranges = table.partitions.range_rule
    if ranges is not None:
        parts = tuple(
            p if p.hash_rules is None else replace(p, hash_rules=hashed(p.hash_rules)) for p in ranges.partitions
        )
        ranges = RangeRule(names(ranges.columns), parts)
    return replace(renamed, partitions=PartitionSchema(hashed(table.partitions.hash_rules), ranges))


def _set_default(table: Table, step: SetDefault) -> Table:
    column = table.schema.column(step.name)
    if column.auto_increment:
        raise InvalidTableDefinition(f"column {step.name} is auto-incrementing and has no DEFAULT")
    column = replace(column, default=step.default)
    _check_default(column)
    return _with_column(table, column)


def _check_default(column: ColumnSchema) -> None:
    """The default must be a physical value of the column's type."""
    try:
        same = column.type.to_physical(column.type.to_python(column.default)) == column.default
        same = same or column.default != column.default
    except (Error, TypeError, ValueError, ArithmeticError, AttributeError):
        same = False
    if not same:
        raise InvalidTableDefinition(
            f"{column.default!r} cannot be the DEFAULT of column {column.name}: it is not a value of type {column.type}"
        )


def _set_storage(table: Table, step: SetStorage) -> Table:
    column = table.schema.column(step.name)
    column = replace(
        column,
        encoding=column.encoding if step.encoding is None else step.encoding,
        compression=column.compression if step.compression is None else step.compression,
        block_size=column.block_size if step.block_size is None else step.block_size,
    )
    check_encoding(column)
    return _with_column(table, column)


def _set_comment(table: Table, step: SetComment) -> Table:
    if step.name is None:
        return replace(table, comment=step.comment)
    return _with_column(table, replace(table.schema.column(step.name), comment=step.comment))


def _with_column(table: Table, column: ColumnSchema) -> Table:
    """The table with the column of this id as given."""
    columns = tuple(column if c.id == column.id else c for c in table.schema.columns)
    return replace(table, schema=Schema(columns, table.schema.key_columns))


# ---- range partitions --------------------------------------------------------------------------------------------


def _add_range(table: Table, partition: RangePartition) -> Table:
    rule = _range_rule(table)
    _check_bounds(table, rule, partition)
    encode = _encoder(table, rule)
    lower = encode(partition.lower) or b""
    upper = encode(partition.upper)
    if upper is not None and upper <= lower:
        raise InvalidTableDefinition(f"range partition {_shown(table, rule, partition)} is empty")
    for other in rule.partitions:
        other_upper = encode(other.upper)
        if (upper is None or (encode(other.lower) or b"") < upper) and (other_upper is None or lower < other_upper):
            raise InvalidTableDefinition(
                f"range partition {_shown(table, rule, partition)} overlaps {_shown(table, rule, other)}"
            )
    partitions = sorted((*rule.partitions, partition), key=lambda p: encode(p.lower) or b"")
    return _with_ranges(table, replace(rule, partitions=tuple(partitions)))


def _drop_range(table: Table, partition: RangePartition) -> Table:
    rule = _range_rule(table)
    if not any(partition.has_bounds_of(other) for other in rule.partitions):
        existing = listed([_shown(table, rule, p) for p in rule.partitions], 6, "; ")
        _check_bounds(table, rule, partition)
        raise InvalidTableDefinition(
            f"table {table.name} has no range partition {_shown(table, rule, partition)}; it has {existing or 'none'}"
        )
    kept = tuple(p for p in rule.partitions if not p.has_bounds_of(partition))
    return _with_ranges(table, replace(rule, partitions=kept))


def _range_rule(table: Table) -> RangeRule:
    rule = table.partitions.range_rule
    if rule is None:
        raise InvalidTableDefinition(f"table {table.name} is not partitioned by RANGE; range partitions cannot change")
    return rule


def _check_bounds(table: Table, rule: RangeRule, partition: RangePartition) -> None:
    columns = [table.schema.column(name) for name in rule.columns]
    for bound in (partition.lower, partition.upper):
        if bound is None:
            continue
        if len(bound) != len(columns):
            raise InvalidTableDefinition(
                f"a bound of a range partition has one value for each of ({', '.join(rule.columns)}), not {len(bound)}"
            )
        for column, value in zip(columns, bound):
            if value is None:
                raise InvalidTableDefinition(f"a bound of a range partition cannot be NULL in column {column.name}")
            _check_bound(column, value)


def _check_bound(column: ColumnSchema, value: Any) -> None:
    wanted = (str,) if column.type.kind.value == "STRING" else (bytes,) if column.type.is_text else (int,)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise InvalidTableDefinition(
            f"{value!r} cannot bound a range partition: column {column.name} is of type {column.type}"
        )


def _encoder(table: Table, rule: RangeRule) -> Callable[[tuple[Any, ...] | None], bytes | None]:
    types = tuple(table.schema.column(name).type for name in rule.columns)
    return lambda bound: None if bound is None else encode_key(types, bound)


def _with_ranges(table: Table, rule: RangeRule) -> Table:
    altered = replace(table, partitions=replace(table.partitions, range_rule=rule))
    Partitioner(altered.schema, altered.partitions)  # refuses what cannot be routed
    return altered


def _shown(table: Table, rule: RangeRule, partition: RangePartition) -> str:
    return describe_range(partition, rule, [table.schema.column(name).type for name in rule.columns])
