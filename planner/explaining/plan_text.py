"""Text form of plans, logical and physical; the only module that draws them.

A physical plan, as EXPLAIN prints it: one line per operator with its expected rows, details below it behind a dot,
inputs indented.

    HashJoin inner on l_orderkey = o_orderkey  (~30,000 rows)
      · runtime filter on lineitem.l_orderkey
      probe: TableScan lineitem  (~3,200,000 rows)
        · reads l_orderkey, l_extendedprice
        · where l_shipdate > DATE '1995-03-15'
      build: TableScan orders  (~150,000 rows)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ...model.clock import format_timestamp
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...sql.bound import TimeTravel
from ...sql.expressions import Column, Expr, Literal, OrderItem
from ..algebra import logical, physical
from ..algebra.logical import Node
from ..algebra.physical import PhysicalNode
from ..algebra.trees import nodes
from ..physical.range_bounds import range_bounds
from ..query_plan import Plan
from ..scans.tablet_conditions import one_of
from .expression_text import Names, framed_text, groups_text, predicate_text, to_sql, window_keys


@dataclass(frozen=True, slots=True)
class Actual:
    """Measurements of an executed operator, for EXPLAIN ANALYZE.

    Parameters
    ----------
    rows : int
        Rows that it produced.
    seconds : float
        Time spent in it, its inputs excluded, added up over threads.
    notes : tuple of str
        Further lines: pages skipped, hash table size.
    memory : int
        Largest size of its state, in bytes.
    spilled : int
        Bytes that it wrote to temporary files.
    """

    rows: int
    seconds: float
    notes: tuple[str, ...] = ()
    memory: int = 0
    spilled: int = 0


def explain(plan: Plan, actuals: Mapping[int, Actual] | None = None, verbose: bool = False) -> str:
    """Return the text of a plan.

    Parameters
    ----------
    plan : Plan
    actuals : mapping of int to Actual, optional
        By `id` of the physical node, after the plan has run.
    verbose : bool
        First the logical plan after each rule that changed it; needs a plan made with `PlannerOptions(trace=True)`.
    """
    parts: list[str] = []
    if verbose:
        parts += [f"-- {name}\n{draw_logical(node)}" for name, node in plan.trace]
        parts.append("-- physical plan")
    parts.append(draw_physical(plan.root, actuals or {}))
    return "\n".join(parts)


# ---- names -------------------------------------------------------------------------------------------------------


def _qualified(found: list[tuple[str, tuple[Column, ...]]]) -> dict[int, str]:
    """Map to `alias.name` the columns whose name several tables of the plan use."""
    uses = Counter(name for _, columns in found for name in {column.name for column in columns})
    return {c.id: f"{alias}.{c.name}" for alias, columns in found for c in columns if uses[c.name] > 1}


def _join_list(texts: list[str]) -> str:
    return ", ".join(texts)


def _order_text(order: tuple[OrderItem, ...], names: Names) -> str:
    return _join_list([_order_item(item, names) for item in order])


def _order_item(item: OrderItem, names: Names) -> str:
    text = to_sql(item.expr, names) + (" DESC" if item.descending else "")
    if item.nulls_first != item.descending:
        text += " NULLS FIRST" if item.nulls_first else " NULLS LAST"
    return text


def _limits(limit: Expr | None, offset: Expr | None, names: Names) -> str:
    text = "" if limit is None else f" first {to_sql(limit, names)}"
    return text if offset is None else f"{text} after {to_sql(offset, names)}"


def _first_rows(node: logical.TopRows | physical.TopRows, names: Names) -> str:
    order = f" {_order_text(node.order, names)}" if node.order else ""
    by = f" by {_join_list([to_sql(column, names) for column in node.groups])}" if node.groups else ""
    return f"{order}{_limits(node.limit, node.offset, names)}{' with ties' if node.ties else ''}{by}"


# ---- logical -----------------------------------------------------------------------------------------------------


def draw_logical(root: Node) -> str:
    """Draw a logical plan, one line per node; shared subplans follow."""
    shared: dict[int, logical.Shared] = {}
    _find_shared(root, shared)
    scans: list[tuple[str, tuple[Column, ...]]] = []
    for plan in (root, *(node.source for node in shared.values())):
        for node in nodes(plan):
            if isinstance(node, logical.Scan):
                scans.append((node.alias, _all_columns(node)))
            elif isinstance(node, logical.FileScan):
                scans.append((node.file.alias, node.output))
    names = _qualified(scans)
    lines = list(_logical_lines(root, names, 0))
    for key, node in sorted(shared.items()):
        lines += [f"Shared {key}:", *_logical_lines(node.source, names, 1)]
    return "\n".join(lines)


def _all_columns(scan: logical.Scan) -> tuple[Column, ...]:
    known = {column.id: column for column in scan.output}
    return tuple(
        known.get(number, Column(scan.table.schema.column(name).type, True, number, name))
        for number, name in scan.source_names
    )


def _find_shared(root: Node, found: dict[int, logical.Shared]) -> None:
    for node in nodes(root):
        if isinstance(node, logical.Shared) and node.key not in found:
            found[node.key] = node
            _find_shared(node.source, found)


def _logical_lines(node: Node, names: Names, depth: int) -> Iterator[str]:
    yield "  " * depth + _logical_head(node, names)
    for child in node.children():
        yield from _logical_lines(child, names, depth + 1)


def _logical_head(node: Node, names: Names) -> str:
    if isinstance(node, logical.Scan):
        return _scan_head(node, names)
    if isinstance(node, logical.Filter):
        return f"Filter {to_sql(node.predicate, names)}"
    if isinstance(node, logical.Project):
        return f"Project {_join_list([to_sql(expr, names) for _, expr in node.items])}".rstrip()
    if isinstance(node, logical.Join):
        return f"Join {node.kind}" + ("" if node.condition is None else f" on {to_sql(node.condition, names)}")
    if isinstance(node, logical.Aggregate):
        by = groups_text(tuple(expr for _, expr in node.groups), node.sets, names)
        calls = [to_sql(call, names) for _, call in node.aggregates]
        return f"Aggregate{by}" + (f": {_join_list(calls)}" if calls else "")
    if isinstance(node, logical.Window):
        return f"Window {_join_list([to_sql(call, names) for _, call in node.windows])}"
    if isinstance(node, logical.Sort):
        return f"Sort {_order_text(node.order, names)}{_limits(node.limit, node.offset, names)}"
    if isinstance(node, logical.Limit):
        return f"Limit{_limits(node.limit, node.offset, names)}"
    if isinstance(node, logical.Values):
        if not node.rows:
            return f"Values: no rows of {_join_list([c.name for c in node.output])}"
        rows = _join_list([f"({_join_list([to_sql(e, names) for e in row])})" for row in node.rows[:3]])
        return f"Values {rows}" + (f", ... {len(node.rows)} rows" if len(node.rows) > 3 else "")
    if isinstance(node, logical.FileScan):
        return _file_head(node, names)
    if isinstance(node, logical.SetOperation):
        return f"{node.kind.capitalize()}{' all' if node.all else ''}"
    if isinstance(node, logical.TopRows):
        return f"TopRows{_first_rows(node, names)}"
    if isinstance(node, logical.Series):
        return f"Series {_join_list([to_sql(e, names) for e in (node.start, node.stop, node.step)])}"
    if isinstance(node, (logical.Recursive, logical.WorkingTable)):
        return f"{type(node).__name__} {node.key} as {_join_list([c.name for c in node.output])}"
    if isinstance(node, logical.Shared):
        return f"Shared {node.key} as {_join_list([c.name for c in node.output])}"
    return type(node).__name__


def _file_head(node: logical.FileScan, names: Names) -> str:
    head = f"FileScan {node.file.source.format} {node.file.source.shown}: {_join_list([c.name for c in node.output])}"
    return f"{head} WHERE {' AND '.join(to_sql(p, names) for p in node.predicates)}" if node.predicates else head


def _scan_head(node: logical.Scan, names: Names) -> str:
    called = node.table.name if node.alias == node.table.name else f"{node.table.name} {node.alias}"
    if node.time is not None:
        called += f" {time_text(node.time)}"
    text = f"Scan {called}: {_join_list([column.name for column in node.output])}".rstrip(": ")
    if node.predicates:
        parts = [to_sql(p, names) for p in node.predicates]
        text += f" WHERE {' AND '.join(f'({p})' if ' OR ' in p else p for p in parts)}"
    return text


def time_text(time: TimeTravel) -> str:
    """Describe the snapshot or the interval at which a table is read."""
    if time.changes is None:
        return f"as of {format_timestamp(time.until)}"
    what = "all changes" if time.changes.history else "net changes"
    return f"{what} after {format_timestamp(time.changes.since)} up to {format_timestamp(time.until)}"


# ---- physical ----------------------------------------------------------------------------------------------------


def draw_physical(root: PhysicalNode, actuals: Mapping[int, Actual] | None = None) -> str:
    """Draw a physical plan; a shared subplan is drawn at its first use."""
    return "\n".join(drawing_of(root, actuals).lines(root, 0, ""))


def drawing_of(root: PhysicalNode, actuals: Mapping[int, Actual] | None = None) -> Drawing:
    """Return the object that draws the nodes of a plan; names are qualified as the whole plan needs it."""
    # Names in a subplan that is used twice stand for columns of several uses.
    below = physical.nodes(root, 2)
    scans = [(node.alias, node.fetched) for node in below if isinstance(node, physical.TableScan)]
    return Drawing(_qualified(scans), actuals or {}, {c.id: alias for alias, columns in scans for c in columns})


def tablets_of(scan: physical.TableScan) -> tuple[int, int]:
    """Number of tablets left by the scan's conditions, and of all tablets."""
    partitioner = Partitioner(scan.table.schema, scan.table.partitions)
    return len(partitioner.prune(scan.predicates, one_of(scan))), len(partitioner.partitions)


