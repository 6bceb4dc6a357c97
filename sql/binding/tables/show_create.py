"""Writes a table as the CREATE TABLE statement that would create it: SHOW CREATE TABLE.

The output parses to the same definition: columns, key, partitions, comment. An altered table is written in its current
form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ....model.namespaces import DEFAULT_NAMESPACE
from ....model.schema import ColumnSchema, Compression, Encoding, HashRule, RangePartition, Table, View
from ....model.types import DataType, Kind
from ...syntax.dialect import NyalaTokenizer
from .partitions import value_after

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
WORDS = frozenset(
    word.lower() for phrase in (*NyalaTokenizer.KEYWORDS, "CHECK NON PRIMARY HASH RANGE") for word in phrase.split()
)
"""The words of SQL, and signs, that cannot be names without quotes."""


def create_table_text(table: Table) -> str:
    """CREATE TABLE of a table, with a column or clause per line, without semicolon."""
    key = ", ".join(name_text(c.name) for c in table.schema.key if not c.auto_increment)
    unique = "" if table.schema.auto_increment is None else "NON UNIQUE "
    items = [*(_column(column) for column in table.schema.visible_columns), f"{unique}PRIMARY KEY ({key})"]
    body = ",\n".join(f"  {item}" for item in items)
    return "\n".join([f"CREATE TABLE {table_text(table)} (\n{body}\n)", *_clauses(table)])


def create_view_text(view: View) -> str:
    """CREATE VIEW of a view, without semicolon."""
    return f"CREATE VIEW {table_text(view)} ({_names(view.columns)}) AS\n{view.text}"


def table_text(found: Table | View) -> str:
    """The name of a table or view in SQL, with the schema unless that is the default one."""
    name = name_text(found.local_name)
    return name if found.namespace == DEFAULT_NAMESPACE else f"{name_text(found.namespace)}.{name}"


def _clauses(table: Table) -> Iterator[str]:
    rules = [_hash_text(rule) for rule in table.partitions.hash_rules]
    rule = table.partitions.range_rule
    if rule is not None:
        parts = ",\n".join(f"    {range_text(table, part)}" for part in rule.partitions)
        rules.append(f"RANGE ({_names(rule.columns)}) (" + (f"\n{parts}\n  )" if parts else ")"))
    if rules:
        yield "DISTRIBUTE BY\n" + ",\n".join(f"  {rule}" for rule in rules)
    if table.replicas is not None:
        yield f"REPLICAS {table.replicas}"
    if table.quota_bytes is not None:
        yield f"QUOTA {table.quota_bytes}"
    if table.comment:
        yield f"COMMENT {_quoted(table.comment)}"


def _column(column: ColumnSchema) -> str:
    words = [name_text(column.name), str(column.type), "NULL" if column.nullable else "NOT NULL"]
    words += [f"DEFAULT {value_text(column.type, column.default)}"] if column.default is not None else []
    words += ["IMMUTABLE"] if column.immutable else []
    words += [f"ENCODING {column.encoding.value}"] if column.encoding is not Encoding.AUTO else []
    words += [f"COMPRESSION {column.compression.value}"] if column.compression is not Compression.AUTO else []
    words += [f"BLOCK_SIZE {column.block_size}"] if column.block_size else []
    words += [f"COMMENT {_quoted(column.comment)}"] if column.comment else []
    return " ".join(words)


def range_text(table: Table, part: RangePartition | None) -> str:
    """A range partition as CREATE and ALTER TABLE write it."""
    rule = table.partitions.range_rule
    assert rule is not None and part is not None
    types = [table.schema.column(name).type for name in rule.columns]
    own = "".join(f" {_hash_text(rule)}" for rule in part.hash_rules or ())
    if part.lower is not None and part.upper == value_after(part.lower, types):
        return f"PARTITION VALUE = {_bound(types, part.lower)}{own}"
    lower = "" if part.lower is None else f"{_bound(types, part.lower)} <= "
    upper = "" if part.upper is None else f" < {_bound(types, part.upper)}"
    return f"PARTITION {lower}VALUES{upper}{own}"


def _hash_text(rule: HashRule) -> str:
    return f"HASH ({_names(rule.columns)}) INTO {rule.buckets} BUCKETS"


def _bound(types: Sequence[DataType], values: Sequence[Any]) -> str:
    shown = [value_text(type_, value) for type_, value in zip(types, values, strict=True)]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def value_text(type_: DataType, value: Any) -> str:
    """A physical value, not NULL, as a constant that parses to the same value of the type."""
    if type_.kind is Kind.BINARY:
        return f"x'{bytes(value).hex()}'"
    if type_.kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if type_.is_float and not math.isfinite(value):
        return f"CAST('{value}' AS {type_})"
    if type_.is_decimal:
        return f"{type_.to_python(value):f}"
    if type_.is_numeric:
        return str(type_.to_python(value))
    return _quoted(str(type_.to_python(value)))


def name_text(name: str) -> str:
    """An identifier, quoted if it would be parsed as anything else."""
    plain = _PLAIN_NAME.fullmatch(name) and name not in WORDS
    return name if plain else quoted_name(name)


def quoted_name(name: str) -> str:
    """An identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def _names(names: Sequence[str]) -> str:
    return ", ".join(name_text(name) for name in names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
