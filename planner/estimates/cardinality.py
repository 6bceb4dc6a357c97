"""Estimated number of rows of each plan node, as far as statistics allow.

Predicates count as independent, equal columns join by containment: the smaller set of key values lies within the
larger. Both are wrong in detail and good enough to order joins (Selinger et al. 1979; Leis et al. 2015 measure the
error).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from ...model.store import TableStatistics
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Column, Expr, InValues, Literal, conjuncts
from ..algebra.logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Scan,
    Series,
    SetOperation,
    Shared,
    SingleRow,
    Sort,
    TopRows,
    Values,
    Window,
    WorkingTable,
)
from ..algebra.physical import TableScan
from ..algebra.trees import as_equality, columns_in, disjuncts
from ..scans.scan_predicates import extract, like_prefix
from .statistics import (
    RANGE,
    UNKNOWN_ROWS,
    ColumnProfile,
    Profiles,
    StatisticsSource,
    distinct_among,
    profile_of,
    restricted,
    selectivity,
)

DEFAULT = 0.3
"""Selectivity of a condition without any statistics."""
COMPARED_COLUMNS = 0.4
"""Selectivity of `a < b` between two columns."""
CONTAINS = 0.05
"""Selectivity of a pattern that may match anywhere."""
IMPLIED = 0.5
"""Selectivity of an OR over several relations: `factor_disjunctions` has pushed down most of its content."""
LEAST_TAIL = 1e-4
"""Least selectivity of a condition on an aggregate: however far out the constant, queries usually expect matches."""
ROUNDS = 10
"""Expected rounds of a recursive query."""
UNKNOWN_SERIES = 100.0
"""Values of a series whose bounds are unknown."""
LEAST_ANTI = 0.1
"""Least selectivity of an anti join: queries use one because some rows have no partner."""


class Estimator:
    """Estimates for one planning, cached per node.

    Column numbers are unique in a statement, so profiles of columns are stored by number alone.
    """

    def __init__(self, store: StatisticsSource):
        self._store = store
        self._tables: dict[str, TableStatistics] = {}
        self._profiles = Profiles()
        self._spreads: dict[int, tuple[float, float]] = {}
        self._rows: dict[int, float] = {}
        self._working: dict[int, tuple[Node, float]] = {}

    def table(self, scan: Scan | TableScan) -> TableStatistics:
        """Statistics of a scan's table."""
        known = self._tables.get(scan.table.id)
        if known is None:
            known = self._tables[scan.table.id] = self._store.statistics(scan.table)
        return known

    def rows(self, node: Node) -> float:
        """Expected number of rows."""
        known = self._rows.get(node.number)
        if known is None:
            known = self._rows[node.number] = _ESTIMATES[type(node)](self, node)
        return known

    def remember(self, node: Node, rows: float) -> None:
        """Record a better estimate than the node alone allows."""
        self._rows[node.number] = rows

    def domain(self, expr: Expr) -> float:
        """Number of distinct values that an expression may take, over the unfiltered rows."""
        if isinstance(expr, Column):
            profile = self._profiles.get(expr.id)
            return UNKNOWN_ROWS if profile is None else profile.domain
        if isinstance(expr, Literal):
            return 1.0
        if isinstance(expr, Call) and expr.function in _FEW_VALUES:
            return min(_FEW_VALUES[expr.function], max(1.0, *(self.domain(arg) for arg in expr.args)))
        product = 1.0
        for number in columns_in(expr):
            product *= self._profiles[number].domain if number in self._profiles else UNKNOWN_ROWS
        return product

    def keys_met(self, key: Expr, other: Expr, rows: float) -> float:
        """Number of values of a join key that may meet the other side's; `rows` are those left of the key's after
        filters.

        Dimensions often reach further than facts: 200 years of dates for five years of sales. Queries rarely select a
        year without sales. So the filtered values of a unique key are assumed to lie within the bounds of the referring
        column.
        """
        domain = self.domain(key)
        own = self._profiles.get(key.id) if isinstance(key, Column) else None
        referring = self._profiles.get(other.id) if isinstance(other, Column) else None
        if own is None or referring is None or not own.unique or not (_is_bounded(own) and _is_bounded(referring)):
            return domain
        common = min(own.high, referring.high) - max(own.low, referring.low) + 1
        if common <= 0:  # as conditions that exclude each other leave it
            return domain
        within = domain * common / (own.high - own.low + 1)
        return float(min(domain, max(within, rows)))

    def distinct(self, expr: Expr, rows: float) -> float:
        """Number of distinct values of an expression among `rows` rows."""
        if isinstance(expr, Column) and expr.id in self._profiles and self._profiles[expr.id].unique:
            return max(min(1.0, rows), min(rows, self._profiles[expr.id].domain))
        return distinct_among(self.domain(expr), rows)

    # ---- nodes -------------------------------------------------------------------------------------------------

    def _scan(self, scan: Scan) -> float:
        statistics = self.table(scan)
        schema = scan.table.schema
        names = dict(scan.source_names)
        sole = schema.key[0].name if schema.key_columns == 1 else None
        for number, name in names.items():
            make = partial(profile_of, statistics, name, schema.column(name).type, sole == name)
            self._profiles.note(number, make)
        return self._scanned(float(statistics.row_count), scan.predicates, names)

    def _file_scan(self, scan: FileScan) -> float:
        known = scan.file.description
        names = {column.id: name for column, name in zip(scan.file.columns, scan.file.names, strict=True)}
        for column in scan.file.columns:
            self._profiles[column.id] = profile_of(known.statistics, names[column.id], column.type, False)
        rows = float(known.statistics.row_count) if known.is_counted else UNKNOWN_ROWS
        return self._scanned(rows, scan.predicates, names)

    def _scanned(self, rows: float, predicates: tuple[Expr, ...], names: dict[int, str]) -> float:
        """Number of rows that pass a scan's predicates; records the effect on the columns' values."""
        if not predicates:
            return rows
        numbers = {name: number for number, name in names.items()}
        parts = extract(predicates, names)
        for predicate in parts.predicates:
            number = numbers[predicate.column]
            share = selectivity(predicate, self._profiles[number])
            rows *= share
            self._profiles[number] = restricted(self._profiles[number], predicate, share)
        implied = {predicate.column for predicate in parts.predicates}
        for condition in parts.residual:
            share = self.selectivity(condition)
            # A residual that implies one of the column predicates must not count twice.
            partly = any(names.get(number) in implied for number in columns_in(condition))
            rows *= share**0.5 if partly and not _is_comparison(condition) else share
        return rows

    def _filter(self, node: Filter) -> float:
        rows = self.rows(node.source)
        for part in conjuncts(node.predicate):
            rows *= self.selectivity(part)
        return rows

    def _project(self, node: Project) -> float:
        rows = self.rows(node.source)
        for column, expr in node.items:
            if isinstance(expr, Column):
                self._profiles.hand_on(column.id, expr.id)
            else:
                self._profiles[column.id] = ColumnProfile(max(1.0, min(self.domain(expr), rows)))
        return rows

    def _aggregate(self, node: Aggregate) -> float:
        rows = self.rows(node.source)
        for column, expr in node.groups:
            if not (isinstance(expr, Column) and self._profiles.hand_on(column.id, expr.id)):
                self._profiles[column.id] = ColumnProfile(max(1.0, self.domain(expr)))
        exprs = [expr for _, expr in node.groups]
        sets = [exprs] if node.sets is None else [[exprs[i] for i in chosen] for chosen in node.sets]
        groups = sum(self.group_count(chosen, rows) for chosen in sets)
        for column, call in node.aggregates:
            self._profiles[column.id] = ColumnProfile(max(1.0, groups))
            self._note_spread(column, call, rows / max(1.0, groups))
        return groups

    def _window(self, node: Window) -> float:
        rows = self.rows(node.source)
        partitions = 1.0
        for key in node.windows[0][1].partition:
            partitions *= self.distinct(key, rows)
        size = max(1.0, rows / max(1.0, min(partitions, rows)))
        for column, call in node.windows:
            numbered = call.function in ("row_number", "rank", "dense_rank")
            profile = ColumnProfile(size, 1, int(size)) if numbered else ColumnProfile(max(1.0, rows))
            self._profiles[column.id] = profile
        return rows

    def group_count(self, exprs: list[Expr], rows: float) -> float:
        """Number of distinct combinations of some expressions among `rows` rows."""
        groups = math.prod((self.distinct(expr, rows) for expr in exprs), start=1.0)
        if not exprs:
            return 1.0
        return distinct_among(groups, rows) if len(exprs) > 1 else min(groups, rows)

    def _note_spread(self, column: Column, call: AggregateCall, size: float) -> None:
        """Record mean and standard deviation of an aggregate over groups of `size` rows on average (compound
        Poisson)."""
        if call.function == "count":
            self._spreads[column.id] = size, size**0.5
            return
        arg = call.args[0] if call.args else None
        profile = self._profiles.get(arg.id) if isinstance(arg, Column) else None
        if call.function not in ("sum", "avg") or profile is None:
            return
        # A condition may have set one bound of a column whose statistics have none (an empty table).
        if not isinstance(profile.low, int | float) or not isinstance(profile.high, int | float):
            return
        assert arg is not None
        mean, variance = (profile.low + profile.high) / 2, (profile.high - profile.low) ** 2 / 12
        unit = 10.0 ** ((column.type.scale or 0) - (arg.type.scale or 0))
        if call.function == "avg":
            self._spreads[column.id] = mean * unit, (variance / max(1.0, size)) ** 0.5 * unit
        else:
            self._spreads[column.id] = size * mean * unit, (size * (variance + mean**2)) ** 0.5 * unit

    def _join(self, node: Join) -> float:
        left, right = self.rows(node.left), self.rows(node.right)
        if node.kind in ("semi", "anti", "null_anti"):
            share = self.matching_share(node.left, node.right, node.condition)
            return left * (share if node.kind == "semi" else max(LEAST_ANTI, 1.0 - share))
        if node.kind == "single":
            return left
        matches = left * right * self.join_selectivity(node.left, node.right, node.condition)
        if node.kind == "left":
            return max(left, matches)
        if node.kind == "right":
            return max(right, matches)
        return max(left, right, matches) if node.kind == "full" else matches

    def _set_operation(self, node: SetOperation) -> float:
        left, right = self.rows(node.left), self.rows(node.right)
        for column, first in zip(node.output, node.left.columns, strict=True):
            self._profiles[column.id] = self._profiles.get(first.id) or ColumnProfile(UNKNOWN_ROWS)
        if node.kind == "union":
            return left + right if node.all else 0.8 * (left + right)
        return 0.5 * min(left, right) if node.kind == "intersect" else 0.5 * left

    def _recursive(self, node: Recursive) -> float:
        rows = self.rows(node.anchor)
        self._working[node.key] = node.anchor, max(1.0, rows)
        self._take_over(node.output, node.anchor.columns)
        # The number of rounds cannot be estimated from statistics.
        return rows + ROUNDS * self.rows(node.step)

    def _working_table(self, node: WorkingTable) -> float:
        anchor, rows = self._working.get(node.key, (node, 1.0))
        self._take_over(node.output, anchor.columns)
        return rows

    def _take_over(self, output: Iterable[Column], source: Iterable[Column]) -> None:
        """Record profiles for columns that may hold more values than the columns they derive from."""
        for own, first in zip(output, source, strict=False):
            self._profiles[own.id] = ColumnProfile(self.domain(first))

    def _top_rows(self, node: TopRows) -> float:
        rows = self.rows(node.source)
        if not isinstance(node.limit, Literal) or node.limit.value is None:
            return rows
        groups = 1.0
        for column in node.groups:
            groups *= self.distinct(column, rows)
        return min(rows, distinct_among(groups, rows) * float(node.limit.value) if node.groups else node.limit.value)

    def _series(self, node: Series) -> float:
        size = UNKNOWN_SERIES
        known = [
            e.value for e in (node.start, node.stop, node.step) if isinstance(e, Literal) and isinstance(e.value, int)
        ]
        if len(known) == 3 and known[2]:
            size = max(0.0, (known[1] - known[0]) // known[2] + 1.0)
        self._profiles[node.column.id] = ColumnProfile(max(1.0, size))
        return self.rows(node.source) * size

    def _shared(self, node: Shared) -> float:
        rows = self.rows(node.source)
        for own, inner in zip(node.output, node.source.columns, strict=True):
            self._profiles.hand_on(own.id, inner.id)
        return rows

    def _limited(self, node: Sort | Limit) -> float:
        rows = self.rows(node.source)
        if isinstance(node.limit, Literal) and node.limit.value is not None:
            return min(rows, float(node.limit.value))
        return rows

    # ---- conditions --------------------------------------------------------------------------------------------

    def selectivity(self, condition: Expr) -> float:
        """Share of rows for which a condition is true."""
        if isinstance(condition, Call):
            return self._call_selectivity(condition)
        if isinstance(condition, InValues):
            return min(1.0, len(condition.items) / max(1.0, self.domain(condition.arg)))
        if isinstance(condition, Literal):
            return 1.0 if condition.value else 0.0
        return DEFAULT

    def _call_selectivity(self, condition: Call) -> float:
        function, args = condition.function, condition.args
        if function == "and":
            share = 1.0
            for arg in args:
                share *= self.selectivity(arg)
            return share
        if function == "or":
            missed = 1.0
            for arg in disjuncts(condition):
                missed *= 1.0 - self.selectivity(arg)
            return 1.0 - missed
        if function == "not":
            return max(0.0, 1.0 - self.selectivity(args[0]))
        if function == "eq":
            return 1.0 / max(1.0, *(self.domain(arg) for arg in args))
        if function == "ne":
            return 1.0 - 1.0 / max(1.0, *(self.domain(arg) for arg in args))
        if function in ("lt", "le", "gt", "ge"):
            return self._range_selectivity(condition)
        if function in ("like", "ilike", "starts_with"):
            pattern = args[1]
            anchored = isinstance(pattern, Literal) and bool(pattern.value) and bool(like_prefix(pattern.value)[0])
            return CONTAINS / 2 if anchored else CONTAINS
        if function == "is_null":
            profile = self._profiles.get(args[0].id) if isinstance(args[0], Column) else None
            return 0.05 if profile is None else profile.null_fraction
        return DEFAULT

    def _range_selectivity(self, condition: Call) -> float:
        first, second = condition.args
        if isinstance(first, Column) and first.id in self._spreads and isinstance(second, Literal):
            return self._tail(condition.function, self._spreads[first.id], second)
        for column in (first, second):
            if isinstance(column, Column) and column.id in self._profiles:
                parts = extract([condition], {column.id: "x"})
                if parts.predicates:
                    return selectivity(parts.predicates[0], self._profiles[column.id])
        return COMPARED_COLUMNS if columns_in(first) and columns_in(second) else RANGE

    def _tail(self, function: str, spread: tuple[float, float], bound: Literal) -> float:
        """Share of groups whose aggregate lies beyond a constant, under a normal distribution."""
        if not isinstance(bound.value, (int, float)):
            return RANGE
        mean, deviation = spread
        above = 0.5 * math.erfc((bound.value - mean) / max(1e-9, deviation) / math.sqrt(2.0))
        return min(1.0, max(LEAST_TAIL, above if function in ("gt", "ge") else 1.0 - above))

    def join_selectivity(self, left: Node, right: Node, condition: Expr | None) -> float:
        """Share of all pairs of rows for which a join condition is true."""
        left_ids = {column.id for column in left.columns}
        share, equal, smallest = 1.0, set[int](), 1.0
        for part in conjuncts(condition):
            sides = as_equality(part)
            if sides and _across(sides, left_ids):
                # The number of values of the side that has more of them.
                own = left if columns_in(sides[0]) <= left_ids else right
                other = right if own is left else left
                met = self.keys_met(*sides, self.rows(own)), self.keys_met(*sides[::-1], self.rows(other))
                factor = 1.0 / max(1.0, *met)
                share *= factor
                smallest = min(smallest, factor)
                equal.update(side.id for side in sides if isinstance(side, Column))
            elif isinstance(part, Call) and part.function == "or":
                share *= IMPLIED
            else:
                share *= self.selectivity(part)
        covered = self.key_share((left, right), equal)
        return max(share, min(covered, smallest)) if covered is not None else share

    def key_share(self, inputs: Iterable[Node], equal: set[int]) -> float | None:
        """1 / rows of the largest table whose primary key of two or more columns is joined on; None without one.

        Two columns of a key are not independent, so their selectivities must not be multiplied.
        """
        shares = [1.0 / max(1.0, rows) for node in inputs for key, rows in self.keyed(node) if key <= equal]
        return min(shares, default=None)

    def keyed(self, node: Node) -> Iterable[tuple[frozenset[int], float]]:
        """Yield unique keys inside a relation that are joined on as a whole, with their number of values: primary keys
        of two or more columns, and the groups of aggregates."""
        while isinstance(node, (Filter, Project)):
            node = node.source
        if isinstance(node, Scan):
            key = _composite_key(node)
            if key:
                yield key, float(self.table(node).row_count)
        elif isinstance(node, Aggregate) and node.groups and node.sets is None:
            yield frozenset(column.id for column, _ in node.groups), self.rows(node)
        elif isinstance(node, Join) and node.kind in ("inner", "cross", "semi", "anti", "left"):
            yield from self.keyed(node.left)
            if node.kind in ("inner", "cross"):
                yield from self.keyed(node.right)

    def matching_share(self, left: Node, right: Node, condition: Expr | None) -> float:
        """Share of `left`'s rows that have a partner in `right`."""
        self.rows(left)
        left_ids = {column.id for column in left.columns}
        rows, share, others = self.rows(right), 1.0, 1.0
        if rows < 1.0:
            return max(0.0, rows)
        for part in conjuncts(condition):
            sides = as_equality(part)
            if sides and _across(sides, left_ids):
                own, other = sides if columns_in(sides[0]) <= left_ids else sides[::-1]
                share = min(share, self.distinct(other, rows) / max(1.0, self.domain(own)))
            else:
                others *= self.selectivity(part)
        # A row with many candidate partners needs only one of them to satisfy the rest of the condition.
        return min(1.0, share) * math.sqrt(min(1.0, others))


def _is_bounded(profile: ColumnProfile) -> bool:
    return isinstance(profile.low, int) and isinstance(profile.high, int)


def _across(sides: tuple[Expr, ...], left_ids: set[int]) -> bool:
    first, second = columns_in(sides[0]), columns_in(sides[1])
    if not first or not second:
        return False
    return (first <= left_ids and not second & left_ids) or (second <= left_ids and not first & left_ids)


def _composite_key(scan: Scan) -> frozenset[int]:
    """Numbers of a primary key's columns, if there are two or more."""
    if scan.table.schema.key_columns < 2:
        return frozenset()
    key = {column.name for column in scan.table.schema.key}
    return frozenset(number for number, name in scan.source_names if name in key)


def _is_comparison(condition: Expr) -> bool:
    return isinstance(condition, (Call, InValues)) and not (
        isinstance(condition, Call) and condition.function in ("or", "like")
    )


_FEW_VALUES = {
    "substring": 50.0,
    "left": 50.0,
    "right": 50.0,
    "year": 7.0,
    "quarter": 4.0,
    "month": 12.0,
    "day": 31.0,
    "dow": 7.0,
    "hour": 24.0,
}
_ESTIMATES: dict[type[Node], Callable[[Estimator, Node], float]] = {
    Scan: Estimator._scan,  # type: ignore[dict-item]
    Filter: Estimator._filter,  # type: ignore[dict-item]
    Project: Estimator._project,  # type: ignore[dict-item]
    Aggregate: Estimator._aggregate,  # type: ignore[dict-item]
    Join: Estimator._join,  # type: ignore[dict-item]
    Window: Estimator._window,  # type: ignore[dict-item]
    SetOperation: Estimator._set_operation,  # type: ignore[dict-item]
    Shared: Estimator._shared,  # type: ignore[dict-item]
    Sort: Estimator._limited,  # type: ignore[dict-item]
    Limit: Estimator._limited,  # type: ignore[dict-item]
    Recursive: Estimator._recursive,  # type: ignore[dict-item]
    WorkingTable: Estimator._working_table,  # type: ignore[dict-item]
    TopRows: Estimator._top_rows,  # type: ignore[dict-item]
    Series: Estimator._series,  # type: ignore[dict-item]
    SingleRow: lambda e, node: min(1.0, max(1.0, e.rows(node.children()[0]))),
    Values: lambda _, node: float(len(node.rows)),  # type: ignore[attr-defined]
    FileScan: Estimator._file_scan,  # type: ignore[dict-item]
}
