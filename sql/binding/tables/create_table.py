"""Binds CREATE TABLE into a `TableDefinition`, and reports each violated rule with its position.

The primary key's columns must be the table's first columns, in key order: rows are stored in the order of the encoded
key (Kudu's rule).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import InvalidTableDefinition, NotSupportedError, StatementError, UnknownColumn
from ....model.access.rights import Right
from ....model.schema import (
    ColumnSchema,
    Compression,
    Encoding,
    PartitionSchema,
    Schema,
    Table,
    TableDefinition,
    check_encoding,
    check_partitions,
    check_replicas,
    non_unique_key,
)
from ....model.types import STRING, Kind
from ...bound import CreateTable, CreateTableAs, DropTable, Query
from ...coercion import assign
from ...expressions import Literal
from ...settings import parse_bytes
from ...syntax import nodes
from ...syntax.written_names import did_you_mean
from ..catalog.views import dependents
from ..clauses.query import bind_query
from ..clauses.query_casts import cast_query
from ..context import Context, Frame, name_of, only, unsupported
from ..names import droppable_name, new_name, refuse_taken, table_name
from ..scope import Scope
from .partitions import bind_partitions, whole_number
from .type_names import bind_type


def find_table(node: Any, context: Context, writes: bool = False) -> Table:
    """The table that a name refers to, for a statement that `writes` its rows or for another that needs a table."""
    with context.at(node):
        name = table_name(node, context)
        if context.catalog.view(name) is not None:
            if writes:
                raise NotSupportedError(f"writing through views is not supported: {name} is a view; name its table")
            raise StatementError(f"{name} is a view, and this needs a table")
        return context.catalog.table(name)


def bind_drop_table(node: Any, context: Context) -> DropTable:
    """Binds DROP TABLE; with CASCADE, dependent views are dropped too, otherwise they are an error."""
    with context.at(node.this):
        exists = bool(node.args.get("exists"))
        name = droppable_name(node.this, exists, context)
        if name is None:
            return DropTable("", exists)
        if context.catalog.view(name) is not None:
            raise StatementError(f"{name} is a view, not a table; DROP VIEW drops it")
        if not any(table.name == name for table in context.catalog.tables()):
            if not exists:
                context.catalog.table(name)  # raises UnknownTable
            return DropTable(name, exists)
        context.require_owner(context.catalog.table(name), "DROP TABLE")
        return DropTable(name, exists, dependents(f"table {name}", name, bool(node.args.get("cascade")), context))


def bind_create_table(node: Any, context: Context) -> CreateTable:
    """Binds CREATE TABLE; `InvalidTableDefinition` points at the invalid part."""
    namespace, name = _new_name(node, context)
    if node.args.get("like") is not None:
        return _create_like(node, namespace, name, context)
    definitions = [item for item in node.expressions if isinstance(item, exp.ColumnDef)]
    _refuse_foreign(node.expressions)
    keys, is_unique = _key_names(node.expressions, definitions, context)
    columns = tuple(bind_column(item, [key for key, _ in keys], context) for item in definitions)
    _check_key(keys, columns, definitions, context)
    definition = _definition(node, (namespace, name), columns, len(keys), is_unique, context)
    return CreateTable(definition, bool(node.args.get("exists")))


def _create_like(node: Any, namespace: str, name: str, context: Context) -> CreateTable:
    """Binds CREATE TABLE LIKE: columns, key, partitions and comment of another table, without its rows."""
    other = find_table(node.args["like"], context)
    with context.at(node.args["like"]):
        context.require(other, Right.SELECT)
    columns = tuple(replace(column, id=-1, initial=None) for column in other.schema.columns)
    schema = Schema(columns, other.schema.key_columns)
    definition = TableDefinition(name, schema, other.partitions, other.comment, namespace=namespace)
    return CreateTable(definition, bool(node.args.get("exists")))


def bind_create_table_as(node: Any, context: Context) -> CreateTableAs:
    """Binds CREATE TABLE AS: names, types and nullability come from the query; key columns move to the front."""
    namespace, name = _new_name(node, context)
    for item in node.expressions:
        with context.at(item):
            if isinstance(item, exp.ColumnDef):
                raise InvalidTableDefinition(
                    "the columns of CREATE TABLE AS are those of its query; only PRIMARY KEY (...) is written here"
                )
    _refuse_foreign(node.expressions)
    keys, is_unique = _key_names(node.expressions, [], context)
    source = node.args["query"]
    query = bind_query(source, Scope(), context)
    query = cast_query(query, tuple(STRING if c.type.kind is Kind.NULL else c.type for c in query.columns), context)
    with context.at(node.this):
        if not keys and is_unique:
            raise InvalidTableDefinition("CREATE TABLE AS needs a key: write PRIMARY KEY (column, ...) before AS")
    with context.at(source):
        columns = _columns_of(query, [key for key, _ in keys])
    _check_key(keys, columns, [], context)
    definition = _definition(node, (namespace, name), columns, len(keys), is_unique, context)
    names = tuple(column.name for column in query.columns)
    return CreateTableAs(definition, names, query, bool(node.args.get("exists")))


def _new_name(node: Any, context: Context) -> tuple[str, str]:
    """The schema of the new table and its name in the store; raises `DuplicateTable` if it is taken, unless with IF NOT
    EXISTS."""
    with context.at(node.this):
        namespace, name = new_name(node.this, context, bool(node.args.get("temporary")))
        if not node.args.get("exists"):
            refuse_taken(name, context.catalog)
        return namespace, name


def _columns_of(query: Query, keys: Sequence[str]) -> tuple[ColumnSchema, ...]:
    """The columns of a query as those of a table, the key's first."""
    found: dict[str, ColumnSchema] = {}
    for column in query.columns:
        if column.name in found:
            raise InvalidTableDefinition(f"the query has two columns {column.name}; name one of them differently, AS")
        found[column.name] = ColumnSchema(column.name, column.type, column.nullable and column.name not in keys)
    first = [found[key] for key in keys if key in found]
    return (*first, *(column for name, column in found.items() if name not in keys))


