"""Window calls over a table `r`: random ones, one of each kind, and queries around them."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

Row = tuple[Any, ...]

START = datetime.date(2024, 1, 1)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a unique id, ties, NULLs, numbers that add up beyond 64 bits; sometimes none at all."""
    count = draw(st.sampled_from([0, 1, 2, 7, 30, 90]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    holes = draw(st.sampled_from([0.0, 0.2, 1.0]))

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < holes else v for v in values], type_)

    spread = draw(st.sampled_from([2, 9, 40]))
    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-500, 500, count)]
    return pa.table(
        {
            "id": pa.array(rng.permutation(count), pa.int64()),
            "g": column(rng.integers(0, 3, count).tolist(), pa.int32()),
            "n": column(rng.integers(-spread, spread, count).tolist(), pa.int32()),
            "big": column((rng.integers(-3, 4, count) * (2**61)).tolist(), pa.int64()),
            "t": column([("a", "b", "é", "")[i] for i in rng.integers(0, 4, count)], pa.string()),
            "m": column(money, pa.decimal128(15, 2)),
            "w": column([v * 10**20 for v in money], pa.decimal128(38, 2)),
            "f": column((rng.integers(-8, 8, count) / 4).tolist(), pa.float64()),
            "d": column([START + datetime.timedelta(int(i)) for i in rng.integers(0, 99, count)], pa.date32()),
        }
    )


KEYS = ("n", "m", "t", "d", "f", "big", "w", "g", "n % 3", "id")
OFFSETS = {"n": ("0", "1", "3"), "m": ("0.5", "2", "1.25"), "f": ("0.25", "1.5"), "id": ("2",), "big": ("5",)}
OFFSETS["d"] = ("INTERVAL '3' DAY", "INTERVAL '1' MONTH", "INTERVAL '0' DAY")
AGGREGATES = (
    "count(*)",
    "count({})",
    "min({})",
    "max({})",
    "first_value({})",
    "last_value({})",
    "nth_value({}, 2)",
)
NUMBERS = ("sum(n)", "sum(m)", "sum(big)", "sum(w)", "sum(f)", "avg(f)", "avg(n)", "sum(n * 2)", "stddev_samp(n)")
PLACES = ("row_number()", "ntile(3)", "lag({})", "lead({}, 2)", "lag({0}, -1, {0})", "lead({}, n)")
RANKS = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()")


def directed(draw: st.DrawFn, key: str) -> str:
    return key + draw(st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]))


@st.composite
def bounds(draw: st.DrawFn, offsets: tuple[str, ...]) -> str:
    """Two bounds of which the first is not behind the second."""
    sides = ["UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING"]
    start = draw(st.integers(0, 3))
    end = draw(st.integers(max(1, start), 4))
    found = [sides[i].format(draw(st.sampled_from(offsets))) for i in (start, end)]
    return f"BETWEEN {found[0]} AND {found[1]}"


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, bool]:
    """Text in OVER's parentheses, and whether its ORDER BY orders all rows."""
    parts = []
    if draw(st.booleans()):
        parts.append(f"PARTITION BY {draw(st.sampled_from(['g', 't', 'g, t', 'm', 'n % 2', 'd']))}")
    unit = draw(st.sampled_from(["", "ROWS", "GROUPS", "RANGE", "RANGE"]))
    keys = [draw(st.sampled_from(tuple(OFFSETS) if unit == "RANGE" else KEYS))]
    keys += draw(st.lists(st.sampled_from(KEYS), max_size=1)) if unit != "RANGE" else []
    total = unit != "RANGE" and (unit == "ROWS" or draw(st.booleans()))
    order = [directed(draw, key) for key in (*keys, "id")[: len(keys) + total]]
    if order and (unit or draw(st.booleans())):
        parts.append(f"ORDER BY {', '.join(order)}")
    else:
        total = False
    if unit:
        offsets = OFFSETS[keys[0]] if unit == "RANGE" else ("0", "1", "2", "1000")
        parts.append(f"{unit} {draw(bounds(offsets))}")
        parts.append(draw(st.sampled_from(["", "", "EXCLUDE CURRENT ROW", "EXCLUDE GROUP", "EXCLUDE TIES"])))
    return " ".join(part for part in parts if part), total or keys == ["id"]


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A window call whose value does not depend on the order of peers."""
    window, total = draw(windows())
    column = draw(st.sampled_from(["n", "t", "m", "d", "id", "big", "w", "f"]))
    kinds = ["aggregate", "number", "rank"] + (["place", "value"] if total and "ORDER BY" in window else [])
    kind = draw(st.sampled_from(kinds))
    test = draw(st.sampled_from(["", "", " FILTER (WHERE n > 0)"]))
    if kind == "rank":
        bare = window.split(" ROWS")[0].split(" RANGE")[0].split(" GROUPS")[0]
        bare = "" if bare.startswith(("ROWS", "RANGE", "GROUPS")) else bare
        return f"{draw(st.sampled_from(RANKS))} OVER ({bare})"
    if kind == "number":
        return f"{draw(st.sampled_from(NUMBERS))}{test} OVER ({window})"
    if kind == "aggregate":
        return f"{draw(st.sampled_from(AGGREGATES[:4])).format(column)}{test} OVER ({window})"
    if kind == "place":
        bare = window.split(" ROWS")[0].split(" GROUPS")[0]
        return f"{draw(st.sampled_from(PLACES)).format(column)} OVER ({bare})"
    nulls = draw(st.sampled_from(["", " IGNORE NULLS"]))
    call = draw(st.sampled_from(AGGREGATES[4:])).format(column)
    return f"{call}{nulls} OVER ({window})"


def rounded(rows: list[Row]) -> list[Row]:
    """Numbers to seven digits, as DuckDB's avg of exact numbers is a DOUBLE."""
    return [tuple(_rounded(value) for value in row) for row in rows]


