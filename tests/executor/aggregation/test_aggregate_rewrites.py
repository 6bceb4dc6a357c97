"""Group keys computed from others, and sums of a column plus constants: the results are those of each by itself."""

from __future__ import annotations

import math
from collections import defaultdict

import nyala
import pytest
from examples import few
from nyala.errors import NumericOutOfRange

TYPES = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}


@pytest.fixture(scope="module")
def connection():
    with nyala.connect(":memory:", threads=2) as connection:
        columns = ", ".join(f"c{name.lower()} {name}" for name in TYPES)
        connection.execute(f"CREATE TABLE r (k INT PRIMARY KEY, g INT, {columns}, d DOUBLE, t STRING)")
        rows = []
        for k in range(60):
            numbers = [None if k % 5 == 4 else (k * 7919) % end - end // 2 for end in TYPES.values()]
            rows.append((k, k % 4, *numbers, [0.0, -0.0, math.nan, 1.5][k % 4], ["a", "", None][k % 3]))
        extremes = [[-end for end in TYPES.values()], [end - 1 for end in TYPES.values()]]
        rows += [(100 + i, 100 + i, *values, 1.0, "x") for i, values in enumerate(extremes)]
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * 8)})", rows)
        yield connection


@pytest.mark.parametrize("column", few([f"c{name.lower()}" for name in TYPES], 2))
@pytest.mark.parametrize("where", ["g < 100", "g = 100", "g = 101", "k % 5 = 4 AND g < 100", "FALSE"])
@pytest.mark.parametrize("by", ["", "GROUP BY g", "GROUP BY ROLLUP (g)"])
def test_sums_of_offsets_are_those_of_each_alone(
    connection: nyala.Connection, column: str, where: str, by: str
) -> None:
    calls = [f"sum({column} {part})" for part in ("+ 1", "- 2", "+ 100", "- 100", "+ 0")]
    calls += [f"sum({part} {column})" for part in ("1 +", "0 -", "7 -")]
    calls += [f"sum({column} + 5) FILTER (WHERE k % 2 = 0)", f"sum({column} + 6) FILTER (WHERE k % 2 = 0)"]
    calls += [f"sum(DISTINCT {column} + 1)", f"avg({column} + 1)", f"sum({column})", f"count({column})"]

    def rows(chosen: list[str]) -> list[tuple[object, ...]] | str:
        keys = ["g"] if by else []
        text = f"SELECT {', '.join([*keys, *chosen])} FROM r WHERE {where} {by} ORDER BY 1"
        try:
            return connection.execute(text).fetchall()
        except NumericOutOfRange:
            return "out of range"

    width = 1 if by else 0
    alone = [rows([call]) for call in calls]
    fitting = [call for call, found in zip(calls, alone, strict=True) if found != "out of range"]
    wanted = [found for found in alone if not isinstance(found, str)]
    together = rows(fitting)
    assert not isinstance(together, str)
    order = [row[0] for row in together] if by else [None] * len(together)
    for place, found in enumerate(wanted):
        expected = [row[width] for row in found] if not by else [dict(found)[key] for key in order]  # type: ignore
        assert [row[width + place] for row in together] == expected, fitting[place]
    if len(fitting) < len(calls):
        assert rows(calls) == "out of range"


DIVISORS = ("2", "100", "-8", "0.5", "12.50", "0.001", "1e10", "65536", "3", "0.3", "2e17", "1e-12", "NULL")


@pytest.mark.parametrize(
    "type_", ["DECIMAL(9, 2)", "DECIMAL(19, 4)", "DECIMAL(38, 2)", "DECIMAL(20, 18)", "BIGINT", "INT"]
)
@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("by", ["", "GROUP BY g"])
def test_sums_of_quotients_are_those_of_the_rows(
    connection: nyala.Connection, type_: str, divisor: str, by: str
) -> None:
    x = f"CAST(cint % 1000000 / {'7.0' if type_.startswith('D') else '1'} AS {type_})"
    if "18" in type_:
        x = f"CAST(cint % 10 / 7.0 AS {type_})"
    quotient = f"{x} / CAST({divisor} AS DECIMAL(38, 16))" if divisor == "1e-12" else f"{x} / {divisor}"
    rows = connection.execute(f"SELECT g, {quotient} FROM r WHERE g < 100").fetchall()
    wanted: dict[int | None, list[object]] = defaultdict(list)
    for g, value in rows:
        wanted[g if by else None] += [] if value is None else [value]
    keys = "g, " if by else "NULL, "
    calls = f"sum({quotient}), sum({quotient}) FILTER (WHERE g = 1), sum({x}), count(*)"
    text = f"SELECT {keys}{calls} FROM r WHERE g < 100 {by}"
    found = connection.execute(text).fetchall()
    assert {row[0]: row[1] for row in found} == {key: sum(each) if each else None for key, each in wanted.items()}


def test_sums_of_quotients_overflow_as_their_rows_do(connection: nyala.Connection) -> None:
    """A row's quotient that does not fit is an error even if another takes it away from the sum."""
    rows = "(VALUES (100000000000000000000000.0), (-100000000000000000000000.0)) AS v (x)"
    assert connection.execute(f"SELECT sum(x) FROM {rows}").fetchone() == (0,)
    with pytest.raises(NumericOutOfRange):
        connection.execute(f"SELECT sum(x / 2) FROM {rows}").fetchall()


@pytest.mark.parametrize(
    ("keys", "fewest"),
    [
        ("g, g - 1, g * 2 + 1", "g"),
        ("cint, cint % 7, coalesce(cint, 0)", "cint"),
        ("t, length(t), t || 'x', g", "t, g"),
        ("d, CAST(d AS STRING)", None),
        ("g - 1, g - 2", None),
        ("k % 3, (k % 3) + 1", None),
    ],
)
def test_groups_computed_from_others_change_nothing(
    connection: nyala.Connection, keys: str, fewest: str | None
) -> None:
    wanted: dict[str, list[int]] = defaultdict(list)
    for *values, k in connection.execute(f"SELECT {keys}, k FROM r").fetchall():
        wanted[repr([value + 0.0 if isinstance(value, float) else value for value in values])].append(k)
    found = connection.execute(f"SELECT {keys}, count(*), sum(k) FROM r GROUP BY {keys}").fetchall()
    groups = [(repr([v + 0.0 if isinstance(v, float) else v for v in row[:-2]]), *row[-2:]) for row in found]
    assert sorted(groups) == sorted((key, len(rows), sum(rows)) for key, rows in wanted.items())
    if fewest is not None:
        text = f"EXPLAIN SELECT {keys}, count(*) FROM r GROUP BY {keys}"
        plan = "\n".join(row[0] for row in connection.execute(text).fetchall())
        assert f"HashAggregate by {fewest}:" in plan
