"""Binds views: their definition, their use in FROM, and their dependencies.

A view is stored as text: its query as `parser.generate` writes it, with every `*` of a select list expanded, and with
the schema of each table that is not in the default one. Columns that are added to a table later therefore do not appear
in the view, and the search path of its readers does not matter. The text is bound again in each statement that uses the
view, in its own scope: no name of the statement is visible inside.

Tables and views that a view depends on cannot be dropped or renamed: `dependents` and `check_views` bind the views on
the catalog as the statement would leave it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from sqlglot import exp

from ....errors import Error, InvalidTableDefinition, StatementError, UnknownTable
from ....model.access.roles import Access
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, Namespace
from ....model.schema import Table, View
from ....model.store import Timestamp
from ...bound import Query
from ...bound_catalog import CreateView, DescribeView, DropView
from ...deep_stack import require
from ...syntax.parser import ParsedStatement, generate, parse
from ...syntax.written_names import did_you_mean
from ..context import Catalog, Context, name_of
from ..names import droppable_name, new_name, refuse_taken, table_name
from ..scope import CommonTable, Field, Scope
from ..tables.show_create import name_text

TREES = 256
"""Number of view texts whose parsed trees are cached."""
MOST_WITHIN = 10
"""Depth of views that use each other from which binding moves to a deep stack."""


# ---- use -------------------------------------------------------------------------------------------------------------


def view_source(view: View, node: Any, context: Context) -> CommonTable:
    """A view for FROM, bound at its first use in the statement; `node` is the use.

    Raises errors inside it with its name, and `StatementError` if it depends on itself.
    """
    if view.name in context.within:
        path = " uses ".join([*context.within[context.within.index(view.name) :], view.name])
        raise StatementError(f"view {view.name} needs itself: {path}")
    if not context.view_uses:
        _count_uses(node.root(), context)
    source = context.views.get(view.name)
    if source is None:
        query = bind_view_text(view, context)
        source = CommonTable(query, view.columns, context.view_uses[view.name] > 1)
        context.views[view.name] = source
    return source


def bind_view_text(view: View, context: Context, names: dict[int, str] | None = None) -> Query:
    """Binds the query of a view; `names` gets the tables and views that its text names, by the `id` of their nodes in
    `parsed_text`. Raises errors with the view's name."""
    context.fixed_now()  # so that it is the same inside the view
    if parsed_text(view.text).deep or len(context.within) > MOST_WITHIN:
        require()
    actor, within = context.actor, (*context.within, view.name)
    inner = replace(
        context,
        text=view.text,
        parameters={},
        stars={},
        within=within,
        view_actor=None if actor is None else actor.as_owner(view),
        path=(DEFAULT_NAMESPACE,),
        schemas_of_nodes={},
        names_of_nodes=names,
    )
    try:
        query = context.bind_query(parsed_text(view.text).tree, Scope(), inner)
    except StatementError as error:
        raise type(error)(f"in view {view.name}: {error.message}") from error
    except Error as error:
        raise type(error)(f"in view {view.name}: {error}") from error
    if len(query.columns) != len(view.columns):
        raise InvalidTableDefinition(
            f"view {view.name} has {len(view.columns)} columns and its query now returns {len(query.columns)}; "
            "CREATE OR REPLACE it"
        )
    return query


@lru_cache(TREES)
def parsed_text(text: str) -> ParsedStatement:
    """The parsed text of a view, which is the same object for some time."""
    (parsed,) = parse(text)
    return parsed


def _count_uses(tree: Any, context: Context) -> None:
    """Counts the uses of each view in the statement and in the views that it uses, the latter counted once each.

    Counted by name in the text: a CTE of the same name may be counted too, which costs only a wrong hint.
    """
    waiting, seen = [tree], set()
    while waiting:
        for name in _named(waiting.pop(), context):
            view = context.catalog.view(name)
            if view is not None:
                context.view_uses[name] += 1
                if name not in seen:
                    seen.add(name)
                    waiting.append(parsed_text(view.text).tree)
        # Of the texts of views, whose names another role looks up.
        context = replace(context, path=(DEFAULT_NAMESPACE,), checks_rights=False)


