"""Binds the partitions of a table: HASH rules, RANGE rules and the bounds of single range partitions."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import InvalidTableDefinition, UnknownColumn
from ....model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    check_partitions,
)
from ....model.types import EPOCH_DATE, EPOCH_TIMESTAMP, INTEGER_WIDTHS, DataType, Kind
from ...coercion import assign
from ...expressions import Literal
from ...syntax import nodes
from ...syntax.written_names import did_you_mean
from ..context import Context, Frame, name_of
from ..scope import Scope


def bind_partitions(clause: Any, schema: Schema, context: Context) -> PartitionSchema:
    """Bind DISTRIBUTE BY."""
    hashes: list[HashRule] = []
    range_rule: RangeRule | None = None
    for rule in clause.expressions:
        with context.at(rule):
            if range_rule is not None:
                raise InvalidTableDefinition("RANGE comes last in DISTRIBUTE BY, and only once")
        if isinstance(rule, nodes.HashPartition):
            hashes.append(_hash_rule(rule, schema, context))
        else:
            range_rule = _range_rule(rule, schema, tuple(hashes), context)
    return PartitionSchema(tuple(hashes), range_rule)


def _hash_rule(node: Any, schema: Schema, context: Context) -> HashRule:
    names = _key_columns(node.expressions, schema, "HASH", context) or tuple(
        c.name for c in schema.key if not c.auto_increment
    )
    buckets = whole_number(node.args["buckets"], context)
    with context.at(node.args["buckets"]):
        check_partitions(schema, PartitionSchema((HashRule(names, buckets),)))
    return HashRule(names, buckets)


def _key_columns(items: Sequence[Any], schema: Schema, what: str, context: Context) -> tuple[str, ...]:
    keys = [c.name for c in schema.key if not c.auto_increment]
    names = []
    for item in items:
        name = name_of(item)
        with context.at(item):
            if name not in schema:
                raise UnknownColumn(
                    f"{what} names {name}, which is not a column{did_you_mean(name, schema.names, 'the table has')}"
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


def _range_rule(node: Any, schema: Schema, hashes: tuple[HashRule, ...], context: Context) -> RangeRule:
    names = _key_columns(node.expressions, schema, "RANGE", context)
    columns = [schema.column(name) for name in names]
    if node.args.get("splits") or node.args.get("bounds"):
        partitions = _split_partitions(node, columns, context)
    else:
        partitions = [_range_partition(part, columns, context) for part in node.args.get("partitions") or []]
        partitions = [
            replace(r, hash_rules=_own_rules(p, schema, hashes, context))
            for p, r in zip(node.args["partitions"], partitions)
        ]
        # Sorted, since the text may have any order; None, the open lower bound, comes first.
        partitions.sort(key=lambda part: (part.lower is not None, part.lower or ()))
    rule = RangeRule(names, tuple(partitions))
    with context.at(node):
        check_partitions(schema, PartitionSchema(hashes, rule))
    return rule


def _own_rules(
    node: Any, schema: Schema, hashes: tuple[HashRule, ...], context: Context
) -> tuple[HashRule, ...] | None:
    """The hash rules of a single range partition; None if it uses the table's."""
    if not node.expressions:
        return None
    rules = tuple(_hash_rule(rule, schema, context) for rule in node.expressions)
    with context.at(node.expressions[0]):
        unbounded = RangePartition(None, None, rules)
        check_partitions(schema, PartitionSchema(hashes, RangeRule((schema.key[0].name,), (unbounded,))))
    return None if rules == hashes else rules


