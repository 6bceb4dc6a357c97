"""The state of binding one statement: the text (for error positions), the catalog, column numbers, parameters.

Binding functions that know only values raise errors without a position; `Frame.bind`, which has the syntax node, adds
the position as the error propagates. The innermost node wins.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from sqlglot import exp

from ...errors import DataError, IntegrityError, NotSupportedError, StatementError
from ...model.access.rights import Right, Secured, secured, secured_schema
from ...model.access.roles import Access
from ...model.lazy_dataclass import dataclass
from ...model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, Namespace
from ...model.schema import Table, View
from ...model.store import Timestamp
from ...model.types import DataType
from ..arithmetic import has_more_room
from ..bound import Query, SetSetting
from ..deferred_parameters import DeferredParameter
from ..expressions import Aggregate, Column, Expr, Window
from ..files import FileCatalog
from ..rights import Actor
from ..session_facts import UNKNOWN_SESSION, SessionFacts
from ..syntax import not_supported
from ..syntax.dialect import fold
from ..syntax.parser import generate, place
from .clauses.grouping_sets import GroupBy
from .scope import CommonTable, Field, Scope


class Catalog(Protocol):
    """The methods of a store that binding needs; `model.store.Store` has them."""

    def table(self, name: str) -> Table:
        """One table; raises `UnknownTable` if there is none."""

    def tables(self) -> Sequence[Table]:
        """All tables."""

    def view(self, name: str) -> View | None:
        """One view; None if there is none of that name."""

    def views(self) -> Sequence[View]:
        """All views."""

    @property
    def access(self) -> Access:
        """Users and grants."""

    def namespaces(self) -> Sequence[Namespace]:
        """All schemas, the default one included."""

    def now(self) -> Timestamp:
        """The current hybrid time, later than all writes so far."""


Handler = Callable[[Any, "Frame"], Expr]


@dataclass(slots=True)
class Context:
    """The binding of one statement. `bind_query` and `handlers` resolve the mutual recursion between expressions and
    the queries inside them without circular imports."""

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
    """Columns of files whose type nyala does not have, by number: the error to raise if one is read."""
    views: dict[str, CommonTable] = field(default_factory=dict)
    """The views that the statement uses, bound once each."""
    view_uses: Counter[str] = field(default_factory=Counter)
    """The number of uses of each view in the statement, as far as it is known."""
    within: tuple[str, ...] = ()
    """The views whose text is being bound, the outermost first."""
    stars: dict[int, list[Field]] = field(default_factory=dict)
    """The expansion of each `*` of a select list, by the `id` of its syntax node."""
    deferred_now: DeferredParameter | None = None
    """The parameter for `now()` in a bound statement that is kept for later executions."""
    momentary: list[str] = field(default_factory=list)
    """Inputs of the bound statement that hold for this execution only: its time, the contents of files."""
    session: SessionFacts = UNKNOWN_SESSION
    path: tuple[str, ...] | None = None
    """The schemas of `names.search_path`, once they are known."""
    schemas_of_nodes: dict[int, str] = field(default_factory=dict)
    """The schema of each table or view in FROM that was found outside the default one, by the `id` of its node."""
    names_of_nodes: dict[int, str] | None = None
    """The name in the store of each table or view in FROM, by the `id` of its node, if they are recorded."""
    settings: list[SetSetting] = field(default_factory=list)
    """The settings that calls of `set_config` set when the statement starts."""
    objects: Any = None
    """The `system.objects.Objects` that the system catalogs describe, once the statement has read one."""
    locking: Any = None
    """The SELECT whose lock clauses are allowed: the statement itself."""
    view_actor: Actor | None = None
    """The owner of the view whose text is being bound, in a statement with an actor."""
    checks_rights: bool = True
    """False while a view is bound for its columns alone."""
    written: Any = None
    """The syntax of the table that UPDATE or DELETE changes: its name alone reads nothing of it."""
    _now: Timestamp | None = None

    @property
    def actor(self) -> Actor | None:
        """The role whose rights are checked; None: the statement has all rights."""
        if not self.checks_rights:
            return None
        if self.view_actor is not None:
            return self.view_actor
        found: Actor | None = self.session.actor(self.catalog)
        return found

    @property
    def owner(self) -> str:
        """The owner of what the statement creates, as tables and views have it."""
        actor = self.actor
        return "" if actor is None else actor.owner

    def require(self, object_: Table | View, *rights: Right) -> None:
        """Raises `PermissionDenied` unless the statement has these rights on a table or view."""
        actor = self.actor
        if actor is not None:
            self.require_use(object_.namespace)
            for right in rights:
                actor.require(right, object_)

    def may_use(self, schema: str) -> bool:
        """True if the statement may reach objects of a schema. Each session may use that of its temporary objects,
        which have owners as others have: what it made as one role is not another's."""
        actor = self.actor
        if actor is None or schema == TEMPORARY_NAMESPACE:
            return True
        return actor.allows(Right.USAGE, self.secured_schema(schema))

    def require_use(self, schema: str) -> None:
        """Raises `PermissionDenied` unless `may_use` the schema."""
        if not self.may_use(schema) and self.actor is not None:
            raise self.actor.denied(Right.USAGE, self.secured_schema(schema))

    def require_create(self, schema: str = DEFAULT_NAMESPACE) -> None:
        """Raises `PermissionDenied` unless the statement may create objects in the schema; anyone may create temporary
        ones."""
        actor = self.actor
        if actor is not None and schema != TEMPORARY_NAMESPACE:
            actor.require_in_schema(Right.CREATE, self.secured_schema(schema))

    def secured_schema(self, name: str) -> Secured:
        """A schema as an object with grants."""
        owners = {namespace.name: namespace.owner for namespace in self.catalog.namespaces()}
        return secured_schema(name, owners.get(name, ""))

    def require_owner(self, object_: Table | View | Secured, what: str) -> None:
        """Raises `PermissionDenied` unless the statement's role owns an object."""
        actor = self.actor
        if actor is not None:
            actor.require_owner(object_, what)

    def require_superuser(self, what: str) -> None:
        """Raises `PermissionDenied` unless the statement's role is a superuser."""
        actor = self.actor
        if actor is not None:
            actor.require_superuser(what)

    def secured_objects(self) -> dict[str, Secured]:
        """All objects that have an owner and grants, by their keys in grants; temporary ones have no grants."""
        stored: list[Table | View] = [*self.catalog.tables(), *self.catalog.views()]
        found = [secured(each) for each in stored if each.namespace != TEMPORARY_NAMESPACE]
        schemas = [each for each in self.catalog.namespaces() if each.name != TEMPORARY_NAMESPACE]
        found += [secured_schema(namespace.name, namespace.owner) for namespace in schemas]
        return {each.key: each for each in found}

    def column(self, name: str, type_: DataType, nullable: bool) -> Column:
        """A column with a new number."""
        return Column(type_, nullable, next(self.numbers), name)

    def now(self) -> Timestamp:
        """The time of the statement: the same at every call."""
        self.momentary.append("time")
        return self.fixed_now()

    def fixed_now(self) -> Timestamp:
        """`now`, for a copy of the context that is to have the same time, whether it needs it or not."""
        if self._now is None:
            self._now = self.catalog.now()
        return self._now

    def set_now(self, now: Timestamp | None) -> None:
        """Sets the time of the statement."""
        self._now = now

    def located(self, error: StatementError, node: Any) -> StatementError:
        """The error with its position, unless it has one."""
        if error.position is not None:
            return error
        start, width = _nearest(node)
        return type(error)(error.message, self.text, start, width)

    def at(self, node: Any) -> _Place:
        """`with context.at(node):` adds the node's position to errors that leave the block."""
        return _Place(self, node)

    def drawn(self, error: Any, node: Any) -> Any:
        """The same error with the line and a caret in its message, for classes without a position.

        Its `drawn_position` is the 0-based offset in the text.
        """
        if "\nLINE " in str(error):
            return error
        start, width = _nearest(node)
        drawn = type(error)(str(StatementError(str(error), self.text, start, width)))
        drawn.drawn_position = start
        return drawn


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
                # The traceback refers to this frame: error and frame would form a cycle that keeps the cursor alive.
                del located


