"""Engines by name: who runs which statement, and what a session does with its engine."""

import subprocess
import sys

import nyala
import pyarrow as pa
import pytest
from nyala.driver.session import engines
from nyala.errors import DataError, InterfaceError, NotSupportedError, StatementError
from nyala.executor.execute import execute


class Echo:
    """Runs plans as nyala does, and notes which."""

    def __init__(self, target):
        self.target = target
        self.seen = []
        self.closed = 0
        self.fails = None

    def batches(self, plan, context):
        self.seen.append(context.snapshot)
        if self.fails is not None:
            raise self.fails
        for batch in execute(plan.root, context):
            yield batch.to_arrow([column.name for column in plan.columns])

    def explain(self, plan, context):
        return f"echo of\n{len(plan.columns)} columns"

    def close(self):
        self.closed += 1


@pytest.fixture
def made(monkeypatch):
    """The engines that were made under the name "echo"."""
    found = []

    def load(target):
        found.append(Echo(target))
        return found[-1]

    monkeypatch.setattr(engines, "_loaders", dict(engines._loaders))
    engines.register("echo", load)
    return found


@pytest.fixture
def connection(made):
    with nyala.connect(":memory:", engine="echo") as opened:
        opened.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        opened.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        yield opened


def rows(connection, text, parameters=None):
    return connection.execute(text, parameters).fetchall()


def test_queries_of_tables_go_to_the_engine(connection, made):
    assert rows(connection, "SELECT v FROM t ORDER BY k") == [("one",), ("two",)]
    assert rows(connection, "WITH w AS (SELECT k FROM t) SELECT max(k) FROM w") == [(2,)]
    assert rows(connection, "SELECT v FROM t WHERE k = ?", [2]) == [("two",)]
    assert rows(connection, "SELECT v FROM t WHERE k = ?", [1]) == [("one",)]
    assert len(made) == 1
    assert len(made[0].seen) == 4
    assert made[0].target == ":memory:"


def test_what_reads_no_table_is_done_here(connection, made):
    assert rows(connection, "SELECT 6 * 7") == [(42,)]
    assert rows(connection, "SELECT sum(n) FROM generate_series(1, 4) AS g(n)") == [(10,)]
    connection.execute("INSERT INTO t VALUES (?, ?)", [3, "three"])
    connection.execute("UPDATE t SET v = 'x' WHERE k = 3")
    connection.execute("DELETE FROM t WHERE k IN (SELECT k FROM t WHERE v = 'x')")
    assert not made or not made[0].seen
    assert rows(connection, "SELECT count(*) FROM t") == [(2,)]


def test_queries_of_statements_that_write_go_there_too(connection, made, tmp_path):
    connection.execute("CREATE TABLE u (k BIGINT PRIMARY KEY, v STRING, d DECIMAL(38, 2))")
    inserted = connection.execute("INSERT INTO u SELECT k, v, k * 1.25 FROM t")
    assert inserted.rowcount == 2
    assert len(made[0].seen) == 1
    connection.execute("INSERT INTO u SELECT k, v, k FROM t ON CONFLICT DO NOTHING")
    connection.execute("CREATE TABLE w PRIMARY KEY (k) AS SELECT k, upper(v) AS v FROM t")
    connection.execute(f"COPY (SELECT * FROM t ORDER BY k) TO '{tmp_path}/t.csv'")
    assert len(made[0].seen) == 4
    connection.execute("SET engine = nyala")
    assert [(k, v, str(d)) for k, v, d in rows(connection, "SELECT * FROM u ORDER BY k")] == [
        (1, "one", "1.25"),
        (2, "two", "2.50"),
    ]
    assert rows(connection, "SELECT * FROM w ORDER BY k") == [(1, "ONE"), (2, "TWO")]
    assert (tmp_path / "t.csv").read_text().splitlines()[1:] == ["1,one", "2,two"]


def test_explain_is_the_engine_s(connection):
    assert rows(connection, "EXPLAIN SELECT k, v FROM t") == [("echo of",), ("2 columns",)]
    with pytest.raises(NotSupportedError, match="SET engine = nyala"):
        connection.execute("EXPLAIN ANALYZE SELECT k FROM t")
    assert rows(connection, "EXPLAIN INSERT INTO t SELECT k + 5, v FROM t")[:2] == [
        ("Insert into t (k, v)",),
        ("echo of",),
    ]
    assert any("TableScan" in line for (line,) in rows(connection, "EXPLAIN DELETE FROM t"))


def test_errors_of_the_engine_come_out_at_execute(connection, made):
    rows(connection, "SELECT k FROM t")
    made[0].fails = DataError("no such thing")
    with pytest.raises(DataError, match="no such thing"):
        connection.execute("SELECT k FROM t")
    with pytest.raises(DataError, match="no such thing"):
        connection.execute("CREATE TABLE w PRIMARY KEY (k) AS SELECT k FROM t")
    made[0].fails = None
    assert rows(connection, "SHOW TABLES")[0][0] == "t"
    assert len(rows(connection, "SHOW TABLES")) == 1, "nothing was created"


def test_the_setting(made):
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        assert rows(connection, "SHOW engine") == [("nyala",)]
        rows(connection, "SELECT k FROM t")  # is kept, and must not be found when another engine is to run it
        connection.execute("SET engine = ECHO")
        assert rows(connection, "SHOW engine") == [("echo",)]
        assert not made
        rows(connection, "SELECT k FROM t")
        assert len(made[0].seen) == 1
        connection.execute("RESET engine")
        rows(connection, "SELECT k FROM t")
        assert len(made[0].seen) == 1
        with pytest.raises(StatementError, match="there is no engine eco; did you mean echo"):
            connection.execute("SET engine = eco")
        with pytest.raises(StatementError, match="engine is the name of one, not 3"):
            connection.execute("SET engine = 3")
        assert rows(connection, "SHOW engine") == [("nyala",)]
    assert made[0].closed == 1


def test_names_are_checked_by_connect(made):
    with pytest.raises(InterfaceError, match="there is no engine nyla; did you mean nyala"):
        nyala.connect(":memory:", engine="nyla")
    assert engines.names() == ["nyala", "echo", "spark"]


def test_a_moment_is_told_to_the_engine(connection, made):
    moment = connection.last_timestamp
    connection.execute("DELETE FROM t")
    with connection.at(moment) as before:
        assert rows(before, "SHOW engine") == [("echo",)]
        assert rows(before, "SELECT count(*) FROM t") == [(2,)]
    assert made[-1].seen == [moment]
    assert rows(connection, "SELECT count(*) FROM t") == [(0,)]


def test_results_have_the_plan_s_arrow_types(connection):
    table = connection.execute("SELECT k, v, count(*) AS n FROM t GROUP BY k, v").arrow()
    assert table.schema == pa.schema([("k", pa.int32()), ("v", pa.string()), ("n", pa.int64())])


def test_spark_is_known_and_nothing_of_it_is_imported():
    check = (
        "import sys, nyala; from nyala.driver.session import engines; engines.check('spark'); "
        "print({'pyspark', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