def _split_partitions(node: Any, columns: Sequence[ColumnSchema], context: Context) -> list[RangePartition]:
    """The partitions of RANGE BOUND, split at SPLIT ROWS; without bounds, those of all values."""
    splits = [(row, _bound(row, columns, context)) for row in node.args.get("splits") or []]
    bounds: list[tuple[Any, Any]] = []
    for part in node.args.get("bounds") or []:
        lower, upper = (_bound(row, columns, context) for row in part.expressions)
        with context.at(part):
            if lower >= upper:
                raise InvalidTableDefinition("the range bound is empty: its lower end is not below its upper")
        bounds.append((lower, upper))
    if not bounds:
        edges = [None, *(value for _, value in splits), None]
        return [RangePartition(lower, upper) for lower, upper in itertools.pairwise(edges)]
    pieces = []
    for lower, upper in sorted(bounds):
        inside = sorted(value for _, value in splits if lower < value < upper)
        pieces += [RangePartition(a, b) for a, b in itertools.pairwise([lower, *inside, upper])]
    for row, value in splits:
        with context.at(row):
            if not any(lower < value < upper for lower, upper in bounds):
                raise InvalidTableDefinition("a split row must be within a RANGE BOUND, above its lower end")
    return pieces


def _range_partition(node: Any, columns: Sequence[ColumnSchema], context: Context) -> RangePartition:
    value, lower, upper = (node.args.get(part) for part in ("value", "lower", "upper"))
    if value is not None:
        bound = _bound(value, columns, context)
        return RangePartition(bound, value_after(bound, [column.type for column in columns]))
    return RangePartition(
        _bound(lower, columns, context) if lower is not None else None,
        _bound(upper, columns, context) if upper is not None else None,
    )


def bind_range_bounds(node: Any, schema: Schema, partitions: PartitionSchema, context: Context) -> RangePartition:
    """One range partition: `PARTITION lower <= VALUES < upper` or `PARTITION VALUE = value`, optionally with its own
    hash rules."""
    assert partitions.range_rule is not None
    partition = _range_partition(node, [schema.column(name) for name in partitions.range_rule.columns], context)
    return replace(partition, hash_rules=_own_rules(node, schema, partitions.hash_rules, context))


def value_after(bound: Sequence[Any], types: Sequence[DataType]) -> tuple[Any, ...] | None:
    """The smallest bound above another one (physical values), at which `VALUE = bound` ends; None if there is none.

    >>> from nyala.model.types import INT, STRING, TINYINT
    >>> value_after((1, "a"), [INT, STRING]), value_after((1, 127), [INT, TINYINT]), value_after((127,), [TINYINT])
    ((1, 'a\\x00'), (2, -128), None)
    """
    for place in reversed(range(len(bound))):
        following = _following(bound[place], types[place])
        if following is not None:
            return (*bound[:place], following, *(_limits(type_)[0] for type_ in types[place + 1 :]))
    return None


def _following(value: Any, type_: DataType) -> Any:
    if type_.is_text:
        return value + _limits(type_)[0].ljust(1, "\0" if type_.kind is Kind.STRING else b"\0")
    return value + 1 if value < _limits(type_)[1] else None


def _limits(type_: DataType) -> tuple[Any, Any]:
    """The smallest and the largest physical value of a key column's type; for texts the smallest only."""
    if type_.is_text:
        return ("" if type_.kind is Kind.STRING else b""), None
    if type_.is_integer:
        half = 1 << (8 * INTEGER_WIDTHS[type_.kind] - 1)
        return -half, half - 1
    if type_.kind is Kind.DATE:
        return (datetime.date.min - EPOCH_DATE).days, (datetime.date.max - EPOCH_DATE).days
    if type_.kind is Kind.TIMESTAMP:
        unit = datetime.timedelta(microseconds=1)
        return (datetime.datetime.min - EPOCH_TIMESTAMP) // unit, (datetime.datetime.max - EPOCH_TIMESTAMP) // unit
    assert type_.precision is not None
    return 1 - 10**type_.precision, 10**type_.precision - 1


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
        value = assign(Frame(context, Scope(), "RANGE").bind(node), column.type, column.name)
        if not isinstance(value, Literal) or value.value is None:
            raise InvalidTableDefinition(f"a RANGE bound of {column.name} must be a constant and not NULL")
        return value.value


def whole_number(node: Any, context: Context) -> int:
    """A whole number in the text."""
    with context.at(node):
        if not str(node.this).isdigit():
            raise InvalidTableDefinition(f"{node.this} is not a whole number")
    return int(node.this)