def _nearest(node: Any) -> tuple[int | None, int]:
    """The position of the closest surrounding node that has one."""
    while node is not None:
        start, width = place(node)
        if start is not None:
            return start, width
        node = getattr(node, "parent", None)
    return None, 1


@dataclass(slots=True)
class Aggregates:
    """The aggregate calls of one SELECT, without duplicates, and its GROUP BY.

    If no group is empty (`grouped`), an aggregate of values that are never NULL is never NULL either.
    """

    grouped: bool
    group_by: GroupBy | None = None
    found: dict[Aggregate, Column] = field(default_factory=dict)

    def column(self, call: Aggregate, context: Context) -> Column:
        """The column that represents the call above the aggregation."""
        if call not in self.found:
            self.found[call] = context.column(call.function, call.type, call.nullable)
        return self.found[call]

    def averaged_as(self, column: Column, type_: DataType, context: Context) -> Column:
        """The column for an average under a cast: computed in that type if it has more integer digits."""
        call = next((call for call, known in self.found.items() if known is column), None)
        if call is None or call.function != "avg" or not has_more_room(type_, call.type):
            return column
        if (type_.scale or 0) < (call.args[0].type.scale or 0):
            return column  # the sum has digits that the cast would cut off first
        return self.column(replace(call, type=type_), context)


