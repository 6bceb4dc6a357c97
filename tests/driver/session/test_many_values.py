"""Statements of thousands of parameters or literals: the work grows with their number and not with its square."""

import nyala
import pytest
from nyala.driver.session import plan_cache
from work_support import growth


@pytest.fixture
def table(connection):
    connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, x DOUBLE, s STRING)")
    connection.execute("INSERT INTO t VALUES (1, 0.5, 'a'), (2, 1.5, 'b'), (3, NULL, 'c')")
    return connection


def rows_of(n):
    return [value for i in range(n) for value in (i, i * 0.5, f"s{i}")]


def in_positions(n):
    return f"SELECT count(*) FROM t WHERE k IN ({', '.join('?' * n)})", list(range(n))


def in_names(n):
    names = [f"p{i}" for i in range(n)]
    return f"SELECT count(*) FROM t WHERE k IN ({', '.join(f':{name}' for name in names)})", dict(
        zip(names, range(n), strict=True)
    )


def in_numbers(n):
    return f"SELECT count(*) FROM t WHERE k IN ({', '.join(f'${i + 1}' for i in range(n))})", list(range(n))


def in_pairs(n):
    return f"SELECT count(*) FROM t WHERE (k, s) IN ({', '.join(['(?, ?)'] * n)})", [
        value for i in range(n) for value in (i, f"s{i}")
    ]


def values(n):
    return f"SELECT count(*), sum(a) FROM (VALUES {', '.join(['(?, ?, ?)'] * n)}) AS v (a, b, c)", rows_of(n)


def upsert(n):
    return f"UPSERT INTO t (k, x, s) VALUES {', '.join(['(?, ?, ?)'] * n)}", rows_of(n)


def literals(n):
    return f"SELECT count(*) FROM t WHERE k IN ({', '.join(map(str, range(n)))})", None


def literal_rows(n):
    return f"UPSERT INTO t (k, x, s) VALUES {', '.join(f'({i}, -{i}.5, NULL)' for i in range(n))}", None


def arithmetic(n):
    return f"SELECT {', '.join(f'? + {i}' for i in range(n))}", list(range(n))


FORMS = [in_positions, in_names, in_numbers, in_pairs, values, upsert, literals, literal_rows, arithmetic]


@pytest.mark.embedded_only("counts the work on texts and plans, which is above the Store protocol")
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [False, True], ids=["first", "prepared"])
@pytest.mark.parametrize("form", FORMS)
def test_the_work_is_linear_in_the_number_of_values(table, monkeypatch, form, prepared):
    monkeypatch.setattr(plan_cache, "FEW_PARAMETERS", 1 << 30 if prepared else 0)

    def run(n):
        text, parameters = form(n)
        # A text of its own each time, so that no plan is known.
        run.count += 1
        cursor = table.execute(f"{text} -- {run.count}", parameters)
        if cursor.description is not None:
            cursor.fetchall()

    run.count = 0
    assert growth(run, 300) < 2.6


@pytest.mark.embedded_only("counts the work on texts and plans, which is above the Store protocol")
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_second_run_of_the_same_text_is_linear_too(table, form):
    def run(n):
        text, parameters = form(n)
        cursor = table.execute(text, parameters)
        if cursor.description is not None:
            cursor.fetchall()

    for n in (300, 600):
        for _ in "123":
            run(n)
    assert growth(run, 300) < 2.6


@pytest.mark.slow
def test_as_many_parameters_as_a_protocol_allows(table):
    text, parameters = in_positions(32_767)
    assert table.execute(text, parameters).fetchall() == [(3,)]
    text, parameters = upsert(10_000)
    table.execute(text, parameters)
    assert table.execute("SELECT count(*), max(x) FROM t").fetchall() == [(10_000, 4999.5)]


def test_a_list_of_many_values_is_prepared_when_it_comes_again(table):
    text, parameters = in_positions(plan_cache.FEW_PARAMETERS + 1)
    cache = table._session.plans
    assert table.execute(text, parameters).fetchall() == [(3,)]
    assert text not in cache._entries
    for _ in "12":
        assert table.execute(text, parameters).fetchall() == [(3,)]
    assert text in cache._entries
    assert table.execute(text, [2] * len(parameters)).fetchall() == [(1,)]


@pytest.fixture
def small_cache(monkeypatch):
    monkeypatch.setattr(plan_cache, "MOST_PARAMETERS", 1000)


def test_kept_plans_are_bounded_by_their_parameters(table, small_cache):
    cache = table._session.plans
    for n in range(300, 310):
        text, parameters = in_positions(n)
        for _ in "12":
            table.execute(text, parameters).fetchall()
        assert cache._parameters == sum(entry.parameters for entry in cache._entries.values())
        assert cache._parameters <= plan_cache.MOST_PARAMETERS
    assert len(cache._entries) == 3


def test_variants_of_a_long_text_are_bounded_too(table, small_cache):
    text, n = in_positions(300)[0], 300
    for parameters in ([1] * n, ["1"] * n, [1.0] * n, [1] * (n - 1) + [2.5], [None] * n):
        for _ in "12":
            table.execute(text, parameters).fetchall()
    assert table._session.plans._parameters <= plan_cache.MOST_PARAMETERS


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 63, 64, 65, 500])
def test_long_lists_of_pairs_mean_what_short_ones_mean(connection, n):
    connection.execute("CREATE TABLE p (k INT PRIMARY KEY, d DATE, m DECIMAL(9,2), s STRING)")
    connection.execute(
        "INSERT INTO p VALUES (1, '2024-01-01', 1.50, 'a'), (2, '2024-01-02', 2.00, NULL), (3, NULL, NULL, 'c'),"
        " (4, '2024-01-04', 4.25, 'd')"
    )
    filler = [f"({1000 + i}, '2000-01-01', {i}.125, 'z')" for i in range(n - 3)]
    listed = ["(1, '2024-01-01', 1.5, 'a')", "(2, '2024-01-02', 2, 'b')", "(4, '2024-01-05', 4.25, 'd')"]
    items = ", ".join(listed + filler)
    found = connection.execute(f"SELECT k, (k, d, m, s) IN ({items}) FROM p ORDER BY k").fetchall()
    assert found == [(1, True), (2, None), (3, False), (4, False)]
    assert connection.execute(f"SELECT k FROM p WHERE (k, d, m, s) NOT IN ({items}) ORDER BY k").fetchall() == [
        (3,),
        (4,),
    ]
    with_null = ", ".join(["(4, NULL, 4.25, 'd')", *listed[:2], *filler])
    found = connection.execute(f"SELECT k, (k, d, m, s) IN ({with_null}) FROM p ORDER BY k").fetchall()
    assert found == [(1, True), (2, None), (3, False), (4, None)]
    connection.execute(f"DELETE FROM p WHERE (k, d, m, s) IN ({items})")
    assert connection.execute("SELECT count(*) FROM p").fetchall() == [(3,)]
    marks = ", ".join(["(?, ?)"] * n)
    pairs = [value for i in range(n) for value in (i, "c" if i == 3 else "x")]
    expected = [(3,)] if n > 3 else []
    assert connection.execute(f"SELECT k FROM p WHERE (k, s) IN ({marks})", pairs).fetchall() == expected
    with pytest.raises(nyala.ProgrammingError, match="LINE 1"):
        connection.execute(f"SELECT k FROM p WHERE (k, d) IN ({', '.join(['(1, TRUE)'] * n)})")
