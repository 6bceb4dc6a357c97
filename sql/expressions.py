"""Bound expressions: every name resolved, every node typed. The binder creates them, the planner rewrites them, the
executor evaluates them.

A column is identified by its number, which is unique within one statement: each use of a table, subquery or projection
gets fresh numbers. So an expression means the same wherever a rule moves it, and testing that a predicate belongs to a
relation is a set comparison.

All nodes are frozen and compare by value. Literals hold physical values (`model.types`): days for a DATE, the
unscaled integer for a DECIMAL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, fields, replace
from operator import attrgetter
from typing import Any

from ..model.lazy_dataclass import dataclass
from ..model.types import BOOLEAN, NULL, DataType


class _ByValue:
    """Equality and hash by value, computed without recursion and once.

    Trees are hundreds of levels deep, and rules look up the same ones repeatedly. `dataclass` would compare tuples,
    which recurse through C.
    """

    __slots__ = ("_hash", "_summary")
    _hash: int
    _summary: Any

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            return self._hash_upwards()

    def _hash_upwards(self) -> int:
        stack: list[Any] = [self]
        while stack:
            node = stack[-1]
            kind = type(node)
            in_list = kind is InValues
            children = [child for child in node.children() if not (in_list and type(child) is Literal)]
            pending = [child for child in children if not hasattr(child, "_hash")]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            object.__setattr__(node, "_hash", hash((kind, node.hashed() if in_list else _compared(kind)(node))))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        pairs: list[tuple[Any, Any]] = [(self, other)]
        while pairs:
            first, second = pairs.pop()
            if first is second:
                continue
            kind = type(first)
            if isinstance(first, _ByValue):
                if kind is not type(second) or _known_to_differ(first, second):
                    return False
                compared = _compared(kind)
                pairs.append((compared(first), compared(second)))
            elif isinstance(first, tuple) and isinstance(second, tuple):
                if len(first) != len(second):
                    return False
                pairs.extend(zip(first, second, strict=True))
            elif isinstance(first, OrderItem) and isinstance(second, OrderItem):
                if (first.descending, first.nulls_first) != (second.descending, second.nulls_first):
                    return False
                pairs.append((first.expr, second.expr))
            elif first != second:
                return False
        return True


def _known_to_differ(first: _ByValue, second: _ByValue) -> bool:
    try:
        return first._hash != second._hash
    except AttributeError:
        return False


_COMPARED: dict[type, Callable[[Any], Any]] = {}


def _compared(kind: type[Any]) -> Callable[[Any], Any]:
    """A function that returns the tuple of the fields by which nodes of a class are compared."""
    compared = _COMPARED.get(kind)
    if compared is None:
        compared = _COMPARED[kind] = attrgetter(*(spec.name for spec in fields(kind) if spec.compare))
    return compared


@dataclass(frozen=True, slots=True, eq=False)
class Expr(_ByValue):
    """The base of all expressions; `type` is the type of its values, `nullable` is False only if NULL is impossible."""

    type: DataType
    nullable: bool

    def children(self) -> tuple[Expr, ...]:
        """The direct subexpressions, in order. The query inside a subquery node is not among them."""
        names = _parts(type(self))
        if not names:
            return ()
        found: list[Expr] = []
        for name in names:
            _collect(getattr(self, name), found)
        return tuple(found)

    def map_children(self, change: Callable[[Expr], Expr]) -> Expr:
        """This node with `change` applied to each direct subexpression; the node itself if nothing changed."""
        changes: dict[str, Any] = {}
        for name in _parts(type(self)):
            before = getattr(self, name)
            after = _map(before, change)
            if after is not before:
                changes[name] = after
        return replace(self, **changes) if changes else self


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One ORDER BY key; by default NULLs sort last when ascending and first when descending (PostgreSQL).

    Not an expression itself: the expressions of a node's order items are among the node's children.
    """

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


_PARTS: dict[type[Expr], tuple[str, ...]] = {}
_PLAIN = ("DataType", "bool", "int", "str", "str | None", "WindowFrame | None", "Query | None")


def _parts(kind: type[Expr]) -> tuple[str, ...]:
    """The names of the fields that may hold expressions."""
    names = _PARTS.get(kind)
    if names is None:
        names = _PARTS[kind] = tuple(spec.name for spec in fields(kind) if spec.type not in _PLAIN)
    return names


def _collect(value: Any, found: list[Expr]) -> None:
    if isinstance(value, Expr):
        found.append(value)
    elif isinstance(value, OrderItem):
        found.append(value.expr)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)