@dataclass(slots=True)
class Windows:
    """The window calls of one SELECT without duplicates, each with one of its syntax nodes.

    Also the windows of its WINDOW clause: syntax nodes by name, and their bound form from `expressions.windows`.
    """

    definitions: Mapping[str, Any] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    found: dict[Window, tuple[Column, Any]] = field(default_factory=dict)

    def column(self, call: Window, node: Any, context: Context) -> Column:
        """The column that represents the call in the expressions around it."""
        if call not in self.found:
            self.found[call] = context.column(call.function, call.type, call.nullable), node
        return self.found[call][0]


@dataclass(frozen=True, slots=True)
class Frame:
    """The context of an expression: its scope, its clause (for messages), and whether aggregates are allowed.

    `aggregates` is None if they are not; `within` names the aggregate function whose argument this is. `windows` is
    None if window calls are not allowed. `grouped_queries` are the subqueries in GROUP BY of this SELECT, by their
    syntax: an equal one above the aggregation means the same, although each binding has columns of its own.
    """

    context: Context
    scope: Scope
    clause: str
    aggregates: Aggregates | None = None
    within: str | None = None
    windows: Windows | None = None
    grouped_queries: dict[Any, Query] | None = None

    def bind(self, node: Any) -> Expr:
        """The bound expression of a syntax node; errors have the position of the innermost node concerned."""
        handler = self.context.handlers.get(type(node))
        with self.context.at(node):
            if handler is None:
                raise unsupported(node)
            bound = handler(node, self)
        if isinstance(bound, Column):
            self.context.mentions.setdefault(bound.id, []).append(node)
        return bound

    def bind_all(self, nodes: Sequence[Any]) -> tuple[Expr, ...]:
        """The bound expressions of several syntax nodes."""
        return tuple(self.bind(node) for node in nodes)

    def bind_query(self, node: Any) -> Query:
        """A subquery inside the expression; an aggregate in it that reads only this query's columns belongs to this
        query."""
        return self.context.bind_query(node, replace(self.scope, holder=self), self.context)

    def inside(self, aggregate: str) -> Frame:
        """The frame of an aggregate's arguments."""
        return replace(self, aggregates=None, within=aggregate, windows=None)


_INSTEAD = {
    exp.Lock: "it ends a statement that is one SELECT from tables",
    exp.Pivot: not_supported.PIVOTS,
    exp.TableSample: "ORDER BY random() LIMIT n takes some rows",
    exp.DML: "a statement that writes stands alone, with RETURNING where its rows are wanted",
}
"""Alternatives to syntax that is rejected as a whole."""


def unsupported(node: Any) -> NotSupportedError:
    """The error for syntax that sqlglot parses and nyala does not support."""
    try:
        text = generate(node)
    except Exception:  # a malformed tree cannot be printed; its kind must suffice
        text = type(node).__name__
    shown = (text if len(text) <= 60 else text[:57] + "...") or type(node).__name__.upper()
    hint = next((hint for kind, hint in _INSTEAD.items() if isinstance(node, kind)), "")
    return NotSupportedError(f"{shown} is not supported{hint and '; '}{hint}")


def only(node: Any, *allowed: str) -> None:
    """Rejects a syntax node with any part besides those named: nothing is silently ignored."""
    for name, value in node.args.items():
        if value and name not in allowed:
            part = value[0] if isinstance(value, list) else value
            if isinstance(part, exp.Expression):
                raise unsupported(part)
            raise NotSupportedError(f"{name.rstrip('_').replace('_', ' ').upper()} is not supported here")


def name_of(node: Any) -> str:
    """The folded name of an identifier node."""
    return fold(node) if isinstance(node, exp.Identifier) else str(node.name).lower()
