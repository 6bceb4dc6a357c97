"""Every scalar kernel against plain Python, row by row, over all forms a vector can have."""

from __future__ import annotations

import calendar
import datetime
import fnmatch
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, DivisionByZero, NumericOutOfRange
from nyala.executor.expressions.evaluate import Compiler
from nyala.executor.expressions.kernel_table import GENERATORS, KERNELS
from nyala.executor.kernels.conditional import from_physical
from nyala.executor.kernels.texts import like_search as search
from nyala.executor.kernels.texts import text_vectorized as text_kernels
from nyala.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    EPOCH_DATE,
    EPOCH_TIMESTAMP,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    DataType,
    Interval,
)
from nyala.model.vectors.vector import (
    Batch,
    Const,
    Dict,
    Flat,
    LazyColumn,
    Narrow,
    Text,
    Vector,
    Wide,
    physical_to_arrow,
)
from nyala.sql import functions
from nyala.sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal

QUICK = settings(max_examples=examples(63), deadline=None)
D15_2, D15_4, D30_5, D38_4 = DECIMAL(15, 2), DECIMAL(15, 4), DECIMAL(30, 5), DECIMAL(38, 4)


def forms(type_: DataType, values: Sequence[Any]) -> list[Vector]:
    """The same values in every form that can hold them."""
    present = np.array([v is not None for v in values], np.bool_)
    validity = None if present.all() else present
    found: list[Vector] = []
    if values and len(set(values)) == 1:
        found.append(Const(type_, values[0], len(values)))
    if type_.is_text:
        found.append(Text(type_, pa.array(values, type_.arrow)))
        entries = sorted({v for v in values if v is not None} | {"zz-unused"})
        for ordered in (True, False):
            names = entries if ordered else entries[::-1]
            codes = np.array([names.index(v) if v is not None else 0 for v in values], np.uint8)
            found.append(Dict(type_, codes, pa.array(names, type_.arrow), validity, ordered))
        return found
    filled = [0 if v is None else v for v in values]
    if type_.is_decimal and type_.precision > 18:
        column = np.empty(len(values), object)
        column[:] = filled
        if all(-(2**63) <= v < 2**63 for v in filled):
            found.append(Flat(type_, column.astype(np.int64), validity))
        return [*found, Wide(type_, physical_to_arrow(type_, column, validity))]
    found.append(Flat(type_, np.array(filled, type_.dtype), validity))
    if type_.is_integer_like and values and max(filled) - min(filled) < 2**32:
        low = min(filled)
        top = max(filled) - low
        dtype = next(d for d in (np.uint8, np.uint16, np.uint32) if top <= np.iinfo(d).max)
        codes = np.array([v - low for v in filled], dtype)
        found.append(Narrow(type_, codes, int(low), validity))
        found.append(Narrow(type_, codes, int(low), validity, int(top)))
    return found


def python_values(vector: Vector) -> list[Any]:
    """Physical values, None for NULL."""
    validity = vector.validity
    values = vector.values().tolist()
    return [v if validity is None or validity[i] else None for i, v in enumerate(values)]


def evaluate(expr: Expr, columns: Sequence[Column], vectors: Sequence[Vector]) -> list[Any]:
    batch = Batch(vectors, len(vectors[0]))
    return python_values(Compiler(columns).compile(expr)(batch))


def check(
    make: Callable[..., Expr],
    types: Sequence[DataType],
    rows: Sequence[Sequence[Any]],
    reference: Callable[..., Any],
    strict: bool = True,
) -> None:
    """Check that the expression equals `reference` for each row, over every combination of forms."""
    columns = [Column(t, True, i, f"c{i}") for i, t in enumerate(types)]
    expr = make(*columns)
    expected: list[Any] = []
    errors: set[type[Exception]] = set()
    for row in rows:
        if strict and None in row:
            expected.append(None)
            continue
        try:
            expected.append(reference(*row))
        except DataError as raised:
            errors.add(type(raised))
    cells = [forms(t, [row[i] for row in rows]) for i, t in enumerate(types)]
    combinations: list[list[Vector]] = [[]]
    for options in cells:
        combinations = [[*chosen, option] for chosen in combinations for option in options]
    for vectors in combinations:
        shown = [repr(v) for v in vectors]
        if errors:
            with pytest.raises(DataError) as caught:
                evaluate(expr, columns, vectors)
            assert issubclass(caught.type, tuple(errors)), shown
        else:
            found = evaluate(expr, columns, vectors)
            assert all(map(same, found, expected)), (found, expected, shown)
            assert len(found) == len(expected)


def same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)
    return a == b


def call(type_: DataType, name: str, *literals: Expr) -> Callable[..., Expr]:
    return lambda *columns: Call(type_, True, name, (*columns, *literals))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


