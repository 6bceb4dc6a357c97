"""Statements nested by hundreds of levels, which PostgreSQL takes, and what becomes of those that are too deep."""

import asyncio
import sys
import threading

import nyala
import pytest
from nyala import errors
from nyala.driver.session import statement_records
from nyala.sql.deep_stack import MOST_CALLS, deeply, on_deep_stack, require
from nyala.sql.syntax.parser import parse

pytestmark = pytest.mark.embedded_only("nests texts, which is above the Store protocol")

LEVELS = 500
# Python 3.12 allows 1,500 calls through C on any stack; sqlglot takes 4 of them for each subquery in FROM.
FROM_LEVELS = 300 if sys.version_info[:2] == (3, 12) else LEVELS


@pytest.fixture(autouse=True)
def limit():
    """A caller that was deep itself has left the limit raised; it is lowered at the next time."""
    on_deep_stack(int)
    assert sys.getrecursionlimit() < MOST_CALLS


@pytest.fixture
def table(connection):
    connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING)")
    connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    return connection


NESTED = {
    "parentheses": lambda n: ("SELECT " + "(" * n + "k" + ")" * n + " FROM t WHERE k = 2", 2),
    "calls": lambda n: ("SELECT " + "abs(" * n + "k" + ")" * n + " FROM t WHERE k = 2", 2),
    "arguments": lambda n: ("SELECT " + "replace(" * n + "s" + ", 'a', 'b')" * n + " FROM t WHERE k = 1", "b"),
    "coalesce": lambda n: ("SELECT " + "coalesce(" * n + "s" + ", 'x')" * n + " FROM t WHERE k = 3", "x"),
    "casts": lambda n: ("SELECT " + "CAST(" * n + "k" + " AS STRING)" * n + " FROM t WHERE k = 2", "2"),
    "else": lambda n: (
        "SELECT " + "".join(f"CASE WHEN k = {i + 9} THEN {i} ELSE " for i in range(n)) + "7" + " END" * n
        + " FROM t LIMIT 1",
        7,
    ),
    "then": lambda n: (
        "SELECT " + "".join(f"CASE WHEN k < {i + 9} THEN " for i in range(n)) + "7" + " END" * n + " FROM t LIMIT 1",
        7,
    ),
    "not": lambda n: ("SELECT count(*) FROM t WHERE " + "NOT " * n + "k = 1", 1),
    "not in parentheses": lambda n: ("SELECT count(*) FROM t WHERE " + "NOT (" * n + "k = 1" + ")" * n, 1),
    "signs": lambda n: ("SELECT " + "- " * n + "k FROM t WHERE k = 2", 2),
    "and in or": lambda n: (
        "SELECT count(*) FROM t WHERE "
        + "".join(f"(k <> {i + 9} {'AND' if i % 2 else 'OR'} " for i in range(n))
        + "k = 1"
        + ")" * n,
        3,
    ),
    "right operands": lambda n: ("SELECT " + "k + (" * n + "k" + ")" * n + " FROM t WHERE k = 2", 2 * n + 2),
    "in": lambda n: ("SELECT count(*) FROM t WHERE " + "k IN (SELECT k FROM t WHERE " * n + "k = 1" + ")" * n, 1),
    "exists": lambda n: ("SELECT count(*) FROM t WHERE " + "EXISTS (SELECT k FROM t WHERE " * n + "k = 1" + ")" * n, 3),
    "scalar": lambda n: ("SELECT " + "(SELECT " * n + "1" + ")" * n, 1),
    "sum": lambda n: ("SELECT " + " + ".join(["k"] * 4 * n) + " FROM t WHERE k = 2", 8 * n),
    "product": lambda n: ("SELECT " + " * ".join(["k"] * n) + " FROM t WHERE k = 1", 1),
    "and": lambda n: ("SELECT count(*) FROM t WHERE " + " AND ".join(f"k <> {i + 3}" for i in range(10 * n)), 2),
    "or": lambda n: ("SELECT count(*) FROM t WHERE " + " OR ".join(f"k = {i + 3}" for i in range(10 * n)), 1),
    "concatenation": lambda n: ("SELECT length(" + " || ".join(["s"] * 4 * n) + ") FROM t WHERE k = 1", 4 * n),
    "union all": lambda n: (
        "SELECT count(*) FROM (" + " UNION ALL ".join(f"SELECT {i}" for i in range(2 * n)) + ") AS u",
        2 * n,
    ),
    "from": lambda n: ("SELECT count(*) FROM " + "(SELECT k + 1 AS k FROM " * n + "t" + ") AS x" * n, 3),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", NESTED)
def test_five_hundred_levels(table, form):
    text, expected = NESTED[form](FROM_LEVELS if form == "from" else LEVELS)
    before = sys.getrecursionlimit()
    assert table.execute(text).fetchall() == [(expected,)]
    assert sys.getrecursionlimit() == before
    if form in ("calls", "from", "union all"):
        assert table.execute("EXPLAIN " + text).fetchall()


@pytest.mark.parametrize("form", ["calls", "else", "in"])
def test_with_parameters(table, form):
    text, expected = NESTED[form](200)
    for _ in "12":
        assert table.execute(f"SELECT *, ? FROM ({text}) AS x", ["p"]).fetchall() == [(expected, "p")]


def test_changes(table):
    value, _ = NESTED["calls"](LEVELS)
    value = value.removeprefix("SELECT ").split(" FROM ")[0]
    table.execute(f"INSERT INTO t SELECT k + 10, CAST({value} AS STRING) FROM t")
    assert table.execute("SELECT s FROM t WHERE k > 10 ORDER BY k").fetchall() == [("1",), ("2",), ("3",)]
    table.execute(f"UPDATE t SET s = 'x' WHERE {value} = 2")
    assert table.execute("SELECT s FROM t WHERE k = 2").fetchall() == [("x",)]
    assert table.execute(f"DELETE FROM t WHERE {value} > 10").rowcount == 3
    table.execute(f"CREATE TABLE u (PRIMARY KEY (k)) AS SELECT {value} AS k FROM t")
    assert table.execute("SELECT count(*) FROM u").fetchall() == [(3,)]


def test_views(table):
    text, expected = NESTED["calls"](LEVELS)
    table.execute("CREATE VIEW v AS " + text.replace(" FROM t", " AS k FROM t"))
    assert table.execute("SELECT * FROM v").fetchall() == [(expected,)]
    shown = table.execute("SHOW CREATE VIEW v").fetchone()[0]
    assert shown.count("ABS(") == LEVELS
    table.execute("CREATE VIEW w AS SELECT k + 1 AS k FROM v")
    assert table.execute("SELECT * FROM w").fetchall() == [(expected + 1,)]
    with pytest.raises(errors.ProgrammingError):
        table.execute("ALTER TABLE t DROP COLUMN k")


def test_a_result_that_is_read_slowly(table):
    value = "abs(" * LEVELS + "k" + ")" * LEVELS
    table.execute("CREATE TABLE many (k BIGINT PRIMARY KEY)")
    table.execute("INSERT INTO many SELECT * FROM generate_series(1, 400000)")
    before = sys.getrecursionlimit()
    cursor = table.execute(f"SELECT {value} FROM many")
    assert cursor.fetchone()
    assert sum(batch.num_rows for batch in cursor.record_batches()) == 399_999
    assert sys.getrecursionlimit() == before
    cursor = table.execute(f"SELECT {value} FROM many")
    cursor.fetchone()
    cursor.close()
    assert sys.getrecursionlimit() == before


def test_threads_side_by_side(table):
    text, expected = NESTED["else"](200)
    found = []

    restored = threading.Event()

    def work():
        restored.wait()
        found.append(table.cursor().execute(text).fetchall())

    before = threading.stack_size(256 << 10)  # as small as some systems make them
    try:
        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
    finally:
        threading.stack_size(before)
    # Not before: a deep statement sets the size for a moment, too, and would bring the small one back for good.
    restored.set()
    limit = sys.getrecursionlimit()
    for thread in threads:
        thread.join()
    assert found == [[(expected,)]] * 12
    assert sys.getrecursionlimit() <= limit


def test_asyncio():
    text = NESTED["parentheses"](LEVELS)[0].replace("k", "1", 1).split(" FROM")[0]

    async def work():
        async with nyala.aio.connect(":memory:") as connection:
            cursor = await connection.execute(text)
            return await cursor.fetchall()

    assert asyncio.run(work()) == [(1,)]


def test_a_caller_that_is_deep_itself(table):
    def call(levels):
        return call(levels - 1) if levels else table.execute("SELECT abs(abs(abs(1)))").fetchall()

    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    assert call(sys.getrecursionlimit() - depth - 60) == [(1,)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, 20_006),
        ("SELECT 1,\n" + "CASE WHEN TRUE THEN " * 10_000 + "1" + " END" * 10_000, None),
    ],
)
def test_too_deep_has_a_place_and_a_way_out(table, text, place):
    with pytest.raises(errors.StatementTooComplex) as caught:
        table.execute(text)
    assert caught.value.sqlstate == "54001"
    message = str(caught.value)
    assert "0,000 parentheses and CASEs are open here" in message
    assert "temporary table" in message
    assert "LINE " in message and "^" in message
    assert table.execute("SELECT 1").fetchall() == [(1,)]


