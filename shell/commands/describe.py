"""`\\d` and related commands: lists of tables, views, columns, partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...model.schema import PartitionSchema, RangePartition, Table, View
from ...model.types import BIGINT, STRING, DataType
from ...sql.binding.tables.show_create import table_text
from ...sql.written_identifiers import name_parts
from ..console import Console


def tables(console: Console) -> None:
    """The tables, with their sizes."""
    store = console.connection.store
    found = store.tables()
    if not found:
        print("There are no tables.", file=console.text)
        return
    rows = [store.statistics(table).row_count for table in found]
    tablets = [store.tablet_count(table) for table in found]
    columns: list[tuple[str, DataType]] = [("table", STRING), ("rows", BIGINT), ("tablets", BIGINT)]
    batch = pa.record_batch([[table.name for table in found], rows, tablets], [name for name, _ in columns])
    console.show(columns, batch)


def views(console: Console) -> None:
    """The views, with their columns."""
    found = console.connection.store.views()
    if not found:
        print("There are no views.", file=console.text)
        return
    batch = pa.record_batch(
        [[view.name for view in found], [", ".join(view.columns) for view in found]], ["view", "columns"]
    )
    console.show([("view", STRING), ("columns", STRING)], batch)


def describe(console: Console, name: str) -> None:
    """A table or view by name; all of them where there is none."""
    store = console.connection.store
    if not name:
        tables(console)
        if store.views():
            views(console)
        return
    stored = console.connection.session.stored_name(name_parts(name))
    view = store.view(stored)
    if view is not None:
        _describe_view(console, view)
        return
    table = store.table(stored)
    schema = table.schema
    names = ("column", "type", "null", "default", "encoding", "compression", "comment")
    lines = [
        (
            column.name,
            str(column.type),
            "" if column.nullable else "NOT NULL",
            "" if column.default is None else str(column.type.to_python(column.default)),
            column.encoding.value,
            column.compression.value,
            column.comment,
        )
        for column in schema.columns
    ]
    shown = [i for i in range(len(names)) if i < 3 or any(line[i] not in ("", "AUTO") for line in lines)]
    columns = [(names[i], STRING) for i in shown]
    batch = pa.record_batch([pa.array([line[i] for line in lines]) for i in shown], [names[i] for i in shown])
    console.show(columns, batch)
    for line in describe_partitions(table):
        print(line, file=console.text)


def _describe_view(console: Console, view: View) -> None:
    """A view's columns with their types, and its query."""
    with console.connection.cursor() as cursor:
        rows = cursor.execute(f"DESCRIBE {table_text(view)}").fetchall()
    names = ("column", "type", "null")
    lines = [(column, type_, "" if nullable else "NOT NULL") for column, type_, nullable in rows]
    batch = pa.record_batch([pa.array([line[i] for line in lines]) for i in range(3)], list(names))
    console.show([(name, STRING) for name in names], batch)
    print(f"AS {view.text}", file=console.text)


def describe_partitions(table: Table) -> list[str]:
    """Key and partition rules, one line each, in the syntax of CREATE TABLE."""
    lines = [f"PRIMARY KEY ({', '.join(column.name for column in table.schema.key)})"]
    partitions: PartitionSchema = table.partitions
    lines += [f"HASH ({', '.join(rule.columns)}) INTO {rule.buckets} BUCKETS" for rule in partitions.hash_rules]
    if partitions.range_rule is not None:
        rule = partitions.range_rule
        lines.append(f"RANGE ({', '.join(rule.columns)})")
        types = [table.schema.column(name).type for name in rule.columns]
        lines += [f"  {_range(partition, types)}" for partition in rule.partitions]
    return lines


def _range(partition: RangePartition, types: Sequence[DataType]) -> str:
    def bound(values: tuple[object, ...]) -> str:
        texts = [f"'{t.to_python(v)}'" if not t.is_numeric else str(t.to_python(v)) for v, t in zip(values, types)]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    lower = "" if partition.lower is None else f"{bound(partition.lower)} <= "
    upper = "" if partition.upper is None else f" < {bound(partition.upper)}"
    own = "".join(f" HASH ({', '.join(r.columns)}) INTO {r.buckets} BUCKETS" for r in partition.hash_rules or ())
    return f"PARTITION {lower}VALUES{upper}{own}"
