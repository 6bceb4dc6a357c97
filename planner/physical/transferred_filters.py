"""Predicate transfer: a condition on one table reaches another over the keys of a join, and by its keys a large scan.

    SELECT ... FROM sales JOIN stock ON sales.item = stock.item
      JOIN days AS sold ON sales.day = sold.day JOIN days AS counted ON stock.day = counted.day
    WHERE sold.week = counted.week AND sold.year = 2001

The days of `counted` must be those of the weeks of 2001, but the table has no condition of its own: joined with `stock`
it filters nothing. If the join by week comes above that join, its keys are passed to the scan of `counted`, which is
read after they are known:

    HashJoin on stock.item = sales.item AND counted.week = sold.week          filters counted by its weeks
    ├─ probe: HashJoin on stock.day = counted.day                              filters stock by the days that remain
    │         ├─ probe: scan stock
    │         └─ build: scan counted
    └─ build: HashJoin on sales.day = sold.day ... scan sold WHERE year = 2001

If both are one join, a semi join with a second scan of `sold` leaves the days of these weeks:

    HashJoin on stock.day = counted.day AND sold.week = counted.week          filters stock by the days that remain
    ├─ probe: HashJoin on stock.item = sales.item
    │         ├─ probe: scan stock
    │         └─ build: ... scan sold WHERE year = 2001
    └─ build: HashJoin semi on counted.week = sold.week
              ├─ probe: scan counted
              └─ build: scan sold WHERE year = 2001                            `shared_build_sides` reads it once

What is dropped early is dropped by the join by week as well. Source: Yang et al., "Predicate transfer: efficient
pre-filtering on multi-join queries" (CIDR 2024). TPC-DS's Q72 took 380 ms of processor time, now 135.
"""

from __future__ import annotations

from dataclasses import replace

from ...sql.expressions import Column
from ...sql.functions import is_volatile
from ..algebra.physical import HashJoin, PhysicalNode, RuntimeFilter, TableScan, nodes
from ..algebra.trees import substitute
from ..context import Context
from ..estimates.cost import WORTH_FILTERING, CostModel, KeyPair, has_exact_filter
from .scanned_columns import scan_column, scan_with

LEAST_TIMES = 8
"""The filtered scan must yield at least this multiple of the rows that are read for its filter."""


def with_transfer(join: HashJoin, context: Context, model: CostModel) -> HashJoin:
    """Return an inner join with conditions passed to a build side without any; itself if that does not pay."""
    if join.kind != "inner" or len(join.probe_keys) < 2:
        return join
    known = {filter_.key for filter_ in join.runtime_filters}
    pairs = [KeyPair(*pair) for pair in zip(join.probe_keys, join.build_keys, strict=True)]
    for place, pair in enumerate(pairs):
        probe, key = pair.probe, pair.build
        if place not in known and isinstance(probe, Column) and isinstance(key, Column):
            changed = _passed_down(join, place, probe, key, model) or _reduced(join, place, probe, key, context, model)
            if changed is not None:
                return changed
    return join


def _passed_down(join: HashJoin, place: int, probe: Column, key: Column, model: CostModel) -> HashJoin | None:
    """Pass the key at `place` to a build side of a join on the probe side, if that join can then filter a scan."""
    above: list[HashJoin] = []
    below = join.probe
    while isinstance(below, HashJoin) and below.kind == "inner":
        if _is_plain(below.build) and any(column.id == probe.id for column in below.build.columns):
            filters = _filters(below, below.build.estimate)
            if not filters or model.filter_share(KeyPair(probe, key), join.build.estimate) > WORTH_FILTERING:
                return None
            changed: PhysicalNode = replace(below, runtime_filters=(*below.runtime_filters, *filters))
            for outer in reversed(above):
                changed = replace(outer, probe=changed)
            own = RuntimeFilter(place, probe.id)
            return replace(join, probe=changed, runtime_filters=(*join.runtime_filters, own))
        above.append(below)
        below = below.probe
    return None


def _reduced(
    join: HashJoin, place: int, probe: Column, key: Column, context: Context, model: CostModel
) -> HashJoin | None:
    """Reduce the build side by a semi join with the table of the probe side's key at `place`, which has a condition."""
    build = join.build
    source = _condition_on(join.probe, probe.id) if _is_plain(build) else None
    if source is None or (share := model.filter_share(KeyPair(key, probe), source.estimate)) > WORTH_FILTERING:
        return None
    read = context.estimator.table(source).row_count + build.estimate
    filters = [filter_ for filter_ in _filters(join, read) if filter_.key != place]
    if not filters:
        return None
    scan, column = _again(source, probe.id, context)
    semi = HashJoin(
        columns=build.columns,
        estimate=build.estimate * share,
        kind="semi",
        probe=build,
        build=scan,
        probe_keys=(key,),
        build_keys=(column,),
    )
    return replace(join, build=semi, runtime_filters=(*join.runtime_filters, *filters))


def _is_plain(node: PhysicalNode) -> bool:
    return isinstance(node, TableScan) and not node.ordered and node.limit is None


def _condition_on(probe: PhysicalNode, number: int) -> TableScan | None:
    """Return the scan below a probe side that produces a column, if it has conditions that may be evaluated twice.

    Above the scan the column has values of the scan or NULL, which equals nothing.
    """
    for node in nodes(probe):
        if isinstance(node, TableScan) and any(column.id == number for column in node.columns):
            is_conditional = bool(node.predicates) or node.residual is not None
            is_repeatable = node.residual is None or not is_volatile(node.residual)
            return node if _is_plain(node) and is_conditional and is_repeatable else None
    return None


def _filters(join: HashJoin, read: float) -> list[RuntimeFilter]:
    """Filters by further keys of a join for scans that are large beside the number of rows `read` for them."""
    known = {filter_.key for filter_ in join.runtime_filters}
    filters = []
    for place, (probe, build) in enumerate(zip(join.probe_keys, join.build_keys, strict=True)):
        if place in known or not isinstance(probe, Column):
            continue
        target = scan_column(join.probe, probe.id)
        is_exact = has_exact_filter(probe.type) and has_exact_filter(build.type)
        if is_exact and target is not None and scan_with(join.probe, target).estimate >= LEAST_TIMES * read:
            filters.append(RuntimeFilter(place, target))
    return filters


def _again(source: TableScan, number: int, context: Context) -> tuple[TableScan, Column]:
    """Return a second scan of the same rows that produces one column, and that column."""
    again = {column.id: context.numbers.column(column) for column in source.fetched}
    names = dict(zip((column.id for column in source.fetched), source.names, strict=True))
    needed = [number, *(each for each in names if each != number and source.residual is not None)]
    scan = replace(
        source,
        columns=(again[number],),
        fetched=tuple(again[each] for each in needed),
        names=tuple(names[each] for each in needed),
        residual=None if source.residual is None else substitute(source.residual, again),
    )
    return scan, again[number]