def test_a_deep_stack_gives_what_the_work_gives():
    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    before = sys.getrecursionlimit()
    assert deeply(lambda: depth(20_000)) == 20_000
    assert on_deep_stack(lambda: on_deep_stack(lambda: deeply(lambda: depth(20_000)))) == 20_000
    with pytest.raises(RecursionError):
        deeply(lambda: depth(10**6))
    with pytest.raises(ZeroDivisionError):
        on_deep_stack(lambda: 1 // 0)
    assert sys.getrecursionlimit() == before


def test_an_interrupt_waits_for_the_work(monkeypatch):
    began, stopped = threading.Event(), threading.Event()
    join = threading.Thread.join

    def interrupted(self, timeout=None):
        if not stopped.is_set():
            began.wait(90)
            raise KeyboardInterrupt
        join(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)

    def work():
        began.set()
        assert stopped.wait(90)

    with pytest.raises(KeyboardInterrupt):
        on_deep_stack(work, stopped.set)


def test_the_limit_is_raised_while_a_deep_stack_is_at_work():
    before = sys.getrecursionlimit()
    inside = threading.Event()

    def work():
        assert inside.wait(90)
        return sys.getrecursionlimit()

    found = []
    threads = [threading.Thread(target=lambda: found.append(on_deep_stack(work))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert on_deep_stack(sys.getrecursionlimit) == MOST_CALLS
    assert sys.getrecursionlimit() == MOST_CALLS  # others are at work
    inside.set()
    for thread in threads:
        thread.join()
    assert found == [MOST_CALLS] * 3
    assert sys.getrecursionlimit() == before


def test_the_limit_is_not_lowered_below_a_thread():
    """Python 3.11 ends the process where a thread is far beyond the limit."""
    before = sys.getrecursionlimit()
    deep, end = threading.Event(), threading.Event()

    def down(levels):
        if levels:
            down(levels - 1)
        else:
            deep.set()
            end.wait(90)

    def work():
        inner = threading.Thread(target=down, args=(before + 500,))
        inner.start()
        assert deep.wait(90)
        return inner

    inner = on_deep_stack(work)
    assert sys.getrecursionlimit() == MOST_CALLS
    end.set()
    inner.join()
    on_deep_stack(int)
    assert sys.getrecursionlimit() == before


def test_the_programs_own_limit_stays():
    before = sys.getrecursionlimit()
    try:
        assert on_deep_stack(lambda: sys.setrecursionlimit(MOST_CALLS + 1)) is None
        assert sys.getrecursionlimit() == MOST_CALLS + 1
    finally:
        sys.setrecursionlimit(before)


def test_a_deep_stack_can_be_asked_for():
    with pytest.raises(RecursionError):
        require()
    assert deeply(lambda: require() or 7) == 7


@pytest.mark.slow
@pytest.mark.parametrize("form", NESTED)
def test_tokens_tell_what_is_deep(form):
    assert parse(NESTED[form](LEVELS)[0])[0].deep
    assert not parse(NESTED[form](5)[0])[0].deep


def test_lists_of_constants_are_not_deep():
    (statement,) = parse("INSERT INTO t VALUES " + ", ".join(f"({i}, -{i}, 'a', ?)" for i in range(3000)))
    assert not statement.deep
    (statement,) = parse(
        f"SELECT a + 1, {', '.join(f'b{i} * 2 AS c{i}' for i in range(1000))} FROM t WHERE k IN (1, 2)"
    )
    assert not statement.deep


@pytest.mark.parametrize("kind", ["calls", "in", "from"])
def test_a_slow_deep_statement_keeps_its_plan(table, monkeypatch, kind):
    monkeypatch.setattr(statement_records.records(), "slow_seconds", 0.0)
    levels = FROM_LEVELS if kind == "from" else LEVELS
    text, expected = NESTED[kind](levels)
    assert table.execute(text).fetchall() == [(expected,)]
    assert statement_records.records().slow()[0].plan.count("\n") > 0
