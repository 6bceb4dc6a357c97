"""Logical plan nodes: relational algebra over bound expressions. Frozen, without behaviour, validated on construction.

    Scan  FileScan  Values  Series  Filter  Project  Join  Aggregate  Window  Sort  Limit  TopRows  SetOperation
    SingleRow  Shared  Recursive  WorkingTable

Each node describes the rows it produces; `columns` are the columns of those rows, in order.
`planner/explaining/plan_text.py` draws the nodes, the rules in `planner/rules/` rewrite them, and
`planner/physical/physical_planner.py` picks their operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from itertools import count
from typing import Any

from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...sql.bound import FileRef, TimeTravel
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr, OrderItem
from ...sql.expressions import Window as WindowCall


class _Kept:
    """Cache slots for the results of `algebra.trees.free_columns` and `is_volatile_plan`: nodes never change, shared
    subplans are visited often, and the plans of subqueries once for each query around them."""

    __slots__ = ("_free", "_volatile")
    _free: frozenset[int]
    _volatile: bool


@dataclass(frozen=True, slots=True)
class Node(_Kept):
    """Base of all nodes.

    Attributes
    ----------
    number : int
        Unique in the process; a changed copy has a number of its own. Key of what is known about a node.
    """

    number: int = field(default_factory=count().__next__, init=False, compare=False, repr=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that the node produces, in order; numbers are unique within a plan except inside `Shared`."""
        raise NotImplementedError

    def children(self) -> tuple[Node, ...]:
        """Direct inputs, in order."""
        names = _inputs(type(self))
        return (getattr(self, names[0]),) if len(names) == 1 else tuple([getattr(self, name) for name in names])

    def map_children(self, change: Callable[[Node], Node]) -> Node:
        """Return this node over changed inputs; itself if nothing changed."""
        changes: dict[str, Any] = {}
        for name in _inputs(type(self)):
            before = getattr(self, name)
            if (after := change(before)) is not before:
                changes[name] = after
        return replace(self, **changes) if changes else self


_INPUTS: dict[type[Node], tuple[str, ...]] = {}


def _inputs(kind: type[Node]) -> tuple[str, ...]:
    """Names of the fields that hold a node's inputs."""
    found = _INPUTS.get(kind)
    if found is None:
        found = _INPUTS[kind] = tuple(spec.name for spec in fields(kind) if spec.type == "Node")
    return found


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """The rows of a table for which all `predicates` are true; `output` are the columns still needed.

    `source_names` maps a column's number to its name in the table. `time` is that of FOR SYSTEM_TIME, None for the
    statement's own snapshot. Statistics describe the newest state and serve as estimates for older ones as well.
    """

    table: Table
    alias: str
    output: tuple[Column, ...]
    source_names: tuple[tuple[int, str], ...]
    predicates: tuple[Expr, ...] = ()
    time: TimeTravel | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True, slots=True)
class FileScan(Node):
    """The rows of external files for which all `predicates` are true; `output` are the columns still needed."""

    file: FileRef
    output: tuple[Column, ...]
    predicates: tuple[Expr, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True, slots=True)
class Values(Node):
    """Rows of constant expressions; one row of no columns stands for SELECT without FROM."""

    output: tuple[Column, ...]
    rows: Sequence[tuple[Expr, ...]]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """The rows of `source` for which `predicate` is true: neither false nor NULL."""

    source: Node
    predicate: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns


@dataclass(frozen=True, slots=True)
class Project(Node):
    """For each row of `source` the value of each expression; a bare Column under its own number passes through."""

    source: Node
    items: tuple[tuple[Column, Expr], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.items)


JOIN_KINDS = ("inner", "left", "right", "full", "cross", "semi", "anti", "null_anti", "single")


