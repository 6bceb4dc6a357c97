"""Physical plan nodes, which the executor runs. Frozen, without behaviour; `planner/physical/physical_planner.py` makes
them from logical nodes.

Every node has `columns` (the contents of its batches, in order) and `estimate` (expected rows). Expressions refer to
columns of the node's inputs by number. Plans that run hold no subquery expressions and no `Parameter`s: the planner has
turned the former into joins, `planner.bind_parameters` the latter into literals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from itertools import count

from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import Table
from ...sql.bound import FileRef, TimeTravel
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr, OrderItem
from ...sql.expressions import Window as WindowCall


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalNode:
    """Base of all physical nodes.

    Attributes
    ----------
    number : int
        Unique in the plan. Key of what an execution keeps about a node, outside the plan.
    """

    columns: tuple[Column, ...]
    estimate: float = 0.0
    number: int = field(default_factory=count().__next__, init=False, compare=False, repr=False)

    def children(self) -> tuple[PhysicalNode, ...]:
        """Direct inputs, in order."""
        kind = type(self)
        names = _INPUTS.get(kind)
        if names is None:
            names = _INPUTS[kind] = tuple(spec.name for spec in fields(self) if spec.type == "PhysicalNode")
        return tuple([getattr(self, name) for name in names])


_INPUTS: dict[type, tuple[str, ...]] = {}
"""The fields of each kind of node that hold its inputs, cached: a statement reads them some dozens of times for each
node before it runs."""


def nodes(root: PhysicalNode, most: int = 1) -> Iterator[PhysicalNode]:
    """Yield the node and all below it, parents first.

    Nodes below a shared subplan are yielded at most `most` times: with subplans that use each other twice, every level
    would double their number.
    """
    stack = [root]
    entered: Counter[int] = Counter()
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Shared):
            entered[node.source.number] += 1
            if entered[node.source.number] > most:
                continue
        stack.extend(node.children()[::-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan(PhysicalNode):
    """Reads a table: `predicates` go down to the tablets, `residual` is evaluated on their batches.

    `names` are the table's names of `fetched`, the columns that the scan yields lazily: `columns` first, then those
    that only `residual` needs. `predicates` are in physical values. Those whose value is unknown until parameters are
    bound stay in `residual`.

    With a `limit`, no part of the table needs to produce more than its first `limit` rows after `offset`. The operator
    above skips the `offset`; here it only adds to the number of rows. With `ordered` as well, these are the first by
    primary key of each tablet; if `descending`, the last, which then descend. `time` is as in the logical node.
    """

    table: Table
    alias: str
    names: tuple[str, ...]
    fetched: tuple[Column, ...]
    predicates: tuple[ColumnPredicate, ...] = ()
    residual: Expr | None = None
    ordered: bool = False
    descending: bool = False
    limit: Expr | None = None
    offset: Expr | None = None
    time: TimeTravel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan(PhysicalNode):
    """Reads external files. `names` are the files' names of `fetched`: `columns` first, then those that only `residual`
    needs.

    `residual` is evaluated on every row. `predicates`, in physical values and by the same names, only serve to skip
    parts of files whose statistics exclude them.
    """

    file: FileRef
    names: tuple[str, ...]
    fetched: tuple[Column, ...]
    predicates: tuple[ColumnPredicate, ...] = ()
    residual: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesScan(PhysicalNode):
    """Constant rows."""

    rows: Sequence[tuple[Expr, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(PhysicalNode):
    """Rows for which `predicate` is true; `columns` may be fewer than the source's."""

    source: PhysicalNode
    predicate: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(PhysicalNode):
    """One expression per output column."""

    source: PhysicalNode
    expressions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RuntimeFilter:
    """The build keys of a join, offered to a `TableScan` below its probe side.

    Rows whose column matches no build key cannot survive the join. `key` is the position of the join key, `column` the
    number of a column among that scan's `fetched`. If the keys allow no exact filter, a Bloom filter of up to
    `bloom_keys` distinct keys is worth its cost.
    """

    key: int
    column: int
    bloom_keys: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HashJoin(PhysicalNode):
    """Equi-join: `build` is read whole first, then `probe` streams.

    `kind` is from the probe side's view:
    - inner; left: unmatched probe rows are produced with NULLs; full: unmatched rows of either side;
    - right: unmatched build rows are produced with NULLs, matches too;
    - semi, anti, null_anti, single: of probe rows, as in the logical node;
    - right_semi, right_anti: *build* rows with, without a partner: for a small build side under EXISTS; only build
      columns are produced.
    `residual` is the rest of the condition over both sides' columns; it decides what a match is.
    Keys of a pair have equal types. NULL keys match nothing. `columns` are any of the two sides' columns.
    """

    kind: str
    probe: PhysicalNode
    build: PhysicalNode
    probe_keys: tuple[Expr, ...]
    build_keys: tuple[Expr, ...]
    residual: Expr | None = None
    runtime_filters: tuple[RuntimeFilter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJoin(PhysicalNode):
    """Equi-join of two sides that are partitioned alike and sorted by the keys: both sides stream, tablet by tablet.

    `kind`, `residual` and `columns` are as in `HashJoin`, with `left` as the probe side; all kinds but null_anti. Both
    inputs produce one morsel per tablet, in which the keys, columns without NULLs, ascend in the order given.
    """

    kind: str
    left: PhysicalNode
    right: PhysicalNode
    left_keys: tuple[Column, ...]
    right_keys: tuple[Column, ...]
    residual: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedLoopJoin(PhysicalNode):
    """Join on any condition (None: all pairs); `right` is read whole first. Kinds are as in the logical node."""

    kind: str
    left: PhysicalNode
    right: PhysicalNode
    condition: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashAggregate(PhysicalNode):
    """One row per group: `columns` are those of the groups, of the aggregates and, with `sets`, of the set's number.

    The sets are positions among `groups`, as in the logical node.
    """

    source: PhysicalNode
    groups: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] | None = None

    def lacks(self, group: Expr) -> bool:
        """True if a grouping set lacks the group."""
        return self.sets is not None and any(all(self.groups[i] != group for i in chosen) for chosen in self.sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(PhysicalNode):
    """The rows of `source` in the order of their windows, each with the value of each call.

    `columns` are any of the source's, then the calls'. All calls have one PARTITION BY and one ORDER BY.
    """

    source: PhysicalNode
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort(PhysicalNode):
    """All rows in order, or the first `limit` after `offset` (top-N).

    `presorted`: the rows of one tablet arrive in this order already.
    """

    source: PhysicalNode
    order: tuple[OrderItem, ...]
    limit: Expr | None = None
    offset: Expr | None = None
    presorted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(PhysicalNode):
    """At most `limit` rows after skipping `offset`."""

    source: PhysicalNode
    limit: Expr | None
    offset: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRows(PhysicalNode):
    """The first rows of each group in order, as in the logical node."""

    source: PhysicalNode
    groups: tuple[Column, ...]
    order: tuple[OrderItem, ...]
    limit: Expr | None
    offset: Expr | None = None
    ties: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(PhysicalNode):
    """Each row of `source` with every value from `start` to `stop`; `columns` are some of the source's, then the
    series' own."""

    source: PhysicalNode
    start: Expr
    stop: Expr
    step: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Recursive(PhysicalNode):
    """As in the logical node; `columns` align by position with those of both inputs."""

    key: int
    all: bool
    anchor: PhysicalNode
    step: PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingTable(PhysicalNode):
    """The rows of the last round of the `Recursive` with this `key`; `places` are the positions of `columns` among its
    columns."""

    key: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll(PhysicalNode):
    """The rows of all `sources`, whose columns align by position with `columns`."""

    sources: tuple[PhysicalNode, ...]

    def children(self) -> tuple[PhysicalNode, ...]:
        return self.sources


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDifference(PhysicalNode):
    """INTERSECT or EXCEPT (`kind` in lower case), with `all` by counting; NULLs are equal here."""

    kind: str
    all: bool
    left: PhysicalNode
    right: PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRow(PhysicalNode):
    """Exactly one row, as in the logical node."""

    source: PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(PhysicalNode):
    """A subplan that is executed once per statement, for all its uses in the plan; equal `key` means the same subplan.

    `columns` align by position with the source's.
    """

    key: int
    source: PhysicalNode
