"""Every plan produces the query's result, with all rules and with each rule left out, compared by DuckDB.

A physical plan is converted back to SQL, operator by operator, and executed by DuckDB on small tables full of NULLs.
The result must be that of the original query. Runtime filters become IN conditions on the scans, so a filter that drops
a row too many is detected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import duckdb
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.store import ColumnStatistics, TableStatistics
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.algebra import physical
from nyala.planner.algebra.physical import PhysicalNode
from nyala.planner.explaining.expression_text import literal_text, predicate_text, to_sql
from nyala.planner.physical import physical_planner
from nyala.planner.rules import RULES
from nyala.planner.scans.scan_predicates import Extracted
from nyala.planner.testing import SMALL, FixedCatalog, bound_query
from nyala.sql.bound import Query
from nyala.sql.expressions import Column, Expr, OrderItem

ROWS = {
    "t": [(k, (None, 1, 2, 2, 3, 5)[k % 6]) for k in range(14)],
    "u": [(b, (None, 1, 1, 4, 2)[b % 5]) for b in range(9)],
    "v": [(d, (3, None, 1)[d % 3]) for d in range(2, 6)],
}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    for name, rows in ROWS.items():
        first, second = SMALL.by_name[name].schema.names
        connection.execute(f"CREATE TABLE {name} ({first} INT PRIMARY KEY, {second} INT)")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
    connection.execute("SET threads = 1")
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    yield connection
    connection.close()


# ---- a physical plan as SQL ------------------------------------------------------------------------------------------


class Names(Mapping[int, str]):
    """Columns are called c1, c2, ..."""

    def __getitem__(self, number: int) -> str:
        return f"c{number}"

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def get(self, number: int, default: str | None = None) -> str:  # type: ignore[override]
        return self[number]


NAMES = Names()


def text(expr: Expr) -> str:
    return f"({to_sql(expr, NAMES)})"


def select(columns: tuple[Column, ...], source: str) -> str:
    return f"SELECT {', '.join(f'c{c.id}' for c in columns) or '1 AS nothing'} FROM ({source})"


def sql(node: PhysicalNode, filters: Mapping[int, str]) -> str:
    """Return SQL equivalent to the operator; `filters` are runtime filters from above, by column number."""
    if isinstance(node, physical.TableScan):
        return scan_sql(node, filters)
    if isinstance(node, physical.ValuesScan):
        return values_sql(node)
    if isinstance(node, physical.Filter):
        return select(node.columns, f"SELECT * FROM ({sql(node.source, filters)}) WHERE {text(node.predicate)}")
    if isinstance(node, physical.Project):
        pairs = zip(node.columns, node.expressions, strict=True)
        items = ", ".join(f"{text(e)} AS c{c.id}" for c, e in pairs) or "1 AS nothing"
        return f"SELECT {items} FROM ({sql(node.source, filters)})"
    if isinstance(node, physical.HashJoin):
        return hash_join_sql(node, filters)
    if isinstance(node, physical.NestedLoopJoin):
        on = "TRUE" if node.condition is None else text(node.condition)
        return select(node.columns, join_sql(node.kind, sql(node.left, filters), sql(node.right, filters), on))
    if isinstance(node, physical.HashAggregate):
        return aggregate_sql(node, filters)
    if isinstance(node, physical.Sort | physical.Limit):
        return sort_sql(node)
    if isinstance(node, physical.TopRows):
        return top_rows_sql(node, filters)
    if isinstance(node, physical.UnionAll):
        return " UNION ALL ".join(f"({renamed(s, node.columns)})" for s in node.sources)
    if isinstance(node, physical.SetDifference):
        sides = [renamed(side, node.columns) for side in (node.left, node.right)]
        return f"({sides[0]}) {node.kind}{' ALL' if node.all else ''} ({sides[1]})"
    if isinstance(node, physical.SingleRow):
        return select(node.columns, f"SELECT * FROM (SELECT 1 AS one) LEFT JOIN ({sql(node.source, {})}) ON TRUE")
    assert isinstance(node, physical.Shared)
    return renamed(node.source, node.columns)


def renamed(node: PhysicalNode, columns: tuple[Column, ...]) -> str:
    pairs = zip(node.columns, columns, strict=True)
    items = ", ".join(f"c{inner.id} AS c{own.id}" for inner, own in pairs) or "1 AS nothing"
    return f"SELECT {items} FROM ({sql(node, {})})"


def scan_sql(node: physical.TableScan, filters: Mapping[int, str]) -> str:
    schema = node.table.schema
    where = [predicate_text(p, schema.column(p.column).type) for p in node.predicates]
    items = ", ".join(f"{name} AS c{c.id}" for c, name in zip(node.fetched, node.names, strict=True)) or "1 AS nothing"
    source = f"SELECT {items} FROM {node.table.name} WHERE {' AND '.join(where) or 'TRUE'}"
    late = [f"c{c.id} IN ({filters[c.id]})" for c in node.fetched if c.id in filters]
    late += [text(node.residual)] if node.residual is not None else []
    source = f"SELECT * FROM ({source}) WHERE {' AND '.join(late) or 'TRUE'}"
    if node.ordered:
        # These tables have one tablet, and the queries order by the columns of the key.
        assert node.limit is not None and not filters
        numbers = {name: c.id for c, name in zip(node.fetched, node.names, strict=True)}
        skipped = "" if node.offset is None else f" + {text(node.offset)}"
        source += f" ORDER BY {', '.join(f'c{numbers[c.name]}' for c in schema.key)} LIMIT {text(node.limit)}{skipped}"
    return select(node.columns, source)


def values_sql(node: physical.ValuesScan) -> str:
    rows = [
        "SELECT "
        + (", ".join(f"{text(e)} AS c{c.id}" for c, e in zip(node.columns, row, strict=True)) or "1 AS nothing")
        for row in node.rows
    ]
    nothing = ", ".join(f"NULL AS c{c.id}" for c in node.columns) or "1 AS nothing"
    return " UNION ALL ".join(rows) or f"SELECT {nothing} WHERE FALSE"


def hash_join_sql(node: physical.HashJoin, filters: Mapping[int, str]) -> str:
    build = sql(node.build, {})
    below = dict(filters)
    for offered in node.runtime_filters:
        below[offered.column] = f"SELECT {text(node.build_keys[offered.key])} FROM ({build})"
    probe = sql(node.probe, below)
    pairs = zip(node.probe_keys, node.build_keys, strict=True)
    on = " AND ".join(f"{text(a)} = {text(b)}" for a, b in pairs)
    on += "" if node.residual is None else f" AND {text(node.residual)}"
    kind = node.kind
    if kind in ("right", "right_semi", "right_anti"):
        probe, build, kind = build, probe, {"right": "left"}.get(kind, kind[6:])
    return select(node.columns, join_sql(kind, probe, build, on))


def join_sql(kind: str, left: str, right: str, on: str) -> str:
    if kind in ("semi", "anti"):
        return f"SELECT * FROM ({left}) WHERE {'NOT ' * (kind == 'anti')}EXISTS (SELECT 1 FROM ({right}) WHERE {on})"
    if kind == "null_anti":
        return f"SELECT * FROM ({left}) WHERE NOT EXISTS (SELECT 1 FROM ({right}) WHERE ({on}) IS NOT FALSE)"
    word = {"inner": "JOIN", "cross": "JOIN", "left": "LEFT JOIN", "single": "LEFT JOIN", "full": "FULL JOIN"}[kind]
    return f"SELECT * FROM ({left}) {word} ({right}) ON {on}"


def aggregate_sql(node: physical.HashAggregate, filters: Mapping[int, str]) -> str:
    exprs = [*node.groups, *node.aggregates]
    items = ", ".join(f"{text(e)} AS c{c.id}" for c, e in zip(node.columns, exprs, strict=True))
    source = sql(node.source, filters if node.groups else {})
    if not node.groups:
        return f"SELECT {items or 'count(*) AS nothing'} FROM ({source})"
    return f"SELECT {items} FROM ({source}) GROUP BY {', '.join(text(g) for g in node.groups)}"


def top_rows_sql(node: physical.TopRows, filters: Mapping[int, str]) -> str:
    by = f"PARTITION BY {', '.join(text(column) for column in node.groups)} " if node.groups else ""
    order = f"ORDER BY {order_sql(node.order)}" if node.order else ""
    skipped = "0" if node.offset is None else text(node.offset)
    kept = "TRUE" if node.limit is None else f"place <= {text(node.limit)} + {skipped}"
    source = f"SELECT *, row_number() OVER ({by}{order}) AS place FROM ({sql(node.source, filters)})"
    return select(node.columns, f"SELECT * FROM ({source}) WHERE place > {skipped} AND {kept}")


def order_sql(order: tuple[OrderItem, ...]) -> str:
    return ", ".join(
        f"{text(o.expr)} {'DESC' if o.descending else 'ASC'} NULLS {'FIRST' if o.nulls_first else 'LAST'}"
        for o in order
    )


def sort_sql(node: physical.Sort | physical.Limit) -> str:
    source = sql(node.source, {})
    limit = "" if node.limit is None else f" LIMIT {text(node.limit)}"
    limit += "" if node.offset is None else f" OFFSET {text(node.offset)}"
    if isinstance(node, physical.Limit):
        return f"SELECT * FROM ({source}){limit}"
    return f"SELECT * FROM ({source}) ORDER BY {order_sql(node.order)}{limit}"


# ---- the queries -----------------------------------------------------------------------------------------------------

QUERIES = """
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.a)
SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = t.a)
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.a AND u.b <> t.k)
SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c < t.a AND u.b > 3)
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u) AND NOT EXISTS (SELECT 1 FROM v WHERE e > 100)
SELECT k FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.b = t.a)
SELECT k FROM t WHERE a IN (SELECT c FROM u)
SELECT k FROM t WHERE a NOT IN (SELECT c FROM u)
SELECT k FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL)
SELECT k FROM t WHERE k NOT IN (SELECT b FROM u WHERE b > 3)
SELECT k FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.b = t.k)
SELECT k FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.b > t.k)
SELECT k FROM t WHERE (k, a) IN (SELECT b, c FROM u)
SELECT k FROM t WHERE (k, a) NOT IN (SELECT b, c FROM u)
SELECT k FROM t WHERE a NOT IN (SELECT c FROM u WHERE b > 100)
SELECT k FROM t WHERE a > ANY (SELECT c FROM u)
SELECT k FROM t WHERE a >= ALL (SELECT c FROM u WHERE c IS NOT NULL)
SELECT k FROM t WHERE a < ALL (SELECT c FROM u)
SELECT k FROM t WHERE NOT a = ANY (SELECT c FROM u)
SELECT k FROM t WHERE NOT a <> ALL (SELECT c FROM u)
SELECT k FROM t WHERE a <> ALL (SELECT c FROM u WHERE u.b = t.k)
SELECT k, a IN (SELECT c FROM u) AS x FROM t
SELECT k, a NOT IN (SELECT c FROM u WHERE c > 1) AS x FROM t
SELECT k, EXISTS (SELECT 1 FROM u WHERE u.c = t.a) AS x FROM t
SELECT k, EXISTS (SELECT 1 FROM u WHERE u.c < t.a) AS x FROM t
SELECT k, EXISTS (SELECT 1 FROM u WHERE u.b > 3) AS x FROM t
SELECT k, a > ALL (SELECT c FROM u WHERE u.b < t.k) AS x FROM t
SELECT k, a IN (SELECT c FROM u WHERE u.b < t.k) AS x FROM t
SELECT k FROM t WHERE a = 1 OR a IN (SELECT c FROM u)
SELECT k FROM t WHERE a = 1 OR EXISTS (SELECT 1 FROM u WHERE u.b = t.a AND u.c > 1)
SELECT k FROM t WHERE a = 5 OR NOT (a IN (SELECT c FROM u WHERE b > 1) AND k > 2)
SELECT k FROM t WHERE a > (SELECT min(c) FROM u)
SELECT k FROM t WHERE a > (SELECT c FROM u WHERE b = 2)
SELECT k FROM t WHERE a > (SELECT c FROM u WHERE b = 100)
SELECT k, (SELECT count(*) FROM u WHERE u.c = t.a) AS n FROM t
SELECT k, (SELECT count(c) + 1 FROM u WHERE u.c = t.a) AS n FROM t
SELECT k, (SELECT sum(b) FROM u WHERE u.c = t.a) AS n FROM t
SELECT k, (SELECT coalesce(sum(b), 0) FROM u WHERE u.c = t.a) AS n FROM t
SELECT k FROM t WHERE (SELECT count(*) FROM u WHERE u.c = t.a) = 0
SELECT k FROM t WHERE (SELECT count(*) FROM u WHERE u.c < t.a) < 2
SELECT k, (SELECT max(b) FROM u WHERE u.c > t.a) AS n FROM t
SELECT k, (SELECT count(*) FROM u WHERE u.c > t.a) AS n FROM t
SELECT k, (SELECT c FROM u WHERE u.b = t.k) AS n FROM t
SELECT k, (SELECT count(*) FROM u WHERE u.c = t.a HAVING count(*) > 1) AS n FROM t
SELECT k, (SELECT t.a + max(b) FROM u WHERE u.c = t.a) AS n FROM t
SELECT k FROM t WHERE k = (SELECT max(k) FROM t AS s WHERE s.a = t.a)
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.a AND u.c > (SELECT min(e) FROM v WHERE v.d = u.b))
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.k AND EXISTS (SELECT 1 FROM v WHERE v.d = t.a))
SELECT k FROM t WHERE a IN (SELECT c FROM u WHERE u.b IN (SELECT d FROM v WHERE v.e <> t.k))
SELECT k FROM t WHERE a IN (SELECT max(c) FROM u GROUP BY b)
SELECT k FROM t WHERE a IN (SELECT max(c) FROM u WHERE u.b < t.k)
SELECT k FROM t WHERE EXISTS (SELECT c FROM u WHERE u.b < t.k GROUP BY c HAVING count(*) > 1)
SELECT k FROM t WHERE k IN (SELECT b FROM u WHERE u.c = t.a UNION ALL SELECT d FROM v WHERE v.e = t.a)
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN v ON u.b = v.d AND v.e = t.a WHERE v.d IS NULL AND u.b = t.k)
SELECT t.k, u.c FROM t LEFT JOIN u ON t.a = u.b AND u.c > 1
SELECT t.k, u.c FROM t LEFT JOIN u ON t.a = u.b WHERE u.c > 1
SELECT t.k, u.c FROM t LEFT JOIN u ON t.a = u.b WHERE u.c IS NULL
SELECT t.k, u.c FROM t RIGHT JOIN u ON t.a = u.b AND t.k > 3
SELECT t.k, u.c FROM t FULL JOIN u ON t.a = u.b
SELECT t.k, u.c FROM t FULL JOIN u ON t.a = u.b WHERE t.k > 3
SELECT t.k, u.c FROM t FULL JOIN u ON t.a = u.b WHERE u.c > 0
SELECT t.k, u.c FROM t FULL JOIN u ON t.a = u.b WHERE u.c > 0 AND t.k < 9
SELECT t.k, v.e FROM t LEFT JOIN u ON t.a = u.b LEFT JOIN v ON u.c = v.d WHERE v.e > 0 OR t.k = 1
SELECT t.k, u.b, v.d FROM t, u, v WHERE t.a = u.b AND u.b = v.d AND t.a > 1
SELECT t.k, u.b, v.d FROM t, u, v WHERE t.a = u.b AND t.k = v.d AND u.c = v.e
SELECT t.k, u.b FROM t, u WHERE t.a = u.b AND t.k = u.b
SELECT t.k, u.b FROM t, u WHERE (t.a = 1 AND u.c = 1) OR (t.a = 2 AND u.c = 4)
SELECT t.k, u.b FROM t, u WHERE (t.k = u.b AND t.a = 1) OR (t.k = u.b AND u.c = 1 AND t.a > 1)
SELECT t.k, u.b FROM t, u WHERE t.k = u.b AND (t.a BETWEEN 1 AND 2 OR t.a BETWEEN 2 AND 5)
SELECT t.k, u.b, v.d FROM t CROSS JOIN u CROSS JOIN v WHERE t.k + u.b = v.d AND t.a < 3
SELECT k FROM t WHERE (a = 1 OR a = 2 OR a = 3) AND NOT (k = 4 OR k = 6) AND k + 1 > 3 AND 5 > k - 4
SELECT k FROM t WHERE a IS NULL OR (a > 1 AND k < 12)
SELECT k FROM t WHERE a < 2 OR a > 4 OR a IS NULL
SELECT k FROM t WHERE a < 2 OR a IN (3, 7, NULL) OR a BETWEEN 5 AND 9
SELECT k FROM t WHERE (k < 3 OR k >= 6 AND (k = 7 OR k > 9 AND k <= 11) OR k IN (4, 100)) AND (a IS NOT NULL OR k = 0)
SELECT k FROM t WHERE (a IS NULL AND k < 7) OR (a > 2 AND k > 2) OR (a = 1 AND k IN (1, 13))
SELECT k FROM t WHERE a IS NOT NULL OR a IS NULL AND a > 3
SELECT t.k, u.b FROM t, u WHERE t.a = u.b AND (u.b < 2 OR u.b > 4) AND (u.c = 1 OR u.c IS NULL)
SELECT k FROM t WHERE a > 1.5 AND k <= 11.0 AND k <> 3
SELECT a, count(*) AS n, sum(k) AS s FROM t GROUP BY a HAVING count(*) > 1
SELECT k, a, count(*) AS n FROM t GROUP BY k, a
SELECT t.k, t.a, u.c, sum(u.b) AS s FROM t, u WHERE t.a = u.b GROUP BY t.k, t.a, u.c
SELECT v.d, v.e, count(u.c) AS n, sum(u.b) AS s FROM v LEFT JOIN u ON v.d = u.c GROUP BY v.d, v.e
SELECT v.d, count(u.b) AS n, max(u.b) AS m FROM v LEFT JOIN u ON v.d = u.c AND u.b > 2 GROUP BY v.d
SELECT v.d, count(*) AS n FROM v LEFT JOIN u ON v.d = u.c GROUP BY v.d
SELECT a, sum(b) AS s, count(*) AS n, min(b) AS m, max(k) AS x FROM u, t WHERE c = k GROUP BY a
SELECT sum(CASE WHEN a = 1 THEN b ELSE 0 END) AS s, count(CASE WHEN a = 2 THEN b END) AS n FROM u JOIN t ON c = k
SELECT a, count(*) AS n, count(a) AS m, sum(b) FILTER (WHERE a > 1) AS s FROM u LEFT JOIN t ON c = k GROUP BY a
SELECT a, sum(b) AS s FROM u JOIN t ON c = k WHERE b NOT IN (SELECT d FROM v) AND b > 1 GROUP BY a
SELECT sum(b) AS s, count(b) AS n FROM u JOIN t ON c = k WHERE a > 100
SELECT DISTINCT a FROM u JOIN t ON c = k
SELECT a, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS g WHERE a > 1 AND n > 1
SELECT DISTINCT a FROM t WHERE a > 1
SELECT count(*) AS n FROM t WHERE a > 100
SELECT count(DISTINCT a) AS n, min(k) AS m FROM t
SELECT a FROM t UNION SELECT c FROM u
SELECT a FROM t UNION ALL SELECT c FROM u UNION ALL SELECT d FROM v
SELECT a FROM t INTERSECT SELECT c FROM u
SELECT a FROM t EXCEPT SELECT c FROM u
SELECT a FROM t EXCEPT ALL SELECT c FROM u
SELECT x FROM (SELECT a AS x FROM t UNION ALL SELECT c FROM u) AS g WHERE x > 1
SELECT k FROM t ORDER BY a DESC, k LIMIT 4
SELECT k FROM t ORDER BY k LIMIT 3 OFFSET 2
SELECT a + 1 AS x FROM t WHERE k < 5 ORDER BY k LIMIT 2
SELECT a, k + 0 AS x FROM t WHERE a IS NULL OR a > 2 ORDER BY k, a LIMIT 3 OFFSET 1
SELECT k FROM t WHERE EXISTS (SELECT 1 FROM (SELECT b FROM u ORDER BY b LIMIT 3) AS s WHERE s.b = t.a)
WITH g AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT x.a, y.n FROM g AS x, g AS y WHERE x.n = y.a
WITH g AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT a FROM g WHERE n = (SELECT max(n) FROM g)
WITH g AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT y.n FROM g x, g y WHERE x.a = 1 AND y.a > 1 AND y.n > 1
WITH g AS (SELECT 1 AS i, a FROM t UNION ALL SELECT 2, c FROM u) SELECT x.a FROM g x, g y WHERE x.i = 1 AND y.a = 1
WITH g AS (SELECT a, k FROM t ORDER BY k LIMIT 5) SELECT x.k, y.k FROM g x, g y WHERE x.a = 1 AND y.a = 2
WITH g AS (SELECT a FROM t WHERE k IN (SELECT b FROM u)), h AS (SELECT a FROM g) SELECT g.a FROM g, h WHERE g.a = h.a
SELECT t.k FROM t JOIN u ON t.a = u.b AND EXISTS (SELECT 1 FROM v WHERE v.d = u.c)
SELECT t.k, u.b FROM t LEFT JOIN u ON t.a = u.b AND u.c IN (SELECT e FROM v)
SELECT sum((SELECT max(b) FROM u WHERE u.c = t.a)) AS s FROM t
SELECT k FROM t ORDER BY (SELECT max(b) FROM u WHERE u.c = t.a), k LIMIT 3
SELECT k, (SELECT b FROM u WHERE u.c = t.a ORDER BY b LIMIT 1) AS n FROM t
SELECT k, (SELECT b FROM u WHERE u.c > t.a ORDER BY b DESC LIMIT 1 OFFSET 1) AS n FROM t
SELECT t.k, s.b FROM t, LATERAL (SELECT b, c FROM u WHERE u.c = t.a ORDER BY b LIMIT 2) AS s WHERE s.c > 1
SELECT t.k, s.b FROM t LEFT JOIN LATERAL (SELECT b FROM u WHERE u.c < t.a ORDER BY b LIMIT 2) AS s ON s.b > 1
SELECT t.k, s.n FROM t CROSS JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.c = t.a) AS s WHERE t.k < 9 AND s.n > 0
SELECT t.k, u.b FROM t LEFT JOIN u ON t.a = u.b AND EXISTS (SELECT 1 FROM v WHERE v.d > t.k + u.c)
SELECT t.k, u.b FROM t RIGHT JOIN u ON t.a = u.b AND t.k IN (SELECT d FROM v WHERE v.e < u.b)
SELECT t.k, u.b FROM t FULL JOIN u ON t.a = u.b AND EXISTS (SELECT 1 FROM v WHERE v.d = t.k)
SELECT a, sum(b) AS s FROM t, u WHERE a = c GROUP BY a HAVING sum(b) > (SELECT min(b) FROM t, u WHERE a = c)
SELECT x.a, y.n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS x, (SELECT a, count(*) AS n FROM t GROUP BY a) AS y
SELECT 1 AS one, 'x' AS text, 2 > 1 AS yes
SELECT k FROM t WHERE 1 = 2
SELECT count(*) AS n FROM (SELECT t.k FROM t LEFT JOIN u ON t.a = u.b) AS g
SELECT k FROM t WHERE NULL IN (SELECT c FROM u)
SELECT k FROM t WHERE 1 IN (SELECT c FROM u WHERE u.b = t.k)
SELECT k, 1 NOT IN (SELECT c FROM u) AS x FROM t
SELECT k, a IN (1, NULL) AS x FROM t WHERE a IN (1, 2, NULL)
SELECT k FROM t WHERE (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND 2
SELECT k FROM t WHERE (SELECT c FROM u WHERE u.b = t.a) NOT BETWEEN 1 AND 2
SELECT k FROM t WHERE (SELECT max(b) FROM u WHERE u.c = t.a) BETWEEN 1 AND 5
SELECT k FROM t WHERE k + (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND 9
SELECT k FROM t WHERE (SELECT max(c) FROM u) BETWEEN a AND 5
SELECT k, (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND 2 AS x FROM t
SELECT a FROM t GROUP BY a HAVING (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND 2
SELECT t.k, d FROM t JOIN v ON (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND v.d
SELECT t.k, d FROM t LEFT JOIN v ON (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND 2
SELECT t.k, d FROM t LEFT JOIN v ON (SELECT c FROM u WHERE u.b = t.a) BETWEEN 1 AND v.d
SELECT t.k, d FROM t LEFT JOIN v ON (SELECT c FROM u WHERE u.b = t.a) BETWEEN v.e AND v.d
SELECT k FROM t WHERE ((SELECT c FROM u WHERE u.b = t.a), k) < (2, 9)
SELECT k, (SELECT x.b FROM u AS x JOIN v AS w ON w.d = w.e AND w.d = x.c WHERE x.b = t.a) AS n FROM t
""".strip().splitlines()

QUERIES.append(
    "WITH x AS (SELECT t.k AS k, y.k AS b FROM t JOIN t AS y ON y.k = t.a) "
    "SELECT g.k, (SELECT count(*) FROM x AS c JOIN x AS e ON e.k = c.b WHERE c.k = g.k AND c.b >= 0) AS n "
    "FROM t AS g GROUP BY g.k"
)


def sized(t: int, u: int, v: int) -> FixedCatalog:
    """The small tables with other statistics, so that other plans are cheaper."""
    known = {}
    for name, rows in (("t", t), ("u", u), ("v", v)):
        first, second = SMALL.by_name[name].schema.names
        columns = {first: ColumnStatistics(0, rows, 0, float(rows)), second: ColumnStatistics(0, 9, 0, 10.0)}
        known[name] = TableStatistics(rows, columns)
    return FixedCatalog(SMALL.by_name, known)


SIZES = (SMALL, sized(10, 1000, 100_000), sized(500, 3, 40))


class Equivalence:
    """Compares plans of a query with its result. Most rules leave a query alone and most of its plans are equal: DuckDB
    executes the query, and each of the plans that differ, once."""

    def __init__(self, database: duckdb.DuckDBPyConnection, query: str) -> None:
        self._database = database
        self._query = query
        self._bound: dict[int, Query] = {}
        """By the identity of the catalog."""
        self._expected = self._rows(query)
        self._executed: set[str] = set()
        """SQL of the plans whose result was right."""

    def _rows(self, text: str) -> Counter[tuple[object, ...]]:
        return Counter(self._database.execute(text).fetchall())

    def check(self, catalog: FixedCatalog, without: Iterable[str] = ()) -> None:
        """Assert that the plan made without some rules has the query's result."""
        if id(catalog) not in self._bound:
            self._bound[id(catalog)] = bound_query(self._query, catalog)
        plan = plan_query(self._bound[id(catalog)], catalog, PlannerOptions(frozenset(without), check=True))
        written = f"SELECT {', '.join(f'c{c.id}' for c in plan.columns)} FROM ({sql(plan.root, {})})"
        if written not in self._executed:
            assert self._rows(written) == self._expected, f"without {sorted(without)}:\n{written}"
            self._executed.add(written)


@pytest.mark.parametrize("query", QUERIES)
def test_plan_gives_the_query_s_answer(database: duckdb.DuckDBPyConnection, query: str) -> None:
    optional = [rule.name for rule in RULES if not rule.mandatory]
    plans = Equivalence(database, query)
    for catalog in SIZES:
        plans.check(catalog)
    for name in optional:
        plans.check(SMALL, (name,))
    plans.check(SMALL, optional)


@pytest.mark.parametrize("query", [query for query in QUERIES if " OR " in query or " IN (1" in query])
def test_predicates_in_the_scan_change_nothing(
    database: duckdb.DuckDBPyConnection, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are the same if no condition is pushed down into a scan's pages."""
    monkeypatch.setattr(physical_planner, "extract", lambda conditions, names: Extracted((), tuple(conditions)))
    Equivalence(database, query).check(SMALL)


# ---- random queries --------------------------------------------------------------------------------------------------

COLUMNS = {"t": ("t.k", "t.a"), "u": ("u.b", "u.c"), "v": ("v.d", "v.e")}


@st.composite
def conditions(draw: st.DrawFn, tables: tuple[str, ...], depth: int = 2) -> str:
    """Draw a condition over the columns of some tables, with subqueries on the others."""
    column = st.sampled_from([c for table in tables for c in COLUMNS[table]])
    kinds = ["column", "constant", "null", "list"] + ["and", "or", "not"] * (depth > 0)
    others = [table for table in COLUMNS if table not in tables]
    kind = draw(st.sampled_from(kinds + ["exists", "in", "any", "scalar"] * (depth > 0 and bool(others))))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    if kind == "column":
        return f"{draw(column)} {operator} {draw(column)}"
    if kind == "constant":
        return f"{draw(column)} {operator} {draw(st.integers(0, 6))}"
    if kind == "null":
        return f"{draw(column)} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == "list":
        return f"{draw(column)} {draw(st.sampled_from(['', 'NOT ']))}IN (1, 3, 4)"
    if kind == "not":
        return f"NOT ({draw(conditions(tables, depth - 1))})"
    if kind in ("and", "or"):
        a, b = draw(conditions(tables, depth - 1)), draw(conditions(tables, depth - 1))
        return f"({a}) {kind.upper()} ({b})"
    inner = draw(st.sampled_from(others))
    where = draw(conditions((*tables, inner), depth - 1))
    given_back = draw(st.sampled_from(COLUMNS[inner]))
    if kind == "exists":
        return f"{draw(st.sampled_from(['', 'NOT ']))}EXISTS (SELECT 1 FROM {inner} WHERE {where})"
    if kind == "in":
        word = draw(st.sampled_from(["", "NOT "]))
        return f"{draw(column)} {word}IN (SELECT {given_back} FROM {inner} WHERE {where})"
    if kind == "any":
        word = draw(st.sampled_from(["ANY", "ALL"]))
        return f"{draw(column)} {operator} {word} (SELECT {given_back} FROM {inner} WHERE {where})"
    function = draw(st.sampled_from(["min", "max", "count", "sum"]))
    return f"{draw(column)} {operator} (SELECT {function}({given_back}) FROM {inner} WHERE {where})"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a SELECT over one to three tables."""
    tables = tuple(draw(st.permutations(list(COLUMNS))))[: draw(st.integers(1, 3))]
    source = tables[0]
    for i, table in enumerate(tables[1:], 2):
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]))
        left = draw(st.sampled_from([c for t in tables[: i - 1] for c in COLUMNS[t]]))
        extra = draw(st.sampled_from(["", f" AND {COLUMNS[table][0]} > 2", f" AND {COLUMNS[tables[0]][1]} < 4"]))
        on = f"{left} = {draw(st.sampled_from(COLUMNS[table]))}{extra if kind in ('JOIN', 'LEFT JOIN') else ''}"
        source += f" {kind} {table} ON {on}"
    where = draw(conditions(tables))
    columns = [c for table in tables for c in COLUMNS[table]]
    if draw(st.booleans()):
        group = draw(st.sampled_from(columns))
        return f"SELECT {group}, count({columns[-1]}), sum({columns[1]}) FROM {source} WHERE {where} GROUP BY {group}"
    return f"SELECT {', '.join(columns)} FROM {source} WHERE {where}"


@settings(max_examples=examples(150), deadline=None)
@given(query=queries(), sizes=st.sampled_from(SIZES), left_out=st.sets(st.sampled_from([r.name for r in RULES])))
def test_random_queries_keep_their_answer(
    database: duckdb.DuckDBPyConnection, query: str, sizes: FixedCatalog, left_out: set[str]
) -> None:
    Equivalence(database, query).check(sizes, left_out)


def test_literals_are_written_so_that_they_read_back() -> None:
    from nyala.model.types import DATE, DECIMAL, STRING

    assert literal_text(-105, DECIMAL(9, 2)) == "-1.05"
    assert literal_text(10, DATE) == "DATE '1970-01-11'"
    assert literal_text("it's", STRING) == "'it''s'"