def _named(tree: Any, context: Context) -> Iterator[str]:
    """The names in the store of all tables in a tree, as far as they can be known."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            with suppress(Error):
                yield table_name(table, context)


# ---- statements ------------------------------------------------------------------------------------------------------


def bind_create_view(node: Any, context: Context) -> CreateView:
    """Binds CREATE VIEW: normalises its query, and binds it once as a later use would."""
    with context.at(node.this):
        namespace, name = new_name(node.this, context, bool(node.args.get("temporary")))
        before = context.catalog.view(name) if node.args.get("replace") else None
        if before is not None:
            context.require_owner(before, "CREATE OR REPLACE VIEW")
        elif namespace != TEMPORARY_NAMESPACE:
            context.require_create(namespace)
    owner = context.owner if before is None else before.owner
    source, replaces, exists = node.args["query"], bool(node.args.get("replace")), bool(node.args.get("exists"))
    for parameter in source.find_all(exp.Placeholder, exp.Parameter):
        with context.at(parameter):
            raise InvalidTableDefinition("a view cannot have parameters: its uses bind no values")
    inner = replace(context, within=(name,)) if replaces else context
    query = context.bind_query(source, Scope(), inner)
    if namespace != TEMPORARY_NAMESPACE and TEMPORARY_NAMESPACE in context.schemas_of_nodes.values():
        # As in PostgreSQL: it could not outlive what it reads.
        with context.at(node.this):
            namespace, name = new_name(node.this, context, temporary=True)
            owner = context.owner
            if replaces and (there := context.catalog.view(name)) is not None:
                context.require_owner(there, "CREATE OR REPLACE VIEW")
                owner = there.owner
    columns = _column_names(node, query, context)
    view = View(name, _text_of(source, context), columns, owner=owner, namespace=namespace)
    with context.at(node.this):
        if not exists:
            refuse_taken(name, context.catalog, "table" if replaces else None)
    with context.at(source):
        describe_view(view, context)
        if replaces:
            check_views(ChangedCatalog(context.catalog, new_views={name: view}), {name}, context)
    return CreateView(view, replaces, exists)


def _column_names(node: Any, query: Query, context: Context) -> tuple[str, ...]:
    given = [name_of(column) for column in node.expressions]
    names = (*given, *(column.name for column in query.columns[len(given) :]))
    for place, name in enumerate(names):
        with context.at(node.expressions[place] if place < len(given) else node.args["query"]):
            if place >= len(query.columns):
                has = f"{len(query.columns)} column{'s' if len(query.columns) > 1 else ''}"
                raise InvalidTableDefinition(f"{len(given)} names for a query of {has}")
            if name in names[:place]:
                raise InvalidTableDefinition(f"a view cannot have two columns {name}; name one of them differently, AS")
    return names


def _text_of(source: Any, context: Context) -> str:
    """The text of the query with each `*` of a select list replaced by the columns that it expands to, with the schema
    of each table that was found outside the default one, and without the database, whose name each client chooses."""
    tree = source.copy()
    for original, node in zip(list(source.walk()), list(tree.walk()), strict=True):
        if (schema := context.schemas_of_nodes.get(id(original))) is not None:
            node.set("db", identifier(schema))
        if isinstance(node, exp.Table | exp.Column):
            node.set("catalog", None)
        fields = context.stars.get(id(original))
        if fields is not None:
            items = node.parent.expressions
            place = next(i for i, item in enumerate(items) if item is node)
            node.parent.set("expressions", [*items[:place], *map(_column, fields), *items[place + 1 :]])
    return generate(tree)


def _column(field: Field) -> exp.Column:
    table = identifier(field.relation) if field.relation else None
    return exp.Column(this=identifier(field.name), table=table)


def identifier(name: str) -> exp.Identifier:
    """A name as an identifier, in quotes if necessary."""
    return exp.Identifier(this=name, quoted=name_text(name) != name)


def bind_drop_view(node: Any, context: Context) -> DropView:
    """Binds DROP VIEW; with CASCADE, dependent views are dropped too, otherwise they are an error."""
    with context.at(node.this):
        exists = bool(node.args.get("exists"))
        name = droppable_name(node.this, exists, context)
        if name is None:
            return DropView("", exists)
        view = existing_view(name, exists, "DROP TABLE drops it", context)
        if view is not None:
            context.require_owner(view, "DROP VIEW")
        return DropView(name, exists, dependents(f"view {name}", name, bool(node.args.get("cascade")), context))


def existing_view(name: str, exists: bool, hint: str, context: Context) -> View | None:
    """The view of a name, for a statement that changes it; None for IF EXISTS if there is none. Raises `StatementError`
    with a hint for a table, `UnknownTable` if there is neither."""
    view = context.catalog.view(name)
    if view is None and any(table.name == name for table in context.catalog.tables()):
        raise StatementError(f"{name} is a table, not a view; {hint}")
    if view is None and not exists:
        known = [view.name for view in context.catalog.views()]
        raise UnknownTable(f"view {name} does not exist{did_you_mean(name, known)}")
    return view


def find_view(node: Any, context: Context) -> View | None:
    """The view that a name refers to; None if it is not a view."""
    with context.at(node):
        return context.catalog.view(table_name(node, context))


def describe_view(view: View, context: Context) -> DescribeView:
    """A view with its current columns."""
    catalog = ChangedCatalog(context.catalog, new_views={view.name: view})
    query = bind_view_text(view, fresh_context(context, catalog))
    columns = zip(view.columns, query.columns, strict=True)
    return DescribeView(view, tuple(replace(column, name=name) for name, column in columns))


# ---- what depends on what --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ChangedCatalog:
    """The catalog as a statement would leave it: without the names of `gone`, with new tables and views.

    It records the names that were looked up in `asked`.
    """

    base: Catalog
    gone: Collection[str] = ()
    new_tables: Mapping[str, Table] = field(default_factory=dict)
    new_views: Mapping[str, View] = field(default_factory=dict)
    namespace: tuple[str, Namespace] | None = None
    """The name of a schema that is replaced by another one."""
    asked: set[str] = field(default_factory=set)

    def table(self, name: str) -> Table:
        """One table; raises `UnknownTable` if there is none."""
        self.asked.add(name)
        if name in self.new_tables:
            return self.new_tables[name]
        if name in self.gone:
            raise UnknownTable(f"table {name} does not exist")
        return self.base.table(name)

    def tables(self) -> Sequence[Table]:
        """All tables."""
        kept = [t for t in self.base.tables() if t.name not in self.gone and t.name not in self.new_tables]
        return sorted([*kept, *self.new_tables.values()], key=lambda table: table.name)

    def view(self, name: str) -> View | None:
        """One view; None if there is none of that name."""
        self.asked.add(name)
        return self.new_views.get(name) or (None if name in self.gone else self.base.view(name))

    def views(self) -> Sequence[View]:
        """All views."""
        kept = [v for v in self.base.views() if v.name not in self.gone and v.name not in self.new_views]
        return sorted([*kept, *self.new_views.values()], key=lambda view: view.name)

    @property
    def access(self) -> Access:
        """Users and grants."""
        return self.base.access

    def namespaces(self) -> Sequence[Namespace]:
        """All schemas."""
        found = self.base.namespaces()
        if self.namespace is None:
            return found
        before, after = self.namespace
        return [after if each.name == before else each for each in found]

    def now(self) -> Timestamp:
        """The time."""
        return self.base.now()


def fresh_context(context: Context, catalog: Catalog) -> Context:
    """A context for binding views on another catalog, independent of the statement's own."""
    return replace(context, catalog=catalog, views={}, view_uses=Counter(), mentions={}, stars={}, checks_rights=False)


