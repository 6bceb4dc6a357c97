"""Functions against DuckDB where it agrees with PostgreSQL, and against laws where there is no other reference."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import duckdb
import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.numbers import number_templates
from nyala.executor.kernels.texts import text_encodings, text_quoting
from nyala.executor.kernels.times import date_templates
from nyala.model.types import DECIMAL, STRING, TIMESTAMP, DataType, Interval
from nyala.model.vectors.vector import Const
from nyala.sql import interval_text

pytestmark = pytest.mark.embedded_only("reads no table: the same on every store")

MOMENTS = st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(9998, 12, 31))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SMALL = st.integers(-(2**31), 2**31 - 1)


few = settings(max_examples=examples(8), deadline=None)
"""Each example is a statement of some twenty expressions in two databases."""


class Both:
    """The same expressions over the same rows in both databases."""

    def __init__(self) -> None:
        self.nyala = nyala.connect(":memory:")
        self.duckdb = duckdb.connect(":memory:")
        self.duckdb.execute("SET TimeZone = 'UTC'")

    def check(self, values: str, *pairs: str | tuple[str, str]) -> None:
        """Compare results. `values` is a VALUES list with columns x and y; a pair is nyala's spelling and DuckDB's."""
        ours, theirs = zip(*((pair, pair) if isinstance(pair, str) else pair for pair in pairs))
        source = f"(VALUES {values}) AS t (k, x, y) ORDER BY k"
        found = self.nyala.execute(f"SELECT {', '.join(ours)} FROM {source}").fetchall()
        expected = self.duckdb.execute(f"SELECT {', '.join(theirs)} FROM {source}").fetchall()
        assert [tuple(map(_plain, row)) for row in found] == [tuple(map(_plain, row)) for row in expected]


def _plain(value: Any) -> Any:
    return pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    found = Both()
    yield found
    found.nyala.close()


def rows(*columns: list[str]) -> str:
    return ", ".join(f"({k}, {', '.join(cells)})" for k, cells in enumerate(zip(*columns)))


@few
@given(st.lists(st.tuples(MOMENTS, MOMENTS), min_size=1, max_size=6))
def test_parts_of_timestamps(both: Both, pairs: list[tuple[Any, Any]]) -> None:
    values = rows(*([f"TIMESTAMP '{moment}'" for moment in column] for column in zip(*pairs)))
    fields = ["year", "isoyear", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute"]
    fields += ["microseconds", "decade", "century", "millennium"]
    units = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "decade"]
    both.check(
        values,
        *(f"extract({field} FROM x)" for field in fields),
        ("second(x)", "extract(second FROM x)"),
        *(f"date_trunc('{unit}', x)" for unit in units),
        *(f"datediff('{unit}', x, y)" for unit in units if unit != "week"),
        "last_day(x)",
        "dayname(x)",
        "monthname(x)",
        ("CAST(extract(epoch FROM x) * 1000000 AS BIGINT)", "epoch_us(x)"),
    )


@few
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=6))
def test_bits_and_divisors(both: Both, pairs: list[tuple[int, int]]) -> None:
    values = rows(*([str(number) for number in column] for column in zip(*pairs)))
    wide = "CAST({} AS BIGINT)"
    x, y = wide.format("x"), wide.format("y")
    both.check(
        values,
        f"{x} & {y}",
        f"{x} | {y}",
        (f"{x} # {y}", f"xor({x}, {y})"),
        f"~{x}",
        (f"{x} >> 3", f"{x} >> 3"),
        f"gcd({x}, {y})",
        ("to_hex(abs(" + x + "))", "lower(hex(abs(" + x + ")))"),
        f"sign({x})",
    )


@few
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.001, 1000)), min_size=1, max_size=6))
def test_functions_of_floats(both: Both, pairs: list[tuple[float, float]]) -> None:
    values = rows(*([f"CAST('{number!r}' AS DOUBLE)" for number in column] for column in zip(*pairs)))
    names = ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "cbrt", "degrees"]
    names += ["radians", "trunc", "floor", "ceil"]
    both.check(
        values,
        *(f"{name}(x)" for name in names),
        *(f"{name}(y)" for name in ("sqrt", "ln", "log10", "log2")),
        "atan2(x, y)",
        "power(y, x)",
        "isnan(x)",
    )


@few
@given(st.lists(st.tuples(TEXTS, st.text("ab%_ .", max_size=3)), min_size=1, max_size=6))
def test_functions_of_texts(both: Both, pairs: list[tuple[str, str]]) -> None:
    quoted = [[text_quoting.quote_literal(text) for text in column] for column in zip(*pairs)]
    both.check(
        rows(*quoted),  # type: ignore[arg-type]
        "ends_with(x, y)",
        "contains(x, y)",
        "starts_with(x, y)",
        "concat_ws(y, x, NULL, 'z')",
        "concat_ws('-', nullif(x, 'ab'), nullif(y, 'a'))",
        "lpad(x, 7, '*')",
        "rpad(x, 7, '-')",
        "translate(x, 'ab', 'c')",
        "md5(x)",
        "bit_length(x)",
        "levenshtein(y, 'ab')",
        ("regexp_like(y, 'a|b')", "regexp_matches(y, 'a|b')"),
        "regexp_replace(y, '([ab])', '<\\1>', 'g')",
        ("y ~ '^a'", "regexp_matches(y, '^a')"),
    )


def test_texts_of_nothing_join_to_an_empty_one_and_no_number_stays_none(both: Both) -> None:
    both.check(rows(["NULL", "'a'"], ["NULL", "NULL"]), "concat_ws('-', x, y)")
    infinite = rows(["CAST('infinity' AS DOUBLE)", "CAST('-infinity' AS DOUBLE)"], ["1", "2"])
    both.check(infinite, "round(x, -2)", "round(x, 2)")
    both.check(rows(["CAST('nan' AS DOUBLE)"], ["1"]), "isnan(round(x, -2))", "isnan(round(x, 2))")


# ---- laws ------------------------------------------------------------------------------------------------------------

INTERVALS = st.builds(
    Interval, st.integers(-100_000, 100_000), st.integers(-(10**6), 10**6), st.integers(-(10**14), 10**14)
)


@given(INTERVALS)
def test_an_interval_is_read_as_it_is_written(value: Interval) -> None:
    assert interval_text.read(str(value)) == value


def _written(kernel: str, type_: DataType, value: Any, template: str) -> Any:
    vector = KERNELS[kernel](STRING, Const(type_, type_.to_physical(value), 1), Const(STRING, template, 1))
    return vector.to_arrow()[0].as_py()


@given(MOMENTS)
def test_a_moment_is_read_as_it_is_written(moment: datetime.datetime) -> None:
    for template in (
        "YYYY-MM-DD HH24:MI:SS.US",
        "FMMonth DD, YYYY HH12:MI:SS.US AM",
        "YYYYMMDDHH24MISSUS",
        "YYYY-DDD SSSSS.US",
    ):
        written = _written("to_char_date", TIMESTAMP, moment, template)
        assert date_templates.read(written, template) == moment, (template, written)


@given(st.decimals(-(10**6), 10**6, places=2))
def test_a_number_is_read_as_it_is_written(number: Any) -> None:
    for template in ("9999999.99", "FM0000000.00", "S9G999G999D99", "9999999D99MI", "9999999.99PR"):
        written = _written("to_char_number", DECIMAL(9, 2), number, template)
        assert number_templates.read(written, template) == number, (template, written)


@given(st.binary(max_size=40))
def test_bytes_are_decoded_as_they_were_encoded(data: bytes) -> None:
    for form in ("hex", "base64", "escape"):
        assert text_encodings.decode(text_encodings.encode(data, form), form) == data


@few
@given(INTERVALS, st.integers(-50, 50))
def test_multiples_of_intervals(both: Both, value: Interval, factor: int) -> None:
    found = both.nyala.execute(f"SELECT CAST(i * f AS STRING) FROM (VALUES (INTERVAL '{value}', {factor})) AS t (i, f)")
    assert interval_text.read(found.fetchall()[0][0]) == Interval(*(part * factor for part in value))


@few
@given(MOMENTS, MOMENTS)
def test_a_difference_leads_back(both: Both, later: datetime.datetime, earlier: datetime.datetime) -> None:
    source = f"(VALUES (TIMESTAMP '{later}', TIMESTAMP '{earlier}')) AS t (x, y)"
    query = f"SELECT y + (x - y) = x, x - y = -(y - x) FROM {source}"
    assert both.nyala.execute(query).fetchall() == [(True, True)]


@few
@given(MOMENTS, MOMENTS)
def test_an_age_leads_back_to_the_day(both: Both, later: datetime.datetime, earlier: datetime.datetime) -> None:
    later, earlier = max(later, earlier), min(later, earlier)
    query = f"SELECT CAST(age(x, y) AS STRING) FROM (VALUES (TIMESTAMP '{later}', TIMESTAMP '{earlier}')) AS t (x, y)"
    found = interval_text.read(both.nyala.execute(query).fetchall()[0][0])
    assert min(found) >= 0 and found.days < 31 and found.microseconds < 86_400_000_000
    spelt = both.duckdb.execute(f"SELECT CAST(age(TIMESTAMP '{later}', TIMESTAMP '{earlier}') AS VARCHAR)").fetchall()
    expected = interval_text.read(spelt[0][0])
    # DuckDB and PostgreSQL may differ in the month from which missing days are borrowed.
    assert (found.months, found.microseconds) == (expected.months, expected.microseconds)
    assert abs(found.days - expected.days) <= 3


@pytest.mark.parametrize("query", ["to_hex('x')", "chr(0)", "split_part('a', ',', 0)", "lpad('a', 2000000000)"])
def test_refusals(both: Both, query: str) -> None:
    with pytest.raises((DataError, nyala.Error)):
        both.nyala.execute(f"SELECT {query}").fetchall()
