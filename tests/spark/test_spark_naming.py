"""Values of the options dbtable, where and those of JDBC, tested without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from nyala.driver.connection import Connection
from nyala.errors import InterfaceError, NotSupportedError, SqlSyntaxError, UnknownTable
from nyala.spark.session import check_classic
from nyala.spark.source import relation
from nyala.spark.source.options import Use, parse
from nyala.spark.writing.planning import plan_of


@pytest.fixture
def connection() -> Iterator[Connection]:
    with nyala.connect() as made:
        made.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        made.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        made.execute('CREATE TABLE "a.b" (k INT PRIMARY KEY)')
        made.execute("CREATE VIEW seen AS SELECT v FROM t")
        yield made


def rows(connection: Connection, **options: str) -> list[tuple[Any, ...]]:
    """The rows of a relation."""
    text = relation.select(connection, parse({"url": "nyala://a", **options}, Use.READ))
    return sorted(connection.execute(text).fetchall())


@pytest.mark.parametrize("name", ["t", "main.t", '"t"', 'main."t"', "MAIN.t", "(SELECT * FROM t) x", "(TABLE t)"])
def test_a_table_has_several_spellings(connection: Connection, name: str) -> None:
    assert rows(connection, dbtable=name, where="k < 3", columns="v") == [(1,), (2,)]


def test_names_that_are_in_the_store_come_first(connection: Connection) -> None:
    assert rows(connection, dbtable="a.b") == rows(connection, dbtable='main."a.b"') == []
    assert rows(connection, dbtable="seen") == [(1,), (2,), (3,)]
    for name in ("other.t", "t x", "t, t", "t JOIN t", ""):
        with pytest.raises(UnknownTable):
            rows(connection, dbtable=name)
    for query in ("(SELECT 1) x WHERE 1 = 1", "(SELECT 1) x, t", "(SELECT 1) x; DROP TABLE t"):
        with pytest.raises(InterfaceError, match="one query in brackets"):
            rows(connection, dbtable=query)


@pytest.mark.parametrize(
    "where",
    ["k<3) OR (1=1", "k=1) AS a, (2", "1=1) FROM t WHERE (1=1", "k=1); DROP TABLE t; SELECT (1", "", " -- none"],
)
def test_a_condition_stays_within_its_brackets(connection: Connection, where: str) -> None:
    with pytest.raises((InterfaceError, SqlSyntaxError)):
        rows(connection, dbtable="t", where=where)


def test_conditions_may_have_brackets_texts_and_comments(connection: Connection) -> None:
    assert rows(connection, dbtable="t", where="(k = 1) OR (k = 3) -- and no more)") == [(1, 1), (3, 3)]
    assert rows(connection, dbtable="t", where="k IN (SELECT v FROM seen WHERE v > 1) AND ')' <> '('") == [
        (2, 2),
        (3, 3),
    ]


@pytest.mark.parametrize("name", ["driver", "partitionColumn", "lowerBound", "customSchema", "predicates"])
def test_options_of_jdbc_are_explained(name: str) -> None:
    with pytest.raises(InterfaceError, match=f"option {name} is JDBC's: "):
        parse({"url": "nyala://a", "dbtable": "t", name: "1"}, Use.READ)


def test_what_spark_adds_and_hints_of_jdbc_make_no_difference() -> None:
    given = {"queryName": "q", "checkpointLocation": "/c", "__partition_columns": "[]", "truncate": "true"}
    given |= {"pushDownPredicate": "false", "partitionOverwriteMode": "dynamic", "table_type": "EXTERNAL"}
    for use in Use:
        parse({"url": "nyala://a", "dbtable": "t", **given}, use)


def test_a_write_names_a_table_and_its_own_key(connection: Connection) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType(
        [types.StructField("k", types.IntegerType()), types.StructField("v", types.IntegerType())]
    )

    def plan(**options: str) -> Any:
        return plan_of(connection, parse({"url": "nyala://a", **options}, Use.WRITE), schema, False)

    assert plan(dbtable="main.t", primaryKey="K").target == "t"
    with pytest.raises(InterfaceError, match=r"primaryKey=k,v: table t already exists, and its primary key is \(k\)"):
        plan(dbtable="t", primaryKey="k,v")
    for target in ("seen", "(SELECT 1) x"):
        with pytest.raises(InterfaceError, match="is a view or a query"):
            plan(dbtable=target)
    with pytest.raises(InterfaceError, match="idempotencyKey is empty"):
        plan(dbtable="t", idempotencyKey="")


def test_a_session_of_spark_connect_is_named() -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(NotSupportedError, match=r"nyala\.spark\.sql needs a Spark session in this process"):
        check_classic(remote, "nyala.spark.sql")