def rows_of(*values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a few rows; sometimes without NULLs, sometimes all equal."""
    full = st.lists(st.tuples(*values), min_size=1, max_size=8)
    holey = st.lists(st.tuples(*map(maybe, values)), min_size=1, max_size=8)
    repeated = st.builds(lambda row, n: [row] * n, st.tuples(*map(maybe, values)), st.integers(1, 4))
    return st.one_of(full, holey, repeated)


small = st.integers(-300, 300)
cents = st.integers(-(10**15) + 1, 10**15 - 1)
wide = st.one_of(st.integers(-(10**30) + 1, 10**30 - 1), small)
texts = st.text(alphabet="abAB %_é\\x", max_size=6)
days = st.integers(-719_162, 2_932_896)
moments = st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000)
doubles = st.one_of(st.floats(-1e6, 1e6), st.just(math.nan), st.just(0.0), st.just(-0.0))
bools = st.booleans()


def test_every_function_of_the_registry_has_a_kernel() -> None:
    assert {*KERNELS, *GENERATORS, "and", "or"} == functions.OPERATIONS.keys()


# ---- arithmetic ----------------------------------------------------------------------------------------------------


def bounded(value: int, type_: DataType) -> int:
    limit = 10**type_.precision if type_.is_decimal else 2**31 if type_ == INT else 2**63
    if not -limit - (0 if type_.is_decimal else 1) < value < limit:
        raise NumericOutOfRange("reference")
    return value


def half_away(value: Fraction) -> int:
    size = int(abs(value) + Fraction(1, 2))
    return size if value >= 0 else -size


OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@given(data=st.data())
@QUICK
def test_exact_operators(name: str, data: st.DataObject) -> None:
    operation = OPERATIONS[name]
    for type_, values in ((INT, st.integers(-(2**31), 2**31 - 1)), (BIGINT, st.integers(-(2**63), 2**63 - 1))):
        rows = data.draw(rows_of(st.one_of(small, values), st.one_of(small, values)))
        check(call(type_, name), (type_, type_), rows, lambda a, b, t=type_: bounded(operation(a, b), t))
    for left, right, result in (
        (D15_2, D15_2, DECIMAL(30, 4) if name == "mul" else DECIMAL(16, 2)),
        (D30_5, D15_2, DECIMAL(38, 7)),
        (DECIMAL(30, 2), DECIMAL(30, 2), DECIMAL(38, 4) if name == "mul" else DECIMAL(31, 2)),
    ):
        if name != "mul" and left.scale != right.scale:
            continue
        rows = data.draw(rows_of(wide if left.precision > 18 else cents, wide if right.precision > 18 else cents))
        check(call(result, name), (left, right), rows, lambda a, b, t=result: bounded(operation(a, b), t))


@given(rows_of(st.one_of(cents, small), st.one_of(cents, small)))
@QUICK
def test_division_of_decimals_rounds_half_away_from_zero(rows: list[Any]) -> None:
    result = DECIMAL(38, 16)

    def reference(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero("reference")
        return half_away(Fraction(a, b) * 10**16)

    check(call(result, "div"), (D15_2, D15_2), rows, reference)


@given(rows_of(wide, st.one_of(wide, small)))
@QUICK
def test_division_and_remainder_of_wide_decimals(rows: list[Any]) -> None:
    def divided(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero("reference")
        return bounded(half_away(Fraction(a, b) * 10**16), DECIMAL(38, 16))

    def remainder(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero("reference")
        return int(math.copysign(1, a)) * (abs(a) % abs(b))

    check(call(DECIMAL(38, 16), "div"), (D30_5, D30_5), rows, divided)
    check(call(D30_5, "mod"), (D30_5, D30_5), rows, remainder)


@given(rows_of(st.integers(-(2**63), 2**63 - 1), st.one_of(small, st.integers(-(2**63), 2**63 - 1))))
@QUICK
def test_integer_division_truncates(rows: list[Any]) -> None:
    def divided(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero("reference")
        return bounded(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), BIGINT)

    def remainder(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero("reference")
        return abs(a) % abs(b) * (-1 if a < 0 else 1)

    check(call(BIGINT, "div"), (BIGINT, BIGINT), rows, divided)
    check(call(BIGINT, "mod"), (BIGINT, BIGINT), rows, remainder)


@given(rows_of(doubles, doubles))
@QUICK
def test_float_operators(rows: list[Any]) -> None:
    def divided(a: float, b: float) -> float:
        if b == 0:
            raise DivisionByZero("reference")
        return a / b

    for name, operation in OPERATIONS.items():
        check(call(DOUBLE, name), (DOUBLE, DOUBLE), rows, operation)
    tame = [row for row in rows if None in row or row[1] == 0 or math.isnan(row[1]) or abs(row[1]) > 1e-290]
    if tame:
        check(call(DOUBLE, "div"), (DOUBLE, DOUBLE), tame, divided)


@given(rows_of(cents), st.integers(-4, 4))
@QUICK
def test_rounding_of_decimals(rows: list[Any], digits: int) -> None:
    kept = max(0, min(digits, 2))
    result = DECIMAL(17, kept)
    literal = Literal(BIGINT, False, digits)

    def rounded(a: int) -> int:
        value = half_away(Fraction(a, 100) * Fraction(10) ** digits)
        return int(Fraction(value) / Fraction(10) ** digits * 10**kept) if digits < 2 else a

    check(call(result, "round", literal), (D15_2,), rows, rounded)
    check(call(DECIMAL(14, 0), "floor"), (D15_2,), rows, lambda a: a // 100)
    check(call(DECIMAL(14, 0), "ceil"), (D15_2,), rows, lambda a: -(-a // 100))
    check(call(D15_2, "abs"), (D15_2,), rows, abs)
    check(call(D15_2, "neg"), (D15_2,), rows, lambda a: -a)
    check(call(INT, "sign"), (D15_2,), rows, lambda a: (a > 0) - (a < 0))


@given(rows_of(wide))
@QUICK
def test_functions_of_wide_decimals(rows: list[Any]) -> None:
    check(call(DECIMAL(26, 0), "floor"), (D30_5,), rows, lambda a: a // 10**5)
    check(call(D30_5, "abs"), (D30_5,), rows, abs)
    check(call(D30_5, "neg"), (D30_5,), rows, lambda a: -a)
    check(call(INT, "sign"), (D30_5,), rows, lambda a: (a > 0) - (a < 0))


@given(rows_of(st.floats(-50, 50)))
@QUICK
def test_float_functions(rows: list[Any]) -> None:
    def real(function: Callable[[float], float], defined: Callable[[float], bool]) -> Callable[[float], float]:
        def reference(x: float) -> float:
            if not defined(x):
                raise DataError("reference")
            return function(x)

        return reference

    check(call(DOUBLE, "sqrt"), (DOUBLE,), rows, real(math.sqrt, lambda x: x >= 0))
    check(call(DOUBLE, "ln"), (DOUBLE,), rows, real(math.log, lambda x: x > 0))
    check(call(DOUBLE, "log10"), (DOUBLE,), rows, real(math.log10, lambda x: x > 0))
    check(call(DOUBLE, "exp"), (DOUBLE,), rows, math.exp)
    check(call(DOUBLE, "round", Literal(BIGINT, False, 0)), (DOUBLE,), rows, lambda x: float(round(x)))
    check(call(DOUBLE, "power", Literal(DOUBLE, False, 2.0)), (DOUBLE,), rows, lambda x: x**2)


def test_sums_leave_int32_and_int64_without_a_wrong_digit() -> None:
    near = [2**31 - 1, -(2**31), 10**15 - 1]
    rows = [(a, b) for a in near for b in near]
    check(call(DECIMAL(30, 4), "mul"), (D15_2, D15_2), rows, lambda a, b: a * b)
    check(call(DECIMAL(16, 2), "add"), (D15_2, D15_2), rows, lambda a, b: a + b)


def test_a_value_under_a_null_cannot_fail() -> None:
    validity = np.array([True, False])
    one, zero = Flat(D15_2, np.array([100, 100])), Flat(D15_2, np.array([50, 0]), validity)
    columns = [Column(D15_2, True, 0), Column(D15_2, True, 1)]
    quotient = Call(DECIMAL(38, 16), True, "div", tuple(columns))
    assert evaluate(quotient, columns, [one, zero]) == [2 * 10**16, None]
    huge = Flat(BIGINT, np.array([1, 2**63 - 1]), validity)
    integers = [Column(BIGINT, True, 0)]
    assert evaluate(Call(BIGINT, True, "mul", (integers[0], integers[0])), integers, [huge]) == [1, None]


def test_messages_of_refused_values() -> None:
    columns = [Column(INT, True, 0)]
    vector = Flat(INT, np.array([2**31 - 1], np.int32))
    with pytest.raises(NumericOutOfRange, match="the result 2147483648 is out of range for INT"):
        evaluate(Call(INT, True, "add", (columns[0], Literal(INT, False, 1))), columns, [vector])
    with pytest.raises(DivisionByZero, match="NULLIF"):
        evaluate(Call(INT, True, "div", (columns[0], Literal(INT, False, 0))), columns, [vector])


# ---- comparisons and logic -----------------------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("name", sorted(COMPARISONS))
@given(data=st.data())
@QUICK
def test_comparisons(name: str, data: st.DataObject) -> None:
    holds = COMPARISONS[name]
    integers = st.one_of(small, st.integers(-(2**63), 2**63 - 1))
    check(call(BOOLEAN, name), (BIGINT, BIGINT), data.draw(rows_of(integers, integers)), holds)
    check(call(BOOLEAN, name), (DATE, DATE), data.draw(rows_of(days, days)), holds)
    check(call(BOOLEAN, name), (BOOLEAN, BOOLEAN), data.draw(rows_of(bools, bools)), holds)
    by_bytes = data.draw(rows_of(texts, texts))
    check(call(BOOLEAN, name), (STRING, STRING), by_bytes, lambda a, b: holds(a.encode(), b.encode()))
    mixed = data.draw(rows_of(cents, wide))
    check(call(BOOLEAN, name), (D15_2, D30_5), mixed, lambda a, b: holds(a * 1000, b))
    check(call(BOOLEAN, name), (D30_5, D15_2), [r[::-1] for r in mixed], lambda a, b: holds(a, b * 1000))
    fine = data.draw(rows_of(small, st.one_of(small, cents)))
    check(call(BOOLEAN, name), (DECIMAL(9, 0), DECIMAL(18, 17)), fine, lambda a, b: holds(a * 10**17, b))

    def total_order(a: float, b: float) -> bool:
        return holds(*((1, 0.0) if math.isnan(x) else (0, x) for x in (a, b)))

    check(call(BOOLEAN, name), (DOUBLE, DOUBLE), data.draw(rows_of(doubles, doubles)), total_order)


@given(rows_of(small, small))
@QUICK
def test_is_distinct(rows: list[Any]) -> None:
    check(call(BOOLEAN, "is_distinct"), (INT, INT), rows, lambda a, b: a != b, strict=False)


@given(rows_of(bools, bools, bools))
@QUICK
def test_three_valued_logic(rows: list[Any]) -> None:
    def conjunction(*parts: bool | None) -> bool | None:
        return False if False in parts else None if None in parts else True

    def disjunction(*parts: bool | None) -> bool | None:
        return True if True in parts else None if None in parts else False

    types = (BOOLEAN, BOOLEAN, BOOLEAN)
    check(call(BOOLEAN, "and"), types, rows, conjunction, strict=False)
    check(call(BOOLEAN, "or"), types, rows, disjunction, strict=False)
    single = [row[:1] for row in rows]
    check(call(BOOLEAN, "not"), (BOOLEAN,), single, lambda a: not a)
    check(call(BOOLEAN, "is_null"), (BOOLEAN,), single, lambda a: a is None, strict=False)
    check(call(BOOLEAN, "is_true"), (BOOLEAN,), single, lambda a: a is True, strict=False)
    check(call(BOOLEAN, "is_false"), (BOOLEAN,), single, lambda a: a is False, strict=False)


@given(rows_of(small), st.lists(maybe(small), min_size=1, max_size=12))
@QUICK
def test_in_integers(rows: list[Any], items: list[int | None]) -> None:
    def reference(a: int | None) -> bool | None:
        if a is None:
            return None
        return True if a in items else None if None in items else False

    make = lambda column: InValues(BOOLEAN, True, column, tuple(Literal(INT, i is None, i) for i in items))  # noqa: E731
    check(make, (INT,), rows, reference, strict=False)


@given(rows_of(texts), st.lists(maybe(texts), min_size=1, max_size=9))
@QUICK
def test_in_texts(rows: list[Any], items: list[str | None]) -> None:
    def reference(a: str) -> bool | None:
        return True if a in items else None if None in items else False

    make = lambda column: InValues(BOOLEAN, True, column, tuple(Literal(STRING, i is None, i) for i in items))  # noqa: E731
    check(make, (STRING,), rows, reference)


def test_in_expressions() -> None:
    make = lambda a, b: InValues(BOOLEAN, True, a, (b, Literal(INT, False, 3)))  # noqa: E731
    rows = [(1, 1), (3, 0), (2, 1), (None, 1), (2, None)]
    expected = {(1, 1): True, (3, 0): True, (2, 1): False, (None, 1): None, (2, None): None}
    check(make, (INT, INT), rows, lambda a, b: expected[a, b], strict=False)


# ---- choosing ------------------------------------------------------------------------------------------------------


@given(rows_of(bools, small, small))
@QUICK
def test_case(rows: list[Any]) -> None:
    def make(flag: Column, a: Column, b: Column) -> Expr:
        return Case(INT, True, ((flag, a), (Call(BOOLEAN, True, "lt", (a, b)), b)), Literal(INT, False, 7))

    def reference(flag: bool | None, a: int | None, b: int | None) -> int | None:
        if flag:
            return a
        return b if a is not None and b is not None and a < b else 7

    check(make, (BOOLEAN, INT, INT), rows, reference, strict=False)


@given(rows_of(bools, texts, wide))
@QUICK
def test_case_of_texts_and_wide_decimals(rows: list[Any]) -> None:
    check(
        lambda flag, a, _: Case(STRING, True, ((flag, a),), Literal(STRING, False, "none")),
        (BOOLEAN, STRING, D30_5),
        rows,
        lambda flag, a, _: a if flag else "none",
        strict=False,
    )
    check(
        lambda flag, _, b: Case(D30_5, True, ((flag, b),), Literal(D30_5, True, None)),
        (BOOLEAN, STRING, D30_5),
        rows,
        lambda flag, _, b: b if flag else None,
        strict=False,
    )


@given(rows_of(small, small))
@QUICK
def test_a_branch_that_fails_is_computed_for_its_rows_only(rows: list[Any]) -> None:
    def make(a: Column, b: Column) -> Expr:
        nonzero = Call(BOOLEAN, True, "ne", (b, Literal(INT, False, 0)))
        return Case(INT, True, ((nonzero, Call(INT, True, "div", (a, b))),), Literal(INT, False, -1))

    def reference(a: int | None, b: int | None) -> int | None:
        if b is None or b == 0:
            return -1
        return None if a is None else int(a / b)

    check(make, (INT, INT), rows, reference, strict=False)
    guarded = lambda a, b: Call(  # noqa: E731
        BOOLEAN,
        True,
        "and",
        (
            Call(BOOLEAN, True, "gt", (Call(INT, True, "div", (a, b)), Literal(INT, False, 1))),
            Call(BOOLEAN, True, "ne", (b, Literal(INT, False, 0))),
        ),
    )

    def kleene(a: int | None, b: int | None) -> bool | None:
        if b == 0:
            return False
        return None if a is None or b is None else int(a / b) > 1

    check(guarded, (INT, INT), rows, kleene, strict=False)


@given(rows_of(small, small, small))
@QUICK
def test_coalesce_and_extremes(rows: list[Any]) -> None:
    types = (INT, INT, INT)

    def present(row: tuple[Any, ...]) -> list[Any]:
        return [v for v in row if v is not None]

    check(call(INT, "coalesce"), types, rows, lambda *r: next(iter(present(r)), None), strict=False)
    check(call(INT, "greatest"), types, rows, lambda *r: max(present(r), default=None), strict=False)
    check(call(INT, "least"), types, rows, lambda *r: min(present(r), default=None), strict=False)


# ---- texts ---------------------------------------------------------------------------------------------------------


def like(text: str, pattern: str) -> bool:
    regex, escaped = "", False
    for char in pattern:
        if not escaped and char == "\\":
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(char) if not escaped else None
        regex += wild or re.escape(char)
        escaped = False
    if escaped:
        raise DataError("reference")
    return re.fullmatch(regex, text, re.DOTALL) is not None


@given(rows_of(texts), texts)
@QUICK
def test_like_a_constant(rows: list[Any], pattern: str) -> None:
    check(call(BOOLEAN, "like", Literal(STRING, False, pattern)), (STRING,), rows, lambda a: like(a, pattern))


@given(rows_of(texts, texts))
@QUICK
def test_like_a_column(rows: list[Any]) -> None:
    check(call(BOOLEAN, "like"), (STRING, STRING), rows, like)


@pytest.mark.parametrize("pattern", ["%ab%ba%", "ab%", "%ab", "%ab%", "ab", "%", "", "_b%", "%ab_ab%", "%a\nb%"])
def test_like_shapes(pattern: str) -> None:
    rows = [(t,) for t in ("ab", "abba", "xabyba", "bab", "ab\nab", "", "xxabab", "cb", "a\nb", "abxabx")]
    check(call(BOOLEAN, "like", Literal(STRING, False, pattern)), (STRING,), rows, lambda a: like(a, pattern))
    upper = pattern.upper()
    expected = lambda a: fnmatch.fnmatch(a.lower(), pattern.replace("%", "*").replace("_", "?"))  # noqa: E731
    check(call(BOOLEAN, "ilike", Literal(STRING, False, upper)), (STRING,), rows, expected)


@given(
    st.lists(maybe(texts), min_size=1, max_size=40), st.lists(st.sampled_from(["a", "ab", "é", "A ", "\\%"])), st.data()
)
@settings(max_examples=examples(200), deadline=None)
def test_search_for_pieces_in_order(values: list[str | None], pieces: list[str], data: st.DataObject) -> None:
    """The whole-buffer search that is used for long columns, on slices and with anchored ends."""
    ends = [data.draw(st.sampled_from(["", "%"])) for _ in range(2)]
    pattern = ends[0] + "%".join(pieces) + ends[1] + ("" if pieces or "%" in ends else "%")
    array = pa.array([*values, "tail"], pa.string()).slice(data.draw(st.integers(0, len(values))))
    if "%" not in pattern.replace("\\%", ""):
        pattern += "%"
    prefix, *middle, suffix = text_kernels.parse_pattern(pattern).runs
    found = search.contain_in_order(array, middle, prefix, suffix).tolist()
    for value, verdict in zip(array.to_pylist(), found, strict=True):
        assert value is None or verdict == like(value, pattern), (value, pattern)


def sliced(text: str, start: int, length: int | None) -> str:
    if length is not None and length < 0:
        raise DataError("reference")
    end = len(text) if length is None else start - 1 + length
    return text[max(0, start - 1) : max(0, end)]


EXTREMES = st.sampled_from([-(2**63) + 1, -(2**31), 2**31, 2**63 - 1])


@given(rows_of(texts, st.integers(-3, 8) | EXTREMES, st.integers(-1, 8) | EXTREMES))
@QUICK
def test_substring(rows: list[Any]) -> None:
    check(call(STRING, "substring"), (STRING, BIGINT, BIGINT), rows, sliced)
    two = [row[:2] for row in rows]
    check(call(STRING, "substring"), (STRING, BIGINT), two, lambda a, b: sliced(a, b, None))
    literals = (Literal(BIGINT, False, 2), Literal(BIGINT, False, 3))
    check(call(STRING, "substring", *literals), (STRING,), [r[:1] for r in rows], lambda a: a[1:4])


@given(rows_of(texts, st.integers(-4, 8)))
@QUICK
def test_left_right_repeat(rows: list[Any]) -> None:
    types = (STRING, BIGINT)
    check(call(STRING, "left"), types, rows, lambda a, n: a[:n])
    check(call(STRING, "right"), types, rows, lambda a, n: a[-n:] if n > 0 else "" if n == 0 else a[-n:])
    check(call(STRING, "repeat"), types, rows, lambda a, n: a * max(0, n))


@given(rows_of(texts, texts, texts))
@QUICK
def test_functions_of_texts(rows: list[Any]) -> None:
    one, two = [r[:1] for r in rows], [r[:2] for r in rows]
    check(call(STRING, "upper"), (STRING,), one, str.upper)
    check(call(STRING, "lower"), (STRING,), one, str.lower)
    check(call(INT, "length"), (STRING,), one, len)
    check(call(INT, "octet_length"), (STRING,), one, lambda a: len(a.encode()))
    check(call(STRING, "reverse"), (STRING,), one, lambda a: a[::-1])
    check(call(STRING, "trim"), (STRING,), one, lambda a: a.strip(" "))
    check(call(STRING, "ltrim"), (STRING, STRING), two, lambda a, b: a.lstrip(b) if b else a)
    check(call(STRING, "rtrim"), (STRING, STRING), two, lambda a, b: a.rstrip(b) if b else a)
    check(call(INT, "strpos"), (STRING, STRING), two, lambda a, b: a.find(b) + 1)
    check(call(BOOLEAN, "starts_with"), (STRING, STRING), two, str.startswith)
    check(call(STRING, "concat"), (STRING, STRING, STRING), rows, lambda a, b, c: a + b + c)
    replaced = lambda a, b, c: a.replace(b, c) if b else a  # noqa: E731
    check(call(STRING, "replace"), (STRING, STRING, STRING), rows, replaced)


# ---- dates ---------------------------------------------------------------------------------------------------------


def date_of(value: int) -> datetime.date:
    return EPOCH_DATE + datetime.timedelta(days=value)


PARTS: dict[str, Callable[[datetime.date], int]] = {
    "year": lambda d: d.year,
    "quarter": lambda d: (d.month + 2) // 3,
    "month": lambda d: d.month,
    "week": lambda d: d.isocalendar()[1],
    "day": lambda d: d.day,
    "dow": lambda d: d.isoweekday() % 7,
    "doy": lambda d: d.timetuple().tm_yday,
}


@pytest.mark.parametrize("name", sorted(PARTS))
@given(rows=rows_of(days), more=rows_of(moments))
@QUICK
def test_date_parts(name: str, rows: list[Any], more: list[Any]) -> None:
    check(call(BIGINT, name), (DATE,), rows, lambda a: PARTS[name](date_of(a)))
    day = 86_400_000_000
    check(call(BIGINT, name), (TIMESTAMP,), more, lambda a: PARTS[name](date_of(a // day)))


@given(rows_of(moments))
@QUICK
def test_time_parts(rows: list[Any]) -> None:
    def moment(value: int) -> datetime.datetime:
        return EPOCH_TIMESTAMP + datetime.timedelta(microseconds=value)

    for name in ("hour", "minute", "second"):
        check(call(BIGINT, name), (TIMESTAMP,), rows, lambda a, n=name: getattr(moment(a), n))
        unit = Literal(STRING, False, name)
        make = lambda column, u=unit: Call(TIMESTAMP, True, "date_trunc", (u, column))  # noqa: E731
        size = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}[name]
        check(make, (TIMESTAMP,), rows, lambda a, s=size: a // s * s)


STARTS: dict[str, Callable[[datetime.date], datetime.date]] = {
    "year": lambda d: d.replace(month=1, day=1),
    "quarter": lambda d: d.replace(month=(d.month - 1) // 3 * 3 + 1, day=1),
    "month": lambda d: d.replace(day=1),
    "week": lambda d: d - datetime.timedelta(days=d.weekday()),
    "day": lambda d: d,
}


@given(rows_of(st.integers(-700_000, 2_900_000)))
@QUICK
def test_date_trunc(rows: list[Any]) -> None:
    for unit, start in STARTS.items():
        make = lambda column, u=unit: Call(DATE, True, "date_trunc", (Literal(STRING, False, u), column))  # noqa: E731
        check(make, (DATE,), rows, lambda a, s=start: (s(date_of(a)) - EPOCH_DATE).days)


def plus_months(day: datetime.date, months: int) -> datetime.date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))


@given(rows_of(st.integers(-600_000, 2_800_000)), st.integers(-100, 100), st.integers(-50, 50))
@QUICK
def test_dates_and_intervals(rows: list[Any], months: int, more_days: int) -> None:
    span = Literal(INTERVAL, False, Interval(months, more_days, 0))

    def added(a: int) -> int:
        return (plus_months(date_of(a), months) - EPOCH_DATE).days + more_days

    def subtracted(a: int) -> int:
        return (plus_months(date_of(a), -months) - EPOCH_DATE).days - more_days

    check(call(DATE, "add", span), (DATE,), rows, added)
    check(call(DATE, "sub", span), (DATE,), rows, subtracted)
    check(call(DATE, "add", Literal(INT, False, more_days)), (DATE,), rows, lambda a: a + more_days)
    check(lambda c: Call(INT, True, "sub", (c, Literal(DATE, False, 5))), (DATE,), rows, lambda a: a - 5)
    hours = Literal(INTERVAL, False, Interval(0, 1, 3_600_000_000))
    micros = [(None if a is None else a * 86_400_000_000 + 17,) for (a,) in rows]
    check(call(TIMESTAMP, "add", hours), (TIMESTAMP,), micros, lambda a: a + 86_400_000_000 + 3_600_000_000)


def test_dates_beyond_the_year_9999_are_refused() -> None:
    columns = [Column(DATE, True, 0)]
    vector = Flat(DATE, np.array([2_932_896], np.int32))
    with pytest.raises(NumericOutOfRange, match="outside the years 1 to 9999"):
        evaluate(Call(DATE, True, "add", (columns[0], Literal(INT, False, 1))), columns, [vector])


# ---- casts ---------------------------------------------------------------------------------------------------------


def cast_to(type_: DataType, safe: bool = False) -> Callable[..., Expr]:
    return lambda column: Cast(type_, True, column, safe)


@given(rows_of(st.one_of(cents, small)))
@QUICK
def test_casts_of_decimals(rows: list[Any]) -> None:
    check(cast_to(D15_4), (D15_2,), rows, lambda a: bounded(a * 100, D15_4))
    check(cast_to(DECIMAL(15, 0)), (D15_2,), rows, lambda a: half_away(Fraction(a, 100)))
    check(cast_to(INT), (D15_2,), rows, lambda a: bounded(half_away(Fraction(a, 100)), INT))
    check(cast_to(DOUBLE), (D15_2,), rows, lambda a: a / 100)
    check(cast_to(D38_4), (D15_2,), rows, lambda a: a * 100)
    check(cast_to(STRING), (D15_2,), rows, lambda a: f"{'-' if a < 0 else ''}{abs(a) // 100}.{abs(a) % 100:02d}")

    def tried(a: int) -> int | None:
        value = half_away(Fraction(a, 100))
        return value if -(2**31) <= value < 2**31 else None

    check(cast_to(INT, safe=True), (D15_2,), rows, tried)


@given(rows_of(st.integers(-(2**63), 2**63 - 1)))
@QUICK
def test_casts_of_integers(rows: list[Any]) -> None:
    check(cast_to(INT), (BIGINT,), rows, lambda a: bounded(a, INT))
    check(cast_to(DECIMAL(20, 1)), (BIGINT,), rows, lambda a: a * 10)
    check(cast_to(STRING), (BIGINT,), rows, str)
    check(cast_to(DOUBLE), (BIGINT,), rows, float)
    check(cast_to(BOOLEAN), (BIGINT,), rows, bool)


@given(rows_of(st.one_of(st.floats(-1e12, 1e12), st.just(math.nan))))
@QUICK
def test_casts_of_floats(rows: list[Any]) -> None:
    def whole(a: float) -> int:
        if math.isnan(a):
            raise NumericOutOfRange("reference")
        return bounded(round(a), INT)

    check(cast_to(INT), (DOUBLE,), rows, whole)


TEXTS: dict[DataType, list[tuple[str, Any]]] = {
    INT: [
        (" 12 ", 12),
        ("-7", -7),
        ("12.5", DataError),
        ("", DataError),
        ("99999999999", DataError),
        ("1_0", DataError),
    ],
    D15_2: [("1.255", 126), ("-0.5", -50), ("1e2", 10000), ("x", DataError), ("nan", DataError)],
    DOUBLE: [("1.5", 1.5), ("1e-3", 0.001), ("abc", DataError)],
    DATE: [("2024-02-29", 19782), ("2023-02-29", DataError), ("today", DataError)],
    TIMESTAMP: [("1970-01-01 00:00:01.5", 1_500_000), ("1970-01-02", 86_400_000_000), ("x", DataError)],
    BOOLEAN: [("true", True), ("F", False), ("maybe", DataError)],
}


@pytest.mark.parametrize("type_", list(TEXTS), ids=str)
def test_casts_of_texts(type_: DataType) -> None:
    good = [(text,) for text, value in TEXTS[type_] if value is not DataError] + [(None,)]
    expected = dict(TEXTS[type_])
    check(cast_to(type_), (STRING,), good, lambda a: expected[a])
    everything = [(text,) for text, _ in TEXTS[type_]]
    check(cast_to(type_, safe=True), (STRING,), everything, lambda a: None if expected[a] is DataError else expected[a])
    for text, value in TEXTS[type_]:
        if value is DataError:
            with pytest.raises(DataError, match=r"is not a value of type|is out of range"):
                evaluate(cast_to(type_)(Column(STRING, True, 0)), [Column(STRING, True, 0)], forms(STRING, [text])[-1:])


def test_spelling_of_values() -> None:
    check(cast_to(STRING), (DOUBLE,), [(1.0,), (0.1,), (1e20,), (math.nan,), (None,)], spelt_float)
    check(cast_to(STRING), (BOOLEAN,), [(True,), (False,), (None,)], lambda a: "true" if a else "false")
    check(cast_to(STRING), (DATE,), [(0,), (19782,)], lambda a: date_of(a).isoformat())
    moments_spelt = {1_500_000: "1970-01-01 00:00:01.5", 0: "1970-01-01 00:00:00"}
    check(cast_to(STRING), (TIMESTAMP,), [(1_500_000,), (0,)], moments_spelt.__getitem__)


def spelt_float(a: float) -> str:
    return {1.0: "1", 0.1: "0.1", 1e20: "1e+20"}.get(a, "NaN")


def test_a_varchar_is_cut_by_a_cast() -> None:
    check(cast_to(DataType(STRING.kind, length=2)), (STRING,), [("éab",), ("a",), (None,)], lambda a: a[:2])


# ---- work that must not happen -------------------------------------------------------------------------------------


def test_a_dictionary_entry_that_no_row_has_cannot_fail() -> None:
    dictionary = pa.array(["1", "2", "x"])
    vector = Dict(STRING, np.array([0, 1, 0, 1], np.uint8), dictionary)
    columns = [Column(STRING, True, 0)]
    assert evaluate(Cast(INT, True, columns[0]), columns, [vector]) == [1, 2, 1, 2]


def test_an_expression_over_a_dictionary_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = text_kernels.match
    monkeypatch.setattr(text_kernels, "match", lambda texts, *rest: seen.append(len(texts)) or original(texts, *rest))
    dictionary = pa.array(["PROMO A", "STANDARD B"])
    column = Column(STRING, True, 0)
    run = Compiler([column]).compile(Call(BOOLEAN, True, "like", (column, Literal(STRING, False, "%A_B%x"))))
    for _ in range(3):
        run(Batch([Dict(STRING, np.zeros(5000, np.uint8), dictionary)], 5000))
    assert seen == [3]  # both entries and the NULL, once


def test_a_filter_reads_no_column_that_an_earlier_condition_made_needless() -> None:
    def unreadable(_: Any) -> Vector:
        raise AssertionError("this column was not to be read")

    columns = [Column(INT, True, 0), Column(STRING, True, 1)]
    never = Call(BOOLEAN, True, "lt", (columns[0], Literal(INT, False, 0)))
    costly = Call(BOOLEAN, True, "like", (columns[1], Literal(STRING, False, "%x%y%")))
    condition = Compiler(columns).condition(Call(BOOLEAN, True, "and", (costly, never)))
    batch = Batch([Flat(INT, np.arange(10, dtype=np.int32)), LazyColumn(unreadable)], 10)
    assert condition.select(batch).length == 0


@given(st.lists(maybe(wide), min_size=1, max_size=6))
@QUICK
def test_physical_values_make_vectors(values: list[int | None]) -> None:
    assert python_values(from_physical(D30_5, values)) == values
