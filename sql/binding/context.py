"""What binding one statement needs everywhere: the text (for error places), the catalog, column numbers, parameters.

Binding functions raise errors without a place wherever they only know values; `Frame.bind`, which knows the syntax node
at hand, adds the place on the way out. The innermost node wins.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from ...errors import DataError, IntegrityError, NotSupportedError, StatementError
from ...model.schema import Table, View
from ...model.store import Timestamp
from ...model.types import DataType
from ..arithmetic import has_more_room
from ..bound import Query
from ..deferred_parameters import LateParameter
from ..expressions import Aggregate, Column, Expr, Window
from ..files import FileCatalog
from ..syntax import not_supported
from ..syntax.dialect import fold
from ..syntax.parser import generate, place
from .clauses.grouping_sets import GroupBy
from .scope import CommonTable, Field, Scope


class Catalog(Protocol):
    """What binding asks of a store; `model.store.Store` has it."""

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` where there is none."""

    def tables(self) -> Sequence[Table]:
        """All tables."""

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""

    def views(self) -> Sequence[View]:
        """All views."""

    def now(self) -> Timestamp:
        """The time: hybrid, above all that was written."""


Handler = Callable[[Any, "Frame"], Expr]


@dataclass(slots=True)
class Context:
    """One statement's binding. `bind_query` and `handlers` close the circle between expressions and the queries inside
    them without a circle of imports."""

    text: str
    catalog: Catalog
    parameters: Mapping[int, Expr]
    bind_query: Callable[[Any, Scope, Context], Query]
    handlers: Mapping[type, Handler]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    mentions: dict[int, list[Any]] = field(default_factory=dict)
    """The syntax nodes that were bound to a column, by its number."""
    files: FileCatalog | None = None
    unreadable: dict[int, str] = field(default_factory=dict)
    """Columns of files whose type nyala does not have, by their number: the error where one is read."""
    views: dict[str, CommonTable] = field(default_factory=dict)
    """The views that the statement uses, bound once each."""
    view_uses: Counter[str] = field(default_factory=Counter)
    """How often each view is named in the statement, as far as that is known."""
    within: tuple[str, ...] = ()
    """The views whose text is being bound, the outermost first."""
    stars: dict[int, list[Field]] = field(default_factory=dict)
    """What a `*` of a select list stands for, by the `id` of its syntax node."""
    late_now: LateParameter | None = None
    """What `now()` is where the bound statement is to outlive its moment."""
    momentary: list[str] = field(default_factory=list)
    """What of the moment went into the bound statement: its time, the contents of files."""
    _now: Timestamp | None = None

    def column(self, name: str, type_: DataType, nullable: bool) -> Column:
        """A column with a number of its own."""
        return Column(type_, nullable, next(self.numbers), name)

    def now(self) -> Timestamp:
        """The time of the statement: the same wherever it asks."""
        self.momentary.append("time")
        if self._now is None:
            self._now = self.catalog.now()
        return self._now

    def set_now(self, now: Timestamp | None) -> None:
        """Fix the time of the statement."""
        self._now = now

    def located(self, error: StatementError, node: Any) -> StatementError:
        """The error with its place, unless it has one."""
        if error.position is not None:
            return error
        start, width = _nearest(node)
        return type(error)(error.message, self.text, start, width)

    def at(self, node: Any) -> _Place:
        """`with context.at(node):` gives errors that leave the block the node's place."""
        return _Place(self, node)

    def drawn(self, error: Any, node: Any) -> Any:
        """The same error with the line and a caret in its message, for classes that carry no place."""
        if "\nLINE " in str(error):
            return error
        start, width = _nearest(node)
        return type(error)(str(StatementError(str(error), self.text, start, width)))


class _Place:
    """See `Context.at`. A class, as a generator would double the cost of binding a long INSERT."""

    __slots__ = ("_context", "_node")

    def __init__(self, context: Context, node: Any) -> None:
        self._context = context
        self._node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StatementError):
            located: Exception = self._context.located(error, self._node)
        elif isinstance(error, DataError | IntegrityError | NotSupportedError):
            located = self._context.drawn(error, self._node)
        else:
            return
        if located is not error:
            try:
                raise located from error.__cause__
            finally:
                # This frame is in its traceback: they would keep each other, and the cursor, as a cycle.
                del located


def _nearest(node: Any) -> tuple[int | None, int]:
    """The place of the closest surrounding node that has one."""
    while node is not None:
        start, width = place(node)
        if start is not None:
            return start, width
        node = getattr(node, "parent", None)
    return None, 1


