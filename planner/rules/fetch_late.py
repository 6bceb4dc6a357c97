"""Fetch the text columns of a top-N over groups by primary key, after its rows are selected (late materialization).

TPC-H's Q10 returns 20 of 38,000 customers, each with name, address, telephone number and comment. These texts do not
affect the selection, so they need not pass through the joins and the grouping (nor, on a cluster, over the network).
They are read for the 20 remaining rows, by the customers' primary key. Source: Abadi et al., "Materialization
strategies in a column-oriented DBMS" (ICDE 2007).

>>> from nyala.planner.testing import WIDE, show
>>> query = "SELECT v.k, v.s, count(*) FROM w AS v JOIN w ON v.k = w.a GROUP BY v.k, v.s ORDER BY count(*) LIMIT 5"
>>> rules = ["reduce_group_keys", "merge_projections", "prune_columns", "push_limits", "fetch_late"]
>>> print(show(query, rules, WIDE))
Project k, v.s, count
  Sort count
    Join inner on v.k = k
      Scan w v: k, s
      Sort count first 5
        Project k, count
          Aggregate by v.k: count(*)
            Join inner on v.k = w.a
              Scan w v: k
              Scan w: a

Without a grouping, a top-N reads only texts of the rows that it keeps anyway (a `Batch` reads a column at first
access). A second scan then costs more than it saves: a top-N of one table took 1.1 to 1.9 times as long, measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Column, Expr, Literal
from ..algebra.logical import Aggregate, Filter, Join, Node, Project, Scan, Sort
from ..algebra.trees import all_of, call, column_ids, columns_in_all, nodes, rewrite_nodes
from ..context import Context
from .prune_columns import exactly, pruned

LEAST_ROWS = 4_096
"""Number of input rows below which the second scan costs more than the columns."""
LEAST_TIMES = 16
"""Least ratio of input rows to rows kept."""


def fetch_late(root: Node, context: Context) -> Node:
    """Remove from the input of a top-N over groups the texts that it only passes through, and join them to its rows."""
    if not context.options.fetch_late:
        return root
    return rewrite_nodes(root, lambda node: _late(node, context) if isinstance(node, Sort) else node)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Origin of a plan's column: a column of this scan, for the scan's row from which each row derives."""

    scan: Scan
    number: int
    is_grouped: bool = False
    """True if an aggregation lies between."""


def _late(node: Sort, context: Context) -> Node:
    kept = _rows_kept(node)
    if kept is None or context.estimator.rows(node.source) < max(LEAST_ROWS, LEAST_TIMES * kept):
        return node
    origins = _origins(node.source)
    for scan in {origin.scan.number: origin.scan for origin in origins.values()}.values():
        found = _without(node, scan, origins, context)
        if found is not None:
            # Columns of one table only, the first of several wide ones: each further table would cost another scan.
            return found
    return node


def _rows_kept(node: Sort) -> int | None:
    """Number of rows that the top-N reads to the end; None if it has no LIMIT, or one that is not known yet."""
    total = 0
    for bound in (node.limit, node.offset):
        if bound is not None:
            if not isinstance(bound, Literal) or not isinstance(bound.value, int):
                return None
            total += bound.value
    return None if node.limit is None else total


def _without(node: Sort, scan: Scan, origins: Mapping[int, _Origin], context: Context) -> Node | None:
    """Return the top-N with the scan's texts joined to its rows, None if that is impossible or not worth its cost."""
    late = _late_columns(node, scan, origins)
    found = _with_key(node.source, scan) if late else None
    if found is None:
        return None
    source, keys = found
    below = pruned(source, column_ids(source) - late.keys(), context)
    read = frozenset().union(*map(column_ids, nodes(below)))
    if all(origins[number].number in read for number in late):
        return None  # a group or a condition reads them all anyway
    top = replace(node, source=exactly(below, [c.id for c in below.columns if c.id not in late]))
    names = dict(scan.source_names)
    return _joined(node, top, scan, keys, {number: names[origins[number].number] for number in late}, context)


def _late_columns(node: Sort, scan: Scan, origins: Mapping[int, _Origin]) -> dict[int, Column]:
    """The scan's texts that a grouping has passed through and that do not affect the selection, by number."""
    ordering = columns_in_all(item.expr for item in node.order)
    key = _key_numbers(scan)
    return {
        column.id: column
        for column in node.columns
        if column.type.is_text
        and column.id not in ordering
        and (origin := origins.get(column.id)) is not None
        and origin.scan is scan
        and origin.is_grouped
        and origin.number not in key
    }