def input_roles(node: PhysicalNode) -> tuple[str | None, ...]:
    """Role of each input of a node, None if it has none."""
    return ("probe", "build") if isinstance(node, physical.HashJoin) else (None,) * len(node.children())


class Drawing:
    """Draws the nodes of one plan."""

    def __init__(self, names: Names, actuals: Mapping[int, Actual], owners: Mapping[int, str]):
        self._names = names
        self._actuals = actuals
        self._owners = owners
        self._drawn: set[int] = set()

    def lines(self, node: PhysicalNode, depth: int, label: str) -> Iterator[str]:
        """Yield the node's line, its details, its inputs."""
        indent = "  " * depth
        yield f"{indent}{label}{self.head(node)}  ({self._numbers(node)})"
        for detail in self.details(node):
            yield f"{indent}  · {detail}"
        if isinstance(node, physical.Shared) and not self.first_use(node):
            return
        for role, child in zip(input_roles(node), node.children(), strict=True):
            yield from self.lines(child, depth + 1, f"{role}: " if role else "")

    def first_use(self, node: physical.Shared) -> bool:
        """True at the first use of the shared subplan."""
        first = node.key not in self._drawn
        self._drawn.add(node.key)
        return first

    def actual(self, node: PhysicalNode) -> Actual | None:
        """Measurements of the node, if the plan has run."""
        return self._actuals.get(node.number)

    def _numbers(self, node: PhysicalNode) -> str:
        expected = f"~{max(0, round(node.estimate)):,} rows"
        actual = self.actual(node)
        if actual is None:
            return expected
        memory = f", {readable_size(actual.memory)}" if actual.memory else ""
        memory += f", {readable_size(actual.spilled)} spilled" if actual.spilled else ""
        return f"{actual.rows:,} rows, {expected} expected, {actual.seconds * 1000:,.1f} ms{memory}"

    def _text(self, expr: Expr) -> str:
        return to_sql(expr, self._names)

    def _list(self, exprs: tuple[Expr, ...]) -> str:
        return _join_list([self._text(expr) for expr in exprs])

    def head(self, node: PhysicalNode) -> str:
        """Return the node's own line."""
        if isinstance(node, physical.TableScan):
            return "TableScan " + (
                node.table.name if node.alias == node.table.name else f"{node.table.name} {node.alias}"
            )
        if isinstance(node, physical.FileScan):
            return f"FileScan {node.file.source.format} {node.file.source.shown}"
        if isinstance(node, physical.ValuesScan):
            return "ValuesScan"
        if isinstance(node, physical.Filter):
            return f"Filter {self._text(node.predicate)}"
        if isinstance(node, physical.Project):
            return f"Project {self._list(node.expressions)}".rstrip()
        if isinstance(node, physical.HashJoin):
            pairs = zip(node.probe_keys, node.build_keys, strict=True)
            return f"HashJoin {node.kind} on " + " AND ".join(f"{self._text(a)} = {self._text(b)}" for a, b in pairs)
        if isinstance(node, physical.MergeJoin):
            merged = zip(node.left_keys, node.right_keys, strict=True)
            return f"MergeJoin {node.kind} on " + " AND ".join(f"{self._text(a)} = {self._text(b)}" for a, b in merged)
        if isinstance(node, physical.NestedLoopJoin):
            on = "" if node.condition is None else f" on {self._text(node.condition)}"
            return f"NestedLoopJoin {node.kind}{on}"
        return self._other_head(node)

    def _other_head(self, node: PhysicalNode) -> str:
        if isinstance(node, physical.HashAggregate):
            by = groups_text(node.groups, node.sets, self._names)
            return f"HashAggregate{by}" + (f": {self._list(node.aggregates)}" if node.aggregates else "")
        if isinstance(node, physical.Window):
            return f"Window {window_keys(node.calls[0], self._names)}".rstrip()
        if isinstance(node, physical.Sort):
            return f"Sort {_order_text(node.order, self._names)}{_limits(node.limit, node.offset, self._names)}"
        if isinstance(node, physical.Limit):
            return f"Limit{_limits(node.limit, node.offset, self._names)}"
        if isinstance(node, physical.TopRows):
            return f"TopRows{_first_rows(node, self._names)}"
        if isinstance(node, physical.Series):
            return f"Series {self._list((node.start, node.stop, node.step))}"
        if isinstance(node, physical.Recursive):
            return f"Recursive {node.key}{' all' if node.all else ''}"
        if isinstance(node, physical.WorkingTable):
            return f"WorkingTable {node.key}"
        if isinstance(node, physical.SetDifference):
            return f"SetDifference {node.kind}{' all' if node.all else ''}"
        if isinstance(node, physical.Shared):
            return f"Shared {node.key}" + (" (drawn above)" if node.key in self._drawn else "")
        return type(node).__name__

    def _ranges(self, condition: Expr | None, probe: PhysicalNode, build: PhysicalNode) -> Iterator[str]:
        bounds = range_bounds(condition, probe.columns, build.columns)
        if bounds and build.estimate > 1:
            yield f"searches ranges of {_join_list(list(dict.fromkeys(self._text(bound.build) for bound in bounds)))}"

    def details(self, node: PhysicalNode) -> Iterator[str]:
        """Yield the detail lines below the node."""
        if isinstance(node, physical.TableScan):
            yield from self._scan_details(node)
        elif isinstance(node, physical.Window):
            yield _join_list([framed_text(call, self._names) for call in node.calls])
        elif isinstance(node, physical.FileScan):
            yield f"reads {_join_list(list(node.names))}"
            if node.residual is not None:
                yield f"where {self._text(node.residual)}"
        elif isinstance(node, physical.MergeJoin) and node.residual is not None:
            yield f"and {self._text(node.residual)}"
        elif isinstance(node, physical.NestedLoopJoin):
            if node.kind != "null_anti":
                yield from self._ranges(node.condition, node.left, node.right)
        elif isinstance(node, physical.HashJoin):
            if node.residual is not None:
                yield f"and {self._text(node.residual)}"
                if node.kind != "null_anti":
                    yield from self._ranges(node.residual, node.probe, node.build)
            for offered in node.runtime_filters:
                column = next(c for c in _fetched(node.probe) if c.id == offered.column)
                yield f"runtime filter on {self._owners[column.id]}.{column.name}"
        actual = self.actual(node)
        if actual is not None:
            yield from actual.notes

    def _scan_details(self, node: physical.TableScan) -> Iterator[str]:
        if node.time is not None:
            yield time_text(node.time)
        scanned, tablets = tablets_of(node)
        if tablets > 1:
            yield f"{scanned} of {tablets} tablets"
        if node.columns:
            yield f"reads {_join_list([c.name for c in node.columns])}"
        only_residual = [c.name for c in node.fetched[len(node.columns) :]]
        if only_residual:
            yield f"reads {_join_list(only_residual)} for its condition"
        if node.predicates:
            schema = node.table.schema
            yield "where " + " AND ".join(predicate_text(p, schema.column(p.column).type) for p in node.predicates)
        if node.residual is not None:
            yield f"and then {self._text(node.residual)}"
        if node.limit is not None:
            yield f"{_key_order(node, ', ')}limit {self._sum(node.limit, node.offset)}"
        elif node.ordered:
            yield _key_order(node)

    def _sum(self, limit: Expr, offset: Expr | None) -> str:
        if isinstance(limit, Literal) and isinstance(offset, Literal):
            return str(limit.value + (offset.value or 0))
        return self._text(limit) if offset is None else f"{self._text(limit)} + {self._text(offset)}"


def readable_size(count: int) -> str:
    """Format a number of bytes as MB, or as kB if small."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _fetched(node: PhysicalNode) -> Iterator[Column]:
    for below in physical.nodes(node):
        if isinstance(below, physical.TableScan):
            yield from below.fetched


def _key_order(scan: physical.TableScan, end: str = "") -> str:
    """Name the order of a scan in key order; empty for other scans."""
    if not scan.ordered:
        return ""
    return f"ordered by key{' descending' if scan.descending else ''}{end}"
