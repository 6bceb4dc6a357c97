"""Small tables for showing rules in docstrings and tests: `t(k, a)`, `u(b, c)`, `v(d, e)`, keys first.

`t.k`, `u.b` and `v.d` are primary keys. t has a million rows, u a hundred thousand, v a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ..errors import UnknownTable
from ..model.access.roles import Access
from ..model.lazy_dataclass import dataclass
from ..model.namespaces import DEFAULT_NAMESPACE, Namespace
from ..model.schema import ColumnSchema, PartitionSchema, Schema, Table, View, assign_column_ids
from ..model.store import ColumnStatistics, TableStatistics, Timestamp
from ..model.types import INT, STRING, DataType
from ..sql import bind, parse
from ..sql.bound import Query, SelectStatement
from .explaining.plan_text import draw_logical
from .plan import plan_query
from .query_plan import Plan, PlannerOptions
from .rules import RULE_NAMES


@dataclass(frozen=True, slots=True)
class FixedCatalog:
    """A catalog of tables with statistics and no rows: all that binding and planning need of a store."""

    by_name: Mapping[str, Table]
    known: Mapping[str, TableStatistics] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """Return one table; raises `UnknownTable` if there is none."""
        if name not in self.by_name:
            raise UnknownTable(f"table {name} does not exist")
        return self.by_name[name]

    def tables(self) -> Sequence[Table]:
        """Return all tables by name, ascending."""
        return [self.by_name[name] for name in sorted(self.by_name)]

    def views(self) -> Sequence[View]:
        """Return no views."""
        return ()

    def view(self, name: str) -> View | None:
        """Return None: there are no views."""
        return None

    @property
    def access(self) -> Access:
        """Return that of a store without users."""
        return Access()

    def namespaces(self) -> Sequence[Namespace]:
        """Return the default schema."""
        return (Namespace(DEFAULT_NAMESPACE),)

    def now(self) -> Timestamp:
        """Return the least timestamp: nothing has been written."""
        return Timestamp(0)

    def statistics(self, table: Table) -> TableStatistics:
        """Return the statistics that were passed for the table."""
        return self.known.get(table.name, TableStatistics())


def make_table(name: str, columns: Sequence[tuple[str, DataType, bool]], key_columns: int = 1) -> Table:
    """Make a table of columns (name, type, nullable)."""
    schemas = assign_column_ids(ColumnSchema(column, type_, nullable) for column, type_, nullable in columns)
    return Table(f"id-{name}", name, Schema(schemas, key_columns), PartitionSchema())


def _small_catalog() -> FixedCatalog:
    layout = {"t": (("k", "a"), 1_000_000), "u": (("b", "c"), 100_000), "v": (("d", "e"), 1_000)}
    tables: dict[str, Table] = {}
    known: dict[str, TableStatistics] = {}
    for name, (columns, rows) in layout.items():
        tables[name] = make_table(name, [(column, INT, i > 0) for i, column in enumerate(columns)])
        distinct = [rows, rows // 10]
        known[name] = TableStatistics(
            rows, {c: ColumnStatistics(0, d - 1, 0, float(d)) for c, d in zip(columns, distinct, strict=True)}
        )
    return FixedCatalog(tables, known)


SMALL = _small_catalog()


WIDE = FixedCatalog(
    {"w": make_table("w", [("k", INT, False), ("a", INT, True), ("s", STRING, True)])},
    {"w": TableStatistics(1_000_000, {})},
)
"""A catalog of one table with a text column: `w(k, a, s)`, of a million rows, `w.k` its primary key."""


def bound_query(text: str, catalog: FixedCatalog = SMALL) -> Query:
    """Bind a SELECT."""
    statement = bind(parse(text)[0], catalog)
    assert isinstance(statement, SelectStatement), f"{text!r} is not a query"
    return statement.query


def plan_text(
    text: str,
    catalog: FixedCatalog = SMALL,
    without: Iterable[str] = (),
    trace: bool = False,
    merge_joins: str = "auto",
) -> Plan:
    """Plan a SELECT, its invariants checked after every rule."""
    options = PlannerOptions(frozenset(without), trace=trace, check=True, merge_joins=merge_joins)
    return plan_query(bound_query(text, catalog), catalog, options)


def show(text: str, rules: Iterable[str], catalog: FixedCatalog = SMALL) -> str:
    """Draw the logical plan of a SELECT after only these rules (and the mandatory ones)."""
    return draw_logical(plan_text(text, catalog, without=frozenset(RULE_NAMES) - frozenset(rules)).logical)
