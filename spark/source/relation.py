"""What a relation reads, planned by nyala: a scan of one table that the tablets can do by themselves, or a query.

    dbtable, columns, where, query ─► one SELECT ─ bind, plan_query ─► Project, Filter ─ TableScan ─► Relation.scan
                                                                       anything else ─────────────► none: a query

So `where` and `query` mean exactly what they mean in nyala. Of a scan, conditions that compare columns with constants
go down as predicates, which leave out tablets and pages; the rest, and projections, run as a fragment beside the rows.
What is no scan (joins, aggregates, LIMIT, functions that give another value at every call) is run by nyala as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...driver.connection import Connection
from ...errors import InterfaceError, ProgrammingError, UnknownColumn, did_you_mean
from ...executor.fragments.fragment import Fragment, Step, encoded, scan_and_steps
from ...model.predicates import ColumnPredicate
from ...model.schema import Table
from ...model.store import ChangeRange, Timestamp
from ...planner import plan_query
from ...planner.algebra.physical import PhysicalNode, TableScan
from ...sql import bound
from ...sql.binding.tables.show_create import quoted_name
from ...sql.expressions import Column
from ..types import NamedType
from .naming import condition, from_query, is_query, table_name
from .options import Given


@dataclass(frozen=True, slots=True)
class TabletScan:
    """What each tablet gives.

    `names` are the columns that are fetched, `fragment` is what is done with them beside the rows, where that is
    something. `until` is the time of FOR SYSTEM_TIME, None the relation's own; with `changes` it is a diff scan.
    """

    table: Table
    names: tuple[str, ...]
    predicates: tuple[ColumnPredicate, ...] = ()
    fragment: bytes = b""
    until: Timestamp | None = None
    changes: ChangeRange | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    """Of the columns that come out as the table has them, what the table calls them."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A bound and planned SELECT: its text, its columns, and the scan that it comes to, if it does."""

    text: str
    columns: tuple[NamedType, ...]
    scan: TabletScan | None

    def narrowed(self, predicates: Sequence[ColumnPredicate]) -> Relation:
        """The rows of a scan that satisfy these predicates on its table's columns as well."""
        assert self.scan is not None
        return replace(self, scan=replace(self.scan, predicates=(*self.scan.predicates, *predicates)))


def of(connection: Connection, given: Given, columns: Sequence[str] | None = None) -> Relation:
    """The relation that the options name; `columns` in place of theirs, where a user has declared a schema.

    Raises `UnknownTable`, `UnknownColumn`, `StatementError` for a condition or query that cannot be, `InterfaceError`
    where `dbtable` and `query` are both there, or neither is.
    """
    return planned(connection, select(connection, given, columns))


def select(
    connection: Connection, given: Given, columns: Sequence[str] | None = None, time: str = "", more: Sequence[str] = ()
) -> str:
    """The text of the SELECT. `time` is a FOR SYSTEM_TIME of the table, `more` is expressions behind the columns."""
    wanted = given["columns"] if columns is None else columns
    if "query" in given:
        if "dbtable" in given:
            raise InterfaceError("options dbtable and query exclude each other: give one of them")
        if time:
            raise InterfaceError("option startingTimestamp is for a dbtable; a query says FOR SYSTEM_TIME itself")
        query = given["query"].strip().rstrip(";")
        if wanted is None and "where" not in given:
            return str(query)
        source = f"({query}\n) AS query"
    else:
        if "dbtable" not in given:
            raise InterfaceError("option dbtable is missing: which table?" + _tables(connection))
        if is_query(given["dbtable"]):
            if time:
                raise InterfaceError("option startingTimestamp is for a table; a query says FOR SYSTEM_TIME itself")
            source = from_query(given["dbtable"])
        else:
            name = table_name(connection, given["dbtable"])
            source = f"{quoted_name(name)} {time}"
            wanted = _checked(connection, name, wanted)
    listed = ", ".join([*(["*"] if wanted is None else map(quoted_name, wanted)), *more])
    filtered = f" WHERE {condition(given['where'])}" if "where" in given else ""
    return f"SELECT {listed} FROM {source}{filtered}"


def _checked(connection: Connection, name: str, wanted: Sequence[str] | None) -> Sequence[str] | None:
    """The columns of a table to be read; None for all of a view."""
    store = connection.store
    if store.view(name) is not None:
        return wanted
    table = store.table(name)
    if wanted is None:
        return [column.name for column in table.schema.visible_columns]
    for column in wanted:
        if column not in table.schema:
            hint = did_you_mean(column, table.schema.names, f"table {name} has")
            raise UnknownColumn(f"column {column} does not exist in table {name}{hint}")
    return wanted


def _tables(connection: Connection) -> str:
    return did_you_mean("", [table.name for table in connection.store.tables()])


# ---- planning --------------------------------------------------------------------------------------------------------


def planned(connection: Connection, text: str) -> Relation:
    """Bind and plan a SELECT."""
    query = bound_query(connection, text)
    plan = plan_query(query, connection.store)
    return Relation(text, columns_of(query), _scan(plan.root))


def columns_of(query: bound.Query) -> tuple[NamedType, ...]:
    """What comes out of a query."""
    return tuple((column.name, column.type, column.nullable) for column in query.columns)


def bound_query(connection: Connection, text: str) -> bound.Query:
    """Bind a SELECT; `ProgrammingError` where it is something else, or two of its columns have one name."""
    session = connection.session
    parsed = session.parse(text)
    if len(parsed) > 1:
        raise ProgrammingError(f"a relation is one SELECT, and this text holds {len(parsed)} statements")
    statement = session.bind(parsed[0])
    if not isinstance(statement, bound.SelectStatement):
        raise ProgrammingError("a relation is a SELECT, and this is another statement")
    names = [column.name for column in statement.query.columns]
    for name in names:
        if names.count(name) > 1:
            raise ProgrammingError(f"two columns are called {name}; give each a name of its own: ... AS other_name")
    return statement.query


def _scan(root: PhysicalNode) -> TabletScan | None:
    """The scan that a plan comes to; None where it needs more than filters and projections of one table."""
    columns = root.columns
    found = scan_and_steps(root)
    if found is None or found[0].limit is not None:
        return None
    read, steps = found
    sources = _sources(read, steps)
    scan = TabletScan(
        read.table if read.time is None else read.time.table,
        read.names,
        read.predicates,
        sources={column.name: sources[column.id] for column in columns if column.id in sources},
    )
    if read.time is not None:
        scan = replace(scan, until=read.time.until, changes=read.time.changes)
    if read.residual is None and not any(step.is_filter for step in steps):
        # An order of columns and new names are no work for a tablet.
        names = tuple(sources.get(column.id, "") for column in columns)
        if "" not in names and len(set(names)) == len(names):
            return replace(scan, names=names)
    fragment = encoded(Fragment(read.fetched, len(read.columns), read.residual, steps))
    return None if fragment is None else replace(scan, fragment=fragment)


def _sources(node: TableScan, steps: Sequence[Step]) -> dict[int, str]:
    """The columns that come out as the table has them, by their numbers, and what the table calls them."""
    names = {column.id: name for column, name in zip(node.fetched, node.names)}
    for step in steps:
        if not step.is_filter:
            pairs = zip(step.columns, step.expressions)
            names = {c.id: names[e.id] for c, e in pairs if isinstance(e, Column) and e.id in names}
    return names
