"""LIMIT pushed into the scan below it, so that no tablet reads beyond the rows that it may have to contribute.

A limit directly over a scan lets each part of the scan stop after that number of rows. So does a sort with a limit, if
the scan can produce its rows in the sort's order, which is that of the primary key or its reverse. Then only the first
or last rows of each tablet are read, and the sort above has little to merge. Projections in between do not matter. An
ordered scan has one thread per tablet and merges the tablet's rowsets, so it is used only if it saves most of the
reading.

>>> from nyala.planner import explain
>>> from nyala.planner.testing import plan_text
>>> print(explain(plan_text("SELECT k, a FROM t ORDER BY k LIMIT 10")))
Sort k first 10  (~10 rows)
  Project k, a  (~10 rows)
    TableScan t  (~10 rows)
      · reads k, a
      · ordered by key, limit 10
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...model.predicates import Range
from ...model.schema import PartitionSchema
from ...sql.expressions import Column, Expr, Literal, OrderItem, Parameter, conjuncts
from ..algebra import physical
from ..algebra.physical import PhysicalNode, TableScan
from ..algebra.trees import as_equality
from .value_sets import is_one_value

WORTH_ORDERING = 0.1
"""Largest share of a scan's rows that the tablets may be expected to produce in key order."""
GUESSED_ROWS = 100.0
"""Assumed rows of a LIMIT whose value is bound at execution."""


def limited(node: PhysicalNode, limit: Expr | None, offset: Expr | None) -> PhysicalNode:
    """Return the input of a limit, with the limit pushed down if the input is a scan."""
    if not _is_known(limit):
        return node
    if isinstance(node, physical.Project):
        return _over(node, limited(node.source, limit, offset))
    if isinstance(node, TableScan):
        return replace(node, limit=limit, offset=offset, estimate=min(node.estimate, _rows(limit, offset)))
    return node


def ordered(node: PhysicalNode, order: Sequence[OrderItem], limit: Expr | None, offset: Expr | None) -> PhysicalNode:
    """Return the input of a top-N, with order and limit pushed down if the input is a scan that can produce this
    order."""
    if not _is_known(limit):
        return node
    columns = [(item.expr.id, item.descending) for item in order if isinstance(item.expr, Column)]
    return _ordered(node, columns, limit, offset) if len(columns) == len(order) else node


def is_ordered(node: PhysicalNode) -> bool:
    """True for a scan in key order, also below projections."""
    if isinstance(node, physical.Project):
        return is_ordered(node.source)
    return isinstance(node, TableScan) and node.ordered


_Order: TypeAlias = Sequence[tuple[int, bool]]
"""Columns of an order, each with True if it is descending."""


def _ordered(node: PhysicalNode, order: _Order, limit: Expr | None, offset: Expr | None) -> PhysicalNode:
    if isinstance(node, physical.Project):
        pairs = zip(node.columns, node.expressions, strict=True)
        below = {column.id: expr.id for column, expr in pairs if isinstance(expr, Column)}
        if not all(number in below for number, _ in order):
            return node
        beneath = [(below[number], descending) for number, descending in order]
        return _over(node, _ordered(node.source, beneath, limit, offset))
    if not isinstance(node, TableScan) or (descending := _direction(node, order)) is None:
        return node
    is_of_one = set(_constants(node)).issuperset(node.table.partitions.columns)
    given = _rows(limit, offset) * (1 if is_of_one else tablet_count(node.table.partitions))
    if given > WORTH_ORDERING * node.estimate:
        return node
    given = min(node.estimate, given)
    return replace(node, ordered=True, descending=descending, limit=limit, offset=offset, estimate=given)


def _over(node: physical.Project, source: PhysicalNode) -> physical.Project:
    return replace(node, source=source, estimate=min(node.estimate, source.estimate))


def _direction(scan: TableScan, order: _Order) -> bool | None:
    """False if rows that ascend by primary key are in this order too, True if rows that descend are, None if neither.
    Columns of a single value do not matter."""
    if scan.time is not None and scan.time.changes is not None:
        return None  # rows of a diff scan differ in more than the key that they ascend by
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    constant = set(_constants(scan))
    wanted = [(names[number], descending) for number, descending in order if names[number] not in constant]
    key = [column.name for column in scan.table.schema.key if column.name not in constant]
    # The whole key identifies a row, so nothing is left to order behind it.
    wanted = wanted[: len(key)]
    directions = {descending for _, descending in wanted}
    if [name for name, _ in wanted] != key[: len(wanted)] or len(directions) > 1:
        return None
    return True in directions


def _constants(scan: TableScan) -> Iterator[str]:
    """Yield the columns that have the same value in all rows of the scan."""
    for predicate in scan.predicates:
        if isinstance(predicate, Range) and is_one_value(predicate):
            yield predicate.column
    names = {column.id: name for column, name in zip(scan.fetched, scan.names, strict=True)}
    for part in conjuncts(scan.residual):
        for column, value in (sides, sides[::-1]) if (sides := as_equality(part)) else ():
            if isinstance(column, Column) and isinstance(value, Parameter):
                yield names[column.id]


def _is_known(limit: Expr | None) -> bool:
    return limit is not None and not (isinstance(limit, Literal) and limit.value is None)


def _rows(limit: Expr | None, offset: Expr | None) -> float:
    """Number of rows that the operator above reads."""
    first = float(limit.value) if isinstance(limit, Literal) else GUESSED_ROWS
    skipped = float(offset.value or 0) if isinstance(offset, Literal) else 0.0
    return max(0.0, first) + max(0.0, skipped)


def tablet_count(partitions: PartitionSchema) -> int:
    """Number of tablets of a table."""
    return max(1, partitions.tablet_count)