def _needs(view: View, context: Context) -> set[str]:
    """The names of the tables and views that a view depends on, also indirectly; for an invalid view, the names in its
    text."""
    catalog = ChangedCatalog(context.catalog)
    try:
        bind_view_text(view, fresh_context(context, catalog))
    except Error:
        inner = replace(context, path=(DEFAULT_NAMESPACE,), checks_rights=False)
        catalog.asked.update(_named(parsed_text(view.text).tree, inner))
    return catalog.asked


def dependents(what: str, name: str, cascade: bool, context: Context) -> tuple[str, ...]:
    """The views that depend on a table or view; raises `StatementError` if there are some and `cascade` is False."""
    dependent_views = [v.name for v in context.catalog.views() if v.name != name and name in _needs(v, context)]
    if dependent_views and not cascade:
        kind, them = ("view", "it") if len(dependent_views) == 1 else ("views", "them")
        raise StatementError(
            f"{what} is needed by {kind} {', '.join(dependent_views)}; DROP ... CASCADE drops {them} too"
        )
    return tuple(dependent_views)


def check_views(
    catalog: ChangedCatalog, names: Collection[str], context: Context, rewritten: Collection[str] = ()
) -> None:
    """Raises `StatementError` if a valid view that depends on one of the names would become invalid on the changed
    catalog. Its new views are taken to be valid, but for those that are `rewritten`."""
    for view in context.catalog.views():
        if view.name in catalog.new_views and view.name not in rewritten:
            continue
        before = ChangedCatalog(context.catalog)
        try:
            bind_view_text(view, fresh_context(context, before))
        except Error:
            continue
        if before.asked.isdisjoint(names):
            continue
        check_rewritten([catalog.new_views.get(view.name, view)], catalog, context)


def check_rewritten(views: Iterable[View], catalog: ChangedCatalog, context: Context) -> None:
    """Raises `StatementError` if one of the views is invalid on the changed catalog."""
    for view in views:
        try:
            bind_view_text(view, fresh_context(context, catalog))
        except StatementError as error:
            message = error.message.removeprefix(f"in view {view.name}: ")
            raise StatementError(f"view {view.name} would become invalid: {message}") from error