def _with_key(source: Node, scan: Scan) -> tuple[Node, dict[str, Column]] | None:
    """Return `source` with the scan's whole primary key among its columns, and these by name; None if it cannot have
    it."""
    keys = _keys(source, scan)
    if isinstance(source, Project):
        hidden = {name: column for name, column in _keys(source.source, scan).items() if name not in keys}
        source = Project(source.source, source.items + tuple((column, column) for column in hidden.values()))
        keys |= hidden
    names = [column.name for column in scan.table.schema.key]
    return (source, {name: keys[name] for name in names}) if all(name in keys for name in names) else None


def _keys(node: Node, scan: Scan) -> dict[str, Column]:
    """Columns of the scan's primary key that a node has, by name."""
    origins, key = _origins(node), _key_numbers(scan)
    own = {origins[c.id].number: c for c in node.columns if c.id in origins and origins[c.id].scan is scan}
    return {name: own[number] for number, name in key.items() if number in own}


def _key_numbers(scan: Scan) -> dict[int, str]:
    """Columns of the primary key of the scan's table: their names by their numbers in the scan."""
    key = {column.name for column in scan.table.schema.key}
    return {number: name for number, name in scan.source_names if name in key}


def _joined(
    node: Sort, top: Sort, scan: Scan, keys: Mapping[str, Column], late: Mapping[int, str], context: Context
) -> Node:
    """Return the rows of `top` with the columns `late` (names in the table by number) from a scan by key, as
    `node`'s."""
    of_table = {column.name: column for column in scan.table.schema.columns}
    fresh: dict[str, Column] = {}
    for name in dict.fromkeys((*keys, *late.values())):
        column = of_table[name]
        fresh[name] = context.numbers.column(Column(column.type, column.nullable, 0, name))
    names = tuple((column.id, name) for name, column in fresh.items())
    source = Scan(scan.table, scan.alias, tuple(fresh.values()), names, (), scan.time)
    join = Join("inner", source, top, all_of(call("eq", fresh[name], column) for name, column in keys.items()))
    context.estimator.remember(join, context.estimator.rows(top))
    items: list[tuple[Column, Expr]] = [(c, fresh[late[c.id]] if c.id in late else c) for c in node.columns]
    return Project(Sort(join, node.order), tuple(items))


def _origins(node: Node) -> dict[int, _Origin]:
    """Origins of a node's columns, by number, for columns that derive from one row of a scan.

    All columns of one scan in an output row derive from the same row of the scan, and from a row that exists. Columns
    of an outer join's side that is completed with NULLs have no origin.
    """
    if isinstance(node, Scan):
        if node.time is not None and node.time.changes is not None:
            return {}  # several rows of a diff scan have one key
        return {column.id: _Origin(node, column.id) for column in node.output}
    if isinstance(node, (Filter, Sort)):
        return _origins(node.source)
    if isinstance(node, Project):
        below = _origins(node.source)
        return {
            column.id: below[expr.id] for column, expr in node.items if isinstance(expr, Column) and expr.id in below
        }
    if isinstance(node, Join):
        found: dict[int, _Origin] = {}
        if node.kind not in ("right", "full"):
            found |= _origins(node.left)
        if node.kind in ("inner", "cross", "right"):
            found |= _origins(node.right)
        return found
    if isinstance(node, Aggregate):
        return _origins_of_groups(node)
    return {}


def _origins_of_groups(node: Aggregate) -> dict[int, _Origin]:
    """Origins above an aggregation: the values that `any_value` picks belong to one row if the scan's whole primary key
    is among the groups."""
    if node.sets is not None:
        return {}
    below = _origins(node.source)
    groups = {c.id: below[expr.id] for c, expr in node.groups if isinstance(expr, Column) and expr.id in below}
    keyed = {origin.scan.number for origin in groups.values() if _has_key(origin.scan, groups)}
    picked = {
        column.id: below[aggregate.args[0].id]
        for column, aggregate in node.aggregates
        if aggregate.function == "any_value"
        and aggregate.filter is None
        and isinstance(aggregate.args[0], Column)
        and aggregate.args[0].id in below
    }
    found = {number: origin for number, origin in (groups | picked).items() if origin.scan.number in keyed}
    return {number: replace(origin, is_grouped=True) for number, origin in found.items()}


def _has_key(scan: Scan, groups: Mapping[int, _Origin]) -> bool:
    there = {origin.number for origin in groups.values() if origin.scan is scan}
    return there >= _key_numbers(scan).keys()
