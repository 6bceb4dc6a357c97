"""Physical planning: picks the operator of each logical node, and the scans that get runtime filters.

Joins keep the sides that `order_joins` assigned: the left side probes, the right side is built. Semi, anti and left
joins may be swapped if that is cheaper (`CostModel.swapped`), so that the smaller side is built here as well. Columns
that no node above reads are left out of the output of joins and filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...model.types import INT, Kind
from ...sql.expressions import Call, Column, Expr, Literal, conjuncts
from ..algebra import physical
from ..algebra.invariants import same_type
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
from ..algebra.physical import PhysicalNode, RuntimeFilter, TableScan
from ..algebra.properties import LEFT_ONLY
from ..algebra.trees import all_of, as_equality, case, columns_in, columns_in_all, each, is_null, node_expressions
from ..context import Context
from ..estimates.cost import CostModel, KeyPair, key_pairs
from ..scans.scan_limits import is_ordered, limited, ordered
from ..scans.scan_predicates import extract
from .merge_joins import merge_join
from .scanned_columns import scan_column, scan_with
from .transferred_filters import with_transfer

TURNED = {"semi": "right_semi", "anti": "right_anti", "left": "right"}
FILTERING = ("inner", "semi", "right", "right_semi", "right_anti")
"""Hash join kinds that drop a probe row without partner."""

Wanted = frozenset[int]


class PhysicalPlanner:
    """Converts one logical plan to a physical one."""

    def __init__(self, context: Context):
        self._context = context
        self._estimator = context.estimator
        self._model = CostModel(context.estimator)
        self._ordered = "order_joins" not in context.options.disabled_rules
        self._shared: dict[int, PhysicalNode] = {}
        self._check = context.check
        self._merge_joins = context.options.merge_joins

    def plan(self, root: Node) -> PhysicalNode:
        """Return the physical plan, with exactly the root's columns in order."""
        return aligned(self._visit(root, frozenset(c.id for c in root.columns)), root.columns)

    def _visit(self, node: Node, wanted: Wanted) -> PhysicalNode:
        """Return a physical node that produces at least the needed columns of `node`."""
        self._check()
        return _OPERATORS[type(node)](self, node, wanted)

    def _scan(self, node: Scan, wanted: Wanted) -> PhysicalNode:
        names = dict(node.source_names)
        parts = extract(node.predicates, names)
        kept = tuple(c for c in node.output if c.id in wanted)
        present = {c.id for c in kept}
        extra = {c.id: c for expr in parts.residual for c in each(expr) if isinstance(c, Column)}
        fetched = kept + tuple(extra[number] for number in sorted(extra.keys() - present))
        return TableScan(
            columns=kept,
            estimate=self._estimator.rows(node),
            table=node.table,
            alias=node.alias,
            names=tuple(names[c.id] for c in fetched),
            fetched=fetched,
            predicates=parts.predicates,
            residual=all_of(parts.residual),
            time=node.time,
        )

    def _file_scan(self, node: FileScan, wanted: Wanted) -> PhysicalNode:
        names = {column.id: name for column, name in zip(node.file.columns, node.file.names, strict=True)}
        kept = tuple(c for c in node.output if c.id in wanted)
        present = {c.id for c in kept}
        extra = {c.id: c for expr in node.predicates for c in each(expr) if isinstance(c, Column)}
        fetched = kept + tuple(extra[number] for number in sorted(extra.keys() - present))
        return physical.FileScan(
            columns=kept,
            estimate=self._estimator.rows(node),
            file=node.file,
            names=tuple(names[c.id] for c in fetched),
            fetched=fetched,
            predicates=extract(node.predicates, names).predicates,
            residual=all_of(node.predicates),
        )

    def _values(self, node: Values, _: Wanted) -> PhysicalNode:
        return physical.ValuesScan(columns=node.output, estimate=float(len(node.rows)), rows=node.rows)

    def _filter(self, node: Filter, wanted: Wanted) -> PhysicalNode:
        source = self._visit(node.source, wanted | columns_in(node.predicate))
        columns = tuple(c for c in source.columns if c.id in wanted)
        estimate = self._estimator.rows(node)
        return physical.Filter(columns=columns, estimate=estimate, source=source, predicate=node.predicate)

    def _project(self, node: Project, wanted: Wanted) -> PhysicalNode:
        items = [item for item in node.items if item[0].id in wanted]
        source = self._visit(node.source, columns_in_all(expr for _, expr in items))
        if all(isinstance(expr, Column) and expr.id == column.id for column, expr in items):
            return source
        return physical.Project(
            columns=tuple(column for column, _ in items),
            estimate=self._estimator.rows(node),
            source=source,
            expressions=tuple(expr for _, expr in items),
        )

    def _aggregate(self, node: Aggregate, wanted: Wanted) -> PhysicalNode:
        calls = [item for item in node.aggregates if item[0].id in wanted]
        exprs = [expr for _, expr in (*node.groups, *calls)]
        number = () if node.set_number is None else (node.set_number,)
        return physical.HashAggregate(
            columns=(*(column for column, _ in (*node.groups, *calls)), *number),
            estimate=self._estimator.rows(node),
            source=self._visit(node.source, columns_in_all(exprs)),
            groups=tuple(expr for _, expr in node.groups),
            aggregates=tuple(call for _, call in calls),
            sets=node.sets,
        )

    def _window(self, node: Window, wanted: Wanted) -> PhysicalNode:
        calls = [item for item in node.windows if item[0].id in wanted]
        if not calls:
            return self._visit(node.source, wanted)
        below = wanted | columns_in_all(call for _, call in calls)
        source = self._visit(node.source, below & {c.id for c in node.source.columns})
        return physical.Window(
            columns=(*(c for c in source.columns if c.id in wanted), *(column for column, _ in calls)),
            estimate=self._estimator.rows(node),
            source=source,
            calls=tuple(call for _, call in calls),
        )

    def _sort(self, node: Sort, wanted: Wanted) -> PhysicalNode:
        source = self._visit(node.source, wanted | columns_in_all(node_expressions(node)))
        source = ordered(source, node.order, node.limit, node.offset)
        return physical.Sort(
            columns=source.columns,
            estimate=self._estimator.rows(node),
            source=source,
            order=node.order,
            limit=node.limit,
            offset=node.offset,
            presorted=is_ordered(source),
        )

    def _limit(self, node: Limit, wanted: Wanted) -> PhysicalNode:
        source = limited(self._visit(node.source, wanted), node.limit, node.offset)
        estimate = self._estimator.rows(node)
        return physical.Limit(
            columns=source.columns, estimate=estimate, source=source, limit=node.limit, offset=node.offset
        )

    def _single_row(self, node: SingleRow, wanted: Wanted) -> PhysicalNode:
        source = self._visit(node.source, wanted)
        return physical.SingleRow(columns=source.columns, estimate=1.0, source=source)

    def _top_rows(self, node: TopRows, wanted: Wanted) -> PhysicalNode:
        source = self._visit(node.source, wanted | columns_in_all(node_expressions(node)))
        return physical.TopRows(
            columns=source.columns,
            estimate=self._estimator.rows(node),
            source=source,
            groups=node.groups,
            order=node.order,
            limit=node.limit,
            offset=node.offset,
            ties=node.ties,
        )

    def _series(self, node: Series, wanted: Wanted) -> PhysicalNode:
        source = self._visit(node.source, wanted | columns_in_all(node_expressions(node)))
        kept = tuple(column for column in source.columns if column.id in wanted)
        return physical.Series(
            columns=(*kept, node.column),
            estimate=self._estimator.rows(node),
            source=source,
            start=node.start,
            stop=node.stop,
            step=node.step,
        )

    def _recursive(self, node: Recursive, _: Wanted) -> PhysicalNode:
        estimate = self._estimator.rows(node)
        anchor, step = self.plan(node.anchor), self.plan(node.step)
        return physical.Recursive(
            columns=node.output, estimate=estimate, key=node.key, all=node.all, anchor=anchor, step=step
        )

    def _working_table(self, node: WorkingTable, wanted: Wanted) -> PhysicalNode:
        places = tuple(i for i, column in enumerate(node.output) if column.id in wanted)
        columns = tuple(node.output[i] for i in places)
        return physical.WorkingTable(columns=columns, estimate=self._estimator.rows(node), key=node.key, places=places)

    def _shared_plan(self, node: Shared, _: Wanted) -> PhysicalNode:
        if node.key not in self._shared:
            self._shared[node.key] = self.plan(node.source)
        source = self._shared[node.key]
        return physical.Shared(columns=node.output, estimate=source.estimate, key=node.key, source=source)

    def _set_operation(self, node: SetOperation, _: Wanted) -> PhysicalNode:
        estimate = self._estimator.rows(node)
        if node.kind != "union":
            left, right = self.plan(node.left), self.plan(node.right)
            return physical.SetDifference(
                columns=node.output, estimate=estimate, kind=node.kind, all=node.all, left=left, right=right
            )
        sources = [part for side in (node.left, node.right) for part in self._branches(side, node.all)]
        union = physical.UnionAll(
            columns=node.output, estimate=sum(s.estimate for s in sources), sources=tuple(sources)
        )
        if node.all:
            return union
        return physical.HashAggregate(
            columns=node.output, estimate=estimate, source=union, groups=node.output, aggregates=()
        )

    def _branches(self, side: Node, keep_duplicates: bool) -> Iterable[PhysicalNode]:
        """Yield the inputs of a union, with those of a union below it; a distinct union drops duplicates of both
        kinds."""
        if isinstance(side, SetOperation) and side.kind == "union" and (side.all or not keep_duplicates):
            for inner in (side.left, side.right):
                yield from self._branches(inner, keep_duplicates)
        else:
            yield self.plan(side)

    # ---- joins -------------------------------------------------------------------------------------------------

    def _join(self, node: Join, wanted: Wanted) -> PhysicalNode:
        pairs = [pair for pair in key_pairs(node) if same_type(pair.probe.type, pair.build.type)]
        residual = _without(node.condition, pairs)
        if not pairs and residual is not None:
            pairs, residual = null_safe_pairs(node, residual)
        if node.kind == "null_anti" and (len(pairs) != 1 or residual is not None):
            # `'a' NOT IN (SELECT ...)`: an equality that does not link the two sides is a condition on all pairs.
            pairs, residual = [], node.condition
        below = wanted | columns_in(node.condition)
        swap = self._swapped(node)
        probe_side, build_side = (node.right, node.left) if swap else (node.left, node.right)
        if swap:
            pairs = [KeyPair(pair.build, pair.probe) for pair in pairs]
        probe = self._visit(probe_side, below & {c.id for c in probe_side.columns})
        build = self._visit(build_side, below & {c.id for c in build_side.columns})
        given = node.left.columns if node.kind in LEFT_ONLY else node.columns
        visible = wanted & {c.id for c in given}
        columns = tuple(c for c in (*probe.columns, *build.columns) if c.id in visible)
        estimate = self._estimator.rows(node)
        if not pairs:
            kind = "inner" if node.kind == "cross" and residual is not None else node.kind
            return physical.NestedLoopJoin(
                columns=columns, estimate=estimate, kind=kind, left=probe, right=build, condition=residual
            )
        kind = TURNED.get(node.kind, node.kind) if swap else node.kind
        filters = self._runtime_filters(probe, pairs, self._estimator.rows(build_side)) if kind in FILTERING else ()
        join = physical.HashJoin(
            columns=columns,
            estimate=estimate,
            kind=kind,
            probe=probe,
            build=build,
            probe_keys=tuple(pair.probe for pair in pairs),
            build_keys=tuple(pair.build for pair in pairs),
            residual=residual,
            runtime_filters=filters,
        )
        return merge_join(join, self._merge_joins) or with_transfer(join, self._context, self._model)

    def _swapped(self, node: Join) -> bool:
        """True if the left side is built. Never for a nested loop, which keeps its right side."""
        if node.kind in TURNED:
            return self._model.swapped(node)
        if self._ordered or node.kind not in ("inner", "cross"):
            return False
        return self._estimator.rows(node.left) < self._estimator.rows(node.right)

    def _runtime_filters(
        self, probe: PhysicalNode, pairs: list[KeyPair], build_rows: float
    ) -> tuple[RuntimeFilter, ...]:
        filters: list[RuntimeFilter] = []
        for position, pair in enumerate(pairs):
            if not isinstance(pair.probe, Column):
                continue
            target = scan_column(probe, pair.probe.id)
            if target is None:
                continue
            scan = scan_with(probe, target)
            width = len(scan.fetched)
            if self._model.is_worth_filtering(pair, build_rows, scan.estimate, width):
                filters.append(
                    RuntimeFilter(position, target, self._model.bloom_keys(pair.probe, scan.estimate, width))
                )
        return tuple(filters)


