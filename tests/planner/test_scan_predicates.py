"""Predicates pushed down into a scan are exactly equivalent to the condition."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.predicates import AnyOf, ColumnPredicate, InList, IsNull, Range
from nyala.model.types import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP, TINYINT, DataType, Kind
from nyala.planner.algebra.trees import all_of, any_of, call, is_null
from nyala.planner.fold import compare
from nyala.planner.scans.scan_predicates import extract, like_prefix, limits
from nyala.sql.expressions import Call, Cast, Column, Expr, InValues, Literal, conjuncts

NAMES = {1: "x", 2: "y"}


def column(type_: DataType, number: int = 1) -> Column:
    return Column(type_, True, number, NAMES[number])


def literal(type_: DataType, value: Any) -> Literal:
    return Literal(type_, value is None, None if value is None else type_.to_physical(value))


def down(*conditions: Expr) -> tuple[ColumnPredicate, ...]:
    return extract(conditions, NAMES).predicates


def test_bounds_of_one_column_become_one_range() -> None:
    x = column(DATE)
    year = [literal(DATE, datetime.date(y, 1, 1)) for y in (1994, 1995)]
    found = extract([call("ge", x, year[0]), call("lt", x, year[1])], NAMES)
    assert found.predicates == (Range("x", 8766, 9131, upper_inclusive=False),)
    assert found.residual == ()


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("lt", "2.5", Range("x", upper=2)),
        ("le", "2.5", Range("x", upper=2)),
        ("gt", "2.5", Range("x", lower=3)),
        ("ge", "2.5", Range("x", lower=3)),
        ("lt", "2.0", Range("x", upper=2, upper_inclusive=False)),
        ("gt", "-2.5", Range("x", lower=-2)),
        ("eq", "7.00", Range.equal("x", 7)),
    ],
)
def test_a_finer_literal_moves_to_the_next_value(function: str, value: str, expected: Range) -> None:
    wide = DECIMAL(12, 2)
    condition = call(function, Cast(wide, True, column(INT)), literal(wide, Decimal(value)))
    assert down(condition) == (expected,)


def test_an_impossible_equality_stays_with_the_executor() -> None:
    condition = call("eq", Cast(DECIMAL(12, 2), True, column(INT)), literal(DECIMAL(12, 2), Decimal("7.5")))
    assert extract([condition], NAMES) == ((), (condition,))


def test_a_bound_beyond_the_type_only_asks_for_a_value() -> None:
    x = Cast(BIGINT, True, column(TINYINT))
    assert down(call("lt", x, literal(BIGINT, 1000))) == (IsNull("x", negated=True),)
    beyond = call("gt", x, literal(BIGINT, 1000))
    assert extract([beyond], NAMES) == ((), (beyond,))


def test_a_date_below_a_timestamp_cast() -> None:
    noon = literal(TIMESTAMP, datetime.datetime(1970, 1, 11, 12))
    assert down(call("le", Cast(TIMESTAMP, True, column(DATE)), noon)) == (Range("x", upper=10),)
    assert down(call("ge", Cast(TIMESTAMP, True, column(DATE)), noon)) == (Range("x", lower=11),)


def test_a_cast_that_loses_something_stays() -> None:
    condition = call("lt", Cast(INT, True, column(DOUBLE)), literal(INT, 5))
    assert extract([condition], NAMES).predicates == ()


def test_lists_and_nulls() -> None:
    x = column(INT)
    items = tuple(literal(INT, v) for v in (5, 3, 5, None))
    assert down(InValues(BOOLEAN, True, x, items)) == (InList("x", (3, 5)),)
    assert down(InValues(BOOLEAN, True, x, items[1:2])) == (Range.equal("x", 3),)
    assert down(Call(BOOLEAN, False, "is_null", (x,))) == (IsNull("x"),)
    assert down(call("not", Call(BOOLEAN, False, "is_null", (x,)))) == (IsNull("x", negated=True),)
    assert down(column(BOOLEAN)) == (Range.equal("x", True),)
    assert down(call("not", column(BOOLEAN))) == (Range.equal("x", False),)


@pytest.mark.parametrize(
    ("pattern", "expected", "exact"),
    [
        ("forest%", Range("x", "forest", "foresu", upper_inclusive=False), True),
        ("a%b", Range("x", "a", "b", upper_inclusive=False), False),
        ("a_", Range("x", "a", "b", upper_inclusive=False), False),
        ("plain", Range.equal("x", "plain"), True),
        (r"50\%%", Range("x", "50%", "50&", upper_inclusive=False), True),
        ("\U0010ffff%", Range("x", "\U0010ffff"), True),
        ("%", IsNull("x", negated=True), True),
        ("%x", None, False),
    ],
)
def test_patterns(pattern: str, expected: ColumnPredicate | None, exact: bool) -> None:
    condition = call("like", column(STRING), literal(STRING, pattern))
    found = extract([condition], NAMES)
    assert found.predicates == (() if expected is None else (expected,))
    assert found.residual == (() if exact else (condition,))


def test_a_prefix_is_a_range_also_below_a_cast() -> None:
    short = Column(DataType(Kind.STRING, length=10), True, 1, "x")
    condition = call("starts_with", Cast(STRING, True, short), literal(STRING, "a%"))
    assert extract([condition], NAMES) == ((Range("x", "a%", "a&", upper_inclusive=False),), ())


def test_an_or_of_one_column_goes_down_whole() -> None:
    x = column(INT)

    def between(a: int, b: int) -> Expr:
        return all_of([call("ge", x, literal(INT, a)), call("le", x, literal(INT, b))]) or x

    touching = any_of([between(1, 5), between(4, 9)])
    assert extract([touching], NAMES) == ((Range("x", 1, 9),), ())
    apart = any_of([between(1, 2), between(8, 9)])
    assert extract([apart], NAMES) == ((AnyOf("x", (Range("x", 1, 2), Range("x", 8, 9))),), ())
    three = any_of([call("eq", x, literal(INT, 5)), call("lt", x, literal(INT, 5)), is_null(x)])
    assert extract([three], NAMES) == ((AnyOf("x", (Range("x", upper=5), IsNull("x"))),), ())
    never = any_of([call("and", call("lt", x, literal(INT, 1)), call("gt", x, literal(INT, 2))), between(3, 4)])
    assert extract([never], NAMES) == ((Range("x", 3, 4),), ())
    always = any_of([is_null(x), call("lt", x, literal(INT, 1)), call("gt", x, literal(INT, 0))])
    assert extract([always], NAMES) == ((), ())


def test_an_or_of_several_columns_goes_down_as_what_surrounds_it() -> None:
    x, y = column(INT), column(INT, 2)
    both = any_of([call("and", call("eq", x, literal(INT, i)), call("eq", y, literal(INT, -i))) for i in (1, 2)])
    assert extract([both], NAMES) == ((InList("x", (1, 2)), InList("y", (-2, -1))), (both,))
    loose = any_of([call("eq", x, literal(INT, 1)), call("eq", y, literal(INT, 1))])
    assert extract([loose], NAMES) == ((), (loose,))
    many = any_of(
        [call("and", call("gt", x, literal(INT, i)), call("lt", x, literal(INT, i + 2))) for i in range(0, 200, 4)]
    )
    assert extract([many], NAMES) == ((Range("x", 0, 198, False, False),), (many,))


# ---- against plain Python --------------------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.integers(-6, 6))
SIMPLE = st.builds(
    lambda function, value, mirrored: (
        call(function, literal(DECIMAL(9, 1), value), Cast(DECIMAL(9, 1), True, column(INT)))
        if mirrored
        else call(function, Cast(DECIMAL(9, 1), True, column(INT)), literal(DECIMAL(9, 1), value))
    ),
    st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]),
    st.decimals(-6, 6, places=1),
    st.booleans(),
)
LISTS = st.builds(
    lambda values: InValues(BOOLEAN, True, column(INT), tuple(literal(INT, v) for v in values)),
    st.lists(VALUES, min_size=1, max_size=4),
)
NULL_TESTS = st.sampled_from([is_null(column(INT)), call("not", is_null(column(INT)))])
CONDITIONS = st.recursive(
    st.one_of(SIMPLE, LISTS, NULL_TESTS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: call("or", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: call("and", *parts)),
    ),
    max_leaves=8,
)


def evaluate(expr: Expr, x: int | None) -> Any:
    """Evaluate three-valued logic value by value; decimals as integers of tenths."""
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Cast):
        return None if x is None else 10 * x
    if isinstance(expr, Column):
        return x
    if isinstance(expr, InValues):
        values = [evaluate(item, x) for item in expr.items]
        if x is None:
            return None
        return True if x in values else None if None in values else False
    assert isinstance(expr, Call)
    args = [evaluate(arg, x) for arg in expr.args]
    if expr.function == "and":
        return False if False in args else None if None in args else True
    if expr.function == "or":
        return True if True in args else None if None in args else False
    if expr.function in ("is_null", "not"):
        return args[0] is None if expr.function == "is_null" else not args[0]
    return None if None in args else compare(expr.function, args[0], args[1])


def satisfies(predicate: ColumnPredicate, x: int | None) -> bool:
    if isinstance(predicate, IsNull):
        return (x is None) != predicate.negated
    if isinstance(predicate, AnyOf):
        return any(satisfies(member, x) for member in predicate.members)
    if x is None:
        return False
    if isinstance(predicate, InList):
        return x in predicate.values
    assert isinstance(predicate, Range)
    above = predicate.lower is None or x > predicate.lower or (x == predicate.lower and predicate.lower_inclusive)
    below = predicate.upper is None or x < predicate.upper or (x == predicate.upper and predicate.upper_inclusive)
    return above and below


@given(condition=CONDITIONS)
def test_predicates_and_residual_together_are_the_condition(condition: Expr) -> None:
    found = extract(conjuncts(condition), NAMES)
    for x in (None, *range(-8, 9)):
        pushed = all(satisfies(p, x) for p in found.predicates)
        rest = all(evaluate(r, x) is True for r in found.residual)
        assert (pushed and rest) == (evaluate(condition, x) is True), x


@given(st.text(alphabet="ab%_\\", max_size=6))
def test_like_prefix_is_how_every_match_starts(pattern: str) -> None:
    prefix, rest = like_prefix(pattern)
    assert rest == "" or rest[0] in "%_"
    assert "%" not in prefix or "\\%" in pattern


_LISTED = (TINYINT, INT, BIGINT, DECIMAL(5, 2), DECIMAL(20, 4), DECIMAL(38, 0), DATE, TIMESTAMP)
_PHYSICAL = st.one_of(st.integers(-400, 400), st.integers(-40_000, 40_000).map(lambda n: n * 100))


def _literal_of(source: DataType, value: int | None) -> Literal:
    """A literal within its type; types that are equal are not always one object."""
    low, high = limits(source)
    type_ = DataType(source.kind, source.precision, source.scale)
    return Literal(type_, value is None, None if value is None else min(max(value, low), high))


def _number_of(type_: DataType, physical: int) -> Fraction:
    """The number, or the microseconds since 1970, that a physical value stands for."""
    if type_.kind is Kind.DATE:
        return Fraction(physical * 86_400_000_000)
    return Fraction(physical, 10 ** (type_.scale or 0))


@given(st.data())
def test_a_list_of_literals_becomes_the_values_that_equal_one(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(_LISTED))
    is_time = type_.kind in (Kind.DATE, Kind.TIMESTAMP)
    sources = [t for t in _LISTED if (t.kind in (Kind.DATE, Kind.TIMESTAMP)) == is_time]
    literals = st.builds(_literal_of, st.sampled_from(sources), st.one_of(st.none(), _PHYSICAL))
    items = data.draw(st.lists(literals, max_size=8))
    condition = InValues(BOOLEAN, True, column(type_), tuple(items))
    wanted = {_number_of(item.type, item.value) for item in items if item.value is not None}
    low, high = limits(type_)
    unit = _number_of(type_, 1)
    possible = {int(number / unit) for number in wanted if (number / unit).denominator == 1}
    found = down(condition)
    values = sorted(value for value in possible if low <= value <= high)
    if not values:
        assert found == ()
    elif len(values) == 1:
        assert found == (Range.equal("x", values[0]),)
    else:
        assert found == (InList("x", tuple(values)),)


def test_equal_lists_have_equal_hashes() -> None:
    def listed(*items: Expr) -> InValues:
        return InValues(BOOLEAN, True, column(INT), items)

    one, two = Literal(INT, False, 1), Literal(INT, False, 2)
    assert listed(one, two) == listed(Literal(INT, False, 1), two)
    assert hash(listed(one, two)) == hash(listed(Literal(INT, False, 1), two))
    assert listed(one, two) != listed(Literal(BIGINT, False, 1), two)
    assert hash(listed(one, column(INT, 2))) == hash(listed(one, column(INT, 2)))
    assert len({listed(one, two), listed(two, one), listed(one), listed(one, column(INT, 2))}) == 4
