"""Every function is called with hostile values; one that refuses a row must be known to (`FALLIBLE`, `OVERFLOWING`).

What is not known to refuse rows is computed for all of them: behind CASE, COALESCE, AND, OR and FILTER an error would
come of a row that does not need the value. NYALA_CALLS=500 makes more calls of each function.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from nyala.errors import DataError, Error
from nyala.executor.expression_costs import is_fallible
from nyala.sql import bind, parse
from nyala.sql.functions import FUNCTIONS, Function

CALLS = int(os.environ.get("NYALA_CALLS", "40"))
ROWS = 60
HOSTILE: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "0", "127", "-1"),
    "INT": ("-2147483648", "2147483647", "0", "-1", "3"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807", "0", "1", "-1", "63", "64", "100"),
    "DECIMAL(9,2)": ("-9999999.99", "9999999.99", "0", "0.5", "-0.01"),
    "DECIMAL(38,0)": ("9" * 38, "-" + "9" * 38, "0", "1", "170"),
    "DECIMAL(38,10)": ("9" * 28 + ".9999999999", "-1.5", "0"),
    "DOUBLE": ("'nan'", "'inf'", "'-inf'", "1e308", "-1e308", "0", "-0.5", "2", "1000"),
    "STRING": (
        "''",
        "'a'",
        "'-1'",
        "'('",
        "'[a'",
        "'a\\'",
        "'%'",
        "'2024-13-45'",
        "'zz'",
        "'1e999'",
        "'é😀'",
        "'YYYY'",
    ),
    "BINARY": ("x''", "x'ff'", "x'e29882'"),
    "BOOLEAN": ("TRUE", "FALSE"),
    "DATE": ("'0001-01-01'", "'9999-12-31'", "'2024-02-29'"),
    "TIMESTAMP": ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:00:00'"),
}
SPANS = ("0 days", "-9999 years", "2147483647 months", "-2147483648 days", "1 day", "2562047788 hours")
SIGNS = ("+", "-", "*", "/", "%", "=", "<", "||", "&", "|", "#", "<<", ">>", "LIKE", "ILIKE")
OPERATORS = (
    *(f"{{}} {sign} {{}}" for sign in SIGNS),
    *("- {}", "~ {}", "NOT {}", "{} IS NULL", "{} IS DISTINCT FROM {}", "{} BETWEEN {} AND {}", "{} IN ({}, {})"),
    *("{} ~ {}", "{} ~* {}", "{} SIMILAR TO {}", "CAST({} AS STRING)", "CASE WHEN {} THEN {} ELSE {} END"),
    *("EXTRACT(year FROM {})", "EXTRACT(epoch FROM {})", "date_trunc('week', {})", "TRY_CAST({} AS SMALLINT)"),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile() -> Iterator[Any]:
    chosen = random.Random(1)
    with nyala.connect(":memory:", threads=1) as connection:
        columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(HOSTILE))
        connection.execute(f"CREATE TABLE h (k INT PRIMARY KEY, s STRING, {columns})")
        for row in range(ROWS):
            cells = (f"CAST({chosen.choice(values)} AS {type_})" for type_, values in HOSTILE.items())
            connection.execute(f"INSERT INTO h VALUES ({row}, '{chosen.choice(SPANS)}', {', '.join(cells)})")
        yield connection


def _arguments(function: Function) -> list[list[str]]:
    """Per place, what a call may have there: hostile columns, and what the function's example has."""
    columns = [*(f"c{i}" for i in range(len(HOSTILE))), "CAST(s AS INTERVAL)"]
    constants = re.findall(r"'[^']*'|\b\d+(?:\.\d+)?\b", function.example)
    most = max(function.least, min(4, function.most if function.most is not None else 3))
    return [columns + constants * (len(columns) // max(1, 2 * len(constants))) for _ in range(most)]


def _check(connection: Any, text: str) -> bool:
    """Call it; True where the binder takes it."""
    try:
        statement = bind(parse(f"SELECT {text} FROM h")[0], connection.store)
    except Error:
        return False
    ((_, expr),) = statement.query.body.projection
    try:
        connection.execute(f"SELECT {text} FROM h").fetchall()
    except DataError as error:
        assert is_fallible(expr), f"{text} refuses a row, and is not known to: {error}"
    return True


def _calls(function: Function) -> Iterator[str]:
    places = _arguments(function)
    chosen = random.Random(function.name)
    for _ in range(CALLS):
        count = chosen.randint(function.least, len(places)) if places else 0
        yield f"{function.name}({', '.join(chosen.choice(place) for place in places[:count])})"


SCALAR = [f for f in FUNCTIONS if f.kind == "scalar" and f.most != 0 and not f.volatile]


@pytest.mark.parametrize("function", SCALAR, ids=lambda f: f.name)
def test_functions_that_refuse_a_row_are_known(hostile: Any, function: Function) -> None:
    for text in dict.fromkeys(_calls(function)):
        _check(hostile, text)


@pytest.mark.parametrize("form", OPERATORS)
def test_operators_that_refuse_a_row_are_known(hostile: Any, form: str) -> None:
    columns = [*(f"c{i}" for i in range(len(HOSTILE))), "CAST(s AS INTERVAL)"]
    chosen = random.Random(form)
    taken = 0
    for _ in range(CALLS):
        # Most operators want two values of one type.
        args = chosen.choices([chosen.choice(columns)] * 2 if chosen.random() < 0.7 else columns, k=form.count("{}"))
        taken += _check(hostile, form.format(*args))
    assert taken