def _map(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, OrderItem):
        expr = change(value.expr)
        return value if expr is value.expr else replace(value, expr=expr)
    if isinstance(value, tuple) and value:
        items = [_map(item, change) for item in value]
        if any(a is not b for a, b in zip(items, value)):
            return tuple(items)
    return value


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its descendants, parents first; the insides of subqueries excluded."""
    # Iterative: nested generators cost a step per level for each node.
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children()))


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rewrites bottom-up: `change` receives each node after its children were changed."""
    return change(expr.map_children(lambda child: transform(child, change)))


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expr):
    """A column of a relation in the statement, identified by its number; `name` is for display."""

    id: int = 0
    name: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant; `value` is physical, None for NULL."""

    value: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class OpenParameter(Literal):
    """A parameter without a value yet: a NULL that notes the types which its context requires of it."""

    index: int = 0
    notes: list[DataType] = field(default_factory=list, compare=False, repr=False)

    @property
    def seen(self) -> DataType | None:
        """The type that its context requires; None if it has required none."""
        return self.notes[-1] if self.notes else None


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Expr):
    """A bind value: `?` and `$n` by 0-based `index`, `:name` by name (its index is unique too)."""

    index: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """A scalar function or operator of the registry (`sql.functions`), by its canonical name.

    Operators: add sub mul div mod neg | eq ne lt le gt ge is_distinct | and or not | is_null is_true is_false |
    like (value, pattern) | concat. `and` and `or` take two or more arguments.
    """

    function: str = ""
    args: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    """`CAST(arg AS type)`; with `safe`, TRY_CAST: NULL if the value does not convert."""

    arg: Expr = field(default_factory=lambda: Literal(NULL, True))
    safe: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Case(Expr):
    """`CASE WHEN condition THEN value ... ELSE default END`; the simple form is bound into this one."""

    branches: tuple[tuple[Expr, Expr], ...] = ()
    default: Expr = field(default_factory=lambda: Literal(NULL, True))


@dataclass(frozen=True, slots=True, eq=False)
class InValues(Expr):
    """`arg IN (items)`: three-valued; NOT IN is `not` around it."""

    arg: Expr = field(default_factory=lambda: Literal(NULL, True))
    items: tuple[Expr, ...] = ()

    def children(self) -> tuple[Expr, ...]:
        """The direct subexpressions, in order."""
        return (self.arg, *self.items)

    def hashed(self) -> Any:
        """The fields that the hash is made of: of literals their values alone, as lists have thousands of them."""
        return self.type, self.arg, tuple([item.value if type(item) is Literal else item for item in self.items])


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Expr):
    """An aggregate call: count (no argument: COUNT(*)), sum, avg, min, max, ... of the registry.

    `order` is that of ORDER BY inside the call or, for ordered-set functions (percentile_cont, mode), of WITHIN GROUP.
    Stands only in `Select.aggregates` and, above it, in the planner's Aggregate node.
    """

    function: str = ""
    args: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    order: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """The rows of its partition that a row's window call reads.

    `unit` is rows, range or groups. `start` and `end` are unbounded preceding, preceding, current row, following or
    unbounded following. `exclude` is current row, group, ties, or empty for no others.
    """

    unit: str = "range"
    start: str = "unbounded preceding"
    end: str = "current row"
    exclude: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Window(Expr):
    """A window call: `function(args) FILTER (WHERE filter) OVER (PARTITION BY partition ORDER BY order frame)`.

    The function is an aggregate or one of the registry's window functions, of which only first_value, last_value and
    nth_value have a frame. `start` and `end` are the offsets of the frame's bounds, constant, None if there is none.
    For RANGE with an offset, `range_key` is the order key. `range_start` and `range_end` are each row's limits of the
    frame: the key minus or plus the offset, all of one type.

    Stands only in `Select.windows` and, above it, in the planner's Window node.
    """

    function: str = ""
    args: tuple[Expr, ...] = ()
    partition: tuple[Expr, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: WindowFrame | None = None
    start: Expr | None = None
    end: Expr | None = None
    range_key: Expr | None = None
    range_start: Expr | None = None
    range_end: Expr | None = None
    filter: Expr | None = None
    ignore_nulls: bool = False


def summary(expr: Expr, of: Callable[[Expr, tuple[Any, ...]], Any]) -> Any:
    """The result of `of` for an expression, given its results for the direct subexpressions; cached in each node.

    Only one such function is cached: the executor's. Called at every level of a deep expression, a full walk would take
    quadratic time.
    """
    stack: list[Any] = [expr]
    while stack:
        node = stack[-1]
        children = node.children()
        pending = [child for child in children if not hasattr(child, "_summary")]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        object.__setattr__(node, "_summary", of(node, tuple(child._summary for child in children)))
    return expr._summary


def columns_of(expr: Expr) -> frozenset[int]:
    """The numbers of the columns an expression reads; outer references inside subqueries are not included."""
    return frozenset(node.id for node in walk(expr) if isinstance(node, Column))


def conjuncts(expr: Expr | None) -> list[Expr]:
    """The parts of a conjunction, flattened; nothing for None."""
    if expr is None:
        return []
    if isinstance(expr, Call) and expr.function == "and":
        return [part for arg in expr.args for part in conjuncts(arg)]
    return [expr]


def conjunction(parts: list[Expr]) -> Expr | None:
    """One expression for all parts; None for an empty list."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return Call(BOOLEAN, any(p.nullable for p in parts), "and", tuple(parts))