def null_safe_pairs(join: Join, condition: Expr) -> tuple[list[KeyPair], Expr | None]:
    """Return key pairs for `a IS NOT DISTINCT FROM b`, and the rest of the condition.

    In a hash join NULL matches nothing. So the value with a stand-in for NULL is one key, and "is NULL" is another.
    """
    left, right = ({column.id for column in side.columns} for side in (join.left, join.right))
    pairs: list[KeyPair] = []
    rest: list[Expr] = []
    for part in conjuncts(condition):
        sides = _not_distinct(part)
        if sides is not None and columns_in(sides[0]) <= right and columns_in(sides[1]) <= left:
            sides = sides[::-1]
        stand_in = None if sides is None else _STAND_INS.get(sides[0].type.kind)
        if sides is None or stand_in is None or not (columns_in(sides[0]) <= left and columns_in(sides[1]) <= right):
            rest.append(part)
            continue
        first, second = sides
        pairs.append(KeyPair(_solid(first, stand_in), _solid(second, stand_in)))
        pairs.append(KeyPair(_null_flag(first), _null_flag(second)))
    return pairs, all_of(rest)


def _not_distinct(part: Expr) -> tuple[Expr, Expr] | None:
    if isinstance(part, Call) and part.function == "not":
        inner = part.args[0]
        if isinstance(inner, Call) and inner.function == "is_distinct" and same_type(*(a.type for a in inner.args)):
            return inner.args[0], inner.args[1]
    return None