def _definition(
    node: Any,
    name: tuple[str, str],
    columns: tuple[ColumnSchema, ...],
    key_columns: int,
    is_unique: bool,
    context: Context,
) -> TableDefinition:
    """The definition of a table of that schema and name in the store."""
    with context.at(node.this):
        schema = Schema(columns, key_columns) if is_unique else non_unique_key(columns, key_columns)
    partitions, comment, replicas, quota = _clauses(node.args.get("clauses") or [], schema, context)
    with context.at(node.this):
        check_partitions(schema, partitions)
    return TableDefinition(name[1], schema, partitions, comment, replicas, quota_bytes=quota, namespace=name[0])


def _refuse_foreign(items: Sequence[Any]) -> None:
    for item in items:
        if not isinstance(item, exp.ColumnDef | exp.PrimaryKey | nodes.NonUniqueKey):
            raise unsupported(item)


# ---- the key ---------------------------------------------------------------------------------------------------------


_KEY_ATTRIBUTES = exp.PrimaryKeyColumnConstraint | nodes.NonUniqueKeyConstraint


def _key_names(
    items: Sequence[Any], definitions: Sequence[Any], context: Context
) -> tuple[list[tuple[str, Any]], bool]:
    """The key's column names with their syntax nodes, from PRIMARY KEY (...) or from a column's PRIMARY KEY, and
    whether the key is unique. Clients of PostgreSQL also create tables without a key."""
    keys: list[tuple[str, Any]] = []
    clauses = [item for item in items if isinstance(item, exp.PrimaryKey | nodes.NonUniqueKey)]
    inline = [item for item in definitions if any(is_key(c) for c in item.args.get("constraints") or [])]
    if len(clauses) + len(inline) > 1:
        with context.at(clauses[-1] if clauses else inline[1]):
            raise InvalidTableDefinition("a table has one PRIMARY KEY; of several columns it is PRIMARY KEY (a, b)")
    for clause in clauses:
        keys += [(name_of(part), part) for part in clause.expressions]
    keys += [(name_of(item.this), item.this) for item in inline]
    seen: set[str] = set()
    for name, part in keys:
        with context.at(part):
            if name in seen:
                raise InvalidTableDefinition(f"column {name} is in the PRIMARY KEY twice")
        seen.add(name)
    if not (keys or clauses) and context.session.of_postgres:
        return [], False
    kinds = [*clauses, *(c.args["kind"] for item in inline for c in item.args["constraints"])]
    return keys, not any(isinstance(kind, nodes.NonUniqueKey | nodes.NonUniqueKeyConstraint) for kind in kinds)


def is_key(constraint: Any) -> bool:
    """True if a column attribute makes the column the key."""
    return isinstance(constraint.args.get("kind"), _KEY_ATTRIBUTES)


