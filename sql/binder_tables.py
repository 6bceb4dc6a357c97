"""Binds CREATE TABLE into a `TableDefinition`, every rule checked with its place.

The primary key's columns must be the table's first columns, in key order: a row's place in the table is its encoded key
(Kudu's rule).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from ..errors import InvalidTableDefinition, NotSupportedError, UnknownColumn, did_you_mean
from ..storage.schema import (
    ColumnSchema,
    Compression,
    Encoding,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
    check_partitions,
)
from ..storage.types import Kind
from . import nodes
from .binder_from import table_name
from .bound import CreateTable
from .coercion import assign
from .context import Context, Frame, name_of, only, unsupported
from .expressions import Literal
from .scope import Scope
from .typenames import bind_type

MAX_REPLICAS = 7


def find_table(node: Any, context: Context) -> Table:
    """The table that a name means."""
    with context.at(node):
        return context.catalog.table(table_name(node))


def bind_create_table(node: Any, context: Context) -> CreateTable:
    """Bind CREATE TABLE; `InvalidTableDefinition` points at what cannot be."""
    if node.args.get("query") is not None:
        raise NotSupportedError("CREATE TABLE AS is not supported; CREATE TABLE, then INSERT INTO ... SELECT")
    with context.at(node.this):
        name = table_name(node.this)
    definitions = [item for item in node.expressions if isinstance(item, exp.ColumnDef)]
    _refuse_foreign(node.expressions)
    keys = _key_names(node.expressions, definitions, context)
    columns = tuple(_column(item, keys, context) for item in definitions)
    _check_key(keys, columns, definitions, context)
    with context.at(node.this):
        schema = Schema(columns, len(keys))
    partitions, comment, replicas = _clauses(node.args.get("clauses") or [], schema, context)
    with context.at(node.this):
        check_partitions(schema, partitions)
    return CreateTable(TableDefinition(name, schema, partitions, comment, replicas), bool(node.args.get("exists")))


def _refuse_foreign(items: Sequence[Any]) -> None:
    for item in items:
        if not isinstance(item, exp.ColumnDef | exp.PrimaryKey):
            raise unsupported(item)


# ---- the key ---------------------------------------------------------------------------------------------------------


def _key_names(items: Sequence[Any], definitions: Sequence[Any], context: Context) -> list[tuple[str, Any]]:
    """The key's column names with their syntax nodes, from PRIMARY KEY (...) or from the columns' own PRIMARY KEY."""
    keys: list[tuple[str, Any]] = []
    clauses = [item for item in items if isinstance(item, exp.PrimaryKey)]
    inline = [item for item in definitions if any(_is_key(c) for c in item.args.get("constraints") or [])]
    if len(clauses) + (1 if inline else 0) > 1:
        with context.at(clauses[-1]):
            raise InvalidTableDefinition("a table has one PRIMARY KEY")
    for clause in clauses:
        keys += [(name_of(part), part) for part in clause.expressions]
    keys += [(name_of(item.this), item.this) for item in inline]
    seen: set[str] = set()
    for name, part in keys:
        with context.at(part):
            if name in seen:
                raise InvalidTableDefinition(f"column {name} is in the PRIMARY KEY twice")
        seen.add(name)
    return keys


def _is_key(constraint: Any) -> bool:
    return isinstance(constraint.args.get("kind"), exp.PrimaryKeyColumnConstraint)


def _check_key(
    keys: list[tuple[str, Any]], columns: tuple[ColumnSchema, ...], definitions: Sequence[Any], context: Context
) -> None:
    by_name: dict[str, ColumnSchema] = {}
    for column, item in zip(columns, definitions):
        with context.at(item.this):
            if column.name in by_name:
                raise InvalidTableDefinition(f"column {column.name} is there twice")
        by_name[column.name] = column
    for name, part in keys:
        with context.at(part):
            if name not in by_name:
                raise UnknownColumn(
                    f"PRIMARY KEY names {name}, which is no column{did_you_mean(name, by_name, 'the table has')}"
                )
            if by_name[name].type.is_float or by_name[name].type.kind is Kind.BOOLEAN:
                raise InvalidTableDefinition(f"primary key column {name} cannot be of type {by_name[name].type}")
    if keys and [c.name for c in columns[: len(keys)]] != [name for name, _ in keys]:
        with context.at(keys[0][1]):
            raise InvalidTableDefinition(
                "the primary key's columns come first in the table, in key order: begin the table with "
                + ", ".join(name for name, _ in keys)
            )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _column(node: exp.ColumnDef, keys: list[tuple[str, Any]], context: Context) -> ColumnSchema:
    only(node, "this", "kind", "constraints")
    name = name_of(node.this)
    type_ = bind_type(node.args["kind"], context)
    is_key = any(name == key for key, _ in keys)
    given: dict[str, Any] = {}
    for constraint in node.args.get("constraints") or []:
        with context.at(node.this):
            attribute, value = _attribute(constraint.args.get("kind"), name, type_, context)
            if attribute in given and attribute != "key":
                said = "NULL or NOT NULL" if attribute == "nullable" else attribute.upper()
                raise InvalidTableDefinition(f"column {name} says {said} twice")
            given[attribute] = value
    given.pop("key", None)
    if is_key and given.get("nullable"):
        with context.at(node.this):
            raise InvalidTableDefinition(f"primary key column {name} must be NOT NULL")
    given.setdefault("nullable", not is_key)
    return ColumnSchema(name, type_, **given)


def _attribute(kind: Any, name: str, type_: Any, context: Context) -> tuple[str, Any]:
    """One column attribute as a field of `ColumnSchema`."""
    if isinstance(kind, exp.PrimaryKeyColumnConstraint):
        only(kind)
        return "key", True
    if isinstance(kind, exp.NotNullColumnConstraint):
        return "nullable", bool(kind.args.get("allow_null"))
    if isinstance(kind, exp.DefaultColumnConstraint):
        return "default", _default(kind.this, name, type_, context)
    if isinstance(kind, exp.CommentColumnConstraint):
        if not isinstance(kind.this, exp.Literal):
            raise InvalidTableDefinition("COMMENT needs a quoted text")
        return "comment", str(kind.this.this)
    if isinstance(kind, nodes.EncodingConstraint):
        return "encoding", _choice(kind.this, Encoding, "encoding", context)
    if isinstance(kind, nodes.CompressionConstraint):
        return "compression", _choice(kind.this, Compression, "compression", context)
    raise unsupported(kind)


def _choice(node: Any, choices: Any, what: str, context: Context) -> Any:
    name = str(node.name).upper()
    with context.at(node):
        if name not in choices.__members__:
            raise InvalidTableDefinition(f"there is no {what} {name}; there are {', '.join(choices.__members__)}")
    return choices[name]


def _default(node: Any, name: str, type_: Any, context: Context) -> Any:
    if node is None:
        raise InvalidTableDefinition(f"DEFAULT of column {name} needs a value")
    with context.at(node):
        found = assign(Frame(context, Scope(), "DEFAULT").bind(node), type_, name)
        if not isinstance(found, Literal):
            raise InvalidTableDefinition(f"DEFAULT of column {name} must be a constant")
        return found.value


# ---- clauses ---------------------------------------------------------------------------------------------------------


def _clauses(clauses: Sequence[Any], schema: Schema, context: Context) -> tuple[PartitionSchema, str, int]:
    partitions, comment, replicas = PartitionSchema(), "", 1
    seen: set[type] = set()
    for clause in clauses:
        with context.at(clause):
            if type(clause) in seen:
                raise InvalidTableDefinition("each clause of CREATE TABLE may stand once")
        seen.add(type(clause))
        if isinstance(clause, nodes.DistributeBy):
            partitions = _partitions(clause, schema, context)
        elif isinstance(clause, nodes.TableComment):
            comment = str(clause.this.this)
        else:
            replicas = _replicas(clause.this, context)
    return partitions, comment, replicas


def _replicas(node: Any, context: Context) -> int:
    count = _count(node, context)
    with context.at(node):
        # An even number outvotes no more failures than the odd one below it.
        if count % 2 == 0 or count > MAX_REPLICAS:
            raise InvalidTableDefinition(f"REPLICAS must be 1, 3, 5 or {MAX_REPLICAS}, not {count}")
    return count


def _count(node: Any, context: Context) -> int:
    with context.at(node):
        if not str(node.this).isdigit():
            raise InvalidTableDefinition(f"{node.this} is not a whole number")
    return int(node.this)


def _partitions(clause: Any, schema: Schema, context: Context) -> PartitionSchema:
    hashes: list[HashRule] = []
    range_rule: RangeRule | None = None
    for rule in clause.expressions:
        with context.at(rule):
            if range_rule is not None:
                raise InvalidTableDefinition("RANGE comes last in DISTRIBUTE BY, and only once")
        if isinstance(rule, nodes.HashPartition):
            hashes.append(_hash_rule(rule, schema, context))
        else:
            range_rule = _range_rule(rule, schema, context)
    return PartitionSchema(tuple(hashes), range_rule)


def _hash_rule(node: Any, schema: Schema, context: Context) -> HashRule:
    names = _key_columns(node.expressions, schema, "HASH", context) or tuple(c.name for c in schema.key)
    buckets = _count(node.args["buckets"], context)
    with context.at(node.args["buckets"]):
        check_partitions(schema, PartitionSchema((HashRule(names, buckets),)))
    return HashRule(names, buckets)


def _key_columns(items: Sequence[Any], schema: Schema, what: str, context: Context) -> tuple[str, ...]:
    keys = [c.name for c in schema.key]
    names = []
    for item in items:
        name = name_of(item)
        with context.at(item):
            if name not in schema:
                raise UnknownColumn(
                    f"{what} names {name}, which is no column{did_you_mean(name, schema.names, 'the table has')}"
                )
            if name not in keys:
                raise InvalidTableDefinition(
                    f"{what} column {name} is not part of the primary key ({', '.join(keys)}); "
                    "only key columns can partition a table"
                )
            if name in names:
                raise InvalidTableDefinition(f"{what} names column {name} twice")
        names.append(name)
    return tuple(names)


def _range_rule(node: Any, schema: Schema, context: Context) -> RangeRule:
    names = _key_columns(node.expressions, schema, "RANGE", context)
    columns = [schema.column(name) for name in names]
    splits = node.args.get("splits")
    if splits:
        bounds = [_bound(split, columns, context) for split in splits]
        edges: list[tuple[Any, ...] | None] = [None, *bounds, None]
        found = [RangePartition(lower, upper) for lower, upper in itertools.pairwise(edges)]
    else:
        found = [_range_partition(part, columns, context) for part in node.args["partitions"]]
        # Any order in the text will do; None, the open lower bound, comes first.
        found.sort(key=lambda part: (part.lower is not None, part.lower or ()))
    rule = RangeRule(names, tuple(found))
    with context.at(node):
        check_partitions(schema, PartitionSchema((), rule))
    return rule


def _range_partition(node: Any, columns: Sequence[ColumnSchema], context: Context) -> RangePartition:
    lower, upper = node.args.get("lower"), node.args.get("upper")
    return RangePartition(
        _bound(lower, columns, context) if lower is not None else None,
        _bound(upper, columns, context) if upper is not None else None,
    )


def _bound(node: Any, columns: Sequence[ColumnSchema], context: Context) -> tuple[Any, ...]:
    """The physical values of a bound: `x`, `(x)` or `(x, y)`."""
    if isinstance(node, exp.Tuple):
        parts = list(node.expressions)
    else:
        parts = [node.this if isinstance(node, exp.Paren) else node]
    with context.at(node):
        if len(parts) != len(columns):
            raise InvalidTableDefinition(f"a RANGE bound needs {len(columns)} values, one per column, not {len(parts)}")
    return tuple(_bound_value(part, column, context) for part, column in zip(parts, columns))


def _bound_value(node: Any, column: ColumnSchema, context: Context) -> Any:
    with context.at(node):
        found = assign(Frame(context, Scope(), "RANGE").bind(node), column.type, column.name)
        if not isinstance(found, Literal) or found.value is None:
            raise InvalidTableDefinition(f"a RANGE bound of {column.name} must be a constant and not NULL")
        return found.value
