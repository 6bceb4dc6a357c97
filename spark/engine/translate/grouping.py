"""Translates GROUP BY, also with several grouping sets.

For no rows, Spark's GROUPING SETS returns no row for the empty set, and nyala returns one. That row is added by a full
join with the numbers of the empty sets:

    the sets' rows FULL JOIN (VALUES (2)) ON set_number = 2      count is 0 if the left side has no row
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from ....model.types import BIGINT, Kind
from ....planner.algebra.logical import Aggregate
from ....sql.expressions import Column, columns_of
from ....sql.functions import AGGREGATES
from . import aggregates, expressions
from .block import NO_COLUMNS, Aliases, Block
from .tree import Tree, again, both, call, case, cast, column, equal, infix, named, not_supported, number


def grouped(node: Aggregate, source: Block, aliases: Aliases) -> Block:
    """The rows of an Aggregate node."""
    for _, expr in node.groups:
        if expr.type.kind is Kind.INTERVAL:
            raise not_supported("groups of intervals")
    _check_distinct(node)
    source, keys = _with_keys(node, source, aliases)
    if node.sets is not None:
        return _sets(node, source, keys, aliases)
    items = [named(again(key), of.id) for (of, _), key in zip(node.groups, keys)]
    items += [named(aggregates.write(call_), of.id) for of, call_ in node.aggregates]
    if not items:
        items = [exp.alias_(call("count", exp.Star()), NO_COLUMNS)]
    query = source.selecting(items)
    if keys:
        query = query.group_by(*keys, copy=False)
    return Block(node.columns, finished=query)


def _check_distinct(node: Aggregate) -> None:
    """Rejects an ordered call together with calls of distinct values, for which Spark fails (ClassCastException)."""
    calls = [call_ for _, call_ in node.aggregates]
    if len(calls) > 1 and any(call_.distinct for call_ in calls):
        for call_ in calls:
            if call_.function in ("string_agg", "mode") and call_.order:
                raise not_supported(f"{call_.function}() in an order together with an aggregate of DISTINCT values")


def _with_keys(node: Aggregate, source: Block, aliases: Aliases) -> tuple[Block, list[Tree]]:
    """The source with its group keys as columns: Spark could take a constant for a column's position."""
    source = aliases.opened(source)
    if node.sets is None and all(isinstance(expr, Column) for _, expr in node.groups):
        return source, [expressions.write(expr) for _, expr in node.groups]
    read: set[int] = set()
    for _, call_ in node.aggregates:
        read |= columns_of(call_)
    kept = [of for of in source.columns if of.id in read]
    items = [column(of) for of in kept]
    keys: list[Tree] = []
    own = {of.id for of in kept}
    for of, expr in node.groups:
        # A column that is a key under its own number and is also read by an aggregate is selected once.
        if of.id not in own:
            items.append(named(expressions.write(expr), of.id))
        keys.append(column(of))
    block = Block(tuple(kept), finished=source.selecting(items))
    return aliases.nested(block), keys


# ---- grouping sets ---------------------------------------------------------------------------------------------------


def _sets(node: Aggregate, source: Block, keys: Sequence[Tree], aliases: Aliases) -> Block:
    sets, number_column = node.sets, node.set_number
    assert sets is not None
    if len({frozenset(chosen) for chosen in sets}) < len(sets):
        raise not_supported("GROUPING SETS with a repeated set")
    place = aliases.next()
    items = [named(again(key), of.id) for (of, _), key in zip(node.groups, keys)]
    items += [named(aggregates.write(call_), of.id) for of, call_ in node.aggregates]
    items.append(exp.alias_(_set_number(sets, keys), place))
    if not keys:
        query = source.selecting(items)
        return _shown(node, Block(node.columns, finished=query), place, number_column, aliases)
    written = [exp.Tuple(expressions=[again(keys[i]) for i in chosen]) for chosen in sets]
    query = source.selecting(items)
    query.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=written)]))
    block = aliases.nested(Block(node.columns, finished=query))
    if node.is_total:
        block = _with_empty(node, block, place, aliases)
    return _shown(node, block, place, number_column, aliases)


def _set_number(sets: Sequence[Sequence[int]], keys: Sequence[Tree]) -> Tree:
    """The number of a set in Spark: one bit for each key that is not in it, the first key's the highest."""
    if not keys:
        return cast(number(0), BIGINT)
    branches: list[tuple[Tree, Tree]] = []
    for place, chosen in enumerate(sets):
        tests = [equal(call("grouping", again(key)), number(0 if i in chosen else 1)) for i, key in enumerate(keys)]
        branches.append((both(*tests), cast(number(place), BIGINT)))
    return case(*branches)


def _with_empty(node: Aggregate, block: Block, place: str, aliases: Aliases) -> Block:
    """The rows and, for each empty set that has none, its row over no rows."""
    assert node.sets is not None
    empty = [i for i, chosen in enumerate(node.sets) if not chosen]
    other, theirs = aliases.next(), aliases.next()
    described = exp.TableAlias(this=exp.to_identifier(other), columns=[exp.to_identifier(theirs)])
    rows = exp.Values(expressions=[exp.Tuple(expressions=[cast(number(i), BIGINT)]) for i in empty], alias=described)
    join = exp.Join(this=rows, side="FULL", on=infix(exp.EQ, exp.column(place), exp.column(theirs)))
    items: list[Tree] = [column(of) for of, _ in node.groups]
    for of, call_ in node.aggregates:
        zero = AGGREGATES[call_.function].zero_over_nothing
        found = call("coalesce", column(of), cast(number(0), of.type)) if zero else column(of)
        items.append(named(found, of.id))
    items.append(exp.alias_(call("coalesce", exp.column(place), exp.column(theirs)), place))
    assert block.source is not None
    joined = Block(node.columns, source=block.source, joins=(join,))
    return aliases.nested(Block(node.columns, finished=joined.selecting(items)))


def _shown(node: Aggregate, block: Block, place: str, number_column: Column | None, aliases: Aliases) -> Block:
    """The columns of the node, with the set's number under its own number."""
    block = aliases.opened(block)
    items: list[Any] = [column(of) for of in node.columns if number_column is None or of.id != number_column.id]
    if number_column is not None:
        items.append(named(cast(exp.column(place), number_column.type), number_column.id))
    return Block(node.columns, finished=block.selecting(items))