def _check_key(
    keys: list[tuple[str, Any]], columns: tuple[ColumnSchema, ...], definitions: Sequence[Any], context: Context
) -> None:
    by_name = {column.name: column for column in columns}
    seen: set[str] = set()
    for column, item in zip(columns, definitions):
        with context.at(item.this):
            if column.name in seen:
                raise InvalidTableDefinition(f"column {column.name} occurs twice")
        seen.add(column.name)
    for name, part in keys:
        with context.at(part):
            if name not in by_name:
                raise UnknownColumn(
                    f"PRIMARY KEY names {name}, which is not a column{did_you_mean(name, by_name, 'the table has')}"
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


def bind_column(node: Any, keys: Sequence[str], context: Context) -> ColumnSchema:
    """Binds a column definition; `keys` are the names of the key's columns."""
    only(node, "this", "kind", "constraints")
    name = name_of(node.this)
    type_ = bind_type(node.args["kind"], context)
    in_key = name in keys
    given: dict[str, Any] = {}
    for constraint in node.args.get("constraints") or []:
        with context.at(node.this):
            attribute, value = bind_attribute(constraint.args.get("kind"), name, type_, context)
            if attribute in given and attribute != "key":
                said = "NULL or NOT NULL" if attribute == "nullable" else attribute.upper()
                raise InvalidTableDefinition(f"column {name} has {said} twice")
            given[attribute] = value
    given.pop("key", None)
    if in_key and given.get("nullable"):
        with context.at(node.this):
            raise InvalidTableDefinition(f"primary key column {name} must be NOT NULL")
    given.setdefault("nullable", not in_key)
    column = ColumnSchema(name, type_, **given)
    with context.at(node.this):
        check_encoding(column)
    return column


def bind_attribute(kind: Any, name: str, type_: Any, context: Context) -> tuple[str, Any]:
    """One column attribute as a field of `ColumnSchema`."""
    if isinstance(kind, _KEY_ATTRIBUTES):
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
    if isinstance(kind, nodes.BlockSizeConstraint):
        return "block_size", _block_size(kind.this, name, context)
    if isinstance(kind, nodes.ImmutableConstraint):
        return "immutable", True
    raise unsupported(kind)


def _block_size(node: Any, name: str, context: Context) -> int:
    size = whole_number(node, context)
    with context.at(node):
        Schema((ColumnSchema(name, STRING, nullable=False, block_size=size),), 1)  # raises for an invalid size
    return size


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
        if node.find(exp.Column) is not None:
            raise InvalidTableDefinition(f"DEFAULT of column {name} must be a constant; it cannot read columns")
        value = assign(Frame(context, Scope(), "DEFAULT").bind(node), type_, name)
        if not isinstance(value, Literal):
            raise NotSupportedError(
                f"DEFAULT of column {name} must be a constant; give the column its value in INSERT, such as now()"
            )
        return value.value


# ---- clauses ---------------------------------------------------------------------------------------------------------


def _clauses(
    clauses: Sequence[Any], schema: Schema, context: Context
) -> tuple[PartitionSchema, str, int | None, int | None]:
    partitions, comment = PartitionSchema(), ""
    replicas: int | None = None
    quota: int | None = None
    seen: set[type] = set()
    for clause in clauses:
        with context.at(clause):
            if type(clause) in seen:
                raise InvalidTableDefinition("each clause of CREATE TABLE is allowed once")
        seen.add(type(clause))
        if isinstance(clause, nodes.DistributeBy):
            partitions = bind_partitions(clause, schema, context)
        elif isinstance(clause, nodes.TableComment):
            comment = str(clause.this.this)
        elif isinstance(clause, nodes.TableQuota):
            quota = bind_quota(clause)
        elif isinstance(clause, nodes.StoredAs):
            _check_stored_as(clause.this, context)
        elif isinstance(clause, nodes.TableProperties):
            replicas = bind_property_replicas(clause.expressions, replicas, context)
        else:
            replicas = bind_replicas(clause.this, context)
    return partitions, comment, replicas, quota


def bind_quota(node: nodes.TableQuota) -> int | None:
    """Bytes of a QUOTA: a number, or a text such as '10GB'; None for NONE."""
    if node.this is None:
        return None
    text = str(node.this.this)
    quota = parse_bytes(int(text) if text.isdigit() else text, "QUOTA")
    if not 0 < quota < 1 << 62:
        raise InvalidTableDefinition(f"QUOTA is a number of bytes above 0, or NONE, not {text}")
    return quota


def _check_stored_as(node: Any, context: Context) -> None:
    with context.at(node):
        if str(node.name).upper() != "KUDU":
            raise NotSupportedError(f"STORED AS {str(node.name).upper()} is not supported: all tables are as Kudu's")


REPLICAS_PROPERTY = "kudu.num_tablet_replicas"
"""The one property that nyala reads; all others are Impala's own and are ignored."""


def bind_property_replicas(properties: Sequence[Any], replicas: int | None, context: Context) -> int | None:
    """Returns the number of replicas of table properties; `replicas` if they have none."""
    for item in properties:
        if str(item.this.this) == REPLICAS_PROPERTY:
            replicas = bind_replicas(item.expression, context)
    return replicas


def bind_replicas(node: Any, context: Context) -> int:
    """Returns the number of a REPLICAS clause."""
    count = whole_number(node, context)
    with context.at(node):
        check_replicas(count)
    return count