def _solid(expr: Expr, stand_in: object) -> Expr:
    return Call(expr.type, False, "coalesce", (expr, Literal(expr.type, False, stand_in)))


def _null_flag(expr: Expr) -> Expr:
    return case(is_null(expr), Literal(INT, False, 1), Literal(INT, False, 0))


_STAND_INS: dict[Kind, object] = {
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP), 0),
    Kind.STRING: "",
}


def aligned(node: PhysicalNode, columns: tuple[Column, ...]) -> PhysicalNode:
    """Return the node with exactly these columns in this order."""
    if [c.id for c in node.columns] == [c.id for c in columns]:
        return node
    return physical.Project(columns=columns, estimate=node.estimate, source=node, expressions=columns)


def _without(condition: Expr | None, pairs: list[KeyPair]) -> Expr | None:
    """Return the part of a condition that is not covered by the key equalities."""
    used = [{id(pair.probe), id(pair.build)} for pair in pairs]
    rest: list[Expr] = []
    for part in conjuncts(condition):
        sides = as_equality(part)
        if sides is None or {id(sides[0]), id(sides[1])} not in used:
            rest.append(part)
    return all_of(rest)


_OPERATORS: dict[type[Node], Callable[[PhysicalPlanner, Node, Wanted], PhysicalNode]] = {
    Scan: PhysicalPlanner._scan,  # type: ignore[dict-item]
    FileScan: PhysicalPlanner._file_scan,  # type: ignore[dict-item]
    Values: PhysicalPlanner._values,  # type: ignore[dict-item]
    Filter: PhysicalPlanner._filter,  # type: ignore[dict-item]
    Project: PhysicalPlanner._project,  # type: ignore[dict-item]
    Aggregate: PhysicalPlanner._aggregate,  # type: ignore[dict-item]
    Sort: PhysicalPlanner._sort,  # type: ignore[dict-item]
    Window: PhysicalPlanner._window,  # type: ignore[dict-item]
    Limit: PhysicalPlanner._limit,  # type: ignore[dict-item]
    SingleRow: PhysicalPlanner._single_row,  # type: ignore[dict-item]
    Shared: PhysicalPlanner._shared_plan,  # type: ignore[dict-item]
    SetOperation: PhysicalPlanner._set_operation,  # type: ignore[dict-item]
    TopRows: PhysicalPlanner._top_rows,  # type: ignore[dict-item]
    Series: PhysicalPlanner._series,  # type: ignore[dict-item]
    Recursive: PhysicalPlanner._recursive,  # type: ignore[dict-item]
    WorkingTable: PhysicalPlanner._working_table,  # type: ignore[dict-item]
    Join: PhysicalPlanner._join,  # type: ignore[dict-item]
}
