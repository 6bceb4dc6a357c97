"""nyala_catalog: metrics, statements, tablets, rowsets and operations as tables, and SHOW METRICS."""

from __future__ import annotations

import pytest
from nyala.driver.session import running_work, statement_records
from nyala.driver.session.statement_records import records
from nyala.errors import Cancelled, DivisionByZero, StatementError, UnknownColumn, UnknownTable

pytestmark = pytest.mark.embedded_only("looks into this process")
HOSTILE = 'x"; <script>alert(1)</script>'


@pytest.fixture
def c(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
    connection.execute("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 100) AS g(n)")
    return connection


def rows(c, text, *parameters):
    return c.execute(text, parameters or None).fetchall()


def value(c, name, labels=""):
    query = "SELECT value FROM nyala_catalog.metrics WHERE name = ? AND labels = ?"
    return sum(row[0] for row in rows(c, query, name, labels))


def test_tablets_and_rowsets_say_what_the_store_holds(c):
    c.store.flush()
    assert rows(c, "SELECT table_name, sum(rows), count(*), min(role) FROM nyala_catalog.tablets GROUP BY 1") == [
        ("t", 100, 2, "LEADER")
    ]
    assert rows(
        c,
        "SELECT sum(r.rows), count(*), bool_and(key_start = 0 AND key_stop = 1), sum(r.disk_bytes) = max(s.bytes) "
        "FROM nyala_catalog.rowsets r, (SELECT sum(disk_bytes) AS bytes FROM nyala_catalog.tablets) s",
    ) == [(100, 2, True, True)]


def test_rows_are_of_the_time_of_the_statement(c):
    query = "SELECT sum(rows) FROM nyala_catalog.tablets"
    assert rows(c, query) == [(100,)]
    c.execute("DELETE FROM t WHERE k > 60")
    assert rows(c, query) == [(60,)]
    c.execute("BEGIN")
    assert rows(c, query) == [(60,)]
    c.rollback()


def test_operations_are_those_of_the_maintenance(c):
    c.store.maintain()
    c.store.flush()
    for n in range(200, 1000, 100):
        c.execute("INSERT INTO t SELECT n, 'w' FROM generate_series(?, ?) AS g(n)", (n, n + 99))
        c.store.flush()
    possible = rows(c, "SELECT kind, table_name FROM nyala_catalog.operations WHERE state = 'POSSIBLE'")
    assert possible and {table for _, table in possible} == {"t"}
    done = c.store.maintain()
    kinds = rows(c, "SELECT kind FROM nyala_catalog.operations WHERE state = 'DONE' LIMIT 1000")
    assert {record.kind for record in done} <= {kind for (kind,) in kinds}
    for kind in {record.kind for record in done}:
        assert value(c, "nyala_maintenance_operations_total", f"kind={kind}") >= 1


def test_kinds_of_operations_agree_with_the_operations_and_with_the_metrics(c):
    c.store._maintenance._maintenance.stop()  # from now on operations run in `maintain` alone
    c.store.maintain()
    for n in range(200, 1000, 100):
        c.execute("INSERT INTO t SELECT n, 'w' FROM generate_series(?, ?) AS g(n)", (n, n + 99))
        c.store.flush()
    query = "SELECT queued, best_score, done, failed, running FROM nyala_catalog.operation_kinds WHERE kind = ?"
    due = rows(
        c,
        "SELECT kind, count(*), max(score) FROM nyala_catalog.operations "
        "WHERE state = 'POSSIBLE' AND (score > 0 OR disk_bytes > 0 OR kind = 'LogGC') GROUP BY 1 ORDER BY 3 DESC",
    )
    assert "CompactRowSets" in {kind for kind, _, _ in due}
    before = {kind: rows(c, query, kind)[0] for (kind,) in rows(c, "SELECT kind FROM nyala_catalog.operation_kinds")}
    for kind, queued, score in due:
        assert before[kind][:2] == (queued, score)
        assert before[kind][4] == 0
    assert sum(queued for queued, *_ in before.values()) == sum(queued for _, queued, _ in due)
    records = c.store.maintain()
    for kind, (_, _, done, failed, _) in before.items():
        mine = [record for record in records if record.kind == kind]
        assert rows(c, query, kind)[0][2] == done + len(mine)
        assert rows(c, query, kind)[0][3] == failed + sum(bool(record.error) for record in mine)
    shown = "SELECT value FROM nyala_catalog.metrics WHERE name = 'nyala_maintenance_queued' AND labels LIKE 'kind=%'"
    assert len(rows(c, shown)) == len(before) == 10


def test_statements_are_counted_by_path(c):
    row, planned = (value(c, "nyala_statements_total", f"path={path}") for path in ("row", "planned"))
    for key in range(10):
        c.execute("SELECT v FROM t WHERE k = ?", (key,)).fetchall()
    assert value(c, "nyala_statements_total", "path=row") - row >= 9  # the first is bound, and may be planned
    c.execute("SELECT count(*) FROM t").fetchall()
    assert value(c, "nyala_statements_total", "path=planned") > planned


def test_a_statement_is_listed_while_it_runs_and_when_it_has_ended(c):
    cursor = c.execute("SELECT k FROM t -- listed")
    query = "SELECT state, rows, sqlstate FROM nyala_catalog.statements WHERE statement LIKE '%-- listed'"
    assert rows(c, query) == [("RUNNING", 0, None)]
    cursor.fetchall()
    assert rows(c, query) == [("DONE", 100, None)]


def test_failed_statements_have_a_sqlstate_and_are_counted_once(c):
    before = {state: value(c, "nyala_statement_errors_total", f"sqlstate={state}") for state in ("22012", "42703")}
    with pytest.raises(DivisionByZero):
        c.execute("SELECT 1 / (k - 50) FROM t -- failed").fetchall()
    with pytest.raises(UnknownColumn):
        c.execute("SELECT nothing FROM t")
    query = "SELECT state, sqlstate FROM nyala_catalog.statements WHERE statement LIKE '%-- failed'"
    assert rows(c, query) == [("FAILED", "22012")]
    for state, count in before.items():
        assert value(c, "nyala_statement_errors_total", f"sqlstate={state}") == count + 1


def test_a_running_statement_is_cancelled_by_its_number(c):
    cursor = c.execute("SELECT a.n FROM generate_series(1, 100000) AS a(n), generate_series(1, 1000) AS b(n) -- long")
    query = "SELECT id FROM nyala_catalog.statements WHERE statement LIKE '%-- long' AND state = 'RUNNING'"
    ((number,),) = rows(c, query)
    assert not records().cancel(number + 1_000_000)
    assert records().cancel(number)
    with pytest.raises(Cancelled):
        cursor.fetchall()
    assert rows(c, query) == []


def test_slow_statements_keep_their_plan(c, monkeypatch):
    monkeypatch.setattr(statement_records.records(), "slow_seconds", 0.0)
    c.execute("SELECT k, count(*) FROM t GROUP BY k -- slow").fetchall()
    slow = next(record for record in records().slow() if record.text.endswith("-- slow"))
    assert "Aggregate" in slow.plan or "Scan" in slow.plan
    assert slow.rows == 100 and slow.memory_bytes > 0


def test_counts_of_ended_sessions_stay(c):
    before = value(c, "nyala_statements_total", "path=planned")
    with c.duplicate() as other:
        other.execute("SELECT count(*) FROM t").fetchall()
        sessions = value(c, "nyala_sessions")
    del other
    assert value(c, "nyala_sessions") == sessions - 1
    assert value(c, "nyala_statements_total", "path=planned") >= before + 1


def test_passwords_are_masked():
    record = statement_records.StatementRecord(1, "ALTER ROLE a PASSWORD 'it''s secret' LOGIN", "", "")
    assert record.text == f"ALTER ROLE a PASSWORD {14 * '*'} LOGIN"


def test_show_metrics_is_a_query(c):
    shown = c.execute("SHOW METRICS LIKE 'nyala_tab%'")
    assert [column[0] for column in shown.description] == ["name", "labels", "value", "kind", "help"]
    found = {(name, labels): number for name, labels, number, *_ in shown.fetchall()}
    assert found["nyala_table_rows", "table=t"] == 100
    assert {name for name, _ in found} <= {
        "nyala_tablets_quarantined",
        "nyala_tablets",
        "nyala_table_rows",
        "nyala_table_disk_bytes",
    }
    assert len(rows(c, "SHOW METRICS")) > 20


def test_hostile_names_are_values(c):
    c.execute('CREATE TABLE "{}" (k INT PRIMARY KEY)'.format(HOSTILE.replace('"', '""')))
    assert rows(c, "SELECT count(*) FROM nyala_catalog.tablets WHERE table_name = ?", HOSTILE) == [(1,)]
    assert value(c, "nyala_table_rows", f"table={HOSTILE}") == 0


def test_the_relations_can_only_be_read_and_are_described(c):
    with pytest.raises(StatementError, match="can be read in FROM, and nothing else"):
        c.execute("INSERT INTO nyala_catalog.metrics VALUES (1)")
    with pytest.raises(UnknownTable, match="metrics"):
        c.execute("SELECT * FROM nyala_catalog.metric")
    named = (
        "SELECT relname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = 'nyala_catalog'"
    )
    assert set(rows(c, named)) >= {
        (name, "v") for name in ("metrics", "statements", "tablets", "rowsets", "operations", "operation_kinds")
    }


@pytest.mark.parametrize(
    "relation",
    ["pg_tables", "pg_views", "pg_stat_user_tables", "information_schema.tables", "information_schema.views"],
)
def test_tools_do_not_take_the_relations_for_data_of_users(c, relation):
    column = "table_schema" if "." in relation else "schemaname"
    assert rows(c, f"SELECT count(*) FROM {relation} WHERE {column} = 'nyala_catalog'") == [(0,)]


# ---- operators -------------------------------------------------------------------------------------------------------

OPERATORS = (
    "SELECT o.depth, o.operator, o.rows, o.seconds >= 0, o.details FROM nyala_catalog.statement_operators o, "
    "nyala_catalog.statements s WHERE s.id = o.statement_id AND s.statement LIKE ? ORDER BY s.id DESC, o.step"
)


@pytest.fixture
def told(monkeypatch):
    """Fast statements are described, too."""
    monkeypatch.setattr(running_work, "KEPT_SECONDS", 0.0)


def test_operators_have_the_rows_and_times_of_explain_analyze(c, told):
    text = "SELECT v, count(*) FROM t WHERE k < 50 GROUP BY v"
    assert c.execute(f"{text} -- measured").fetchall() == [("v", 50 - 1)]
    found = rows(c, OPERATORS, "%-- measured")
    shown = [line[0] for line in c.execute(f"EXPLAIN ANALYZE {text}").fetchall() if "rows," in line[0]]
    assert [(depth, f"{operator}  ({count:,} rows,") for depth, operator, count, _, _ in found] == [
        (
            (len(line) - len(line.lstrip())) // 2,
            f"{line.strip().partition('  (')[0]}  ({line.partition('  (')[2].partition(' rows')[0]} rows,",
        )
        for line in shown
    ]
    assert found[-1][1] == "TableScan t" and found[-1][2] == 49 and all(timed for *_, timed, _ in found)
    assert "rows considered" in found[-1][4]


def test_operators_of_a_running_statement_show_what_was_read_so_far(c):
    c.execute("INSERT INTO t SELECT n, 'w' FROM generate_series(1000, 300000) AS g(n)")
    c.store.flush()
    cursor = c.execute("SELECT a.k FROM t AS a, t AS b, t AS c -- half")
    cursor.fetchmany(10)
    found = rows(c, OPERATORS, "%-- half")
    assert {operator for _, operator, *_ in found} >= {"TableScan t a", "TableScan t b", "TableScan t c"}
    assert any(count and count > 0 for _, _, count, _, _ in found)
    assert max(count or 0 for _, _, count, _, _ in found) < 299_101**3
    cursor.close()


def test_changes_and_explain_analyze_are_described_like_queries(c, told):
    c.execute("UPDATE t SET v = 'u' WHERE k > 90 -- change")
    assert ("TableScan t", 10) in {(operator, count) for _, operator, count, *_ in rows(c, OPERATORS, "%-- change")}
    c.execute("EXPLAIN ANALYZE SELECT count(*) FROM t -- explained").fetchall()
    assert ("TableScan t", 100) in {(operator, count) for _, operator, count, *_ in rows(c, OPERATORS, "%-- explained")}


def test_fast_executions_of_prepared_statements_are_sampled(c, monkeypatch):
    monkeypatch.setattr(running_work, "KEPT_SECONDS", 3600.0)
    monkeypatch.setattr(running_work, "SAMPLED", 4)
    for number in range(9):
        c.execute("SELECT count(*) FROM t WHERE k > ? -- sampled", (number,)).fetchall()
    described = (
        "SELECT count(DISTINCT statement_id) FROM nyala_catalog.statement_operators o, nyala_catalog.statements s "
    )
    assert rows(c, described + "WHERE s.id = o.statement_id AND statement LIKE '%-- sampled'") == [(2,)]


def test_a_statement_that_was_slow_is_measured_the_next_time():
    past = running_work.PastRuns()
    assert past.begin() and not past.end(0.001)
    assert not past.begin() and past.end(running_work.KEPT_SECONDS)
    assert past.begin()


def test_a_plan_has_one_digest_for_all_literals(c, monkeypatch):
    monkeypatch.setattr(statement_records.records(), "slow_seconds", 0.0)
    query = "SELECT plan_digest FROM nyala_catalog.statements WHERE statement LIKE ?"
    for value in ("a", "bc"):
        c.execute(f"SELECT k FROM t WHERE v = '{value}' -- one").fetchall()
    c.execute("SELECT count(*) FROM t GROUP BY v -- other").fetchall()
    (one, again), (other,) = (rows(c, query, f"%-- {name}") for name in ("one", "other"))
    assert one == again != other and len(one[0]) == 16


def test_long_conditions_and_plans_are_cut(c, told):
    values = ", ".join(str(n) for n in range(3000))
    c.execute(f"SELECT count(*) AS cut FROM t WHERE k + 0 IN ({values})").fetchall()
    (record,) = [record for record in records().recent() if record.text.startswith("SELECT count(*) AS cut FROM t")]
    assert all(len(line.text) < 600 and all(len(d) < 600 for d in line.details) for line in record.operators())
