"""Tables, columns, partitions and views as plain data: maps, lists and physical values.

The form of the catalog file and of messages in a cluster. Integers may exceed 64 bits (defaults and bounds of wide
decimals); `model.codec.packing` packs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..namespaces import DEFAULT_NAMESPACE, Namespace
from ..schema import (
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
    View,
)
from ..types import DataType, Kind


def table_to_dict(table: Table) -> dict[str, Any]:
    """A table."""
    data = {
        "id": table.id,
        "name": table.name,
        "version": table.version,
        "comment": table.comment,
        "next_column_id": table.next_column_id,
        **_shape_to_dict(table.schema, table.partitions),
    }
    if table.replicas is not None:
        data["asked_replicas"] = table.replicas
    if table.owner:
        data["owner"] = table.owner
    if table.quota_bytes is not None:
        data["quota_bytes"] = table.quota_bytes
    return {**data, **_within(table.namespace)}


def table_from_dict(data: Mapping[str, Any]) -> Table:
    """The table of `table_to_dict`."""
    schema, partitions = _shape_from_dict(data)
    return Table(
        id=data["id"],
        name=data["name"],
        schema=schema,
        partitions=partitions,
        version=data["version"],
        comment=data["comment"],
        next_column_id=data["next_column_id"],
        replicas=data.get("asked_replicas"),
        owner=data.get("owner", ""),
        quota_bytes=data.get("quota_bytes"),
        namespace=_namespace_of(data),
    )


def definition_to_dict(definition: TableDefinition) -> dict[str, Any]:
    """A table definition."""
    data = {
        "name": definition.name,
        "comment": definition.comment,
        "replicas": definition.replicas,
        **_within(definition.namespace),
        **_shape_to_dict(definition.schema, definition.partitions),
    }
    if definition.owner:
        data["owner"] = definition.owner
    if definition.quota_bytes is not None:
        data["quota_bytes"] = definition.quota_bytes
    return data


def definition_from_dict(data: Mapping[str, Any]) -> TableDefinition:
    """The definition of `definition_to_dict`."""
    schema, partitions = _shape_from_dict(data)
    return TableDefinition(
        data["name"],
        schema,
        partitions,
        data["comment"],
        data["replicas"],
        data.get("owner", ""),
        data.get("quota_bytes"),
        _namespace_of(data),
    )


def view_to_list(view: View) -> list[Any]:
    """A view."""
    plain = [view.name, view.text, list(view.columns)]
    if view.namespace != DEFAULT_NAMESPACE:
        return [*plain, view.owner, view.namespace]
    return [*plain, view.owner] if view.owner else plain


def view_from_list(data: Sequence[Any]) -> View:
    """The view of `view_to_list`."""
    name, text, columns, *more = data
    return View(name, text, tuple(columns), *more)


def namespace_to_dict(namespace: Namespace) -> dict[str, Any]:
    """A namespace."""
    return {"name": namespace.name, **({"owner": namespace.owner} if namespace.owner else {})}


def namespace_from_dict(data: Mapping[str, Any]) -> Namespace:
    """The namespace of `namespace_to_dict`."""
    return Namespace(data["name"], data.get("owner", ""))


def column_to_dict(column: ColumnSchema) -> dict[str, Any]:
    """A column."""
    return {
        "id": column.id,
        "name": column.name,
        "type": type_to_list(column.type),
        "nullable": column.nullable,
        "default": column.default,
        "encoding": column.encoding.value,
        "compression": column.compression.value,
        "comment": column.comment,
        "initial": column.initial,
        "immutable": column.immutable,
        "auto_increment": column.auto_increment,
        "block_size": column.block_size,
    }


def column_from_dict(data: Mapping[str, Any]) -> ColumnSchema:
    """The column of `column_to_dict`, of any version of the catalog file."""
    return ColumnSchema(
        name=data["name"],
        type=type_from_list(data["type"]),
        nullable=data["nullable"],
        id=data["id"],
        default=data["default"],
        encoding=Encoding(data["encoding"]),
        compression=Compression(data["compression"]),
        comment=data["comment"],
        initial=data.get("initial"),
        immutable=data.get("immutable", False),
        auto_increment=data.get("auto_increment", False),
        block_size=data.get("block_size", 0),
    )


def type_to_list(type_: DataType) -> list[Any]:
    """A type with its parameters."""
    return [type_.kind.value, type_.precision, type_.scale, type_.length]


def type_from_list(data: Sequence[Any]) -> DataType:
    """The type of `type_to_list`."""
    kind, precision, scale, length = data
    return DataType(Kind(kind), precision, scale, length)


def range_partition_to_list(partition: RangePartition) -> list[Any]:
    """A range partition: its bounds and its own hash rules."""
    own = partition.hash_rules
    return [partition.lower, partition.upper, None if own is None else _hash_to_list(own)]


def range_partition_from_list(data: Sequence[Any]) -> RangePartition:
    """The partition of `range_partition_to_list`."""
    lower, upper, rules = data
    return RangePartition(_bound(lower), _bound(upper), None if rules is None else _hash_from_list(rules))


def _shape_to_dict(schema: Schema, partitions: PartitionSchema) -> dict[str, Any]:
    return {
        "key_columns": schema.key_columns,
        "columns": [column_to_dict(column) for column in schema.columns],
        "hash_rules": _hash_to_list(partitions.hash_rules),
        "range_rule": _range_to_dict(partitions.range_rule),
    }


def _shape_from_dict(data: Mapping[str, Any]) -> tuple[Schema, PartitionSchema]:
    columns = tuple(column_from_dict(column) for column in data["columns"])
    partitions = PartitionSchema(_hash_from_list(data["hash_rules"]), _range_from_dict(data["range_rule"]))
    return Schema(columns, data["key_columns"]), partitions


def _range_to_dict(rule: RangeRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    own = [None if p.hash_rules is None else _hash_to_list(p.hash_rules) for p in rule.partitions]
    bounds = [[p.lower, p.upper] for p in rule.partitions]
    return {"columns": list(rule.columns), "partitions": bounds, "hash_rules": own}


def _range_from_dict(data: Mapping[str, Any] | None) -> RangeRule | None:
    if data is None:
        return None
    own = data.get("hash_rules") or [None] * len(data["partitions"])
    partitions = tuple(
        range_partition_from_list((lower, upper, rules))
        for (lower, upper), rules in zip(data["partitions"], own, strict=True)
    )
    return RangeRule(tuple(data["columns"]), partitions)


def _hash_to_list(rules: Sequence[HashRule]) -> list[Any]:
    return [[list(rule.columns), rule.buckets, rule.seed] for rule in rules]


def _hash_from_list(data: Iterable[Any]) -> tuple[HashRule, ...]:
    return tuple(HashRule(tuple(names), buckets, seed) for names, buckets, seed in data)


def _bound(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _within(namespace: str) -> dict[str, Any]:
    """The namespace of a table, a definition or a view: nothing for the default one, as before there were others."""
    return {} if namespace == DEFAULT_NAMESPACE else {"namespace": namespace}


def _namespace_of(data: Mapping[str, Any]) -> str:
    """The namespace of `_within`."""
    name: str = data.get("namespace", DEFAULT_NAMESPACE)
    return name