@dataclass(frozen=True, slots=True)
class Join(Node):
    """Pairs of rows for which `condition` is true, completed by kind:

    - inner, cross; left, right, full: unmatched rows of that side with NULLs;
    - semi, anti: rows of `left` with, without a partner; only `left`'s columns are produced;
    - null_anti: NOT IN's anti join: `condition` is a conjunction whose equalities may be NULL. A row of `left` is
      produced only if the condition is false (not NULL) for every row of `right`;
    - single: left join in which a second partner is an error (scalar subquery).
    """

    kind: str
    left: Node
    right: Node
    condition: Expr | None = None

    def __post_init__(self) -> None:
        assert self.kind in JOIN_KINDS, f"there is no join kind {self.kind}"

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in ("semi", "anti", "null_anti"):
            return self.left.columns
        return self.left.columns + self.right.columns


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """One row per distinct combination of `groups`, with the value of each aggregate. If `groups` is empty, one row in
    all. Without aggregates it is DISTINCT.

    With `sets`, the rows of several such aggregations one after the other. Each set lists positions among the groups;
    the other groups are NULL, and `set_number` counts the sets from 0. An empty set always produces its one row.
    """

    source: Node
    groups: tuple[tuple[Column, Expr], ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    set_number: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        number = () if self.set_number is None else (self.set_number,)
        return (*(column for column, _ in (*self.groups, *self.aggregates)), *number)

    @property
    def common_groups(self) -> tuple[tuple[Column, Expr], ...]:
        """The groups that every set has: in each row these hold the values of its source rows."""
        if self.sets is None:
            return self.groups
        return tuple(group for i, group in enumerate(self.groups) if all(i in chosen for chosen in self.sets))

    @property
    def is_total(self) -> bool:
        """True if there is a row even over no rows."""
        return not self.groups if self.sets is None else not all(self.sets)

    def grouped_also(self, source: Node, added: tuple[tuple[Column, Expr], ...]) -> Aggregate:
        """Return the same aggregation over another source with more groups, which every set has."""
        more = tuple(range(len(self.groups), len(self.groups) + len(added)))
        sets = None if self.sets is None else tuple(chosen + more for chosen in self.sets)
        return replace(self, source=source, groups=self.groups + added, sets=sets)


@dataclass(frozen=True, slots=True)
class Window(Node):
    """The rows of `source`, each with the value of each window call. The calls, at least one, share one PARTITION BY
    and one ORDER BY."""

    source: Node
    windows: tuple[tuple[Column, WindowCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns + tuple(column for column, _ in self.windows)


@dataclass(frozen=True, slots=True)
class Sort(Node):
    """The rows of `source` in order; with `limit` only the first `limit` rows after `offset` (top-N)."""

    source: Node
    order: tuple[OrderItem, ...]
    limit: Expr | None = None
    offset: Expr | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns


@dataclass(frozen=True, slots=True)
class Limit(Node):
    """At most `limit` rows of `source` after skipping `offset`."""

    source: Node
    limit: Expr | None
    offset: Expr | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns


@dataclass(frozen=True, slots=True)
class TopRows(Node):
    """The first `limit` rows, after `offset`, of each group of rows with equal `groups` (NULLs are equal).

    With `ties`, rows that follow and equal the last one in `order` are included. Without groups all rows are one group
    and are produced in order.
    """

    source: Node
    groups: tuple[Column, ...]
    order: tuple[OrderItem, ...]
    limit: Expr | None
    offset: Expr | None = None
    ties: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns


@dataclass(frozen=True, slots=True)
class Series(Node):
    """Each row of `source` once for every value from `start` to `stop` in steps of `step`, held by `column`. A row is
    dropped if one of the three is NULL."""

    source: Node
    column: Column
    start: Expr
    stop: Expr
    step: Expr

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.source.columns, self.column)


@dataclass(frozen=True, slots=True)
class SetOperation(Node):
    """UNION, INTERSECT, EXCEPT; columns of both sides align by position and get fresh numbers."""

    kind: str
    all: bool
    left: Node
    right: Node
    output: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True, slots=True)
class SingleRow(Node):
    """Exactly one row: that of `source`, or NULLs where it has none; `CardinalityViolation` where it has two."""

    source: Node

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.source.columns


@dataclass(frozen=True, slots=True)
class Shared(Node):
    """A subplan used several times and computed once; `output` renames `source`'s columns by position.

    Equal `key` means the same subplan. It counts as a leaf: traversals and rewrites of a plan do not enter `source`, so
    that all uses of the subplan stay the same. `planner/plan.py` plans it separately, once.
    """

    key: int
    source: Node
    output: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output

    def children(self) -> tuple[Node, ...]:
        return ()

    def map_children(self, change: Callable[[Node], Node]) -> Node:
        return self


@dataclass(frozen=True, slots=True)
class Recursive(Node):
    """WITH RECURSIVE: the rows of `anchor`, then those of `step` over them, and so on until a round adds no rows.

    Unless `all`, rows that occurred before are dropped. Columns align by position, as in a set operation. Within
    `step`, the `WorkingTable` of the same `key` stands for the rows of the previous round.
    """

    key: int
    all: bool
    anchor: Node
    step: Node
    output: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True, slots=True)
class WorkingTable(Node):
    """The rows that the last round of the enclosing `Recursive` produced, under fresh numbers."""

    key: int
    output: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output