@dataclass(slots=True)
class Aggregates:
    """The aggregate calls of one SELECT, equal ones once, and its GROUP BY.

    Where no group is empty (`grouped`), an aggregate of values that are never NULL is never NULL either.
    """

    grouped: bool
    group_by: GroupBy | None = None
    found: dict[Aggregate, Column] = field(default_factory=dict)

    def column(self, call: Aggregate, context: Context) -> Column:
        """The column that stands for the call above the aggregation."""
        if call not in self.found:
            self.found[call] = context.column(call.function, call.type, call.nullable)
        return self.found[call]

    def averaged_as(self, column: Column, type_: DataType, context: Context) -> Column:
        """The column for an average that is cast: of the type at once where that has more digits before the point."""
        call = next((call for call, known in self.found.items() if known is column), None)
        if call is None or call.function != "avg" or not has_more_room(type_, call.type):
            return column
        if (type_.scale or 0) < (call.args[0].type.scale or 0):
            return column  # the sum has digits that would be cut off first
        return self.column(replace(call, type=type_), context)


@dataclass(slots=True)
class Windows:
    """The window calls of one SELECT, equal ones once, each with a syntax node of it; and the windows of its WINDOW
    clause: syntax nodes by name, and what `expressions.windows` has made of them."""

    definitions: Mapping[str, Any] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    found: dict[Window, tuple[Column, Any]] = field(default_factory=dict)

    def column(self, call: Window, node: Any, context: Context) -> Column:
        """The column that stands for the call in the expressions around it."""
        if call not in self.found:
            self.found[call] = context.column(call.function, call.type, call.nullable), node
        return self.found[call][0]


@dataclass(frozen=True, slots=True)
class Frame:
    """Where an expression stands: its scope, its clause (for messages), and whether aggregates may stand there.

    `aggregates` is None where they may not; `within` names the aggregate function whose argument this is. `windows` is
    None where window calls may not stand. `grouped_queries` are the subqueries in GROUP BY of this SELECT, by their
    syntax: one that is written there and above means the same, and each binding has columns of its own.
    """

    context: Context
    scope: Scope
    clause: str
    aggregates: Aggregates | None = None
    within: str | None = None
    windows: Windows | None = None
    grouped_queries: dict[Any, Query] | None = None

    def bind(self, node: Any) -> Expr:
        """The bound expression of a syntax node; errors carry the place of the innermost node concerned."""
        handler = self.context.handlers.get(type(node))
        with self.context.at(node):
            if handler is None:
                raise unsupported(node)
            bound = handler(node, self)
        if isinstance(bound, Column):
            self.context.mentions.setdefault(bound.id, []).append(node)
        return bound

    def bind_all(self, nodes: Sequence[Any]) -> tuple[Expr, ...]:
        """Several at once."""
        return tuple(self.bind(node) for node in nodes)

    def bind_query(self, node: Any) -> Query:
        """A subquery that stands in the expression; aggregates of nothing but this query's columns in it are this
        query's."""
        return self.context.bind_query(node, replace(self.scope, holder=self), self.context)

    def inside(self, aggregate: str) -> Frame:
        """The frame of an aggregate's arguments."""
        return replace(self, aggregates=None, within=aggregate, windows=None)


_INSTEAD = {
    exp.Collate: not_supported.CONSTRAINTS["COLLATE"],
    exp.Pivot: not_supported.PIVOTS,
    exp.TableSample: "ORDER BY random() LIMIT n takes some rows",
    exp.DML: "a statement that writes stands alone, with RETURNING where its rows are wanted",
}
"""What to do instead of syntax that is refused as a whole."""


def unsupported(node: Any) -> NotSupportedError:
    """The error for syntax that sqlglot reads and nyala does not have."""
    try:
        text = generate(node)
    except Exception:  # a malformed tree cannot be printed either; its kind must do
        text = type(node).__name__
    shown = (text if len(text) <= 60 else text[:57] + "...") or type(node).__name__.upper()
    hint = next((hint for kind, hint in _INSTEAD.items() if isinstance(node, kind)), "")
    return NotSupportedError(f"{shown} is not supported{hint and '; '}{hint}")


def only(node: Any, *allowed: str) -> None:
    """Refuse a syntax node that carries any part besides those named: nothing is silently ignored."""
    for name, value in node.args.items():
        if value and name not in allowed:
            part = value[0] if isinstance(value, list) else value
            if isinstance(part, exp.Expression):
                raise unsupported(part)
            raise NotSupportedError(f"{name.rstrip('_').replace('_', ' ').upper()} is not supported here")


def name_of(node: Any) -> str:
    """The folded name of an identifier node."""
    return fold(node) if isinstance(node, exp.Identifier) else str(node.name).lower()
