"""Rows of `nyala_catalog.partitions`: each tablet of a table as a condition on the table's columns.

    HASH (host) bucket 2 of 4, '2026-01-01' <= day     hash_bucket(4, 0, host) = 2 AND day >= '2026-01-01'

The conditions of a table are disjoint and together are true for every row that it can hold, whatever is altered
meanwhile: they name values, not tablets. A scan under one of them reads that tablet alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.partitions.partition import Partition, Partitioner
from ....model.schema import HashRule, RangePartition, Table
from ....model.types import DataType
from ..tables.show_create import name_text, value_text
from .objects import Objects
from .pg_objects import Row


def partitions(objects: Objects) -> Iterator[Row]:
    """A row for each tablet of the tables that keep their past, by schema, name and number."""
    now = objects.context.now()
    for each in objects.own:
        if each.table is None or each.schema == TEMPORARY_NAMESPACE:
            continue
        for partition in Partitioner(each.table.schema, each.table.partitions).partitions:
            yield {
                "table_schema": each.schema,
                "table_name": each.name,
                "sql_name": f"{name_text(each.schema)}.{name_text(each.name)}",
                "key_column": name_text(each.table.schema.key[0].name),
                "number": partition.index,
                "partition": partition.describe(),
                "condition": condition_text(each.table, partition),
                "snapshot": int(now),
            }


def condition_text(table: Table, partition: Partition) -> str:
    """The condition that is true for the rows of a partition; TRUE if it is the only one.

    >>> from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema
    >>> from nyala.model.types import STRING
    >>> schema = Schema((ColumnSchema("host", STRING, nullable=False),), 1)
    >>> table = Table("t1", "hosts", schema, PartitionSchema((HashRule(("host",), 2),)))
    >>> condition_text(table, Partitioner(schema, table.partitions).partitions[1])
    'hash_bucket(2, 0, host) = 1'
    """
    rules = table.partitions.rules_of(partition.range)
    parts = [_bucket_text(rule, bucket) for rule, bucket in zip(rules, partition.buckets, strict=True)]
    if partition.range is not None:
        parts += _range_parts(table, partition.range)
    return " AND ".join(parts) or "TRUE"


def _bucket_text(rule: HashRule, bucket: int) -> str:
    return f"hash_bucket({rule.buckets}, {rule.seed}, {', '.join(map(name_text, rule.columns))}) = {bucket}"


def _range_parts(table: Table, range_: RangePartition) -> Iterator[str]:
    rule = table.partitions.range_rule
    assert rule is not None
    types = [table.schema.column(name).type for name in rule.columns]
    for operator, bound in ((">=", range_.lower), ("<", range_.upper)):
        if bound is not None:
            yield _comparison(rule.columns, types, operator, bound)


def _comparison(names: Sequence[str], types: Sequence[DataType], operator: str, bound: Sequence[Any]) -> str:
    """A comparison of the first columns of a range rule with a bound, as many as the bound has.

    The text that follows 'm' ends with a character 0, which PostgreSQL's clients cannot send: `< 'm\\0'` is `<= 'm'`.
    """
    *before, last = bound
    if isinstance(last, str) and last.endswith("\0"):
        last, operator = last[:-1], {">=": ">", "<": "<="}[operator]
    columns = [name_text(name) for name in names[: len(bound)]]
    values = [value_text(type_, value) for type_, value in zip(types, (*before, last), strict=False)]
    if len(columns) == 1:
        return f"{columns[0]} {operator} {values[0]}"
    return f"({', '.join(columns)}) {operator} ({', '.join(values)})"
