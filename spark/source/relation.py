"""The relation that Spark reads, planned by nyala: a scan of one table that the tablets can execute alone, or a query.

    dbtable, columns, where, query ─► one SELECT ─ bind, plan_query ─► Project, Filter ─ TableScan ─► Relation.scan
                                                                       anything else ─────────────► none: a query

So `where` and `query` have exactly nyala's semantics. For a scan, conditions that compare columns with constants are
predicates, which exclude tablets and pages; the rest, and projections, run as a fragment on the tablets. Any other
query (joins, aggregates, LIMIT, volatile functions) is executed by nyala.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ...driver.connection import Connection
from ...errors import InterfaceError, ProgrammingError, UnknownColumn, did_you_mean
from ...executor.fragments.fragment import Fragment, Step, encoded, scan_and_steps
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import Table
from ...model.store import ChangeRange, Timestamp
from ...planner import plan_query
from ...planner.algebra.physical import PhysicalNode, TableScan
from ...sql import bound
from ...sql.binding.tables.show_create import quoted_name
from ...sql.expressions import Column
from ..types import NamedType
from .naming import condition, from_query, is_query, table_name, written_table
from .options import SourceOptions


@dataclass(frozen=True, slots=True)
class TabletScan:
    """The scan of each tablet.

    `names` are the columns to fetch; `fragment`, if any, is executed on them by the tablet's server. `until` is the
    time of FOR SYSTEM_TIME, None the relation's own; with `changes` it is a diff scan.
    """

    table: Table
    names: tuple[str, ...]
    predicates: tuple[ColumnPredicate, ...] = ()
    fragment: bytes = b""
    until: Timestamp | None = None
    changes: ChangeRange | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    """For output columns that are unchanged table columns, their names in the table."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A bound and planned SELECT: its text, its columns, and its scan, if a scan can execute it."""

    text: str
    columns: tuple[NamedType, ...]
    scan: TabletScan | None

    def narrowed(self, predicates: Sequence[ColumnPredicate]) -> Relation:
        """The rows of a scan that also satisfy these predicates on its table's columns."""
        assert self.scan is not None
        return replace(self, scan=replace(self.scan, predicates=(*self.scan.predicates, *predicates)))


def plan_relation(connection: Connection, given: SourceOptions, columns: Sequence[str] | None = None) -> Relation:
    """The relation for the options; `columns` replaces theirs, if a user has declared a schema.

    Raises `UnknownTable`, `UnknownColumn`, `StatementError` for an invalid condition or query, `InterfaceError` if both
    or neither of `dbtable` and `query` are given.
    """
    return planned(connection, select(connection, given, columns))


def select(
    connection: Connection,
    given: SourceOptions,
    columns: Sequence[str] | None = None,
    time: str = "",
    more: Sequence[str] = (),
) -> str:
    """The text of the SELECT. `time` is a FOR SYSTEM_TIME of the table, `more` are expressions after the columns."""
    wanted = given["columns"] if columns is None else columns
    if "query" in given:
        if "dbtable" in given:
            raise InterfaceError("options dbtable and query exclude each other: give one of them")
        if time:
            raise InterfaceError("option startingTimestamp is for a dbtable; a query can use FOR SYSTEM_TIME")
        query = given["query"].strip().rstrip(";")
        if wanted is None and "where" not in given:
            return str(query)
        source = f"({query}\n) AS query"
    else:
        if "dbtable" not in given:
            raise InterfaceError("option dbtable is missing: name the table" + _tables(connection))
        if is_query(given["dbtable"]):
            if time:
                raise InterfaceError("option startingTimestamp is for a table; a query can use FOR SYSTEM_TIME")
            source = from_query(given["dbtable"])
        else:
            name = table_name(connection, given["dbtable"])
            source = f"{written_table(connection, name)} {time}"
            wanted = _checked(connection, name, wanted)
    listed = ", ".join([*(["*"] if wanted is None else map(quoted_name, wanted)), *more])
    filtered = f" WHERE {condition(given['where'])}" if "where" in given else ""
    return f"SELECT {listed} FROM {source}{filtered}"


def _checked(connection: Connection, name: str, wanted: Sequence[str] | None) -> Sequence[str] | None:
    """The columns of a table to read; None for all of a view."""
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
    """Binds and plans a SELECT."""
    query = bound_query(connection, text)
    plan = plan_query(query, connection.store)
    return Relation(text, columns_of(query), _scan(plan.root))


def columns_of(query: bound.Query) -> tuple[NamedType, ...]:
    """The output columns of a query."""
    return tuple((column.name, column.type, column.nullable) for column in query.columns)


def bound_query(connection: Connection, text: str) -> bound.Query:
    """Binds a SELECT; raises `ProgrammingError` for any other statement, and if two of its columns have one name."""
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
            raise ProgrammingError(f"two columns are called {name}; give each a different name: ... AS other_name")
    return statement.query


def _scan(root: PhysicalNode) -> TabletScan | None:
    """The scan that executes a plan; None if it needs more than filters and projections of one table."""
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
        # Reordered and renamed columns need no work of the tablet.
        names = tuple(sources.get(column.id, "") for column in columns)
        if "" not in names and len(set(names)) == len(names):
            return replace(scan, names=names)
    fragment = encoded(Fragment(read.fetched, len(read.columns), read.residual, steps))
    return None if fragment is None else replace(scan, fragment=fragment)


def _sources(node: TableScan, steps: Sequence[Step]) -> dict[int, str]:
    """For output columns that are unchanged table columns, their names in the table, by column number."""
    names = {column.id: name for column, name in zip(node.fetched, node.names)}
    for step in steps:
        if not step.is_filter:
            pairs = zip(step.columns, step.expressions)
            names = {c.id: names[e.id] for c, e in pairs if isinstance(e, Column) and e.id in names}
    return names