def _rounded(value: Any) -> Any:
    return f"{float(value) + 0.0:.7g}" if isinstance(value, int | float | decimal.Decimal) else value


LARGE = (
    "stddev_samp({n}) OVER (ORDER BY id)",
    "var_pop(f) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 90 PRECEDING AND 200 FOLLOWING EXCLUDE CURRENT ROW)",
    "corr(n, f) OVER (ORDER BY id ROWS BETWEEN 90 PRECEDING AND UNBOUNDED FOLLOWING)",
    "bit_and({n}) FILTER (WHERE n > 0) OVER (ORDER BY id DESC)",
    "bool_or(n > 3) OVER (ORDER BY id ROWS BETWEEN 100 PRECEDING AND 70 PRECEDING)",
    "max_by(t, f) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 70 FOLLOWING)",
    "string_agg(t, '-') OVER (PARTITION BY g ORDER BY id ROWS 20 PRECEDING)",
    "string_agg(t, '-') FILTER (WHERE n > 0) OVER (ORDER BY id)",
    "sum(f) OVER (ORDER BY id ROWS BETWEEN 77 PRECEDING AND 5 FOLLOWING EXCLUDE GROUP)",
    "max(w) OVER (ORDER BY id ROWS BETWEEN 77 PRECEDING AND 5 FOLLOWING EXCLUDE GROUP)",
    "min(t) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 300 FOLLOWING AND UNBOUNDED FOLLOWING)",
)

QUERIES = (
    "SELECT t, sum(n), sum(sum(n)) OVER (ORDER BY t), rank() OVER (ORDER BY count(*) DESC) FROM r GROUP BY t",
    "SELECT g, avg(count(*)) OVER (), max(g) OVER (ORDER BY g ROWS 1 PRECEDING) FROM r GROUP BY g HAVING count(*) > 1",
    "SELECT id, t FROM r QUALIFY row_number() OVER (PARTITION BY t ORDER BY id) <= 2",
    "SELECT id, sum(n) OVER w AS s FROM r WINDOW w AS (PARTITION BY g ORDER BY id) QUALIFY s > 2 OR id % 3 = 0",
    "SELECT g, max(id) FROM r GROUP BY g QUALIFY dense_rank() OVER (ORDER BY g) = 2",
    "SELECT DISTINCT ON (g) g, id, n FROM r ORDER BY g, n DESC, id",
    "SELECT DISTINCT ON (t, g) id FROM r ORDER BY g DESC, t, id DESC",
    "SELECT DISTINCT count(*) OVER (PARTITION BY g), rank() OVER (ORDER BY g) FROM r",
    "SELECT id FROM r ORDER BY row_number() OVER (ORDER BY n, id DESC), id LIMIT 3",
    "SELECT * FROM (SELECT id, g, t, sum(n) OVER (PARTITION BY g, t ORDER BY id) FROM r) AS q WHERE g = 1 AND t > 'a'",
    "SELECT * FROM (SELECT id, g, sum(n) OVER (PARTITION BY g) AS s, lag(n) OVER (ORDER BY id) FROM r) "
    "AS q WHERE s > 0",
    "SELECT a.id, (SELECT max(p) FROM (SELECT rank() OVER (ORDER BY b.n) AS p FROM r AS b WHERE b.g = "
    "a.g) AS q) FROM r AS a",
    "SELECT a.id, (SELECT sum(s) FROM (SELECT sum(b.n) OVER (ORDER BY b.id) AS s FROM r AS b WHERE b.id "
    "< a.id) AS q) FROM r AS a",
    "SELECT id FROM r AS a WHERE EXISTS (SELECT 1 FROM (SELECT row_number() OVER (ORDER BY b.id) AS p "
    "FROM r AS b WHERE b.t = a.t) AS q WHERE p = 3)",
    "SELECT id, sum((SELECT count(*) FROM r AS b WHERE b.g = a.g)) OVER (ORDER BY id) FROM r AS a",
    "WITH c AS (SELECT id, n, sum(n) OVER (ORDER BY id) AS s, lag(n) OVER (ORDER BY id) FROM r) SELECT "
    "a.id, b.s FROM c AS a JOIN c AS b ON a.id = b.n",
    "SELECT count(*) OVER (), id FROM r WHERE n > 0 UNION ALL SELECT row_number() OVER (ORDER BY id), 0 FROM r",
    "SELECT id, CASE WHEN n > 0 THEN lag(n, 1, 0) OVER (PARTITION BY g ORDER BY id) ELSE rank() OVER "
    "(ORDER BY g) END FROM r",
)
