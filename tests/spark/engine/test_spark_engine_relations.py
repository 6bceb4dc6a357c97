"""Parts of a query that run at the tablets and parts that run in Spark: the result is the same for every division."""

import os
from collections import Counter

import nyala
import pytest
from differential.query_generator import DUCKDB, QueryGenerator
from differential.test_differential import SIZES, TABLES, TYPES, _literal, _rows
from examples import cases
from nyala.errors import Cancelled
from nyala.executor import ExecutionContext
from nyala.model.predicates import BitmapFilter
from nyala.planner.algebra.logical import Aggregate, Filter, Project, Scan, Sort
from nyala.spark.engine.query import prepare
from nyala.spark.engine.relations import parts
from nyala.spark.engine.relations.tasks import Reading
from nyala.spark.engine.relations.views import Rows
from spark_engine_support import URL, answer, planned, prepared, task_rows

QUERIES = int(os.environ.get("NYALA_QUERIES", cases(100)))


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Tables of tests have few rows; tasks, filters and literal rows must come up all the same."""
    monkeypatch.setattr(parts, "LEAST_ROWS", 3)


@pytest.fixture
def no_rows_here(monkeypatch):
    """Every relation is read by tasks."""
    monkeypatch.setattr("nyala.spark.engine.query.SMALL_TABLE", 0)
    monkeypatch.setattr("nyala.spark.engine.query.FEW_ROWS", 0)


@pytest.fixture(scope="module")
def connection():
    with nyala.connect(":memory:", threads=1) as opened:
        for table in TABLES:
            columns = ", ".join(
                f"{name} {TYPES[kind]}{' NOT NULL' if name == 'k' else ''}" for name, kind in table.columns
            )
            opened.execute(
                f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY (k)) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS"
            )
            rows = [f"({', '.join(_literal(v) for v in row)})" for row in _rows(table, SIZES[table.name])]
            opened.execute(f"INSERT INTO {table.name} VALUES {', '.join(rows)}")
        yield opened


@pytest.fixture(scope="module")
def sales():
    with nyala.connect(":memory:", threads=1) as opened:
        opened.execute("""
            CREATE TABLE sales (id BIGINT, line INT, item INT NOT NULL, price DECIMAL(12, 2), PRIMARY KEY (id, line))
            DISTRIBUTE BY HASH (id) INTO 4 BUCKETS;
            INSERT INTO sales SELECT n / 3, n % 3, n % 50, n * 1.37 FROM generate_series(0, 2999) AS g(n);
            CREATE TABLE items (item INT PRIMARY KEY, name STRING);
            INSERT INTO items
            SELECT n, CASE WHEN n % 10 = 3 THEN 'odd' ELSE 'plain' END FROM generate_series(0, 49) AS g(n)
        """)
        yield opened


def in_order(table):
    return Counter(tuple(map(repr, row.values())) for row in table.to_pylist())


def check(connection, text, **more):
    wanted = connection.execute(text).arrow()
    found = answer(connection.store, text, **more)
    assert found.schema == wanted.schema
    assert in_order(found) == in_order(wanted), text


# ---- random plans ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, QUERIES, 50))
def test_random_queries(connection, no_rows_here, start):
    tried = 0
    for seed in range(start, start + 50):
        text = QueryGenerator(seed, TABLES, DUCKDB).query()
        try:
            connection.execute(text).fetchall()
        except nyala.Error:
            continue
        if " LIMIT " in text and " ORDER BY 1" not in text.rpartition(")")[2]:
            continue  # any rows are right
        check(connection, text)
        tried += 1
    assert tried > 25


AGGREGATES = [
    "SELECT count(*), count(price), sum(price), avg(price), min(price), max(line) FROM sales",
    "SELECT count(*), sum(price), avg(item) FROM sales WHERE price < 0",
    "SELECT item, avg(price), sum(price) FILTER (WHERE line > 0), count(*) FILTER (WHERE id > 9) FROM sales GROUP BY 1",
    "SELECT line, item, sum(price / (item + 1)), avg(price) FROM sales GROUP BY GROUPING SETS ((line), (item), ())",
    "SELECT id, sum(price), stddev_pop(item), count(DISTINCT line) FROM sales GROUP BY id HAVING sum(price) > 1000",
    "SELECT line, count(DISTINCT item), sum(price) FROM sales GROUP BY line",
    "SELECT DISTINCT item, line FROM sales",
    "SELECT sum(n) FROM (SELECT id, count(*) AS n FROM sales GROUP BY id) AS s",
    "SELECT id, line, price FROM sales ORDER BY price DESC, id, line LIMIT 7 OFFSET 3",
    "SELECT count(*) FROM (SELECT id FROM sales LIMIT 17) AS s",
    "SELECT item, bool_and(price > 2), bit_xor(line), avg(line::DOUBLE) FROM sales GROUP BY item",
]


@pytest.mark.parametrize("text", AGGREGATES)
@pytest.mark.parametrize("cores", [1, 4])
def test_aggregates_in_two_steps(sales, no_rows_here, text, cores):
    check(sales, text, cores=cores)


# ---- what is cut -----------------------------------------------------------------------------------------------------


def cuts(connection, text):
    return [source.cut for source in prepared(connection.store, text).sources.values()]


def test_groups_within_a_tablet_are_done_beside_the_rows(sales):
    (found,) = cuts(sales, "SELECT id, avg(price) FROM sales GROUP BY id HAVING count(*) > 2")
    assert found.whole_tablets
    below = found.node
    while isinstance(below, (Filter, Project)):
        below = below.source
    assert isinstance(below, Aggregate)


def test_groups_across_tablets_are_partial(sales):
    (found,) = cuts(sales, "SELECT line, avg(price) FROM sales GROUP BY line HAVING count(*) > 2")
    assert isinstance(found.node, Aggregate)
    assert not found.whole_tablets
    assert len(found.node.aggregates) == 3, "sum(price), count(price), count(*)"


def test_partial_groups_that_are_as_many_as_rows_are_not_made(sales):
    (found,) = cuts(sales, "SELECT item, line, price, count(*) FROM sales GROUP BY item, line, price")
    assert isinstance(found.node, Scan)


def test_first_rows_are_sorted_by_each_task(sales, no_rows_here):
    query = prepared(sales.store, "SELECT id, price FROM sales ORDER BY price DESC LIMIT 5")
    (source,) = query.sources.values()
    assert isinstance(source.cut.node, Sort)
    assert all(table.num_rows <= 5 for table in task_rows(sales.store, source))


def test_joins_are_left_to_spark(sales):
    found = cuts(sales, "SELECT name, sum(price) FROM sales JOIN items USING (item) GROUP BY name")
    assert {cut.leaf.table.name for cut in found} == {"sales", "items"}
    assert all(isinstance(node, (Scan, Aggregate)) for node in (cut.node for cut in found))


# ---- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [1, 2, 5, 16])
def test_tasks_tile_the_table(sales, no_rows_here, cores):
    query = prepared(sales.store, "SELECT id, line FROM sales WHERE price > 5", cores=cores)
    (source,) = query.sources.values()
    tables = task_rows(sales.store, source)
    assert isinstance(source.relation, Reading)
    assert 1 < len(tables) <= 2 * cores + 4
    rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    assert len(rows) == len(set(rows)) == sales.execute("SELECT count(*) FROM sales WHERE price > 5").fetchone()[0]


def test_tablets_that_cannot_have_rows_are_nobody_s(sales, no_rows_here):
    query = prepared(sales.store, "SELECT price FROM sales WHERE id = 7")
    (source,) = query.sources.values()
    assert len({part.tablet for task in source.relation.parts for part in task}) == 1


def test_small_tables_are_read_at_once(sales):
    query = prepared(sales.store, "SELECT name, price FROM sales JOIN items USING (item)")
    assert all(isinstance(source.relation, Rows) for source in query.sources.values())


# ---- runtime filters -------------------------------------------------------------------------------------------------

JOINED = "SELECT s.id, s.price FROM sales s JOIN items i ON s.item = i.item WHERE i.name = 'odd'"


@pytest.fixture
def dear_rows(monkeypatch):
    """Rows are so dear that every filter is worth its keys."""
    monkeypatch.setattr("nyala.spark.engine.relations.filters.CROSSING", 1e9)


def test_keys_of_the_build_side_reach_the_other_relation(sales, no_rows_here, dear_rows):
    query = prepared(sales.store, JOINED)
    source = next(s for s in query.sources.values() if s.cut.leaf.table.name == "sales")
    (predicate,) = source.filters
    assert isinstance(predicate, BitmapFilter)
    assert sum(table.num_rows for table in task_rows(sales.store, source)) == 300
    check(sales, JOINED)


def test_no_key_no_row(sales, no_rows_here, dear_rows):
    text = JOINED.replace("odd", "nowhere")
    query = prepared(sales.store, text)
    source = next(s for s in query.sources.values() if s.cut.leaf.table.name == "sales")
    assert sum(table.num_rows for table in task_rows(sales.store, source)) == 0
    check(sales, text)


@pytest.mark.parametrize("start", range(0, QUERIES, 50))
def test_random_queries_with_every_filter(connection, no_rows_here, dear_rows, start):
    for seed in range(10_000 + start, 10_050 + start):
        text = QueryGenerator(seed, TABLES, DUCKDB).query()
        try:
            connection.execute(text).fetchall()
        except nyala.Error:
            continue
        if " LIMIT " not in text:
            check(connection, text)


# ---- one moment ------------------------------------------------------------------------------------------------------


def test_all_relations_are_of_one_moment():
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
        connection.execute("INSERT INTO t SELECT n FROM generate_series(1, 10) AS g(n)")
        query = prepared(connection.store, "SELECT k FROM t")
        connection.execute("DELETE FROM t WHERE k > 3")
        (source,) = query.sources.values()
        assert sum(table.num_rows for table in task_rows(connection.store, source)) == 10


def test_preparing_can_be_cancelled(sales):
    plan = planned(sales.store, JOINED)
    context = ExecutionContext(sales.store, snapshot=sales.store.now())
    context.cancel.set()
    with pytest.raises(Cancelled):
        prepare(plan, context, URL, 2)
